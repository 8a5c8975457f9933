"""What prompts share, and what of it a server's prefix cache showed."""

from core.facts import Code
from core.prose.figures import Figures, Sentence
from core.units import count, percent
from core.workloads import Prefix

_UNSEEN = "neither the server's counters nor its answers tell it"


def prefix(asked: Prefix) -> str:
    """What prompts have in common, in words."""
    if asked.kind == "shared":
        groups = "one group" if asked.groups == 1 else f"each of {count(asked.groups, 'group')}"
        return f"{count(asked.tokens, 'token')} shared within {groups}"
    words = {"cold": "cold prompts", "turns": "earlier turns cached", "trace": "prefixes shared as in the trace"}
    return words[asked.kind]


def prefix_brief(asked: Prefix) -> str:
    """The same for a header."""
    if asked.kind == "shared":
        return f"{asked.tokens} shared by {count(asked.groups, 'group')}"
    return prefix(asked) if asked.kind == "turns" else asked.kind


def hits(hit_frac: float | None, planned_frac: float | None) -> str:
    """The prefix hits that a server showed, beside those that were planned."""
    shown = "prefix hits not known" if hit_frac is None else f"prefix hits {percent(hit_frac, 2)}"
    return shown if planned_frac is None else f"{shown} (planned {percent(planned_frac, 2)})"


def _hits_off(f: Figures) -> str:
    hit, planned, shared, kv = f["hit_frac"], f["planned_frac"], f.known("shared_tokens"), f.known("kv_tokens")
    who = "counters show" if f["counted"] else "answers tell"
    told = f"the server's {who} {percent(hit, 2)} of prompt tokens from the prefix cache, {percent(planned, 2)} were planned"
    if hit > planned:
        return f"{told}; prompts have more in common than was asked for (a system prompt of the server's?)"
    if shared is None or kv is None:
        return f"{told}; the KV cache is probably too small to keep the prefixes"
    room = f"the prefixes take {count(round(shared))} of the {count(round(kv), 'token')} that the KV cache holds"
    return f"{told}; prefixes were probably evicted: {room}"


def _turns_hits_off(f: Figures) -> str:
    who = "counters show" if f["counted"] else "answers tell"
    hit, planned = f["hit_frac"], f["planned_frac"]
    told = f"the server's {who} {percent(hit, 2)} of prompt tokens from the prefix cache, {percent(planned, 2)} were planned"
    if hit > planned:
        return f"{told}; conversations have more in common than their own turns (a system prompt?)"
    return f"{told}: earlier turns were evicted before the next one came, or the chat template writes answers in another way"


def _trace_hits_off(f: Figures) -> str:
    hit, planned, kv = f["hit_frac"], f["planned_frac"], f.known("kv_tokens")
    who = "counters show" if f["counted"] else "answers tell"
    told = (
        f"the server's {who} {percent(hit, 2)} of prompt tokens from the prefix cache, and a cache that forgets nothing would have "
        f"had {percent(planned, 2)}"
    )
    if hit > planned:
        return f"{told}; prompts have more in common than the trace names (a system prompt of the server's?)"
    room = "" if kv is None else f" (it holds {count(round(kv), 'token')})"
    return (
        f"{told}; the KV cache{room} was probably too small to keep the blocks until they came again, or in the sped-up recording "
        "they came again before they were computed"
    )


def _shared(f: Figures) -> str:
    groups = "One group shares" if f.n("groups") == 1 else f"Each of {count(f.n('groups'), 'group')} shares"
    return f"{groups} {count(f.n('tokens'), 'prompt token')}"


def _shown(f: Figures) -> str:
    return (
        f"{percent(f['hit_frac'], 2)} of our prompt tokens came from the prefix cache, {percent(f['planned_frac'], 2)} were planned"
    )


def _shared_unproven(f: Figures) -> str:
    planned = "" if f.known("planned_frac") is None else f" ({percent(f['planned_frac'], 2)} of their tokens planned)"
    return f"{_shared(f)}; whether prompts hit the prefix cache{planned} is not known: {_UNSEEN}"


def _prefixes_sent(f: Figures) -> str:
    tokens, groups = count(f.n("tokens"), "token"), f.n("groups")
    what = f"the shared prefix of {tokens}" if groups == 1 else f"the {count(groups)} shared prefixes of {tokens}"
    return f"Sending {what} once, so that the prefix cache has {'it' if groups == 1 else 'them'} before the load"


SENTENCES: dict[Code, Sentence] = {
    "hits_off": _hits_off,
    "hits_unseen": lambda f: f"prompts share prefixes, and whether they were hits is not known: {_UNSEEN}",
    "shared_as_planned": lambda f: f"{_shared(f)}: {_shown(f)}",
    "shared_off_plan": lambda f: f"{_shared(f)}, but {_shown(f)}; a repeat that is so far off does not count",
    "shared_unproven": _shared_unproven,
    "shared_uncached": lambda f: (
        "The server caches no prefixes (enable_prefix_caching is off), so shared ones save it nothing; turn it on, or use "
        "--prefix cold"
    ),
    "prefixes_sent": _prefixes_sent,
    "trace_shared": lambda f: (
        f"prompts share prefixes as recorded, in blocks of {count(f.n('block_tokens'), 'token')}: {percent(f['whole_frac'], 2)} of "
        "all prompt tokens were in a prompt before; each repeat begins without any, so that its share is its own"
    ),
    "trace_hits_off": _trace_hits_off,
    "turns_hits_off": _turns_hits_off,
}

"""Why a repeat does not count."""

import math

from core.facts import Code
from core.prose.figures import Figures, Sentence
from core.units import as_set, classes, count, duration, latency, percent, plain, rate_text

_CLIENT, _MORE_CPU = "the client, not the server", "give the client more CPU"
_DUST = 1e-9
_NAMED = 3
"""Replicas whose names are said."""
_OR_ANOTHER = "; since no request broke, its metrics may be of one of several replicas behind a gateway: name those with --replica"
AWAY = {
    "asked": "single requests without load failed too",
    "restarted": "it restarted meanwhile",
    "unread": "its metrics failed together with the requests",
    "lost": "it does not answer a plain GET either",
}


def _client_late(f: Figures) -> str:
    late = f"one send in a hundred was late by {latency(f['late_p99_s'])} or more"
    return f"{_CLIENT}: {late}, the limit is {duration(f['limit_s'])}; {_MORE_CPU}"


def _client_stalled(f: Figures) -> str:
    how_often = f"{f.n('over')} of {f.n('reports')} reports ({latency(f['worst_s'])} at worst)"
    return f"{_CLIENT}: it stalled for more than {duration(f['limit_s'])} in {how_often}; {_MORE_CPU}"


def _too_few_requests(f: Figures) -> str:
    target = f["target"]
    return (
        f"no miss is allowed: the window has only {count(f.n('planned'), 'request')}, and a target of {plain(target)} allows one "
        f"miss in {count(math.ceil(1 / (1 - target) - _DUST))}; measure longer"
    )


def _in_brackets(f: Figures) -> str:
    return f" ({said})" if (said := f.word("said")) else ""


def words(f: Figures) -> str:
    """How requests ended that nobody served: in the server's words, or by the names of their endings."""
    return f.word("said") or classes(f.counts("endings")) or "a single request was not answered"


def _lengths(f: Figures, what: str) -> str:
    return f"{what} averaged {as_set(f['tokens_mean'], 4)} tokens where {as_set(f['asked_mean'], 4)} were asked for"


def _answer_outran(f: Figures) -> str:
    one = f"one had {count(f.n('tokens'), 'token')} when it was cut off, where {count(f.n('asked'))} were asked for"
    return f"answers ran longer than asked: {one}; longer ones make the server look slow"


def _tokens_in_clumps(f: Figures) -> str:
    which = f"{count(f.n('clumped'))} of {count(f.n('answers'), 'answer')}"
    return f"tokens arrive in clumps ({which}), so TPOT cannot be judged: a proxy or a busy API process holds them back"


def _nothing_planned(f: Figures) -> str:
    window = f"{duration(f['measure_s'])} at {rate_text(f['rate_rps'])}"
    return f"no request was planned in the window ({window}): measure longer or at a higher rate"


def _recorded_lull(f: Figures) -> str:
    window = f"{duration(f['measure_s'])} at {rate_text(f['rate_rps'])}"
    came = f"{count(f.n('planned'), 'request')} in a window ({window}) that stands for {count(round(f['expected']))}"
    return f"the recording has a lull here, {came}: take a busier part of it, such as --trace-window 10m@busiest"


def _server_frozen(f: Figures) -> str:
    silent = f"the server accepts requests but has produced nothing for {duration(f['silent_s'])}"
    return f"{silent}; it is frozen or its engine is dead, which is not a capacity limit"


def _replicas_changed(f: Figures) -> str:
    """Its `of` are the names of those that came, went or restarted."""
    names = replica_names(f)
    if f.n("before") != f.n("after"):
        return f"replicas came or went during the repeat: {f.n('before')} at its begin, {f.n('after')} at its end ({names})"
    if f.n("restarted") == len(f.of):
        return f"{names} restarted during the repeat, of {count(f.n('after'), 'replica')} behind the gateway"
    return f"not all of {count(f.n('after'), 'replica')} were there during the whole repeat ({names})"


def replica_names(f: Figures) -> str:
    """The names of replicas that a fact is about; of many the first."""
    more = len(f.of) - _NAMED
    return ", ".join(f.of[:_NAMED]) + (f" and {count(more)} more" if more > 0 else "")


SENTENCES: dict[Code, Sentence] = {
    "client_late": _client_late,
    "client_late_once": lambda f: (
        f"{_CLIENT}: a send was late by {latency(f['late_max_s'])}, more than the TTFT limit itself; {_MORE_CPU}"
    ),
    "client_stalled": _client_stalled,
    "client_unsent": lambda f: f"{_CLIENT}: {count(f.n('requests'), 'planned request')} could not be sent",
    "client_failed": lambda f: f"{_CLIENT}: {count(f.n('requests'), 'request')} failed on this machine{_in_brackets(f)}",
    "too_few_requests": _too_few_requests,
    "refusals": lambda f: f"{count(f.n('requests'), 'request')} were refused for a reason other than load{_in_brackets(f)}",
    "warm_prompts": lambda f: (
        f"prompts were not cold: {percent(f['hit_frac'])} of their tokens came from the prefix cache, "
        f"the limit is {plain(f['limit_frac'])}"
    ),
    "short_answers": lambda f: (
        f"{_lengths(f, 'answers')}; shorter ones flatter the server (finish reasons: {classes(f.counts('finish_reasons'))})"
    ),
    "long_answers": lambda f: f"{_lengths(f, 'answers')}; longer ones make the server look slow",
    "answer_outran": _answer_outran,
    "prompt_length_off": lambda f: _lengths(f, "prompts"),
    "server_restarted": lambda f: f"the server restarted during the repeat{_OR_ANOTHER if 'unbroken' in f else ''}",
    "replicas_changed": _replicas_changed,
    "others_took_part": lambda f: (
        f"others used the server: at least {count(round(f['others']), 'request')} besides our {count(f.n('ours'))}"
    ),
    "tokens_in_clumps": _tokens_in_clumps,
    "tpot_undecidable": lambda f: "TPOT is the only limit, and no answer has a TPOT to judge",
    "nothing_planned": _nothing_planned,
    "recorded_lull": _recorded_lull,
    "server_frozen": _server_frozen,
    "server_lost": lambda f: "the server was lost: connections break, and it does not answer a plain GET either",
    "server_away": lambda f: "; ".join((f"the server was away: {words(f)}", *f.of, AWAY[f.word("seen") or ""])),
}

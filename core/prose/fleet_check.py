"""What is said of a fleet that is held against one of its replicas."""

from core.facts import Code
from core.prose.figures import Figures, Sentence
from core.units import as_set, count, duration, percent, rate_number, rate_text

_PLANNED = {"holds": "holds", "fails": "does not hold", "not_known": "was not judged"}


def _planned(f: Figures) -> str:
    return f"the planned load of {rate_text(f['planned_rps'])} {_PLANNED[f.word('planned') or '']}"


def _router(f: Figures) -> str:
    """What the gateway made of it: who got more than an even share, and what became of prefix hits."""
    share, hits, one = f.known("busiest_share"), f.known("hit_frac"), f.known("hit_frac_one")
    parts = []
    if share is not None and f.n("replicas") > 1:
        parts.append(f"the busiest got {as_set(share, 2)} times its share")
    if hits is not None and one is not None:
        parts.append(f"prefix hits {percent(hits, 2)} of the prompts' tokens, {percent(one, 2)} on one replica")
    return "".join(f"; {part}" for part in parts)


def _replicas(f: Figures, verb: str) -> str:
    n = f.n("replicas")
    return f"{count(n, 'replica')} {verb}{'s' if n == 1 else ''}"


def _holds(f: Figures) -> str:
    held = f"{_replicas(f, 'hold')} {rate_number(f['holds_rps'])} of {rate_text(f['full_rps'])}: {percent(f['ratio'])}"
    return f"{_planned(f)}; {held}{_router(f)}"


def _holds_none(f: Figures) -> str:
    fails_rps = f.known("fails_rps")
    lowest = "" if fails_rps is None else f", and the lowest rate tried, {rate_text(fails_rps)}, fails"
    return f"{_planned(f)}; {_replicas(f, 'hold')} none of the rates tried{lowest}{_router(f)}"


def _unread(f: Figures) -> str:
    unread, replicas = f.n("unread"), f.n("replicas")
    which = "The replica cannot be read" if replicas == 1 else f"{count(unread)} of {count(replicas, 'replica')} cannot be read"
    return f"{which}, and no load was sent. {f.word('name')} {f.word('said')}"


def _changed(f: Figures) -> str:
    now, before = f.n("now"), f.n("before")
    seen = "others answer now" if now == before else f"{count(now)} {_answer(now)} now"
    return f"No answer: the fleet changed, {count(before, 'replica')} before and {seen}. Keep it as it is, then run again"


def _after_loss(f: Figures) -> str:
    lost, left = f.n("lost"), f.n("left")
    verb = {"pass": "still holds", "fail": "does not hold", "mixed": "does not hold"}.get(f.word("verdict") or "", "was not judged")
    return f"with {count(lost)} lost and {count(left)} left, the planned load {verb}"


def _lose_failed(f: Figures) -> str:
    code = f.known("exit_code")
    how = f"did not end within {duration(f['within_s'])}" if code is None else f"ended with exit code {round(code)}"
    return f"the command given with --lose-command {how}"


def _without_effect(f: Figures) -> str:
    left = f.n("left")
    after = f"{duration(f['within_s'])} after the command given with --lose-command"
    return f"{after} {count(left, 'replica')} still {_answer(left)}; {count(f.n('lost'))} should be gone"


def _lost_others(f: Figures) -> str:
    left, expected = f.n("left"), f.n("expected")
    were = "was" if expected == 1 else "were"
    after = f"{count(left, 'replica')} {_answer(left)} after the command given with --lose-command"
    return f"{after}, where {count(expected)} of those before {were} to be left"


def _loses(f: Figures) -> str:
    return f"the command given with --lose-command takes {count(f.n('lost'))} of {count(f.n('replicas'), 'replica')} away"


def _answer(n: int) -> str:
    return "answers" if n == 1 else "answer"


SENTENCES: dict[Code, Sentence] = {
    "fleet_holds": _holds,
    "fleet_holds_none": _holds_none,
    "fleet_full_not_tried": lambda f: (
        f"{rate_text(f['full_rps'])}, what the replicas would hold one by one, was not tried: "
        + (f"--max-rps allows {rate_number(f['max_rps'])}" if f.known("max_rps") is not None else "no single client sends that")
    ),
    "time_up_fleet": lambda f: f"the time is up, so {rate_text(f['rate_rps'])} was not tried; give a longer --budget",
    "fleet_unread": _unread,
    "fleet_changed": _changed,
    "fleet_unseen": lambda f: f"No answer: {f.of[0]}. Name all replicas behind the gateway, and no others, then run again",
    "fleet_loses": _loses,
    "fleet_lost": lambda f: f"{count(f.n('left'), 'replica')} left, {duration(float(round(f['after_s'])))} after the command ended",
    "fleet_after_loss": _after_loss,
    "fleet_loss_not_judged": lambda f: f"whether it holds after a loss is not known: {f.of[0]}",
    "lose_failed": _lose_failed,
    "lose_without_effect": _without_effect,
    "lost_others": _lost_others,
}

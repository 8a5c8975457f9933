"""A run judged again under other limits: what is decided by them, and why something is not."""

from core.facts import Code
from core.prose.figures import Figures, Sentence
from core.units import between, count, rate_number, rate_text


def _undecided(f: Figures) -> str:
    low, high, target = f["low_frac"], f["high_frac"], f["target"]
    sent = f"its load was stopped when {count(f.n('sent'))} of {count(f.n('planned'), 'request')} were sent"
    if f.n("sent") == f.n("planned"):
        sent = "its load was stopped before all requests had ended"
    return f"attainment {between(low, high, target)}: {sent}"


def _bracket(f: Figures) -> str:
    pass_rps, fail_rps = f.known("pass_rps"), f.known("fail_rps")
    if pass_rps is None and fail_rps is not None:
        return (
            f"by these limits no measured rate holds: the knee is below {rate_text(fail_rps)}, and how far below was not measured"
        )
    if fail_rps is None:
        first_rps = f.known("first_fail_rps")
        fails = "no measured rate fails" if first_rps is None else f"{rate_text(first_rps)} failed, but not for sure"
        return f"by these limits it holds at {rate_text(pass_rps or 0.0)}, and {fails}: how much more it holds was not measured"
    return f"by these limits it holds at {rate_text(pass_rps or 0.0)} and {_clearly(f)}fails at {rate_text(fail_rps)}"


def _clearly(f: Figures) -> str:
    return "clearly " if f["clearly"] else ""


def _not_decided(f: Figures) -> str:
    *rates, last = map(rate_number, f.numbers("rates_rps"))
    return f"Not decided: {', '.join(rates)}{' and ' if rates else ''}{last} requests/s, as load there was cut short"


SENTENCES: dict[Code, Sentence] = {
    "again_undecided": _undecided,
    "again_void": lambda f: f"would not count by these limits: {f.of[0]}",
    "again_few_repeats": lambda f: (
        f"{f.n('judged')} of {count(f.n('planned'), 'repeat')} {'was' if f.n('judged') == 1 else 'were'} run, which was enough "
        "by the old limits"
    ),
    "again_ramp_undecided": lambda f: "the ramp was stopped by the old limits before a rate failed by these",
    "again_bracket": _bracket,
    "again_infeasible": lambda f: f"by these limits no rate holds: {f.of[0]}",
    "again_nothing": lambda f: "the stored requests decide nothing by these limits; measure with kneescope probe",
    "again_not_decided": _not_decided,
}

"""Whether a run meets what a pipeline asks of it: that it holds a rate, or that it lost no more than so much against an older run.

Pure: from what is known of one or two runs to a verdict with its facts. Nothing is estimated: between the rate that holds and the
one that fails nothing is known, and that is an answer of its own.
"""

from collections.abc import Iterator
from typing import Literal

import msgspec

from core.compare import LIMITS, WORKLOAD, Side
from core.errors import UserError
from core.facts import Fact, Figure, Said, fact, in_turn
from core.results import FailCount, Outcome

Verdict = Literal["met", "not_met", "not_known"]
Asked = Literal["against", "require_rps"]

MAX_DROP_FRAC = 0.1
_WORST: tuple[Verdict, ...] = ("met", "not_known", "not_met")
_ANSWERED: tuple[Outcome, ...] = ("bracket", "at_least", "below", "infeasible")
_DUST = 1e-9


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was asked, and what is known of it."""

    asked: Asked
    verdict: Verdict
    why: Said


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """What became of all that was asked: the worst of it counts, not met before not known."""

    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> Verdict:
        """The worst of all."""
        return max((each.verdict for each in self.findings), key=_WORST.index)

    @property
    def message(self) -> Said:
        """All that was found, each a sentence."""
        return in_turn(*(each.why for each in self.findings))


def answered(run: Side) -> bool:
    """Whether it says anything of the knee: a held rate does not, nor does a run that was ended before."""
    return run.outcome in _ANSWERED


def fail_rps(run: Side) -> float | None:
    """The lowest rate that surely fails: the clear fail, or the upper end, above which the windows leave nearly nothing for the
    knee (standard mode seldom reads a failing rate often enough for a clear fail). In quick mode the first fail, unless
    the run itself takes no rate for an upper end. 0 where single requests miss the limits; None where nothing surely failed."""
    knee = run.knee
    if run.outcome == "infeasible":
        return 0.0
    if run.asked["mode"] == "quick":
        return None if knee.open_above else knee.first_fail_rps
    sure = (knee.clear_fail_rps, knee.upper_rps, knee.first_fail_rps if _clear(knee.first_fail) else None)
    return min((rate for rate in sure if rate is not None), default=None)


def check(new: Side, *, require_rps: float | None = None, old: Side | None = None, max_drop_frac: float = MAX_DROP_FRAC) -> Checked:
    """Hold a run against a rate (in requests/s), or against an older run, or both.

    Raises UserError where nothing is asked, and for a drop that leaves nothing.
    """
    if require_rps is None and old is None:
        raise UserError("Nothing is asked: give --require-rps R, or --against OLD.")
    if not 0 <= max_drop_frac < 1:
        raise UserError("--max-drop must be at least 0 and below 100%.")
    findings = []
    if old is not None:
        findings.append(_against(new, old, max_drop_frac))
    if require_rps is not None:
        findings.append(_required(new, require_rps))
    return Checked(findings=tuple(findings))


def _required(new: Side, rate_rps: float) -> Finding:
    if not answered(new):
        return _found("require_rps", "not_known", _no_answer(new, of_old=False))
    pass_rps, failing_rps = new.low_rps, fail_rps(new)
    if new.asked["require_rps"] == rate_rps and new.required_met is not None:  # by repeats of its own
        pass_rps, failing_rps = (rate_rps, None) if new.required_met else (None, rate_rps)
    if pass_rps is not None and _reaches(pass_rps, rate_rps):
        return _found("require_rps", "met", fact("check_rate_met", rate_rps=rate_rps, pass_rps=pass_rps))
    if failing_rps is not None and _reaches(rate_rps, failing_rps):
        return _found("require_rps", "not_met", fact("check_rate_not_met", rate_rps=rate_rps, fail_rps=failing_rps))
    return _found(
        "require_rps", "not_known", fact("check_rate_not_known", rate_rps=rate_rps, pass_rps=pass_rps, fail_rps=failing_rps)
    )


def _against(new: Side, old: Side, max_drop_frac: float) -> Finding:
    unanswered = [(run, of_old) for run, of_old in ((old, True), (new, False)) if not answered(run)]
    if unanswered:
        return _found("against", "not_known", *(_no_answer(run, of_old=of_old) for run, of_old in unanswered))
    if differing := tuple(_differences(new, old)):
        return _found("against", "not_known", *differing)
    pass_rps, failing_rps, was_rps = new.low_rps, fail_rps(new), old.low_rps
    if was_rps is None:
        return _against_none(pass_rps, fail_rps(old))
    least_rps = (1 - max_drop_frac) * was_rps
    figures: dict[str, Figure] = {"old_pass_rps": was_rps, "least_rps": least_rps, "max_drop_frac": max_drop_frac}
    if pass_rps is not None and _reaches(pass_rps, least_rps):
        return _found("against", "met", fact("check_drop_met", pass_rps=pass_rps, **figures))
    if failing_rps is not None and _reaches(least_rps, failing_rps):
        return _found("against", "not_met", fact("check_drop_not_met", fail_rps=failing_rps, **figures))
    return _found("against", "not_known", fact("check_drop_not_known", pass_rps=pass_rps, fail_rps=failing_rps, **figures))


def _against_none(pass_rps: float | None, was_failing_rps: float | None) -> Finding:
    """Against a run without a rate that held: one that holds what failed there has lost nothing, whatever held there."""
    if pass_rps is not None and was_failing_rps is not None and _reaches(pass_rps, was_failing_rps):
        return _found("against", "met", fact("check_old_failed", pass_rps=pass_rps, old_fail_rps=was_failing_rps))
    return _found("against", "not_known", fact("check_old_holds_none", old_fail_rps=was_failing_rps))


def _found(asked: Asked, verdict: Verdict, *why: Fact) -> Finding:
    return Finding(asked=asked, verdict=verdict, why=in_turn(*why))


def _no_answer(run: Side, *, of_old: bool) -> Fact:
    return fact("check_no_answer", of_old=of_old, outcome=run.outcome)


def _differences(new: Side, old: Side) -> Iterator[Fact]:
    """What the two runs were asked differently that a comparison of them cannot stand, and the mode."""
    for name in (*LIMITS, *WORKLOAD):
        yield from _differs(name, new.asked[name], old.asked[name])
    yield from _differs("mode", _mode(new), _mode(old))


def _differs(what: str, now: Figure, then: Figure) -> Iterator[Fact]:
    if now != then:
        yield fact("check_differs", what=what, new=now, old=then)


def _mode(run: Side) -> str:
    return f"{run.asked['mode']} --careful" if run.asked["careful"] else str(run.asked["mode"])


def _clear(count: FailCount | None) -> bool:
    """A rate of a list is judged to its end: there the first fail is clear by the same count as a clear fail."""
    return count is not None and count.failed >= 2 and 2 * count.failed >= count.run


def _reaches(rate_rps: float, least_rps: float) -> bool:
    """At least so much: a product of shares has dust in its last digits."""
    return rate_rps >= least_rps * (1 - _DUST)

"""Whether a run meets what a pipeline asks of it: that it holds a rate, or that it lost no more than so much against an older run.

Pure: from what is known of one or two runs to a verdict with its facts. Nothing is estimated: between the rate that holds and the
one that fails nothing is known, and that is an answer of its own.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

from core.config import Method, Slo
from core.errors import UserError
from core.facts import Fact, Figure, Said, fact, in_turn
from core.results import FailCount, Knee, Outcome

Verdict = Literal["met", "not_met", "not_known"]
Asked = Literal["against", "require_rps"]

MAX_DROP_FRAC = 0.1
_WORST: tuple[Verdict, ...] = ("met", "not_known", "not_met")
_ANSWERED: tuple[Outcome, ...] = ("bracket", "at_least", "below", "infeasible")
_LIMITS = ("ttft_s", "tpot_s", "e2e_s", "target", "max_error_rate")
_WORKLOAD = (
    "api",
    "input_tokens",
    "output_tokens",
    "mix",
    "source",
    "length_correlation",
    "stop",
    "prefix",
    "arrivals",
    "arrival_cv",
    "trace",
    "gateway",
    "retry_after",
)
"""What makes requests other ones. Of two results that were written by different versions only what both tell is compared."""
_DUST = 1e-9


class Required(msgspec.Struct, frozen=True, kw_only=True):
    """A rate that the run itself had to judge, and whether it passed; None while it was not judged."""

    rate_rps: float
    met: bool | None


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """What a check needs of a run, by the keys of the result file (docs/result.md): its answer, and what it is an answer to."""

    outcome: Outcome
    knee: Knee
    slo: Slo | None = None
    workload: dict[str, Any] | None = None
    method: Method | None = None
    required: Required | None = None

    @property
    def answered(self) -> bool:
        """Whether it says anything of the knee: a held rate does not, nor does a run that was ended before."""
        return self.outcome in _ANSWERED and self.slo is not None and self.workload is not None and self.method is not None

    @property
    def pass_rps(self) -> float | None:
        """The highest rate that holds; None where none does."""
        return None if self.outcome == "infeasible" else self.knee.pass_rps

    @property
    def fail_rps(self) -> float | None:
        """The lowest rate that surely fails: the clear fail, or the upper end, above which the windows leave nearly nothing for the
        knee (standard mode seldom reads a failing rate often enough for a clear fail). In quick mode the first fail, unless
        the run itself takes no rate for an upper end. 0 where single requests miss the limits; None where nothing surely failed."""
        knee = self.knee
        if self.outcome == "infeasible":
            return 0.0
        if self.method is None or self.method.mode == "quick":
            return None if knee.open_above else knee.first_fail_rps
        sure = (knee.clear_fail_rps, knee.upper_rps, knee.first_fail_rps if _clear(knee.first_fail) else None)
        return min((rate for rate in sure if rate is not None), default=None)


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


def known(data: Mapping[str, Any], name: str) -> Known:
    """What a result file says, read from its keys. `name`: of the file, for the refusal. Raises UserError for another object."""
    if data.get("kind", "probe") != "probe" or "outcome" not in data:
        raise UserError(f"{name} is not the result of a probe; give a run file, or what probe, demo or report wrote with --json.")
    try:
        return msgspec.convert(data, Known)
    except (msgspec.ValidationError, UserError, RecursionError) as error:
        raise UserError(f"{name} is not what kneescope wrote ({error}): the file was changed or damaged.") from None


def check(
    new: Known, *, require_rps: float | None = None, old: Known | None = None, max_drop_frac: float = MAX_DROP_FRAC
) -> Checked:
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


def _required(new: Known, rate_rps: float) -> Finding:
    if not new.answered:
        return _found("require_rps", "not_known", _no_answer(new, of_old=False))
    pass_rps, fail_rps, judged = new.pass_rps, new.fail_rps, new.required
    if judged is not None and judged.rate_rps == rate_rps and judged.met is not None:  # by repeats of its own
        pass_rps, fail_rps = (rate_rps, None) if judged.met else (None, rate_rps)
    if pass_rps is not None and _reaches(pass_rps, rate_rps):
        return _found("require_rps", "met", fact("check_rate_met", rate_rps=rate_rps, pass_rps=pass_rps))
    if fail_rps is not None and _reaches(rate_rps, fail_rps):
        return _found("require_rps", "not_met", fact("check_rate_not_met", rate_rps=rate_rps, fail_rps=fail_rps))
    return _found("require_rps", "not_known", fact("check_rate_not_known", rate_rps=rate_rps, pass_rps=pass_rps, fail_rps=fail_rps))


def _against(new: Known, old: Known, max_drop_frac: float) -> Finding:
    unanswered = [(run, of_old) for run, of_old in ((old, True), (new, False)) if not run.answered]
    if unanswered:
        return _found("against", "not_known", *(_no_answer(run, of_old=of_old) for run, of_old in unanswered))
    if differing := tuple(_differences(new, old)):
        return _found("against", "not_known", *differing)
    pass_rps, fail_rps, was_rps = new.pass_rps, new.fail_rps, old.pass_rps
    if was_rps is None:
        return _against_none(pass_rps, old.fail_rps)
    least_rps = (1 - max_drop_frac) * was_rps
    figures: dict[str, Figure] = {"old_pass_rps": was_rps, "least_rps": least_rps, "max_drop_frac": max_drop_frac}
    if pass_rps is not None and _reaches(pass_rps, least_rps):
        return _found("against", "met", fact("check_drop_met", pass_rps=pass_rps, **figures))
    if fail_rps is not None and _reaches(least_rps, fail_rps):
        return _found("against", "not_met", fact("check_drop_not_met", fail_rps=fail_rps, **figures))
    return _found("against", "not_known", fact("check_drop_not_known", pass_rps=pass_rps, fail_rps=fail_rps, **figures))


def _against_none(pass_rps: float | None, was_failing_rps: float | None) -> Finding:
    """Against a run without a rate that held: one that holds what failed there has lost nothing, whatever held there."""
    if pass_rps is not None and was_failing_rps is not None and _reaches(pass_rps, was_failing_rps):
        return _found("against", "met", fact("check_old_failed", pass_rps=pass_rps, old_fail_rps=was_failing_rps))
    return _found("against", "not_known", fact("check_old_holds_none", old_fail_rps=was_failing_rps))


def _found(asked: Asked, verdict: Verdict, *why: Fact) -> Finding:
    return Finding(asked=asked, verdict=verdict, why=in_turn(*why))


def _no_answer(run: Known, *, of_old: bool) -> Fact:
    return fact("check_no_answer", of_old=of_old, outcome=run.outcome)


def _differences(new: Known, old: Known) -> Iterator[Fact]:
    """What the two runs were asked differently, in the order of the result file."""
    for name in _LIMITS:
        yield from _differs(name, getattr(new.slo, name), getattr(old.slo, name))
    now, then = new.workload or {}, old.workload or {}
    for name in _WORKLOAD:
        if name in now and name in then:
            yield from _differs(name, now[name], then[name])
    yield from _differs("mode", _mode(new.method), _mode(old.method))


def _differs(what: str, now: object, then: object) -> Iterator[Fact]:
    if now != then:
        yield fact("check_differs", what=what, new=_figure(now), old=_figure(then))


def _figure(value: object) -> Figure:
    """As it stands in a fact; what is no single value is not told."""
    return value if isinstance(value, float | int | str) else None


def _mode(method: Method | None) -> str | None:
    return None if method is None else f"{method.mode} --careful" if method.careful else method.mode


def _clear(count: FailCount | None) -> bool:
    """A rate of a list is judged to its end: there the first fail is clear by the same count as a clear fail."""
    return count is not None and count.failed >= 2 and 2 * count.failed >= count.run


def _reaches(rate_rps: float, least_rps: float) -> bool:
    """At least so much: a product of shares has dust in its last digits."""
    return rate_rps >= least_rps * (1 - _DUST)

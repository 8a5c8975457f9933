"""What the judged rates amount to: the knee as a bracket, the evidence behind each end, and the answer."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Self

from core.config import Method, Slo
from core.facts import Fact, Said, fact, several
from core.judge.search.posterior import Posterior, posterior_of
from core.judge.search.windows import windows_of
from core.judge.search.with_twin import ByTwin, with_twin
from core.modes import rules_of
from core.records import GATEWAY_ENDINGS, NO_ERRORS, Phase
from core.results import Answer, FailCount, Knee, KneeEstimate, Outcome, StepResult, TwinReading

DEFAULT_TARGET = Slo().target
FLIPS_EARLY_FROM = 10
"""So many repeats that all must pass make a search flip below the long-run knee."""
PASS_WEIGHT = 0.05
"""A passing rate is an end if the posterior leaves no more than this for a knee below it."""
QUICK_WEIGHT = 0.10
"""Of both ends in quick mode, which has two or three windows. Without it 18 % of the passing rates on the built-in replicas were
above the knee, and its first fail was often below it."""
UPPER_WEIGHT = 0.03
"""A failing rate is an upper end if the fit leaves no more than this for a knee above it. Before there was such a rule, in 24 % of
standard searches one failing repeat of two or three stood there, in a third of these below the knee. What both weights come to is
told in docs/method.md; where no rate is good enough the bracket is open above."""

_LOOKING: frozenset[Phase] = frozenset({"ramp", "search", "list"})
"""Phases whose fails are upper ends until a majority of repeats says more."""

_WHOLE: frozenset[Phase] = frozenset({"confirm", "tighten"})
"""Phases that read their windows to the end."""


class Bracket:
    """Collects what held and what failed. A rate that failed once counts as failing, and nothing above it as holding.

    `confirms`: only a step with all repeats of the mode may set the passing rate, and a search step says where to look. Otherwise
    (quick) each full step counts. The posterior may disqualify an end; what it allows differs by mode.
    """

    def __init__(
        self,
        *,
        confirms: bool = False,
        repeats: int = 1,
        required_rps: float | None = None,
        target: float = DEFAULT_TARGET,
    ) -> None:
        self._confirms, self._repeats, self._target = confirms, repeats, target
        self._required_rps = required_rps
        self._holding: frozenset[Phase] = frozenset({"confirm", "list"} if confirms else {"search", "list"})
        self._counting = self._holding | _WHOLE if confirms else self._holding
        self._read: frozenset[Phase] = _WHOLE if confirms else frozenset({"search"})
        self._pass_weight = PASS_WEIGHT if confirms else QUICK_WEIGHT
        self._upper_weight = UPPER_WEIGHT if confirms else QUICK_WEIGHT
        self._steps: list[StepResult] = []
        self._looks = False
        self._reading: TwinReading | None = None
        self._ramp_failed_rps: float | None = None

    @classmethod
    def of(cls, method: Method, steps: Iterable[StepResult] = (), *, target: float = DEFAULT_TARGET) -> Self:
        """The bracket of a run by `method`, from the steps judged so far."""
        rules = rules_of(method)
        confirms, repeats = rules.confirm is not None, rules.final.repeats
        bracket = cls(confirms=confirms, repeats=repeats, required_rps=method.require_rps, target=target)
        for step in steps:
            if step.phase == "ramp":
                bracket.add_ramp(step.rate_rps if step.verdict == "fail" else None)
            else:
                bracket.add_step(step)
        return bracket

    def add_ramp(self, failed_rps: float | None) -> None:
        """A failing segment of the ramp is an upper end; a passing one is evidence of nothing."""
        self._ramp_failed_rps = failed_rps

    def add_step(self, result: StepResult) -> None:
        """A judged step; one without a verdict (void, unjudged) is no evidence, and one of fewer replicas none of this bracket."""
        if result.verdict in ("pass", "fail", "mixed") and result.phase != "lost":
            self._steps.append(result)
            self._looks |= result.phase != "list"

    def add_twin(self, reading: TwinReading | None) -> None:
        """What a twin of the server shows by now, in place of what it showed before."""
        self._reading = reading

    # --- where to look next ---

    @property
    def coarse_failed_rps(self) -> float | None:
        """The lowest rate that failed before the confirmation."""
        ramp = [] if self._ramp_failed_rps is None else [self._ramp_failed_rps]
        return min([*ramp, *self._failed(_LOOKING)], default=None)

    @property
    def coarse_passed_rps(self) -> float | None:
        """The highest rate below it at which a full step passed."""
        return _highest_below(self._passed(_LOOKING), self.coarse_failed_rps)

    def fit(self) -> Posterior | None:
        """Where the knee is by all repeats, and by the twin where it explains them; None before a full step has passed and
        something failed."""
        windows = windows_of(self._steps, self._target)
        plain = posterior_of(windows, self._ramp_failed_rps)
        return None if plain is None else with_twin(plain, windows, self._reading)

    @property
    def by_twin(self) -> bool:
        """Whether a twin explains the windows well enough to help choose rates and guard ends."""
        return isinstance(self.fit(), ByTwin)

    def estimate(self) -> KneeEstimate | None:
        """An interval for the knee by the repeats alone; None where nothing says where it lies."""
        plain = posterior_of(windows_of(self._steps, self._target), self._ramp_failed_rps)
        return None if plain is None else plain.estimate()

    # --- the answer ---

    @property
    def failed_rps(self) -> float | None:
        """The lowest rate with a failing repeat."""
        return min(self._all_failed(), default=None)

    @property
    def passed_rps(self) -> float | None:
        """The highest rate that holds: every repeat that was run there passed, and they are as many as the mode asks for. Where
        none is sure to be below the knee, the lowest of them."""
        sure_rps = self.sure_rps
        return sure_rps if sure_rps is not None or self._guard is None else min(self._held(), default=None)

    @property
    def sure_rps(self) -> float | None:
        """The highest rate that holds for sure. Where the posterior says something, it leaves at most PASS_WEIGHT for a knee below
        it; where not, nothing below it failed. That is enough for a required rate, too: it was judged by more and longer windows
        than the posterior asks for, and its answer stands beside the bracket."""
        fit = self._guard
        if fit is None:
            return _highest_below(self._passed(self._holding), self.failed_rps)
        sure = [rate for rate in self._held() if fit.below(rate) <= self._pass_weight]
        required_rps = _highest_below(self._passed({"list"}), self.failed_rps)
        return max(sure if required_rps is None else [*sure, required_rps], default=None)

    def _held(self) -> list[float]:
        """Rates all of whose whole windows passed, as many as the mode asks for, and those of a list that passed."""
        return [rate for rate, have in self.passing.items() if have >= self._repeats] + self._passed({"list"})

    @property
    def passing(self) -> dict[float, int]:
        """The rates whose whole windows all passed, with how many these are."""
        windows: dict[float, list[str]] = {}
        for step in self._steps:
            if step.phase in self._read:
                windows.setdefault(step.rate_rps, []).extend(repeat.verdict for repeat in step.repeats)
        return {rate: verdicts.count("pass") for rate, verdicts in windows.items() if "fail" not in verdicts}

    @property
    def read_rps(self) -> tuple[float, ...]:
        """The rates at which a whole window was read."""
        return tuple(step.rate_rps for step in self._steps if step.phase in self._read)

    @property
    def _guard(self) -> Posterior | None:
        """The posterior where it may disqualify an end: once a search has looked for the knee. The few windows of quick mode say
        too little by their verdicts alone, as those of older files do."""
        if not self._looks:
            return None
        with_margins = any(repeat.slo_margin is not None for step in self._steps for repeat in step.repeats)
        return self.fit() if self._confirms or with_margins else None

    @property
    def clear_fail_rps(self) -> float | None:
        """The lowest rate of which most whole windows failed, at least two of them; None in quick mode, where only a list was
        judged, and as long as there is none."""
        return min((rate for rate, behind in self._whole().items() if _clearly(behind)), default=None) if self._confirms else None

    @property
    def upper_rps(self) -> float | None:
        """The upper end: the lowest failing rate above which the fit leaves at most the mode's weight for the knee; where
        nothing says where the knee lies, the first fail. None: open above."""
        failed_rps, fit, passed_rps = self.failed_rps, self._guard, self.passed_rps or 0.0
        if fit is None or failed_rps is None:
            return failed_rps
        sure = (rate for rate in self._mostly_failing() if rate > passed_rps and fit.above(rate) <= self._upper_weight)
        return min(sure, default=None)

    @property
    def searched(self) -> tuple[StepResult, ...]:
        """The full steps of the search."""
        return tuple(step for step in self._steps if step.phase == "search")

    @property
    def failed_steps(self) -> int:
        """How many full steps of the search have failed."""
        return len(self._failed({"search", "list"}))

    @property
    def unconfirmed_rps(self) -> float | None:
        """The lowest rate that passed a step of the search, if none was confirmed."""
        return None if self.passed_rps is not None else min(self._passed(_LOOKING), default=None)

    @property
    def broken(self) -> Fact | None:
        """How many requests ended in errors at the lowest failing rate, and in which, when most of those that ended did."""
        endings: Counter[str] = Counter()
        said, turned_away = None, 0
        for step in self._at(self.failed_rps):
            for repeat in step.repeats:
                endings.update({name: n for name, n in repeat.endings.items() if name not in ("aborted", "previous_failed")})
                turned_away += sum(repeat.endings.get(name, 0) for name in GATEWAY_ENDINGS)
                said = said or repeat.errors_said
        ended = sum(endings.values())
        errors = ended - endings["ok"] - turned_away
        if 2 * errors <= ended or self.failed_rps is None:
            return None
        return fact(
            "ended_in_errors",
            errors=errors,
            ended=ended,
            said=said,
            endings={name: n for name, n in endings.items() if name not in NO_ERRORS},
        )

    @property
    def required_met(self) -> bool | None:
        """Whether the required rate passed a full step of its own; None while it was not judged."""
        verdicts = [step.verdict for step in self._steps if step.phase == "list" and step.rate_rps == self._required_rps]
        return None if not verdicts else verdicts[-1] == "pass"

    def knee(self, notes: tuple[Said, ...] = (), *, estimated: bool = False) -> Knee:
        """The knee as far as it is known, with its notes and then those given; `estimated`: with the fitted interval, too."""
        passed_rps, failed_rps, clear_rps, upper_rps = self.passed_rps, self.failed_rps, self.clear_fail_rps, self.upper_rps
        pass_repeats = sum(
            repeat.verdict == "pass" for step in self._at(passed_rps) if step.phase in self._counting for repeat in step.repeats
        )
        return Knee(
            pass_rps=passed_rps,
            pass_repeats=pass_repeats,
            first_fail_rps=failed_rps,
            first_fail=self._counted(failed_rps),
            clear_fail_rps=clear_rps,
            clear_fail=None if clear_rps is None else self._clear_count(clear_rps),
            upper_rps=upper_rps,
            upper=self._clear_count(upper_rps) if upper_rps is not None and upper_rps == clear_rps else self._counted(upper_rps),
            open_above=failed_rps is not None and upper_rps is None,
            estimate=self.estimate() if estimated else None,
            notes=(*self._notes(passed_rps, pass_repeats, upper_rps), *notes),
        )

    # --- notes ---

    def _notes(self, passed_rps: float | None, pass_repeats: int, upper_rps: float | None) -> list[Fact]:
        notes: list[Fact] = []
        if (upper := self._upper_note(upper_rps)) is not None:
            notes.append(upper)
        if pass_repeats in (1, 2) and not self._confirms:
            notes.append(fact("one_repeat") if pass_repeats == 1 else fact("two_repeats"))
        if pass_repeats >= FLIPS_EARLY_FROM and self._confirms:
            notes.append(fact("flips_early", repeats=pass_repeats))
        elif pass_repeats > 1 and self._confirms and self._looks:
            notes.append(fact("min_of_windows", repeats=pass_repeats))
        return [*notes, *self._doubts(passed_rps)]

    def _doubts(self, passed_rps: float | None) -> list[Fact]:
        """What speaks against the passing rate: failing rates below it, or too thin a margin. Where the lowest failing rate is an
        end by itself, passes above it."""
        failed_rps = self.failed_rps
        below = [rate for rate in self._all_failed() if passed_rps is not None and rate < passed_rps]
        above = [rate for rate in self._passed(self._holding) if failed_rps is not None and rate > failed_rps]
        notes: list[Fact] = []
        if below and passed_rps is not None:
            notes.append(fact("not_monotone_pass", pass_rps=passed_rps, fail_rps=max(below)))
        elif above:
            notes.append(fact("not_monotone", pass_rps=max(above)))
        if passed_rps is not None and self.sure_rps is None:
            notes.append(fact("thin_margin", pass_rps=passed_rps))
        return notes

    def _upper_note(self, upper_rps: float | None) -> Fact | None:
        """What to know about the evidence behind the upper end, unless it fails clearly."""
        if self.failed_rps is None or (upper_rps is not None and upper_rps == self.clear_fail_rps):
            return None
        if upper_rps is None:
            return fact("open_above")
        behind = _fail_count(self._at(upper_rps))
        if behind.failed == 0:
            return fact("from_ramp")
        return fact("one_failing_step") if behind.run == 1 else None

    # --- pieces ---

    def _counted(self, rate_rps: float | None) -> FailCount | None:
        """The repeats of a failing rate; None where none of them failed, but the ramp did."""
        behind = _fail_count(self._at(rate_rps))
        return behind if behind.failed else None

    def _clear_count(self, rate_rps: float | None) -> FailCount:
        steps = self._at(rate_rps)
        return _fail_count([step for step in steps if step.phase in _WHOLE] or steps)

    def _at(self, rate_rps: float | None) -> list[StepResult]:
        return [step for step in self._steps if step.rate_rps == rate_rps]

    def _whole(self) -> dict[float, FailCount]:
        """The rates at which whole windows were read, with how many of these failed."""
        return {rate: _fail_count([step for step in self._at(rate) if step.phase in _WHOLE]) for rate in self.read_rps}

    def _passed(self, phases: Iterable[Phase]) -> list[float]:
        return [step.rate_rps for step in self._steps if step.phase in phases and step.verdict == "pass"]

    def _all_failed(self) -> list[float]:
        ramp = [] if self._ramp_failed_rps is None else [self._ramp_failed_rps]
        return [*ramp, *self._failed({"search", "confirm", "tighten", "list"})]

    def _mostly_failing(self) -> list[float]:
        """The rate that failed in the ramp, and those at which at least half of the repeats did."""
        ramp = [] if self._ramp_failed_rps is None else [self._ramp_failed_rps]
        counts = {step.rate_rps: _fail_count(self._at(step.rate_rps)) for step in self._steps}
        return ramp + [rate for rate, behind in counts.items() if behind.failed and 2 * behind.failed >= behind.run]

    def _failed(self, phases: Iterable[Phase]) -> list[float]:
        return [step.rate_rps for step in self._steps if step.phase in phases and step.verdict != "pass"]


def _highest_below(rates_rps: Iterable[float], limit_rps: float | None) -> float | None:
    return max((rate for rate in rates_rps if limit_rps is None or rate < limit_rps), default=None)


def _fail_count(steps: Sequence[StepResult]) -> FailCount:
    verdicts = [repeat.verdict for step in steps for repeat in step.repeats if repeat.verdict in ("pass", "fail")]
    return FailCount(failed=verdicts.count("fail"), run=len(verdicts))


def _clearly(behind: FailCount) -> bool:
    """At least two and at least half of the repeats failed."""
    return behind.failed >= 2 and 2 * behind.failed >= behind.run


def conclude(
    outcome: Outcome,
    knee: Knee,
    *,
    unconfirmed_rps: float | None = None,
    broken: Fact | None = None,
    skipped: Fact | None = None,
) -> Answer:
    """The answer of a search that came to its end by itself: bracket, at_least, below, or interrupted where the user ended steps
    below the lowest failing rate.

    `unconfirmed_rps`: the lowest rate that passed a short step of the search, where none was confirmed. `broken`: how requests
    end at the lowest failing rate, where most are errors. Without a rate that held nothing was learned about what the server can
    take: that is no answer; with one it is said beside the bracket.
    `skipped`: which steps the user ended.
    """
    first_rps = knee.first_fail_rps
    if outcome == "below" and broken is not None and first_rps is not None:
        return Answer(outcome="void", message=fact("nothing_served", broken, rate_rps=first_rps), knee=knee)
    said: list[Said] = [_amounts_to(outcome, knee, unconfirmed_rps, all_tried=skipped is None)]
    if outcome == "bracket" and broken is not None and first_rps is not None:
        said.append(fact("errors_at", broken, rate_rps=first_rps))
    if skipped is None:
        return Answer(outcome=outcome, message=several(*said), knee=knee)
    return Answer(outcome=outcome, message=several(*said, skipped), knee=knee, told=(skipped,))


def _amounts_to(outcome: Outcome, knee: Knee, short_rps: float | None, *, all_tried: bool) -> Fact:
    """Where the knee lies. `all_tried`: the user ended no step."""
    pass_rps, first_rps = knee.pass_rps, knee.first_fail_rps
    if outcome == "at_least":
        return fact("at_least", pass_rps=pass_rps, all_tried=all_tried)
    if outcome == "below":
        return fact("below", fail_rps=first_rps, short_rps=short_rps, all_tried=all_tried)
    if outcome == "interrupted" and first_rps is None:
        return fact("no_rate_judged", short_rps=short_rps)
    if outcome == "interrupted":
        return fact("not_known_below", fail_rps=first_rps, short_rps=short_rps)
    upper_rps = None if knee.open_above else knee.fail_rps
    return fact("bracket", pass_rps=pass_rps, first_fail_rps=first_rps, fail_rps=upper_rps, clearly=knee.clearly_fails)

"""The way to the knee as a state machine without I/O: what to run next, given what was seen, and what the user ended leaves open.

A fail is cheap and can be trusted, a pass is neither: a short ramp finds a failing rate fast, then full steps come down
from it, and only a full step may set the rate that holds. Standard and acceptance then look for a rate that clearly fails and
for one that holds by all repeats, and spend the time left over where it narrows the bracket most.
"""

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from core import modes
from core.config import ProbeConfig
from core.facts import Fact, Said, fact
from core.judge.idle import idle_e2e_s, idle_e2es_s, why_infeasible
from core.judge.search import candidates, estimate, fleet_load
from core.judge.search.actions import Action, Done, Hold, Ramp, Step
from core.judge.search.bracket import PASS_WEIGHT, QUICK_WEIGHT, UPPER_WEIGHT, Bracket, conclude
from core.judge.search.candidates import Ends
from core.judge.search.estimate import Pace
from core.judge.search.futile import Futile, futile
from core.judge.search.posterior import Posterior
from core.judge.search.recorded import Reach
from core.judge.search.skipped import Skipped
from core.records import Phase, RequestRecord, Segment
from core.results import Answer, Outcome, StepResult, TwinReading

FLOOR_FRAC = 1 / 64
"""Below this share of the ramp's first rate nothing is looked for: the server hardly carries a single user."""
GIVE_UP_AFTER = 3
"""So many full steps must have failed before the lack of time can end a search that has no pass yet."""
OVERTIME = 1.3
"""Without a pass there is no answer yet, so the search may take this much of its budget to find one."""
START_SHARE = 0.6
"""A step is begun if this share of its full length fits the budget: half of them fail, and those are cut short."""
COARSE_SHARE = 0.4
"""Of its budget a mode that reads whole windows spends no more than this on where to read them."""
END_S = 3.0
"""Kept back of --max-duration for the end of the last step: whatever runs when it is over has no verdict."""
STRICT_MISSES = 3
"""Acceptance keeps windows in which so many misses would be allowed, however long that takes: half the rate still has one."""
WIDE, WIDE_AFTER = 1.5, 2
"""A factor between the ends that many cannot plan with is said as soon as so many whole windows have been read."""
_DUST = 1e-9


class Search:
    """Ask `next`, run what it says, `observe_*` how it ended or `skip` it, ask again, until Done.

    A step that ended void or unjudged is no evidence: observing it changes nothing and `next` asks for the rate again, but not
    for one that was skipped.
    A Hold that was stopped ends with `answer_so_far("held", ...)`; one that ran out is asked for again, for up to a day.
    """

    def __init__(self, config: ProbeConfig) -> None:
        self._config = config
        self._rules = modes.rules_of(config.method)
        self._bracket = Bracket.of(config.method, target=config.slo.target)
        self._pace = Pace(self._rules, config.slo)
        self._list = _listed(config)
        self._reach = None if config.workload.trace is None else Reach(config.workload.trace, config.limits, config.safety)
        self._reach_rps = math.inf
        self._taken_s: dict[float, float] = {}
        self._judged: set[float] = set()
        self._skipped = Skipped()
        self._search_over = self._told_wide = False
        self._ramp: tuple[Segment, ...] = ()
        self._ramp_over = False
        self._ramp_passed_rps: float | None = None
        self._budget_s = self._rules.budget_s
        self._hard_s = self._beat_rps = math.inf
        self._answer: Answer | None = None
        self._running: Action | None = None
        self._began_s = self._confirm_began_s = self._idle_p50_s = self._announced_s = self._allowed_s = 0.0

    def next(self, elapsed_s: float) -> Action:
        """What to do now; `elapsed_s` is the time since load began, for the budget. Raises RuntimeError before the singles."""
        action = self._decide(elapsed_s)
        if isinstance(action, Step) and action.phase in ("search", "list"):
            self._confirm_began_s = elapsed_s + self._pace.action_s(action)
        self._running, self._began_s = action, elapsed_s
        if isinstance(action, Done):
            self._answer = action.answer
        return action

    def observe_singles(self, records: Sequence[RequestRecord], spent_s: float = 0.0) -> None:
        """The three judged single requests of preflight; to be called first. All three missing means infeasible.

        `spent_s`: how much of --max-duration is over by now.
        """
        why, idle_s = why_infeasible(records, self._config.limits), idle_e2e_s(records)
        if why is not None or idle_s is None:
            self._answer = _infeasible(why)
            return
        method = self._config.method
        lasting_s = idle_e2es_s(records, self._config.workload, idle_s)
        self._pace.idle(idle_s, modes.warmup_needed_s(lasting_s))
        self._idle_p50_s = float(np.median(lasting_s))
        if method.rates_rps or method.hold_rps is not None:
            self._pace.grow()
        else:
            start_rps = method.start_rps or modes.START_PER_IDLE / idle_s
            if self._reach is not None:
                self._reach_rps = self._reach.highest_rps(self._rules, self._pace.e2e_s, self._pace.warmup_s)
            max_rps = min(self._config.safety.max_rps or math.inf, self._reach_rps or math.inf)
            self._ramp = modes.ramp_segments(start_rps, idle_s, max_rps if max_rps < math.inf else None)
        self._keep_limits(spent_s)
        self._announced_s = self.expected_s() or 0.0
        self._allowed_s = self._left_s(0.0, step_share=1.0) or 0.0

    def beat(self, rate_rps: float) -> None:
        """Another setting of the server holds this rate: the search is over once its own upper end is no higher."""
        self._beat_rps = rate_rps

    @property
    def too_little(self) -> Fact | None:
        """Why the recording that is played is too short for what is planned, before any load; None where it is not, or none is."""
        if self._reach is None or self._answer is not None or self._config.method.hold_rps is not None:
            return None
        if self._ramp and not self._reach_rps:
            return self._reach.nothing(self._rules)
        steps = (self._step("list", rate_rps) for rate_rps in self._list)
        return next((self._reach.short(step) for step in steps if not self._reach.holds(step)), None)

    def observe_ramp(self, passed_rps: float | None, failed_rps: float | None) -> None:
        """`passed_rps`: the segment before the failing one (None: none); `failed_rps`: the failing one (None: none failed)."""
        self._running, self._ramp_over = None, True
        self._ramp_passed_rps = passed_rps
        self._bracket.add_ramp(failed_rps)
        if passed_rps is not None:
            self._pace.grow()
        self._extend_budget(self._ends().candidate())

    def observe_twin(self, reading: TwinReading | None) -> None:
        """What a twin of the server shows by now: it helps to choose rates and guards the ends, where it explains the windows."""
        self._bracket.add_twin(reading)

    def stays_wide(self, elapsed_s: float) -> Fact | None:
        """An early word, said once, that the bracket is likely to be wide when the time is up; None while that is not so. The doubt
        that is left falls with the root of the number of windows."""
        read, fit = len(self._bracket.read_rps), self._bracket.fit()
        if self._told_wide or self._answer is not None or fit is None or read < WIDE_AFTER:
            return None
        more = max(0.0, self._budget_s - elapsed_s) / self._pace.repeat_s(fit.knee_rps(0.5))
        doubt = math.log(fit.knee_rps(1 - UPPER_WEIGHT) / fit.knee_rps(PASS_WEIGHT))
        factor = math.exp(doubt * math.sqrt(read / (read + more)))
        if factor < WIDE:
            return None
        self._told_wide = True
        return fact("stays_wide", factor=factor, wanted_factor=self.wanted_width)

    @property
    def wanted_width(self) -> float:
        """How many times the passing rate the failing one may be for nothing to be left to look for."""
        return self._rules.search.grid if self._rules.confirm is None else self._rules.clear_width

    @property
    def near_rps(self) -> float | None:
        """Where the knee is likely to be, by what is known so far; None before a step has passed and something failed."""
        fit = self._bracket.fit()
        return None if fit is None else fit.knee_rps(0.5)

    def longer_s(self, elapsed_s: float) -> float | None:
        """The whole time expected, in seconds, where that has turned out to be far longer than what was announced; else None."""
        left_s = self.left_s(elapsed_s)
        total_s = None if left_s is None else elapsed_s + left_s
        return total_s if total_s is not None and total_s > OVERTIME * max(self._announced_s, self._rules.budget_s) else None

    def observe_step(self, result: StepResult, mean_e2e_s: float | None) -> None:
        """How a step ended; `mean_e2e_s` over its measured requests becomes E when it passed."""
        if self._reach is not None and isinstance(self._running, Step):
            repeats = max((repeat.index + 1 for repeat in result.repeats), default=0)
            self._taken_s[result.rate_rps] = self._running.from_s + repeats * self._reach.stretch_s(self._running)
        self._running = None
        self._bracket.add_step(result)
        if result.phase == "list" and result.verdict in ("pass", "fail", "mixed"):
            self._judged.add(result.rate_rps)
        if result.verdict == "pass" and mean_e2e_s is not None:
            needed_s = _needed_warmup_s(result) or modes.warmup_needed_s(np.array([mean_e2e_s]))
            self._pace.passed(result.rate_rps, mean_e2e_s, needed_s)

    def skip(self, rate_rps: float, phase: Phase) -> None:
        """The user has ended a step before it was judged: it is not asked for again, and nothing is concluded about its rate.

        A listed rate is done with. Without a passing rate the search goes on below, with one it is over; a confirmation is over,
        and so is the search for a clear fail.
        """
        self._running = None
        self._skipped.add(phase, rate_rps)
        if phase == "list":
            self._judged.add(rate_rps)
        self._search_over |= phase == "search" and self._bracket.coarse_passed_rps is not None

    @property
    def require_met(self) -> bool | None:
        """Whether the required rate passed its own step; None without one, or while that was not judged."""
        if self._config.method.require_rps is None:
            return None
        infeasible = self._answer is not None and self._answer.outcome == "infeasible"
        return False if infeasible else self._bracket.required_met

    def left_s(self, elapsed_s: float) -> float | None:
        """Expected seconds to the answer: the rest of what runs now and what is still expected; None when not known.

        What runs counts as if it passed: a repeat as W + M and a tail, the ramp as its first five segments. Of the steps of a
        search that are still to come some will be cut short. A held rate has no end.
        """
        return self._left_s(elapsed_s, modes.STEP_SHARE)

    def later_s(self, elapsed_s: float) -> float:
        """The part of `left_s` that comes after what runs now, in seconds."""
        return 0.0 if self._running is None else self._later_s(self._running, elapsed_s, modes.STEP_SHARE)

    @property
    def e2e_s(self) -> float:
        """The mean E2E that is reckoned with, in seconds."""
        return self._pace.e2e_s

    @property
    def extended_s(self) -> float:
        """By how much the time of the mode was extended for the number of requests and long warm-ups, in seconds."""
        return max(0.0, self._budget_s - modes.rules_of(self._config.method).budget_s)

    def _left_s(self, elapsed_s: float, step_share: float) -> float | None:
        if self._answer is not None:
            return 0.0
        if self._pace.idle_s is None or self._config.method.hold_rps is not None:
            return None
        action = self._running or self._decide(elapsed_s)
        spent_s = 0.0 if self._running is None else max(0.0, elapsed_s - self._began_s)
        return max(0.0, self._pace.action_s(action) - spent_s) + self._later_s(action, elapsed_s, step_share)

    def expected_s(self) -> float | None:
        """The whole time expected, in seconds; for before the load starts. None for a held rate, and before the singles."""
        return self.left_s(0.0)

    def expected(self) -> Fact:
        """The same with the reason where it is longer than the mode's budget."""
        if self._config.method.hold_rps is not None:
            return fact("until_stopped")
        total_s = self.expected_s()
        if total_s is None or self._answer is not None:
            return fact("time_unknown")
        rate_rps = self._usual_rps()
        warmup_s = self._pace.planned_warmup_s(rate_rps)
        return estimate.expected(self._config.method, self._rules, self._config.slo, rate_rps, self._pace.e2e_s, warmup_s, total_s)

    def passed(self, rate_rps: float) -> bool:
        """Whether the answer so far rests on this rate, or a higher one, having passed."""
        passed_rps = self._bracket.passed_rps
        return passed_rps is not None and passed_rps >= rate_rps * (1 - _DUST)

    def again(self, rate_rps: float) -> Step:
        """A rate that was judged, to be judged again when the answer stands and replicas were taken away."""
        return self._step("lost", rate_rps)

    def takes_s(self, step: Step) -> float:
        """How long a step is expected to take, in seconds."""
        return self._pace.action_s(step)

    def answer_so_far(self, outcome: Outcome, message: Said) -> Answer:
        """What is known when the run has to end now (interrupted, held, void, server lost)."""
        return Answer(outcome=outcome, message=message, knee=self._bracket.knee(self._skipped.notes, estimated=True))

    # --- what to do next ---

    def _decide(self, elapsed_s: float) -> Action:
        action = self._wanted(elapsed_s)
        if isinstance(action, Step) and self._reach is not None and not self._reach.holds(action):
            return self._out_of_recording(self._reach.short(action))
        if not isinstance(action, Step) or elapsed_s + self._pace.action_s(action) <= self._hard_s:
            return action
        # with a rate that held there is an answer, which a step that is cut off would only lose; without one it may still come
        goes_on = action.phase != "list" or self._config.method.fleet is not None
        lost = goes_on and self._bracket.passed_rps is not None
        return self._finish(fact("time_up_limit")) if lost else action

    def _out_of_recording(self, why: Fact) -> Done:
        """The end where requests took so much longer than on the idle server that the next step has no stretches of its own."""
        bracket = self._bracket
        if bracket.passed_rps is not None or bracket.failed_rps is not None:
            return self._done(self._seen(), why)
        return Done(answer=Answer(outcome="void", message=why, knee=bracket.knee(self._skipped.notes)))

    def _wanted(self, elapsed_s: float) -> Action:
        if self._answer is not None:
            return Done(answer=self._answer)
        if self._pace.idle_s is None:
            raise RuntimeError("observe_singles comes before next: the first rate follows from the idle latency")
        if self._config.method.hold_rps is not None:
            return self._hold(self._config.method.hold_rps, elapsed_s)
        if self._ramp and not self._ramp_over:
            return Ramp(segments=self._ramp)
        if self._config.method.fleet is not None:
            return self._of_fleet(elapsed_s)
        if to_judge := [rate for rate in self._list if rate not in self._judged]:
            return self._step("list", to_judge[0])
        return self._narrow(elapsed_s) if self._ramp else self._done(self._seen())

    def _hold(self, rate_rps: float, elapsed_s: float) -> Hold | Done:
        if elapsed_s >= modes.HOLD_S:
            return Done(answer=self.answer_so_far("held", fact("held_a_day")))
        config, measure_s = self._config, self._rules.listed.measure_s
        lasts_s, warmup_s = self._pace.e2e_s, self._pace.warmup_s
        most = modes.HOLD_REQUESTS if self._reach is None else modes.RECORDED_HOLD_REQUESTS
        segments = modes.hold_segments(
            measure_s, config.limits, config.safety, rate_rps, lasts_s, warmup_s, self._rules.requests_within_s, most=most
        )
        return Hold(segments=segments)

    def _of_fleet(self, elapsed_s: float) -> Step | Done:
        """The planned load of a fleet and all that it could hold, then down from what failed. The first is always judged."""
        rate_rps = fleet_load.next_rps(self._list, self._bracket.passed_rps, self._bracket.failed_rps)
        if rate_rps is None or self._skipped:
            return self._done(self._seen())
        takes_s = self._rules.listed.repeats * self._pace.listed_s(rate_rps)
        if self._judged and elapsed_s + START_SHARE * takes_s > (self._config.method.budget_s or math.inf):
            return self._done(self._seen(), fact("time_up_fleet", rate_rps=rate_rps))
        return self._step("list", rate_rps)

    def _narrow(self, elapsed_s: float) -> Step | Done:
        """Full steps until the ends are within the grid, or the time is used up, or nothing is left to try."""
        if (beaten := self._beaten()) is not None:
            return self._done(self._seen(), beaten)
        ends = self._ends()
        if ends.found() or self._search_over:
            return self._confirm(elapsed_s)
        rate_rps = ends.candidate()
        if ends.passed_rps is not None:
            share = 1.0 if self._rules.confirm is None else COARSE_SHARE
            if elapsed_s + START_SHARE * self._pace.search_s(rate_rps) > share * self._budget_s:
                return self._confirm(elapsed_s)
        elif ends.failed_rps is not None:
            if self._too_low(rate_rps):
                return self._done("below")
            if (found := futile(self._bracket.searched, self._idle_p50_s)) is not None:
                return self._done("below", _in_vain(found))
            if self._bracket.failed_steps >= GIVE_UP_AFTER and elapsed_s > OVERTIME * self._budget_s:
                return self._done("below", fact("time_up_no_pass"))
            # with few requests a rate says little, which a mode that reads whole windows allows for and quick does not
            too_late = self._rules.confirm is None or elapsed_s + self._pace.search_s(rate_rps) > self._budget_s
            if self._bracket.failed_steps and too_late and self._hardly_any(rate_rps):
                return self._done("below", fact("time_up_too_few"))
        return self._step("search", rate_rps)

    def _confirm(self, elapsed_s: float) -> Step | Done:
        """Whole windows, each where it is expected to narrow the bracket most in a second, until the ends are within the width of
        the mode, or the time is used up. The first is always read."""
        stage, bracket, start_rps = self._rules.confirm, self._bracket, self._bracket.coarse_passed_rps
        if start_rps is None or self._ended_by_user():
            return self._finish()
        if stage is None:
            return self._surer(elapsed_s)
        fit = bracket.fit()
        if fit is None:
            return self._finish() if bracket.passed_rps == start_rps else self._step("confirm", start_rps)
        passed_rps, sure_rps, upper_rps = bracket.passed_rps, bracket.sure_rps, bracket.upper_rps
        if sure_rps is not None and upper_rps is not None and upper_rps <= self._rules.clear_width * sure_rps * (1 + _DUST):
            return self._finish()
        aims = self._aims(fit, stage)
        allowed_s = self._budget_s if passed_rps is not None else OVERTIME * self._budget_s
        fitting = [aim for aim in aims if not bracket.read_rps or elapsed_s + aim.takes_s <= allowed_s]
        if fitting:
            return self._step(fitting[0].phase, fitting[0].rate_rps, fitting[0].repeats)
        if passed_rps is not None:
            return self._finish(self._out_of_time() if aims else fact("nothing_between"))
        return self._done("below", fact("time_up_not_confirmed", repeats=stage.repeats))

    def _beaten(self) -> Fact | None:
        """Why what is still to be found is of no use: another setting holds what fails here. The ramp alone, whose segments last
        seconds, does not say so."""
        upper_rps = self._bracket.upper_rps
        if self._beat_rps == math.inf or upper_rps is None or not self._bracket.searched:
            return None
        return fact("beaten", fail_rps=upper_rps, best_rps=self._beat_rps) if upper_rps <= self._beat_rps * (1 + _DUST) else None

    def _surer(self, elapsed_s: float) -> Step | Done:
        """In quick mode: windows below the lowest rate that passed, where that may be above the knee, and above it, where no
        failing rate surely is, while the time lasts."""
        bracket, fit, passed_rps = self._bracket, self._bracket.fit(), self._bracket.passed_rps
        if fit is None or passed_rps is None:
            return self._finish()
        if bracket.sure_rps is None:
            rate_rps = min(fit.knee_rps(QUICK_WEIGHT), passed_rps / self._rules.search.grid**0.5)
        elif bracket.upper_rps is None and bracket.failed_rps is not None:
            rate_rps = max(fit.knee_rps(1 - QUICK_WEIGHT), passed_rps * self._rules.search.grid**0.5)
        else:
            return self._finish()
        too_long = elapsed_s + START_SHARE * self._pace.search_s(rate_rps) > self._budget_s
        again = any(math.isclose(rate_rps, each, rel_tol=0.01) for each in bracket.read_rps)
        beyond = self._too_low(rate_rps) or rate_rps > self._ramp[-1].rate_rps
        return self._finish() if too_long or again or beyond else self._step("search", rate_rps)

    def _ended_by_user(self) -> bool:
        """Whether the user has ended the confirmation, or with a passing rate in hand the search for a clear fail."""
        tightening = self._bracket.passed_rps is not None and self._skipped.lowest_rps("tighten") is not None
        return tightening or self._skipped.lowest_rps("confirm") is not None

    def _aims(self, fit: Posterior, stage: modes.Stage) -> list[candidates.Aim]:
        """What may be worth its time next, the most worthwhile first."""
        bracket, slo = self._bracket, self._config.slo

        def allowed(rate_rps: float) -> float:
            within_s = self._rules.requests_within_s
            window_s = modes.measured_s(stage.measure_s, slo, rate_rps, self._pace.e2e_s, within_s)
            return rate_rps * window_s * (1 - slo.target)

        known = candidates.Known(
            passed_rps=bracket.sure_rps,
            upper_rps=bracket.upper_rps,
            read_rps=bracket.read_rps or self._skipped.rates_rps("tighten"),
            passing=bracket.passing,
        )
        aims = candidates.aims(fit, known, stage, allowed, self._pace.repeat_s, self._ramp[-1].rate_rps)
        return [aim for aim in aims if not self._too_low(aim.rate_rps)]

    def _out_of_time(self) -> Fact:
        knee, width = self._bracket.knee(), self.wanted_width
        if knee.pass_rps is None or knee.fail_rps is None:
            return fact("time_up_no_clear_fail")
        return fact("time_up_ends_apart", factor=knee.fail_rps / knee.pass_rps, wanted_factor=width)

    def _ends(self) -> Ends:
        limits_rps = [self._bracket.coarse_failed_rps, self._skipped.lowest_rps("search")]
        return Ends(
            passed_rps=self._bracket.coarse_passed_rps,
            failed_rps=min((rate for rate in limits_rps if rate is not None), default=None),
            ramp_rps=self._ramp_passed_rps,
            top_rps=self._ramp[-1].rate_rps,
            grid=self._rules.search.grid,
        )

    def _hardly_any(self, rate_rps: float) -> bool:
        """Whether the time allows so few requests at a rate that one miss would fail it, and the target asks for more."""
        slo = self._config.slo
        window_s = modes.measured_s(self._rules.search.measure_s, slo, rate_rps, self._pace.e2e_s, self._rules.requests_within_s)
        return window_s < modes.needed_s(slo, rate_rps) and window_s * rate_rps * (1 - slo.target) < 1

    def _too_low(self, rate_rps: float) -> bool:
        return rate_rps < FLOOR_FRAC * self._ramp[0].rate_rps * (1 - _DUST)

    def _step(self, phase: Phase, rate_rps: float, repeats: int | None = None) -> Step:
        config, rules = self._config, self._rules
        stage = rules.search if phase == "search" else rules.listed if phase in ("list", "lost") else rules.final
        return Step(
            phase=phase,
            rate_rps=rate_rps,
            repeats=repeats or stage.repeats,
            segments=modes.step_segments(
                stage.measure_s,
                config.limits,
                config.safety,
                config.method.drain_s,
                rate_rps,
                self._pace.e2e_s,
                self._pace.planned_warmup_s(rate_rps),
                rules.requests_within_s,
            ),
            curtail_pass=phase == "search",
            reads_whole=phase in ("confirm", "tighten"),
            from_s=self._taken_s.get(rate_rps, 0.0),
        )

    # --- how it ends ---

    def _finish(self, *notes: Fact) -> Done:
        """The end of a search that has a passing rate."""
        knee, wanted = self._bracket.knee(), self.wanted_width
        other_reason = bool(notes) or bool(self._skipped) or self._rules.confirm is not None
        if not other_reason and knee.pass_rps is not None and knee.first_fail_rps is not None:
            apart = knee.first_fail_rps / knee.pass_rps
            if apart > wanted * (1 + _DUST):
                notes = (fact("time_up_ends_apart", factor=apart, wanted_factor=wanted),)
        return self._done(self._seen(), *notes)

    def _seen(self) -> Outcome:
        """The outcome by what passed and what failed."""
        if self._bracket.passed_rps is None:
            return "below"
        return "at_least" if self._bracket.failed_rps is None else "bracket"

    def _done(self, outcome: Outcome, *notes: Fact) -> Done:
        bracket = self._bracket
        if outcome == "below" and self._skipped.below(bracket.failed_rps):
            outcome = "interrupted"  # a lower rate was to be judged and was not
        if outcome == "at_least" and self._reach is not None and self._ramp and self._ramp[-1].rate_rps == self._reach_rps:
            notes = (*notes, self._reach.end(self._reach_rps))
        answer = conclude(
            outcome,
            bracket.knee((*notes, *self._skipped.notes), estimated=True),
            unconfirmed_rps=bracket.unconfirmed_rps,
            broken=bracket.broken,
            skipped=self._skipped.note,
        )
        return Done(answer=answer)

    # --- how long it takes ---

    def _keep_limits(self, spent_s: float) -> None:
        """The user's limits to the time: what warm-ups, the ramp and the last requests leave of them, the windows may share."""
        method, max_duration_s = self._config.method, self._config.safety.max_duration_s
        if max_duration_s is not None:
            self._hard_s = max(0.0, max_duration_s - spent_s - END_S)
        limit_s = min(self._hard_s, math.inf if method.budget_s is None else method.budget_s)
        self._budget_s = min(self._budget_s, self._hard_s)
        if limit_s == math.inf:
            return
        repeats = modes.repeats_expected(self._rules, method)
        others_s = sum(segment.duration_s for segment in self._ramp[: modes.RAMP_SEGMENTS_EXPECTED])
        others_s += repeats * (self._pace.planned_warmup_s(self._usual_rps()) + modes.E2E_LONGEST * self._pace.e2e_s)
        self._allow(max(0.0, limit_s - others_s) / repeats)

    def _extend_budget(self, rate_rps: float) -> None:
        """The number of requests wins over the mode's budget as far as the time reaches that the run takes if every step passes; a
        limit that the user set stays what it is."""
        if self._config.method.budget_s is not None or self._hard_s < math.inf:
            return
        allowed_s = max(self._rules.budget_s, self._allowed_s)
        self._budget_s = min(self._budget_s + self._pace.extension_s(rate_rps), allowed_s)
        within_s = OVERTIME * allowed_s / modes.repeats_expected(self._rules, self._config.method)
        if self._config.method.mode == "acceptance":  # a window of fewer requests than one miss needs counts for nothing there
            within_s = max(within_s, STRICT_MISSES / modes.ENOUGH_MISSES * modes.needed_s(self._config.slo, rate_rps))
        self._allow(within_s)

    def _allow(self, within_s: float) -> None:
        self._rules = self._pace.rules = msgspec.structs.replace(self._rules, requests_within_s=within_s)

    def _usual_rps(self) -> float:
        """The rate that the steps still to come are likely to have."""
        if not self._ramp:
            return min(self._list, default=self._config.method.hold_rps or 1.0)
        if self._ramp_over:
            return self._bracket.passed_rps or self._ends().candidate()
        return self._ramp[: modes.RAMP_SEGMENTS_EXPECTED][-1].rate_rps

    def _later_s(self, action: Action, elapsed_s: float, step_share: float) -> float:
        """What is expected after the action: rates of a list, steps of the search, the confirmation. `step_share`: what a step of
        the search takes of its whole length."""
        now_rps = action.rate_rps if isinstance(action, Step) else None
        if self._config.method.fleet is not None and now_rps is not None:
            passed_rps, failed_rps = self._bracket.passed_rps, self._bracket.failed_rps
            to_come = fleet_load.expected_rps(self._list, passed_rps, failed_rps, now_rps)
            return sum(self._rules.listed.repeats * self._pace.listed_s(rate) for rate in to_come)
        listed = [rate for rate in self._list if rate not in self._judged and rate != now_rps]
        listed_s = sum(self._rules.listed.repeats * self._pace.listed_s(rate) for rate in listed)
        if not self._ramp or isinstance(action, Done):
            return listed_s
        return listed_s + self._search_later_s(action, elapsed_s, step_share)

    def _search_later_s(self, action: Action, elapsed_s: float, step_share: float) -> float:
        """Steps of the search and the windows that an answer needs, and no less than what such a search spends of its budget."""
        rate_rps = self._usual_rps()
        confirm_s = self._pace.confirmation_s(rate_rps)
        over_s = self._pace.action_s(action) + (elapsed_s if self._running is None else self._began_s)
        spends_s = self._rules.spends_frac * self._budget_s - over_s
        surer = modes.SURER_STEPS if self._rules.confirm is None else 0.0
        if isinstance(action, Ramp):
            return max(spends_s, (modes.STEPS_EXPECTED + surer) * step_share * self._pace.likely_s(rate_rps) + confirm_s)
        phase = action.phase if isinstance(action, Step) else "hold"
        if phase in ("search", "list"):
            steps = self._ends().steps_expected() - (phase == "search")
            return max(spends_s, (max(steps, 0.0) + surer) * step_share * self._pace.likely_s(rate_rps) + confirm_s)
        later_s = max(spends_s, self._confirm_began_s + confirm_s - over_s)
        return max(0.0, min(later_s, self._budget_s - elapsed_s))


def _listed(config: ProbeConfig) -> tuple[float, ...]:
    """The rates that are judged whatever the search finds: the list, and the required one."""
    rates_rps, required_rps = config.method.rates_rps, config.method.require_rps
    return rates_rps if required_rps is None or required_rps in rates_rps else (*rates_rps, required_rps)


def _in_vain(found: Futile) -> Fact:
    return fact("misses_not_of_load", **found._asdict())


def _needed_warmup_s(result: StepResult) -> float | None:
    """The warm-up that the requests of its last judged repeat need."""
    needed_s = [repeat.warmup_needed_s for repeat in result.repeats if repeat.verdict in ("pass", "unjudged")]
    return needed_s[-1] if needed_s else None


def _infeasible(why: Fact | None) -> Answer:
    """No rate can be right. Errors say so by themselves; any other reason stands alone below a headline that says it."""
    if why is None:
        return Answer(outcome="infeasible", message="")
    return Answer(outcome="infeasible", message=why if why.code == "singles_in_errors" else fact("infeasible", why), alone=why)

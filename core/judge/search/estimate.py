"""How long requests take as far as a search knows it, how long the search takes by that, and what makes it longer. Pure."""

from core import modes
from core.config import Method, Slo
from core.facts import Fact, fact
from core.judge.search.actions import Action, Ramp, Step
from core.modes import STEPS_EXPECTED, ModeRules

E2E_GROWTH = 1.5
"""Mean E2E grows from idle to the knee (2 to 4 times in simulation); this is assumed until a step has passed."""


class Pace:
    """`e2e_s`: the mean E2E that is reckoned with, and `warmup_s` the warm-up that such requests need, seen at the rate `at_rps`
    (None: on the idle server). `idle_s`: the idle server's E2E; None before the single requests. Durations in seconds."""

    def __init__(self, rules: ModeRules, slo: Slo) -> None:
        self.rules = rules
        self._slo = slo
        self.idle_s: float | None = None
        self.e2e_s = self.warmup_s = self._idle_warmup_s = 0.0
        self.at_rps: float | None = None

    def idle(self, e2e_s: float, warmup_s: float) -> None:
        """What a request takes on the idle server, and the warm-up that the drawn lengths ask for there."""
        self.idle_s = self.e2e_s = e2e_s
        self.warmup_s = self._idle_warmup_s = warmup_s

    def grow(self) -> None:
        """A rate is to be judged that no step has come near yet."""
        self.e2e_s *= E2E_GROWTH
        self.warmup_s *= E2E_GROWTH

    def passed(self, rate_rps: float, e2e_s: float, warmup_s: float) -> None:
        """What requests took at a rate that passed, and the warm-up that they needed; no less than on the idle server."""
        self.e2e_s, self.at_rps = max(e2e_s, self.idle_s or 0.0), rate_rps
        self.warmup_s = max(warmup_s, self._idle_warmup_s)

    def planned_warmup_s(self, rate_rps: float) -> float:
        """The warm-up that is planned at a rate."""
        return modes.planned_warmup_s(self.warmup_s, rate_rps, self.at_rps)

    def search_s(self, rate_rps: float) -> float:
        """A step of the search."""
        return search_step_s(self.rules, self._slo, rate_rps, self.e2e_s, self.warmup_s)

    def likely_s(self, rate_rps: float) -> float:
        """The same with the warm-up that it will have, which is planned for a longer E than was seen."""
        return search_step_s(self.rules, self._slo, rate_rps, self.e2e_s, self.planned_warmup_s(rate_rps))

    def repeat_s(self, rate_rps: float) -> float:
        """A repeat of the stage that may set the passing rate."""
        return final_repeat_s(self.rules, self._slo, rate_rps, self.e2e_s, self.planned_warmup_s(rate_rps))

    def listed_s(self, rate_rps: float) -> float:
        """A repeat of a rate that is judged by itself."""
        return final_repeat_s(
            self.rules, self._slo, rate_rps, self.e2e_s, self.planned_warmup_s(rate_rps), self.rules.listed.measure_s
        )

    def confirmation_s(self, rate_rps: float) -> float:
        """The whole of confirming and tightening."""
        return confirmation_s(self.rules, self._slo, rate_rps, self.e2e_s, self.planned_warmup_s(rate_rps))

    def extension_s(self, rate_rps: float) -> float:
        """What the number of requests and long warm-ups take beyond the mode's budget."""
        return extension_s(self.rules, self._slo, rate_rps, self.e2e_s, self.planned_warmup_s(rate_rps))

    def action_s(self, action: Action) -> float:
        """What an action takes; a ramp counts as its first five segments, a held rate as nothing."""
        match action:
            case Ramp(segments=segments):
                return sum(segment.duration_s for segment in segments[: modes.RAMP_SEGMENTS_EXPECTED])
            case Step(phase="search", rate_rps=rate_rps):
                return self.likely_s(rate_rps)
            case Step(phase="list" | "lost", rate_rps=rate_rps, repeats=repeats):
                return repeats * self.listed_s(rate_rps)
            case Step(rate_rps=rate_rps, repeats=repeats):
                return repeats * self.repeat_s(rate_rps)
        return 0.0


def search_step_s(rules: ModeRules, slo: Slo, rate_rps: float, e2e_s: float, warmup_s: float) -> float:
    """One full step of the search, all its repeats passing."""
    one_s = modes.repeat_cost_s(rules.search.measure_s, slo, rate_rps, e2e_s, warmup_s, rules.requests_within_s, curtail_pass=True)
    return rules.search.repeats * one_s


def final_repeat_s(
    rules: ModeRules, slo: Slo, rate_rps: float, e2e_s: float, warmup_s: float, asked_s: float | None = None
) -> float:
    """One repeat of the stage that may set the passing rate, or with another M, waiting for its last request."""
    return modes.repeat_cost_s(
        asked_s or rules.final.measure_s, slo, rate_rps, e2e_s, warmup_s, rules.requests_within_s, curtail_pass=False
    )


def confirmation_s(rules: ModeRules, slo: Slo, rate_rps: float, e2e_s: float, warmup_s: float) -> float:
    """The whole of confirming and tightening; 0 in a mode without."""
    if rules.confirm is None:
        return 0.0
    return rules.confirms_expected * rules.confirm.repeats * final_repeat_s(rules, slo, rate_rps, e2e_s, warmup_s)


def extension_s(rules: ModeRules, slo: Slo, rate_rps: float, e2e_s: float, warmup_s: float) -> float:
    """What 5E or 5/(1-q) requests need beyond the M asked for, and long warm-ups beyond usual ones, over all steps expected."""

    def longer_s(measure_s: float) -> float:
        measured_s = modes.measured_s(measure_s, slo, rate_rps, e2e_s, rules.requests_within_s)
        return measured_s - measure_s + max(0.0, warmup_s - modes.LONG_WARMUP_S)

    total_s = STEPS_EXPECTED * rules.search.repeats * longer_s(rules.search.measure_s)
    if rules.confirm is not None:
        total_s += rules.confirms_expected * rules.confirm.repeats * longer_s(rules.confirm.measure_s)
    return total_s


def expected(method: Method, rules: ModeRules, slo: Slo, rate_rps: float, e2e_s: float, warmup_s: float, total_s: float) -> Fact:
    """The expected time, with what makes a repeat longer than asked: of a list, which has no budget, always; of a search where the
    whole is longer than its budget."""
    stage = rules.listed if method.rates_rps else rules.final
    longer = bool(method.rates_rps) or total_s > rules.budget_s
    return fact(
        "time_expected",
        *(why_longer(rules, slo, rate_rps, e2e_s, warmup_s, stage.measure_s) if longer else ()),
        total_s=total_s,
        budget_s=None if method.rates_rps else rules.budget_s,
        mode=method.mode,
        careful=method.careful,
        rates=len(method.rates_rps),
    )


def why_longer(rules: ModeRules, slo: Slo, rate_rps: float, e2e_s: float, warmup_s: float, asked_s: float) -> list[Fact]:
    """Why a repeat at a rate measures longer than asked, or warms up for long; empty where neither is so."""
    window = _longer_window(rules, slo, rate_rps, e2e_s, asked_s)
    warmup = fact("warmup_long", warmup_s=warmup_s) if warmup_s > modes.LONG_WARMUP_S else None
    return [each for each in (window, warmup) if each is not None]


def _longer_window(rules: ModeRules, slo: Slo, rate_rps: float, e2e_s: float, asked_s: float) -> Fact | None:
    needed_s = modes.needed_s(slo, rate_rps)
    measured_s = modes.measured_s(asked_s, slo, rate_rps, e2e_s, rules.requests_within_s)
    if measured_s < needed_s:
        return fact("window_too_few", requests=measured_s * rate_rps, needed=needed_s * rate_rps, target=slo.target)
    if measured_s <= asked_s:
        return None
    longer = {"measure_s": measured_s, "asked_s": asked_s}
    if measured_s == needed_s:
        requests = measured_s * rate_rps
        return fact("window_for_requests", requests=requests, target=slo.target, rate_rps=rate_rps, **longer)
    return fact("window_for_durations", e2e_s=e2e_s, **longer)

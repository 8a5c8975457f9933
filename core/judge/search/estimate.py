"""How long requests take as far as a search knows it, and what its steps take by that.

How long a search is going to take, and what makes it longer than its mode. Pure.
"""

from core import modes
from core.config import Method, Slo
from core.judge.search import candidates
from core.judge.search.actions import Action, Ramp, Step
from core.modes import STEPS_EXPECTED, ModeRules
from core.units import duration, long_duration, mode_words

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
            case Step(phase="tighten", rate_rps=rate_rps):
                return candidates.REPEATS_EXPECTED * self.repeat_s(rate_rps)
            case Step(rate_rps=rate_rps, repeats=repeats):
                return repeats * self.repeat_s(rate_rps)
        return 0.0


def search_step_s(rules: ModeRules, slo: Slo, rate_rps: float, e2e_s: float, warmup_s: float) -> float:
    """One full step of the search, all its repeats passing."""
    one_s = modes.repeat_cost_s(rules.search.measure_s, slo, rate_rps, e2e_s, warmup_s, rules.requests_within_s, curtail_pass=True)
    return rules.search.repeats * one_s


def final_repeat_s(rules: ModeRules, slo: Slo, rate_rps: float, e2e_s: float, warmup_s: float) -> float:
    """One repeat of the stage that may set the passing rate, waiting for its last request."""
    return modes.repeat_cost_s(rules.final.measure_s, slo, rate_rps, e2e_s, warmup_s, rules.requests_within_s, curtail_pass=False)


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


def text(method: Method, rules: ModeRules, slo: Slo, rate_rps: float, e2e_s: float, warmup_s: float, total_s: float) -> str:
    """The expected time in words without a full stop; a second sentence when it is longer than the budget, with the reason where W
    or M is longer. A list has no budget."""
    why = why_longer(rules, slo, rate_rps, e2e_s, warmup_s)
    if method.rates_rps:
        about = f"about {long_duration(total_s)} for {mode_words(method)}"
        return about if why is None else f"{about}. {why[:1].upper()}{why[1:]}"
    about = f"about {long_duration(total_s)} in {mode_words(method)}"
    if total_s <= rules.budget_s:
        return about
    return f"{about}. That is longer than the {long_duration(rules.budget_s)} set for it{'' if why is None else f': {why}'}"


def why_longer(rules: ModeRules, slo: Slo, rate_rps: float, e2e_s: float, warmup_s: float) -> str | None:
    """Why a repeat at a rate measures longer than asked, or warms up for long; None where neither is so."""
    reasons = [each for each in (_longer_window(rules, slo, rate_rps, e2e_s), _long_warmup(warmup_s)) if each is not None]
    return "; ".join(reasons) or None


def _long_warmup(warmup_s: float) -> str | None:
    if warmup_s <= modes.LONG_WARMUP_S:
        return None
    return f"each repeat warms up for {long_duration(warmup_s)}, because a server with long answers takes that long to settle"


def _longer_window(rules: ModeRules, slo: Slo, rate_rps: float, e2e_s: float) -> str | None:
    asked_s, needed_s = rules.final.measure_s, modes.needed_s(slo, rate_rps)
    measured_s = modes.measured_s(asked_s, slo, rate_rps, e2e_s, rules.requests_within_s)
    if measured_s < needed_s:
        few, enough = measured_s * rate_rps, needed_s * rate_rps
        wanted = f"a target of {100 * slo.target:g} % asks for {enough:.0f}"
        return f"the time that was set holds about {few:.0f} requests a repeat, where {wanted}"
    if measured_s <= asked_s:
        return None
    if measured_s == needed_s:
        cause = f"{measured_s * rate_rps:.0f} requests are needed at a target of {100 * slo.target:g} %, at {rate_rps:.3g} a second"
    else:
        cause = f"it must hold five mean request durations of {duration(e2e_s)}"
    return f"each repeat measures {long_duration(measured_s)} instead of {long_duration(asked_s)}, because {cause}"

"""How long requests take as far as a search knows it, and what its steps take by that."""

from core.config import Slo
from core.judge import aim, expect, modes
from core.judge.actions import Action, Ramp, Step
from core.judge.modes import ModeRules

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
        return expect.search_step_s(self.rules, self._slo, rate_rps, self.e2e_s, self.warmup_s)

    def likely_s(self, rate_rps: float) -> float:
        """The same with the warm-up that it will have, which is planned for a longer E than was seen."""
        return expect.search_step_s(self.rules, self._slo, rate_rps, self.e2e_s, self.planned_warmup_s(rate_rps))

    def repeat_s(self, rate_rps: float) -> float:
        """A repeat of the stage that may set the passing rate."""
        return expect.final_repeat_s(self.rules, self._slo, rate_rps, self.e2e_s, self.planned_warmup_s(rate_rps))

    def confirmation_s(self, rate_rps: float) -> float:
        """The whole of confirming and tightening."""
        return expect.confirmation_s(self.rules, self._slo, rate_rps, self.e2e_s, self.planned_warmup_s(rate_rps))

    def extension_s(self, rate_rps: float) -> float:
        """What the number of requests and long warm-ups take beyond the mode's budget."""
        return expect.extension_s(self.rules, self._slo, rate_rps, self.e2e_s, self.planned_warmup_s(rate_rps))

    def action_s(self, action: Action) -> float:
        """What an action takes; a ramp counts as its first five segments, a held rate as nothing."""
        match action:
            case Ramp(segments=segments):
                return sum(segment.duration_s for segment in segments[: modes.RAMP_SEGMENTS_EXPECTED])
            case Step(phase="search", rate_rps=rate_rps):
                return self.likely_s(rate_rps)
            case Step(phase="tighten", rate_rps=rate_rps):
                return aim.REPEATS_EXPECTED * self.repeat_s(rate_rps)
            case Step(rate_rps=rate_rps, repeats=repeats):
                return repeats * self.repeat_s(rate_rps)
        return 0.0

"""The judged windows of a run as the posterior takes them: their figure X, and the work that they happened to bring. Pure."""

import math
from collections import Counter
from collections.abc import Iterable

from core.config import Workload
from core.judge.idle import mean_tokens
from core.judge.search.posterior import Window
from core.records import Phase
from core.results import Idle, RepeatResult, StepResult

_LEAST_MARGIN, _MOST_MARGIN = 1e-3, 30.0
_JUDGED: frozenset[Phase] = frozenset({"search", "confirm", "tighten", "list"})
IDLE_DECODING = 8.0
"""Before any step tells how many requests decode at once, so many share a step: the time of a token is that much cheaper."""


class WorkScale:
    """What a token of a prompt and one of an answer cost the server, in seconds: only their ratio matters. From the single requests,
    and from the steps so far: an answer's token costs its TPOT over the requests that decode at once (Little's law)."""

    def __init__(self, workload: Workload, idle: Idle) -> None:
        self._input, self._output = mean_tokens(workload.input_tokens), mean_tokens(workload.output_tokens)
        self._prompt_s = idle.prefill_token_s or 0.0
        self._token_s = (idle.tpot_s or 0.0) / IDLE_DECODING
        if not self._prompt_s and not self._token_s:
            self._prompt_s = self._token_s = 1.0
        self._known = False

    def learn(self, rate_rps: float, repeat: RepeatResult) -> None:
        """Take the time of a token from the first repeat that tells it."""
        e2e_s, ttft_s, tpot_s = repeat.e2e_s.mean, repeat.ttft_s.mean, repeat.tpot_s.mean
        if self._known or e2e_s is None or ttft_s is None or tpot_s is None:
            return
        self._token_s, self._known = tpot_s / max(rate_rps * (e2e_s - ttft_s), 1.0), True

    def z(self, rate_rps: float, repeat: RepeatResult) -> float:
        """ln of the work planned for a window over what its rate lets expect; 0 where it is not known."""
        work = repeat.work
        if work is None:
            return 0.0
        expected = rate_rps * work.seconds * (self._prompt_s * self._input + self._token_s * self._output)
        realised = self._prompt_s * work.input_tokens + self._token_s * work.output_tokens
        return math.log(realised / expected) if realised > 0 and expected > 0 else 0.0


def windows_of(steps: Iterable[StepResult], workload: Workload | None, idle: Idle) -> list[Window]:
    """One for each repeat of a full step that counts. Rates of a list share a draw for each repeat: together they count as one."""
    judged = [
        (step, repeat) for step in steps if step.phase in _JUDGED for repeat in step.repeats if repeat.verdict in ("pass", "fail")
    ]
    draws = Counter((step.phase, repeat.index) for step, repeat in judged)
    scale = None if workload is None else WorkScale(workload, idle)
    windows = []
    for step, repeat in judged:
        if scale is not None:
            scale.learn(step.rate_rps, repeat)
        weight = 1 / draws[step.phase, repeat.index] if step.phase == "list" else 1.0
        windows.append(_window(step.rate_rps, repeat, 0.0 if scale is None else scale.z(step.rate_rps, repeat), weight))
    return windows


def _window(rate_rps: float, repeat: RepeatResult, z: float, weight: float) -> Window:
    passed, known = repeat.verdict == "pass", repeat.slo_margin
    x = least = None
    if known is not None and known.at_target is not None:
        figure = math.log(min(max(known.at_target, _LEAST_MARGIN), _MOST_MARGIN))
        if known.at_least:
            least = figure
        else:  # a queue that rises, or too many errors, fail a window whose latencies are still within the limits
            x = figure if passed or figure > 0 else 0.0
    elif known is not None and known.unbounded:
        least = math.log(_MOST_MARGIN)
    return Window(
        rate_rps=rate_rps,
        measure_s=repeat.measure_s or 60.0,
        passed=passed,
        x=x,
        least=0.0 if passed or least is None else least,
        z=z,
        weight=weight,
    )

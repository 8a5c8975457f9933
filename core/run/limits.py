"""What ends load whatever a search wants: the limits that the user set for the run, and the requests of others."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from core.config import Safety
from core.facts import Fact, fact
from core.records import ServerSample
from core.results import Answer, Outcome, StepResult
from core.run.ends import SafetyStop

CHECK_S = 0.1
ERRORS, ERRORS_WITHIN_S = 3, 60.0
"""One request may fail for reasons of its own; a third one within a minute is taken for the server's state. A rate that is held for
a day has a few errors in any case."""

MEASURED: tuple[Outcome, ...] = ("bracket", "at_least", "below", "held")
"""Outcomes that say what the server takes."""


def others_rps(steps: Sequence[StepResult]) -> float | None:
    """Requests of others a second, on average over the repeats whose readings tell."""
    repeats = [repeat for step in steps if not step.set_aside for repeat in step.repeats]
    known = [repeat.others_rps for repeat in repeats if repeat.others_rps is not None]
    return sum(known) / len(known) if known else None


def on_top(answer: Answer, steps: Sequence[StepResult]) -> Answer:
    """The answer of a run beside others: what fits on top of them."""
    if answer.outcome not in MEASURED:
        return answer
    return msgspec.structs.replace(answer, message=fact("on_top", answer.message, others_rps=others_rps(steps)))


async def watch(safety: Safety, in_flight: Callable[[], int], clock: Callable[[], float], began: float) -> None:
    """Look at the limits of the whole run until one is reached. Raises SafetyStop. Returns at once where none is set."""
    while safety.max_in_flight is not None or safety.max_duration_s is not None:
        open_ = in_flight()
        if safety.max_in_flight is not None and open_ > safety.max_in_flight:
            raise SafetyStop(fact("max_in_flight", in_flight=open_, limit=safety.max_in_flight))
        if safety.max_duration_s is not None and clock() - began >= safety.max_duration_s:
            raise SafetyStop(fact("max_duration", limit_s=safety.max_duration_s))
        await asyncio.sleep(CHECK_S)


class Others:
    """Whether others, who use the same server, suffer from our load: more of them wait than `max_waiting`, the server preempts,
    or it answers with errors. Without `with_others` nobody is looked after."""

    def __init__(self, safety: Safety) -> None:
        self._safety = safety
        self._newest: ServerSample | None = None
        self._rises = self._errors = 0
        self._failed_at: deque[float] = deque(maxlen=ERRORS)

    def begin(self) -> None:
        """A new order starts: what was before is not its doing."""
        self._newest, self._rises, self._errors = None, 0, 0
        self._failed_at.clear()

    def sampled(self, sample: ServerSample) -> None:
        """A new reading of the server."""
        before, self._newest = self._newest, sample
        was, now = (before.preemptions_total if before else None), sample.preemptions_total
        self._rises = self._rises + 1 if was is not None and now is not None and now > was else 0

    def suffer(self, errors: int, now: float) -> Fact | None:
        """Why load must back off now; None while it need not. `errors`: of our own requests since the
        order began, those that are this machine's fault left out."""
        self._failed_at.extend([now] * min(errors - self._errors, ERRORS))
        self._errors = errors
        if not self._safety.with_others:
            return None
        waiting, limit = (self._newest.waiting if self._newest else None), self._safety.max_waiting
        if limit is not None and waiting is not None and waiting > limit:
            return fact("others_wait", waiting=int(waiting), limit=limit)
        if self._rises >= 2:  # readings apart: one preemption is an incident, not a state
            return fact("others_preempted")
        if len(self._failed_at) == ERRORS and self._failed_at[0] > now - ERRORS_WITHIN_S:
            return fact("errors_in_a_row", errors=ERRORS, within_s=ERRORS_WITHIN_S)
        return None

"""The replicas of a fleet while it is checked: whether they stay the same, and what is left when a command takes some away."""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from core.config import FleetPlan
from core.facts import fact, says, several
from core.judge import Search
from core.results import Answer, StepResult
from core.run.away import ServerAway
from core.run.between import COMMAND_S, run_command
from core.run.ends import NoAnswer
from core.run.events import Event, Note
from core.run.outlook import Outlook
from core.run.steps import Steps

GONE_S = 300.0
"""A pod that is told to end may finish what it has begun: 30 s by default, minutes where long answers are."""
POLL_S = 1.0
TRIES = 3
"""A replica that has just been under load may miss one reading; so many in a row it does not."""

CallRoll = Callable[[], Awaitable[frozenset[str]]]
"""Asks which replicas are there: their names."""


class Replicas:
    """Watches who is there. `command` takes replicas away; it is written nowhere, and the end of what it printed when it failed
    (`output`) is for the screen alone."""

    def __init__(
        self,
        plan: FleetPlan,
        call: CallRoll,
        command: str | None,
        *,
        emit: Callable[[Event], None],
        clock: Callable[[], float],
    ) -> None:
        self._plan = plan
        self._call = call
        self._command = command
        self._emit = emit
        self._clock = clock
        self._there: frozenset[str] | None = None
        self.output: str | None = None

    async def check(self, step: StepResult | None = None) -> None:
        """That the same replicas are there as before, and at first as many as are planned with; and that it was they who answered
        what was sent in `step`, or it is another fleet that was judged. Raises NoAnswer."""
        for repeat in () if step is None else step.repeats:
            if (unseen := next((each for each in repeat.warnings if says(each, "replicas_unseen")), None)) is not None:
                raise NoAnswer(fact("fleet_unseen", unseen))
        there: frozenset[str] = frozenset()
        for attempt in range(TRIES):
            await asyncio.sleep(POLL_S if attempt else 0.0)
            there = await self._call()
            if len(there) == self._plan.replicas if self._there is None else there == self._there:
                self._there = there
                return
        before = self._plan.replicas if self._there is None else len(self._there)
        raise NoAnswer(fact("fleet_changed", before=before, now=len(there)))

    def loses(self, search: Search) -> bool:
        """Whether some are to be taken away after the answer: where the planned load fails with all of them, it does with fewer."""
        return self._command is not None and self._plan.lost > 0 and search.passed(self._plan.planned_rps)

    async def judge_again(self, answer: Answer, search: Search, steps: Steps, outlook: Outlook) -> Answer:
        """The planned load again, with what is left when some replicas were taken away. Raises NoAnswer where that is not known."""
        self._emit(Note(t=self._clock(), text=answer.message))
        await self._take_away()
        steps.with_fewer()
        step = search.again(self._plan.planned_rps)
        takes_s = search.takes_s(step)
        outlook.begin(step, takes_s, 0.0, search.e2e_s)
        try:
            result = await steps.step(step, takes_s)
        except ServerAway as away:
            raise NoAnswer(away.fact) from away
        await self.check(result)
        if steps.ended:
            return loss_not_judged(answer, msgspec.structs.replace(answer, message=result.reason))
        plan = self._plan
        told = fact("fleet_after_loss", lost=plan.lost, left=self._left, planned_rps=plan.planned_rps, verdict=result.verdict)
        return msgspec.structs.replace(answer, message=several(answer.message, told))

    @property
    def _left(self) -> int:
        return self._plan.replicas - self._plan.lost

    async def _take_away(self) -> None:
        """Run the command and wait until as many fewer answer as are to be lost. Raises NoAnswer when it fails, when they stay, and
        when more are gone."""
        assert self._command is not None
        assert self._there is not None
        plan, had = self._plan, self._there
        self._emit(Note(t=self._clock(), text=fact("fleet_loses", lost=plan.lost, replicas=plan.replicas)))
        ended = await run_command(self._command)
        if ended.code != 0:
            self.output = ended.output
            raise NoAnswer(fact("lose_failed", exit_code=ended.code, within_s=COMMAND_S))
        began = self._clock()
        while len(left := await self._call()) > self._left:
            if self._clock() - began > GONE_S:
                raise NoAnswer(fact("lose_without_effect", left=len(left), lost=plan.lost, within_s=GONE_S))
            await asyncio.sleep(POLL_S)
        if len(left) < self._left or not left <= had:
            raise NoAnswer(fact("lost_others", left=len(left), expected=self._left))
        self._there = left
        await asyncio.sleep(POLL_S)  # a reading that still shows one of the lost is over by then
        self._emit(Note(t=self._clock(), text=fact("fleet_lost", left=len(left), after_s=self._clock() - began)))


def loss_not_judged(answer: Answer, ended: Answer) -> Answer:
    """The answer that stood when the planned load was to be judged with fewer replicas, and why that was not (`ended`)."""
    outcome = "interrupted" if ended.outcome == "interrupted" else answer.outcome
    why = fact("fleet_loss_not_judged", ended.message)
    return msgspec.structs.replace(answer, outcome=outcome, message=several(answer.message, why))

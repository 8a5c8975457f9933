"""The ramp to the knee as a state machine without I/O: what to run next, given what was seen."""

from collections.abc import Sequence

import msgspec

from core.config import ProbeConfig
from core.records import Answer, Phase, RequestRecord, Segment, StepResult


class Ramp(msgspec.Struct, frozen=True, kw_only=True):
    """One continuous open-loop ramp through measured segments, without a drain between them."""

    segments: tuple[Segment, ...]


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """Judge one rate with up to `repeats` repeats (it stops at the first that fails)."""

    phase: Phase
    rate_rps: float
    repeats: int
    segments: tuple[Segment, ...]
    expected_e2e_s: float
    curtail_pass: bool


class Done(msgspec.Struct, frozen=True, kw_only=True):
    answer: Answer


Action = Ramp | Step | Done


class Search:
    """Ask `next`, run what it says, `observe_*` how it ended, ask again, until Done."""

    def __init__(self, config: ProbeConfig) -> None:
        raise NotImplementedError

    def next(self, elapsed_s: float) -> Action:
        """What to do now; `elapsed_s` is the time since load began, for the budget."""
        raise NotImplementedError

    def observe_singles(self, records: Sequence[RequestRecord]) -> None:
        """The three judged single requests of preflight; to be called first. All three missing means infeasible."""
        raise NotImplementedError

    def observe_ramp(self, passed_rps: float | None, failed_rps: float | None) -> None:
        """`passed_rps`: the segment before the failing one (None: none); `failed_rps`: the failing one (None: none failed)."""
        raise NotImplementedError

    def observe_step(self, result: StepResult, mean_e2e_s: float | None) -> None:
        raise NotImplementedError

    def left_s(self, elapsed_s: float) -> float | None:
        """Expected seconds to the answer (time model of the method, section 6)."""
        raise NotImplementedError

    def answer_so_far(self, outcome: str, message: str) -> Answer:
        """What is known when the run has to end now (interrupted, void, server lost)."""
        raise NotImplementedError

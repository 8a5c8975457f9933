"""The twin's own process: it says what the twin says, keeps to its budget, and ends with the run."""

import queue
from functools import cache

import msgspec
import pytest

from core.replica.catalog import CATALOG
from core.twin import Reader, TwinProcess, TwinTask, read
from core.twin.worker import Asked, Seen, Throttle, _OverBudget, answer
from tests.core.twin.windows import Seen as Windows
from tests.core.twin.windows import seen, task_of

PATIENCE_S = 600.0


@cache
def run_of() -> Windows:
    return seen(CATALOG["slot"], 7, (0.7, 0.95), measure_s=60.0)


def task(seed: int = 1, cpu_s: float = 20.0) -> TwinTask:
    return msgspec.structs.replace(task_of(CATALOG["slot"], run_of()), seed=seed, long_requests=1200, measure_s=20.0, cpu_s=cpu_s)


async def test_it_says_what_the_twin_says() -> None:
    twin = await TwinProcess.start()
    assert twin is not None
    try:
        assert await twin.reading(PATIENCE_S) is None
        await twin.seen(run_of().records)
        await twin.ask(task())
        told, known = await twin.reading(PATIENCE_S), read(task(), run_of().records)
        assert told is not None
        assert known is not None
        assert msgspec.structs.replace(told, cpu_s=0.0) == msgspec.structs.replace(known, cpu_s=0.0)
        assert twin.latest == told
        await twin.beside_load(True)
        await twin.ask(task(seed=2))
        assert await twin.reading(0.0) is None, "the last question has no answer yet"
        assert await twin.reading(PATIENCE_S) is not None
    finally:
        await twin.close()
    await twin.close()
    assert await twin.reading(PATIENCE_S) is not None


async def test_the_run_does_not_wait_for_it() -> None:
    """It is closed in the middle of a reading, and what is said to it afterwards is said to nobody."""
    twin = await TwinProcess.start()
    assert twin is not None
    await twin.seen(run_of().records)
    await twin.ask(msgspec.structs.replace(task(), long_requests=500_000))
    await twin.close()
    await twin.ask(task())
    assert await twin.reading(PATIENCE_S) is None


class Over(Exception):
    """Ends the loop that would go on for ever."""


class Inbox(queue.SimpleQueue[Seen | Asked]):
    """What was said; to wait for more ends the loop."""

    def get(self, block: bool = True, timeout: float | None = None) -> Seen | Asked:
        if self.empty():
            raise Over
        return super().get(block, timeout)


def answers(capfd: pytest.CaptureFixture[str], *messages: Seen | Asked, reader: Reader | None = None) -> list[tuple[int, bool]]:
    """Which questions are answered, and whether with a reading."""
    inbox = Inbox()
    for message in messages:
        inbox.put(message)
    with pytest.raises(Over):
        answer(inbox, Throttle(), reader or Reader())
    told = [msgspec.json.decode(line) for line in capfd.readouterr().out.splitlines()]
    return [(each["number"], each["reading"] is not None) for each in told]


def test_the_newest_question_alone_is_answered(capfd: pytest.CaptureFixture[str]) -> None:
    records = run_of().records
    some, rest = Seen(records[:99], False), Seen(records[99:], True)
    assert answers(capfd, Asked(1, task()), some, rest, Asked(2, task())) == [(2, True)]


def test_an_order_counts_when_all_of_it_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    """Half of its requests would be half of the batch."""
    assert answers(capfd, Seen(run_of().records, False), Asked(1, task())) == [(1, False)]


def test_a_reading_far_over_its_budget_ends(capfd: pytest.CaptureFixture[str]) -> None:
    class Endless(Reader):
        def read(self, task: TwinTask) -> None:
            while True:
                throttle_once()

    throttle = Throttle()

    def throttle_once() -> None:
        throttle._slice_over(0, None)

    inbox = Inbox()
    inbox.put(Asked(1, task(cpu_s=0.0)))
    with pytest.raises(Over):
        answer(inbox, throttle, Endless())
    assert msgspec.json.decode(capfd.readouterr().out) == {"number": 1, "reading": None}


def test_it_waits_nine_times_as_long_as_it_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr("core.twin.worker.time.sleep", waits.append)
    throttle = Throttle()
    throttle._slice_over(0, None)
    throttle.of_core = 0.1
    throttle._slice_over(0, None)
    assert waits == pytest.approx([0.045])
    with throttle.budget(1000.0):
        throttle._slice_over(0, None)
    with pytest.raises(_OverBudget), throttle.budget(-1.0):
        throttle._slice_over(0, None)

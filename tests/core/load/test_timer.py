"""A wait for an absolute time ends there: never before, and not when somebody else's time comes."""

import asyncio
import time
from collections.abc import Callable

import pytest

from core.load import timer as alarm_module
from core.load.timer import OVERDUE_A_TURN, Alarm
from tests.core.load.server import WAIT_S


def without_timerfd() -> None:
    return None


@pytest.fixture(params=["timerfd", "ctypes", "spin"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every way of waiting; what `os` has by itself from Python 3.13 on, and what stands in for it before."""
    other: dict[str, Callable[[], object]] = {"ctypes": alarm_module._timerfd_by_ctypes, "spin": without_timerfd}
    if request.param in other:
        monkeypatch.setattr(alarm_module, "_timerfd", other[request.param])
    return str(request.param)


@pytest.mark.usefixtures("kind")
async def test_it_ends_at_its_time_and_never_before() -> None:
    alarm = Alarm()
    async with asyncio.timeout(WAIT_S):
        for ahead_s in (0.0, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 4e-3, 0.02) * 3:
            due = time.monotonic() + ahead_s
            await alarm.until(due)
            assert time.monotonic() >= due
    alarm.close()
    alarm.close()


@pytest.mark.usefixtures("kind")
async def test_what_is_overdue_gives_way_now_and_then() -> None:
    alarm, others = Alarm(), 0

    async def other() -> None:
        nonlocal others
        others += 1

    for i in range(3):
        task = asyncio.create_task(other())
        for _ in range(OVERDUE_A_TURN - 1):
            await alarm.until(-5.0)
            assert others == i
        await alarm.until(-5.0)
        assert others == i + 1
        await task
    alarm.close()


@pytest.mark.usefixtures("kind")
async def test_a_wait_that_was_given_up_does_not_end_the_next_one() -> None:
    alarm = Alarm()
    first = asyncio.create_task(alarm.until(time.monotonic() + 0.01))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    due = time.monotonic() + 0.03
    await alarm.until(due)
    assert time.monotonic() >= due
    alarm.close()


async def test_the_kernel_is_told_the_absolute_time(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []
    made = alarm_module._timerfd_by_ctypes()
    assert made is not None
    fd, set_to = made

    def note(ns: int) -> None:
        told.append(ns)
        set_to(ns)

    monkeypatch.setattr(alarm_module, "_timerfd", lambda: (fd, note))
    alarm = Alarm()
    due = time.monotonic() + 0.005
    await alarm.until(due)
    assert told[0] - due * 1e9 == pytest.approx(0, abs=1000)
    alarm.close()

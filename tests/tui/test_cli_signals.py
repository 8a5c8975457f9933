"""The two stages of a signal, in this process."""

import asyncio
import signal
import sys
import threading

import pytest

from tui.cli import commands
from tui.terminal import signals
from tui.terminal.signals import TwoStage, interrupt_on_terminate


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_the_first_stops_and_the_next_leave(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    told: list[str] = []
    stopped = asyncio.Event()

    def stop(seen: int) -> None:
        told.append(f"stop {seen}")
        stopped.set()

    with TwoStage(stop, lambda: told.append("leave"), lambda: told.append("now")) as both:
        seen = [both.seen]
        signal.raise_signal(number)
        await stopped.wait()
        signal.raise_signal(number)
        signal.raise_signal(signal.SIGTERM)
        seen.append(both.seen)
    assert seen == [False, True]
    assert told == [f"stop {number.value}", "leave", "leave"]
    assert signal.getsignal(number) is before


@pytest.mark.parametrize("number", signals.SIGNALS)
async def test_a_signal_that_the_caller_ignores_stays_ignored(number: signal.Signals) -> None:
    """As a shell has it for SIGINT of a script's commands that end with &, and nohup for SIGHUP."""
    before = signal.signal(number, signal.SIG_IGN)
    try:
        with TwoStage(lambda _: None, lambda: None, lambda: None) as both:
            signal.raise_signal(number)
            assert not both.seen
        assert signal.getsignal(number) is signal.SIG_IGN
    finally:
        signal.signal(number, before)


async def test_a_stuck_loop_is_left_because_nothing_else_stops_the_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signals, "PATIENCE_S", 0.01)
    left = threading.Event()
    told: list[int] = []
    with TwoStage(told.append, lambda: None, left.set):
        signal.raise_signal(signal.SIGTERM)
        assert left.wait(30)  # the loop stands still here, on purpose
    assert told == []


def test_before_a_run_a_termination_goes_through_every_finally() -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGHUP)
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        interrupt_on_terminate()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGHUP)  # ignored by the caller, as under nohup
    finally:
        for number, handler in zip((signal.SIGTERM, signal.SIGHUP), before, strict=True):
            signal.signal(number, handler)


def test_after_the_end_no_signal_changes_the_exit_code_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    before = [signal.getsignal(number) for number in signals.SIGNALS]
    monkeypatch.setattr(commands.cli, "main", lambda: sys.exit(130))
    try:
        with pytest.raises(SystemExit) as end:
            commands.main()
        for number in signals.SIGNALS:
            signal.raise_signal(number)
    finally:
        for number, handler in zip(signals.SIGNALS, before, strict=True):
            signal.signal(number, handler)
    assert end.value.code == 130

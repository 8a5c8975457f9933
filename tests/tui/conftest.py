"""What tests of the screen and of the command line share."""

import asyncio
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest
from textual import _time, _wait
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from textual.pilot import Pilot

from tests.faults.clock import virtual_loop
from tui.cli import probe


@pytest.fixture(scope="session", autouse=True)
def no_signal_is_ignored() -> None:
    """As in a terminal. A script's `pytest ... &` has SIGINT ignored, `nohup` SIGHUP, and so would every command that a test
    starts."""
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


REAL_TIME = ("test_cli_process", "test_cli_screen", "test_cli_signals", "test_headless", "test_secrets", "test_tmux", "test_whatif")
"""What waits for processes, signals and other threads."""


def pytest_asyncio_loop_factories(item: pytest.Item) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Time is virtual under an app: each pause of a pilot lasts 20 ms, each key that it presses two of them."""
    return {"asyncio": asyncio.new_event_loop if item.path.stem in REAL_TIME else virtual_loop}


@pytest.fixture(autouse=True)
def textual_goes_by_the_loops_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which is the real one if that loop's is."""

    def now() -> float:
        try:
            return asyncio.get_running_loop().time()
        except RuntimeError:  # an app that does not run yet
            return time.monotonic()

    monkeypatch.setattr(_time, "get_time", now)
    monkeypatch.setattr(_wait, "monotonic", now)


_resize = Pilot.resize_terminal


async def resized(self: Pilot[Any], width: int, height: int) -> None:
    """Give the terminal a size, which textual takes up a hundredth of a second later."""
    await _resize(self, width, height)
    self.app._check_resize()
    await self.pause()


@pytest.fixture(autouse=True)
def a_resize_is_taken_up_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not a hundredth of a second later, which a test may be through with by then."""
    monkeypatch.setattr(Pilot, "resize_terminal", resized)


_PARSED: dict[object, list[RuleSet]] = {}
_parse = Stylesheet._parse_rules


def parsed(self: Stylesheet, css: str, *args: Any, **keywords: Any) -> list[RuleSet]:
    """The rules of a style sheet, which no app changes: parsed once for all of them that have the same colours."""
    key = (css, args, *sorted(keywords.items()), frozenset(self._variables.items()))
    if key not in _PARSED:
        _PARSED[key] = _parse(self, css, *args, **keywords)
    return _PARSED[key]


@pytest.fixture(autouse=True)
def style_sheets_are_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Textual parses all of them six times for each app, a fifth of the time of a test."""
    monkeypatch.setattr(Stylesheet, "_parse_rules", parsed)


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[probe.Job]:
    """The runs that were asked for; none of them is done."""
    asked: list[probe.Job] = []

    def take(job: probe.Job) -> int:
        asked.append(job)
        return 0

    monkeypatch.setattr(probe, "run", take)
    monkeypatch.setattr("tui.cli.commands.interrupt_on_terminate", lambda: None)
    monkeypatch.delenv("KNEESCOPE_API_KEY", raising=False)
    return asked

"""The key that ends a step, from the screen down to the load."""

import asyncio
from pathlib import Path

import pytest

from core.facts import fact
from core.run import log as runs
from core.run.events import RepeatStarted, StepJudged
from core.run.session import Session
from tests.builders import asked_step
from tests.core.run import fakes
from tests.core.run.bench import Bench, events_of, scripted
from tests.tui.screen import settle, text_of
from tui.again import Left
from tui.app import KneescopeApp, RunControls
from tui.cli import probe
from tui.terminal import display


async def test_n_ends_the_step_and_the_run_goes_on_to_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fakes, "SERVICE_S", 0.05)
    monkeypatch.setattr(fakes, "PREFILL_S", 0.01)
    log = runs.RunLog(path := tmp_path / "run.jsonl")
    bench = Bench(log)
    scripted(asked_step(40.0, 3), asked_step(20.0, 3))(bench)
    session, source = bench.session, probe.Live(bench.session)
    app = KneescopeApp(source, run=source.run, controls=RunControls(stop=session.stop, end_step=session.end_step))

    async with app.run_test(size=(120, 36)) as pilot, asyncio.timeout(20):

        async def at(rate_rps: float) -> None:
            while app.phase != "confirm" or (current := source.view().current) is None or current.rate_rps != rate_rps:
                await pilot.pause(0.05)

        await at(40.0)
        await pilot.press("n")
        await at(20.0)
        await settle(app, pilot)
        assert "ended by the user" in text_of(app)
        await pilot.press("x")
        while app.running:
            await pilot.pause(0.05)
    log.close()

    first, second = (event.result for event in events_of(path, StepJudged))
    assert (first.rate_rps, first.verdict, first.reason) == (40.0, "unjudged", fact("user_ended"))
    assert (second.rate_rps, second.reason) == (20.0, fact("stopped"))
    assert len([each for each in events_of(path, RepeatStarted) if each.order.phase == "confirm"]) == 2


async def test_the_screen_of_a_run_is_given_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[RunControls] = []

    async def show(*_: object, controls: RunControls, **__: object) -> Left:
        given.append(controls)
        return Left()

    monkeypatch.setattr(display, "show", show)
    session = Session(fakes.config(), log := runs.RunLog(tmp_path / "run.jsonl"))
    await probe._screen(session, log.path)
    log.close()

    assert given[0].end_step == session.end_step

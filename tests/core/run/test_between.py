"""Between repeats: the user's command, waiting for the server, and the cache reset."""

import asyncio
import contextlib
import math
import os
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from core.facts import Code, fact, says
from core.run.between import OUTPUT_BYTES, Between, Ended, run_command
from core.run.ends import NoAnswer
from core.run.events import Event, Note, RepeatJudged, RunEnded
from core.run.scraping import Readings
from tests.builders import asked_step
from tests.core.run.bench import Bench, assert_ended_clean, events_of, on_bench, scripted, to_the_end
from tests.core.run.fakes import config
from tests.core.run.virtual import now, run
from tests.processes import gone

CACHE: tuple[Code, ...] = ("cache_unreached", "cache_not_offered", "cache_not_reset", "cache_held", "cache_unchecked")
RESTARTED: tuple[Code, ...] = ("restarted_between_repeats", "restarted_between_steps", "server_restarted")

# --- a command ---


async def test_a_command_tells_its_exit_code_and_the_end_of_its_output() -> None:
    assert await run_command("echo out; echo err >&2; exit 3") == Ended(code=3, output="out\nerr")
    assert await run_command("cat; true") == Ended(code=0, output=""), "its input is empty"
    long = await run_command("yes | head -c 100000; printf end")
    assert len(long.output) <= OUTPUT_BYTES
    assert long.output.endswith("end")


async def test_what_a_command_leaves_in_the_background_is_not_waited_for(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    ended = await run_command(f"sleep 30 & echo $! > {pid_file}")

    assert ended.code == 0
    os.kill(int(pid_file.read_text()), 9)  # it still runs


async def test_a_command_out_of_time_is_ended_with_all_it_started(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    ended = await run_command(f"sleep 30 & echo $! > {pid_file}; wait", limit_s=0.3)

    assert ended.code is None
    await gone(int(pid_file.read_text()), within_s=10)


async def test_a_cancelled_command_is_ended_with_all_it_started(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    task = asyncio.create_task(run_command(f"trap '' TERM; sleep 30 & echo $! > {pid_file}; wait; sleep 30"))
    while not pid_file.exists() or not pid_file.read_text().strip():  # noqa: ASYNC110 - a file tells nobody
        await asyncio.sleep(0.01)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task

    assert task.cancelled()
    await gone(int(pid_file.read_text()), within_s=10)


# --- waiting for the server ---


def between(health: Callable[[], int | None], monkeypatch: pytest.MonkeyPatch) -> tuple[Between, list[str]]:
    commands: list[str] = []

    async def command(text: str) -> Ended:
        commands.append(text)
        return Ended(code=0, output="")

    async def asked() -> int | None:
        return health()

    monkeypatch.setattr("core.run.between.run_command", command)
    events: list[Event] = []
    readings = Readings(None, events.append, now, lambda sample: None)
    return Between("restart", None, health=asked, readings=readings, emit=events.append, clock=now), commands


def test_the_command_runs_between_repeats_and_not_before_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        each, commands = between(lambda: 200, monkeypatch)
        for runs in (0, 1, 2):
            await each.prepare()
            assert len(commands) == runs

    run(work())


@pytest.mark.parametrize("usual", [200, 404])
def test_the_server_is_waited_for(usual: int, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        answers: list[int | None] = [usual, None, None, 503, 503, usual]
        each, _ = between(lambda: answers.pop(0), monkeypatch)
        await each.prepare()
        await each.prepare()
        assert answers == []

    run(work())


def test_a_server_that_does_not_come_back_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        each, _ = between(lambda: None, monkeypatch)
        await each.prepare()
        with pytest.raises(NoAnswer) as ended:
            await each.prepare()
        assert ended.value.fact == fact("between_not_ready", within_s=600.0, missing="health")

    run(work())


# --- in a run ---


def test_a_restart_between_repeats_voids_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    benches: list[Bench] = []
    idle: list[bool] = []

    async def restart(command: str) -> Ended:
        assert command == "systemctl restart secret"
        bench = benches[0]
        idle.append(not bench.server.in_flight and not bench.generator.loading)
        bench.server.healthy = False
        bench.server.epoch += 1
        bench.server.tokens = bench.server.ended = 0.0
        asyncio.get_running_loop().call_later(7.0, setattr, bench.server, "healthy", True)
        return Ended(code=0, output="")

    monkeypatch.setattr("core.run.between.run_command", restart)

    def set_up(bench: Bench) -> None:
        benches.append(bench)
        scripted(asked_step(4.0, 3))(bench)

    bench, answer = on_bench(path, to_the_end, between="systemctl restart secret", set_up=set_up)

    assert answer.outcome == "bracket"
    assert [event.result.verdict for event in events_of(path, RepeatJudged)] == ["pass"] * 3
    assert idle == [True, True]
    assert not any(says(event.text, *RESTARTED) for event in events_of(path, Note)), "it was wanted"
    assert "secret" not in path.read_text()
    assert bench.asked.count("GET /health") == 4, "before each command, and once the server is back"


@pytest.mark.parametrize("alive_path", ["/v1/models", None])
def test_a_server_without_a_health_that_answers_is_back_when_it_serves(
    path: Path, monkeypatch: pytest.MonkeyPatch, alive_path: str | None
) -> None:
    benches: list[Bench] = []

    async def restart(command: str) -> Ended:
        server = benches[0].server
        server.healthy, server.refuses_from = False, now()
        asyncio.get_running_loop().call_later(7.0, setattr, server, "healthy", True)
        asyncio.get_running_loop().call_later(7.0, setattr, server, "refuses_from", math.inf)
        return Ended(code=0, output="")

    monkeypatch.setattr("core.run.between.run_command", restart)

    def set_up(bench: Bench) -> None:
        benches.append(bench)
        bench.server.slow, bench.alive_path = ("/health",), alive_path
        scripted(asked_step(4.0, 3))(bench)

    bench, answer = on_bench(path, to_the_end, between="restart", set_up=set_up)

    assert answer.outcome == "bracket"
    assert [event.result.verdict for event in events_of(path, RepeatJudged)] == ["pass"] * 3
    assert bench.asked.count("GET /v1/models") == (4 if alive_path else 0), "before each command, and once the server is back"


def test_a_failing_command_ends_the_run(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(command: str) -> Ended:
        return Ended(code=7, output="password=hunter2")

    monkeypatch.setattr("core.run.between.run_command", fails)
    bench, answer = on_bench(path, to_the_end, between="false", set_up=scripted(asked_step(4.0, 3)))

    assert answer.outcome == "void"
    assert answer.message == fact("between_failed", exit_code=7, within_s=600.0)
    assert bench.session.between_output == "password=hunter2"
    assert "hunter2" not in path.read_text()
    assert [event.result.verdict for event in events_of(path, RepeatJudged)] == ["pass"]
    assert_ended_clean(bench, path)


def test_a_stop_ends_the_command(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[float] = []

    async def hangs(command: str) -> Ended:
        asyncio.get_running_loop().call_later(5.0, benches[0].session.stop)
        try:
            await asyncio.sleep(1000)
        finally:
            ended.append(now())
        raise AssertionError

    benches: list[Bench] = []

    def set_up(bench: Bench) -> None:
        benches.append(bench)
        scripted(asked_step(4.0, 2))(bench)

    monkeypatch.setattr("core.run.between.run_command", hangs)
    bench, answer = on_bench(path, to_the_end, between="sleep 1000", set_up=set_up)

    assert answer.outcome == "interrupted"
    assert events_of(path, RunEnded)[0].t - ended[0] < 0.5
    assert_ended_clean(bench, path)


def resets(path: Path, *answers: httpx.Response) -> tuple[Bench, list[Note]]:
    def set_up(bench: Bench) -> None:
        bench.resets += answers
        scripted(asked_step(4.0, 3))(bench)

    bench, answer = on_bench(path, to_the_end, probe=config(reset_cache=True), set_up=set_up)
    assert answer.outcome == "bracket"
    return bench, [note for note in events_of(path, Note) if says(note.text, *CACHE)]


def yes(success: bool = True) -> httpx.Response:
    return httpx.Response(200, json={"success": success})


def test_the_cache_is_reset_before_each_repeat(path: Path) -> None:
    bench, notes = resets(path, yes(), yes(), yes())

    assert bench.asked.count("POST /reset_prefix_cache") == 3
    assert notes == []


def test_a_server_without_a_reset_is_told_of_once_and_asked_no_more(path: Path) -> None:
    bench, notes = resets(path)

    assert bench.asked.count("POST /reset_prefix_cache") == 1
    assert [(note.level, says(note.text, "cache_not_offered")) for note in notes] == [("info", True)]


def test_a_reset_that_cannot_be_checked_is_told_of_once(path: Path) -> None:
    bench, notes = resets(path, httpx.Response(200), httpx.Response(200), httpx.Response(200))

    assert bench.asked.count("POST /reset_prefix_cache") == 3
    assert [(note.level, note.text) for note in notes] == [("info", fact("cache_unchecked"))]


def test_a_reset_that_failed_is_tried_once_more(path: Path) -> None:
    bench, notes = resets(path, yes(False), yes(), yes(False), yes(False), yes())

    assert bench.asked.count("POST /reset_prefix_cache") == 5
    assert [(note.level, note.text) for note in notes] == [("warn", fact("cache_held"))]


def test_without_the_option_nothing_is_reset(tmp_path: Path) -> None:
    bench, _ = on_bench(tmp_path / "run.jsonl", to_the_end, set_up=scripted(asked_step(4.0, 2)))

    assert not any("reset" in asked for asked in bench.asked)

"""Servers that are started for a setting: ready, ended, and gone with all they started, however kneescope ends."""

import asyncio
import os
import select
import shlex
import signal
import socket
import subprocess
import sys
import threading
from asyncio.subprocess import DEVNULL
from pathlib import Path

import pytest

from core.facts import fact
from core.tune import NotReady, Server, guardian, server
from tests.processes import is_there

HOME = Path(__file__).parents[3]
SERVED = Path(__file__).with_name("served.py")
PATIENCE_S = 60.0
"""An end for what hangs; nothing is measured."""


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def command(folder: Path, kind: str, port: int) -> str:
    return shlex.join([sys.executable, str(SERVED), str(port), str(folder), kind])


def pids(folder: Path) -> list[int]:
    return [int(path.name.removeprefix("pid-")) for path in folder.glob("pid-*")]


async def appears(path: Path) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not os.path.exists(path):  # noqa: ASYNC110, ASYNC240 (a file of another process)
            await asyncio.sleep(0.01)


async def gone(folder: Path) -> None:
    """Returns once none of the processes is left."""
    async with asyncio.timeout(PATIENCE_S):
        while any(map(is_there, pids(folder))):  # noqa: ASYNC110 (processes of others)
            await asyncio.sleep(0.01)


async def started(folder: Path, kind: str, grace_s: float = 0.2) -> Server:
    port = free_port()
    server = await Server.start(command(folder, kind, port), f"http://127.0.0.1:{port}", grace_s=grace_s)
    await appears(folder / "listening")
    return server


async def test_it_ends_when_it_is_asked_to(tmp_path: Path) -> None:
    server = await started(tmp_path, "plain", grace_s=600.0)
    await server.stop()
    await server.stop()
    assert not any(map(is_there, pids(tmp_path)))
    assert server.left == 0
    assert not server.ended.done(), "it did not end by itself"


@pytest.mark.skipif(sys.platform != "linux", reason="whoever leaves its session is found by its parents, on Linux alone")
async def test_a_deaf_family_is_killed_with_those_that_left_its_session(tmp_path: Path) -> None:
    server = await started(tmp_path, "family")
    assert len(pids(tmp_path)) == 5
    await server.stop()
    assert not any(map(is_there, pids(tmp_path)))
    assert server.left == 0


async def test_a_cancelled_end_does_not_wait_for_the_grace(tmp_path: Path) -> None:
    server = await started(tmp_path, "deaf", grace_s=600.0)
    ending = asyncio.create_task(server.stop())
    await asyncio.sleep(0)
    ending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(ending, PATIENCE_S)
    assert not any(map(is_there, pids(tmp_path)))


async def test_a_command_that_ends_by_itself_says_how(tmp_path: Path) -> None:
    server = await Server.start(command(tmp_path, "ends", 0), "http://127.0.0.1:9")

    async def never() -> bool:
        return False

    with pytest.raises(NotReady) as ended:
        await asyncio.wait_for(server.ready(never, 600.0, lambda: 0.0), PATIENCE_S)
    assert ended.value.fact == fact("serve_ended", exit_code=7)
    assert ended.value.said == "on stdout\nno \x1b[31mroom\n"
    await server.stop()


async def test_the_wait_for_the_first_answer_has_an_end(tmp_path: Path) -> None:
    server = await Server.start(command(tmp_path, "hush", 0), "http://127.0.0.1:9", grace_s=0.2)
    now, asked = 0.0, 0

    async def answers() -> bool:
        nonlocal asked
        asked += 1
        return asked == 4

    async def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    assert await server.ready(answers, 60.0, lambda: now, sleep) == 1.5
    with pytest.raises(NotReady) as late:
        await server.ready(answers, 60.0, lambda: now, sleep)
    assert late.value.fact == fact("serve_not_ready", within_s=60.0)
    assert 61.0 < now < 63.0
    await server.stop()
    await gone(tmp_path)


_BLIND = """
import runpy, sys
found = runpy.run_path({path!r})
whole, calls = found["_table"], iter(range(3))
found["_descendants"].__globals__["_table"] = lambda: whole() if next(calls, None) is None else iter(())
found["Guardian"](float(sys.argv[1])).run()
"""


async def test_a_list_that_misses_a_process_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes are listed one by one: who loses its parent meanwhile is in no list, and there all the same."""
    blind = tmp_path / "blind.py"
    blind.write_text(_BLIND.format(path=guardian.__file__))
    monkeypatch.setattr(server, "_GUARDIAN", str(blind))
    served = await started(tmp_path, "deaf", grace_s=0.0)
    await served.stop()
    assert served.left == 0
    assert not any(map(is_there, pids(tmp_path)))


_PARENT = """
import asyncio, sys
sys.path.insert(0, sys.argv[1])
from core.tune import Server
async def main():
    await Server.start(sys.argv[2], "http://127.0.0.1:9", grace_s=0.2)
    await asyncio.sleep(600)
asyncio.run(main())
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
@pytest.mark.skipif(sys.platform != "linux", reason="whoever leaves its session is found by its parents, on Linux alone")
async def test_nothing_outlives_whoever_started_it(tmp_path: Path, number: signal.Signals) -> None:
    """Also where the signal reaches the whole process group, as from a terminal."""
    parent = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-c", _PARENT, str(HOME), command(tmp_path, "family", free_port())),
        stdin=DEVNULL,
        stderr=DEVNULL,
        start_new_session=True,
    )
    try:
        await appears(tmp_path / "listening")
        assert len(pids(tmp_path)) == 5
        assert all(map(is_there, pids(tmp_path)))
        os.killpg(parent.pid, number)
        await parent.wait()
    finally:
        if parent.returncode is None:
            parent.kill()
    await gone(tmp_path)


async def test_a_server_does_not_outlive_the_process_that_guards_it(tmp_path: Path) -> None:
    server = await started(tmp_path, "deaf")
    server._process.kill()
    await asyncio.wait_for(asyncio.shield(server.ended), PATIENCE_S)
    assert server.ended.result().code is None
    await gone(tmp_path)
    await server.stop()


async def test_more_output_than_a_pipe_holds_blocks_nothing(tmp_path: Path) -> None:
    line = "y" * 100
    noisy = f"yes {line} | head -n 20000; echo last; exit 3"
    server = await Server.start(noisy, "http://127.0.0.1:9")
    ended = await asyncio.wait_for(asyncio.shield(server.ended), PATIENCE_S)
    assert ended.code == 3
    assert ended.said.endswith("\nlast\n")
    assert len(ended.said) <= 4096
    await server.stop()


async def test_of_what_was_cut_the_first_line_is_left_out_for_half_a_secret_is_not_known_for_one() -> None:
    server = await Server.start("echo sk-TESTSECRET; yes yyyyyyy | head -n 511; exit 3", "http://127.0.0.1:9")
    ended = await asyncio.wait_for(asyncio.shield(server.ended), PATIENCE_S)
    assert ended.said == "yyyyyyy\n" * 511
    await server.stop()


async def test_a_server_that_never_answered_leaves_its_last_words(tmp_path: Path) -> None:
    server = await Server.start(f"echo still loading; touch {tmp_path}/listening; sleep 600", "http://127.0.0.1:9", grace_s=0.2)
    await appears(tmp_path / "listening")
    await server.stop()
    assert server.said == "still loading\n"


def test_a_command_that_fails_at_once_is_noticed() -> None:
    """Before the object that started it is gone, which takes the exit code of a process that is over."""
    code = """
import os, subprocess
begin = subprocess.Popen.__init__
def ended(self, *args, **options):
    begin(self, *args, **options)
    os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
subprocess.Popen.__init__ = ended
from core.tune.guardian import Guardian
Guardian(0.2).run()
"""
    process = subprocess.Popen([sys.executable, "-c", code], cwd=HOME, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b'{"command": "exit 7"}\n')
    assert b'"pid"' in process.stdout.readline()
    assert select.select([process.stdout], [], [], 10.0)[0], "nobody learned that it ended"
    process.stdin.close()
    assert b'{"ended": 7' in process.stdout.readline()
    process.stdout.close()
    process.wait()


def test_signals_that_the_guardian_stands_reach_its_server_as_usual(tmp_path: Path) -> None:
    """A handler of the guardian's is not inherited: what ends a server by Ctrl-C still does."""

    async def main() -> None:
        server = await started(tmp_path, "plain")
        os.kill(pids(tmp_path)[0], signal.SIGINT)
        ended = await asyncio.wait_for(asyncio.shield(server.ended), PATIENCE_S)
        assert ended.code != 0
        await server.stop()

    assert threading.current_thread() is threading.main_thread()
    asyncio.run(main())

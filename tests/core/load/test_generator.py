"""The child as a real process: it sends what it is told, tells what happened, and never outlives its parent."""

import asyncio
import os
import resource
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from core.config import Lengths, Workload
from core.errors import UserError
from core.load import generator as worker_module
from core.load.child import MOST_FILES
from core.load.generator import Generator
from core.load.transport.direct import transport_name
from core.load.transport.pool import SPARE_CONNECTIONS
from core.records import ChildMessage, LoadDone, LoadReady, LoadTick, RepeatOrder, RequestEnded, RequestFirst, RequestSent
from core.schedule import draw
from tests.core.load.orders import hello, order
from tests.core.load.server import WAIT_S, Received, endless, serving, whole
from tests.processes import gone, state_of

ROOT = Path(__file__).parents[3]
LATER = 1000.0


@asynccontextmanager
async def generating() -> AsyncIterator[Generator]:
    generator = await Generator.start()
    try:
        yield generator
    finally:
        await generator.close()


async def until_done(generator: Generator) -> list[ChildMessage]:
    """Everything told up to the LoadDone, that included."""
    told: list[ChildMessage] = []
    async with asyncio.timeout(WAIT_S):
        async for message in generator.messages():
            told.append(message)
            if isinstance(message, LoadDone):
                break
    return told


def at_once(count: int, *later: float, number: int = 1) -> RepeatOrder:
    return order(offsets_s=(*[0.0] * count, *later), start_at=time.monotonic(), number=number)


def done(told: list[ChildMessage]) -> LoadDone:
    last = told[-1]
    assert isinstance(last, LoadDone)
    return last


def ends(told: list[ChildMessage]) -> list[RequestEnded]:
    return [m for m in told if isinstance(m, RequestEnded)]


def pid_of(generator: Generator) -> int:
    return generator._workers[0].process.pid


async def test_it_says_what_it_runs_on_first() -> None:
    async with generating() as generator:
        await generator.hello(hello())
        await generator.order(at_once(0))
        told = await until_done(generator)
        assert told[0] is generator.ready
        assert isinstance(told[0], LoadReady)
        assert told[0].python == "{}.{}.{}".format(*sys.version_info)
        assert told[0].loop.startswith("uvloop ")
        assert told[0].transport == transport_name()
        assert told[0].fd_limit == resource.getrlimit(resource.RLIMIT_NOFILE)[1]


async def test_an_order_is_sent_as_drawn_and_told_from_send_to_end() -> None:
    workload = Workload(
        input_tokens=Lengths(median=40, sigma=0.5, maximum=120), output_tokens=Lengths(median=20, sigma=0.5, maximum=60)
    )
    async with serving(whole) as server, generating() as generator:
        said = hello(server.url, workload=workload)
        asked = order((300, 0.2), (100, 0.2), start_at=time.monotonic() + 0.05)
        plan = draw(asked, workload)
        await generator.hello(said)
        await generator.order(asked)
        told = await until_done(generator)
    by_index = {m.index: m for m in ends(told)}
    assert sorted(by_index) == list(range(len(plan)))
    assert {m.ending for m in by_index.values()} == {"ok"}
    for index, ended in by_index.items():
        assert ended.t_sched == asked.start_at + plan.offsets_s[index]
        assert ended.t_sent is not None
        assert ended.t_sent >= ended.t_sched
        assert (ended.asked_input, ended.asked_output) == (plan.input_tokens[index], plan.output_tokens[index])
    assert len([m for m in told if isinstance(m, RequestSent)]) == len(plan)
    assert len([m for m in told if isinstance(m, RequestFirst)]) == len(plan)
    assert (done(told).sent, done(told).unsent) == (len(plan), 0)
    seen = sorted((len(r.json["prompt"]), r.json["max_tokens"]) for r in server.received)
    assert seen == sorted(zip(plan.input_tokens.tolist(), plan.output_tokens.tolist(), strict=True))
    assert len({r.json["cache_salt"] for r in server.received}) == len(plan)


async def test_three_hundred_streams_are_all_at_the_server_at_once() -> None:
    everyone = asyncio.Event()

    async def handler(request: Received) -> None:
        await everyone.wait()
        await whole(request)

    async with serving(handler) as server, generating() as generator:
        await generator.hello(hello(server.url))
        await generator.order(at_once(300))
        await server.until(lambda s: len(s.received) == 300)
        everyone.set()
        told = await until_done(generator)
        assert [m.ending for m in ends(told)] == ["ok"] * 300
        assert 300 <= server.connections <= 300 + SPARE_CONNECTIONS


async def test_a_burst_finds_more_connections_open() -> None:
    """By a request that is not due for long, so that only those ahead of need are opened."""
    bursty = Workload(input_tokens=Lengths(median=32), output_tokens=Lengths(median=2), arrival_cv=3.0)
    async with serving(endless) as server, generating() as generator:
        await generator.hello(hello(server.url, workload=bursty))
        await generator.order(order(offsets_s=(LATER,), start_at=time.monotonic()))
        await server.until(lambda s: s.connections == 3 * SPARE_CONNECTIONS)
        await generator.abort(1)
        assert done(await until_done(generator)).sent == 0


async def test_ticks_come_while_it_waits() -> None:
    async with serving(endless) as server, generating() as generator:
        await generator.hello(hello(server.url))
        await generator.order(at_once(3, LATER))
        async with asyncio.timeout(WAIT_S):
            async for message in generator.messages():
                if isinstance(message, LoadTick) and message.in_flight == 3:
                    break
        await generator.abort(1)
        assert done(await until_done(generator)).sent == 3


async def test_abort_closes_every_connection_and_tells_every_end() -> None:
    async with serving(endless) as server, generating() as generator:
        await generator.hello(hello(server.url))
        await generator.order(at_once(50, LATER))
        await server.until(lambda s: len(s.received) == 50)
        await generator.abort(1)
        told = await until_done(generator)
        assert [m.ending for m in ends(told)] == ["aborted"] * 50
        assert (done(told).sent, done(told).unsent) == (50, 0)
        await server.until(lambda s: s.closed >= 50)
        assert all(r.gone.is_set() for r in server.received)


async def test_stop_arrivals_lets_open_requests_end() -> None:
    release = asyncio.Event()

    async def handler(request: Received) -> None:
        await release.wait()
        await whole(request)

    async with serving(handler) as server, generating() as generator:
        await generator.hello(hello(server.url))
        await generator.order(at_once(5, LATER))
        await server.until(lambda s: len(s.received) == 5)
        await generator.stop_arrivals(1)
        await generator.stop_arrivals(77)
        release.set()
        told = await until_done(generator)
        assert [m.ending for m in ends(told)] == ["ok"] * 5
        assert (done(told).sent, done(told).unsent) == (5, 0)


async def test_orders_follow_each_other_and_a_new_hello_changes_the_target() -> None:
    async with serving(whole) as one, serving(whole) as other, generating() as generator:
        await generator.hello(hello(one.url))
        for number in (1, 2):
            await generator.order(at_once(1, number=number))
            assert done(await until_done(generator)).order == number
        assert (len(one.received), len({r.connection for r in one.received})) == (2, 1)
        await generator.hello(hello(other.url, api="chat", api_key="sk-TESTSECRET"))
        await generator.order(at_once(1, number=3))
        assert done(await until_done(generator)).order == 3
        assert len(one.received) == 2
        assert other.received[0].path == "/v1/chat/completions"
        assert other.received[0].headers["authorization"] == "Bearer sk-TESTSECRET"
        await one.until(lambda s: s.closed == s.connections)


async def test_a_parent_that_does_not_read_holds_no_send_back() -> None:
    async with serving(whole) as server, generating() as generator:
        worker = generator._workers[0]
        worker._readers[0].cancel()
        await asyncio.gather(worker._readers[0], return_exceptions=True)
        await generator.hello(hello(server.url))
        await generator.order(at_once(700))  # tells more than the pipe and the reader's buffer hold
        await server.until(lambda s: len(s.received) == 700)
        worker._readers = (asyncio.create_task(worker._read_messages()), worker._readers[1])
        assert len(ends(await until_done(generator))) == 700


async def test_running_out_of_files_is_the_clients_own_fault_and_told_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    few = "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))\n"
    monkeypatch.setattr(worker_module, "_CHILD", few + worker_module._CHILD)
    async with serving(endless) as server, generating() as generator:
        assert generator.ready.fd_limit == 40
        await generator.hello(hello(server.url))
        await generator.order(at_once(100))
        told: list[ChildMessage] = []
        async with asyncio.timeout(WAIT_S):
            async for message in generator.messages():
                told += [message] if isinstance(message, RequestFirst | RequestEnded) else []
                if len(told) == 100:
                    break
        assert {m.ending for m in ends(told)} == {"client"}
        assert len(ends(told)) >= 60
        await generator.abort(1)
        assert {m.ending for m in ends(await until_done(generator))} == {"aborted"}


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the size of a process's table of files")
async def test_no_socket_waits_for_the_table_of_files_to_grow() -> None:
    async with generating() as generator:
        assert room_for_files(pid_of(generator)) >= min(generator.ready.fd_limit, MOST_FILES)


# --- the end of parent and child ----------------------------------------------------------------------------------


async def test_close_ends_the_child_and_its_load_and_may_be_said_twice() -> None:
    async with serving(endless) as server:
        generator = await Generator.start()
        await generator.hello(hello(server.url))
        await generator.order(at_once(20, *(0.01 * i for i in range(1, 10_000))))
        await server.until(lambda s: len(s.received) >= 20)
        await generator.close()
        await generator.close()
        await server.until(lambda s: s.closed == s.connections >= 20)
        assert generator._workers[0].process.returncode == 0
        async with asyncio.timeout(WAIT_S):
            _ = [m async for m in generator.messages()]
            await generator.abort(1)


async def test_close_ends_a_child_that_does_not_listen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "CLOSE_TIMEOUT_S", 0.05)
    generator = await Generator.start()
    os.kill(pid_of(generator), signal.SIGSTOP)
    async with asyncio.timeout(WAIT_S):
        while state_of(pid_of(generator)) != "T":  # noqa: ASYNC110 (each of its threads stops when it gets to it)
            await asyncio.sleep(0.001)
    await generator.close()
    assert generator._workers[0].process.returncode == -signal.SIGKILL


SOON_SILENT = "import core.load.child as c; c.SILENCE_S = 1.0; main()"
"""For the child's program: its patience shortened."""

PARENT = """
import asyncio, sys, time
from core.load.generator import Generator
from tests.core.load.orders import hello, order

async def main():
    generator = await Generator.start()
    await generator.hello(hello(sys.argv[1]))
    await generator.order(order(offsets_s=tuple(0.01 * i for i in range(100_000)), start_at=time.monotonic()))
    print(generator._workers[0].process.pid, flush=True)
    await asyncio.sleep(1000)

asyncio.run(main())
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_the_child_does_not_outlive_a_killed_parent(number: signal.Signals) -> None:
    async with serving(endless) as server:
        parent = await asyncio.create_subprocess_exec(
            sys.executable, "-c", PARENT, server.url, cwd=ROOT, stdout=asyncio.subprocess.PIPE
        )
        assert parent.stdout is not None
        child = int(await parent.stdout.readline())
        await server.until(lambda s: len(s.received) >= 10)
        parent.send_signal(number)
        await parent.wait()
        await gone(child)
        await server.until(lambda s: s.closed == s.connections)


async def test_the_load_stops_when_the_parent_is_only_stopped() -> None:
    """A suspended parent reads nothing and judges nothing; its end of the pipe stays open all the same."""
    soon = f"import core.load.generator as g; g._CHILD = g._CHILD.replace('main()', {SOON_SILENT!r})\n"
    async with serving(endless) as server:
        parent = await asyncio.create_subprocess_exec(
            sys.executable, "-c", soon + PARENT, server.url, cwd=ROOT, stdout=asyncio.subprocess.PIPE
        )
        assert parent.stdout is not None
        child = int(await parent.stdout.readline())
        await server.until(lambda s: len(s.received) >= 10)
        parent.send_signal(signal.SIGSTOP)
        await server.until(lambda s: s.closed == s.connections)
        await gone(child)
        parent.send_signal(signal.SIGKILL)
        await parent.wait()


async def test_a_parent_that_speaks_keeps_the_load_up() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker_module, "_CHILD", worker_module._CHILD.replace("main()", SOON_SILENT))
        patch.setattr(worker_module, "HEARTBEAT_S", 0.05)
        async with serving(whole) as server, generating() as generator:
            await generator.hello(hello(server.url))
            await generator.order(at_once(0, 1.5))
            assert [m.ending for m in ends(await until_done(generator))] == ["ok"]


def room_for_files(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("FDSize:"))


async def test_ctrl_c_of_the_terminal_does_not_reach_the_load() -> None:
    async with serving(whole) as server, generating() as generator:
        os.kill(pid_of(generator), signal.SIGINT)
        await generator.hello(hello(server.url))
        await generator.order(at_once(1))
        assert ends(await until_done(generator))[0].ending == "ok"


async def test_a_child_that_dies_is_told_with_exit_code_3() -> None:
    async with generating() as generator:
        os.kill(pid_of(generator), signal.SIGKILL)
        with pytest.raises(UserError, match=r"ended by itself \(signal SIGKILL\)") as caught:
            await until_done(generator)
        assert caught.value.exit_code == 3
        with pytest.raises(UserError):
            await generator.order(at_once(1))


async def test_its_last_words_are_in_the_message_without_the_key() -> None:
    async with generating() as generator:
        generator._hello = hello(api_key="hello")
        await generator.order(at_once(1))
        with pytest.raises(UserError, match=r"exit code 1\): RuntimeError: an order came before the \*\*\*"):
            await until_done(generator)


async def test_a_second_order_beside_the_first_is_a_fault() -> None:
    async with serving(endless) as server, generating() as generator:
        await generator.hello(hello(server.url))
        await generator.order(at_once(1))
        await generator.order(at_once(1, number=2))
        with pytest.raises(UserError, match="order 1 is not over yet"):
            await until_done(generator)


async def test_a_child_that_cannot_start_is_told() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "executable", "/nowhere/python")
        with pytest.raises(UserError, match="could not be started"):
            await Generator.start()
        patch.undo()
        patch.setattr(worker_module, "_CHILD", "raise SystemExit('no core here')")
        with pytest.raises(UserError, match="no core here"):
            await Generator.start()


async def test_a_core_of_the_users_own_does_not_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "core").mkdir()
    (tmp_path / "core" / "__init__.py").write_text("raise SystemExit('the wrong core')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    async with generating() as generator:
        assert isinstance(generator.ready, LoadReady)


async def test_messages_may_be_left_and_taken_up_again() -> None:
    async with serving(whole) as server, generating() as generator:
        await generator.hello(hello(server.url))
        await generator.order(at_once(5))
        told: list[ChildMessage] = []
        async with asyncio.timeout(WAIT_S):
            while not (told and isinstance(told[-1], LoadDone)):
                async for message in generator.messages():
                    told.append(message)
                    break
        assert len(ends(told)) == 5
        assert len(told) >= 1 + 15 + 1

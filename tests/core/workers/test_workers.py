"""Several workers are one load to whoever uses it: one plan, one stream, and none of it is left when one of them is lost."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from core.access import Access
from core.config import Lengths, Workload
from core.errors import UserError
from core.records import ChildMessage, ClosedOrder, DatasetRows, LoadReady, LoadTick, RequestSent, WorkerTick
from core.schedule import draw
from core.workers import Workers, WorkersAsked, controller
from core.workloads import Gateway
from tests.core.load.orders import hello, order
from tests.core.load.server import WAIT_S, Server, endless, serving, whole
from tests.core.load.test_generator import LATER, at_once, done, ends
from tests.core.workers.here import ROOT, driver
from tests.processes import gone

LEAD_S = 0.3


@asynccontextmanager
async def working(count: int, **how: Any) -> AsyncIterator[Workers]:
    workers = await Workers.start(WorkersAsked(local=count), driver=driver(**how))
    try:
        yield workers
    finally:
        await workers.close()


async def until_done(workers: Workers) -> list[ChildMessage]:
    told: list[ChildMessage] = []
    async with asyncio.timeout(WAIT_S):
        async for message in workers.messages():
            told.append(message)
            if type(message).__name__ == "LoadDone":
                break
    return told


def senders(workers: Workers) -> list[int]:
    return [int(worker.name) for worker in workers.workers]


@pytest.mark.parametrize(("count", "skews_s"), [(1, ()), (2, (86_400.0, -1234.5)), (4, (0.0, 1e6, -10.0, 3.25))])
async def test_the_plan_is_the_same_for_any_number_of_workers_whatever_their_clocks_say(
    count: int, skews_s: tuple[float, ...]
) -> None:
    workload = Workload(input_tokens=Lengths(median=40, sigma=0.5, maximum=120), output_tokens=Lengths(median=4))
    async with serving(whole) as server, working(count, skews_s=skews_s) as workers:
        await workers.hello(hello(server.url, workload=workload))
        asked = order((200, 0.5), start_at=time.monotonic() + LEAD_S)
        plan = draw(asked, workload)
        await workers.order(asked)
        told = await until_done(workers)
        for offset, skew_s in zip(workers._offsets, skews_s, strict=False):
            assert offset.error_s is not None
            assert abs(offset.s - skew_s) <= offset.error_s, "what is told of a clock's error holds"
    by_index = {m.index: m for m in ends(told)}
    assert sorted(by_index) == list(range(len(plan))), "each once, whoever sent it"
    for index, ended in by_index.items():
        assert ended.t_sched == pytest.approx(asked.start_at + plan.offsets_s[index], abs=1e-6)
        assert (ended.asked_input, ended.asked_output) == (plan.input_tokens[index], plan.output_tokens[index])
        assert ended.t_sent is not None
        assert ended.t_sched < ended.t_sent < ended.t_end
    assert (done(told).sent, done(told).unsent) == (len(plan), 0)
    assert [type(m) for m in told].count(LoadReady) == 1
    assert isinstance(told[0], LoadReady)


async def test_they_report_on_themselves_together_and_apart_and_stop_as_one() -> None:
    async with serving(endless) as server, working(2) as workers:
        await workers.hello(hello(server.url))
        await workers.order(at_once(5, LATER))
        async with asyncio.timeout(WAIT_S):
            async for message in workers.messages():
                if isinstance(message, LoadTick) and message.in_flight == 5:
                    break
        assert isinstance(message, LoadTick)
        assert [worker.in_flight for worker in message.workers] == [3, 2]
        assert all(isinstance(worker, WorkerTick) for worker in message.workers)
        assert message.loop_lag_max_s == max(worker.loop_lag_max_s for worker in message.workers)
        await workers.abort(1)
        told = await until_done(workers)
        assert [m.ending for m in ends(told)] == ["aborted"] * 5
        await workers.order(at_once(4, number=2))
        await workers.abort(2)
        assert done(await until_done(workers)).order == 2, "the next order goes the same way"


async def test_a_closed_loop_has_its_places_shared_out() -> None:
    async with serving(endless) as server, working(3) as workers:
        await workers.hello(hello(server.url))
        asked = ClosedOrder(order=4, in_flight=5, duration_s=1000.0, seed=11, start_at=time.monotonic())
        await workers.order(asked)
        sent: set[int] = set()
        async with asyncio.timeout(WAIT_S):
            async for message in workers.messages():
                sent |= {message.index} if isinstance(message, RequestSent) else set()
                if isinstance(message, LoadTick) and message.in_flight == 5:
                    break
        assert len(sent) == 5
        await workers.abort(4)
        assert len(ends(await until_done(workers))) == 5


@asynccontextmanager
async def loading(count: int) -> AsyncIterator[tuple[Server, Workers]]:
    """Workers with six requests under way that never end."""
    async with serving(endless) as server, working(count) as workers:
        await workers.hello(hello(server.url, api_key="SECRET-KEY"))
        await workers.order(at_once(6, LATER))
        await server.until(lambda s: len(s.received) == 6)
        yield server, workers


async def lost(server: Server, workers: Workers, said: str) -> None:
    """The run ends with this sentence, and nothing is left of the load."""
    pids = [*senders(workers), workers.process.pid]
    with pytest.raises(UserError, match=said) as raised:
        await until_done(workers)
    assert raised.value.exit_code == 3
    await server.until(lambda s: s.closed == s.connections)
    await gone(*pids)


async def test_when_one_sender_dies_all_load_ends_and_its_worker_is_named() -> None:
    async with loading(2) as (server, workers):
        victim = senders(workers)[1]
        os.kill(victim, signal.SIGKILL)
        await lost(server, workers, f"^Worker {victim} is lost: its sending process ended .signal SIGKILL.")


async def test_a_worker_that_does_not_answer_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller, "BEAT_S", 0.1)
    async with serving(endless) as server, working(2, silent=1) as workers:
        await workers.hello(hello(server.url))
        await workers.order(at_once(6, LATER))
        await lost(server, workers, f"^Worker {senders(workers)[1]} has not answered for 600 ms")


async def test_a_worker_whose_clock_jumps_while_it_sends_ends_the_run() -> None:
    """It has sent at other times than the plan has, and to itself it was in time."""
    async with serving(endless) as server, working(2, jumps_s=-2.0) as workers:
        await workers.hello(hello(server.url))
        await workers.order(at_once(6, LATER))
        await lost(server, workers, f"^The clock of worker {senders(workers)[0]} has left this machine's by [12].* while it sent")


async def test_a_sender_that_says_nothing_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    async with loading(2) as (_, workers):
        monkeypatch.setattr(controller, "BEAT_S", 0.15)
        victim = senders(workers)[0]
        os.kill(victim, signal.SIGSTOP)
        with pytest.raises(UserError, match=f"^The sending process of worker {victim} has said nothing for"):
            await until_done(workers)
        await gone(workers.process.pid)
        with suppress(ProcessLookupError):  # Linux ends it with the driver, even while it is stopped
            os.kill(victim, signal.SIGCONT)
        await gone(victim)


async def test_when_the_driver_is_killed_all_load_ends() -> None:
    async with loading(2) as (server, workers):
        os.kill(workers.process.pid, signal.SIGKILL)
        await lost(server, workers, r"ended by itself \(signal SIGKILL\)")


CONTROLLER = """
import asyncio, sys, time
sys.path.insert(0, {root!r})
from core.workers import Workers, WorkersAsked
from tests.core.load.orders import hello, order
from tests.core.workers.here import driver
async def main():
    workers = await Workers.start(WorkersAsked(local=2), driver=driver())
    await workers.hello(hello({url!r}))
    print(*(worker.name for worker in workers.workers), workers.process.pid, flush=True)
    await workers.order(order(offsets_s=(*[0.0] * 4, 1000.0), start_at=time.monotonic()))
    async for _ in workers.messages():
        pass
asyncio.run(main())
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=["dead", "frozen"])
async def test_no_load_is_left_behind_a_controller_that_is(how: signal.Signals) -> None:
    """Frozen, it takes the silence of 5 s after which a sending process stops by itself: heartbeats are the controller's own."""
    async with serving(endless) as server:
        code = CONTROLLER.format(root=str(ROOT), url=server.url)
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=subprocess.PIPE)
        try:
            assert process.stdout is not None
            async with asyncio.timeout(WAIT_S):
                pids = [int(word) for word in (await process.stdout.readline()).split()]
            await server.until(lambda s: len(s.received) == 4)
            os.kill(process.pid, how)
            await server.until(lambda s: s.closed == s.connections)
            await gone(*pids[:-1])
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        await gone(*pids)


def environ_of(pid: int) -> bytes:
    return Path(f"/proc/{pid}/environ").read_bytes()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows the environment of a process under /proc")
async def test_the_driver_inherits_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray hands its environment to each process that it starts."""
    monkeypatch.setenv("KNEESCOPE_API_KEY", "SECRET-KEY-OF-ENV")
    workers = await Workers.start(WorkersAsked(local=1), access=Access(api_key="SECRET-KEY-OF-ENV"), driver=driver())
    try:
        for pid in (workers.process.pid, *senders(workers)):
            assert b"SECRET" not in environ_of(pid)
    finally:
        await workers.close()


async def test_a_driver_that_says_what_cannot_be_read_is_ended() -> None:
    code = "import sys; print('not a message', flush=True); sys.stdin.read()"
    with pytest.raises(UserError, match="said what cannot be read") as refused:
        await Workers.start(WorkersAsked(), driver=(sys.executable, "-c", code))
    assert refused.value.exit_code == 3


async def test_what_the_driver_refuses_is_told() -> None:
    with pytest.raises(UserError, match=r"^no such machines$") as refused:
        await Workers.start(WorkersAsked(), driver=driver(refuses="no such machines"))
    assert refused.value.exit_code == 3


async def test_what_cannot_be_shared_out_is_refused() -> None:
    async with working(1, elsewhere=True) as workers:
        for bad in (
            hello("http://10.0.0.1:8000", workload=Workload(gateway=Gateway(limit=4))),
            replace(hello("http://10.0.0.1:8000"), dataset=DatasetRows(path="x", form="lines", begins=(), sizes=(), checksums=())),
            hello("http://127.0.0.1:8000"),
        ):
            with pytest.raises(UserError):
                await workers.hello(bad)
        await workers.hello(hello("http://10.0.0.1:8000"))


async def test_it_ends_with_all_that_it_started() -> None:
    async with working(2) as workers:
        pids = [*senders(workers), workers.process.pid]
        infos = workers.workers
        assert all(worker.clock_error_s is not None and worker.clock_error_s > 0 for worker in infos)
    await workers.close()
    await gone(*pids)

"""The same over Ray itself: a Ray of our own, and a cluster of two nodes. What is lost ends the run, and nothing is left of it."""

import os
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from core.errors import UserError
from core.schedule import draw
from core.workers import Workers, WorkersAsked
from tests.core.load.orders import hello, order
from tests.core.load.server import Server, endless, serving, whole
from tests.core.load.test_generator import LATER, at_once, done, ends
from tests.core.workers.ray_cluster import actors_and_senders, cluster_of, own_folder, processes_under
from tests.core.workers.test_workers import until_done
from tests.processes import gone

SECRET = "sk-ray-must-not-keep-this"
LEAD_S = 0.5


def holding_the_secret(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]


@pytest.fixture
def folder() -> Iterator[Path]:
    with own_folder() as path:
        yield path


@pytest.fixture
def cluster(folder: Path) -> Iterator[tuple[str, int]]:
    with cluster_of(2, folder) as made:
        yield made


@asynccontextmanager
async def working(asked: WorkersAsked) -> AsyncIterator[Workers]:
    workers = await Workers.start(asked)
    try:
        yield workers
    finally:
        await workers.close()


async def plan_is_sent(workers: Workers, server: Server, number: int = 1) -> None:
    await workers.hello(hello(server.url, api_key=SECRET))
    asked = order((100, 0.5), number=number, start_at=time.monotonic() + LEAD_S)
    plan = draw(asked, hello().workload)
    await workers.order(asked)
    told = await until_done(workers)
    by_index = {m.index: m for m in ends(told)}
    assert sorted(by_index) == list(range(len(plan)))
    assert (done(told).sent, done(told).unsent) == (len(plan), 0)
    for index, ended in by_index.items():
        assert ended.t_sched == pytest.approx(asked.start_at + plan.offsets_s[index], abs=1e-6)
        assert ended.ending == "ok"
    assert {r.headers["authorization"] for r in server.received} == {f"Bearer {SECRET}"}


async def test_a_ray_of_our_own_sends_the_plan_keeps_no_secret_and_loses_no_load(folder: Path) -> None:
    async with serving(whole) as server, working(WorkersAsked(local=2)) as workers:
        assert len(workers.workers) == 2
        assert all(worker.clock_error_s is not None for worker in workers.workers)
        await plan_is_sent(workers, server)
        assert (folder / "ray/session_latest/logs").exists()
        assert not (folder / ".ray").exists(), "Ray would keep a token in the user's folder"
        assert holding_the_secret(folder) == [], "neither logs nor what describes the job hold the key"
        under = processes_under(workers.process.pid)
        victim = sorted(actors_and_senders(workers.process.pid))[0]
        server.handler = endless
        await workers.order(at_once(6, LATER, number=2))
        await server.until(lambda s: sum(not r.gone.is_set() for r in s.received[-6:]) == 6)
        os.kill(victim, signal.SIGKILL)
        with pytest.raises(UserError, match=r"^Worker .* is lost: Ray says ActorDiedError\.") as raised:
            await until_done(workers)
        assert raised.value.exit_code == 3
        await server.until(lambda s: s.closed == s.connections)
        await gone(workers.process.pid, *under)


async def test_when_the_driver_is_killed_nothing_of_ours_is_left(folder: Path) -> None:
    async with serving(endless) as server, working(WorkersAsked(local=1)) as workers:
        await workers.hello(hello(server.url))
        await workers.order(at_once(4, LATER))
        await server.until(lambda s: len(s.received) == 4)
        under = processes_under(workers.process.pid)
        os.kill(workers.process.pid, signal.SIGKILL)
        with pytest.raises(UserError, match="SIGKILL"):
            await until_done(workers)
        await server.until(lambda s: s.closed == s.connections)
        await gone(workers.process.pid, *under)


async def test_two_nodes_of_a_cluster_send_one_plan_and_a_frozen_one_ends_the_run(cluster: tuple[str, int]) -> None:
    """Ray would take a minute to miss it: its own patience is 64 s."""
    address, above = cluster
    async with serving(whole) as server, working(WorkersAsked(address=address)) as workers:
        assert len(workers.workers) == 2, "the head has no CPUs, and sends nothing"
        await plan_is_sent(workers, server)
        actors = actors_and_senders(above)
        assert len(actors) == 2
        frozen, sender = sorted(actors.items())[0]
        server.handler = endless
        await workers.order(at_once(6, LATER, number=2))
        await server.until(lambda s: sum(not r.gone.is_set() for r in s.received[-6:]) == 6)
        os.kill(frozen, signal.SIGSTOP)
        with pytest.raises(UserError, match=r"^Worker .* has not answered for 3 s\.") as raised:
            await until_done(workers)
        assert raised.value.exit_code == 3
        await server.until(lambda s: s.closed == s.connections)
        await gone(sender, *actors, *actors.values())

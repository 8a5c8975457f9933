"""The same over Ray itself: a Ray of our own, and a cluster of two nodes. What is lost ends the run, and nothing is left of it."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from core.errors import UserError
from core.schedule import draw
from core.workers import Workers, WorkersAsked
from tests.core.load.orders import hello, order
from tests.core.load.server import Server, endless, serving, whole
from tests.core.load.test_generator import LATER, at_once, done, ends
from tests.core.workers.test_workers import gone, until_done

SECRET = "sk-ray-must-not-keep-this"
LEAD_S = 0.5

CLUSTER = """
import os, sys
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
from ray.cluster_utils import Cluster
small = {"include_dashboard": False, "object_store_memory": 80_000_000}
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **small})
for _ in range(2):
    cluster.add_node(num_cpus=1, object_store_memory=80_000_000)
print(cluster.address, flush=True)
sys.stdin.read()
cluster.shutdown()
"""


def processes_under(pid: int) -> dict[int, str]:
    """Every process that `pid` started, and those that these started, with their command lines."""
    lines = subprocess.run(["ps", "-ww", "-eo", "pid=,ppid=,args="], capture_output=True, text=True, check=True).stdout.splitlines()
    rows = [(int(one), int(parent), " ".join(rest)) for one, parent, *rest in map(str.split, lines)]
    todo = [pid]
    found: dict[int, str] = {}
    while todo:
        parent = todo.pop()
        children = {one: args for one, its, args in rows if its == parent}
        found |= children
        todo += children
    return found


def actors_and_senders(pid: int) -> dict[int, int]:
    """Our sending processes under a Ray, each with its actor's process as the key."""
    under = processes_under(pid)
    senders = [one for one, args in under.items() if "core.load.child" in args]
    return {_parent_of(sender): sender for sender in senders}


def _parent_of(pid: int) -> int:
    return int(subprocess.run(["ps", "-o", "ppid=", "-p", str(pid)], capture_output=True, text=True, check=True).stdout)


def holding_the_secret(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where Ray keeps its logs: a short path, because sockets lie in it."""
    path = Path(tempfile.mkdtemp(prefix="ks-ray"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_TMPDIR", str(path))
        patch.setenv("HOME", str(path))
        patch.setenv("RAY_AUTH_MODE", "disabled")
        patch.delenv("RAY_ADDRESS", raising=False)
        yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def cluster(folder: Path) -> Iterator[tuple[str, int]]:
    """The address of a cluster of two nodes that work and a head that does not, and the process that all of it is under."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", CLUSTER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd=folder,
        text=True,
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip(), process.pid
        finally:
            under = processes_under(process.pid)
            for pid in (process.pid, *under):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


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

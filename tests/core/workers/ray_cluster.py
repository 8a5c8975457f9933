"""A Ray cluster of several nodes on this machine, and which processes are under it."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

_CLUSTER = """
import os, sys
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
from ray.cluster_utils import Cluster
small = {"include_dashboard": False, "object_store_memory": 80_000_000}
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **small})
for _ in range(int(sys.argv[1])):
    cluster.add_node(num_cpus=1, object_store_memory=80_000_000)
print(cluster.address, flush=True)
sys.stdin.read()
cluster.shutdown()
"""


@contextmanager
def own_folder() -> Iterator[Path]:
    """Where Ray keeps its logs, and no token: a short path, because sockets lie in it."""
    path = Path(tempfile.mkdtemp(prefix="ks-ray"))
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("RAY_TMPDIR", str(path))
            patch.setenv("HOME", str(path))
            patch.setenv("RAY_AUTH_MODE", "disabled")
            patch.delenv("RAY_ADDRESS", raising=False)
            yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def cluster_of(nodes: int, folder: Path) -> Iterator[tuple[str, int]]:
    """The address of a cluster of nodes that work and a head that does not, and the process that all of it is under."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", _CLUSTER, str(nodes)],
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
    return {parent_of(sender): sender for sender in senders}


def parent_of(pid: int) -> int:
    """The process that started it: of an actor, the raylet of its node."""
    return int(subprocess.run(["ps", "-o", "ppid=", "-p", str(pid)], capture_output=True, text=True, check=True).stdout)

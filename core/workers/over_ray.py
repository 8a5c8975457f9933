"""The one place that knows Ray: brings machines together, puts a `Host` on each, and carries words to it and back.

Ray's own ways to notice a loss take a minute by default, so none is relied on. Keys and headers are in the arguments of calls to
actors alone: what describes the job (`runtime_env`) is kept by the cluster's head and shown to whoever asks it.
"""

import os
import re
import socket
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

import core
from core.access import everything_under
from core.errors import UserError
from core.records import WorkerInfo
from core.workers import look as looking
from core.workers.asked import WorkersAsked
from core.workers.driver import Gone
from core.workers.host import Host
from core.workers.messages import Gather, Gathered

CONNECT_S = 2.0
LOOK_S = 30.0
"""The package is sent to a machine and unpacked there in about a second."""

MOST_NAME = 64
"""Characters of a machine's name (Linux: HOST_NAME_MAX)."""

_LOCAL = {"include_dashboard": False, "object_store_memory": 80_000_000, "num_cpus": 1}
"""A Ray of our own carries batches of lines and nothing else."""

_THREADS = 4
"""Of an actor: its lines are read while it is told something, and beats go past both."""

_HERE = "ray_current_cluster"
_VERSIONS = re.compile(r"Ray: (\S+)\s+Python: (\S+)")


def gather(asked: Gather) -> "RayCarrier":
    """Join the cluster, or start one, and put a worker on each machine. Raises UserError."""
    where = _address(asked.asked)
    _join(asked.asked, where)
    try:
        nodes = _nodes(asked.asked)
        return RayCarrier(nodes, _look_at(nodes))
    except RayError as problem:
        raise UserError(f"Ray at {where} could not start the workers: {_first_line(problem)}", exit_code=3) from problem


class RayCarrier:
    """The workers, as the driver speaks with them."""

    def __init__(self, nodes: list[str], gathered: Gathered) -> None:
        self.gathered = gathered
        kind = ray.remote(Host)
        self._actors = [
            kind.options(num_cpus=0, max_concurrency=_THREADS, scheduling_strategy=_on(node)).remote(ends_with_parent=True)
            for node in nodes
        ]

    async def say(self, worker: int, number: int, lines: bytes) -> None:
        """Pass commands on."""
        await self._called(self._actors[worker].say.remote(number, lines))

    async def beat(self, worker: int) -> float:
        """Pass on that the controller is there; returns the worker's clock."""
        return float(await self._called(self._actors[worker].beat.remote()))

    async def now(self, worker: int) -> float:
        """The worker's clock."""
        return float(await self._called(self._actors[worker].now.remote()))

    async def batches(self, worker: int) -> AsyncIterator[bytes]:
        """What its sending process says, until that ends."""
        try:
            async for batch in self._actors[worker].batches.options(num_returns="streaming").remote():
                yield await batch
        except RayError as problem:
            raise Gone(_said(problem)) from problem

    async def last_words(self, worker: int) -> str:
        """How its sending process ended."""
        return str(await self._called(self._actors[worker].last_words.remote()))

    def close(self) -> None:
        """End the actors, and with them what sends."""
        for actor in self._actors:
            ray.kill(actor)
        ray.shutdown()

    async def _called(self, call: Any) -> Any:
        try:
            return await call
        except RayError as problem:
            raise Gone(_said(problem)) from problem


def _address(asked: WorkersAsked) -> str:
    """Where the cluster's head listens, tried before Ray tries for minutes; `local` for a Ray of our own."""
    if asked.local is not None:
        return "local"
    address = asked.address or os.environ.get("RAY_ADDRESS") or _of_this_machine()
    if not address:
        raise UserError(
            "--workers auto: this machine is not a part of a Ray cluster; start one with `ray start --head` here and `ray start"
            " --address HOST:PORT` on the others, or give HOST:PORT or local:N.",
            exit_code=3,
        )
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_S).close()
    except (OSError, ValueError) as problem:
        raise UserError(
            f"--workers {asked}: no Ray cluster listens at {address} ({problem}); give the address of its head, or start it.",
            exit_code=3,
        ) from problem
    return address


def _of_this_machine() -> str | None:
    """The cluster that `ray start` noted down, in Ray's folder for temporary files."""
    folder = os.environ.get("RAY_TMPDIR") or os.environ.get("TMPDIR") or "/tmp"
    try:
        return (Path(folder) / "ray" / _HERE).read_text().strip()
    except OSError:
        return None


def _join(asked: WorkersAsked, address: str) -> None:
    """For `auto` Ray finds the same address by itself, and then also takes the token that this user's clusters are closed by."""
    package = str(Path(core.__file__).parent)
    try:
        ray.init(
            address=address if asked.local is not None or asked.address is not None else "auto",
            log_to_driver=False,
            logging_level="ERROR",
            runtime_env={"py_modules": [package], "excludes": ["**/__pycache__"]},
            **(_LOCAL if address == "local" else {}),
        )
    except (RayError, RuntimeError, ConnectionError, ValueError, OSError) as problem:
        if len(versions := _VERSIONS.findall(str(problem))) >= 2:
            (theirs, their_python), (ours, our_python) = versions[:2]
            raise UserError(
                f"The Ray cluster at {address} runs Ray {theirs} on Python {their_python}, this machine Ray {ours} on Python"
                f" {our_python}; both have to be equal.",
                exit_code=3,
            ) from problem
        if any("InvalidAuthToken" in str(each) for each in everything_under(problem)):
            raise UserError(
                f"The Ray cluster at {address} asks for a token; set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN as on its head.",
                exit_code=3,
            ) from problem
        raise UserError(f"No use of the Ray cluster at {address}: {_first_line(problem)}", exit_code=3) from problem


def _nodes(asked: WorkersAsked) -> list[str]:
    """One node for each worker. A node without CPUs is one that its owner keeps work off."""
    alive = [node for node in ray.nodes() if node["Alive"]]
    working = [node["NodeID"] for node in alive if node["Resources"].get("CPU")] or [node["NodeID"] for node in alive]
    return working[:1] * asked.local if asked.local is not None else sorted(working)


def _look_at(nodes: list[str]) -> Gathered:
    """Look at each machine before there is a load. Raises UserError for one that cannot send what we would."""
    ray.cloudpickle.register_pickle_by_value(looking)
    here = looking.look()
    task = ray.remote(looking.look)
    asked = {node: task.options(num_cpus=0, scheduling_strategy=_on(node)).remote() for node in nodes}
    addresses = {node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes()}
    looks = []
    for node in nodes:
        try:
            looks.append(ray.get(asked[node], timeout=LOOK_S))
        except (GetTimeoutError, RayError) as problem:
            why = "it did not answer" if isinstance(problem, GetTimeoutError) else _first_line(problem)
            raise UserError(f"Worker {addresses[node]} cannot be used: {why}", exit_code=3) from problem
    return named(here, looks)


def named(here: dict[str, Any], looks: list[dict[str, Any]]) -> Gathered:
    """The workers by name. Raises UserError for one that differs from this machine in what matters."""
    hosts = [_shown(look["host"]) for look in looks]
    count = Counter(hosts)
    numbers: Counter[str] = Counter()
    workers = []
    for host, look in zip(hosts, looks, strict=True):
        numbers[host] += 1
        name = f"{host}-{numbers[host]}" if count[host] > 1 else host
        if (problem := differs(here, look)) is not None:
            raise UserError(f"Worker {name} cannot be used: {problem}", exit_code=3)
        workers.append(WorkerInfo(name=name, python=look["python"], version=look["version"], cores=look["cores"]))
    elsewhere = (worker.name for worker, look in zip(workers, looks, strict=True) if look["host"] != here["host"])
    return Gathered(workers=tuple(workers), elsewhere=next(elsewhere, None))


def _shown(host: str) -> str:
    """A machine's name as it may stand on a screen and in a file: a kernel takes any bytes for one."""
    return "".join(char if char.isprintable() else "?" for char in host)[:MOST_NAME] or "unnamed"


def differs(here: dict[str, Any], there: dict[str, Any]) -> str | None:
    """Why a machine cannot send as this one would; None where it can."""
    if there["missing"] is not None:
        return (
            f"{there['missing']} cannot be imported by its Python {there['python']}. kneescope itself reaches the workers over Ray,"
            " what it needs does not; install kneescope there."
        )
    if there["version"] != here["version"]:
        return f"it runs kneescope {there['version']}, this machine {here['version']}; install the same version there, or none."
    if there["python"].split(".")[:2] != here["python"].split(".")[:2]:
        return f"it runs Python {there['python']}, this machine {here['python']}; install the same there."
    return None


def _on(node: str) -> NodeAffinitySchedulingStrategy:
    return NodeAffinitySchedulingStrategy(node_id=node, soft=False)


def _said(problem: RayError) -> str:
    return f"Ray says {type(problem).__name__}"


def _first_line(problem: BaseException) -> str:
    return (str(problem).strip().splitlines() or [type(problem).__name__])[0]

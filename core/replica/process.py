"""Running a replica, or a gateway with several: in a process of its own, or in this one for `kneescope replica`."""

import asyncio
import contextlib
import logging
import os
import socket
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import msgspec
import uvicorn
from starlette.applications import Starlette

from core.errors import UserError
from core.replica.catalog import Replica, load
from core.replica.gateway import create_gateway
from core.replica.routers import RouterName
from core.replica.server import create_app
from core.units import count

KEEP_ALIVE_S = 5  # vLLM closes idle connections after this
START_TIMEOUT_S = 20.0
STOP_TIMEOUT_S = 5.0
MOST_REPLICAS = 64
"""Of one event loop: beyond some, their tokens come late."""
_HERE = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}
"""For what listens on all addresses of this machine, one of them."""

# Our `core` must win over another one on PYTHONPATH or in the current folder: -P keeps that folder out, and the folder
# that holds us goes first (-m would search PYTHONPATH before it).
_HOME = str(Path(__file__).resolve().parents[2])
_CHILD = "import sys; sys.path.insert(0, sys.argv[1]); from core.replica.process import child; child(sys.argv[2])"


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """Several replicas behind a gateway, in one process: how many, and who chooses among them. `seed` is that of random."""

    replicas: int
    router: RouterName = "round-robin"
    seed: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.replicas <= MOST_REPLICAS:
            raise ValueError(f"a fleet has 1 to {MOST_REPLICAS} replicas")


class _Ask(msgspec.Struct, frozen=True, kw_only=True):
    """What the child serves, and on which port."""

    replica: Replica
    port: int
    fleet: Fleet | None = None


class _Said(msgspec.Struct, frozen=True):
    """The child's one line: the port it bound, and those of the replicas behind a gateway, or why it could not."""

    port: int = 0
    replica_ports: tuple[int, ...] = ()
    error: str | None = None


@dataclass(frozen=True, slots=True)
class ReplicaProcess:
    """A replica, or a gateway with its replicas, in a process of its own, until `stop` or the end of this process. `replica_urls`:
    the addresses behind a gateway; empty where there is none."""

    replica: Replica
    url: str
    process: Process
    replica_urls: tuple[str, ...] = ()

    async def stop(self) -> None:
        """End it. Safe to call twice."""
        await _end(self.process)


async def _end(process: Process) -> None:
    assert process.stdin is not None
    process.stdin.close()
    try:
        await asyncio.wait_for(process.wait(), STOP_TIMEOUT_S)
    except TimeoutError:
        process.kill()
        await process.wait()


async def start(
    name_or_path: str, port: int = 0, *, replicas: int | None = None, router: RouterName = "round-robin", seed: int = 0
) -> ReplicaProcess:
    """Start a replica on 127.0.0.1 and wait until it listens; port 0 takes a free one. With `replicas` it is a gateway over so
    many, which have the ports after it (or free ones). Raises UserError with the reason.

    It does not inherit stderr, where a screen may be drawn, and is in a session of its own, so that Ctrl-C ends the load
    first; it ends when its stdin does, so it never outlives us.
    """
    replica = load(name_or_path)
    ask = _Ask(replica=replica, port=port, fleet=None if replicas is None else Fleet(replicas=replicas, router=router, seed=seed))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-c", _CHILD, _HOME, msgspec.json.encode(ask).decode()),
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        line = await asyncio.wait_for(process.stdout.readline(), START_TIMEOUT_S)
        said = msgspec.json.decode(line or b'{"error": "its process ended"}', type=_Said)
    except TimeoutError:
        said = _Said(error=f"it did not answer within {START_TIMEOUT_S:g} s")
    except msgspec.MsgspecError:
        said = _Said(error="something else wrote to its output")
    except BaseException:
        process.kill()
        raise
    if said.error is not None:
        await _end(process)
        raise UserError(f"The simulated replica {replica.name} could not start: {said.error}", exit_code=3)
    urls = tuple(f"http://127.0.0.1:{each}" for each in said.replica_ports)
    return ReplicaProcess(replica, f"http://127.0.0.1:{said.port}", process, urls)


def serve(name_or_path: str, host: str, port: int, say: Callable[[str], None], fleet: Fleet | None = None) -> None:
    """Serve a replica until Ctrl-C, or a gateway and its fleet; `say` gets the banner line. Raises UserError when the replica is
    unknown or a port cannot be bound."""
    replica = load(name_or_path)
    listener, ports = _listen_all(host, port, fleet)
    who = f"Simulated replica {replica.name} ({replica.description})"
    behind = ""
    if fleet is not None:
        who = f"Gateway ({fleet.router}) over {count(len(ports), 'simulated replica')} {replica.name} ({replica.description})"
        behind = f" Behind it: {', '.join(each.url for each in ports)}."
    on = f"{_url(host, listener)}{' and every other address of this machine' if host in _HERE else ''}"
    say(f"{who} as model {replica.model_name} on {on}: no GPU and no model behind it.{behind} Ctrl-C ends it.")
    with contextlib.suppress(KeyboardInterrupt):
        _run(_Server(_app(replica, fleet, ports)), listener)


def child(ask_json: str) -> None:
    """The child process of `start`: says its port as one JSON line on stdout, serves, and ends with its stdin."""
    ask = msgspec.json.decode(ask_json, type=_Ask)
    try:
        listener, ports = _listen_all("127.0.0.1", ask.port, ask.fleet)
    except UserError as error:
        _tell(_Said(error=str(error)))
        return
    server = _Server(_app(ask.replica, ask.fleet, ports))

    def end_with_stdin() -> None:
        if not os.read(0, 4096):
            asyncio.get_running_loop().remove_reader(0)
            server.should_exit = True

    def before() -> None:
        asyncio.get_running_loop().add_reader(0, end_with_stdin)
        _tell(_Said(port=listener.getsockname()[1], replica_ports=tuple(each.port for each in ports)))

    _run(server, listener, before)


def _tell(said: _Said) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(said) + b"\n")
    sys.stdout.buffer.flush()


def _listen(host: str, port: int) -> socket.socket:
    """A listening socket: connections wait in it from now on. Raises UserError when the address cannot be had."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=2048)
    except (OSError, OverflowError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UserError(f"Port {port} on {host} cannot be used: {reason}. Give another with --port, or 0 for a free one.") from None


def _url(host: str, listener: socket.socket) -> str:
    """An address to connect to: one that stands for all of this machine's is none itself."""
    host = _HERE.get(host, host)
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{listener.getsockname()[1]}"


def _listen_all(host: str, port: int, fleet: Fleet | None) -> tuple[socket.socket, list["_Port"]]:
    """The listener of what is served, and the ports of the replicas behind it, each the next after it, or all of them free ones."""
    with contextlib.ExitStack() as opened:
        listener = opened.enter_context(_listen(host, port))
        ports = []
        for number in range(1, 1 + (0 if fleet is None else fleet.replicas)):
            ports.append(_Port(host, opened.enter_context(_listen(host, port and port + number))))
        opened.pop_all()
    return listener, ports


def _app(replica: Replica, fleet: Fleet | None, ports: list["_Port"]) -> Starlette:
    if fleet is None:
        return create_app(replica)
    cut_off = "ASGI callable returned without completing response"  # a stream that ends with its replica: meant here
    logging.getLogger("uvicorn.error").addFilter(lambda record: not record.getMessage().startswith(cut_off))
    opens = [each.open for each in ports]
    return create_gateway(replica, fleet.router, [each.url for each in ports], seed=fleet.seed, ports=opens)


class _Port:
    """The address of one replica behind a gateway: bound from the beginning, and again when the replica comes back."""

    def __init__(self, host: str, listener: socket.socket) -> None:
        self.url = _url(host, listener)
        self.port: int = listener.getsockname()[1]
        self._host = host
        self._bound: socket.socket | None = listener

    @contextlib.asynccontextmanager
    async def open(self, app: Starlette) -> AsyncIterator[None]:
        """Serve the replica there. Raises UserError when the port has been taken since."""
        listener, self._bound = self._bound or _listen(self._host, self.port), None
        server = _Server(app, alone=False)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield
        finally:
            server.should_exit = True
            await serving


class _Server(uvicorn.Server):
    """Aborts open requests before it waits for their connections, as vLLM does: their streams end in order, and soon. One that is
    not `alone` in its process leaves signals to the one before it, and the life of its application too."""

    def __init__(self, app: Starlette, alone: bool = True) -> None:
        self._stop: Callable[[], None] = app.state.stop
        self._alone = alone
        super().__init__(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                lifespan="auto" if alone else "off",
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=1,
            )
        )

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Ctrl-C ends the server that is alone or before the others."""
        with super().capture_signals() if self._alone else contextlib.nullcontext():
            yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop the engines, then the server."""
        self._stop()
        await super().shutdown(sockets)


def _run(server: uvicorn.Server, listener: socket.socket, before: Callable[[], None] | None = None) -> None:
    """Serve on uvloop where it is installed."""

    async def main() -> None:
        if before is not None:
            before()
        await server.serve(sockets=[listener])

    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(main())


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:  # not to be had on Windows
        return None
    return cast(Callable[[], asyncio.AbstractEventLoop], uvloop.new_event_loop)

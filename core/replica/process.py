"""Running a replica: in a process of its own for `kneescope demo`, or in this one for `kneescope replica`."""

import asyncio
import contextlib
import os
import socket
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import msgspec
import uvicorn

from core.errors import UserError
from core.replica.catalog import Replica, load
from core.replica.engine import Engine
from core.replica.server import create_app

KEEP_ALIVE_S = 5  # vLLM closes idle connections after this
START_TIMEOUT_S = 20.0
STOP_TIMEOUT_S = 5.0

# Our `core` must win over another one on PYTHONPATH or in the current folder: -P keeps that folder out, and the folder
# that holds us goes first (-m would search PYTHONPATH before it).
_HOME = str(Path(__file__).resolve().parents[2])
_CHILD = "import sys; sys.path.insert(0, sys.argv[1]); from core.replica.process import child; child(sys.argv[2], int(sys.argv[3]))"


class _Said(msgspec.Struct, frozen=True):
    """The child's one line: the port it bound, or why it could not."""

    port: int = 0
    error: str | None = None


@dataclass(frozen=True, slots=True)
class ReplicaProcess:
    """A replica that runs in a process of its own, until `stop` or the end of this process."""

    replica: Replica
    url: str
    process: Process

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


async def start(name_or_path: str, port: int = 0) -> ReplicaProcess:
    """Start a replica on 127.0.0.1 and wait until it listens; port 0 takes a free one. Raises UserError with the reason.

    It does not inherit stderr, where a screen may be drawn, and is in a session of its own, so that Ctrl-C ends the load
    first; it ends when its stdin does, so it never outlives us.
    """
    replica = load(name_or_path)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-c", _CHILD, _HOME, msgspec.json.encode(replica).decode(), str(port)),
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
    return ReplicaProcess(replica, f"http://127.0.0.1:{said.port}", process)


def serve(name_or_path: str, host: str, port: int, say: Callable[[str], None]) -> None:
    """Serve a replica until Ctrl-C; `say` gets the banner line. Raises UserError when it is unknown or cannot bind."""
    replica = load(name_or_path)
    listener = _listen(host, port)
    bound = listener.getsockname()[1]
    shown = f"[{host}]" if ":" in host else host
    say(
        f"Simulated replica {replica.name} ({replica.description}) as model {replica.model_name} on http://{shown}:{bound}: "
        "no GPU and no model behind it. Ctrl-C ends it."
    )
    with contextlib.suppress(KeyboardInterrupt):
        _run(_Server(replica), listener)


def child(replica_json: str, port: int) -> None:
    """The child process of `start`: says its port as one JSON line on stdout, serves, and ends with its stdin."""
    replica = msgspec.json.decode(replica_json, type=Replica)
    try:
        listener = _listen("127.0.0.1", port)
    except UserError as error:
        _tell(_Said(error=str(error)))
        return
    server = _Server(replica)

    def end_with_stdin() -> None:
        if not os.read(0, 4096):
            asyncio.get_running_loop().remove_reader(0)
            server.should_exit = True

    def before() -> None:
        asyncio.get_running_loop().add_reader(0, end_with_stdin)
        _tell(_Said(port=listener.getsockname()[1]))

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


class _Server(uvicorn.Server):
    """Aborts open requests before it waits for their connections, as vLLM does: their streams end in order, and soon."""

    def __init__(self, replica: Replica) -> None:
        app = create_app(replica)
        self._engine: Engine = app.state.engine
        super().__init__(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=1,
            )
        )

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop the engine, then the server."""
        self._engine.stop()
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

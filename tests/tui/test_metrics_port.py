"""A run's own figures over a real socket: what is answered, that nobody can hold anything up, and when the port is there at all."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from core import report
from core.errors import UserError
from core.results import Answer
from core.view import RunView
from tests.tui import samples
from tests.tui.cli_fakes import FakeSession, fake_json, fake_text
from tui.cli import metrics_port, probe
from tui.cli.commands import cli
from tui.cli.metrics_port import MetricsPort

URL = "http://127.0.0.1:8000"
ASKED = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@contextlib.asynccontextmanager
async def serving(view: Callable[[], RunView], clock: Clock) -> AsyncIterator[MetricsPort]:
    port = MetricsPort(0, clock)
    port.show(view)
    try:
        yield port
    finally:
        await port.close()


async def asked(port: MetricsPort, request: bytes = ASKED) -> tuple[str, str]:
    """The first line of what is answered, and its body; both empty where nothing is."""
    reader, writer = await asyncio.open_connection(metrics_port.HOST, number(port.address))
    writer.write(request)
    answer = b""
    with contextlib.suppress(ConnectionResetError):
        answer = await reader.read()
    writer.close()
    head, _, body = answer.decode().partition("\r\n\r\n")
    return head.partition("\r\n")[0], body


def number(address: str) -> int:
    return int(address.removeprefix("http://127.0.0.1:").removesuffix("/metrics"))


async def test_the_figures_are_those_of_the_view_of_that_moment() -> None:
    view, clock, looked = samples.mid_step(), Clock(), 0

    def now() -> RunView:
        nonlocal looked
        looked += 1
        return view

    async with serving(now, clock) as port:
        assert await asked(port) == ("HTTP/1.1 200 OK", report.live_exposition(view))
        view = samples.failing()
        assert (await asked(port))[1] != report.live_exposition(view)
        assert looked == 1  # made anew no more often than twice a second
        clock.now += metrics_port.FRESH_S
        assert (await asked(port))[1] == report.live_exposition(view)
        assert looked == 2


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "404 Not Found"),
        (b"GET /metrics?x=1 HTTP/1.0\r\n\r\n", "200 OK"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", "405 Method Not Allowed"),
        (b"nonsense\r\n\r\n", "405 Method Not Allowed"),
        (b"\xff\x00\r\n\r\n", "405 Method Not Allowed"),
    ],
)
async def test_only_the_figures_are_answered(request_: bytes, answer: str) -> None:
    async with serving(samples.mid_step, Clock()) as port:
        assert (await asked(port, request_))[0] == f"HTTP/1.1 {answer}"


async def test_who_asks_too_much_gets_nothing() -> None:
    async with serving(samples.mid_step, Clock()) as port:
        assert await asked(port, b"GET /" + b"x" * 20_000 + b"\r\n\r\n") == ("", "")
        assert (await asked(port))[0] == "HTTP/1.1 200 OK"


async def test_who_holds_every_connection_is_closed_and_others_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_port, "LONGEST_S", 0.05)
    async with serving(samples.mid_step, Clock()) as port:
        idle = [await asyncio.open_connection(metrics_port.HOST, number(port.address)) for _ in range(metrics_port.MOST_OPEN + 2)]
        assert (await asked(port))[0] == "HTTP/1.1 200 OK"
        for reader, writer in idle:
            assert await reader.read() == b""
            writer.close()


async def test_a_fault_of_ours_is_told_to_who_asks_and_to_nobody_else(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> RunView:
        raise RuntimeError("SECRET")

    async with serving(broken, Clock()) as port:
        line, body = await asked(port)
    assert line == "HTTP/1.1 500 Internal Server Error"
    assert body == "The figures could not be made (RuntimeError).\n"
    assert not caplog.records


async def test_the_port_is_free_again_whoever_is_still_connected() -> None:
    async with serving(samples.mid_step, Clock()) as port:
        reader, writer = await asyncio.open_connection(metrics_port.HOST, number(port.address))
        await asked(port)
        address = port.address
    assert await reader.read() == b""
    writer.close()
    again = MetricsPort(number(address))
    assert again.address == address
    await again.close()


def test_a_port_that_is_taken_is_refused_with_a_sentence() -> None:
    with socket.create_server((metrics_port.HOST, 0)) as taken, pytest.raises(UserError, match=r"--metrics-port: .* is in use"):
        MetricsPort(taken.getsockname()[1])


# --- from the command line ----------------------------------------------------------------------------------------


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """A command line whose session reaches no server, and the lines that it says of its port."""
    lines: list[str] = []
    monkeypatch.setattr(probe, "Session", FakeSession)
    monkeypatch.setattr(report, "to_text", fake_text)
    monkeypatch.setattr(report, "to_json", fake_json)
    monkeypatch.setattr("tui.cli.commands.interrupt_on_terminate", lambda: None)
    monkeypatch.setattr(FakeSession, "made", [])
    monkeypatch.setattr(FakeSession, "how", "bracket")
    monkeypatch.setattr(metrics_port, "say_if_heard", lines.append)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return lines


def kneescope(*args: str) -> Result:
    return CliRunner().invoke(cli, args)


@pytest.mark.parametrize("quiet", [[], ["--quiet"]])
def test_a_run_answers_while_it_goes_on_and_no_longer(said: list[str], monkeypatch: pytest.MonkeyPatch, quiet: list[str]) -> None:
    """A free port is said before the run begins, even to who wants to hear nothing else."""
    bodies: list[str] = []

    async def run(session: FakeSession) -> Answer:
        session._start()
        reader, writer = await asyncio.open_connection(metrics_port.HOST, number(said[0].split()[1]))
        writer.write(ASKED)
        bodies.append((await reader.read()).decode())
        writer.close()
        return await plain(session)

    plain = FakeSession.run
    monkeypatch.setattr(FakeSession, "run", run)
    result = kneescope("probe", URL, "--headless", "--metrics-port", "0", "--api-key-file", "/dev/null", *quiet)
    assert result.exit_code == 2  # an empty key is refused, before a port is taken
    assert said == []
    result = kneescope("probe", URL, "--headless", "--metrics-port", "0", "--header", "X-Key: SECRET", *quiet)
    assert result.exit_code == 0
    (line,) = said
    assert line.startswith("metrics   http://127.0.0.1:")
    (body,) = bodies
    assert 'mode="quick"' in body
    assert "SECRET" not in body
    with pytest.raises(OSError, match="refused"):
        socket.create_connection((metrics_port.HOST, number(line.split()[1])))


def test_a_port_in_use_is_refused_before_anything_else_is_done(said: list[str], tmp_path: Path) -> None:
    with socket.create_server((metrics_port.HOST, 0)) as taken:
        result = kneescope("probe", URL, "--headless", "--metrics-port", str(taken.getsockname()[1]))
    assert result.exit_code == 2
    assert "is in use; give another one, or 0 for a free one." in result.stderr
    assert (FakeSession.made, said) == ([], [])
    assert not [path for path in (tmp_path / "state").rglob("*") if path.is_file()]


def test_without_the_option_there_is_no_port(said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_port, "MetricsPort", None)
    assert kneescope("probe", URL, "--headless").exit_code == 0
    assert said == []

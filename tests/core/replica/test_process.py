"""Replicas as processes: they start, answer, stop, and never outlive whoever started them."""

import asyncio
import os
import signal
import socket
import sys
import threading
import urllib.request
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path

import httpx
import pytest

from core.errors import UserError
from core.replica.process import ReplicaProcess, _url, serve, start

HOME = Path(__file__).parents[3]
PATIENCE_S = 10.0


async def _version(url: str) -> object:
    async with httpx.AsyncClient(trust_env=False) as client:
        return (await client.get(f"{url}/version")).json()["version"]


async def _gone(url: str) -> None:
    """Returns once nobody listens there any more."""
    host, port = url.removeprefix("http://").split(":")
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                _, writer = await asyncio.open_connection(host, int(port))
                writer.close()
            except ConnectionRefusedError:
                return
            except ConnectionResetError:
                pass  # it waited to be accepted as the listener was closed: the next try is refused
            await asyncio.sleep(0.02)


async def test_it_starts_answers_and_stops() -> None:
    replica = await start("slot")
    assert await _version(replica.url) == "0.32.0+simulated"
    assert replica.replica.name == "slot"
    await replica.stop()
    await replica.stop()
    assert replica.process.returncode == 0
    await _gone(replica.url)


async def test_when_its_stdin_ends_open_streams_are_aborted_and_it_ends() -> None:
    replica = await start("demo")
    assert replica.process.stdin is not None
    body = {"prompt": [9] * 10, "max_tokens": 1500, "ignore_eos": True, "stream": True}
    url = f"{replica.url}/v1/completions"
    async with httpx.AsyncClient(trust_env=False) as client, client.stream("POST", url, json=body) as stream:
        lines = stream.aiter_lines()
        await anext(lines)
        replica.process.stdin.close()
        rest = [line async for line in lines if line]
    assert '"finish_reason":"abort"' in rest[-2]
    assert rest[-1] == "data: [DONE]"
    async with asyncio.timeout(PATIENCE_S):
        assert await replica.process.wait() == 0


async def test_it_does_not_outlive_a_killed_parent() -> None:
    code = (
        "import asyncio; from core.replica.process import start\n"
        "async def main():\n"
        "    print((await start('demo')).url, flush=True)\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(main())"
    )
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", code, cwd=HOME, stdout=PIPE, stdin=DEVNULL)
    assert parent.stdout is not None
    url = (await parent.stdout.readline()).decode().strip()
    assert await _version(url)
    parent.kill()
    await parent.wait()
    await _gone(url)


async def test_another_core_on_the_path_does_not_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "core").mkdir()
    (tmp_path / "core" / "__init__.py").write_text("raise SystemExit('the wrong core')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    replica = await start("demo")
    await replica.stop()
    assert replica.process.returncode == 0


async def test_a_port_in_use_is_told_in_a_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=rf"could not start: Port {port} on 127\.0\.0\.1 cannot be used: Address"):
            await start("demo", port)
        with pytest.raises(UserError, match=f"Port {port} on 127.0.0.1 cannot be used"):
            serve("demo", "127.0.0.1", port, print)


@pytest.mark.parametrize("name", ["nope", "x" * 300])
async def test_an_unknown_name_starts_nothing(name: str) -> None:
    with pytest.raises(UserError, match=f"no simulated replica '{name}'"):
        await start(name)


def test_serve_says_where_and_what_and_ends_with_ctrl_c() -> None:
    said: list[str] = []
    seen: list[bytes] = []

    def look_and_interrupt(url: str) -> None:
        with urllib.request.urlopen(f"{url}/version", timeout=PATIENCE_S) as answer:
            seen.append(answer.read())
        os.kill(os.getpid(), signal.SIGINT)

    def say(line: str) -> None:
        said.append(line)
        url = line.split(" on ")[-1].split(": ")[0]
        threading.Thread(target=look_and_interrupt, args=(url,)).start()

    serve("demo", "127.0.0.1", 0, say)
    assert seen == [b'{"version":"0.32.0+simulated"}']
    assert "Simulated" in said[0]
    assert "simulated-demo" in said[0]


@pytest.mark.parametrize(
    ("host", "url"), [("0.0.0.0", "http://127.0.0.1:"), ("::", "http://[::1]:"), ("127.0.0.1", "http://127.0.0.1:")]
)
def test_what_listens_everywhere_names_an_address_that_can_be_connected_to(host: str, url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert _url(host, listener) == f"{url}{listener.getsockname()[1]}"


def test_the_handle_is_frozen() -> None:
    assert ReplicaProcess.__dataclass_params__.frozen  # type: ignore[attr-defined]

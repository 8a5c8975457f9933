"""Starts and stops the real vLLM server for a test."""

import asyncio
import os
import signal
import socket
import subprocess
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from tests.real_vllm import install

START_LIMIT_S = 600
ENVIRONMENT = {
    **install.OFFLINE,
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def command(model: str, port: int | str, *options: str) -> list[str]:
    """What starts a server with that model at that port."""
    # Nicer than the client, which shares its cores: a send that is late for want of CPU would say nothing of the server.
    started = ["nice", "-n", "5", str(install.python().with_name("vllm")), "serve", str(install.model_dir(model))]
    started += ["--served-model-name", model, "--host", "127.0.0.1", "--port", str(port)]
    return [*started, "--max-model-len", "2048", "--dtype", "bfloat16", "--enforce-eager", *options]


@asynccontextmanager
async def serve(model: str, *options: str) -> AsyncIterator[str]:
    """The URL of a ready vLLM server with that model and options; it is gone afterwards. Raises RuntimeError with its log's end."""
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "vllm.log"
        process = _start(command(model, port, *options), log)
        try:
            await _ready(f"http://127.0.0.1:{port}", process, log)
            yield f"http://127.0.0.1:{port}"
        finally:
            _stop(process)


def _start(words: list[str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as out:
        environment = {**os.environ, **ENVIRONMENT}
        return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment, start_new_session=True)


def _end_of(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-20:])


async def _ready(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    async with httpx.AsyncClient(trust_env=False) as client, asyncio.timeout(START_LIMIT_S):
        while True:
            if process.poll() is not None:
                raise RuntimeError(f"vLLM ended while starting:\n{_end_of(log)}")
            try:
                if (await client.get(f"{url}/health")).status_code == 200:
                    return
            except httpx.TransportError:
                pass  # not listening yet
            await asyncio.sleep(0.5)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the server and its engine process: they share the session that was started for them."""
    for sig in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, sig)
        except ProcessLookupError:
            return
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            continue

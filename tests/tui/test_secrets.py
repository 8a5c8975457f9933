"""Key and headers of a gateway in whole runs against a server that repeats them wherever it can: no file and no output has them."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from core.load.prompts import PATHS
from tests.core.load.server import END, HEAD, Received, Server, answer, chunk, event, serving, usage

ROOT = Path(__file__).parents[2]
KEY, HEADER = "sk-TESTSECRET-key", "h-TESTSECRET-header"
LIMIT_S = 40.0


class Echo:
    """A server that puts what it was sent into all that it says; `refuses` all but the first look with 401."""

    def __init__(self, *, refuses: bool) -> None:
        self._refuses = refuses
        self.loaded = asyncio.Event()
        self._posts = 0

    async def __call__(self, request: Received) -> None:
        said = f"{request.headers.get('authorization')} and {request.headers.get('x-gateway')}"
        assert KEY in said
        assert HEADER in said
        if request.path == "/health":
            await request.write(answer(200, b""))
        elif request.path.removeprefix("/v1") in PATHS.values() and not self._refuses:
            await self._stream(request, said)
        elif request.path == "/v1/models":
            await request.write(answer(200, b'{"data": [{"id": "tiny", "max_model_len": 4096}]}'))
        elif request.path == "/version":
            await request.write(answer(200, f'{{"version": "0.32.0 {said}"}}'.encode()))
        else:
            await request.write(answer(401, f'{{"error": {{"message": "{said} is wrong"}}}}'.encode()))

    async def _stream(self, request: Received, said: str) -> None:
        self._posts += 1
        if self._posts > 12:
            self.loaded.set()
        asked = request.json["max_tokens"]
        parts = [
            event({"system_fingerprint": said, "choices": [{"text": said, "finish_reason": said if k == asked - 1 else None}]})
            for k in range(asked)
        ]
        if self._posts % 5 == 4 and self._posts > 8:
            parts = [event({"error": {"message": f"no {said} here"}})]
        await request.write(HEAD, chunk(b"".join(parts)), chunk(usage(asked)), END)


async def kneescope(server: Server, folder: Path, echo: Echo, *options: str) -> tuple[int | None, bytes]:
    """A headless run; stopped by SIGINT once it loads. Its exit code, and everything that it printed."""
    (folder / "key").write_text(KEY)
    env = {**os.environ, "XDG_STATE_HOME": str(folder / "state"), "GATEWAY": HEADER}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tui", "probe", server.url, "--headless", "--api-key-file", str(folder / "key")),
        *(
            "--header",
            "X-Gateway: env:GATEWAY",
            "--json",
            str(folder / "result.json"),
            "--output-tokens",
            "4",
            "--input-tokens",
            "8",
            *options,
        ),
        cwd=ROOT,
        env=env,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    talk = asyncio.create_task(process.communicate())
    loaded = asyncio.create_task(echo.loaded.wait())
    async with asyncio.timeout(LIMIT_S):
        await asyncio.wait({talk, loaded}, return_when=asyncio.FIRST_COMPLETED)
        if not talk.done():
            process.send_signal(signal.SIGINT)
        out, _ = await talk
    loaded.cancel()
    return process.returncode, out


@pytest.mark.parametrize("refuses", [True, False])
async def test_no_file_and_no_output_has_a_secret(tmp_path: Path, refuses: bool) -> None:
    echo = Echo(refuses=refuses)
    async with serving(echo) as server:
        code, out = await kneescope(server, tmp_path, echo, *([] if refuses else ["--hold", "20"]))
    assert code == (3 if refuses else 0), out.decode()
    check(tmp_path, out)


def check(tmp_path: Path, out: bytes) -> None:
    (tmp_path / "key").unlink()
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} == {".json", ".jsonl", ".lock"}
    told = [path for path in files if path.stem != "runs"]  # of which the list of runs repeats nothing
    assert [path for path in files if b"TESTSECRET" in path.read_bytes()] == []
    assert b"TESTSECRET" not in out
    assert [path for path in told if b"***" not in path.read_bytes()] == []  # it was said, and taken out
    assert b"***" in out
    log = next(path for path in files if path.suffix == ".jsonl")
    assert log.stat().st_mode & 0o777 == 0o600

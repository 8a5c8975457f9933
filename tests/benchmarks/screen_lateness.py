"""Does the screen move a send? Lateness of sends with the screen on and headless, on one replica, in turn.

python -m tests.benchmarks.screen_lateness [ROUNDS]     (about 70 s a run, two runs a round)

Both probe the same simulated replica with the same seed, below its knee; the screen is drawn into a terminal of 160x50.
"""

import asyncio
import fcntl
import os
import pty
import struct
import sys
import tempfile
import termios
from pathlib import Path
from statistics import median

from core.replica import process
from core.run import log as runs
from core.run.events import RepeatJudged

RATE_RPS = "16"
SIZE = (50, 160)


async def one_run(url: str, path: Path, *, screen: bool) -> list[float]:
    """Lateness p99 in seconds of each repeat of one probe."""
    command = [sys.executable, "-m", "tui.cli", "probe", url, "--max-rps", RATE_RPS, "--start-rps", RATE_RPS, "--out", str(path)]
    command += ["--input-tokens", "lognormal:128,0.3,512", "--output-tokens", "lognormal:32,0.5,128"]
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", *SIZE, 0, 0))
    own = terminal if screen else asyncio.subprocess.DEVNULL
    child = await asyncio.create_subprocess_exec(
        *command, stdin=own, stdout=asyncio.subprocess.DEVNULL, stderr=own, env={**os.environ, "TERM": "xterm-256color"}
    )
    os.close(terminal)
    loop = asyncio.get_running_loop()
    loop.add_reader(controller, drained, controller, loop)
    if screen:
        while child.returncode is None and not ended(path):  # noqa: ASYNC110 (another process writes the file)
            await asyncio.sleep(0.5)
        os.write(controller, b"q")
    await child.wait()
    loop.remove_reader(controller)
    os.close(controller)
    judged = [event.result for event in runs.read(path) if isinstance(event, RepeatJudged)]
    return [result.lateness_s.p99 for result in judged if result.lateness_s.p99 is not None]


def drained(controller: int, loop: asyncio.AbstractEventLoop) -> None:
    """Read what the screen draws and drop it, as a terminal would."""
    try:
        os.read(controller, 65536)
    except OSError:  # the other end is closed
        loop.remove_reader(controller)


def ended(path: Path) -> bool:
    """Whether the run has written its last event; only the end of the file is read, to take no CPU from what is measured."""
    return path.exists() and b'"type":"run_ended"' in path.read_bytes()[-4096:]


async def main(rounds: int) -> None:
    replica = await process.start("demo")
    seen: dict[bool, list[float]] = {True: [], False: []}
    try:
        with tempfile.TemporaryDirectory() as folder:
            for turn in range(rounds):
                for screen in (True, False):
                    late = await one_run(replica.url, Path(folder) / f"{turn}-{screen}.jsonl", screen=screen)
                    seen[screen] += late
                    print(
                        f"{'screen  ' if screen else 'headless'}  p99 " + "  ".join(f"{1000 * x:.2f} ms" for x in late), flush=True
                    )
    finally:
        await replica.stop()
    on, off = median(seen[True]), median(seen[False])
    print(f"median of the repeats' p99: screen {1000 * on:.2f} ms, headless {1000 * off:.2f} ms, ratio {on / off:.2f}")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 3))

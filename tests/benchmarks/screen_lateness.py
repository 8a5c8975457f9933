"""Does the screen move a send? Lateness of sends with the screen on and headless, on one replica, in turn.

python -m tests.benchmarks.screen_lateness [ROUNDS]            (about 70 s a run, two runs a round)
python -m tests.benchmarks.screen_lateness [ROUNDS] --long     (50,000 finished requests a run, about 6 min each)

Both probe the same simulated replica with the same seed, below its knee; the screen is drawn into a terminal of 160x50. With --long
one rate is judged on a replica that is as fast as a simulated one can be, and only the last of the run's ten repeats counts.
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

import msgspec

from core.replica import process
from core.replica.catalog import Replica, TokenLengths
from core.replica.scheduler import EngineSpec
from core.run import log as runs
from core.run.events import RepeatJudged

SHORT = ["--max-rps", "16", "--start-rps", "16"]
SHORT += ["--input-tokens", "lognormal:128,0.3,512", "--output-tokens", "lognormal:32,0.5,128"]
LONG = ["--rates", "150", "--repeats", "10", "--measure", "34s", "--input-tokens", "16", "--output-tokens", "2"]
LONG += ["--ttft", "2s", "--tpot", "none", "--target", "50%"]
FAST = Replica(
    name="fast",
    description="answers at once",
    engine=EngineSpec(step_s=0.004, per_sequence_s=0, per_kv_token_s=0, per_prefill_token_s=0, kv_blocks=100_000, max_seqs=512),
    input_tokens=TokenLengths(median=16),
    output_tokens=TokenLengths(median=2),
)
SIZE = (50, 160)


async def one_run(url: str, path: Path, options: list[str], *, screen: bool) -> list[float]:
    """Lateness p99 in seconds of each repeat of one probe."""
    command = [sys.executable, "-m", "tui.cli", "probe", url, "--out", str(path), *options]
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


async def main(rounds: int, long: bool) -> None:
    seen: dict[bool, list[float]] = {True: [], False: []}
    with tempfile.TemporaryDirectory() as folder:
        fast = Path(folder) / "fast.json"
        fast.write_bytes(msgspec.json.encode(FAST))
        replica = await process.start(str(fast) if long else "demo")
        try:
            for turn in range(rounds):
                for screen in (True, False):
                    path = Path(folder) / f"{turn}-{screen}.jsonl"
                    late = await one_run(replica.url, path, LONG if long else SHORT, screen=screen)
                    seen[screen] += late[-1:] if long else late
                    how = "screen  " if screen else "headless"
                    print(f"{how}  p99 " + "  ".join(f"{1000 * x:.2f} ms" for x in late), flush=True)
        finally:
            await replica.stop()
    on, off = median(seen[True]), median(seen[False])
    print(f"median of the p99 that count: screen {1000 * on:.2f} ms, headless {1000 * off:.2f} ms, ratio {on / off:.2f}")


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "--long"]
    asyncio.run(main(int(words[0]) if words else 3, "--long" in sys.argv))

"""Does the screen move a send, or a first token? Lateness and TTFT error with the screen on and headless, run by run in turn.

python -m tests.benchmarks.screen_lateness [ROUNDS]            (needs cc; about 40 s a run, four runs a round)
python -m tests.benchmarks.screen_lateness [ROUNDS] --long     (50,000 finished requests a run, about 6 min each)

Every run probes the compiled server (server.c) with the same seed at one rate. It writes into each answer when it had the request
and when it sent the first token, and the run file keeps that: the TTFT error is the TTFT as seen less this. The server goes before
all else where that is allowed, in the place of one on a machine of its own. The screen is drawn into a terminal of 160x50, which
is read as fast as it comes. With --long only the last of ten repeats counts: so many requests are behind it by then.

"waited" is the part of the run in which the process that sends could run and had no core, by the kernel's own account. "others" is
how much of a core was used by what is no part of the run: where that is not small, nothing here is worth reading. In the rows
"apart" the sender keeps to the last core and what draws to the first, as most schedulers place them by themselves: some virtual
machines pack both on one core though another is idle.
"""

import asyncio
import contextlib
import fcntl
import os
import pty
import struct
import sys
import tempfile
import termios
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from core.records import RequestEnded
from core.run import log as runs
from core.run.events import RepeatStarted
from tests.benchmarks.transport import at, core_busy, get, serving

OPTIONS = ["--rates", "150", "--input-tokens", "16", "--output-tokens", "2", "--ttft", "2s", "--tpot", "none", "--target", "50%"]
SHORT = [*OPTIONS, "--repeats", "2", "--measure", "15s"]
LONG = [*OPTIONS, "--repeats", "10", "--measure", "34s"]
SIZE = (50, 160)
LOOK_S = 0.5


@dataclass(frozen=True)
class Seen:
    """Of one run: seconds late and seconds of TTFT error of its requests, the share of it that the sender waited for a core, and
    the shares of a core that the process with the screen used, and others."""

    late: list[float]
    error: list[float]
    waited: float
    parent_cpu: float
    others: float

    def figures(self) -> list[float]:
        """In milliseconds and percent, as they are printed."""
        times = [1e3 * at(values, q) for values in (self.late, self.error) for q in (0.5, 0.99)]
        return [*times, 100 * self.waited, 100 * self.parent_cpu, 100 * self.others]


HEADINGS = ("late p50 ms", "late p99 ms", "TTFT error p50 ms", "TTFT error p99 ms", "waited %", "parent's core %", "others' core %")


def row(name: str, figures: list[float]) -> str:
    return f"{name:24}" + " ".join(f"{figure:>{len(heading)}.2f}" for figure, heading in zip(figures, HEADINGS, strict=True))


class Account:
    """What the kernel says of the sender's waiting and of the parent's CPU, from its first to its last look."""

    def __init__(self, parent: int, *, apart: bool) -> None:
        self._parent, self._apart = parent, apart
        self._looks: list[tuple[float, float, float]] = []

    def look(self) -> None:
        """To be called while the run goes; there is no sender in its first and last moments."""
        with contextlib.suppress(OSError, IndexError):
            sender = Path(f"/proc/{self._parent}/task/{self._parent}/children").read_text().split()[0]
            if self._apart and not self._looks:
                keep_to(str(self._parent), 0)
                keep_to(sender, max(os.sched_getaffinity(0)))
            self._looks.append((time.monotonic(), schedstat(sender)[1], schedstat(str(self._parent))[0]))

    def shares(self) -> tuple[float, float]:
        wall, waited, cpu = (last - first for first, last in zip(self._looks[0], self._looks[-1], strict=True))
        return waited / wall, cpu / wall


def schedstat(pid: str) -> tuple[float, float]:
    """Seconds that a process's threads have run, and that they waited for a core."""
    texts = [path.read_text().split() for path in Path(f"/proc/{pid}/task").glob("*/schedstat")]
    return sum(int(ran) for ran, _, _ in texts) * 1e-9, sum(int(waited) for _, waited, _ in texts) * 1e-9


def keep_to(pid: str, core: int) -> None:
    """All threads of a process; those that write to the terminal, too."""
    for thread in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(thread.name), {core})


def not_ours(url: str) -> tuple[float, float]:
    """The time, and CPU seconds that all cores have worked for others than us, the server and what we have waited for."""
    busy = sum(core_busy(core) for core in range(os.cpu_count() or 1))
    return time.monotonic(), busy - sum(os.times()[:4]) - float(get(f"{url}/cpu"))


async def one_run(url: str, path: Path, options: list[str], *, screen: bool, apart: bool) -> tuple[float, float, float]:
    """Probe once; returns the shares of `Account`, and of a core that others used."""
    before = not_ours(url)
    command = [sys.executable, "-m", "tui", "probe", url, "--out", str(path), *options]
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", *SIZE, 0, 0))
    own = terminal if screen else asyncio.subprocess.DEVNULL
    child = await asyncio.create_subprocess_exec(
        *command, stdin=own, stdout=asyncio.subprocess.DEVNULL, stderr=own, env={**os.environ, "TERM": "xterm-256color"}
    )
    os.close(terminal)
    loop = asyncio.get_running_loop()
    loop.add_reader(controller, drained, controller, loop)
    account = Account(child.pid, apart=apart)
    while child.returncode is None and not ended(path):
        await asyncio.sleep(LOOK_S)
        account.look()
    if screen:
        os.write(controller, b"q")
    await child.wait()
    loop.remove_reader(controller)
    os.close(controller)
    wall, others = (then - now for now, then in zip(before, not_ours(url), strict=True))
    return *account.shares(), others / wall


def drained(controller: int, loop: asyncio.AbstractEventLoop) -> None:
    """Read what the screen draws and drop it, as a terminal would."""
    try:
        os.read(controller, 65536)
    except OSError:  # the other end is closed
        loop.remove_reader(controller)


def ended(path: Path) -> bool:
    """Whether the run has written its last event; only the end of the file is read, to take no CPU from what is measured."""
    if not path.exists():
        return False
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 4096))
        return b'"type":"run_ended"' in file.read()


def requests(path: Path, repeats: slice) -> tuple[list[float], list[float]]:
    """Lateness and TTFT error of each finished request of some of a run's repeats."""
    events = list(runs.read_run(path))
    orders = [event.order.order for event in events if isinstance(event, RepeatStarted)][repeats]
    late, error = [], []
    for event in events:
        if isinstance(event, RequestEnded) and event.order in orders and event.ending == "ok":
            assert event.t_sent is not None
            assert event.t_first is not None
            assert event.fingerprint is not None
            received, first = (int(word) * 1e-9 for word in event.fingerprint.split())
            late.append(event.t_sent - event.t_sched)
            error.append(event.t_first - event.t_sent - (first - received))
    return late, error


async def main(rounds: int, long: bool) -> None:
    seen: dict[str, list[list[float]]] = {"screen": [], "headless": [], "screen, apart": [], "headless, apart": []}
    print(f"{'':24}" + " ".join(HEADINGS))
    with tempfile.TemporaryDirectory() as folder, serving(pinned=False) as url:
        for turn in range(rounds):
            for how, figures in seen.items():
                path = Path(folder) / f"{turn}-{how}.jsonl"
                shares = await one_run(url, path, LONG if long else SHORT, screen="screen" in how, apart="apart" in how)
                late, error = requests(path, slice(-1, None) if long else slice(None))
                figures.append(Seen(late, error, *shares).figures())
                path.unlink()
                print(row(how, figures[-1]), flush=True)
    for how, figures in seen.items():
        print(row(f"median {how}", [median(column) for column in zip(*figures, strict=True)]))


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "--long"]
    asyncio.run(main(int(words[0]) if words else 3, "--long" in sys.argv))

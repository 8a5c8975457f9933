"""How long a large run file takes to be opened, beside how long it takes to be read.

python -m tests.benchmarks.open_run [REQUESTS] [--rounds N]     (a minute; Linux)

The file is the recorded demo scaled up: the requests of its judged step, answered as they were there, at the arrivals of eight
steps of two repeats. Reading is every line as its event; opening is what `kneescope open` does before it can draw the end of the
run. Each is measured in a process of its own, in turn; what counts is the best of each, and their ratio.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

from msgspec.structs import replace

from core.records import LoadTick, RepeatOrder, RequestEnded, RequestFirst, RequestSent, Segment
from core.run import read_run
from core.run.events import (
    Event,
    LoadStateChanged,
    RepeatJudged,
    RepeatStarted,
    RunEnded,
    RunStarted,
    ServerKnown,
    ServerSampled,
    StepJudged,
    StepStarted,
    encode,
    time_of,
)
from core.schedule import draw
from tui.cli.recorded import Recorded

REQUESTS, ROUNDS = 200_000, 3
STEPS, REPEATS = 8, 2
WARMUP_S, WINDOW_S, DRAIN_S = 10.0, 60.0, 10.0
RECORDED = Path(__file__).parents[2] / "screenshots/demo.jsonl"


def scaled_up(requests: int) -> Iterator[Event]:
    """The events of a run of about so many requests, in the order in which they would have been logged."""
    recorded = list(read_run(RECORDED))
    (begun,) = [each for each in recorded if isinstance(each, RunStarted)]
    (known,) = [each for each in recorded if isinstance(each, ServerKnown)]
    judged = [each for each in recorded if isinstance(each, StepJudged)][-1]
    ending = recorded[-1]
    assert isinstance(ending, RunEnded)
    rate_rps = requests / (STEPS * REPEATS * (WARMUP_S + WINDOW_S))
    yield begun
    yield replace(known, t=begun.t)
    t, answers = begun.t + 1.0, cycle(_answers(recorded))
    for step in range(1, STEPS + 1):
        yield StepStarted(t=t, step=step, phase="confirm", rate_rps=rate_rps, repeats=REPEATS, left_s=60.0)
        yield LoadStateChanged(t=t, state="loading")
        for repeat in range(REPEATS):
            segments = (
                Segment(rate_rps=rate_rps, duration_s=WARMUP_S, role="warmup"),
                Segment(rate_rps=rate_rps, duration_s=WINDOW_S, role="measured"),
            )
            number = 10 + step * REPEATS + repeat
            order = RepeatOrder(
                order=number, phase="confirm", step=step, repeat=repeat, seed=11, draw=step, segments=segments, start_at=t + 0.5
            )
            yield RepeatStarted(t=t, order=order)
            yield from sorted(_load(order, begun, recorded, answers), key=time_of)
            t += 0.5 + WARMUP_S + WINDOW_S + DRAIN_S
            yield RepeatJudged(t=t, step=step, result=replace(judged.result.repeats[0], index=repeat))
        results = tuple(replace(judged.result.repeats[0], index=repeat) for repeat in range(REPEATS))
        yield StepJudged(t=t, result=replace(judged.result, step=step, phase="confirm", rate_rps=rate_rps, repeats=results))
        t += 1.0
    yield replace(ending, t=t)


def _answers(recorded: list[Event]) -> list[RequestEnded]:
    orders = [each.order.order for each in recorded if isinstance(each, RepeatStarted) and each.order.phase == "search"]
    ends = [each for each in recorded if isinstance(each, RequestEnded) and each.order in orders]
    return [each for each in ends if each.ending == "ok" and None not in (each.t_sent, each.t_first, each.t_last)]


def _load(order: RepeatOrder, begun: RunStarted, recorded: list[Event], answers: Iterator[RequestEnded]) -> Iterator[Event]:
    for index, offset_s in enumerate(draw(order, begun.config.workload).offsets_s.tolist()):
        was = next(answers)
        by_s = order.start_at + offset_s - was.t_sched
        assert was.t_sent is not None
        assert was.t_first is not None
        assert was.t_last is not None
        times = {"t_sched": was.t_sched + by_s, "t_sent": was.t_sent + by_s, "t_first": was.t_first + by_s}
        yield RequestSent(order=order.order, index=index, t_sched=times["t_sched"], t_sent=times["t_sent"])
        yield RequestFirst(order=order.order, index=index, t_first=times["t_first"], first_tokens=was.first_tokens)
        yield replace(was, order=order.order, index=index, **times, t_last=was.t_last + by_s, t_end=was.t_end + by_s)
    samples = cycle([each.sample for each in recorded if isinstance(each, ServerSampled)])
    ticks = cycle([each for each in recorded if isinstance(each, LoadTick)])
    for half_s in range(int(2 * (WARMUP_S + WINDOW_S))):
        t = order.start_at + half_s / 2
        yield replace(next(ticks), order=order.order, t=t)
        if half_s % 2:
            yield ServerSampled(t=t, sample=replace(next(samples), t=t))


def read(path: Path) -> None:
    """Every line as its event."""
    for _ in read_run(path):
        pass


def opened(path: Path) -> None:
    """The end of the run, ready to be drawn."""
    view = Recorded(str(path)).whole
    assert view.answer is not None
    assert len(view.steps) == STEPS


def _measure(what: str, path: Path) -> tuple[float, float]:
    """Seconds, and the most memory in MB, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.open_run", "--only", what, "--file", str(path)],
        check=True,
        capture_output=True,
        text=True,
    )
    took_s, peak_mb = done.stdout.split()
    return float(took_s), float(peak_mb)


def _only(what: str, path: Path) -> None:
    began = time.process_time()
    (read if what == "read" else opened)(path)
    took_s = time.process_time() - began
    print(took_s, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("requests", type=int, nargs="?", default=REQUESTS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--only", choices=["read", "open"], help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.only:
        _only(asked.only, asked.file)
        return
    with tempfile.TemporaryDirectory() as folder:
        path, lines = Path(folder) / "run.jsonl", 0
        with path.open("wb") as file:
            for event in scaled_up(asked.requests):
                file.write(encode(event))
                lines += isinstance(event, RequestSent)
        print(f"{lines:,} requests, {path.stat().st_size / 1e6:.0f} MB")
        rounds = [(_measure("read", path), _measure("open", path)) for _ in range(asked.rounds)]
    reads, opens = min(each[0] for each in rounds), min(each[1] for each in rounds)
    print(f"read {reads[0]:.2f} s, {reads[1]:.0f} MB; opened {opens[0]:.2f} s, {opens[1]:.0f} MB; ratio {opens[0] / reads[0]:.2f}")


if __name__ == "__main__":
    main()

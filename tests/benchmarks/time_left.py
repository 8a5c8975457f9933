"""How far off is the time that a run says is left? Whole runs of simulated replicas, at quarters of each, beside its end.

python -m tests.benchmarks.time_left [--modes quick,careful,standard] [--replicas tuned,slots] [--seeds 3]

In virtual time: a quick run takes a second or two, a standard one some ten. "announced": what was said before the load, "at 25 %"
and so on: what the view expected then, both as a share of the time since the load began. "stood": the longest that zero was left.
"""

import argparse
import itertools
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from core.config import Method
from core.facts import Fact, parts
from core.replica.catalog import load
from core.run.events import Note, RunEnded, StepStarted, time_of
from core.run.log import read_run
from core.run.state import State
from tests.core.run.simulated import probe_in_virtual_time

METHODS = {
    "quick": Method(),
    "careful": Method(careful=True),
    "standard": Method(mode="standard"),
    "acceptance": Method(mode="acceptance"),
}
QUARTERS = (0.25, 0.5, 0.75)
LOOK_S = 0.25


def of_run(path: Path) -> tuple[float, list[float], float]:
    """What was announced and then expected at each quarter, over what it took; how long zero was left, in seconds."""
    events = list(read_run(path))
    begun = next(time_of(event) for event in events if isinstance(event, StepStarted))
    end = next(event.t for event in events if isinstance(event, RunEnded))
    said = [each for event in events if isinstance(event, Note) for each in parts(event.text) if isinstance(each, Fact)]
    (announced,) = (each.figures["total_s"] for each in said if each.code == "time_expected")
    assert isinstance(announced, float)
    took_s = end - begun
    state, left, now = State(), [], begun
    rest = iter(events)
    event = next(rest)
    stood = longest = 0.0
    while now < end:
        while time_of(event) <= now:
            state.apply(event)
            event = next(rest)
        view = state.view(now)
        progress = getattr(view, "progress", None)
        left_s = progress.left_s if progress is not None else view.left_s
        left.append(0.0 if left_s is None else left_s)
        stood = stood + LOOK_S if left[-1] <= 0 else 0.0
        longest = max(longest, stood)
        now += LOOK_S
    at = [int(share * took_s / LOOK_S) for share in QUARTERS]
    return announced / took_s, [(share * took_s + left[k]) / took_s for share, k in zip(QUARTERS, at, strict=True)], longest


def told(name: str, runs: Sequence[tuple[float, list[float], float]]) -> str:
    columns = [[run[0] for run in runs], *([run[1][k] for run in runs] for k in range(len(QUARTERS)))]
    off = [f"{median(column):5.2f} (off {median(abs(each - 1) for each in column):4.0%})" for column in columns]
    return f"{name:<22}{'  '.join(off)}   stood {max(run[2] for run in runs):5.2f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--modes", default="quick,careful,standard")
    parser.add_argument("--replicas", default="chat,kvlim,rag,slot")
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    names = given.replicas.split(",")
    print(f"{'':<22}{'announced':<18}  {'at 25 %':<18}  {'at 50 %':<18}  {'at 75 %':<18}")
    for mode in given.modes.split(","):
        runs = []
        for name, seed in itertools.product(names, range(11, 11 + given.seeds)):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "run.jsonl"
                answer = probe_in_virtual_time(load(name), path, method=METHODS[mode], seed=seed)
                assert answer.outcome != "void", answer.message
                runs.append(of_run(path))
        print(told(mode, runs), flush=True)


if __name__ == "__main__":
    main()

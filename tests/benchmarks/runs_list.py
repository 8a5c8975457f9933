"""How long does the list of 1,000 recorded runs take? `python -m tests.benchmarks.runs_list [--runs 1000] [--rounds 15]`.

Copies of a recorded run, under other labels and starts, in a state folder of its own. Median seconds of a process, by turns with
those that it is compared with: Python that does nothing, `kneescope --version`, and the table of the list with its index warm. Then
once without an index, when every file is looked at. The ratios are what counts; the seconds are those of this machine.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
RECORDED = ROOT / "screenshots" / "demo.jsonl"
COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "kneescope --version": ["-m", "tui", "--version"],
    "kneescope runs --table, warm": ["-m", "tui", "runs", "--table"],
}


def _record(folder: Path, runs: int) -> None:
    folder.mkdir(parents=True)
    first, rest = RECORDED.read_bytes().split(b"\n", 1)
    for n in range(runs):
        began = f"2026-{1 + n // 28 % 12:02d}-{1 + n % 28:02d}T07:{n % 60:02d}:10Z"
        start = first.replace(b"2026-11-30T07:30:10Z", began.encode())
        (folder / f"{n:04d}.jsonl").write_bytes(start + b"\n" + rest)


def _seconds(words: list[str], state: Path) -> float:
    begin = time.perf_counter()
    environ = {**os.environ, "XDG_STATE_HOME": str(state)}
    done = subprocess.run([sys.executable, *words], cwd=ROOT, env=environ, capture_output=True, check=True)
    taken = time.perf_counter() - begin
    assert "runs" not in words or len(done.stdout.splitlines()) > 1
    return taken


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=15)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        state = Path(name)
        _record(state / "kneescope" / "runs", asked.runs)
        cold_s = _seconds(COMMANDS["kneescope runs --table, warm"], state)
        times: dict[str, list[float]] = {told: [] for told in COMMANDS}
        for _ in range(asked.rounds):
            for told, words in COMMANDS.items():
                times[told].append(_seconds(words, state))
    bare_s, version_s = (statistics.median(times[told]) for told in list(COMMANDS)[:2])
    rows = {**{told: statistics.median(each) for told, each in times.items()}, "kneescope runs --table, no index": cold_s}
    for told, seconds in rows.items():
        print(f"{told:34} {seconds:7.3f} s   {seconds / bare_s:5.1f} x python   {seconds / version_s:5.2f} x --version")


if __name__ == "__main__":
    main()

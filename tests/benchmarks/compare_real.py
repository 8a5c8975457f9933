"""Two settings of the real vLLM on the CPU told apart, and equal ones not: python -m tests.benchmarks.compare_real [--keep FOLDER]

A (4 places) and B (1 place) are measured in turn, A B A B, because a machine drifts: each is one quick search on a server of its
own, with requests so short that one core serves some of them a second. It prints the answers, and what `kneescope compare` says of
each pair.
"""

import argparse
import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.benchmarks.real_traffic import LIMITS, QUICK, SHORT
from tests.real_vllm.server import serve

SETTINGS = {"A": 4, "B": 1}
TURNS = ("A1", "B1", "A2", "B2")
PAIRS = (("A1", "B1"), ("A2", "B2"), ("A1", "A2"), ("B1", "B2"))


async def measure(turn: str, folder: Path) -> None:
    """One search, recorded in a file of the turn's name."""
    async with serve("small", "--max-num-seqs", str(SETTINGS[turn[0]])) as url:
        words = [sys.executable, "-m", "tui", "probe", url, *LIMITS, *SHORT, *QUICK, "--headless", "--quiet"]
        words += ["--label", turn, "--out", str(folder / f"{turn}.jsonl")]
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*words, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe)
        out, said = await process.communicate()
    print(f"{turn}: {(out or said).decode().partition(chr(10))[0]}", flush=True)


def tell(pair: tuple[str, str], folder: Path) -> None:
    """The headline of a comparison."""
    words = [sys.executable, "-m", "tui", "compare", *(str(folder / f"{turn}.jsonl") for turn in pair)]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    headline = " ".join((done.stdout or done.stderr).removeprefix("Compared\n\n").partition("\n\n")[0].split())
    print(f"compare {pair[0]} {pair[1]}: exit code {done.returncode}: {headline}", flush=True)


async def run(folder: Path) -> None:
    """All turns, then all pairs."""
    for turn in TURNS:
        await measure(turn, folder)
    for pair in PAIRS:
        tell(pair, folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", type=Path, help="a folder for the run files")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        kept = asked.keep or Path(folder)
        kept.mkdir(parents=True, exist_ok=True)
        asyncio.run(run(kept))


if __name__ == "__main__":
    main()

"""Settings of the real vLLM on the CPU beside each other: python -m tests.benchmarks.tune_real [--try NAME=A,B,C] [--keep FOLDER]

Each is one quick search with requests so short that one core serves some of them a second. It prints what the command prints, and
then which processes of the servers are still there: none.
"""

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from tests.benchmarks.real_traffic import LIMITS, QUICK, SHORT
from tests.real_vllm.server import ENVIRONMENT, command

MARK = "KNEESCOPE_TUNE_REAL"


def left() -> list[str]:
    """The processes that have the mark of this run in their environment, by their command lines."""
    mark, found = f"{MARK}={os.getpid()}".encode(), []
    for each in Path("/proc").iterdir():
        with suppress(OSError):
            if each.name.isdigit() and mark in (each / "environ").read_bytes():
                found.append((each / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return found


def tune(tried: str, folder: Path) -> int:
    """Run the command; returns its exit code."""
    name = tried.partition("=")[0]
    serve = shlex.join(command("small", "{port}", f"--{name.replace('_', '-')}", f"{{{name}}}"))
    words = [sys.executable, "-m", "tui", "tune", "--serve", serve, "--try", tried, *LIMITS, *SHORT, *QUICK]
    words += ["--json", str(folder / "tune.json")]
    environment = {**os.environ, **ENVIRONMENT, MARK: str(os.getpid()), "XDG_STATE_HOME": str(folder)}
    return subprocess.run(words, env=environment, stdin=subprocess.DEVNULL, check=False).returncode


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--try", dest="tried", default="max_num_seqs=1,4,16", help="an option of vLLM and its values")
    parser.add_argument("--keep", type=Path, help="a folder for the run files and the result")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        kept = asked.keep or Path(folder)
        kept.mkdir(parents=True, exist_ok=True)
        code = tune(asked.tried, kept)
    print(f"exit code {code}; processes left: {left() or 'none'}", flush=True)


if __name__ == "__main__":
    main()

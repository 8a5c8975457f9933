"""Each benchmark says what it is when asked for help, and does not begin."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ASKED = (
    *(
        "burstiness",
        "demo_knee",
        "diagnosis",
        "knee_search",
        "long_run",
        "parent_cpu",
        "screen_refresh",
        "soak",
        "stream_parsing",
        "view_cpu",
        "what_if",
    ),
)


@pytest.mark.parametrize("name", ASKED)
def test_help_is_the_docstring(name: str) -> None:
    command = [sys.executable, "-m", f"tests.benchmarks.{name}", "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=20, check=False)
    first = (ROOT / "tests" / "benchmarks" / f"{name}.py").read_text().split("\n")[0].strip('"').split(":")[0]
    assert done.returncode == 0
    assert first in " ".join(done.stdout.split())

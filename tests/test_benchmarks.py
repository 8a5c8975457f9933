"""Each benchmark says what it is when asked for help, and does not begin; what the search benchmark computes is right."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmarks.knee_search import inside, wilson

ROOT = Path(__file__).parents[1]
ASKED = (
    *(
        "arrivals",
        "burstiness",
        "compare_claims",
        "compare_real",
        "dataset",
        "demo_knee",
        "diagnosis",
        "knee_search",
        "long_run",
        "parent_cpu",
        "real_traffic",
        "runs_list",
        "screen_refresh",
        "soak",
        "stream_parsing",
        "tune_real",
        "view_cpu",
        "watch_cost",
        "what_if",
        "workers",
        "wrong_twin",
        "check_alarms",
    ),
)


@pytest.mark.parametrize("name", ASKED)
def test_help_is_the_docstring(name: str) -> None:
    command = [sys.executable, "-m", f"tests.benchmarks.{name}", "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=20, check=False)
    first = (ROOT / "tests" / "benchmarks" / f"{name}.py").read_text().split("\n")[0].strip('"').split(":")[0]
    assert done.returncode == 0
    assert first in " ".join(done.stdout.split())


def test_limits_of_a_share_are_those_of_the_score_interval() -> None:
    """Of 1 in 10: .0179 to .4042 (Agresti and Coull 1998); none seen still leaves room for some."""
    assert wilson(1, 10) == pytest.approx((0.0179, 0.4042), abs=1e-4)
    low, high = wilson(0, 100)
    assert (low, round(high, 3)) == (0.0, 0.037)
    assert wilson(100, 100) == pytest.approx((1 - high, 1.0))


@pytest.mark.parametrize(
    ("low", "high", "held"),
    [(0.9, 1.1, True), (1.01, 1.1, False), (0.8, 0.99, False), (0.9, None, True), (1.1, None, False), (None, 1.1, False)],
)
def test_a_bracket_holds_the_knee_or_not(low: float | None, high: float | None, held: bool) -> None:
    assert inside(low, high) is held

"""Each benchmark says what it is when asked for help, and does not begin; what the search benchmark computes is right."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from core.replica.routers import ROUTERS, RouterName
from tests.benchmarks import routers
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
        "routers",
        "runs_list",
        "screen_refresh",
        "soak",
        "stream_parsing",
        "tune_real",
        "view_cpu",
        "watch_cost",
        "what_if",
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


@pytest.mark.parametrize("name", ["round-robin", "random"])
def test_the_virtual_fleet_serves_as_fast_engines_do(name: RouterName) -> None:
    """Two programs, one schedule: who got each request, and when its first and its last token came, to the last bit."""
    case = routers.CASES["chat"]
    asked = routers.requests_of(case, 28.0, 40.0, 1.0, 3)
    where, first, last, _ = routers.VirtualFleet(case.replica, 2, name).serve(asked)
    fast_where, fast_first, fast_last, _ = routers.split(case.replica, 2, name, asked)
    assert where == fast_where
    assert set(where) == {0, 1}
    assert (first == fast_first).all()
    assert (last == fast_last).all()
    assert np.isfinite(last).all()


def test_a_fleet_in_virtual_time_is_as_even_as_its_router_and_finds_what_it_shares() -> None:
    case = routers.CASES["rag-shared"]
    seen = {name: routers.run(case, name, routers.REPLICAS, 12.0, 120.0) for name in ROUTERS}
    assert seen["round-robin"].imbalance < 1.01 < min(seen[name].imbalance for name in ROUTERS if name != "round-robin")
    assert seen["prefix"].hits > seen["least-load"].hits
    assert routers.run(routers.CASES["chat"], "prefix", routers.REPLICAS, 20.0, 60.0).hits == 0

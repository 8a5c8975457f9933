"""Sides of a comparison, made by hand for the tests of its rules."""

from typing import Any

from msgspec.structs import replace

from core.compare import Repeat, Request, Side, Step
from core.compare.side import ASKED
from core.facts import Figure
from core.records import Phase
from core.results import Knee, Percentiles, RepeatVerdict, StepVerdict

NOTHING = Percentiles()


def asked(**given: Figure) -> dict[str, Figure]:
    """A search for the knee under the default limits."""
    usual: dict[str, Figure] = {"ttft_s": 0.8, "tpot_s": 0.05, "target": 0.95, "api": "completions", "mode": "quick"}
    return dict.fromkeys(ASKED) | usual | {"arrival_seed": 11, "workload_seed": 11} | given


def side(low: float | None, high: float | None, **given: Any) -> Side:
    """A run that holds at one rate and fails at another."""
    facts: dict[str, Any] = {
        "label": "run.jsonl",
        "path": "/runs/run.jsonl",
        "outcome": "bracket",
        "asked": asked(),
        "server": {},
        "knee": Knee(pass_rps=low, first_fail_rps=high, upper_rps=high),
        "duration_s": 180.0,
    }
    return Side(**(facts | given))


def repeat(verdict: RepeatVerdict = "pass", attainment: float | tuple[float, float] = 0.99, **given: Any) -> Repeat:
    """One that measured 100 requests."""
    ends = attainment if isinstance(attainment, tuple) else (attainment, attainment)
    facts: dict[str, Any] = {"planned": 100, "succeeded": 100, "ttft_s": NOTHING, "tpot_s": NOTHING, "e2e_s": NOTHING}
    return Repeat(verdict=verdict, attainment=ends, **(facts | given))


def step(rate_rps: float, verdict: StepVerdict, *repeats: Repeat, phase: Phase = "list") -> Step:
    """A rate with these repeats, each drawn as the one in its place is in every other run of the same seeds."""
    drawn = tuple(replace(each, draw=each.draw or (phase, None, at, None)) for at, each in enumerate(repeats))
    return Step(rate_rps=rate_rps, phase=phase, verdict=verdict, floor=None, repeats=drawn)


def requests(n: int, bad: int = 0, margin: float = 0.5, e2e_s: float = 1.0, first: int = 0) -> tuple[Request, ...]:
    """One a second; every so many of them (`bad`; 0: none) misses its limits by a factor 2."""
    return tuple(
        Request(at, float(at), not missed, 2.0 if missed else margin, 0.1, 0.01, e2e_s)
        for at in range(first, first + n)
        for missed in [bool(bad) and at % bad == 0]
    )

"""What a text says of the rates that were judged: each step, lists side by side, latencies, bad moments."""

import math
import textwrap
from collections.abc import Iterable, Sequence

from core import prose
from core.judge.bracket import rate_number, rate_text
from core.judge.wording import at_most, beside, duration
from core.results import Knee, Percentiles, StepResult
from core.run.view import RunView

FEW = {"p95": 20, "p99": 100}
"""Nearest rank makes the p95 or p99 of fewer values the slowest one or nearly so."""


def passing_step(steps: Sequence[StepResult], knee: Knee) -> StepResult | None:
    """The step behind the rate that holds; None without one."""
    passed = [step for step in steps if step.rate_rps == knee.pass_rps and step.verdict == "pass"]
    return passed[-1] if passed else None


def latencies(step: StepResult | None) -> str:
    """The percentiles at a rate that passed, in one sentence: of several repeats the highest. Empty where none are known."""
    repeats = [repeat for repeat in step.repeats if repeat.verdict == "pass"] if step is not None else []
    named = (
        ("TTFT", [repeat.ttft_s for repeat in repeats]),
        ("TPOT", [repeat.tpot_s for repeat in repeats]),
        ("E2E", [repeat.e2e_s for repeat in repeats]),
    )
    parts = [
        f"{name} {' / '.join(_highest(values, which) for which in ('p50', 'p95', 'p99'))}"
        for name, values in named
        if any(v.n for v in values)
    ]
    if step is None or not parts:
        return ""
    text = f"p50 / p95 / p99 at {rate_text(step.rate_rps)}: {', '.join(parts)}"
    text += f"; each the highest of {len(repeats)} repeats" if len(repeats) > 1 else ""
    return text + ("; * of too few answers" if "*" in text else "")


def _highest(values: Sequence[Percentiles], which: str) -> str:
    known = [(value, each.n) for each in values if (value := getattr(each, which)) is not None]
    if not known:
        return "-"
    value, n = max(known)
    return f"{duration(value)}{'*' if n < FEW.get(which, 0) else ''}"


def list_table(view: RunView) -> list[str]:
    """Rates that were judged because they were asked for, or held, side by side. Where no repeat was judged, the figures are of
    what was measured until it was cut off."""
    steps = [step for step in view.steps if step.phase in ("list", "hold")]
    if not steps:
        return []
    rows = ["Rates held:" if steps[0].phase == "hold" else "Rates asked for:"]
    rows.append("    requests/s  verdict   passed  floor          TTFT p95  TPOT p95  E2E p95   served/s")
    for step in steps:
        judged = [repeat for repeat in step.repeats if repeat.verdict in ("pass", "fail")]
        passed = f"{sum(repeat.verdict == 'pass' for repeat in judged)}/{len(judged)}"
        shown = judged or [repeat for repeat in step.repeats if repeat.verdict == "unjudged"]
        worst = [largest(values) for values in zip(*((r.ttft_s.p95, r.tpot_s.p95, r.e2e_s.p95) for r in shown), strict=True)]
        p95 = "".join(f"{'-' if value is None else duration(value):<10}" for value in worst or [None] * 3)
        served = f"{min(repeat.served_rps for repeat in shown):.3g}" if shown else "-"
        rows.append(f"  {rate_number(step.rate_rps):>12}  {step.verdict:<10}{passed:<8}{floor_words(step, view):<15}{p95}{served}")
    return rows


def worst_blocks(view: RunView) -> list[str]:
    """Bad moments inside repeats that their attainment averages away."""
    target = view.config.slo.target if view.config else 1.0
    rows = [
        f"  {rate_text(step.rate_rps)}, repeat {repeat.index + 1}: {beside(block.attainment, target)} "
        f"from {duration(block.from_s)} to {duration(block.to_s)} of the window"
        for step in view.steps
        for repeat in step.repeats
        if repeat.verdict in ("pass", "fail") and (block := repeat.worst_block) is not None and block.attainment < target
    ]
    head = "Worst stretch inside a repeat (no independent sample: neighbouring requests share their fate):"
    return [head, *rows] if rows else []


def steps_table(view: RunView, width: int) -> list[str]:
    """Every step in a row, with its reason."""
    if not view.steps:
        return []
    lines = ["Steps:"]
    for step in view.steps:
        head = f"  {rate_text(step.rate_rps):>17}  {step.phase:<8}{step.verdict:<10}{floor_words(step, view):<17}"
        lines += textwrap.wrap(head + prose.text(step.reason), width, subsequent_indent=" " * len(head), drop_whitespace=True) or [
            head
        ]
    return lines


def floor_words(step: StepResult, view: RunView) -> str:
    """A step's floor as far as it is certain: of a step that was cut short only one end is known."""
    if step.floor is None:
        return "-"
    low, high = step.floor
    target = view.config.slo.target if view.config else 1.0
    if low == high:
        return beside(low, target)
    if step.verdict in ("fail", "mixed"):
        return at_most(high, target) if high < 1 else "-"  # it was not by missed limits that it failed
    if step.verdict == "pass":
        return f"at least {beside(low, target, rounded=math.floor)}"
    return f"{beside(low, target, rounded=math.floor)} to {beside(high, target, rounded=math.ceil)}"


def lateness(view: RunView) -> str:
    """How late the client was; empty where nothing was sent."""
    lates = [repeat.lateness_s for step in view.steps for repeat in step.repeats]
    p99 = largest(late.p99 for late in lates)
    worst = largest(late.max for late in lates)
    if p99 is None or worst is None:
        return ""
    return f"Client: sends were late by {duration(p99)} (p99, in the worst repeat), {duration(worst)} at most."


def largest(values: Iterable[float | None]) -> float | None:
    """Of what is known; None where nothing is."""
    return max((value for value in values if value is not None), default=None)

"""From a run's view to what people read: the verdict as text, with the rates that were judged."""

import textwrap
from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import Literal, NamedTuple

from core import fleet, prose
from core.config import Method
from core.facts import Said, fact, says
from core.percentiles import FEW
from core.prefixes import planned_hit_frac
from core.report.buckets import bucket_lines
from core.report.closed import closed_fact
from core.report.fleet import fleet_lines, gate_lines
from core.report.fleet_check import fleet_check_lines
from core.report.json import answer_of, evidence_of
from core.report.why import diagnosis_lines
from core.report.workers import sent_by
from core.results import Answer, FailCount, GatewayUse, Knee, Percentiles, StepResult
from core.units import at_least, at_most, beside, between, count, duration, latency, number, percent, rate_number, rate_text
from core.view import RunView

WIDTH = 100


def passing_step(steps: Sequence[StepResult], knee: Knee) -> StepResult | None:
    """The step behind the rate that holds; None without one."""
    passed = [step for step in steps if step.rate_rps == knee.pass_rps and step.verdict == "pass" and not step.set_aside]
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
        f"{name} {' / '.join(highest(values, which) for which in ('p50', 'p95', 'p99'))}"
        for name, values in named
        if any(v.n for v in values)
    ]
    if step is None or not parts:
        return ""
    text = f"p50 / p95 / p99 at {rate_text(step.rate_rps)}: {', '.join(parts)}"
    text += f"; each the highest of {len(repeats)} repeats" if len(repeats) > 1 else ""
    return text + ("; * of too few answers" if "*" in text else "")


def answer_lengths(view: RunView) -> str:
    """How long the answers that could stop by themselves were at the rate that holds; empty where answers have the length asked
    for, or no rate held."""
    step = passing_step(view.steps, answer_of(view).knee)
    if view.config is None or not view.config.workload.natural or step is None:
        return ""
    tokens = evidence_of(view).tokens
    shares = [repeat.stopped_frac for repeat in step.repeats if repeat.stopped_frac is not None]
    long = "of unknown length"
    if tokens is not None:
        long = f"{number(tokens.mean_output)} tokens on average, p90 {number(tokens.p90_output)}"
    ended = f"; {percent(fmean(shares), 2)} stopped by themselves" if shares else ""
    return f"answers at {rate_text(step.rate_rps)}: {long}{ended}"


def highest(values: Sequence[Percentiles], which: str) -> str:
    """The highest of a percentile (its field) over repeats, with a star where it is of too few values."""
    known = [(value, each.n) for each in values if (value := getattr(each, which)) is not None]
    if not known:
        return "-"
    value, n = max(known)
    return f"{latency(value)}{'*' if n < FEW.get(which, 0) else ''}"


def gateway_waits(step: StepResult | None) -> str:
    """What a gateway's limit did at a rate that passed, in one sentence: of several repeats the highest of each figure. Empty where
    there was no such limit."""
    uses = [repeat.gateway for repeat in step.repeats if repeat.verdict == "pass" and repeat.gateway] if step is not None else []
    if step is None or not uses:
        return ""
    waits = " / ".join(latency(largest(getattr(use.wait_s, which) for use in uses)) for which in ("p50", "p95", "max"))
    away = [f"{count(n)} {word}" for word, n in _most_of(uses) if n]
    turned = f"; {', '.join(away)}" if away else ""
    return f"Waiting at the gateway, p50 / p95 / max at {rate_text(step.rate_rps)}: {waits}{turned}"


def _most_of(uses: Sequence[GatewayUse]) -> list[tuple[str, int]]:
    return [
        ("had to wait", max(use.held for use in uses)),
        ("rejected", max(use.rejected for use in uses)),
        ("timed out", max(use.timed_out for use in uses)),
    ]


def list_table(view: RunView) -> list[str]:
    """Rates that were judged because they were asked for, or held, side by side. Where no repeat was judged, the figures are of
    what was measured until it was cut off."""
    steps = [step for step in view.steps if step.phase in ("list", "hold")]
    if not steps:
        return []
    rows = ["Rates held:" if steps[0].phase == "hold" else "Rates asked for:"]
    rows.append("    requests/s  verdict   passed  floor            TTFT p95  TPOT p95  E2E p95   served/s")
    for step in steps:
        judged = [repeat for repeat in step.repeats if repeat.verdict in ("pass", "fail")]
        passed = f"{sum(repeat.verdict == 'pass' for repeat in judged)}/{len(judged)}"
        shown = judged or [repeat for repeat in step.repeats if repeat.verdict == "unjudged"]
        worst = [largest(values) for values in zip(*((r.ttft_s.p95, r.tpot_s.p95, r.e2e_s.p95) for r in shown), strict=True)]
        p95 = "".join(f"{'-' if value is None else latency(value):<10}" for value in worst or [None] * 3)
        served = rate_number(min(repeat.served_rps for repeat in shown)) if shown else "-"
        rows.append(f"  {rate_number(step.rate_rps):>12}  {step.verdict:<10}{passed:<8}{floor_words(step, view):<17}{p95}{served}")
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
        scale = prose.scale(view.config.workload, step.rate_rps) if view.config else ""
        head = f"  {rate_text(step.rate_rps):>17}  {step.phase:<8}{step.verdict:<10}{floor_words(step, view):<17}"
        told = "; ".join(filter(None, (prose.text(step.reason), hits_words(step, view))))
        text = head + told + (f" ({scale})" if scale else "")
        lines += textwrap.wrap(text, width, subsequent_indent=" " * len(head), drop_whitespace=True) or [head]
    return lines


def hits_words(step: StepResult, view: RunView) -> str:
    """The prefix hits of a step, where prompts share prefixes: of several repeats the one farthest from the plan. Empty for cold
    prompts."""
    if view.config is None or view.config.workload.prefix.cold:
        return ""
    of_all = planned_hit_frac(view.config.workload, view.server)
    each = [(repeat.prefix_hit_frac, repeat.planned_hit_frac if of_all is None else of_all) for repeat in step.repeats]
    shown = [(frac, planned) for frac, planned in each if frac is not None]
    return prose.hits(*max(shown, key=lambda pair: abs(pair[0] - (pair[1] or 0.0)), default=(None, of_all)))


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
        return at_least(low, target)
    return between(low, high, target)


def lateness(view: RunView) -> str:
    """How late the client was; empty where nothing was sent."""
    lates = [repeat.lateness_s for step in view.steps for repeat in step.repeats]
    p99 = largest(late.p99 for late in lates)
    worst = largest(late.max for late in lates)
    if p99 is None or worst is None:
        return ""
    return f"Client: sends were late by {latency(p99)} (p99, in the worst repeat), {latency(worst)} at most."


def largest(values: Iterable[float | None]) -> float | None:
    """Of what is known; None where nothing is."""
    return max((value for value in values if value is not None), default=None)


def to_text(view: RunView, run_log: str | None) -> str:
    """The verdict for a terminal or a log: answer, zones with repeats, fleet, steps, client, notes, where the log is.

    At most WIDTH columns wide, a long path apart; no colour, and no control characters whatever a server sent.
    """
    answer = answer_of(view)
    parts = [
        _headline(view, answer),
        required_line(view, answer),
        fleet_check_lines(view, answer),
        _zones(view, answer),
        _wrapped(latencies(passing_step(view.steps, answer.knee)), "  ", "    "),
        _wrapped(answer_lengths(view), "  ", "    "),
        _wrapped(gateway_waits(passing_step(view.steps, answer.knee)), "  ", "    "),
        _wrapped(prose.estimate(answer.knee.estimate)),
        _closed(view, answer),
        _why(answer),
        list_table(view),
        _asked(view),
        _fleet_table(view, answer),
        _gates(view),
        steps_table(view, WIDTH),
        bucket_lines(view, answer, WIDTH),
        worst_blocks(view),
        _wrapped(lateness(view)),
        _wrapped(sent_by(view)),
        _notes(view),
        [f"Run file: {run_log}"] if run_log else [],
    ]
    lines = [line for part in parts if part for line in (*part, "")]
    return "\n".join("".join(char if char.isprintable() else " " for char in line).rstrip() for line in lines[:-1]) + "\n"


def _headline(view: RunView, answer: Answer) -> list[str]:
    lines = _wrapped(prose.sentence(answer.message or answer.outcome))
    if view.server is not None and view.server.simulated:
        lines.append("This was a simulated replica: its numbers say nothing about a real server.")
    if view.truth_rps is not None:
        lines += _wrapped(f"Its knee in the long run is known: {rate_text(view.truth_rps)}{_against(view.truth_rps, answer)}.")
    return lines


def _against(truth_rps: float, answer: Answer) -> str:
    low, high = answer.knee.pass_rps, answer.knee.fail_rps
    if low is not None and truth_rps < low:
        return ", below this answer"
    if high is not None and truth_rps > high:
        return ", above this answer"
    return ", inside this answer" if low is not None and high is not None else ""


def required_line(view: RunView, answer: Answer) -> list[str]:
    """Whether the required rate was met; nothing where none was required."""
    required_rps = view.config.method.require_rps if view.config else None
    if required_rps is None:
        return []
    words = {True: "met", False: "not met", None: "not judged"}
    return [f"Required rate {rate_text(required_rps)}: {words[answer.required_met]}."]


def _zones(view: RunView, answer: Answer) -> list[str]:
    """PASS, MIXED and CLEAR FAIL, with the repeats behind each end."""
    knee = answer.knee
    if knee.pass_rps is None and knee.first_fail_rps is None:
        return []
    rows = [("PASS", _passed(view, answer))]
    first_rps, clear_rps, upper_rps = knee.first_fail_rps, knee.clear_fail_rps, knee.fail_rps
    if first_rps is not None and first_rps != upper_rps:
        rows.append(("MIXED", f"from {rate_text(first_rps)}{_behind(view, first_rps, knee.first_fail)}"))
    if upper_rps is not None:
        zone = "CLEAR FAIL" if upper_rps == clear_rps else "FIRST FAIL" if upper_rps == first_rps else "FAILS"
        rows.append((zone, f"{rate_text(upper_rps)}{_behind(view, upper_rps, knee.fails)}"))
    elif knee.open_above:
        rows.append(("OPEN ABOVE", "the knee may be higher than what failed"))
    if clear_rps is None and first_rps is not None and view.config is not None and (why := _no_clear_fail(view.config.method)):
        rows.append(("CLEAR FAIL", f"not looked for {why}"))
    return [f"  {zone:<12}{words}" for zone, words in rows]


def _behind(view: RunView, rate_rps: float, fails: FailCount | None) -> str:
    in_ramp = {step.phase for step in view.steps if step.rate_rps == rate_rps and not step.set_aside} == {"ramp"}
    return ", in the ramp alone" if in_ramp else _failed(fails)


def _no_clear_fail(method: Method) -> str | None:
    """Where no clear fail is looked for."""
    if method.rates_rps or method.hold_rps is not None:
        return f"with {prose.mode_words(method)}"
    return "in quick mode" if method.mode == "quick" else None


def _closed(view: RunView, answer: Answer) -> list[str]:
    """What a closed loop said, which is no part of the answer."""
    said = closed_fact(view, answer)
    return [] if said is None else _wrapped(prose.sentence(said))


def _why(answer: Answer) -> list[str]:
    """What bound the replica, and what did not."""
    return [line for text in diagnosis_lines(answer.diagnosis) for line in _wrapped(text, "  ", "        ")]


def _passed(view: RunView, answer: Answer) -> str:
    knee = answer.knee
    if knee.pass_rps is None:
        return "no rate was seen to hold"
    n = knee.pass_repeats
    step = passing_step(view.steps, knee)
    return f"{rate_text(knee.pass_rps)}, {n} of {n} repeats passed" + (f", floor {floor_words(step, view)}" if step else "")


def _failed(fails: FailCount | None) -> str:
    return f", {fails.failed} of {fails.run} repeats failed" if fails else ""


def _asked(view: RunView) -> list[str]:
    config, server = view.config, view.server
    if config is None:
        return []
    lines = _wrapped(f"Limits: {prose.limits(config.limits)}")
    work = config.workload
    lines += _wrapped(
        f"Workload: {prose.requests(work)}, {config.target.api}, {prose.prefix(work.prefix)}; "
        f"{'' if work.poisson else f'{prose.arrivals(work)}; '}{f'{front}; ' if (front := prose.in_front(work)) else ''}"
        f"{prose.mode_words(config.method)}, {prose.seeds(config.method)}"
    )
    if server is not None:
        version = f", version {server.version}" if server.version else ""
        lines += _wrapped(f"Server: {server.model or 'model not known'} at {server.url}{version}")
    return lines


def _fleet_table(view: RunView, answer: Answer) -> list[str]:
    if view.config is None:
        return []
    ask, evidence = view.config.fleet, evidence_of(view)
    plan = fleet.plan(answer.knee, ask, view.server, evidence)
    if plan is None:
        return ["No fleet size: no rate was seen to hold."] if ask.peak_rps is not None else []
    return fleet_lines(plan, WIDTH)


def _gates(view: RunView) -> list[str]:
    if view.config is None or view.config.method.fleet is not None:
        return []
    ask = view.config.fleet
    behind = len(view.server.replicas) if view.server else 0
    return gate_lines(fleet.gates(ask, fleet.unit_of(ask, view.server), view.server, evidence_of(view)), WIDTH, behind)


class Remark(NamedTuple):
    """One thing to know beside the answer: what was said, and where it comes from; of a check its name."""

    said: Said
    about: Literal["knee", "check", "repeat", "run"]
    check: str = ""

    @property
    def text(self) -> str:
        """As a sentence."""
        return prose.text(self.said)


def remarks(view: RunView) -> list[Remark]:
    """What to know beside the answer, each once: about the knee, from the checks, from the repeats, from the run's own lines."""
    answer = answer_of(view)
    found = [Remark(note, "knee") for note in answer.knee.notes if note not in answer.told]
    found += [
        Remark(fact("check_said", check.message, check=check.check), "check", check.check)
        for check in view.checks
        if check.status == "warn" or (check.status == "refuse" and answer.outcome != "refused")  # else it is the answer itself
    ]
    found += [
        Remark(fact("at_rate", warning, rate_rps=step.rate_rps), "repeat")
        for step in view.steps
        if not step.set_aside
        for repeat in step.repeats
        for warning in repeat.warnings
    ]
    found += [Remark(line.text, "run") for line in view.lines if line.level != "info" and line.step is None]
    once: list[Remark] = []
    for remark in found:
        if all(remark.said != known.said for known in once):
            once.append(remark)
    return once


def notes(view: RunView) -> list[str]:
    """The same as sentences."""
    return [remark.text for remark in remarks(view)]


def _notes(view: RunView) -> list[str]:
    told = [each.text for each in remarks(view) if not says(each.said, *fleet.FLOOR)]  # that stands with what limits one replica
    lines = [line for text in told for line in _wrapped(text, "  - ", "    ")]
    return ["Notes:", *lines] if lines else []


def _wrapped(text: str, first: str = "", rest: str = "  ") -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)

"""From a run's view to what people and scripts read: the result as JSON, the verdict as text.

What a text says of the rates that were judged: each step, lists side by side, latencies, bad moments.
"""

import json
import math
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from core import fleet, prose
from core.config import FleetAsk, Lengths, Method, ProbeConfig
from core.facts import Said, as_data, says
from core.judge import Bracket
from core.records import Check
from core.report.why import diagnosis_data, diagnosis_lines
from core.results import Answer, FailCount, Knee, Percentiles, RepeatResult, StepResult
from core.run import others_rps
from core.units import at_most, beside, duration, estimate, limits, mode_words, rate_number, rate_text
from core.view import RunView

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


SCHEMA = 2
WIDTH = 100
_GOING = "The run is still going: this is how it stands so far."
_UNFINISHED = "The run ended before its answer, and without a word: the program or the machine was ended."


def result(view: RunView, run_log: str | None) -> dict[str, Any]:
    """The result as plain data with every key of README.md "Result" always there, null where not known."""
    config, answer = view.config, answer_of(view)
    data: dict[str, Any] = {
        "schema": SCHEMA,
        "outcome": answer.outcome,
        "message": answer.message,
        "knee": _knee(answer.knee),
        "slo": msgspec.to_builtins(config.slo) if config else None,
        "workload": _workload(config) if config else None,
        "method": msgspec.to_builtins(config.method) if config else None,
        "mode": config.method.mode if config else None,
        "seed": config.method.seed if config else None,
        "started_at": view.started_utc,
        "duration_s": view.duration_s if view.duration_s is not None else view.now_s,
        "required": _required(config, answer) if config else None,
        "others_rps": others_rps(view.steps) if config and config.safety.with_others else None,
        "server": _server(view),
        "client": msgspec.to_builtins(view.client) if view.client else None,
        "preflight": check_data(view.checks),
        "steps": [_step(step) for step in view.steps],
        "diagnosis": diagnosis_data(answer.diagnosis),
        "fleet": _fleet(view, answer),
        "run_log": run_log,
    }
    data = finite(data)
    return data


def check_data(checks: Iterable[Check]) -> list[dict[str, Any]]:
    """The checks before the load as plain data."""
    return [
        {
            "check": check.check,
            "status": check.status,
            "message": prose.sentence(check.message),
            "message_fact": as_data(check.message),
        }
        for check in checks
    ]


def to_json(view: RunView, run_log: str | None) -> str:
    """`result` as strict JSON text; no NaN or infinity can get in."""
    return json.dumps(result(view, run_log), allow_nan=False, ensure_ascii=False, indent=2) + "\n"


def answer_of(view: RunView) -> Answer:
    """The run's answer; of a run that was ended from outside, what its finished steps say."""
    if view.answer is not None:
        return view.answer
    bracket = Bracket.of(view.config.method, view.steps) if view.config else Bracket()
    return Answer(outcome="interrupted", message=_UNFINISHED, knee=bracket.knee(), required_met=bracket.required_met)


def while_going(view: RunView) -> RunView:
    """The view of a run whose file is still being written: what it will answer is not known yet, and it has not ended either."""
    return view if view.answer else msgspec.structs.replace(view, answer=msgspec.structs.replace(answer_of(view), message=_GOING))


def _workload(config: ProbeConfig) -> dict[str, Any]:
    return {
        "api": config.target.api,
        "input_tokens": _lengths(config.workload.input_tokens),
        "output_tokens": _lengths(config.workload.output_tokens),
        "prefix": "cold",
        "sampling": {"temperature": config.workload.temperature, "top_p": 1.0, "ignore_eos": True},
        "cache": "cold",
        "reset_cache": config.method.reset_cache,
        "between": config.method.between,
    }


def _knee(knee: Knee) -> dict[str, Any]:
    told = {"notes": [prose.text(note) for note in knee.notes], "notes_fact": [as_data(note) for note in knee.notes]}
    return {**msgspec.to_builtins(knee), **told}


def _required(config: ProbeConfig, answer: Answer) -> dict[str, Any] | None:
    rate_rps = config.method.require_rps
    return None if rate_rps is None else {"rate_rps": rate_rps, "met": answer.required_met}


def _lengths(lengths: Lengths) -> int | str:
    return lengths.largest if lengths.fixed else str(lengths)


def _server(view: RunView) -> dict[str, Any]:
    info = view.server
    return {
        "url": info.url if info else view.config.target.url if view.config else None,
        "version": info.version if info else None,
        "model": info.model if info else None,
        "max_model_len": info.max_model_len if info else None,
        "metrics": info.metrics_url is not None if info else None,
        "kv_cache_tokens": info.kv_cache_tokens if info else None,
        "engines": info.engines if info else None,
        "backends": info.backends if info else None,
        "tp": info.tp if info else None,
        "pp": info.pp if info else None,
        "dp": info.dp if info else None,
        "fingerprint": info.fingerprint if info else None,
        "simulated": info.simulated if info else None,
        "insecure": view.config.target.insecure if view.config else None,
        "proxy": view.config.target.proxy if view.config else None,
        "config": dict(info.config) if info else {},
    }


def _step(step: StepResult) -> dict[str, Any]:
    exact = step.floor is not None and step.floor[0] == step.floor[1]
    return {
        "rate_rps": step.rate_rps,
        "phase": step.phase,
        "verdict": step.verdict,
        "reason": prose.text(step.reason),
        "reason_fact": as_data(step.reason),
        "floor": step.floor[0] if step.floor and exact else None,
        "floor_interval": list(step.floor) if step.floor else None,
        "duration_s": step.duration_s,
        "set_aside": step.set_aside,
        "repeats": [_repeat(repeat) for repeat in step.repeats],
    }


def _repeat(repeat: RepeatResult) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(repeat)
    lateness = {name: fields["lateness_s"][name] for name in ("p50", "p95", "p99", "max")}
    latencies = {
        name: {key: fields[name][key] for key in ("p50", "p95", "p99", "mean", "n")}
        for name in ("ttft_s", "tpot_s", "e2e_s", "itl_s", "margin")
    }
    return {
        **fields,
        "reason": prose.text(repeat.reason),
        "reason_fact": as_data(repeat.reason),
        "warnings": [prose.text(warning) for warning in repeat.warnings],
        "warnings_fact": [as_data(warning) for warning in repeat.warnings],
        **latencies,
        "lateness_s": lateness,
        "lateness_p99_s": lateness["p99"],
    }


def _fleet(view: RunView, answer: Answer) -> dict[str, Any]:
    config = view.config
    if config is None:
        return fleet.fleet_data(FleetAsk(), fleet.Unit(), None, fleet.Gates())
    unit, evidence = fleet.unit_of(config.fleet, view.server), evidence_of(view)
    plan = fleet.plan(answer.knee, config.fleet, view.server, evidence)
    return fleet.fleet_data(config.fleet, unit, plan, fleet.gates(config.fleet, unit, view.server, evidence))


def evidence_of(view: RunView) -> fleet.Evidence:
    """What the run has measured that a fleet can be reasoned from; empty before it is known what was asked."""
    if view.config is None:
        return fleet.Evidence()
    return fleet.evidence_of(view.config, answer_of(view).knee, view.steps, view.single_tpot_s)


def finite(value: Any) -> Any:
    """The same data with None for what JSON has no number for."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(each) for each in value]
    return value


# --- the same for people ------------------------------------------------------------------------------------------


def to_text(view: RunView, run_log: str | None) -> str:
    """The verdict for a terminal or a log: answer, zones with repeats, fleet, steps, client, notes, where the log is.

    At most WIDTH columns wide, a long path apart; no colour, and no control characters whatever a server sent.
    """
    answer = answer_of(view)
    parts = [
        _headline(view, answer),
        _required_line(view, answer),
        _zones(view, answer),
        _wrapped(latencies(passing_step(view.steps, answer.knee)), "  ", "    "),
        _wrapped(estimate(answer.knee.estimate)),
        _why(answer),
        list_table(view),
        _asked(view),
        _fleet_table(view, answer),
        _gates(view),
        steps_table(view, WIDTH),
        worst_blocks(view),
        _wrapped(lateness(view)),
        _notes(view),
        [f"Run file: {run_log}"] if run_log else [],
    ]
    lines = [line for part in parts if part for line in (*part, "")]
    return "\n".join("".join(char if char.isprintable() else " " for char in line).rstrip() for line in lines[:-1]) + "\n"


def _headline(view: RunView, answer: Answer) -> list[str]:
    message = answer.message or answer.outcome
    sentence = message[:1].upper() + message[1:] if message.split(" ")[0].isalpha() else message
    lines = _wrapped(sentence + ("" if message.endswith((".", "?", "…")) else "."))
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


def _required_line(view: RunView, answer: Answer) -> list[str]:
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
        return f"with {mode_words(method)}"
    return "in quick mode" if method.mode == "quick" else None


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


def _failed(count: FailCount | None) -> str:
    return f", {count.failed} of {count.run} repeats failed" if count else ""


def _asked(view: RunView) -> list[str]:
    config, server = view.config, view.server
    if config is None:
        return []
    lines = _wrapped(f"Limits: {limits(config.slo)}")
    work = config.workload
    lines += _wrapped(
        f"Workload: {work.input_tokens} tokens in, {work.output_tokens} out, {config.target.api}, cold prompts; "
        f"{mode_words(config.method)}, seed {config.method.seed}"
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
    return fleet.fleet_lines(plan, WIDTH)


def _gates(view: RunView) -> list[str]:
    if view.config is None:
        return []
    ask = view.config.fleet
    return fleet.gate_lines(fleet.gates(ask, fleet.unit_of(ask, view.server), view.server, evidence_of(view)), WIDTH)


class Remark(NamedTuple):
    """One thing to know beside the answer: its sentence, where it comes from, and what was said."""

    text: str
    about: Literal["knee", "check", "repeat", "run"]
    said: Said


def remarks(view: RunView) -> list[Remark]:
    """What to know beside the answer, each once: about the knee, from the checks, from the repeats, from the run's own lines."""
    answer = answer_of(view)
    found = [Remark(prose.text(note), "knee", note) for note in answer.knee.notes if note not in answer.told]
    found += [
        Remark(f"{check.check}: {prose.sentence(check.message)}", "check", check.message)
        for check in view.checks
        if check.status == "warn" or (check.status == "refuse" and answer.outcome != "refused")  # else it is the answer itself
    ]
    found += [
        Remark(f"{rate_text(step.rate_rps)}: {prose.text(warning)}", "repeat", warning)
        for step in view.steps
        if not step.set_aside
        for repeat in step.repeats
        for warning in repeat.warnings
    ]
    lines = [line for line in view.lines if line.level != "info" and line.step is None]
    found += [Remark(line.text, "run", line.fact or line.text) for line in lines]
    once: dict[str, Remark] = {}
    for remark in found:
        once.setdefault(remark.text, remark)
    return list(once.values())


def notes(view: RunView) -> list[str]:
    """The same as sentences."""
    return [remark.text for remark in remarks(view)]


def _notes(view: RunView) -> list[str]:
    told = [each.text for each in remarks(view) if not says(each.said, *fleet.FLOOR)]  # that stands with what limits one replica
    lines = [line for text in told for line in _wrapped(text, "  - ", "    ")]
    return ["Notes:", *lines] if lines else []


def _wrapped(text: str, first: str = "", rest: str = "  ") -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)

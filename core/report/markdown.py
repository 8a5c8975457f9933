"""A run as a short Markdown text to be pasted into an incident: what was asked, the answer, why, the fleet, how to repeat it."""

import re
from collections.abc import Sequence

from core import fleet, prose
from core.report.buckets import HEADS, bucket_tables
from core.report.closed import closed_fact
from core.report.fleet import fleet_notes, fleet_verdict, gate_texts, mark_number
from core.report.fleet_check import fleet_check_rows
from core.report.json import answer_of, evidence_of
from core.report.markdown_parts import literal, one_line, section, table
from core.report.text import answer_lengths, floor_words, gateway_waits, hits_words, latencies, notes, passing_step
from core.report.why import diagnosis_lines
from core.report.workers import sent_by
from core.results import Answer, FailCount, Outcome, StepResult
from core.units import as_set, count, duration, money, percent, rate_number, rate_text
from core.view import RunView

_HOW: dict[Outcome, str] = {
    "bracket": "Found",
    "at_least": "Holds at every rate judged",
    "below": "Fails at every rate judged",
    "infeasible": "Infeasible at any rate",
    "held": "Held",
    "void": "No valid answer",
    "refused": "Refused, no load was sent",
    "interrupted": "Ended before its answer",
}
_TICKS = re.compile(r"`+")


def to_markdown(view: RunView, path: str) -> str:
    """The summary of a run; `path` is where its file lies. Texts of a server are shown as they are: no mark-up of theirs
    works, but a bare address may become a link where it is pasted."""
    answer = answer_of(view)
    parts = [
        [f"### kneescope: {literal(prose.text(answer.message or _HOW[answer.outcome]))}"],
        simulated(view),
        table(["the fleet", "", ""], fleet_check_rows(view, answer)),
        table(["", "rate", "evidence"], answer_rows(view, answer)),
        [literal(line)] if (line := latencies(passing_step(view.steps, answer.knee))) else [],
        [literal(line)] if (line := answer_lengths(view)) else [],
        [literal(line)] if (line := gateway_waits(passing_step(view.steps, answer.knee))) else [],
        _required(view, answer),
        [literal(line)] if (line := prose.estimate(answer.knee.estimate)) else [],
        [] if (said := closed_fact(view, answer)) is None else [literal(prose.sentence(said))],
        *_by_length(view, answer),
        section("Why", why_lines(view, answer)),
        section("Asked", asked_lines(view)),
        section("Fleet", fleet_said(view, answer)),
        section("To know", notes(view)),
        _repeat(view, path),
    ]
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def simulated(view: RunView) -> list[str]:
    """That the replica was simulated, and where its knee is known to be."""
    if view.server is None or not view.server.simulated:
        return []
    truth = "" if view.truth_rps is None else f" Its knee in the long run is known: {rate_text(view.truth_rps)}."
    return [f"This was a simulated replica: its numbers say nothing about a real server.{truth}"]


# --- the answer ---------------------------------------------------------------------------------------------------


def answer_rows(view: RunView, answer: Answer) -> list[Sequence[str]]:
    """The zones that are known, each with the repeats behind it."""
    knee = answer.knee
    rows: list[Sequence[str]] = []
    if knee.pass_rps is not None:
        n = knee.pass_repeats
        rows.append(("holds", rate_text(knee.pass_rps), f"{n} of {count(n, 'repeat')} passed, floor {_floor(view, knee.pass_rps)}"))
    first_rps, upper_rps = knee.first_fail_rps, knee.fail_rps
    if first_rps is not None and first_rps != upper_rps:
        rows.append(("mixed from", rate_text(first_rps), _failed(view, first_rps, knee.first_fail)))
    if upper_rps is not None:
        clearly = upper_rps == knee.clear_fail_rps
        rows.append(("clearly fails" if clearly else "fails", rate_text(upper_rps), _failed(view, upper_rps, knee.fails)))
    elif knee.open_above:
        rows.append(("open above", "", "the knee may be higher than what failed"))
    return rows


def _failed(view: RunView, rate_rps: float, fails: FailCount | None) -> str:
    if {step.phase for step in view.steps if step.rate_rps == rate_rps and not step.set_aside} == {"ramp"}:
        evidence = "in a short segment of the ramp alone"
    else:
        evidence = f"{fails.failed} of {count(fails.run, 'repeat')} failed" if fails else "not counted"
    return f"{evidence}, floor {_floor(view, rate_rps)}"


def _floor(view: RunView, rate_rps: float) -> str:
    """Of the last step at a rate, as far as it is certain."""
    steps = [step for step in view.steps if step.rate_rps == rate_rps and step.verdict not in ("void", "unjudged")]
    return ", ".join(filter(None, (floor_words(steps[-1], view), hits_words(steps[-1], view)))) if steps else "not measured"


def _by_length(view: RunView, answer: Answer) -> list[list[str]]:
    return [[f"{literal(each.title)}:", "", *table(HEADS, each.rows)] for each in bucket_tables(view, answer)]


def _required(view: RunView, answer: Answer) -> list[str]:
    required_rps = view.config.method.require_rps if view.config else None
    words = {True: "met", False: "**not met**", None: "not judged"}
    return [] if required_rps is None else [f"Required rate {rate_text(required_rps)}: {words[answer.required_met]}."]


def why_lines(view: RunView, answer: Answer) -> list[str]:
    """The diagnosis where there is one, else what the failing steps of the answer say."""
    if answer.diagnosis is not None:
        return [" ".join(line.split()) for line in diagnosis_lines(answer.diagnosis)]
    ends = dict.fromkeys(rate for rate in (answer.knee.first_fail_rps, answer.knee.fail_rps) if rate is not None)
    steps = [step for rate in ends if (step := _last_failing(view, rate)) is not None]
    return [f"{rate_text(step.rate_rps)}{' (ramp)' if step.phase == 'ramp' else ''}: {prose.text(step.reason)}" for step in steps]


def _last_failing(view: RunView, rate_rps: float) -> StepResult | None:
    failing = [step for step in view.steps if step.rate_rps == rate_rps and step.verdict in ("fail", "mixed")]
    return max(failing, key=lambda step: (step.phase != "ramp", step.step), default=None)


# --- what was asked, the fleet, how to repeat ---------------------------------------------------------------------


def asked_lines(view: RunView) -> list[str]:
    """What the run was asked, of which server, and when."""
    config, server = view.config, view.server
    if config is None:
        return []
    work, method = config.workload, config.method
    lines = [
        f"limits: {prose.limits(config.limits)}",
        f"requests: {prose.requests(work)}, {config.target.api}, {prose.prefix(work.prefix)}",
        f"method: {prose.mode_words(method)}, {prose.seeds(method)}, open-loop {prose.arrivals(work)}",
    ]
    if front := prose.in_front(work):
        lines.append(f"in front of the server: {front}")
    version = f", version {server.version}" if server and server.version else ""
    model = (server.model if server else None) or config.target.model or "model not known"
    lines.append(f"server: {model} at {server.url if server else config.target.address}{version}")
    if line := sent_by(view):
        lines.append(f"load: {line[:1].lower()}{line[1:].removesuffix('.')}")
    if view.started_utc is not None:
        took_s = view.duration_s if view.duration_s is not None else view.now_s
        lines.append(f"run: {view.started_utc}, {duration(took_s)}")
    return lines


def fleet_said(view: RunView, answer: Answer) -> list[str]:
    """The sizes, what they survive and cost, the marks of the load at peak, and what limits one replica."""
    if view.config is None or view.config.method.fleet is not None:  # that is no replica that a fleet is sized by
        return []
    ask, evidence = view.config.fleet, evidence_of(view)
    gates = gate_texts(fleet.gates(ask, fleet.unit_of(ask, view.server), view.server, evidence))
    plan = fleet.plan(answer.knee, ask, view.server, evidence)
    if plan is None:
        return gates
    lines = [f"for a peak of {rate_text(plan.peak_rps)}, {prose.load_at_peak(plan.headroom)}"]
    lines[0] += f", {count(plan.gpus_per_endpoint, 'GPU')} per replica{'' if plan.layout_known else ' (assumed)'}"
    for word, size in (("holds", plan.at_pass), ("fails", plan.at_fail), ("p90", plan.at_p90_output)):
        if size is not None:
            price = ask.cost_per_gpu_h
            cost = "" if price is None else f", {money(size.gpus * price)} per hour at {as_set(price)} per GPU and hour"
            sizes = f"{count(size.replicas, 'replica')}, {count(size.gpus, 'GPU')}"
            each = f"each gets {rate_text(size.per_replica_rps)}, {percent(size.load_frac, 2)} of it"
            lines.append(f"at {rate_number(size.replica_rps)} per replica ({word}): {sizes}{cost}; {each}")
    lines += fleet_notes(plan)
    for mark in plan.marks:
        binds = ", which binds" if mark.binds else ""
        lines.append(f"load at peak {mark_number(mark)} at most for {prose.mark_label(mark.why)}{binds}: {prose.text(mark.why)}")
    return [*lines, *filter(None, [fleet_verdict(plan)]), *gates]


def _repeat(view: RunView, path: str) -> list[str]:
    """The command in a fence that nothing in it can close, and the run's file."""
    lines = []
    if view.command:
        command = one_line(view.command)
        fence = "`" * max(3, 1 + max((len(ticks) for ticks in _TICKS.findall(command)), default=0))
        lines += ["**To repeat it**", "", fence + "sh", command, fence]
    if path:
        lines += ["", f"Run file: {literal(path)}"] if lines else [f"Run file: {literal(path)}"]
    return lines

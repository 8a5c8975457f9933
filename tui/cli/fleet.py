"""`kneescope fleet`: a fleet from figures that are given, or from a recorded run with some of them changed."""

import json
import sys
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from core import RESULT_SCHEMA, fleet, report
from core.config import FleetAsk, Lengths, Workload
from core.errors import UserError
from core.fleet_check import refuse_fleet
from core.records import ServerInfo
from core.report import WIDTH, answer_of, evidence_of, finite
from core.results import Knee
from core.units import as_set, number, rate_text
from tui.cli import kept
from tui.cli.configure import fleet_ask
from tui.cli.options import REPLICA_OPTIONS
from tui.cli.output import JsonOut, emit
from tui.cli.recorded import Recorded, screen
from tui.terminal.signals import NO_ANSWER
from tui.terminal.whole import why_no_screen

LOWEST_REPLICA_RPS, HIGHEST_REPLICA_RPS = 1e-4, 1e6


class ReplicaFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One replica as it is known: from a run, from the options, or both. `source`: in a sentence, where its rate is from."""

    ask: FleetAsk = FleetAsk()
    knee: Knee = Knee()
    server: ServerInfo | None = None
    evidence: fleet.Evidence = fleet.Evidence()
    source: str = ""
    run_log: str | None = None


def run(options: Mapping[str, Any]) -> int:
    """Print the fleet, or write it as JSON; of a recorded run at a terminal, show its fleet screen first. 3 where the TPOT limit is
    out of reach of any fleet, or a recorded run has no rate that held to size one by. Raises UserError."""
    out = JsonOut(options["json"])
    try:
        recorded = None if options["run"] is None else Recorded(options["run"])
        figures = _with_options(ReplicaFigures() if recorded is None else _recorded(recorded), options)
        if recorded is not None and _has_screen(options):
            ask = screen(recorded, figures.ask, "fleet")
            if ask is None or ask.peak_rps is None:  # it was asked for there, and left open
                return 0
            figures = replace(figures, ask=ask)
        unit = fleet.unit_of(figures.ask, figures.server)
        gates = fleet.gates(figures.ask, unit, figures.server, figures.evidence)
        refused = gates.speed is not None and gates.speed.refuses
        plan = None if refused else fleet.plan(figures.knee, figures.ask, figures.server, figures.evidence)
        _require_something(figures, plan, gates)
        if not out.to_stdout:
            emit(_text(figures, plan, gates, refused))
        out.write(_json(figures, unit, plan, gates, refused))
    finally:
        out.withdraw()
    unsized = plan is None and figures.ask.peak_rps is not None and figures.run_log is not None
    return NO_ANSWER if refused or unsized else 0


def _has_screen(options: Mapping[str, Any]) -> bool:
    """Whether the fleet screen can show it: at a terminal, and only of what the run itself knows of its replica."""
    known = [options[option.name] for option in REPLICA_OPTIONS if option.name != "run"]
    if options["headless"] or options["json"] is not None or any(value is not None for value in known):
        return False
    return why_no_screen(sys.stdin, sys.stderr) is None and sys.stdout is not None and sys.stdout.isatty()


def _recorded(recorded: Recorded) -> ReplicaFigures:
    view = recorded.view()
    if view.config is not None:
        refuse_fleet(view.config)
    ask = kept.read(recorded.path, view)
    knee = answer_of(view).knee
    held = "no rate held" if knee.pass_rps is None else f"one replica held {rate_text(knee.pass_rps)}"
    return ReplicaFigures(
        ask=ask or (view.config.fleet if view.config else FleetAsk()),
        knee=knee,
        server=view.server,
        evidence=evidence_of(view),
        source=f"From the run {recorded.path}: {held}.",
        run_log=str(recorded.path),
    )


def _with_options(base: ReplicaFigures, options: Mapping[str, Any]) -> ReplicaFigures:
    """What was given over what the run says."""
    tokens = _tokens(base.evidence.tokens, options)
    knee, source = _knee(base, tokens, options)
    server = base.server
    if options["kv_tokens"] is not None:
        server = replace(server or ServerInfo(url=""), kv_cache_tokens=options["kv_tokens"])
    evidence = replace(
        base.evidence,
        tokens=tokens,
        natural=base.evidence.natural and tokens is base.evidence.tokens,
        **_given(target=options["target"], tpot_limit_s=options["tpot"], single_tpot_s=options["single_tpot"]),
    )
    own_rate = knee.pass_rps is not None and knee.pass_rps != base.knee.pass_rps
    if own_rate:  # nothing was measured at that rate
        evidence = replace(evidence, held=(), at_pass=fleet.End(rate_rps=knee.pass_rps or 0.0), at_fail=None)
    if options["mean_e2e"] is not None:
        if evidence.at_pass is None:
            raise UserError("--mean-e2e is the latency at the rate that holds; give that rate too (--replica-rps or --output-tps).")
        evidence = replace(evidence, at_pass=replace(evidence.at_pass, e2e_mean_s=options["mean_e2e"]))
    ask = fleet_ask(options, base.ask)
    return ReplicaFigures(ask=ask, knee=knee, server=server, evidence=evidence, source=source, run_log=base.run_log)


def _tokens(base: fleet.Tokens | None, options: Mapping[str, Any]) -> fleet.Tokens | None:
    inputs, outputs, p90 = options["input_tokens"], options["output_tokens"], options["output_p90"]
    tokens = base
    if inputs is not None and outputs is not None:
        tokens = fleet.tokens_of(Workload(input_tokens=inputs, output_tokens=outputs))
    elif outputs is not None:
        tokens = fleet.answers_of(outputs)
    elif inputs is not None:
        raise UserError("--input-tokens needs --output-tokens: a request keeps both in memory.")
    if p90 is None:
        return tokens
    if tokens is None or not _fixed(outputs) or p90 < tokens.mean_output:
        raise UserError("--output-p90 needs --output-tokens N, the mean, and cannot be below it.")
    longer = p90 - tokens.p90_output
    return replace(tokens, p90_output=float(p90), p90_total=None if tokens.p90_total is None else tokens.p90_total + longer)


def _fixed(lengths: Lengths | None) -> bool:
    return lengths is not None and lengths.fixed


def _knee(base: ReplicaFigures, tokens: fleet.Tokens | None, options: Mapping[str, Any]) -> tuple[Knee, str]:
    """The bracket, and where it is from."""
    held, fails, output_tps = options["replica_rps"], options["replica_fails_rps"], options["output_tps"]
    source = base.source
    if output_tps is not None:
        if held is not None:
            raise UserError("--replica-rps and --output-tps both say what one replica carries; give one of them.")
        if tokens is None:
            raise UserError("--output-tps needs --output-tokens: requests/s are output tokens/s divided by the mean answer length.")
        held = output_tps / tokens.mean_output
        each = f"{as_set(output_tps)} output tokens/s / {number(tokens.mean_output)} tokens an answer"
        source = f"One replica: {each} = {rate_text(held)}."
    for name, rate_rps in (("the rate that holds", held), ("--replica-fails-rps", fails)):
        if rate_rps is not None and not LOWEST_REPLICA_RPS <= rate_rps <= HIGHEST_REPLICA_RPS:
            ends = f"{as_set(LOWEST_REPLICA_RPS)} to {as_set(HIGHEST_REPLICA_RPS)}"
            raise UserError(f"{name}: {as_set(rate_rps)} requests/s is too low or too high for one replica; give {ends}.")
    if held is None and fails is None:
        return base.knee, source
    safe = base.knee.pass_rps if held is None else held
    if fails is not None and (safe is None or fails <= safe):
        raise UserError(
            "--replica-fails-rps is the upper end: give the rate that holds too (--replica-rps), and here a higher one."
        )
    return Knee(pass_rps=safe, first_fail_rps=fails), source


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _require_something(figures: ReplicaFigures, plan: fleet.Fleet | None, gates: fleet.Gates) -> None:
    if plan is not None or gates.speed is not None or (gates.memory is not None and figures.run_log is None):
        return
    if figures.knee.pass_rps is None and figures.run_log is not None:
        raise UserError(f"No rate held in {figures.run_log}; give one with --replica-rps.", exit_code=NO_ANSWER)
    if figures.run_log is not None:
        raise UserError(f"The peak is missing: no fleet is sized without one. Give --peak-rps for {figures.run_log}.")
    missing = "--peak-rps" if figures.ask.peak_rps is None else "--replica-rps (or --output-tps and --output-tokens, or --run)"
    raise UserError(
        f"There is nothing to work out: give {missing}. For a fleet give --peak-rps and --replica-rps, for the speed gate "
        "--weights-gb and --gpu."
    )


def _text(figures: ReplicaFigures, plan: fleet.Fleet | None, gates: fleet.Gates, refused: bool) -> str:
    parts = [
        report.fleet_lines(plan, WIDTH) if plan is not None else [],
        ["No fleet size: no number of replicas can meet that TPOT limit."] if refused else [],
        [figures.source] if figures.source else [],
        report.work_lines(figures.evidence.tokens, WIDTH),
        report.gate_lines(gates, WIDTH),
    ]
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def _json(figures: ReplicaFigures, unit: fleet.Unit, plan: fleet.Fleet | None, gates: fleet.Gates, refused: bool) -> str:
    data = {
        "schema": RESULT_SCHEMA,
        "refused": refused,
        "knee": {"pass_rps": figures.knee.pass_rps, "fail_rps": figures.knee.fail_rps},
        "tokens": msgspec.to_builtins(figures.evidence.tokens),
        **report.fleet_data(figures.ask, unit, plan, gates, figures.evidence),
        "run_log": figures.run_log,
    }
    return json.dumps(finite(data), allow_nan=False, ensure_ascii=False, indent=2) + "\n"

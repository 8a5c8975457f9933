"""From a run's view to what scripts read: the answer, and the result as JSON."""

import json
import math
from collections.abc import Iterable
from typing import Any

import msgspec

from core import RESULT_SCHEMA, fleet, prose
from core.config import FleetAsk, Lengths, ProbeConfig
from core.facts import fact
from core.history import label_of
from core.judge import Bracket
from core.prefixes import planned_hit_frac
from core.records import Check, ServerInfo
from core.report.closed import closed_data
from core.report.fleet import fleet_data
from core.report.fleet_check import fleet_check_data
from core.report.told import told, told_all
from core.report.twin import twin_data
from core.report.why import diagnosis_data
from core.results import Answer, Knee, RepeatResult, StepResult
from core.run import others_rps
from core.view import RunView
from core.workloads import MOST_PARTS, MixPart, TraceUse


def result(view: RunView, run_log: str | None) -> dict[str, Any]:
    """The result as plain data with every key of README.md "Result" always there, null where not known."""
    config, answer = view.config, answer_of(view)
    data: dict[str, Any] = {
        "schema": RESULT_SCHEMA,
        "outcome": answer.outcome,
        **told("message", answer.message),
        "knee": _knee(answer.knee),
        "slo": msgspec.to_builtins(config.slo) if config else None,
        "workload": _workload(config, view.server) if config else None,
        "request": _request(view.server),
        "method": msgspec.to_builtins(config.method) if config else None,
        "mode": config.method.mode if config else None,
        "seed": config.method.seed if config else None,
        "started_at": view.started_utc,
        "duration_s": view.duration_s if view.duration_s is not None else view.now_s,
        "required": _required(config, answer) if config else None,
        "others_rps": others_rps(view.steps) if config and config.safety.with_others else None,
        "server": _server(view),
        "replicas": _replicas(view),
        "client": msgspec.to_builtins(view.client) if view.client else None,
        "workers": msgspec.to_builtins(view.workers),
        "preflight": check_data(view.checks),
        "steps": [_step(step, config.workload.trace if config else None) for step in view.steps],
        "diagnosis": diagnosis_data(answer.diagnosis),
        "twin": twin_data(view),
        "closed_loop": closed_data(view, answer),
        "fleet": _fleet(view, answer),
        "run_log": run_log,
        "label": label_of(view),
        "kind": "probe" if config is None or config.method.fleet is None else "fleet_check",
        "fleet_check": fleet_check_data(view, answer),
    }
    data = finite(data)
    return data


def check_data(checks: Iterable[Check]) -> list[dict[str, Any]]:
    """The checks before the load as plain data."""
    return [{"check": each.check, "status": each.status, **told("message", each.message, prose.sentence)} for each in checks]


def to_json(view: RunView, run_log: str | None) -> str:
    """`result` as strict JSON text; no NaN or infinity can get in."""
    return json.dumps(result(view, run_log), allow_nan=False, ensure_ascii=False, indent=2) + "\n"


def answer_of(view: RunView) -> Answer:
    """The run's answer; of a run that was ended from outside, what its finished steps say."""
    if view.known_answer is not None:
        return view.known_answer
    bracket = Bracket.of(view.config.method, view.steps, target=view.config.slo.target) if view.config else Bracket()
    return Answer(outcome="interrupted", message=fact("unfinished"), knee=bracket.knee(), required_met=bracket.required_met)


def while_going(view: RunView) -> RunView:
    """The view of a run whose file is still being written: what it will answer is mostly not known yet, and it has not ended
    either."""
    if view.known_answer is not None:
        return view
    return msgspec.structs.replace(view, answer=msgspec.structs.replace(answer_of(view), message=fact("still_going")))


def _workload(config: ProbeConfig, server: ServerInfo | None) -> dict[str, Any]:
    left_out = server.shape.left_out if server and server.shape else ()
    sampling = {"temperature": config.workload.temperature, "top_p": 1.0, "ignore_eos": not config.workload.natural}
    return {
        "api": config.target.api,
        "input_tokens": None if config.workload.mix else _lengths(config.workload.input_tokens),
        "output_tokens": None if config.workload.mix else _lengths(config.workload.output_tokens),
        "prefix": str(config.workload.prefix),
        "sampling": {name: None if name in left_out else value for name, value in sampling.items()},
        "cache": "cold" if config.workload.prefix.cold else "shared",
        "arrivals": "trace" if config.workload.trace else "poisson" if config.workload.poisson else "gamma",
        "arrival_cv": config.workload.arrival_cv,
        "gateway": msgspec.to_builtins(config.workload.gateway),
        "retry_after": config.workload.retry_after,
        "reset_cache": config.method.reset_cache,
        "between": config.method.between,
        "length_correlation": config.workload.length_correlation,
        "mix": _mix(config.workload.mix),
        "source": msgspec.to_builtins(config.workload.source),
        "stop": config.workload.stop,
        "planned_hit_frac": planned_hit_frac(config.workload, server),
        "trace": msgspec.to_builtins(config.workload.trace),
        "think_s": config.workload.think_s,
    }


def _mix(mix: tuple[MixPart, ...]) -> list[dict[str, Any]] | None:
    """The kinds of request; None where there are none, or more than a table holds."""
    if not 0 < len(mix) <= MOST_PARTS:
        return None
    return [
        {
            "input": part.input_tokens,
            "output": part.output_tokens,
            "weight": part.weight,
            "limits": {f"{name}_s": limit for name, limit in part.limits_s.items()},
        }
        for part in mix
    ]


def _request(server: ServerInfo | None) -> dict[str, Any]:
    shape = server.shape if server else None
    return {
        "prompt": shape.prompt if shape else None,
        "length_by": shape.length_by if shape else None,
        "cache_salt": shape.salted if shape else None,
        "usage": shape.usage if shape else None,
        "left_out": list(shape.left_out) if shape else None,
        "counted_by": server.counted_by if server else None,
    }


def _knee(knee: Knee) -> dict[str, Any]:
    return {**msgspec.to_builtins(knee), **told_all("notes", knee.notes)}


def _required(config: ProbeConfig, answer: Answer) -> dict[str, Any] | None:
    rate_rps = config.method.require_rps
    return None if rate_rps is None else {"rate_rps": rate_rps, "met": answer.required_met}


def _lengths(lengths: Lengths) -> int | str:
    return lengths.largest if lengths.fixed else str(lengths)


def _server(view: RunView) -> dict[str, Any]:
    info = view.server
    return {
        "url": info.url if info else view.config.target.address if view.config else None,
        "version": info.version if info else None,
        "model": info.model if info else None,
        "max_model_len": info.max_model_len if info else None,
        "metrics": info.has_metrics if info else None,
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


def _replicas(view: RunView) -> list[dict[str, Any]]:
    """Those behind a gateway, as the last reading shows them; of one that it lacks, the name alone."""
    sample = view.sample
    rows = {row.name: row for row in sample.by_engine or ()} if sample is not None and sample.by_replica else {}
    known = view.server.replicas if view.server else ()
    names = dict.fromkeys((*known, *rows, *(sample.unread if sample else ())))
    return [
        {
            "name": name,
            "read": row is not None,
            "running": row.running if row else None,
            "waiting": row.waiting if row else None,
            "kv_usage_frac": row.kv_usage_frac if row else None,
        }
        for name in names
        for row in (rows.get(name),)
    ]


def _step(step: StepResult, trace: TraceUse | None) -> dict[str, Any]:
    exact = step.floor is not None and step.floor[0] == step.floor[1]
    return {
        "rate_rps": step.rate_rps,
        "phase": step.phase,
        "verdict": step.verdict,
        **told("reason", step.reason),
        "floor": step.floor[0] if step.floor and exact else None,
        "floor_interval": list(step.floor) if step.floor else None,
        "duration_s": step.duration_s,
        "set_aside": step.set_aside,
        "trace_scale": None if trace is None else trace.scale(step.rate_rps),
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
        **told("reason", repeat.reason),
        **told("failures_alike", repeat.failures_alike),
        **told_all("warnings", repeat.warnings),
        **latencies,
        "lateness_s": lateness,
        "lateness_p99_s": lateness["p99"],
    }


def _fleet(view: RunView, answer: Answer) -> dict[str, Any]:
    config = view.config
    if config is None:
        return fleet_data(FleetAsk(), fleet.Unit(), None, fleet.Gates(), fleet.Evidence())
    unit, evidence = fleet.unit_of(config.fleet, view.server), evidence_of(view)
    plan = fleet.plan(answer.knee, config.fleet, view.server, evidence)
    return fleet_data(config.fleet, unit, plan, fleet.gates(config.fleet, unit, view.server, evidence), evidence)


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

"""A run judged again under other limits, as text and as JSON."""

import json
from typing import Any

import msgspec

from core import RESULT_SCHEMA, prose
from core.config import Slo
from core.judge import Interval
from core.records import Phase
from core.rejudge import Rate, Rejudged
from core.report.compare import Table, table_lines
from core.report.json import finite
from core.report.told import told
from core.report.whatif import measured_words
from core.results import Knee
from core.units import DASH, between, rate_brief

_PHASES: dict[Phase, str] = {"tighten": "upper end", "confirm": "confirmation", "list": "listed"}


def rejudge_text(said: Rejudged) -> str:
    """For people: both limits, what was answered then and is now, and each rate."""
    lines = [
        f"Limits then: {prose.limits(said.then)}",
        f"Limits now:  {prose.limits(said.now)}",
        "",
        f"Then: {measured_words(said.knee_then)}." if said.outcome != "held" else "Then: a held rate.",
        f"Now:  {prose.sentence(said.message)}",
        "",
        *table_lines(_rates(said)),
    ]
    whys = [f"· {rate_brief(rate.rate_rps)}: {prose.text(rate.why)}" for rate in said.rates if rate.now == "undecided"]
    lines += ["", *whys] if whys else []
    return "\n".join("".join(char if char.isprintable() else " " for char in line).rstrip() for line in lines) + "\n"


def _rates(said: Rejudged) -> Table:
    rows = (
        (
            rate_brief(rate.rate_then_rps),
            _PHASES.get(rate.phase, rate.phase),
            rate.then,
            rate.now if rate.rate_rps == rate.rate_then_rps else f"{rate.now} at {rate_brief(rate.rate_rps)}",
            _floor(rate.floor_then, said.then.target),
            _floor(rate.floor_now, said.now.target),
        )
        for rate in said.rates
    )
    return Table("Rates", ("rate", "phase", "then", "now", "floor then", "floor now"), tuple(rows))


def _floor(ends: Interval | None, target: float) -> str:
    return DASH if ends is None else between(*ends, target)


def rejudge_json(said: Rejudged, run_log: str) -> str:
    """As strict JSON, every key always there, null where not known."""
    data = {
        "schema": RESULT_SCHEMA,
        "kind": "rejudge",
        "outcome": said.outcome,
        **told("message", said.message, prose.sentence),
        "slo_then": _slo(said.then),
        "slo": _slo(said.now),
        "knee_then": _knee(said.knee_then),
        "knee": _knee(said.knee),
        "undecided_rps": list(said.undecided_rps),
        "rates": [_rate(rate) for rate in said.rates],
        "run_log": run_log,
    }
    return json.dumps(finite(data), allow_nan=False, ensure_ascii=False, indent=2) + "\n"


def _slo(slo: Slo) -> dict[str, Any]:
    return {name: getattr(slo, name) for name in ("ttft_s", "tpot_s", "e2e_s", "target", "max_error_rate")}


def _knee(knee: Knee) -> dict[str, Any]:
    ends = ("pass_rps", "first_fail_rps", "clear_fail_rps", "fail_rps", "open_above")
    return {name: getattr(knee, name) for name in ends}


def _rate(rate: Rate) -> dict[str, Any]:
    return {
        "step": rate.step,
        "phase": rate.phase,
        "rate_rps": rate.rate_rps,
        "then": {"rate_rps": rate.rate_then_rps, "verdict": rate.then, "floor_interval": rate.floor_then},
        "now": {"verdict": rate.now, **told("reason", rate.why), "floor_interval": rate.floor_now},
        "repeats": [
            {
                "index": each.then.index,
                "then": each.then.verdict,
                "now": each.now.verdict if each.undecided is None else "undecided",
                **told("reason", each.now.reason if each.undecided is None else each.undecided),
                "attainment_interval_then": msgspec.to_builtins(each.then.attainment_interval),
                "attainment_interval": msgspec.to_builtins(each.now.attainment_interval),
            }
            for each in rate.repeats
        ],
    }

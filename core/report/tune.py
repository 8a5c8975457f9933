"""Settings of one server beside each other, as text and as JSON."""

import json
import textwrap
from collections.abc import Sequence
from typing import Any

import msgspec

from core import RESULT_SCHEMA, prose
from core.config import ProbeConfig
from core.facts import Fact
from core.report.json import finite
from core.report.told import told
from core.tune import Measured, Setting, Standing, headline, standings
from core.units import DASH, count, money, number, rate_number

_WIDTH = 100
_AGAINST = {"best": "best", "apart": "worse", "not_apart": "not told apart"}
"""A setting that fails at a rate that the best one holds is worse."""


def plan_text(settings: Sequence[Setting], expected: Fact) -> str:
    """What would be tried, and how long it takes."""
    lines = [f"{count(len(settings), 'setting')}:", *(f"  {each.label}" for each in settings), "", *_wrap(prose.sentence(expected))]
    return "\n".join([*lines, "Nothing was started."]) + "\n"


def plan_json(settings: Sequence[Setting], config: ProbeConfig, expected: Fact) -> str:
    """The same as strict JSON, with the keys of a tune that ran."""
    return _json(config, expected, (), dry_run=True, tried=settings)


def tune_text(found: Sequence[Measured], cost_per_gpu_h: float | None) -> str:
    """The table, the best first, the headline, and what else is to be known of each."""
    rows = standings(found, cost_per_gpu_h)
    gpus = any(row.found.gpus > 1 for row in rows)
    priced = any(row.per_million_at_pass is not None for row in rows)
    head = ["setting", "holds", "fails", *(["GPUs", "holds per GPU", "fails per GPU"] if gpus else [])]
    head += ["price of 1M output tokens"] if priced else []
    table = [(*head, "against the best"), *(_cells(row, gpus, priced) for row in rows)]
    lines = [*_columns(table), "  Rates in requests/s per replica.", "", *_wrap(prose.sentence(headline(found)))]
    for row in rows:
        each = row.found
        if each.beaten is not None or not each.answered or each.knee.pass_rps is None:
            lines += _wrap(f"· {each.setting.label}: {prose.text(each.beaten or each.message)}")
    if gpus and not all(row.found.gpus_known for row in rows if row.found.answered):
        lines += _wrap("· Where neither the server nor an option tells how many GPUs a replica has, 1 is assumed.")
    if any(row.found.run_log for row in rows):
        lines += ["", "Run files:", *(f"  {row.found.setting.label}: {row.found.run_log}" for row in rows if row.found.run_log)]
    return "\n".join(lines) + "\n"


def _cells(row: Standing, gpus: bool, priced: bool) -> tuple[str, ...]:
    each = row.found
    knee = each.knee if each.answered else type(each.knee)()
    cells = [each.setting.label, _rate(knee.pass_rps), _rate(knee.fail_rps)]
    if gpus:
        cells += [number(each.gpus) if each.answered else DASH, _rate(each.pass_per_gpu_rps), _rate(each.fail_per_gpu_rps)]
    if priced:
        ends = (row.per_million_at_fail, row.per_million_at_pass)
        cells.append(" to ".join(money(end) for end in ends if end is not None) or DASH)
    return (*cells, DASH if row.against is None else _AGAINST[row.against])


def _rate(rate_rps: float | None) -> str:
    return DASH if rate_rps is None else rate_number(rate_rps)


def _columns(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return ["  " + "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:-1], widths[1:-1]), row[-1]]).rstrip() for row in rows]


def _wrap(text: str) -> list[str]:
    whole = text.replace(" %", "\N{NO-BREAK SPACE}%")
    lines = textwrap.wrap(whole, _WIDTH, subsequent_indent="  " if text.startswith("·") else "", break_on_hyphens=False)
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]


def tune_json(found: Sequence[Measured], config: ProbeConfig) -> str:
    """The same as strict JSON, the best setting first, every key always there, null where not known."""
    rows = standings(found, config.fleet.cost_per_gpu_h)
    return _json(config, headline(found), rows, dry_run=False, tried=[each.setting for each in found])


def _json(config: ProbeConfig, message: Fact, rows: Sequence[Standing], *, dry_run: bool, tried: Sequence[Setting]) -> str:
    best = next((row for row in rows if row.against == "best"), None)
    data = {
        "schema": RESULT_SCHEMA,
        "kind": "tune",
        "dry_run": dry_run,
        **told("message", message),
        "best": None if best is None else best.found.setting.label,
        "tried": [{"label": each.label, "values": dict(each.values)} for each in tried],
        "settings": [_setting(row) for row in rows],
        "slo": msgspec.to_builtins(config.slo),
        "mode": config.method.mode,
        "seed": config.method.seed,
    }
    return json.dumps(finite(data), allow_nan=False, ensure_ascii=False, indent=2) + "\n"


def _setting(row: Standing) -> dict[str, Any]:
    each = row.found
    knee = each.knee if each.answered else type(each.knee)()
    return {
        "label": each.setting.label,
        "values": dict(each.setting.values),
        "outcome": each.outcome,
        **told("message", each.message),
        "against_best": row.against,
        "dropped": each.beaten is not None,
        "pass_rps": knee.pass_rps,
        "first_fail_rps": knee.first_fail_rps,
        "clear_fail_rps": knee.clear_fail_rps,
        "fail_rps": knee.fail_rps,
        "open_above": knee.open_above,
        "gpus": each.gpus,
        "gpus_known": each.gpus_known,
        "pass_per_gpu_rps": each.pass_per_gpu_rps,
        "fail_per_gpu_rps": each.fail_per_gpu_rps,
        "price_per_hour": row.per_hour,
        "price_per_million_at_pass": row.per_million_at_pass,
        "price_per_million_at_fail": row.per_million_at_fail,
        "ready_s": each.ready_s,
        "run_log": each.run_log,
    }

"""Runs beside each other, as text, Markdown and JSON: the headline first, then what differs, the brackets, the rates of both."""

import json
import math
import textwrap
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from core import RESULT_SCHEMA, prose
from core.columns import cells, padded
from core.compare import Against, Comparison, Interval, PairedRate, Shift, Side
from core.facts import Fact
from core.report.json import finite
from core.report.markdown_parts import literal, one_line, section, table
from core.report.told import told, told_all
from core.units import DASH, between, change, count, duration, latency, percent, points, rate_brief, rate_number

_WIDTH = 100
_WHOLE = "\N{NO-BREAK SPACE}%"
HEAD = "Compared"
_LATENCIES = {"ttft_s": "TTFT", "tpot_s": "TPOT", "e2e_s": "E2E"}

Row = tuple[str, ...]


class Table(NamedTuple):
    """What a text, Markdown and a screen have in common; its first column is a name."""

    title: str
    heads: Row
    rows: tuple[Row, ...]
    foot: str = ""


# --- the parts of a comparison --------------------------------------------------------------------------------------


def sides_table(found: Comparison) -> Table:
    """The runs, each by its letter."""
    rows = tuple((name, *_who(side)) for name, side in found.sides)
    return Table("Runs", ("", "run", "model", "mode", "took", "begun (UTC)"), rows)


def _who(side: Side) -> Row:
    model, took = side.server.get("model"), side.duration_s
    mode = "list" if side.asked["rates"] else str(side.asked["mode"])
    begun = (side.started_utc or DASH).replace("T", " ").removesuffix("Z")
    return one_line(side.label), one_line(str(model or DASH)), mode, DASH if took is None else duration(took), one_line(begun)


def brackets_table(found: Comparison) -> Table:
    """The brackets side by side, by GPU, and the fleets; what no run has is left out."""
    sides = [side for _, side in found.sides]
    lines: list[tuple[str, Callable[[Side], str | None]]] = [
        ("holds", lambda side: _rate(side.low_rps)),
        ("first fail", lambda side: _rate(side.knee.first_fail_rps)),
        ("clear fail", lambda side: _rate(side.knee.clear_fail_rps)),
        ("upper end", _upper),
        ("GPUs", lambda side: None if side.gpus is None else count(side.gpus)),
        ("holds per GPU", lambda side: _rate(side.pass_rps_per_gpu)),
        ("planned peak", lambda side: None if side.fleet is None else _rate(side.fleet.peak_rps)),
        ("load at peak", lambda side: None if side.fleet is None else percent(side.fleet.load_at_peak, 2)),
        ("replicas at peak", _replicas),
        ("GPUs at peak", _gpus),
    ]
    rows = [(name, [each(side) for side in sides]) for name, each in lines]
    return Table(
        "Brackets and fleets",
        ("", *(name for name, _ in found.sides)),
        tuple((name, *(value or DASH for value in values)) for name, values in rows if any(values)),
    )


def _rate(rate_rps: float | None) -> str | None:
    return None if rate_rps is None else rate_brief(rate_rps)


def _upper(side: Side) -> str | None:
    if side.outcome == "infeasible":
        return "none holds"
    return "open" if side.high_rps is None and side.low_rps is not None else _rate(side.high_rps)


def _replicas(side: Side) -> str | None:
    fleet = side.fleet
    return None if fleet is None else _both(fleet.replicas, fleet.replicas_at_fail)


def _gpus(side: Side) -> str | None:
    fleet = side.fleet
    return None if fleet is None else _both(fleet.gpus, fleet.gpus_at_fail)


def _both(safe: int, at_fail: int | None) -> str:
    """What is needed by the rate that holds, and by the one that fails."""
    return count(safe) if at_fail is None or at_fail == safe else f"{count(safe)} ({count(at_fail)} at the upper end)"


def differences_table(found: Comparison, each: Against) -> Table:
    """What was asked and what of the server differs, each with both values."""
    rows = tuple(prose.differing(one) for one in (*each.asked, *each.server))
    return Table("What differs", ("", found.name, each.name), rows)


def paired_table(found: Comparison, each: Against) -> Table:
    """Rates that both measured with the same requests."""
    heads = ("rate", f"floor {found.name}", f"floor {each.name}", "repeats", "attainment", "limits used")
    foot = (
        f"attainment: {each.name}'s less {found.name}'s; limits used: how much more of its limits the same request takes on "
        f"{each.name}; each with its 95 % interval."
    )
    return Table("Rates of both with the same requests", heads, tuple(map(_paired, each.rates)), foot)


def _paired(rate: PairedRate) -> Row:
    more = "" if rate.margin is None else _interval(rate.margin, lambda ln: change(math.expm1(ln)))
    floors = (f"{between(*floor, None)} {step.verdict}" for floor, step in ((rate.a_floor, rate.a), (rate.b_floor, rate.b)))
    apart = "" if rate.difference is None else _interval(rate.difference, points)
    return rate_brief(rate.rate_rps), *floors, count(rate.repeats), apart or DASH, more or DASH


def _interval(found: Interval, say: Callable[[float], str]) -> str:
    low, mid, high = (say(value) for value in (found.low, found.mid, found.high))
    unit = mid.partition(" ")[2]
    return f"{mid} ({low.removesuffix(unit).rstrip()} to {high.removesuffix(unit).rstrip()})"


def shifts_table(found: Comparison, each: Against) -> Table:
    """Latencies at rates that both saw."""
    heads = ("rate", "", *(f"{which} {name}" for which in ("p50", "p95") for name in (found.name, each.name, "shift")))
    rows: dict[tuple[float, float, str], dict[str, Shift]] = {}
    for shift in each.shifts:
        rows.setdefault((shift.a_rps, shift.b_rps, shift.latency), {})[shift.percentile] = shift
    return Table(
        "Latencies at rates that both saw (within 2 %)",
        heads,
        tuple(
            (_rates(a_rps, b_rps), _LATENCIES[name], *_shift(by.get("p50")), *_shift(by.get("p95")))
            for (a_rps, b_rps, name), by in rows.items()
        ),
    )


def _rates(a_rps: float, b_rps: float) -> str:
    return rate_brief(a_rps) if rate_number(a_rps) == rate_number(b_rps) else f"{rate_number(a_rps)}, {rate_brief(b_rps)}"


def _shift(shift: Shift | None) -> Row:
    return (DASH,) * 3 if shift is None else (latency(shift.a_s), latency(shift.b_s), change(shift.shift_frac))


# --- as text and Markdown -------------------------------------------------------------------------------------------


def headlines(found: Comparison) -> tuple[tuple[Against, str], ...]:
    """What is said of each run against the reference."""
    return tuple((each, prose.sentence(each.headline)) for each in found.against)


def compare_text(found: Comparison) -> str:
    """For people: the headlines, what would tell, and all that stands behind them."""
    lines = [HEAD, ""]
    for each, headline in headlines(found):
        lines += _wrap(headline)
        lines += [line for tell in each.tells for line in _wrap(f"To tell: {prose.text(tell)}.", "  ")]
    lines += ["", *table_lines(sides_table(found)._replace(title=""))]
    lines += ["", *table_lines(brackets_table(found))]
    for each in found.against:
        for part in tables_against(found, each):
            lines += ["", *table_lines(part)]
        lines += [line for note in each.notes for line in _wrap(f"· {prose.sentence(note)}", "  ")]
    return "\n".join(lines) + "\n"


def tables_against(found: Comparison, each: Against) -> list[Table]:
    """The tables of one run against the reference; with several, each title says which."""
    several = f"{each.name} against {found.name}: " if len(found.against) > 1 else ""
    makes = (differences_table,) if each.verdict == "refused" else (differences_table, paired_table, shifts_table)
    made = (make(found, each) for make in makes)
    return [part._replace(title=f"{several}{part.title[0].lower() if several else part.title[0]}{part.title[1:]}") for part in made]


def table_lines(part: Table) -> list[str]:
    """A table under its title, in columns; a table without rows says so."""
    if not part.rows:
        return [f"{part.title}: none."]
    rows = [part.heads, *part.rows]
    widths = [max(cells(row[at]) for row in rows) for at in range(len(part.heads))]
    title = [f"{part.title}:"] if part.title else []
    return [
        *title,
        *("  " + "  ".join(padded(cell, width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows),
        *(f"  {line}" for line in textwrap.wrap(part.foot.replace(" %", _WHOLE), _WIDTH - 2)),
    ]


def _wrap(text: str, more: str = "") -> list[str]:
    """Lines that do not part a number from its %."""
    lines = textwrap.wrap(
        text.replace(" %", _WHOLE), _WIDTH, subsequent_indent=more, break_on_hyphens=False, break_long_words=False
    )
    return [line.replace(_WHOLE, " %") for line in lines]


def compare_markdown(found: Comparison) -> str:
    """The same to be pasted somewhere."""
    blocks: list[list[str]] = []
    for each, headline in headlines(found):
        blocks.append([f"### kneescope: {literal(headline)}"])
        blocks.append(section("To tell them apart", [f"{prose.text(tell)}." for tell in each.tells]))
    for part in (sides_table(found), brackets_table(found)):
        blocks.append(_marked(part))
    for each in found.against:
        blocks += [_marked(part) for part in tables_against(found, each)]
        blocks.append(section("To know", map(prose.sentence, each.notes)))
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _marked(part: Table) -> list[str]:
    if not part.rows:
        return []
    foot = ["", literal(part.foot)] if part.foot else []
    return [f"**{literal(part.title)}**", "", *table(part.heads, part.rows), *foot]


# --- as JSON ------------------------------------------------------------------------------------------------------


def compare_json(found: Comparison) -> str:
    """All of it as strict JSON, every key always there, null where not known."""
    data = {
        "schema": RESULT_SCHEMA,
        "kind": "compare",
        "complete": found.complete,
        "reference": {"name": found.name, **_side(found.reference)},
        "against": [_against(each) for each in found.against],
    }
    return json.dumps(finite(data), allow_nan=False, ensure_ascii=False, indent=2) + "\n"


def _side(side: Side) -> dict[str, Any]:
    return {
        "label": side.label,
        "path": side.path,
        "started_at": side.started_utc,
        "duration_s": side.duration_s,
        "outcome": side.outcome,
        "asked": side.asked,
        "server": side.server,
        "pass_rps": side.low_rps,
        "first_fail_rps": side.knee.first_fail_rps,
        "clear_fail_rps": side.knee.clear_fail_rps,
        "fail_rps": side.high_rps,
        "gpus": side.gpus,
        "pass_rps_per_gpu": side.pass_rps_per_gpu,
        "fleet": msgspec.to_builtins(side.fleet),
        "voids": side.voids,
        "slowest_frac": side.speeds[1] - 1,
        "fastest_frac": side.speeds[0] - 1,
    }


def _against(each: Against) -> dict[str, Any]:
    return {
        "name": each.name,
        **_side(each.side),
        "verdict": each.verdict,
        **told("message", each.headline, prose.sentence),
        **told_all("tells", each.tells),
        "differs": {"asked": _differences(each.asked), "server": _differences(each.server)},
        "rates": [_rate_data(rate) for rate in each.rates],
        "shifts": [{**msgspec.to_builtins(shift), "shift_frac": shift.shift_frac} for shift in each.shifts],
        **told_all("notes", each.notes, prose.sentence),
    }


def _differences(found: Sequence[Fact]) -> list[dict[str, Any]]:
    return [{name: each.figures[name] for name in ("what", "a", "b")} for each in found]


def _rate_data(rate: PairedRate) -> dict[str, Any]:
    return {
        "rate_rps": rate.rate_rps,
        "repeats": rate.repeats,
        "requests": rate.requests,
        "a": {"verdict": rate.a.verdict, "floor": list(rate.a_floor)},
        "b": {"verdict": rate.b.verdict, "floor": list(rate.b_floor)},
        "difference": msgspec.to_builtins(rate.difference),
        "margin": msgspec.to_builtins(rate.margin),
    }

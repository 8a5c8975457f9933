"""Watched replicas as a table for a terminal of any width, and as JSON. The screen takes its columns from here."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from core import RESULT_SCHEMA, prose
from core.report.json import finite
from core.report.told import told, told_all
from core.units import DASH, count, latency_brief, number, percent
from core.watch import Estimate, Figures, ReplicaKnee, Row, Table, growth_fact, imbalance_fact, row_notes

WIDEST_NAME, NARROWEST_NAME = 40, 14
"""Cells of a replica's address in the table; a longer one loses its beginning."""

OK, FAILING, GONE, UNREAD = "✔", "✘", "⊘", "…"
_GLYPHS = {"ok": OK, "failing": FAILING, "gone": GONE, "unread": UNREAD}
OVER_FROM = 1.0
"""The load from which on a glyph stands beside it."""


Written = Callable[[float | None], str]


@dataclass(frozen=True, slots=True)
class Column:
    """One figure of a row. `rank`: the lowest stay where there is no room for all. `value`: what it is sorted by."""

    key: str
    head: str
    told: str
    rank: int
    width: int
    value: Callable[[Row], float | None]
    text: Callable[[Row], str]


def _whole(value: float | None) -> str:
    return DASH if value is None else count(round(value))


def _estimate(estimate: Estimate | None) -> str:
    if estimate is None:
        return DASH
    return f"over {latency_brief(estimate.value_s)}" if estimate.over else latency_brief(estimate.value_s)


def _figure(
    key: str, head: str, told: str, rank: int, width: int, value: Callable[[Figures], float | None], text: Written = number
) -> Column:
    def known(row: Row) -> float | None:
        return None if row.figures is None else value(row.figures)

    return Column(key, head, told, rank, width, known, lambda row: text(known(row)))


def _latency(key: str, head: str, told: str, rank: int, value: Callable[[Figures], Estimate | None], gaps: bool = False) -> Column:
    def known(row: Row) -> Estimate | None:
        return None if row.figures is None else value(row.figures)

    def text(row: Row) -> str:
        mark = "~" if gaps and known(row) is not None and row.figures is not None and row.figures.tpot_of == "gap" else ""
        return mark + _estimate(known(row))

    return Column(key, head, told, rank, 9, lambda row: None if (found := known(row)) is None else found.value_s, text)


def _load_text(row: Row) -> str:
    if row.load is None:
        return DASH
    return f"{percent(row.load.frac, 2)}{' ▲' if row.load.above(OVER_FROM) else ''}"


COLUMNS: tuple[Column, ...] = (
    Column(
        "load",
        "load",
        "with --run: arriving requests/s as a share of the rate that was measured to hold; else KV cache in use; 100 % where"
        " requests wait too long, or are stuck",
        0,
        8,
        lambda row: None if row.load is None else row.load.frac,
        _load_text,
    ),
    _figure("running", "run", "requests running now", 1, 5, lambda f: f.running, _whole),
    _figure("waiting", "wait", "requests waiting now", 1, 5, lambda f: f.waiting, _whole),
    _figure("kv_usage_frac", "KV", "KV cache in use now, of the fullest engine", 2, 6, lambda f: f.kv_usage_frac, percent),
    _figure("arriving_rps", "req/s", "requests arriving a second", 2, 6, lambda f: f.arriving_rps),
    _figure("finished_rps", "done/s", "requests finished a second", 6, 6, lambda f: f.finished_rps),
    _latency("ttft_p50", "TTFT p50", "the server's own TTFT, half are below", 5, lambda f: f.ttft_p50),
    _latency("ttft_p95", "TTFT p95", "the server's own TTFT, 95 % are below", 3, lambda f: f.ttft_p95),
    _latency("tpot_p50", "TPOT p50", "the server's own TPOT; ~: gaps between tokens", 5, lambda f: f.tpot_p50, True),
    _latency("tpot_p95", "TPOT p95", "the server's own TPOT; ~: gaps between tokens", 3, lambda f: f.tpot_p95, True),
    _figure("output_tps", "out tok/s", "output tokens a second", 4, 9, lambda f: f.output_tps),
    _figure("prompt_tps", "in tok/s", "prompt tokens a second", 6, 8, lambda f: f.prompt_tps),
    _figure("prefix_hit_frac", "hits", "prompt tokens found in the prefix cache", 6, 6, lambda f: f.prefix_hit_frac, percent),
    _figure("preemptions_per_s", "pre/s", "preemptions a second", 5, 6, lambda f: f.preemptions_per_s),
    _figure(
        "errors_per_s", "err/s", "answers a second that ended in an error of the server", 4, 6, lambda f: f.errors_per_s, number
    ),
)
"""In the order of the screen."""


def name_of(url: str) -> str:
    """How a replica is called in a table: plain HTTP is taken for granted."""
    return url.removeprefix("http://")


def glyph(row: Row) -> str:
    """The state as one character."""
    return _GLYPHS[row.state]


def columns_for(width: int, name: int) -> tuple[Column, ...]:
    """Those that so many cells hold beside a name of `name` cells: the most important first, in their usual order."""
    kept: set[str] = set()
    room = width - name - 2
    for column in sorted(COLUMNS, key=lambda each: each.rank):
        if column.width + 2 > room:
            break
        room -= column.width + 2
        kept.add(column.key)
    return tuple(column for column in COLUMNS if column.key in kept)


def name_width(rows: Sequence[Row], width: int) -> int:
    """Cells for the longest name, within limits."""
    longest = max((len(name_of(row.url)) for row in rows), default=0)
    return max(min(longest, WIDEST_NAME, width // 4), NARROWEST_NAME)


def clip(text: str, width: int) -> str:
    """A name that is too long loses its beginning, for its end tells it from others."""
    return text if len(text) <= width else f"…{text[len(text) - width + 1 :]}"


def note_text(row: Row) -> str:
    """All there is to say of a row beside its figures."""
    return "; ".join(prose.text(each) for each in row_notes(row))


def watch_text(table: Table, knee: ReplicaKnee | None, width: int = 120) -> str:
    """The table as lines; what is said of a row stands below it."""
    name = name_width(table.rows, width)
    columns = columns_for(width, name)
    head = f"  {'replica':<{name}}" + "".join(f"  {column.head:>{column.width}}" for column in columns)
    lines = [head.rstrip()]
    for row in table.rows:
        cells = "".join(f"  {column.text(row):>{column.width}}" for column in columns) if row.figures is not None else ""
        lines.append(f"{glyph(row)} {clip(name_of(row.url), name):<{name}}{cells}".rstrip())
        if said := note_text(row):
            lines.append(f"    {said}")
    lines += [
        " · ".join((read_of(table), *sums(table))),
        *imbalance_lines(table),
        *(prose.sentence(each) for each in table.problems),
    ]
    if knee is not None:
        lines.append(knee_line(knee))
    return "\n".join(lines) + "\n"


def read_of(table: Table) -> str:
    """How many replicas have figures."""
    return f"{count(table.total.read)} of {count(table.total.replicas, 'replica')} read"


def sums(table: Table) -> tuple[str, ...]:
    """What all replicas do together, the most important first."""
    total = table.total
    return (
        f"{_whole(total.running)} running, {_whole(total.waiting)} waiting",
        f"{number(total.arriving_rps)} req/s in, {number(total.finished_rps)} done",
        f"{number(total.output_tps)} output tok/s",
        f"{number(total.prompt_tps)} prompt tok/s",
        f"{number(total.preemptions_per_s)} preemptions/s",
        f"{number(total.errors_per_s)} errors/s",
    )


def imbalance_lines(table: Table) -> list[str]:
    """How unevenly the load is spread; none where it is even, or where that is not known."""
    imbalance = table.total.imbalance
    return [prose.sentence(imbalance_fact(imbalance))] if imbalance is not None and imbalance.ratio > 1 else []


def knee_line(knee: ReplicaKnee) -> str:
    """What the load is a share of."""
    of = f" of {knee.model}" if knee.model else ""
    return f"Load is the share of {number(knee.pass_rps)} requests/s, which one replica{of} was measured to hold."


def watch_data(table: Table, knee: ReplicaKnee | None, at_utc: str) -> dict[str, Any]:
    """A reading as plain data, every key always there."""
    run = {"pass_rps": knee.pass_rps, "fail_rps": knee.fail_rps, "model": knee.model, "run_log": str(knee.path)} if knee else None
    data: dict[str, Any] = {
        "schema": RESULT_SCHEMA,
        "kind": "watch",
        "at": at_utc,
        "window_s": table.window_s,
        "run": run,
        "replicas": [_row(row) for row in table.rows],
        "total": asdict(table.total),
        **told_all("problems", table.problems, prose.sentence),
    }
    data = finite(data)
    return data


def watch_json(table: Table, knee: ReplicaKnee | None, at_utc: str, *, line: bool = False) -> str:
    """The same as strict JSON: over several lines, or as one `line` of a stream."""
    indent = None if line else 2
    return json.dumps(watch_data(table, knee, at_utc), allow_nan=False, ensure_ascii=False, indent=indent) + "\n"


_EMPTY = dict.fromkeys(Figures.__dataclass_fields__)


def _row(row: Row) -> dict[str, Any]:
    figures = _EMPTY if row.figures is None else asdict(row.figures)
    growth = None if row.growth is None else {**asdict(row.growth), **told("message", growth_fact(row.growth), prose.sentence)}
    return {
        "url": row.url,
        "state": row.state,
        "since_s": row.since_s,
        "model": row.model,
        "why": row.why,
        "read_s": row.read_s,
        "failures": row.failures,
        "load": None if row.load is None else {"frac": row.load.frac, "by": row.load.by},
        "growth": growth,
        "several_servers": row.several,
        "restarted_s": row.restarted_s,
        **{name: figures[name] for name in _EMPTY if name not in ("t", "queued")},
        **told_all("notes", row_notes(row), prose.sentence),
    }

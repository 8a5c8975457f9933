"""Requests by their lengths, as tables: at the rate that holds, and at the first one that fails."""

import textwrap
from typing import NamedTuple

from core.judge import pooled, windows
from core.percentiles import FEW
from core.results import Answer, Bucket
from core.units import DASH, between, count, latency, rate_text, span
from core.view import RunView

HEADS = ("tokens in", "out", "requests", "inside", "TTFT p50", "TTFT p95", "TPOT p50", "TPOT p95", "E2E p95", "errors")
"""`inside`: the share that met every limit."""
_MEDIANS = (4, 6)


class BucketTable(NamedTuple):
    """One rate: what it is of, and a row of cells for each bucket."""

    title: str
    rows: list[tuple[str, ...]]


def bucket_tables(view: RunView, answer: Answer) -> list[BucketTable]:
    """A table for each end of the bracket that has windows with requests of more than one kind."""
    target = view.config.slo.target if view.config else 1.0
    knee, tables = answer.knee, []
    for word, rate_rps in (("holds", knee.pass_rps), ("fails", knee.first_fail_rps)):
        repeats = windows(step for step in view.steps if step.rate_rps == rate_rps)
        found = pooled(repeats)
        if rate_rps is None or len(found) < 2:
            continue
        together = f"{count(sum(bucket.n for bucket in found), 'request')} in {count(len(repeats), 'repeat')}"
        highest = "; each percentile is the highest of the repeats" if len(repeats) > 1 else ""
        rows = [bucket_cells(bucket, target, len(repeats)) for bucket in found]
        few = "; * of too few answers" if any("*" in cell for row in rows for cell in row) else ""
        tables.append(BucketTable(f"By length at {rate_text(rate_rps)}, which {word} ({together}{highest}{few})", rows))
    return tables


def bucket_cells(bucket: Bucket, target: float | None, repeats: int) -> tuple[str, ...]:
    """The cells of a row, in the order of `HEADS`. `repeats`: of how many these are the highest percentiles."""
    few = "*" if bucket.n < FEW["p95"] * repeats else ""
    p95 = [DASH if value is None else latency(value) + few for value in (bucket.ttft_p95_s, bucket.tpot_p95_s, bucket.e2e_p95_s)]
    return (
        *(("others", "") if bucket.others else (span(*bucket.input), span(*bucket.output))),
        count(bucket.n),
        between(*bucket.attainment_interval, target, DASH) if bucket.decided else DASH,
        latency(bucket.ttft_p50_s),
        p95[0],
        latency(bucket.tpot_p50_s),
        p95[1],
        p95[2],
        DASH if bucket.errors is None else count(bucket.errors),
    )


def bucket_lines(view: RunView, answer: Answer, width: int) -> list[str]:
    """The tables as text; where they are too wide for it the medians are left out."""
    lines = []
    for table in bucket_tables(view, answer):
        rows = [HEADS, *table.rows]
        widths = [max(len(row[at]) for row in rows) + 2 for at in range(len(HEADS))]
        whole = sum(widths) <= width
        lines += textwrap.wrap(f"{table.title}:", width, subsequent_indent="  ")
        lines += ["".join(f"{row[at]:>{widths[at]}}" for at in range(len(HEADS)) if whole or at not in _MEDIANS) for row in rows]
    return lines

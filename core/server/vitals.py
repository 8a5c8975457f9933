"""What a running server tells of itself at a glance: a sample, the buckets of its latencies, and its errors.

A histogram's buckets are many lines, so the readings of a run leave them out (`core.server.exposition`). Whoever only watches has
no latencies of its own, and reads them.
"""

import asyncio
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from core.records import ServerSample
from core.server.exposition import MODEL, SAMPLE_METRICS, SAMPLES, Row, Rows, ScrapeError, rows_of, sample_of
from core.server.http import Caller, HttpError
from core.server.metrics import LARGE, Exposition, read_exposition
from core.units import typed

TpotOf = Literal["request", "gap"]
"""Whose times a TPOT histogram holds: one mean for each request at its end (vLLM 0.11 on), or each gap between tokens."""

_TPOT: tuple[tuple[str, TpotOf], ...] = (
    ("vllm:request_time_per_output_token_seconds", "request"),
    ("vllm:inter_token_latency_seconds", "gap"),
    ("vllm:time_per_output_token_seconds", "gap"),
)
"""Newest first, as everywhere; the last is the name of the gaps up to 0.11."""
_TTFT = SAMPLE_METRICS["ttft_s"].names
_FINISHED = tuple(f"{name}{end}" for name in SAMPLE_METRICS["requests_success_total"].names for end in ("_total", ""))
_HTTP = "http_requests_total"
_BUCKET = "_bucket"
_MOST, _FULL = 1e15, 1.001
"""A million tokens a second for thirty years are 1e15."""
_WANTED = SAMPLES | {_HTTP} | {name + _BUCKET for name in (*_TTFT, *(name for name, _ in _TPOT))}


@dataclass(frozen=True, slots=True)
class Buckets:
    """A histogram: upper bounds of its finite buckets in seconds, rising, and the cumulative count at each, the last over all."""

    bounds: tuple[float, ...]
    counts: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.counts) != len(self.bounds) + 1:
            raise ValueError("a histogram has one count more than finite bounds")


@dataclass(frozen=True, slots=True)
class Vitals:
    """One reading. `errors_total`: answers that ended in an error of the server, the more of two counts that may both hold one:
    requests that finished with the reason `error`, and HTTP answers of 5xx. None where neither is exposed. `model`: the name that
    its metrics have for its model."""

    sample: ServerSample
    ttft: Buckets | None = None
    tpot: Buckets | None = None
    tpot_of: TpotOf | None = None
    errors_total: float | None = None
    model: str | None = None


def vitals_of(exposition: Exposition) -> Vitals:
    """The values of one exposition. Raises ScrapeError when there is no vLLM metric in it, and for values that cannot be."""
    rows = rows_of(exposition.text, exposition.content_type, _WANTED)
    sample = sample_of(rows, exposition.t, exposition.took_s)
    _check(sample)
    tpot, tpot_of = next(((found, of) for name, of in _TPOT if (found := _buckets(rows, name)) is not None), (None, None))
    return Vitals(
        sample=sample,
        ttft=next((found for name in _TTFT if (found := _buckets(rows, name)) is not None), None),
        tpot=tpot,
        tpot_of=tpot_of,
        errors_total=_errors(rows),
        model=next((name for part in rows.values() for labels, _ in part if (name := labels.get(MODEL))), None),
    )


def _check(sample: ServerSample) -> None:
    """Raises ScrapeError for a count below zero or beyond any server's, and for a KV cache that is more than full."""
    for name in (
        "running",
        "waiting",
        "kv_usage_max_frac",
        *(field for field in sample.__struct_fields__ if field.endswith("_total")),
    ):
        value, most = getattr(sample, name), _FULL if name == "kv_usage_max_frac" else _MOST
        if value is not None and not 0 <= value <= most:
            raise ScrapeError(f"tells a figure that cannot be ({name} {typed(value)}); is that a vLLM server's /metrics?")


async def read_vitals(caller: Caller, url: str, clock: Callable[[], float] = time.monotonic) -> Vitals:
    """One GET of `url`. Raises ScrapeError, whose text goes on after the name of the server: "answers 404 (not found)"."""
    try:
        exposition = await read_exposition(caller, url, clock)
    except HttpError as error:
        raise ScrapeError(str(error)) from error
    large = len(exposition.text) > LARGE
    return await asyncio.to_thread(vitals_of, exposition) if large else vitals_of(exposition)


def _buckets(rows: Rows, name: str) -> Buckets | None:
    """The buckets, summed over the engines; None where there are none, or where a count is no number."""
    by_bound: dict[float, float] = {}
    for labels, value in rows.get(name + _BUCKET, ()):
        bound = _bound(labels.get("le", ""))
        if bound is None or not math.isfinite(value):
            return None
        by_bound[bound] = by_bound.get(bound, 0.0) + value
    bounds = sorted(by_bound)
    if len(bounds) < 2 or bounds[-1] != math.inf:
        return None
    return Buckets(tuple(bounds[:-1]), tuple(by_bound[bound] for bound in bounds))


def _bound(text: str) -> float | None:
    try:
        bound = float(text)
    except ValueError:
        return None
    return None if math.isnan(bound) else bound


def _errors(rows: Rows) -> float | None:
    finished = next((rows[name] for name in _FINISHED if name in rows), None)
    counts = [
        None if finished is None else _sum(finished, "finished_reason", "error"),
        _sum(rows[_HTTP], "status", "5") if _HTTP in rows else None,
    ]
    return max((count for count in counts if count is not None and math.isfinite(count)), default=None)


def _sum(rows: Iterable[Row], label: str, begins: str) -> float:
    """Of the rows whose label begins so."""
    return sum(value for labels, value in rows if labels.get(label, "").startswith(begins))

"""Readings of a replica that nobody runs: counters that grow as they are told to."""

from typing import Any

from core.records import ServerSample
from core.server import Buckets, Vitals
from core.watch import Watched

BOUNDS = (0.1, 0.5, 1.0)
EPOCH = 1000.0


def vitals(t: float, *, ttft: tuple[float, ...] | None = None, errors: float | None = 0.0, **sample: Any) -> Vitals:
    """A reading at `t`. `ttft`: cumulative counts of `BOUNDS` and of all."""
    known: dict[str, Any] = {
        "running": 0.0,
        "waiting": 0.0,
        "kv_usage_max_frac": 0.1,
        "requests_success_total": 0.0,
        "preemptions_total": 0.0,
        "prompt_tokens_total": 0.0,
        "generation_tokens_total": 0.0,
        "prefix_queries_total": 0.0,
        "prefix_hits_total": 0.0,
        "epoch": EPOCH,
    }
    buckets = None if ttft is None else Buckets(BOUNDS, ttft)
    return Vitals(
        ServerSample(t=t, took_s=0.01, **(known | sample)), ttft=buckets, tpot=buckets, tpot_of="gap", errors_total=errors
    )


def steady(watched: Watched, url: str, rate_rps: float, seconds: int, begin: int = 0) -> None:
    """A reading a second of a replica at which `rate_rps` arrive and finish."""
    for t in range(begin, begin + seconds + 1):
        watched.take(url, vitals(float(t), requests_success_total=rate_rps * t))

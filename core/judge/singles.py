"""What the three single requests on the idle server tell: its idle latency, and whether any rate can be right at all."""

from collections.abc import Sequence

from core.config import Slo
from core.judge.slo import e2e_s, good, tpot_s, ttft_s
from core.records import RequestRecord

_SHORTEST_S = 1e-3
"""An idle latency counts as at least a millisecond, so that the first rate (2/s0) stays one that a client can send."""


def idle_e2e_s(records: Sequence[RequestRecord]) -> float | None:
    """s0: the mean E2E latency of the requests that succeeded, in seconds; None when none did."""
    e2es_s = [e2e for r in records if r.ending == "ok" and (e2e := e2e_s(r)) is not None]
    return max(sum(e2es_s) / len(e2es_s), _SHORTEST_S) if e2es_s else None


def why_infeasible(records: Sequence[RequestRecord], slo: Slo) -> str | None:
    """Why no rate can be right, in a few words, or None: with nothing else to do, the server missed with every one of them."""
    if any(good(r, slo) for r in records):
        return None
    succeeded = [r for r in records if r.ending == "ok"]
    if not succeeded:
        cause = (records[0].error or records[0].ending) if records else "none was sent"
        return f"none of {len(records)} single requests succeeded ({cause})"
    return f"even single requests miss the limits, {len(records)} of {len(records)} ({_excess(succeeded[0], slo)})"


def _excess(record: RequestRecord, slo: Slo) -> str:
    values = (
        ("TTFT", ttft_s(record), slo.ttft_s),
        ("TPOT", tpot_s(record), slo.tpot_s),
        ("E2E", e2e_s(record), slo.e2e_s),
    )
    return ", ".join(
        f"{name} {_text(value)}, limit {_text(limit)}"
        for name, value, limit in values
        if value is not None and limit is not None and value > limit
    )


def _text(seconds: float) -> str:
    return f"{1000 * seconds:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"

"""What the three single requests on the idle server tell: its idle latency, and whether any rate can be right at all."""

from collections.abc import Sequence
from typing import NamedTuple

from core.config import Slo
from core.judge.evidence import errors_said
from core.judge.slo import e2e_s, good, tpot_s, ttft_s
from core.records import RequestRecord
from core.results import Idle

_SHORTEST_S = 1e-3
"""An idle latency counts as at least a millisecond, so that the first rate (2/s0) stays one that a client can send."""


def idle_e2e_s(records: Sequence[RequestRecord]) -> float | None:
    """s0: the mean E2E latency of the requests that succeeded, in seconds; None when none did."""
    e2es_s = [e2e for r in records if r.ending == "ok" and (e2e := e2e_s(r)) is not None]
    return max(sum(e2es_s) / len(e2es_s), _SHORTEST_S) if e2es_s else None


def idle(records: Sequence[RequestRecord]) -> Idle:
    """The idle server's speed: mean TPOT, and the time to first token per prompt token beyond the step that brings the token."""
    ok = [r for r in records if r.ending == "ok"]
    tpots_s = [tpot for r in ok if (tpot := tpot_s(r)) is not None]
    tpot = sum(tpots_s) / len(tpots_s) if tpots_s else None
    ttfts_s = [ttft for r in ok if (ttft := ttft_s(r)) is not None]
    tokens = sum(r.asked_input if r.prompt_tokens is None else r.prompt_tokens for r in ok if r.t_first is not None)
    prefill_s = sum(ttfts_s) - len(ttfts_s) * (tpot or 0.0)
    return Idle(tpot_s=tpot, prefill_token_s=max(0.0, prefill_s) / tokens if tpot is not None and tokens else None)


def servers_word(records: Sequence[RequestRecord]) -> bool:
    """Whether the server ended every one of these requests, and there are any: one that we gave up or spoilt tells of no limit."""
    return bool(records) and all(r.ending not in ("aborted", "client") for r in records)


class Infeasible(NamedTuple):
    """Why no rate can be right, in one sentence; `alone`: the same to be read below a headline that says so."""

    message: str
    alone: str


def why_infeasible(records: Sequence[RequestRecord], slo: Slo) -> Infeasible | None:
    """Why no rate can be right, or None: with nothing else to do, the server missed with every one of them."""
    if any(good(r, slo) for r in records):
        return None
    succeeded = [r for r in records if r.ending == "ok"]
    if not succeeded:
        if not records:
            return _at_any_rate("no single request was sent")
        cause = errors_said(records) or records[0].ending
        what = "the server answers errors to" if any(r.ending == "http" for r in records) else "the server breaks off"
        said = f"{what} all {len(records)} single requests ({cause}), so no rate can be right"
        return Infeasible(said, said)
    missed = f"{len(records)} of {len(records)} ({_excess(succeeded[0], slo)})"
    return _at_any_rate(f"even single requests miss the limits, {missed}")


def _at_any_rate(reason: str) -> Infeasible:
    return Infeasible(f"infeasible at any rate: {reason}", reason)


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

"""What single requests on the idle server show of the limits: one judgement for the check before the load and for the search.

Pure. Latencies start at the scheduled time, as everywhere.
"""

from collections import Counter
from collections.abc import Sequence

from core.config import Slo
from core.facts import Code, Fact, Figure, fact
from core.records import RequestRecord
from core.slo import e2e_s, good, limits_of, too_long, tpot_s, ttft_s

NO_RATE: tuple[Code, ...] = ("all_singles_miss", "all_singles_fail")
"""The server, with nothing else to do, missed with every one of them: no rate can be right."""

JUDGED = 3
"""Single requests that are judged, after one that is not, because a first request pays for what the server sets up late."""

_OURS = ("aborted", "client")
"""A request that we gave up or spoilt tells of no limit."""

_SLOW_FIRST = 2.0
"""The unjudged request is spoken of when it took this many times as long as the slowest judged one."""


def judged(records: Sequence[RequestRecord], slo: Slo, first: RequestRecord | None = None) -> Fact:
    """Whether requests that have the server for themselves meet their limits. `first` came before them and is not judged.

    A failed request misses. `some_singles_miss` is no obstacle; where none is good, NO_RATE says whether that is the server's word.
    """
    if not records:
        return fact("singles_missing", sent=0, wanted=JUDGED)
    missed = [record for record in records if not good(record, slo)]
    failed = [record for record in records if record.ending != "ok"]
    cause = (failure(failed[0]),) if failed else ()
    if len(missed) == len(records) and any(record.ending in _OURS for record in records):
        return fact("singles_spoilt", *cause, judged=len(records))
    if len(failed) == len(records):
        return fact("all_singles_fail", *cause, judged=len(records), endings=dict(Counter(record.ending for record in failed)))
    seen: dict[str, Figure] = {
        "judged": len(records),
        "ttft_s": [value for record in records if (value := ttft_s(record)) is not None],
        "tpot_s": [value for record in records if (value := tpot_s(record)) is not None],
        "e2e_s": [value for record in records if (value := e2e_s(record)) is not None],
        "slow_first_s": _slow_first_s(first, records),
    }
    if not missed:
        return fact("singles_meet", **seen)
    code: Code = "some_singles_miss" if len(missed) < len(records) else "all_singles_miss"
    return fact(code, *cause, **seen, missed=len(missed), **_limits_missed(missed, slo))


def failure(record: RequestRecord) -> Fact:
    """How a request failed: in the server's words, or that it was given up, and with how many tokens where those were too many."""
    if record.ending == "aborted":
        tokens = record.output_tokens if too_long(record) else None
        after_s = record.t_end - record.t_sched
        return fact("request_given_up", after_s=after_s, first_token=record.t_first is not None, tokens_too_many=tokens)
    status = record.status if record.status != 200 else None
    return fact("request_broken_off", ending=record.ending, status=status, said=(record.error or "").rstrip(".") or None)


def _limits_missed(missed: Sequence[RequestRecord], slo: Slo) -> dict[str, Figure]:
    """The limits that a finished answer went over, in seconds; None for the others. Of several, the strictest."""
    over: dict[str, Figure] = {}
    own = [(record, limits_of(record, slo)) for record in missed if record.ending == "ok"]
    for name, value in (("ttft", ttft_s), ("tpot", tpot_s), ("e2e", e2e_s)):
        limits_s = [(value(record), getattr(limits, f"{name}_s")) for record, limits in own]
        past_s = [limit_s for took_s, limit_s in limits_s if limit_s is not None and (took_s or 0.0) > limit_s]
        over[f"{name}_limit_s"] = min(past_s, default=None)
    return over


def _slow_first_s(first: RequestRecord | None, records: Sequence[RequestRecord]) -> float | None:
    """The E2E of the first request in seconds, where a first request paid for what the server sets up late."""
    took_s = None if first is None else e2e_s(first)
    slowest_s = max((value for record in records if (value := e2e_s(record)) is not None), default=None)
    return took_s if took_s is not None and slowest_s is not None and took_s > _SLOW_FIRST * slowest_s else None

"""Several replicas behind a gateway, over a row of readings: what each did, how evenly they were used, and whether they changed."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from core.facts import Fact, fact
from core.judge.server_readings import Readings
from core.records import EngineSample, RequestRecord, ServerSample
from core.results import ReplicaUse

GONE_AFTER = 3
"""A replica that so many readings in a row do not show was not there, a second and a half; fewer are readings that failed."""

UNEVEN = 1.25
"""With a quarter more than its share the busiest replica reaches its knee when the gateway carries four fifths of what its replicas
hold together: more than the spare that most fleets keep."""

FEWEST = 10
"""Requests of each replica on average: of fewer the busiest has so much more by chance, even of an even split."""


COUNTED_S = 1.0
"""An engine counts what it finished with its next step, and its page may be some moments old."""

SEEN_FRAC = 0.95
"""Of what the gateway answered, the replicas count so much at least where all of them are known."""


@dataclass(frozen=True, slots=True)
class Change:
    """How many replicas were there in the first and in the last of some readings, and which came, went or restarted."""

    before: int
    after: int
    names: tuple[str, ...]
    restarted: tuple[str, ...]


def replicas_change(samples: Sequence[ServerSample]) -> Change | None:
    """None where the replicas are the same throughout, and where no replicas were read. A process that answers late is there."""
    seen = [sample for sample in samples if sample.by_replica]
    there = [{row.name for row in sample.by_engine or ()} | set(sample.unread) for sample in seen]
    known = list(dict.fromkeys(name for sample in seen for name in _names(sample)))
    moved = tuple(name for name in known if _longest_gap([name in names for names in there]) >= GONE_AFTER)
    restarted = tuple(name for name in Readings(seen).restarted if name not in moved)
    if not moved and not restarted:
        return None
    ends = (there[:GONE_AFTER], there[-GONE_AFTER:])
    before, after = (len(set[str]().union(*part)) for part in ends)
    return Change(before, after, moved, restarted)


def changed(samples: Sequence[ServerSample]) -> Fact | None:
    """Why a repeat during which the replicas changed does not count."""
    found = replicas_change(samples)
    if found is None:
        return None
    n = len(found.restarted)
    return fact("replicas_changed", *found.names, *found.restarted, before=found.before, after=found.after, restarted=n)


def replica_uses(samples: Sequence[ServerSample], start: float, until: float) -> tuple[ReplicaUse, ...]:
    """Each replica between the newest reading at or before `start` and the last one until `until`, in the order of the readings;
    empty where no replicas were read."""
    seen = [s for s in Readings(samples).since(start).samples if s.by_replica and s.t <= until]
    names = dict.fromkeys(name for sample in seen for name in _names(sample))
    rows = {name: [row for sample in seen for row in sample.by_engine or () if row.name == name] for name in names}
    ended = {name: _rise(each, "requests_success_total") for name, each in rows.items()}
    known = [n for n in ended.values() if n is not None]
    whole = sum(known) if len(known) == len(ended) else 0.0
    return tuple(_use(name, each, ended[name], whole, len(rows)) for name, each in rows.items())


def busiest_share(replicas: Sequence[ReplicaUse]) -> float | None:
    """The share of the one that got most, against an even one; None where that is not known, or would be chance."""
    shares = [each.share for each in replicas if each.share is not None]
    total = sum(each.requests or 0.0 for each in replicas)
    return max(shares) if len(shares) == len(replicas) > 1 and total >= FEWEST * len(replicas) else None


def uneven(replicas: Sequence[ReplicaUse]) -> Fact | None:
    """A gateway that does not split requests evenly: a word, for the rate that holds is still the rate that holds."""
    share = busiest_share(replicas)
    if share is None or share <= UNEVEN:
        return None
    name = next(each.name for each in replicas if each.share == share)
    return fact("replicas_uneven", name=name, share=share, replicas=len(replicas))


def unused(replicas: Sequence[ReplicaUse]) -> Fact | None:
    """Replicas that nothing was sent to, while an even split would have brought them much."""
    total = sum(each.requests or 0.0 for each in replicas)
    idle = [each.name for each in replicas if each.requests == 0]
    if not idle or total < FEWEST * len(replicas):
        return None
    return fact("replicas_unused", *idle, requests=round(total))


def unseen(samples: Sequence[ServerSample], records: Sequence[RequestRecord]) -> Fact | None:
    """Requests that the gateway answered and no replica of the readings did; None where all replicas' counters are not known."""
    seen = [sample for sample in samples if sample.by_replica]
    if len(seen) < 2 or seen[0].unread or seen[-1].unread or replicas_change(seen) is not None:
        return None
    first, last = seen[0], seen[-1]
    if first.requests_success_total is None or last.requests_success_total is None:
        return None
    until = last.t - last.took_s - COUNTED_S
    ours = sum(r.ending == "ok" and r.t_sent is not None and r.t_sent >= first.t and r.t_end <= until for r in records)
    rose = last.requests_success_total - first.requests_success_total
    if ours < FEWEST or rose >= SEEN_FRAC * ours:
        return None
    return fact("replicas_unseen", counted=max(0, round(rose)), requests=ours)


def _use(name: str, rows: Sequence[EngineSample], ended: float | None, whole: float, n: int) -> ReplicaUse:
    usage = [row.kv_usage_frac for row in rows if row.kv_usage_frac is not None]
    hits, queries = _rise(rows, "prefix_hits_total"), _rise(rows, "prefix_queries_total")
    return ReplicaUse(
        name=name,
        requests=ended,
        share=ended * n / whole if ended is not None and whole > 0 else None,
        running_mean=_mean([row.running for row in rows]),
        waiting_mean=_mean([row.waiting for row in rows]),
        kv_usage_mean=_mean(usage),
        kv_usage_max=max(usage, default=None),
        preemptions=_rise(rows, "preemptions_total"),
        prefix_hit_frac=hits / queries if hits is not None and queries is not None and queries > 0 else None,
    )


def _names(sample: ServerSample) -> tuple[str, ...]:
    return (*(row.name for row in sample.by_engine or ()), *sample.unread)


def _longest_gap(there: Sequence[bool]) -> int:
    """How many in a row are not."""
    longest = now = 0
    for is_there in there:
        now = 0 if is_there else now + 1
        longest = max(longest, now)
    return longest


def _rise(rows: Sequence[EngineSample], name: str) -> float | None:
    """By how much a counter rose; None where it was read less than twice, or is not one process's."""
    if len({row.started for row in rows}) > 1:
        return None
    known: list[float] = [value for row in rows if (value := getattr(row, name)) is not None]
    return known[-1] - known[0] if len(known) > 1 and known[-1] >= known[0] else None


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None

"""What fits into the measured server: told by it, seen in its readings, or assumed and said so."""

from collections.abc import Sequence
from statistics import fmean

from core.engine import Limits, LimitSource
from core.records import ServerInfo, ServerSample

ASSUMED_SEQS = (256, 512, 1024, 2048)
"""vLLM's default on most GPUs is 256, on large ones 1024: the first that has room for what was seen."""
ASSUMED_BATCHED = 2048
"""vLLM's own default for most GPUs."""
SEQS_KEY, BATCHED_KEY = "max_num_seqs", "max_num_batched_tokens"
FEWEST_WAITING = 6
"""Readings with waiting requests that a plateau needs."""
AT_PLATEAU, MOSTLY, OFTEN = 0.96, 0.6, 0.25
"""Of these readings most show the highest number of running sequences but for those that the last step finished, which is one where
there are few (two places of a real server: 2 in 56 % of the readings, else 1); and often the highest itself."""
KV_FULL_FRAC = 0.9
"""With so much of the KV cache in use it is the cache that keeps requests out, whatever the places."""


def limits_of(server: ServerInfo, samples: Sequence[ServerSample] = ()) -> Limits:
    """The limits of a server by what it tells and by the plateau of running requests while others waited."""
    highest = max((sample.running or 0.0 for sample in samples), default=0.0)
    told_seqs, told_batched = _told(server, SEQS_KEY), _told(server, BATCHED_KEY)
    seqs_from: LimitSource = "told"
    if told_seqs is None:
        told_seqs, seqs_from = _plateau(samples, highest), "inferred"
    if told_seqs is None:
        told_seqs, seqs_from = next((each for each in ASSUMED_SEQS if each >= highest), round(highest)), "assumed"
    return Limits(
        max_seqs=told_seqs,
        max_batched_tokens=told_batched or max(ASSUMED_BATCHED, told_seqs),
        kv_tokens=server.kv_cache_tokens,
        seqs_from=seqs_from,
        batched_from="assumed" if told_batched is None else "told",
        kv_from="assumed" if server.kv_cache_tokens is None else "told",
    )


def _told(server: ServerInfo, key: str) -> int | None:
    text = server.config.get(key, "")
    return int(text) if text.isdecimal() and int(text) > 0 else None


def _plateau(samples: Sequence[ServerSample], highest: float) -> int | None:
    """Where running sequences stood while others waited and the KV cache had room; None where they did not stand."""
    waiting = [sample for sample in samples if (sample.waiting or 0.0) >= 1 and sample.running is not None]
    usage = [sample.kv_usage_frac for sample in waiting if sample.kv_usage_frac is not None]
    if len(waiting) < FEWEST_WAITING or (usage and fmean(usage) >= KV_FULL_FRAC):
        return None
    running = [sample.running or 0.0 for sample in waiting]
    there = sum(each >= min(AT_PLATEAU * highest, highest - 1) for each in running)
    stands = there >= MOSTLY * len(running) and sum(each >= AT_PLATEAU * highest for each in running) >= OFTEN * len(running)
    return round(highest) if stands and highest >= 1 else None

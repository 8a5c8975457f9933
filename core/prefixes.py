"""Which share of prompt tokens a server's counters should show as found in its prefix cache, once it has all shared prefixes."""

from collections.abc import Iterable
from functools import lru_cache

import numpy as np

from core.config import Workload
from core.engine import BLOCK_TOKENS
from core.records import ServerInfo, ServerSample
from core.schedule import joint, shares_of
from core.shared_blocks import found_frac
from core.workloads import Prefix

_SHARES = 2000
"""Of the requests, by a lognormal length: its mean by so many is within 0.1 % of the true one."""


def block_tokens(server: ServerInfo | None) -> int:
    """Tokens of a block of the server's prefix cache, which keeps whole blocks alone; vLLM's default where it does not tell."""
    told = server.config.get("block_size", "") if server else ""
    return int(told) if told.isdecimal() and int(told) > 0 else BLOCK_TOKENS


def hit_frac(prefix: Prefix, prompts: Iterable[int], block: int) -> float | None:
    """The share of the tokens of these prompts (their lengths) that lies in whole blocks of shared prefixes; the last token of a
    prompt is always computed. None where that is not planned, or there are no prompts."""
    return found_frac(prefix.tokens, list(prompts), block) if prefix.kind == "shared" else None


def shown_hit_frac(before: ServerSample | None, after: ServerSample | None) -> float | None:
    """Of the prompt tokens that a server looked up between two readings, the share that its prefix cache had; None where its
    counters do not tell, or were set back."""
    if before is None or after is None or before.epoch != after.epoch:
        return None
    first, last = ((sample.prefix_queries_total, sample.prefix_hits_total) for sample in (before, after))
    if first[0] is None or first[1] is None or last[0] is None or last[1] is None:
        return None
    queries, hits = last[0] - first[0], last[1] - first[1]
    return hits / queries if queries > 0 and hits >= 0 else None


def planned_hit_frac(workload: Workload, server: ServerInfo | None) -> float | None:
    """The same of the prompts that a workload draws; None where nothing is planned."""
    if workload.prefix.kind == "turns":
        return _turns_planned(workload, block_tokens(server))
    return _planned(workload, block_tokens(server)) if workload.prefix.kind == "shared" else None


@lru_cache(maxsize=4)  # a trace has thousands of kinds of request, and a screen asks at every redraw
def _planned(workload: Workload, block: int) -> float:
    if workload.mix:
        drawn = joint(workload, 1)
        prompts, weights = drawn.input_tokens, drawn.weights
    else:
        prompts = shares_of(workload.input_tokens, _SHARES)
        weights = np.ones(prompts.size)
    hits = np.minimum(workload.prefix.tokens, prompts - 1) // block * block
    return float((weights * hits).sum() / (weights * prompts).sum())


@lru_cache(maxsize=4)
def _turns_planned(workload: Workload, block: int) -> float | None:
    mix = workload.mix
    if not mix:  # none of its rows could be used, or they are not drawn yet
        return None
    before = (0, *(part.input_tokens + part.output_tokens for part in mix[:-1]))
    known = np.array([tokens if part.turn else 0 for tokens, part in zip(before, mix, strict=True)])
    return found_frac(known, [part.input_tokens for part in mix], block)

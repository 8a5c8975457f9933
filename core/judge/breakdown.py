"""A repeat taken apart, where its attainment averages bad things away: its worst stretch of time, and its classes of lengths."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from core.judge.tally import Tally
from core.percentiles import percentiles
from core.records import RequestRecord
from core.results import Bucket, WorstBlock
from core.slo import good, tpot_s, ttft_s

GROUPS = 4
"""Quartiles of the input by quartiles of the output: up to 16 classes, each with a sixteenth of the requests where the two
are drawn apart."""


@dataclass(frozen=True, slots=True)
class _Groups:
    """Which group each request's length falls into, and each group's (shortest, longest)."""

    of: NDArray[np.int64]
    spans: tuple[tuple[int, int], ...]


def buckets(tally: Tally, *, closed: bool) -> tuple[Bucket, ...]:
    """The window's requests by (input, output) class, shorter prompts first, then shorter answers; empty classes left out.

    Classes are cut at the quartiles of the lengths that the plan asked for in the window; equal lengths are never parted, so
    fixed lengths are one class. `closed`: all that was planned counts as decided, what has not ended well is a miss.
    """
    at = tally.measured_indices
    if not at.size:
        return ()
    inputs, outputs = _groups(tally.plan.input_tokens[at]), _groups(tally.plan.output_tokens[at])
    class_of = inputs.of * len(outputs.spans) + outputs.of
    planned = np.bincount(class_of, minlength=len(inputs.spans) * len(outputs.spans)).tolist()
    records: list[list[RequestRecord]] = [[] for _ in planned]
    for record in tally.measured_records:
        records[class_of[np.searchsorted(at, record.index)]].append(record)
    spans = [(i, o) for i in inputs.spans for o in outputs.spans]
    return tuple(_bucket(tally, span, n, ended, closed) for span, n, ended in zip(spans, planned, records, strict=True) if n)


def _bucket(
    tally: Tally, span: tuple[tuple[int, int], tuple[int, int]], n: int, ended: list[RequestRecord], closed: bool
) -> Bucket:
    ok = [r for r in ended if r.ending == "ok"]
    decided = n if closed else sum(r.ending != "aborted" for r in ended)
    return Bucket(
        input=span[0],
        output=span[1],
        n=n,
        decided=decided,
        attainment=sum(good(r, tally.slo) for r in ok) / n if decided == n else None,
        ttft_p95_s=percentiles(v for r in ok if (v := ttft_s(r)) is not None).p95,
        tpot_p95_s=percentiles(v for r in ok if (v := tpot_s(r)) is not None).p95,
    )


def _groups(lengths: NDArray[np.int64]) -> _Groups:
    ordered = np.sort(lengths)
    cuts = np.unique(ordered[[-(-lengths.size * k // GROUPS) - 1 for k in range(1, GROUPS)]])
    of = np.unique(np.searchsorted(cuts, lengths, side="left"), return_inverse=True)[1]
    spans = [lengths[of == group] for group in range(int(of.max()) + 1)]
    return _Groups(of=of, spans=tuple((int(s.min()), int(s.max())) for s in spans))


BLOCK_E2E = 4
"""Requests that are in flight together share their fate: a stretch shorter than four mean durations shows one moment's luck."""

MOST_BLOCKS = 10
"""With short requests hundreds of blocks would fit, each with a request or two, and the worst of them would always be at 0 %."""

FEWEST_BLOCKS = 2
_DUST = 1e-9


def worst_block(tally: Tally, mean_e2e_s: float | None) -> WorstBlock | None:
    """Of equal blocks that fill the window, each at least 4 mean E2E long, the one with the lowest attainment.

    For a repeat at one rate whose endings all count as decided: what has not ended well is a miss. Of equally bad ones the
    earliest; a block without arrivals is passed over. None where two such blocks do not fit. Not an independent sample: the
    blocks of one repeat share the server's state, and the worst of several is low by choice.
    """
    start, end = tally.layout.window
    if not mean_e2e_s or len(tally.measured) != 1:
        return None
    blocks = min(MOST_BLOCKS, int((end - start) / (BLOCK_E2E * mean_e2e_s) + _DUST))
    if blocks < FEWEST_BLOCKS:
        return None
    edges_s = np.linspace(0.0, end - start, blocks + 1)
    due_s = tally.layout.due - start
    first, after_last = tally.layout.slices[tally.measured[0]]
    held_s = due_s[[r.index for r in tally.measured_records if good(r, tally.slo)]]
    counts = zip(_counts(held_s, edges_s), _counts(due_s[first:after_last], edges_s), pairwise(edges_s.tolist()), strict=True)
    held = [(n_good / n, span) for n_good, n, span in counts if n]
    if not held:
        return None
    attainment, (from_s, to_s) = min(held)
    return WorstBlock(from_s=from_s, to_s=to_s, attainment=attainment)


def _counts(at_s: NDArray[np.float64], edges_s: NDArray[np.float64]) -> list[int]:
    """How many of the times fall into each block; the last one takes what rounding puts beyond its end."""
    block = np.clip(np.searchsorted(edges_s, at_s + _DUST, side="right") - 1, 0, edges_s.size - 2)
    counts: list[int] = np.bincount(block, minlength=edges_s.size - 1).tolist()
    return counts

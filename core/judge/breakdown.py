"""Where the attainment of a repeat averages bad moments away: the worst stretch of its window."""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from core.judge.tally import Tally
from core.results import WorstBlock
from core.slo import good

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

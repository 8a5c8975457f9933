"""What recorded prompts share: a tree of blocks of tokens, and what of a prompt an endless cache has by the time it comes. Pure."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.records import SharedBlocks


def found_frac(known: ArrayLike, prompts: ArrayLike, block: int) -> float | None:
    """The share of the tokens of these prompts (their lengths) that a cache of whole blocks has, where it knows so many tokens at
    their beginnings; the last token of a prompt is always computed. None without prompts."""
    lengths = np.asarray(prompts, dtype=np.int64)
    if not lengths.size:
        return None
    found = np.minimum(np.asarray(known, dtype=np.int64), lengths - 1) // block * block
    return float(found.sum() / lengths.sum())


def ends_tokens(shared: SharedBlocks) -> list[int]:
    """How many tokens of a prompt lie before the end of each branch."""
    ends: list[int] = []
    for parent, blocks in zip(shared.parents, shared.blocks, strict=True):
        ends.append((ends[parent] if parent >= 0 else 0) + blocks * shared.block_tokens)
    return ends


def known_tokens(shared: SharedBlocks) -> NDArray[np.int64]:
    """How many tokens at the beginning of each prompt an earlier one of the same order had: what an endless cache that was empty
    before knows of it."""
    ends, seen = ends_tokens(shared), set[int]()
    known = np.zeros(len(shared.of), dtype=np.int64)
    for at, branch in enumerate(shared.of):
        while branch >= 0 and branch not in seen:
            seen.add(branch)
            branch = shared.parents[branch]
        known[at] = ends[branch] if branch >= 0 else 0
    return known

"""Which blocks of their prompts recorded requests have in common, in a form as small as the requests are many."""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from core.records import SharedBlocks
from core.traffic.trace import Chains

_ID_BYTES = 8


def shared_blocks(
    chains: Chains, rows: NDArray[np.int64], laps: NDArray[np.int64], input_tokens: NDArray[np.int32]
) -> SharedBlocks:
    """What the prompts of these rows share with each other; `input_tokens` are those of all rows of the trace.

    Two share as many whole blocks as their ids agree from the first one on. A block that is cut off by the end of its prompt is
    shared by nobody, nor is anything with another lap (`laps[i]`) of a recording that begins again.
    """
    begins, whole = chains.begins[rows], np.minimum(np.diff(chains.begins), input_tokens // chains.block_tokens)[rows]
    keys = [
        lap.tobytes() + chains.ids[begin : begin + blocks].tobytes()
        for lap, begin, blocks in zip(laps, begins.tolist(), whole.tolist(), strict=True)
    ]
    places = sorted(range(len(keys)), key=keys.__getitem__)  # those that begin alike follow each other
    alike = [_alike(keys[one], keys[other]) for one, other in pairwise(places)]
    tree, last = _Tree(), np.full(len(keys), -1, dtype=np.int64)
    for place, before, behind in zip(places, [0, *alike], [*alike, 0], strict=False):
        last[place] = tree.add(before, behind)
    order = sorted(range(len(tree.depths)), key=tree.depths.__getitem__)  # parents before those that go on from them
    number = {branch: at for at, branch in enumerate(order)} | {-1: -1}
    return SharedBlocks(
        block_tokens=chains.block_tokens,
        parents=tuple(number[tree.parents[branch]] for branch in order),
        blocks=tuple(tree.depths[branch] - tree.depth(tree.parents[branch]) for branch in order),
        of=tuple(number[branch] for branch in last.tolist()),
    )


def _alike(one: bytes, other: bytes) -> int:
    """How many ids two keys have in common from the beginning on, if they are of one lap."""
    size = min(len(one), len(other)) // _ID_BYTES
    ids, others = (np.frombuffer(key, dtype=np.int64, count=size) for key in (one, other))
    differ = np.flatnonzero(ids != others)
    return max(0, int(differ[0] if differ.size else size) - 1)


class _Tree:
    """The branches of chains that are added in their order, each by its blocks in common with the one before and the one behind."""

    def __init__(self) -> None:
        self.depths, self.parents = list[int](), list[int]()
        self._open = list[int]()

    def depth(self, branch: int) -> int:
        """Blocks up to the end of a branch."""
        return self.depths[branch] if branch >= 0 else 0

    def add(self, before: int, behind: int) -> int:
        """The branch with which the blocks end that the next chain shares; -1: it shares none."""
        below = -1
        while self._last_depth > before:
            below = self._open.pop()
        if self._last_depth < before:  # where it parts from the chain before, that one's branch is cut in two
            self.parents[below] = self._grow(before)
        if behind > before:
            self._grow(behind)
        return self._open[-1] if self._open else -1

    @property
    def _last_depth(self) -> int:
        return self.depth(self._open[-1]) if self._open else 0

    def _grow(self, depth: int) -> int:
        self.parents.append(self._open[-1] if self._open else -1)
        self.depths.append(depth)
        self._open.append(len(self.depths) - 1)
        return self._open[-1]

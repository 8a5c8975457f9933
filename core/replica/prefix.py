"""Which prompt prefixes the engine has computed lately: what makes a prompt cold or warm, and the hit counters true."""

from collections import OrderedDict
from collections.abc import Sequence


def prefix_hashes(token_ids: Sequence[int], salt: str | None, block_tokens: int) -> tuple[int, ...]:
    """One hash per full block, each chained on the one before; the salt is in the first, so it isolates the whole prefix
    (vLLM 0.32, v1/core/kv_cache_utils.py)."""
    previous = hash(salt)
    hashes = []
    for end in range(block_tokens, len(token_ids) + 1, block_tokens):
        previous = hash((previous, *token_ids[end - block_tokens : end]))
        hashes.append(previous)
    return tuple(hashes)


class PrefixCache:
    """The hashes of the `capacity_blocks` blocks used last, of prompts and of answers: the next turn of a conversation has both. It
    holds no memory of its own: a cached block that nobody
    uses counts as free in vLLM too, so here it is only remembered, and a hit shortens the prefill."""

    def __init__(self, capacity_blocks: int) -> None:
        self._capacity = capacity_blocks
        self._blocks: OrderedDict[int, None] = OrderedDict()

    def known(self, hashes: tuple[int, ...]) -> int:
        """How many blocks from the start are known."""
        return next((count for count, block in enumerate(hashes) if block not in self._blocks), len(hashes))

    def leading_hits(self, hashes: tuple[int, ...]) -> int:
        """How many blocks from the start are known; those count as used now."""
        hits = self.known(hashes)
        for block in hashes[:hits]:
            self._blocks.move_to_end(block)
        return hits

    def add(self, hashes: tuple[int, ...]) -> None:
        """Remember a computed prompt or answer, forgetting the blocks unused for longest."""
        for block in hashes:
            self._blocks[block] = None
            self._blocks.move_to_end(block)
        while len(self._blocks) > self._capacity:
            self._blocks.popitem(last=False)

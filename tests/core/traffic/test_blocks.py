"""What the prompts of a trace share, as a tree: by hand, and against every pair of chains compared id by id."""

import random
from itertools import combinations

import numpy as np
import pytest

from core.records import SharedBlocks
from core.shared_blocks import ends_tokens, found_frac, known_tokens
from core.traffic.blocks import shared_blocks
from core.traffic.trace import Chains


def shared(
    chains: list[list[int]], tokens: list[int] | None = None, laps: list[int] | None = None, block: int = 512
) -> SharedBlocks:
    """The tree of these chains; prompts end with their last block unless `tokens` say otherwise."""
    begins = np.cumsum([0, *map(len, chains)])
    ids = np.array([each for chain in chains for each in chain], dtype=np.int64)
    inputs = np.array(tokens or [len(chain) * block for chain in chains], dtype=np.int32)
    rows = np.arange(len(chains))
    return shared_blocks(Chains(block, begins, ids), rows, np.array(laps or [0] * len(chains)), inputs)


def path(tree: SharedBlocks, request: int) -> list[int]:
    """The branches of a request from its first block on."""
    found, branch = list[int](), tree.of[request]
    while branch >= 0:
        found.insert(0, branch)
        branch = tree.parents[branch]
    return found


def shared_tokens(tree: SharedBlocks, one: int, other: int) -> int:
    """How far the paths of two requests are one."""
    common = [branch for branch, same in zip(path(tree, one), path(tree, other), strict=False) if branch == same]
    return ends_tokens(tree)[common[-1]] if common else 0


def test_chains_by_hand() -> None:
    tree = shared([[1, 2, 3], [1, 2, 4], [1, 9], [7], [1, 2, 3, 5], [8]])
    assert tree == SharedBlocks(block_tokens=512, parents=(-1, 0, 1), blocks=(1, 1, 1), of=(2, 1, 0, -1, 2, -1))
    assert ends_tokens(tree) == [512, 1024, 1536]
    assert known_tokens(tree).tolist() == [0, 1024, 512, 0, 1536, 0]


def test_what_an_endless_cache_finds_of_them() -> None:
    """Of 1,536 tokens in each prompt: the last one is computed anew, and so is what is no whole block of the server's."""
    known = known_tokens(shared([[1, 2, 3], [1, 2, 4], [1, 2, 3]]))
    assert known.tolist() == [0, 1024, 1536]
    assert found_frac(known, [1536] * 3, 16) == pytest.approx((1024 + 1520) / 4608)
    assert found_frac(known, [1536] * 3, 1000) == pytest.approx(2000 / 4608)
    assert found_frac([], [], 16) is None


def test_a_block_that_is_cut_off_is_shared_by_nobody() -> None:
    assert known_tokens(shared([[1, 2], [1, 2]], tokens=[1023, 1023])).tolist() == [0, 512]
    assert known_tokens(shared([[1, 2], [1, 2]], tokens=[511, 511])).tolist() == [0, 0]


def test_a_block_is_the_same_only_behind_the_same() -> None:
    assert shared([[1, 2, 3], [4, 2, 3]]).of == (-1, -1)


def test_a_recording_that_begins_again_shares_nothing_with_its_first_time() -> None:
    chains = [[1, 2], [1, 3], [1, 2], [1, 3]]
    assert known_tokens(shared(chains, laps=[0, 0, 1, 1])).tolist() == [0, 512, 0, 512]
    assert known_tokens(shared(chains, laps=[-1, 0, 0, 0])).tolist() == [0, 0, 512, 1024]


def test_rows_without_ids_and_no_rows_at_all() -> None:
    assert shared([[], [1], [], [1]]).of == (-1, 0, -1, 0)
    assert shared([]).of == ()


@pytest.mark.parametrize("seed", range(20))
def test_any_two_prompts_share_what_their_leading_ids_do(seed: int) -> None:
    rng = random.Random(seed)
    chains = [[rng.randrange(3) for _ in range(rng.randrange(7))] for _ in range(40)]
    tree = shared(chains, block=16)
    for one, other in combinations(range(len(chains)), 2):
        alike = 0
        while alike < min(len(chains[one]), len(chains[other])) and chains[one][alike] == chains[other][alike]:
            alike += 1
        assert shared_tokens(tree, one, other) == 16 * alike
    seen = set[tuple[int, ...]]()
    for chain, known in zip(chains, known_tokens(tree).tolist(), strict=True):
        begun = [tuple(chain[: at + 1]) for at in range(len(chain))]
        assert known == 16 * sum(beginning in seen for beginning in begun)
        seen.update(begun)


def test_an_order_stays_small() -> None:
    """15 blocks for each of 1,000 requests: what takes a number each is the branches, of which there are fewer than requests."""
    rng = random.Random(1)
    chains = [[0]]
    for at in range(999):
        chains.append([*rng.choice(chains[-50:])[:14], *range(100 * at + 1, 100 * at + 9)][:15])
    tree = shared(chains)
    assert len(tree.parents) == len(tree.blocks) < len(chains) == len(tree.of)

"""Who gets a request, by each rule: what runs and waits at the replicas is given, and chance has a seed."""

import random
from collections import Counter

import pytest

from core.replica.routers import (
    MUCH_BUSIER_BY,
    ROUTERS,
    LeastLoad,
    PrefixAware,
    Random,
    RoundRobin,
    Router,
    router_of,
)

IDLE = {1: 0, 2: 0, 3: 0}
PROMPT, OTHER = (11, 12, 13), (21, 22, 23)


def chosen(router: Router, n: int, busy: dict[int, int]) -> list[int]:
    return [router.choose(busy) for _ in range(n)]


def test_round_robin_goes_round_and_leaves_out_who_is_gone() -> None:
    router = RoundRobin()
    assert chosen(router, 4, IDLE) == [1, 2, 3, 1]
    assert chosen(router, 3, {1: 0, 3: 0}) == [3, 1, 3]
    assert chosen(router, 3, IDLE) == [1, 2, 3]


def test_random_is_repeatable_and_even_in_the_long_run() -> None:
    picks = chosen(Random(random.Random(5)), 3000, IDLE)
    assert picks == chosen(Random(random.Random(5)), 3000, IDLE)
    assert picks != chosen(Random(random.Random(6)), 3000, IDLE)
    assert all(count == pytest.approx(1000, abs=4 * 26) for count in Counter(picks).values())  # 26: its standard deviation


def test_the_least_loaded_is_chosen_and_ties_go_round() -> None:
    router = LeastLoad()
    assert router.choose({1: 4, 2: 3, 3: 9}) == 2
    assert chosen(router, 3, {1: 4, 2: 4, 3: 9}) == [1, 2, 1]


def test_a_beginning_goes_where_it_was_sent_before() -> None:
    router = PrefixAware(100)
    first = router.choose(IDLE, PROMPT)
    second = router.choose(IDLE | {first: 1}, OTHER)
    assert first != second
    busy = {number: 5 for number in IDLE} | {first: 9, second: 9}
    assert router.choose(busy, (*PROMPT, 14)) == first
    assert router.choose(busy, (*OTHER, 24)) == second
    assert router.choose(busy, (31, *PROMPT)) not in (first, second), "only what stands at the beginning counts"


def test_the_longest_beginning_counts() -> None:
    router = PrefixAware(100)
    assert router.choose({1: 0, 2: 9, 3: 9}, PROMPT[:1]) == 1
    assert router.choose({1: 99, 2: 0, 3: 9}, PROMPT) == 2
    assert router.choose(IDLE, PROMPT) == 2
    assert router.choose(IDLE, PROMPT[:1]) in (1, 2)


def test_a_holder_that_is_much_busier_is_passed_over_and_the_other_learns_the_prefix() -> None:
    router = PrefixAware(100)
    assert router.choose({1: 0, 2: 1}, PROMPT) == 1
    assert router.choose({1: 10 * MUCH_BUSIER_BY, 2: 9 * MUCH_BUSIER_BY}, PROMPT) == 1, "more, but not by the ratio"
    assert router.choose({1: MUCH_BUSIER_BY, 2: 0}, PROMPT) == 1, "by the ratio, but only so many more"
    assert router.choose({1: MUCH_BUSIER_BY + 1, 2: 0}, PROMPT) == 2
    assert router.choose({1: 2, 2: 1}, PROMPT) == 2, "both hold it now"


def test_its_book_forgets_what_a_cache_has_forgotten_and_a_replica_that_came_back() -> None:
    router = PrefixAware(4)
    assert router.choose({1: 0, 2: 1}, PROMPT) == 1
    assert router.choose({1: 0, 2: 1}, OTHER) == 1
    assert router.choose({1: 1, 2: 0}, PROMPT) == 2, "four blocks: of the first prompt one is left, and that is not its first"
    router.forget(1)
    assert router.choose({1: 1, 2: 0}, OTHER) == 2


def test_cold_prompts_go_to_the_least_loaded() -> None:
    assert PrefixAware(100).choose({1: 3, 2: 2, 3: 4}) == 2


@pytest.mark.parametrize("name", ROUTERS)
def test_every_name_has_a_router_that_chooses_who_is_there(name: str) -> None:
    router = router_of(name, random.Random(1), 100)  # type: ignore[arg-type]
    assert set(chosen(router, 20, {4: 1, 7: 1})) == {4, 7}
    assert router.reads_prompts is (name == "prefix")

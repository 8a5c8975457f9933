"""The worst stretch of a window, on series made by hand."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.judge.breakdown import MOST_BLOCKS, worst_block
from core.results import WorstBlock
from tests.core.judge.play import GOOD, HANGS, SLOW, Play, Request, measured, ramp, step

WINDOW_S = 40.0


def test_the_bad_quarter_of_a_window_is_found() -> None:
    """40 s, requests of 2.5 s: four blocks of 10 s. In the third one half of the requests miss."""
    play = step(*[GOOD] * 20, *[SLOW, GOOD] * 5, *[GOOD] * 10, measure_s=WINDOW_S)
    assert worst_block(play.played(), 2.5) == WorstBlock(from_s=20.0, to_s=30.0, attainment=0.5)


def test_blocks_fill_the_window_and_are_never_shorter_than_four_durations() -> None:
    """Three blocks of 12 s fit into 40 s: then each is 13.3 s long, and the 13 to 14 requests in it are counted."""
    play = step(*[GOOD] * 39, SLOW, measure_s=WINDOW_S)
    worst = worst_block(play.played(), 3.0)
    assert worst is not None
    assert (worst.from_s, worst.to_s) == pytest.approx((80 / 3, 40.0))
    assert worst.attainment == pytest.approx(12 / 13)


def test_what_never_ended_is_a_miss() -> None:
    play = step(*[GOOD] * 10, *[HANGS] * 10, *[GOOD] * 20, measure_s=WINDOW_S)
    assert worst_block(play.played(), 2.5) == WorstBlock(from_s=10.0, to_s=20.0, attainment=0.0)


@pytest.mark.parametrize("e2e", [None, 5.1, 100.0])
def test_a_window_without_two_blocks_has_none(e2e: float | None) -> None:
    play = step(*[GOOD] * 40, measure_s=WINDOW_S)
    assert worst_block(play.played(), e2e) is None
    assert worst_block(play.played(), 5.0) is not None


def test_short_requests_do_not_make_it_a_matter_of_single_ones() -> None:
    worst = worst_block(step(*[GOOD] * 99, SLOW, measure_s=WINDOW_S).played(), 0.01)
    assert worst == WorstBlock(from_s=36.0, to_s=40.0, attainment=0.9)


def test_of_equally_bad_blocks_the_first_and_empty_ones_never() -> None:
    assert worst_block(step(*[GOOD] * 40, measure_s=WINDOW_S).played(), 5.0) == WorstBlock(from_s=0.0, to_s=20.0, attainment=1.0)
    only_late = Play((measured(20.0), measured(20.0)), ((), (GOOD,)))
    assert worst_block(only_late.played(), 2.0) is None, "two rates are no one window"
    assert worst_block(step(GOOD, measure_s=WINDOW_S).played(), 2.5) == WorstBlock(from_s=0.0, to_s=10.0, attainment=1.0)
    assert worst_block(step(measure_s=WINDOW_S).played(), 2.5) is None
    assert worst_block(ramp([GOOD] * 12, [SLOW] * 12).played(), 0.1) is None


@settings(max_examples=80, deadline=None)
@given(st.lists(st.sampled_from([GOOD, SLOW, HANGS]), min_size=1, max_size=60), st.floats(0.05, 12.0))
def test_it_is_the_minimum_over_equal_blocks(requests: list[Request], e2e: float) -> None:
    """Counted again request by request, with edges that requests do not fall on."""
    play = step(*requests, measure_s=WINDOW_S)
    worst = worst_block(play.played(), e2e)
    blocks = min(MOST_BLOCKS, int(WINDOW_S / (4 * e2e)))
    assert (worst is None) == (blocks < 2)
    if worst is None:
        return
    assert worst.to_s - worst.from_s >= 4 * e2e - 1e-6
    shares: dict[int, list[bool]] = {}
    for i, request in enumerate(requests):
        shares.setdefault(i * blocks // len(requests), []).append(request is GOOD)
    assert worst.attainment == pytest.approx(min(sum(block) / len(block) for block in shares.values()))
    assert worst.attainment <= sum(r is GOOD for r in requests) / len(requests) + 1e-9

"""The same requests on two servers: what is paired, and how sure a difference is."""

import math
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from core.compare import Side, compare, interval, side_of
from core.replica.catalog import CATALOG
from tests.core.compare.sides import asked, repeat, requests, side, step
from tests.core.judge.virtual import batching
from tests.core.whatif.runs import run_of


def slower(factor: float) -> Side:
    """A list of rates of the demo, on a server whose steps take so many times as long."""
    demo = CATALOG["demo"]
    engine = demo.engine
    parts = {name: factor * getattr(engine, name) for name in ("step_s", "per_sequence_s", "per_kv_token_s", "per_prefill_token_s")}
    run = run_of("demo") if factor == 1 else run_of("demo", batching(replace(demo, engine=replace(engine, **parts))))
    return side_of(run, Path("run.jsonl"))


def test_an_interval_is_that_of_independent_blocks() -> None:
    """Three blocks of mean 1, 2 and 3: s/sqrt(3) times t = 4.303 at 2 degrees of freedom."""
    found = interval([(10.0, 10), (20.0, 10), (30.0, 10)])
    assert found is not None
    assert (found.mid, found.blocks) == (2.0, 3)
    assert found.high - 2.0 == pytest.approx(4.303 / math.sqrt(3), rel=0.04)
    assert found.high - 2.0 == pytest.approx(2.0 - found.low)
    assert interval([(10.0, 10), (20.0, 10)]) is None, "two blocks say nothing"


def test_an_interval_holds_the_mean_as_often_as_it_says() -> None:
    rng, held = np.random.default_rng(5), 0
    for _ in range(2000):
        found = interval([(float(total), 1) for total in rng.normal(size=6)])
        held += found is not None and not found.beyond_zero
    assert 0.94 <= held / 2000 <= 0.96


def test_blocks_are_ten_mean_durations_long() -> None:
    """120 s of requests of 1 s are 12 blocks, those of 5 s two in each of two repeats."""
    pairs = []
    for e2e_s in (1.0, 5.0):
        repeats = [repeat(requests=requests(121, bad, e2e_s=e2e_s)) for bad in (10, 12)]
        a, b = (side(2.0, 3.0, steps=(step(2.0, "pass", each, each),)) for each in repeats)
        (rate,) = compare([a, b]).against[0].rates
        assert rate.difference is not None
        assert rate.difference.mid > 0, "B misses fewer"
        pairs.append(rate.difference.blocks)
    assert pairs == [24, 4]


def test_the_margin_is_of_the_same_requests() -> None:
    """B's requests use 10 % more of their limits, each of them: the mean is sure whatever they scatter."""
    a, b = (side(2.0, 3.0, steps=(step(2.0, "pass", repeat(requests=requests(121, margin=margin))),)) for margin in (0.5, 0.55))
    (rate,) = compare([a, b]).against[0].rates
    assert rate.margin is not None
    assert math.exp(rate.margin.mid) == pytest.approx(1.1)
    assert rate.margin.low == pytest.approx(rate.margin.high)
    assert (rate.requests, rate.repeats) == (121, 1)


def test_windows_that_begin_apart_have_their_common_requests_paired() -> None:
    """A longer warm-up takes requests from the beginning; with hardly any in common nothing is paired."""
    early, late, other = (repeat(requests=requests(100, first=first)) for first in (0, 10, 90))
    a, b, c = (side(2.0, 3.0, steps=(step(2.0, "pass", each),)) for each in (early, late, other))
    near, far = (told.rates[0] for told in compare([a, b, c]).against)
    assert (near.requests, near.repeats) == (90, 1)
    assert (far.requests, far.difference) == (0, None)


def test_no_miss_is_not_certainty() -> None:
    """Where no request missed on either, one of them still might."""
    a, b = (side(2.0, 3.0, steps=(step(2.0, "pass", repeat(requests=requests(121))),)) for _ in range(2))
    (rate,) = compare([a, b]).against[0].rates
    assert rate.difference is not None
    assert -rate.difference.low == rate.difference.high == pytest.approx(1 / 121)


def test_without_requests_whole_repeats_are_paired() -> None:
    a = side(2.0, 3.0, steps=(step(2.0, "pass", *(repeat(attainment=share) for share in (0.97, 0.98, 0.99))),))
    b = side(2.0, 3.0, steps=(step(2.0, "pass", *(repeat(attainment=share) for share in (0.96, 0.96, 0.98))),))
    (told,) = compare([a, b]).against
    (rate,) = told.rates
    assert rate.difference is not None
    assert rate.difference.mid == pytest.approx(-0.04 / 3)
    assert [note.code for note in told.notes] == ["compare_by_repeats"]
    assert rate.a_floor == (0.97, 0.97)


def test_a_window_that_was_cut_has_no_difference_but_a_floor() -> None:
    a = side(2.0, 3.0, steps=(step(2.0, "pass", *[repeat()] * 3),))
    b = side(1.0, 2.0, steps=(step(2.0, "fail", *[repeat("fail", (0.1, 0.6))] * 3),))
    (rate,) = compare([a, b]).against[0].rates
    assert (rate.difference, rate.b_floor) == (None, (0.1, 0.6))


def test_nothing_is_paired_without_one_draw() -> None:
    listed, searched = (step(2.0, "pass", repeat(), phase=phase) for phase in ("list", "search"))
    void = step(2.0, "void", repeat("void"))
    unlike = step(2.0, "pass", repeat(draw=("search", 7, 0, None)), phase="search")
    a = side(2.0, 3.0, steps=(listed, searched, void))
    others = [
        side(2.0, 3.0, steps=(listed,), asked=asked(arrival_seed=12)),
        side(2.0, 3.0, steps=(unlike, void)),
        side(2.0, 3.0, steps=(step(2.01, "pass", repeat()),)),
    ]
    found = compare([a, *others]).against
    assert [told.rates for told in found] == [(), (), ()]
    notes = [note for told in found for note in told.notes if note.code == "compare_unpaired"]
    assert [note.figures["one_draw"] for note in notes] == [False, True, True]


def test_a_slower_server_shows_in_the_same_requests() -> None:
    """Of one draw, steps of 10 % more take 10 % more of the limits, and a bit more at rates near the knee."""
    (told,) = compare([slower(1.0), slower(1.1)]).against
    low, *_ = told.rates
    assert low.margin is not None
    assert low.requests > 800
    assert 0.09 < math.expm1(low.margin.low) < math.expm1(low.margin.high) < 0.4
    (same,) = compare([slower(1.0), slower(1.0)]).against
    assert all(rate.margin is None or (rate.margin.low, rate.margin.high) == (0, 0) for rate in same.rates)

"""Length classes of a window."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.config import Slo
from core.judge.breakdown import buckets
from tests.core.judge.play import GOOD, HANGS, SLOW, Request, aborted, ramp, step

LIMITS = Slo(ttft_s=0.8, tpot_s=None)


def sized(request: Request, input_tokens: int, output: int) -> Request:
    return replace(request, asked_input=input_tokens, prompt=input_tokens, output=output, asked=output)


def test_fixed_lengths_are_one_class() -> None:
    found = buckets(step(*[GOOD] * 19, SLOW).played(), closed=True)
    assert len(found) == 1
    only = found[0]
    assert (only.input, only.output, only.n, only.decided, only.attainment) == ((512, 512), (21, 21), 20, 20, 0.95)
    assert only.ttft_p95_s == pytest.approx(0.1)
    assert only.tpot_p95_s == pytest.approx(0.045)


def test_two_drawn_lengths_make_sixteen_classes_of_equal_size() -> None:
    requests = [sized(GOOD, 10 * i, 100 * o) for i in range(1, 9) for o in range(1, 9)]
    found = buckets(step(*requests).played(), closed=True)
    assert [(b.input, b.output) for b in found] == [
        (i, o) for i in [(10, 20), (30, 40), (50, 60), (70, 80)] for o in [(100, 200), (300, 400), (500, 600), (700, 800)]
    ]
    assert {b.n for b in found} == {4}


def test_one_drawn_length_makes_four_and_empty_classes_are_left_out() -> None:
    assert [b.output for b in buckets(step(*[sized(GOOD, 512, o) for o in range(1, 9)]).played(), closed=True)] == [
        (1, 2),
        (3, 4),
        (5, 6),
        (7, 8),
    ]
    together = buckets(step(*[sized(GOOD, n, n) for n in range(1, 9)]).played(), closed=True)
    assert [(b.input, b.output) for b in together] == [((n, n + 1), (n, n + 1)) for n in (1, 3, 5, 7)]


def test_long_prompts_that_miss_are_seen_apart() -> None:
    requests = [*[sized(GOOD, 100, 21)] * 30, *[sized(SLOW, 4000, 21)] * 10]
    short, long = buckets(step(*requests).played(), closed=True)
    assert (short.attainment, long.attainment) == (1.0, 0.0)
    assert long.ttft_p95_s == pytest.approx(0.9)


def test_a_class_without_values_has_none() -> None:
    one_token = Request(first=0.3, last=0.3, output=1, asked=1)
    (found,) = buckets(step(*[one_token] * 4).played(), closed=True)
    assert found.ttft_p95_s == pytest.approx(0.3)
    assert found.tpot_p95_s is None
    (nothing,) = buckets(step(*[HANGS] * 4).played(), closed=True)
    assert (nothing.n, nothing.attainment, nothing.ttft_p95_s) == (4, 0.0, None)


def test_of_a_repeat_that_was_cut_short_only_decided_classes_have_an_attainment() -> None:
    requests = [*[sized(GOOD, 100, 21)] * 10, *[sized(GOOD, 200, 21)] * 10]
    first, second = buckets(aborted(step(*requests, measure_s=10.0, warm_s=0.0), at=7.2), closed=False)
    assert (first.n, first.decided, first.attainment) == (10, 10, 1.0)
    assert (second.n, second.attainment) == (10, None)
    assert 0 < second.decided < 10


def test_the_warm_up_is_left_out() -> None:
    warm = step(*[GOOD] * 10, warm=[sized(GOOD, 9000, 9)] * 5)
    assert [b.input for b in buckets(warm.played(), closed=True)] == [(512, 512)]
    assert buckets(step().played(), closed=True) == ()


def test_a_ramp_counts_over_all_its_segments() -> None:
    assert buckets(ramp([GOOD] * 12, [SLOW] * 12).played(), closed=True)[0].n == 24


@settings(max_examples=80, deadline=None)
@given(
    st.lists(
        st.builds(sized, st.sampled_from([GOOD, GOOD, SLOW, HANGS]), st.integers(1, 40), st.integers(2, 40)),
        min_size=1,
        max_size=60,
    )
)
def test_every_request_is_in_exactly_one_class(requests: list[Request]) -> None:
    found = buckets(step(*requests).played(slo=LIMITS), closed=True)
    assert 1 <= len(found) <= 16
    assert sum(b.n for b in found) == sum(b.decided for b in found) == len(requests)
    for bucket in found:
        inside = [
            r
            for r in requests
            if bucket.input[0] <= r.asked_input <= bucket.input[1] and bucket.output[0] <= r.asked <= bucket.output[1]
        ]
        assert len(inside) == bucket.n
        assert bucket.attainment == sum(r.first == GOOD.first for r in inside) / bucket.n
    for side in ("input", "output"):
        spans = sorted({getattr(b, side) for b in found})
        assert len(spans) <= 4
        assert all(low[1] < high[0] for low, high in pairwise(spans)), "classes do not overlap"

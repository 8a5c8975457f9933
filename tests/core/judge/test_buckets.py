"""A window told apart by lengths, and the lengths that fail while the whole passes."""

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.config import Slo, Workload
from core.facts import Fact, fact
from core.judge.buckets import FEWEST, MOST_TOLD, binomial_tail, buckets, buckets_that_fail, pooled, sizes
from core.length_classes import LengthClasses, size_bin
from core.results import Bucket, Knee, RepeatVerdict, StepResult
from core.workloads import parse_mix
from tests import builders
from tests.core.judge.judging import judge
from tests.core.judge.play import GOOD, HANGS, REFUSED, SLOW, Request, aborted, ramp, record, step

LIMITS = Slo(ttft_s=0.8, tpot_s=None)
MIXED = LengthClasses.of(Workload(mix=parse_mix("100:21=3,4000:21=1")))


def sized(request: Request, input_tokens: int, output: int) -> Request:
    return replace(request, asked_input=input_tokens, prompt=input_tokens, output=output, asked=output)


def test_fixed_lengths_are_one_bucket_with_all_figures() -> None:
    found = buckets(step(*[GOOD] * 18, SLOW, REFUSED).played(), None, closed=True)
    assert len(found) == 1
    only = found[0]
    assert (only.input, only.output, only.others) == ((512, 512), (21, 21), False)
    assert (only.n, only.decided, only.good, only.errors, only.attainment) == (20, 20, 18, 1, 0.9)
    assert (only.ttft_p50_s, only.ttft_p95_s) == pytest.approx((0.1, 0.9))
    assert (only.tpot_p50_s, only.tpot_p95_s) == pytest.approx((0.045, 0.045))
    assert only.e2e_p95_s == pytest.approx(1.0)


def test_long_prompts_that_miss_are_seen_apart() -> None:
    requests = [*[sized(GOOD, 100, 21)] * 30, *[sized(SLOW, 4000, 21)] * 10]
    short, long = buckets(step(*requests).played(), MIXED, closed=True)
    assert (short.attainment, long.attainment) == (1.0, 0.0)
    assert long.ttft_p95_s == pytest.approx(0.9)
    result = judge(step(*requests).played())
    assert [(each.input, each.n) for each in result.buckets] == [((100, 100), 30), ((4000, 4000), 10)]


def test_a_bucket_that_the_window_has_no_request_of_is_left_out_and_no_class_is_the_last_one() -> None:
    requests = [*[sized(GOOD, 100, 21)] * 3, sized(GOOD, 7, 900), sized(SLOW, 90, 30)]
    first, others = buckets(step(*requests).played(), MIXED, closed=True)
    assert (first.input, first.n, first.others) == ((100, 100), 3, False)
    assert (others.others, others.input, others.output, others.n) == (True, (7, 90), (30, 900), 2)
    assert others.attainment == 0.5


def test_what_was_never_sent_or_never_ended_is_in_its_bucket() -> None:
    never = Request(late=None, first=None, last=None)
    requests = [*[sized(GOOD, 100, 21)] * 8, sized(HANGS, 100, 21), sized(never, 100, 21)]
    (only,) = buckets(step(*requests).played(), MIXED, closed=True)
    assert (only.n, only.good, only.errors, only.attainment) == (10, 8, 0, 0.8)


def test_a_bucket_without_values_has_none() -> None:
    one_token = Request(first=0.3, last=0.3, output=1, asked=1)
    (found,) = buckets(step(*[one_token] * 4).played(), None, closed=True)
    assert found.ttft_p95_s == pytest.approx(0.3)
    assert found.tpot_p95_s is None
    (nothing,) = buckets(step(*[HANGS] * 4).played(), None, closed=True)
    assert (nothing.n, nothing.attainment, nothing.ttft_p95_s, nothing.e2e_p95_s) == (4, 0.0, None, None)


def test_of_a_repeat_that_was_cut_short_only_decided_buckets_have_an_attainment() -> None:
    requests = [*[sized(GOOD, 100, 21)] * 10, *[sized(GOOD, 4000, 21)] * 10]
    first, second = buckets(aborted(step(*requests, measure_s=10.0, warm_s=0.0), at=7.2), MIXED, closed=False)
    assert (first.n, first.decided, first.attainment) == (10, 10, 1.0)
    assert (second.n, second.attainment) == (10, None)
    assert 0 < second.decided < 10
    assert second.attainment_interval == (second.decided / 10, 1.0), "whoever is open may still be good"


def test_a_request_that_was_cut_off_past_its_limit_has_missed() -> None:
    requests = [*[sized(GOOD, 100, 21)] * 9, sized(HANGS, 100, 21)]
    (late,) = buckets(aborted(step(*requests, measure_s=10.0, warm_s=0.0), at=9.9), MIXED, closed=False)
    (open_,) = buckets(aborted(step(*requests, measure_s=10.0, warm_s=0.0), at=9.7), MIXED, closed=False)
    assert (late.decided, late.attainment) == (10, 0.9)
    assert (open_.decided, open_.attainment) == (9, None), "it is due at 9 s and a sure miss from 9.8 s on"


def test_the_warm_up_is_left_out() -> None:
    warm = step(*[GOOD] * 10, warm=[sized(GOOD, 9000, 9)] * 5)
    assert [b.input for b in buckets(warm.played(), None, closed=True)] == [(512, 512)]
    assert buckets(step().played(), None, closed=True) == ()


def test_a_ramp_counts_over_all_its_segments() -> None:
    assert buckets(ramp([GOOD] * 12, [SLOW] * 12).played(), None, closed=True)[0].n == 24


@settings(max_examples=80, deadline=None)
@given(
    st.lists(
        st.builds(sized, st.sampled_from([GOOD, GOOD, SLOW, HANGS]), st.integers(1, 400), st.integers(2, 400)),
        min_size=1,
        max_size=60,
    )
)
def test_every_request_is_in_exactly_one_bucket(requests: list[Request]) -> None:
    found = buckets(step(*requests).played(slo=LIMITS), None, closed=True)
    assert 1 <= len(found) <= 17
    assert sum(b.n for b in found) == sum(b.decided for b in found) == len(requests)
    named = [b for b in found if not b.others]
    assert [b.others for b in found] == [*[False] * len(named), *[True] * (len(found) - len(named))]
    for bucket in named:
        inside = [
            r
            for r in requests
            if bucket.input[0] <= r.asked_input <= bucket.input[1] and bucket.output[0] <= r.asked <= bucket.output[1]
        ]
        assert len(inside) == bucket.n
        assert bucket.attainment == sum(r.first == GOOD.first for r in inside) / bucket.n


# --- several repeats ----------------------------------------------------------------------------------------------


def bucket(input_tokens: int, n: int, good: int, decided: int | None = None, *, others: bool = False) -> Bucket:
    decided = n if decided is None else decided
    return Bucket(
        input=(input_tokens, input_tokens),
        output=(64, 64),
        others=others,
        n=n,
        decided=decided,
        good=good,
        errors=0,
        attainment=good / n if decided == n else None,
        ttft_p95_s=0.1 * n,
        tpot_p95_s=None,
    )


def holding(*repeats: tuple[Bucket, ...], verdict: RepeatVerdict = "pass", rate_rps: float = 8.0) -> StepResult:
    made = [builders.repeat(verdict, index=index, buckets=each) for index, each in enumerate(repeats)]
    return builders.step(rate_rps, "pass" if verdict == "pass" else "fail", *made)


def test_repeats_are_added_up_bucket_by_bucket() -> None:
    first, second, third = pooled(
        holding(
            (bucket(100, 10, 10), bucket(4000, 5, 4)),
            (bucket(100, 20, 15, 18), bucket(7, 3, 1, others=True)),
            (bucket(4000, 5, 5), bucket(900, 1, 1, others=True)),
        ).repeats
    )
    assert (first.input, first.n, first.good, first.decided, first.attainment) == ((100, 100), 30, 25, 28, None)
    assert first.attainment_interval == pytest.approx((25 / 30, 27 / 30))
    assert first.ttft_p95_s == pytest.approx(2.0), "the highest of the repeats"
    assert (second.input, second.n, second.attainment) == ((4000, 4000), 10, 0.9)
    assert (third.others, third.input, third.n, third.good) == (True, (7, 900), 4, 2)


def test_classes_of_older_files_are_not_added_up() -> None:
    old = msgspec.structs.replace(bucket(100, 10, 10), good=None, errors=None)
    assert pooled(holding((old, old)).repeats) == ()
    read = msgspec.convert(
        {"input": [1, 2], "output": [3, 4], "n": 5, "attainment": 0.9, "ttft_p95_s": 1, "tpot_p95_s": None}, Bucket
    )
    assert (read.good, read.errors, read.e2e_p95_s, read.others) == (None, None, None, False)
    assert read.attainment_interval == (0.9, 0.9)


# --- lengths that fail while the whole passes ---------------------------------------------------------------------


def failing(*steps: StepResult, pass_rps: float | None = 8.0) -> tuple[Fact, ...]:
    return buckets_that_fail(Knee(pass_rps=pass_rps), steps, 0.95)


def test_lengths_that_fail_at_the_rate_that_holds_are_told() -> None:
    told = failing(holding((bucket(100, 900, 890), bucket(4000, 20, 12)), (bucket(100, 900, 890), bucket(4000, 20, 14))))
    assert told == (
        fact(
            "bucket_fails",
            rate_rps=8.0,
            input_tokens=[4000.0, 4000.0],
            output_tokens=[64.0, 64.0],
            others=False,
            attained_frac=0.65,
            at_most=False,
            target=0.95,
            n=40,
        ),
    )


def test_of_requests_that_were_cut_off_undecided_it_is_the_best_case() -> None:
    (told,) = failing(holding((bucket(100, 900, 890), bucket(4000, 100, 60, 80))))
    assert (told.figures["attained_frac"], told.figures["at_most"]) == (0.8, True)
    assert failing(holding((bucket(100, 900, 890), bucket(4000, 100, 10, 14)))) == (), "four have missed for sure"


@pytest.mark.parametrize(
    ("n", "good"),
    [
        (FEWEST - 1, 0),  # too few to say
        (FEWEST, 17),  # three misses of twenty come by chance
        (1000, 950),  # at the target
        (1000, 940),  # below it, but not by more than chance
    ],
)
def test_chance_and_small_numbers_tell_nothing(n: int, good: int) -> None:
    assert failing(holding((bucket(100, 900, 900), bucket(4000, n, good)))) == ()


def test_with_more_buckets_each_needs_better_evidence() -> None:
    """12 misses of 100 where 5 are allowed come by chance in one window of 230; so they tell something of two buckets alone."""
    assert binomial_tail(12, 100, 0.05) == pytest.approx(0.00427, abs=1e-5)
    suspect = bucket(4000, 100, 88)
    assert len(failing(holding((bucket(100, 900, 900), suspect)))) == 1
    assert failing(holding((*(bucket(at, 100, 100) for at in (1, 2, 3)), suspect))) == ()


def test_at_most_three_are_told_the_worst_first() -> None:
    told = failing(holding(tuple(bucket(at, 100, 50 + at) for at in (30, 10, 20, 0, 49))))
    assert len(told) == MOST_TOLD
    assert [each.figures["attained_frac"] for each in told] == [0.5, 0.6, 0.7]


def test_only_windows_at_the_rate_that_holds_count() -> None:
    bad = (bucket(100, 900, 890), bucket(4000, 100, 10))
    assert failing(holding(bad), pass_rps=None) == ()
    assert failing(holding(bad, rate_rps=9.0)) == ()
    assert failing(holding(bad, verdict="void")) == ()
    assert failing(msgspec.structs.replace(holding(bad), phase="ramp")) == ()
    assert failing(msgspec.structs.replace(holding(bad), set_aside=True)) == ()
    assert failing(holding((bucket(4000, 100, 10),))) == (), "one bucket is the whole"


def test_the_chance_of_so_many_misses() -> None:
    assert binomial_tail(0, 10, 0.05) == 1.0
    assert binomial_tail(2, 3, 0.5) == pytest.approx(0.5)
    assert binomial_tail(1, 10, 0.0) == 0.0
    assert binomial_tail(10, 10, 0.1) == pytest.approx(1e-10)


# --- lengths that came --------------------------------------------------------------------------------------------


def test_lengths_that_came_are_counted_as_the_server_has_them() -> None:
    told = [
        record(replace(GOOD, prompt=None, asked_input=100, output=10)),
        record(replace(GOOD, prompt=500, asked_input=100, output=10)),
        record(replace(GOOD, prompt=500, asked_input=100, output=10)),
    ]
    assert sizes(told) == ((size_bin(100), size_bin(10), 1), (size_bin(500), size_bin(10), 2))
    result = judge(step(*[GOOD] * 19, SLOW, HANGS).played())
    assert result.sizes == ((size_bin(512), size_bin(21), 20),)

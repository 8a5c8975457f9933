"""The classes of lengths that a run's requests are told by."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.config import Lengths, Workload
from core.length_classes import MOST_CLASSES, LengthClasses, size_bin, size_span
from core.records import RepeatOrder, Segment
from core.schedule import draw
from core.workloads import MixPart, parse_mix


def mixed(text: str) -> LengthClasses:
    return LengthClasses.of(Workload(mix=parse_mix(text)))


def which(classes: LengthClasses, *pairs: tuple[int, int]) -> list[int]:
    inputs, outputs = zip(*pairs, strict=True)
    found: list[int] = classes.which(np.array(inputs), np.array(outputs)).tolist()
    return found


def test_few_pairs_are_a_class_each_whatever_limits_they_have() -> None:
    classes = mixed("4096:64=1@ttft=2s,1024:128=3,1024:16=2@ttft=1s")
    assert classes.spans == (((1024, 1024), (16, 16)), ((1024, 1024), (128, 128)), ((4096, 4096), (64, 64)))
    assert which(classes, (1024, 128), (4096, 64), (1024, 64), (1024, 16)) == [1, 2, 3, 0]


def test_fixed_lengths_are_one_class() -> None:
    assert LengthClasses.of(Workload()).spans == (((512, 512), (128, 128)),)


def test_more_pairs_are_told_within_a_factor_of_two_as_far_as_they_can_be_asked_for() -> None:
    classes = mixed(",".join(f"{tokens}:100" for tokens in (600, 700, 1023, 1024, 1500, 2047, 2048, 2500, 3000)))
    assert classes.spans == (((600, 1023), (100, 100)), ((1024, 2047), (100, 100)), ((2048, 3000), (100, 100)))
    assert len(mixed(",".join(f"{tokens}:100" for tokens in range(600, 608))).spans) == 8


def test_of_drawn_lengths_the_classes_are_known_before_any_is_drawn() -> None:
    work = Workload(output_tokens=Lengths(median=100, sigma=0.5, maximum=300, minimum=20))
    assert LengthClasses.of(work).spans == tuple(
        ((512, 512), outputs) for outputs in ((20, 31), (32, 63), (64, 127), (128, 255), (256, 300))
    )
    assert LengthClasses.of(Workload(output_tokens=Lengths(median=2, sigma=1.0, maximum=3))).spans == tuple(
        ((512, 512), (tokens, tokens)) for tokens in (1, 2, 3)
    )


def test_the_most_frequent_classes_have_a_name_and_the_others_none() -> None:
    work = Workload(
        input_tokens=Lengths(median=500, sigma=1.0, maximum=8000), output_tokens=Lengths(median=100, sigma=0.8, maximum=2000)
    )
    classes = LengthClasses.of(work)
    assert len(classes.spans) == MOST_CLASSES
    order = RepeatOrder(
        order=1,
        phase="search",
        step=1,
        repeat=0,
        seed=3,
        segments=(Segment(rate_rps=1000.0, duration_s=20.0, role="measured"),),
        start_at=0.0,
    )
    plan = draw(order, work)
    found = np.bincount(classes.which(plan.input_tokens, plan.output_tokens), minlength=MOST_CLASSES + 1)
    octaves = np.log2(plan.input_tokens).astype(int) * 100 + np.log2(plan.output_tokens).astype(int)
    counts = np.sort(np.unique(octaves, return_counts=True)[1])[::-1]
    assert found[:-1].sum() == pytest.approx(counts[:MOST_CLASSES].sum(), rel=0.02), "no other classes hold more requests"
    assert found[-1] > 0


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 5000), st.integers(1, 5000), st.integers(1, 9)), min_size=1, max_size=40))
def test_every_request_is_in_one_class_or_in_none_where_there_are_too_many(asked: list[tuple[int, int, int]]) -> None:
    parts = tuple(MixPart(input_tokens=i, output_tokens=o, weight=float(w)) for i, o, w in asked)
    classes = LengthClasses.of(Workload(mix=parts))
    assert 1 <= len(classes.spans) <= MOST_CLASSES
    inside = [
        [at for at, (ins, outs) in enumerate(classes.spans) if ins[0] <= i <= ins[1] and outs[0] <= o <= outs[1]]
        for i, o, _ in asked
    ]
    assert all(len(found) <= 1 for found in inside)
    assert which(classes, *((i, o) for i, o, _ in asked)) == [found[0] if found else len(classes.spans) for found in inside]
    if len(classes.spans) < MOST_CLASSES:
        assert all(inside)


def test_bins_of_lengths_begin_where_their_span_says() -> None:
    for tokens in (1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 511, 512, 1023, 1024, 10_000_000):
        low, high = size_span(size_bin(tokens), size_bin(tokens))
        assert low <= tokens <= high
        assert (size_bin(low), size_bin(high), size_bin(high + 1)) == (*[size_bin(tokens)] * 2, size_bin(high + 1))
        assert size_bin(high + 1) > size_bin(tokens)
    assert size_bin(0) == size_bin(1) == 0
    assert size_span(size_bin(512), size_bin(1023)) == (512, 1023)

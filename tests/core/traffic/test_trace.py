"""What is taken from a trace: windows, rows that fit, stamps spread within their tick."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import PCG64, Generator, SeedSequence

from core.errors import UserError
from core.facts import fact
from core.traffic import BadRows, Trace, fitting, read_trace, spread, usable, window
from core.traffic.ticks import tick
from core.workloads import TraceWindow
from tests.core.traffic.files import DATA, SEED, jsonl, written


def trace_of(*times_s: float, **changed: object) -> Trace:
    """Requests at these times; the n-th has n tokens in and n out."""
    n = len(times_s)
    lengths = np.arange(1, n + 1, dtype=np.int32)
    trace = Trace(
        file="t",
        format="plain",
        unit="s",
        clock_s=100.0,
        span_s=times_s[-1],
        time_s=np.array(times_s),
        input_tokens=lengths,
        output_tokens=lengths,
    )
    return replace(trace, **changed)  # type: ignore[arg-type]


def ids(trace: Trace) -> list[int]:
    return trace.input_tokens.tolist()  # type: ignore[no-any-return]


def test_a_window_has_its_own_clock() -> None:
    part = window(trace_of(0, 1, 2.5, 3, 9), TraceWindow(duration_s=2.0, at_s=1.0))
    assert (part.time_s.tolist(), ids(part), part.span_s, part.clock_s) == ([0.0, 1.5], [2, 3], 2.0, 101.0)
    assert part.found[-1] == fact(
        "trace_window", from_s=1.0, duration_s=2.0, busiest=False, rows=2, rate_rps=1.0, whole_rate_rps=5 / 9
    )


def test_the_busiest_window_holds_most_requests() -> None:
    part = window(trace_of(0, 3, 4, 4.5, 5, 9), TraceWindow(duration_s=2.0))
    assert (ids(part), part.clock_s) == ([2, 3, 4], 103.0)


@given(st.lists(st.integers(0, 60), min_size=2, max_size=20).filter(lambda times: max(times) > min(times)), st.integers(1, 10))
def test_no_window_is_busier_than_the_busiest(times: list[int], duration: int) -> None:
    zero = min(times)
    trace = trace_of(*sorted(t - zero for t in times))
    if duration > trace.span_s:
        return
    part = window(trace, TraceWindow(duration_s=float(duration)))
    inside = [t for t in trace.time_s.tolist()]
    most = max(sum(b <= t < b + duration for t in inside) for b in inside if b + duration <= trace.span_s or b == 0)
    assert len(part) >= most
    assert (part.time_s >= 0).all()
    assert (part.time_s <= duration).all()


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (TraceWindow(duration_s=10.0, at_s=0.0), "10 s is longer than the trace, which lasts 9 s"),
        (TraceWindow(duration_s=10.0), "longer than the trace"),
        (TraceWindow(duration_s=3.0, at_s=7.0), "let it begin at 6 s or before"),
        (TraceWindow(duration_s=2.0, at_s=5.0), "no request is recorded"),
    ],
)
def test_a_window_that_is_not_there_is_refused(asked: TraceWindow, said: str) -> None:
    with pytest.raises(UserError, match=said) as refused:
        window(trace_of(0, 1, 2.5, 3, 9), asked)
    assert str(refused.value).startswith("--trace-window: ")


def test_rows_that_do_not_fit_are_dropped_with_their_share() -> None:
    trace = read_trace(DATA / "mooncake-conversation.jsonl")
    kept = fitting(trace, 10_000)
    tokens = trace.input_tokens + trace.output_tokens
    fits = tokens <= 10_000
    said = kept.found[-1]
    assert (said.code, said.figures["rows"], said.figures["context_tokens"]) == ("trace_unfit", int((~fits).sum()), 10_000)
    assert said.figures["rows_frac"] == pytest.approx((~fits).mean())
    assert said.figures["tokens_frac"] == pytest.approx(tokens[~fits].sum() / tokens.sum())
    assert [row for row in kept.rows()] == [row for row, fit in zip(trace.rows(), fits, strict=True) if fit]
    assert fitting(trace, 10**6) is trace
    with pytest.raises(UserError, match="the shortest has"):
        fitting(trace, 10)


def test_bad_and_failed_rows_go_with_their_window(tmp_path: Path) -> None:
    rows = [{"timestamp": 1000 * n, "input_length": 0 if n == 15 else 5, "output_length": 5, "hash_ids": [n]} for n in range(20)]
    text = jsonl(*rows[:5]) + "{\n" + jsonl(*rows[5:])
    trace = read_trace(written(tmp_path, text))
    assert (len(trace.bad), len(trace.failed), len(trace)) == (1, 1, 19)
    early, late = (window(trace, TraceWindow(duration_s=8.0, at_s=at)) for at in (0.0, 10.0))
    assert (len(early.bad), len(early.failed)) == (1, 0)
    assert (len(late.bad), len(late.failed)) == (0, 1)
    assert usable(late) is late
    with pytest.raises(BadRows, match=r"1 of the 9 rows drawn .*\(line 6\)"):
        usable(early)
    with pytest.raises(BadRows):
        usable(fitting(trace, 10))


def test_a_part_keeps_its_chains() -> None:
    trace = read_trace(DATA / "mooncake-conversation.jsonl")
    part = window(trace, TraceWindow(duration_s=6.0, at_s=6.0))
    whole = [row for row in trace.rows() if 6 <= row.time_s < 12]
    assert [row.hash_ids for row in part.rows()] == [row.hash_ids for row in whole]


@pytest.mark.parametrize(
    ("times_s", "tick_s"),
    [
        ([0, 3, 5.999, 6, 9, 11.999, 15, 18], 3.0),
        ([0, 0, 1, 1, 5, 7, 8, 8], 1.0),
        (list(range(0, 720, 60)), 60.0),
        ([0, 0.1, 0.3, 0.7, 1.1], 0.1),
        ([0, 0, 0, 0], None),
        ([0, 1.5], None),
        ([0, 0.04, 0.277, 1.2, 3.1], None),
        ([0.5, 3.5, 6.5, 9.5, 12.5], 0.1),
    ],
)
def test_a_tick_is_the_longest_step_that_is_no_chance(times_s: list[float], tick_s: float | None) -> None:
    assert tick(0.0, np.array(times_s)) == tick_s
    assert tick(1_700_000_040.0, np.array(times_s)) == tick_s


@given(st.integers(0, 2**32))
def test_stamps_of_a_millisecond_have_no_tick(seed: int) -> None:
    times = np.sort(Generator(PCG64(seed)).integers(0, 3_600_000, 40) / 1000)
    assert tick(0.0, times) is None


def test_stamps_are_spread_within_their_tick_and_bursts_are_gone() -> None:
    rng = Generator(PCG64(5))
    exact = np.sort(rng.random(12_000) * 3600)
    cut = np.floor(exact / 3) * 3
    cut[::7] = np.maximum(cut[::7] - 0.001, 0.0)  # some stand 1 ms below
    trace = trace_of(*np.sort(cut), clock_s=0.0, tick_s=3.0)
    even = spread(trace, SEED)
    steps = np.floor((trace.time_s + 0.0015) / 3)
    assert (np.floor(even.time_s / 3) == steps).all()
    assert (np.diff(even.time_s) >= 0).all()
    assert (even.tick_s, even.found[-1]) == (None, fact("trace_spread", tick_s=3.0))

    def dispersion(times: np.ndarray) -> float:
        counts = np.bincount(times.astype(np.int64), minlength=3600)
        return float(counts.var() / counts.mean())

    assert dispersion(trace.time_s) > 5
    assert dispersion(even.time_s) == pytest.approx(dispersion(exact), rel=0.15)


def test_spreading_is_seeded_and_does_nothing_without_a_tick() -> None:
    trace = read_trace(DATA / "mooncake-conversation.jsonl")
    assert (spread(trace, SeedSequence(1)).time_s == spread(trace, SeedSequence(1)).time_s).all()
    assert (spread(trace, SeedSequence(1)).time_s != spread(trace, SeedSequence(2)).time_s).any()
    exact = read_trace(DATA / "azure-2023-conv.csv")
    assert spread(exact, SEED) is exact


def test_bursts_of_the_recording_are_said() -> None:
    assert (
        fact("trace_tick", tick_s=3.0, most_at_once=16, shared_frac=1.0) in read_trace(DATA / "mooncake-conversation.jsonl").found
    )


def test_columns_cannot_be_changed() -> None:
    trace = read_trace(DATA / "azure-2023-conv.csv")
    for column in (trace.time_s, trace.input_tokens, trace.output_tokens):
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 1

"""What a run plays of a trace: lengths in pairs, and a stretch for each repeat that is nobody else's."""

from itertools import accumulate
from pathlib import Path

import msgspec
import numpy as np
import pytest

from core.config import Method, ProbeConfig, Target
from core.errors import UserError
from core.facts import fact, says
from core.modes import recorded_s
from core.records import RepeatOrder, Segment
from core.schedule import draw
from core.shared_blocks import known_tokens
from core.traffic import Asked, TraceArrivals, load_arrivals
from core.workloads import TraceWindow, parse_window
from tests.core.traffic.files import DATA, jsonl, written
from tests.core.traffic.traces import arrivals, blocks_file, even, poisson, trace_file

CONFIG = ProbeConfig(target=Target(url="http://127.0.0.1:8000"))


def step(rate_rps: float, measure_s: float = 20.0, warmup_s: float = 4.0, tail_s: float = 30.0) -> tuple[Segment, ...]:
    """A step as the search plans one: the first half of its warm-up at half as much again."""
    return (
        Segment(rate_rps=1.5 * rate_rps, duration_s=warmup_s / 2, role="warmup"),
        Segment(rate_rps=rate_rps, duration_s=warmup_s / 2, role="warmup"),
        Segment(rate_rps=rate_rps, duration_s=measure_s, role="measured"),
        Segment(rate_rps=rate_rps, duration_s=tail_s, role="tail"),
    )


def by_segment(offsets_s: tuple[float, ...], segments: tuple[Segment, ...]) -> list[int]:
    """How many arrivals each segment has."""
    ends = list(accumulate(segment.duration_s for segment in segments))
    counts: list[int] = np.histogram(offsets_s, bins=[0.0, *ends])[0].tolist()
    return counts


def rows_of(found: TraceArrivals, segments: tuple[Segment, ...], k: int, planned: tuple[Segment, ...]) -> list[int]:
    """Which rows of a trace whose lengths all differ are in the measured window of a repeat."""
    offsets_s, parts, _ = found.stretch(segments, k, planned)
    begin = sum(each.duration_s for each in segments if each.role == "warmup")
    end = begin + sum(each.duration_s for each in segments if each.role == "measured")
    return [part for at, part in zip(offsets_s, parts, strict=True) if begin <= at < end]


def unlike(n: int) -> list[tuple[int, int]]:
    """Lengths that tell the rows apart, in their order."""
    return [(100 + i, 10) for i in range(n)]


def test_pairs_of_lengths_stay_together_and_are_weighed(tmp_path: Path) -> None:
    found = arrivals(tmp_path, even(9), [(300, 7), (20, 500), (300, 9)])

    assert [(part.input_tokens, part.output_tokens, part.weight) for part in found.mix] == [(20, 500, 3), (300, 7, 3), (300, 9, 3)]
    assert found.parts.tolist() == [1, 0, 2] * 3
    config = found.settled(CONFIG)
    assert (config.workload.mix, config.workload.trace) == (found.mix, found.use)
    assert config.workload.source is not None
    assert (config.workload.source.kind, config.workload.source.rows) == ("trace", 9)
    assert not config.workload.poisson


def test_a_stretch_runs_at_each_segments_rate(tmp_path: Path) -> None:
    """Even gaps of 1 s at 4 requests/s: six in each second of the first half of the warm-up, four after that."""
    found, segments = arrivals(tmp_path, even(401)), step(4.0)
    offsets_s, parts, _ = found.stretch(segments, 0, segments)

    assert found.use.scale(4.0) == pytest.approx(4.0, rel=0.01)
    counts = by_segment(offsets_s, segments)
    assert counts == [pytest.approx(n, abs=2) for n in (12, 8, 80, 120)]
    assert len(parts) == len(offsets_s)
    assert offsets_s == tuple(sorted(offsets_s))
    assert all(round(at, 6) == at for at in offsets_s)


def test_recorded_gaps_are_kept(tmp_path: Path) -> None:
    """A burst stays one: at twice the mean rate all its gaps are half as long."""
    times = [0.0, 0.1, 0.2, 10.0, 10.1, 10.2, 20.0, 29.9, 30.0]
    found = arrivals(tmp_path, times)
    measured = (Segment(rate_rps=2 * found.use.mean_rps, duration_s=15.0, role="measured"),)

    offsets_s, *_ = found.stretch(measured, 0, measured)

    assert offsets_s == pytest.approx([at / 2 for at in times[:-1]], abs=2e-6)


def test_repeats_have_stretches_of_their_own_in_the_order_of_the_recording(tmp_path: Path) -> None:
    found, segments = arrivals(tmp_path, poisson(500, 2.0), unlike(500)), step(3.0)
    windows = [rows_of(found, segments, k, segments) for k in range(3)]

    assert all(windows)
    assert windows[0][-1] < windows[1][0] < windows[1][-1] < windows[2][0]
    taken_s = recorded_s(segments, found.use.mean_rps, "warmup", "measured")
    first = found.trace.time_s[windows[1][0]]
    assert taken_s <= first < 2 * taken_s


def test_a_longer_warm_up_takes_what_was_recorded_before(tmp_path: Path) -> None:
    """The measured requests stay the same; what comes before them wraps at the beginning of the recording."""
    found, planned, longer = arrivals(tmp_path, poisson(500, 2.0), unlike(500)), step(3.0), step(3.0, warmup_s=12.0)

    for k in (0, 1, 2):
        assert rows_of(found, longer, k, planned) == rows_of(found, planned, k, planned)
    _, parts, _ = found.stretch(longer, 0, planned)
    assert parts[0] > 400


def test_the_tail_goes_on_with_what_follows_and_then_from_the_beginning(tmp_path: Path) -> None:
    found, segments = arrivals(tmp_path, even(101), unlike(101)), step(4.0, measure_s=20.0, tail_s=60.0)
    offsets_s, parts, _ = found.stretch(segments, 0, segments)

    assert list(parts[:101]) == list(range(101))
    assert parts[101] == 0
    assert by_segment(offsets_s, segments)[3] == pytest.approx(240, abs=4)
    assert len(set(np.round(np.diff(offsets_s[40:90]), 3))) <= 2


def test_a_plan_is_drawn_from_what_an_order_holds(tmp_path: Path) -> None:
    found, segments = arrivals(tmp_path, even(401), [(300, 7), (20, 500)]), step(4.0)
    offsets_s, parts, _ = found.stretch(segments, 0, segments)
    order = RepeatOrder(
        order=1, phase="search", step=1, repeat=0, seed=1, segments=segments, offsets_s=offsets_s, parts=parts, start_at=0.0
    )

    plan = draw(order, found.settled(CONFIG).workload)

    assert plan.offsets_s.tolist() == list(offsets_s)
    assert plan.input_tokens.tolist()[:2] == [300, 20]
    assert np.bincount(plan.segment).tolist() == by_segment(offsets_s, segments)


def test_a_held_rate_goes_on_from_any_moment(tmp_path: Path) -> None:
    found = arrivals(tmp_path, even(101), unlike(101))
    block = (Segment(rate_rps=found.use.mean_rps, duration_s=10.0, role="measured"),)

    assert found.played(block, 30.5)[1][0] == 31
    assert found.played(block, 230.5)[1][0] == 31


def test_a_window_counts_its_own_requests(tmp_path: Path) -> None:
    times = [*even(10, 10.0), *(100 + i for i in range(50)), *(200 + 10 * i for i in range(10))]
    found = arrivals(tmp_path, times, window=parse_window("50s@busiest"))

    assert found.use.rows >= 50
    assert found.use.from_s == pytest.approx(100.0, abs=1.5)
    assert (found.use.window_s, found.use.span_s) == (50.0, 290.0)
    assert found.use.mean_rps == pytest.approx(found.use.rows / 50)
    assert any(says(each, "trace_window") for each in found.found)


def test_what_does_not_fit_the_context_is_left_out_of_rows_lengths_and_rate(tmp_path: Path) -> None:
    found = arrivals(tmp_path, even(100), [(300, 7), (9000, 500)])
    fitted, config = found.fitted(found.settled(CONFIG), 8192)

    assert [part.input_tokens for part in config.workload.mix] == [300]
    assert (fitted.use.rows, config.workload.trace) == (50, fitted.use)
    assert fitted.use.mean_rps == pytest.approx(found.use.mean_rps / 2)
    assert fitted.use.window_s == found.use.window_s
    assert any(says(each, "trace_unfit") for each in fitted.found)
    again, same = found.fitted(config, 100_000)
    assert (again, same) == (found, config)
    with pytest.raises(UserError, match="no request of"):
        found.fitted(config, 100)


def test_a_scale_alone_is_a_rate_also_once_some_rows_are_left_out(tmp_path: Path) -> None:
    path = trace_file(tmp_path, even(101, 0.5), [(300, 7), (9000, 500)])
    found = load_arrivals(Asked(path=path, scale=2.5))
    config = found.settled(CONFIG)

    assert config.method.rates_rps == (2.5 * found.use.mean_rps,)
    fitted, less = found.fitted(config, 8192)
    assert less.method.rates_rps == (2.5 * fitted.use.mean_rps,)
    other = msgspec.structs.replace(config, method=Method(rates_rps=(3.0, 4.0)))
    assert found.fitted(other, 8192)[1].method.rates_rps == (3.0, 4.0)


def test_ticks_are_bursts_unless_they_are_spread_by_the_seed() -> None:
    path = DATA / "mooncake-conversation.jsonl"
    bursts = load_arrivals(Asked(path=path))
    spread, other = (load_arrivals(Asked(path=path, spread=True, seed=seed)) for seed in (11, 12))

    assert (bursts.use.tick_s, bursts.use.spread) == (3.0, False)
    assert any(says(each, "trace_tick") for each in bursts.found)
    assert any(says(each, "trace_cold") for each in bursts.found)
    assert not any(says(each, "trace_blocks") for each in bursts.found)
    assert (spread.use.tick_s, spread.use.spread) == (3.0, True)
    assert any(says(each, "trace_spread") for each in spread.found)
    assert np.diff(spread.trace.time_s).min() > 0
    assert spread.trace.time_s.tolist() == load_arrivals(Asked(path=path, spread=True, seed=11)).trace.time_s.tolist()
    assert spread.trace.time_s.tolist() != other.trace.time_s.tolist()


@pytest.mark.parametrize(("unit", "per_s"), [("s", 1), ("ms", 1e3), ("us", 1e6), ("ns", 1e9)])
def test_the_unit_can_be_said(tmp_path: Path, unit: str, per_s: float) -> None:
    rows = [{"timestamp": 1.5 * i * per_s, "input_length": 10, "output_length": 5} for i in range(11)]
    path = written(tmp_path, jsonl(*rows), "own.jsonl")

    with pytest.raises(UserError, match="--trace-unit"):
        load_arrivals(Asked(path=path))
    found = load_arrivals(Asked(path=path, unit=unit))  # type: ignore[arg-type]
    assert found.use.window_s == pytest.approx(15.0)


@pytest.mark.parametrize("times", [[5.0], [5.0, 5.0, 5.0]])
def test_requests_at_one_moment_are_no_traffic(tmp_path: Path, times: list[float]) -> None:
    with pytest.raises(UserError, match="at one time"):
        arrivals(tmp_path, times)


def test_a_window_without_requests_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no request is recorded"):
        arrivals(tmp_path, [0.0, 1.0, 100.0], window=TraceWindow(duration_s=10.0, at_s=50.0))


IDS = [[1, 2], [1, 3], [4], [1, 2, 5]]


def test_prompts_share_what_the_rows_of_their_order_name(tmp_path: Path) -> None:
    found = load_arrivals(Asked(path=blocks_file(tmp_path, even(100), IDS), shares=True))
    order = found.played((Segment(rate_rps=found.use.mean_rps, duration_s=4.5, role="measured"),), 0.0)

    assert [found.mix[part].input_tokens for part in order.parts] == [1024, 1024, 512, 1536, 1024]
    assert order.shared is not None
    assert known_tokens(order.shared).tolist() == [0, 512, 0, 1024, 1024]


def test_a_recording_that_begins_again_is_new(tmp_path: Path) -> None:
    found = load_arrivals(Asked(path=blocks_file(tmp_path, even(101), IDS), shares=True))
    order = found.played((Segment(rate_rps=found.use.mean_rps, duration_s=7.0, role="tail"),), 96.5)

    assert order.shared is not None
    assert known_tokens(order.shared).tolist() == [0, 0, 512, 1024, 0, 512, 0, 1024]


def test_what_is_shared_is_said_before_the_load(tmp_path: Path) -> None:
    path = blocks_file(tmp_path, even(4), IDS)
    found = load_arrivals(Asked(path=path, shares=True)).found
    assert fact("trace_shared", block_tokens=512, whole_frac=(512 + 1024) / (1024 + 1024 + 512 + 1536)) in found
    assert not any(says(each, "trace_cold") for each in found)


def test_without_being_asked_for_nothing_is_shared(tmp_path: Path) -> None:
    found = load_arrivals(Asked(path=blocks_file(tmp_path, even(100), IDS)))
    assert found.played((Segment(rate_rps=1.0, duration_s=9.0, role="measured"),), 0.0).shared is None
    assert fact("trace_cold") in found.found


def test_what_does_not_fit_the_context_is_no_part_of_what_is_shared(tmp_path: Path) -> None:
    whole = load_arrivals(Asked(path=blocks_file(tmp_path, even(8), IDS), shares=True))
    fitted, _ = whole.fitted(whole.settled(CONFIG), 1100)
    order = fitted.played((Segment(rate_rps=fitted.use.mean_rps, duration_s=6.5, role="measured"),), 0.0)
    assert order.shared is not None
    assert known_tokens(order.shared).tolist()[:3] == [0, 512, 0]


def test_a_trace_without_ids_has_nothing_to_share(tmp_path: Path) -> None:
    path = trace_file(tmp_path, even(100))
    with pytest.raises(UserError, match=r"--prefix trace: the rows of t\.csv do not name the blocks"):
        load_arrivals(Asked(path=path, shares=True))

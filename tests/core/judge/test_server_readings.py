import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.judge.server_readings import Readings
from core.records import EngineSample, ServerSample

START = 1000.0


def sample(
    t: float,
    *,
    success: float | None = None,
    running: float | None = None,
    waiting: float | None = None,
    hits: float | None = None,
    queries: float | None = None,
    preemptions: float | None = None,
    decode: tuple[float, float] | None = None,
    kv: float | None = None,
    kv_max: float | None = None,
    epoch: float | None = None,
    took: float = 0.0,
) -> ServerSample:
    return ServerSample(
        t=START + t,
        took_s=took,
        running=running,
        waiting=waiting,
        kv_usage_frac=kv,
        kv_usage_max_frac=kv_max,
        preemptions_total=preemptions,
        requests_success_total=success,
        prefix_queries_total=queries,
        prefix_hits_total=hits,
        decode_time_s=decode,
        epoch=epoch,
    )


def test_a_process_that_began_before_the_one_it_follows_is_no_restart() -> None:
    """What a gateway shows after its connection was closed once may be an older replica's page."""
    assert Readings([sample(0, epoch=5.0), sample(1, epoch=3.0)]).breaks == 2
    assert Readings([sample(0, epoch=3.0), sample(1, epoch=5.0)]).breaks == 1


def test_no_reading_knows_nothing() -> None:
    none = Readings([])
    assert none.breaks == 0
    assert none.delta("preemptions_total") is None
    assert none.mean("decode_time_s") is None
    assert none.highest("running", since=0) is None
    assert none.prefix_hit_frac is None
    assert none.others(np.array([]), np.array([]), None) is None


def test_counters_are_differences_and_missing_is_not_zero() -> None:
    readings = Readings(
        [sample(0, preemptions=5, queries=1000, hits=10), sample(1), sample(2, preemptions=8, queries=3000, hits=60)]
    )
    assert readings.delta("preemptions_total") == 3
    assert readings.prefix_hit_frac == pytest.approx(0.025)
    assert readings.delta("generation_tokens_total") is None
    assert Readings([sample(0, preemptions=5)]).delta("preemptions_total") is None


def test_no_lookups_have_no_hit_share() -> None:
    assert Readings([sample(0, queries=7, hits=7), sample(1, queries=7, hits=7)]).prefix_hit_frac is None


def test_a_histogram_gives_the_mean_of_what_came_in() -> None:
    assert Readings([sample(0, decode=(10.0, 100)), sample(9, decode=(29.0, 200))]).mean("decode_time_s") == pytest.approx(0.19)
    assert Readings([sample(0, decode=(10.0, 100)), sample(9, decode=(10.0, 100))]).mean("decode_time_s") is None


def test_the_fullest_engine_counts_and_what_was_before_the_start_does_not() -> None:
    readings = Readings([sample(-1, kv=0.9, kv_max=0.9), sample(0, kv=0.5, kv_max=0.8), sample(1, kv=0.6, kv_max=0.7)])
    assert readings.highest("kv_usage_max_frac", "kv_usage_frac", since=START) == 0.8
    only_mean = Readings([sample(0, kv=0.5), sample(1, kv=0.6)])
    assert only_mean.highest("kv_usage_max_frac", "kv_usage_frac", since=START) == 0.6


@pytest.mark.parametrize(
    "samples",
    [
        [sample(0, epoch=100.0, success=5), sample(1, epoch=200.0, success=7)],
        [sample(0, success=50), sample(1, success=3), sample(2, success=9)],
        [sample(0, preemptions=1, success=1), sample(1, preemptions=0, success=2)],
    ],
)
def test_a_new_epoch_or_a_counter_that_fell_is_a_restart(samples: list[ServerSample]) -> None:
    readings = Readings(samples)
    assert readings.breaks == 1
    assert readings.delta("requests_success_total") is None
    assert readings.others(np.array([]), np.array([]), None) is None


def test_two_processes_in_turn_are_no_restart() -> None:
    """Readings through a balancer: 289957 / 304457."""
    turns = Readings([sample(i, success=(289_957, 304_457)[i % 2] + i) for i in range(6)])
    assert turns.breaks == 2
    assert turns.delta("requests_success_total") is None


def engines(t: float, epoch: float | None = None, started: tuple[float, ...] = (), **success: float) -> ServerSample:
    """A reading with a row for each engine; the sums are what it shows as a whole."""
    starts = started or (None,) * len(success)
    rows = tuple(
        EngineSample(name=name, requests_success_total=n, prompt_tokens_total=10 * n, generation_tokens_total=10 * n, started=start)
        for (name, n), start in zip(success.items(), starts, strict=True)
    )
    total = sum(success.values())
    return ServerSample(
        t=START + t,
        took_s=0.0,
        engines=len(rows),
        requests_success_total=total,
        queue_time_s=(2 * total, total),
        epoch=max(started) if started else epoch,
        by_engine=rows if len(rows) > 1 else None,
    )


@pytest.mark.parametrize("epoch", [None, 100.0])
@pytest.mark.parametrize(
    "middle",
    [
        engines(1, None, a=55.0, c=15.0),  # one of three is missing
        engines(1, None, b=33.0),  # only one is there
    ],
)
def test_a_row_that_is_missing_from_one_reading_has_not_restarted(middle: ServerSample, epoch: float | None) -> None:
    middle = msgspec.structs.replace(middle, epoch=epoch)
    readings = Readings([engines(0, epoch, a=50, b=30, c=10), middle, engines(2, epoch, a=60, b=36, c=20)])
    assert readings.breaks == 0
    assert readings.delta("requests_success_total") == 26
    assert readings.mean("queue_time_s") == 2.0


def test_differences_leave_out_a_last_reading_without_one_of_the_rows() -> None:
    readings = Readings([engines(0, a=50, b=30), engines(1, a=56, b=34), engines(2, a=60)])
    assert readings.breaks == 0
    assert readings.delta("requests_success_total") == 10
    assert readings.others(sent(0.1, 0.2, 0.3), sent(), None) == 7  # by the last reading that shows both: 10 without 3 of ours
    assert Readings([engines(0, a=50), engines(1, a=56, b=34)]).others(sent(), sent(), None) is None


def test_a_row_that_comes_back_from_the_start_has_restarted() -> None:
    """One engine of two went away and came back with its counters at 2; the sum rose all the same."""
    readings = Readings([engines(0, a=50, b=30), engines(1, a=55), engines(2, a=90, b=2)])
    assert readings.breaks == 1


def test_a_start_that_is_not_shown_for_a_while_is_no_other_process() -> None:
    """The newest start of the page is that of the engine whose row is missing."""
    seen = [
        engines(0, started=(100.0, 101.0), a=5, b=3),
        engines(1, started=(100.0,), a=6),
        engines(2, started=(100.0, 101.0), a=7, b=5),
    ]
    assert Readings(seen).breaks == 0
    assert Readings([*seen, engines(3, started=(100.0, 300.0), a=8, b=6)]).breaks == 1


def test_one_counter_that_fell_in_a_process_that_goes_on_was_not_shown_whole() -> None:
    def whole(t: float, success: float, preemptions: float) -> ServerSample:
        return sample(t, success=success, preemptions=preemptions, epoch=100.0)

    assert Readings([whole(0, 50, 3), whole(1, 20, 4), whole(2, 60, 5)]).breaks == 0
    assert Readings([whole(0, 50, 3), whole(1, 2, 0), whole(2, 6, 0)]).breaks == 1  # behind a page of somebody else


def test_a_counter_that_is_missing_for_a_while_did_not_fall() -> None:
    assert Readings([sample(0, success=9), sample(1), sample(2, success=9)]).breaks == 0


def sent(*offsets: float) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    return START + np.array(offsets, dtype=np.float64)


def test_our_own_requests_are_not_others() -> None:
    """Ten of ours: six done, two running, one waiting, one refused."""
    ours = sent(*range(10))
    readings = Readings([sample(-0.5, success=100), sample(9.5, success=106, running=2, waiting=1)])
    assert readings.others(ours, sent(4.0), None) == 0


def test_what_the_server_has_beyond_ours_is_others() -> None:
    ours = sent(*range(10))
    readings = Readings([sample(-0.5, success=100), sample(9.5, success=112, running=3, waiting=2)])
    assert readings.others(ours, sent(), None) == 7


def test_counts_of_our_open_requests_do_not_hide_others() -> None:
    ours = sent(0, 1)
    assert Readings([sample(-1, success=0), sample(2, success=0, running=7)]).others(ours, sent(), None) == 5


def test_readings_after_our_own_aborts_tell_nothing() -> None:
    """Aborted requests are nowhere counted, so from then on ours would hide others', or the other way round."""
    ours = sent(*range(10))
    start, before, after = sample(-0.5, success=0), sample(9.5, success=0, running=15), sample(11, success=0, running=0)
    assert Readings([start, before, after]).others(ours, sent(), until=START + 10) == 5
    assert Readings([start, after]).others(ours, sent(), until=START + 10) is None


def test_one_reading_that_disagrees_is_not_believed() -> None:
    ours = sent(*range(3))
    readings = Readings([sample(-1, success=0), sample(3, success=3), sample(3.5, success=3), sample(4, success=3, running=9)])
    assert readings.others(ours, sent(), None) == 0


def test_a_failure_that_the_reading_may_not_have_seen_is_still_ours() -> None:
    """The reading took 0.4 s and may be from 4.6 s, when the request that failed at 4.8 s was still running."""
    readings = Readings([sample(-1, success=0), sample(5, success=0, running=1, took=0.4)])
    assert readings.others(sent(1.0), sent(4.8), None) == 0
    assert readings.others(sent(1.0), sent(4.5), None) == 1


def test_without_the_counter_others_cannot_be_told() -> None:
    assert Readings([sample(-1), sample(9, running=50)]).others(sent(), sent(), None) is None
    assert Readings([sample(-1, success=1), sample(9, running=50)]).others(sent(), sent(), None) is None


@settings(max_examples=60, deadline=None)
@given(
    ours=st.lists(st.tuples(st.floats(0, 20), st.floats(0.01, 30), st.booleans()), max_size=40),
    others=st.lists(st.tuples(st.floats(0, 20), st.floats(0.01, 30)), max_size=20),
    took=st.floats(0, 0.4),
    lag=st.floats(0, 0.3),
)
def test_never_more_others_than_there_were(
    ours: list[tuple[float, float, bool]], others: list[tuple[float, float]], took: float, lag: float
) -> None:
    """A server that sees our requests `lag` late and counts each at its end, or never when it failed; read once a second."""
    succeeded = [sent_at + lag + held for sent_at, held, failed in ours if not failed]
    readings = []
    for second in range(-1, 25):
        then = second - took * 0.7
        success = sum(end <= then for end in succeeded) + sum(at + held <= then for at, held in others)
        running = sum(at + lag <= then < at + lag + held for at, held, _ in ours)
        running += sum(at <= then < at + held for at, held in others)
        readings.append(sample(second, success=success, running=running, waiting=0, took=took))
    failed_at = sent(*(at + lag + held + lag for at, held, failed in ours if failed))
    found = Readings(readings).others(sent(*(at for at, _, _ in ours)), failed_at, None)
    assert found is not None
    assert found <= len(others)
    if not ours:
        assert found == len([1 for at, _ in others if at <= 22 - took * 0.7])

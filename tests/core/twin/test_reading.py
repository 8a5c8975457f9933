"""What a run's twin says of its windows: little to explain where the structure is right, much where it is not."""

import math
from dataclasses import replace
from functools import cache
from itertools import count
from statistics import pstdev

import msgspec
import pytest

from core.replica.catalog import CATALOG
from core.results import TwinReading
from core.twin import MOST_SHIFT, Reader, Twin, TwinTask, read, shift_of
from tests.core.judge.virtual import probe_of
from tests.core.twin.windows import Seen, constants, limits_of, seen, task_of

RATES = (0.5, 0.8, 0.95, 1.0, 1.1)
REQUESTS = 3000


@cache
def run_of(name: str) -> Seen:
    return seen(CATALOG[name], 7, RATES, measure_s=60.0)


def task(name: str, run: Seen | None = None) -> TwinTask:
    asked = task_of(CATALOG[name], run or run_of(name))
    return msgspec.structs.replace(asked, long_requests=REQUESTS, measure_s=20.0)


def shifts(reading: TwinReading | None) -> list[float]:
    assert reading is not None
    return [each.shift for each in reading.shifts]


@pytest.mark.parametrize("name", ["demo", "chat", "kvlim", "slot"])
def test_its_own_windows_are_where_they_should_be(name: str) -> None:
    reading = read(task(name), run_of(name).records)
    assert reading is not None
    assert reading.median_shift is not None
    assert reading.median_shift < 0.02
    assert max(abs(each) for each in shifts(reading)) < 0.04
    assert [(each.step, each.repeat, each.cut, each.early) for each in reading.shifts] == [
        (k, 0, False, False) for k in range(1, 6)
    ]
    assert reading.knee_rps == pytest.approx(CATALOG[name].truth_rps, rel=0.1)
    assert len(reading.pass_curve) > 5


def test_a_twin_of_another_structure_shows_it() -> None:
    """Half the tokens of a step, where prompts are longer than that: the windows scatter. Half the places: they are far off."""
    rag, slot = limits_of(CATALOG["rag"].engine), limits_of(CATALOG["slot"].engine)
    own = shifts(read(task("rag"), run_of("rag").records))
    half = msgspec.structs.replace(task("rag"), limits=msgspec.structs.replace(rag, max_batched_tokens=1024))
    assert pstdev(shifts(read(half, run_of("rag").records))) > 3 * pstdev(own)
    half = msgspec.structs.replace(task("slot"), limits=msgspec.structs.replace(slot, max_seqs=4))
    assert set(shifts(read(half, run_of("slot").records))) == {-MOST_SHIFT}
    less = msgspec.structs.replace(limits_of(CATALOG["kvlim"].engine), kv_tokens=30_000)
    reading = read(msgspec.structs.replace(task("kvlim"), limits=less), run_of("kvlim").records)
    assert reading is not None
    assert reading.median_shift is not None
    assert reading.median_shift > 0.1


def test_what_was_cut_says_on_which_side_it_is() -> None:
    run = run_of("chat")
    first, second, third, fourth, fifth = run.windows
    assert fifth.x is not None
    assert fifth.x > 0
    cut = msgspec.structs.replace(fifth, x=None, passed=False, least=fifth.x)
    hopeless = msgspec.structs.replace(second, x=None, passed=False, least=9.0)
    passed = msgspec.structs.replace(first, x=None, passed=True)
    reading = read(task("chat", replace(run, windows=(passed, hopeless, third, fourth, cut))), run.records)
    assert reading is not None
    assert [each.early for each in reading.shifts] == [True, False, False, False, False]
    assert [each.cut for each in reading.shifts] == [False, True, False, False, True]
    whole = read(task("chat"), run.records)
    assert shifts(reading)[2:] == pytest.approx(shifts(whole)[2:], abs=0.01)


def test_a_drowning_server_is_off_any_line() -> None:
    """Thirty times above the limits says no more than three times."""
    probe, twin = probe_of(CATALOG["chat"], 7), Twin(constants(CATALOG["chat"].engine), limits_of(CATALOG["chat"].engine))
    cut = [msgspec.structs.replace(run_of("chat").windows[-1], x=None, passed=False, least=least) for least in (0.5, 1.0, 1.0, 9.0)]
    found = [shift_of(twin, window, probe.workload, probe.slo).shift for window in cut]
    assert found[0] < found[1] == found[2] == found[3] < MOST_SHIFT


def test_a_reading_that_goes_on_is_one_that_starts_afresh() -> None:
    run, reader = run_of("kvlim"), Reader()
    reader.seen([record for record in run.records if record.order <= 3])
    reader.read(task("kvlim", replace(run, windows=run.windows[:3])))
    for number in (4, 5):
        reader.seen([record for record in run.records if record.order == number])
    gone_on, afresh = reader.read(task("kvlim")), read(task("kvlim"), run.records)
    assert gone_on is not None
    assert afresh is not None
    assert gone_on.steps == afresh.steps
    assert gone_on.knee_rps == pytest.approx(afresh.knee_rps, rel=0.02)
    assert shifts(gone_on) == pytest.approx(shifts(afresh), abs=0.015)


def test_another_question_starts_afresh() -> None:
    """What is known under one target says nothing under another."""
    reader = Reader()
    reader.seen(run_of("chat").records)
    first = reader.read(task("chat"))
    strict = msgspec.structs.replace(task("chat"), slo=msgspec.structs.replace(task("chat").slo, target=0.99))
    second = reader.read(strict)
    afresh = read(strict, run_of("chat").records)
    assert first is not None
    assert second is not None
    assert afresh is not None
    assert second.knee_rps < 0.98 * first.knee_rps
    assert second.knee_rps == afresh.knee_rps


def test_nothing_to_go_by() -> None:
    assert read(task("chat"), []) is None
    too_small = msgspec.structs.replace(limits_of(CATALOG["chat"].engine), kv_tokens=64)
    assert read(msgspec.structs.replace(task("chat"), limits=too_small), run_of("chat").records) is None


def test_what_the_budget_has_no_room_for_is_left_out() -> None:
    """The clock ticks once a look: room for the knee and two windows, those nearest to it."""
    ticks = count()
    reader = Reader(clock=lambda: float(next(ticks)))
    reader.seen(run_of("chat").records)
    reading = reader.read(msgspec.structs.replace(task("chat"), cpu_s=3.0))
    assert reading is not None
    nearest = sorted(range(5), key=lambda at: abs(math.log(RATES[at] * 13.14 / reading.knee_rps)))[:2]
    assert [each.step for each in reading.shifts] == sorted(at + 1 for at in nearest)
    assert reading.pass_curve == ()

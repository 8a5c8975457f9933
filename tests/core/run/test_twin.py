"""What a run tells its twin and when it asks: after each step, with all that was judged. The run never depends on it."""

import asyncio
import math
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from core.config import Method, Workload
from core.engine import Limits, StepModel
from core.facts import says
from core.judge import Tally
from core.records import RequestRecord, ServerInfo, ServerSample
from core.replica.catalog import CATALOG
from core.results import RepeatResult, SloMargin, TwinReading
from core.run import is_going
from core.run.events import Event, Note, RepeatStarted, TwinRead
from core.run.twin import TwinWatch, wants_twin, window_of
from core.twin import TwinTask
from core.workloads import Gateway
from tests.builders import asked_step, repeat
from tests.core.run.bench import Bench, Scripted, events_of, final_view, on_bench, scripted, to_the_end
from tests.core.run.fakes import config
from tests.core.run.virtual import run
from tests.core.twin.windows import order_of, played

STANDARD = Method(mode="standard")
READING = TwinReading(
    knee_rps=5.0,
    se_frac=0.01,
    shifts=(),
    pass_curve=(),
    measure_s=60.0,
    median_shift=None,
    steps=StepModel(a_s=0.01, b_s=0.0, c_s=0.0, p_s=0.0, error_frac=0.01),
    limits=Limits(max_seqs=256, max_batched_tokens=2048),
)


class FakeTwin:
    """Notes what it is told, and has an answer as long as there is one."""

    def __init__(self, *answers: TwinReading | None) -> None:
        self.answers = list(answers)
        self.latest: TwinReading | None = None
        self.told: list[str] = []
        self.records: list[RequestRecord] = []
        self.tasks: list[TwinTask] = []

    async def seen(self, records: Sequence[RequestRecord]) -> None:
        self.told.append(f"seen {len(records)}")
        self.records += records

    async def beside_load(self, sending: bool) -> None:
        self.told.append("beside" if sending else "alone")

    async def ask(self, task: TwinTask) -> None:
        self.told.append("ask")
        self.tasks.append(task)

    async def reading(self, within_s: float) -> TwinReading | None:
        answer = self.answers.pop(0) if self.answers else None
        if answer is None:
            await asyncio.sleep(within_s)
            return None
        self.latest = answer
        return answer

    async def close(self) -> None:
        self.told.append("close")


def tally_of(step: int = 1) -> Tally:
    return played(CATALOG["slot"], order_of(2.0, 3, step, 5.0, 20.0), 3)


def watch(twin: FakeTwin | None, emitted: list[Event]) -> TwinWatch:
    async def start() -> FakeTwin | None:
        return twin

    return TwinWatch(config(method=STANDARD), ServerInfo(url="http://x"), start, emitted.append, lambda: 7.0)


def judged(verdict: str = "pass", index: int = 0, **given: object) -> RepeatResult:
    return msgspec.structs.replace(repeat("pass"), verdict=verdict, index=index, **given)


@pytest.mark.parametrize(
    ("method", "wanted"),
    [
        (STANDARD, True),
        (Method(mode="acceptance"), True),
        (Method(), False),
        (Method(mode="standard", rates_rps=(2.0, 3.0)), False),
        (Method(mode="standard", hold_rps=2.0), False),
    ],
)
def test_a_twin_is_for_modes_that_read_whole_windows(method: Method, wanted: bool) -> None:
    assert wants_twin(config(method=method)) is wanted
    assert not wants_twin(config(method=method, workload=Workload(stop="natural")))
    assert not wants_twin(config(method=method, workload=Workload(gateway=Gateway(limit=8))))


def test_it_is_told_once_and_asked_about_all() -> None:
    emitted: list[Event] = []
    twin = FakeTwin(READING, msgspec.structs.replace(READING, knee_rps=5.1))
    first, second = tally_of(1), tally_of(2)

    async def whole() -> None:
        watching = watch(twin, emitted)
        watching.judged(first, judged(slo_margin=SloMargin(at_target=0.5)))
        assert await watching.look(None) is None, "nothing is known of where the knee is"
        assert twin.told == []
        assert await watching.look(5.0) == READING
        watching.judged(second, judged("void"))
        watching.judged(second, judged(slo_margin=SloMargin(at_target=0.7)))
        assert await watching.look(5.0) != READING
        await watching.close()

    run(whole())
    assert twin.told == [
        *("alone", f"seen {len(first.records)}", "ask", "beside"),
        *("alone", f"seen {len(second.records)}", "ask", "beside"),
        "close",
    ]
    assert [window.order.step for window in twin.tasks[1].windows] == [1, 2]
    assert (twin.tasks[1].warmup_s, twin.tasks[1].measure_s) == pytest.approx((5.0, 20.0))
    assert [event.reading.knee_rps for event in emitted if isinstance(event, TwinRead)] == [5.0, 5.1]


def test_a_window_that_was_done_again_counts_once() -> None:
    twin = FakeTwin(READING)

    async def whole() -> None:
        watching = watch(twin, [])
        watching.judged(tally_of(), judged("unjudged"))
        watching.judged(tally_of(), judged(slo_margin=SloMargin(at_target=0.5)))
        watching.judged(tally_of(), judged(slo_margin=SloMargin(at_target=0.6)))
        await watching.look(5.0)

    run(whole())
    assert [window.x for window in twin.tasks[0].windows] == [math.log(0.6)]
    assert len(twin.records) == 3 * len(tally_of().records), "all three loaded the server"


def test_one_that_is_slow_is_not_waited_for_and_an_older_reading_stands() -> None:
    emitted: list[Event] = []
    twin = FakeTwin(READING)

    async def whole() -> None:
        watching = watch(twin, emitted)
        watching.judged(tally_of(), judged(slo_margin=SloMargin(at_target=0.5)))
        await watching.look(5.0)
        began = asyncio.get_running_loop().time()
        assert await watching.look(5.0) == READING
        assert 1 < asyncio.get_running_loop().time() - began < 10

    run(whole())
    assert len(emitted) == 1


def test_without_its_process_there_is_no_reading() -> None:
    tries = 0

    async def start() -> None:
        nonlocal tries
        tries += 1

    async def whole() -> None:
        watching = TwinWatch(config(method=STANDARD), ServerInfo(url="http://x"), start, lambda event: None, lambda: 7.0)
        watching.judged(tally_of(), judged())
        assert await watching.look(5.0) is None
        assert await watching.look(5.0) is None
        await watching.close()

    run(whole())
    assert tries == 1


def test_a_search_that_begins_anew_has_no_windows_and_knows_the_steps() -> None:
    twin = FakeTwin(READING, READING)

    async def whole() -> None:
        watching = watch(twin, [])
        watching.judged(tally_of(1), judged(slo_margin=SloMargin(at_target=0.5)))
        watching.anew()
        assert await watching.look(5.0) is None
        watching.judged(tally_of(2), judged(slo_margin=SloMargin(at_target=0.5)))
        await watching.look(5.0)

    run(whole())
    assert [window.order.step for window in twin.tasks[0].windows] == [2]
    assert {record.order for record in twin.records} == {1, 2}


def test_places_are_inferred_from_all_readings_of_the_run() -> None:
    twin = FakeTwin(READING)

    async def whole() -> None:
        watching = watch(twin, [])
        for t in range(10):
            watching.sampled(ServerSample(t=float(t), took_s=0.01, running=64.0, waiting=3.0, kv_usage_frac=0.3))
        watching.judged(tally_of(), judged(slo_margin=SloMargin(at_target=0.5)))
        await watching.look(5.0)

    run(whole())
    assert twin.tasks[0].limits == Limits(max_seqs=64, max_batched_tokens=2048, seqs_from="inferred")


@pytest.mark.parametrize(
    ("verdict", "margin", "expected"),
    [
        ("pass", SloMargin(at_target=0.8), (math.log(0.8), 0.0, True)),
        ("fail", SloMargin(at_target=1.5), (math.log(1.5), 0.0, False)),
        ("fail", SloMargin(at_target=0.8), (0.0, 0.0, False)),  # by its queue or its errors
        ("fail", SloMargin(at_target=1.5, at_least=True), (None, math.log(1.5), False)),
        ("fail", SloMargin(unbounded=True), (None, math.log(30.0), False)),
        ("pass", None, (None, 0.0, True)),
    ],
)
def test_what_a_verdict_says_of_a_window(
    verdict: str, margin: SloMargin | None, expected: tuple[float | None, float, bool]
) -> None:
    window = window_of(tally_of(), judged(verdict, slo_margin=margin))
    assert window is not None
    assert (window.x, window.least, window.passed) == expected
    assert (window.from_s, window.to_s) == pytest.approx((5.0, 25.0))


def test_what_is_no_window() -> None:
    assert window_of(tally_of(), judged("void")) is None
    assert window_of(tally_of(), judged("unjudged")) is None
    listed = played(CATALOG["slot"], msgspec.structs.replace(order_of(2.0, 3, 1, 5.0, 20.0), phase="list"), 3)
    assert window_of(listed, judged()) is None


class Curious(Scripted):
    """A scripted search that knows where the knee is."""

    heard: list[TwinReading | None]

    @property
    def near_rps(self) -> float | None:
        return 6.0

    def observe_twin(self, reading: TwinReading | None) -> None:
        self.heard.append(reading)


def test_a_run_asks_after_each_step_and_ends_it(tmp_path: Path) -> None:
    twin = FakeTwin(READING)
    searches: list[Curious] = []

    async def start() -> FakeTwin:
        return twin

    def set_up(bench: Bench) -> None:
        bench.session._start_twin = start
        search = Curious(bench.probe, asked_step(4.0, 2), asked_step(20.0, 1))
        search.heard = []
        searches.append(search)
        bench.session._search = search

    path = tmp_path / "run.jsonl"
    _, answer = on_bench(path, to_the_end, probe=config(method=STANDARD), set_up=set_up)
    assert answer.outcome == "bracket"
    assert searches[0].heard == [READING, READING]
    assert [event.reading for event in events_of(path, TwinRead)] == [READING]
    assert final_view(path).twin == READING
    assert len(twin.tasks) == 2
    orders = [event.order for event in events_of(path, RepeatStarted) if event.order.phase == "confirm"]
    assert [window.order for window in twin.tasks[-1].windows] == orders
    assert twin.told[-1] == "close"
    assert is_going(path) is False


def test_a_run_whose_answers_stop_by_themselves_asks_no_twin_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    natural = config(method=STANDARD, workload=msgspec.structs.replace(config().workload, stop="natural"))
    bench, _ = on_bench(path, to_the_end, probe=natural, set_up=scripted(asked_step(4.0, 1)))
    assert bench.session._start_twin is None
    said = [event for event in events_of(path, Note) if says(event.text, "twin_unasked")]
    assert [event.level for event in said] == ["info"]
    on_bench(tmp_path / "quick.jsonl", to_the_end, set_up=scripted(asked_step(4.0, 1)))
    assert not any(says(event.text, "twin_unasked") for event in events_of(tmp_path / "quick.jsonl", Note))

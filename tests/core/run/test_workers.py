"""A whole run whose load comes from several machines: what is written, what is seen, and that it is judged again alike."""

import asyncio
from pathlib import Path

import pytest

from core import history
from core.facts import fact, says
from core.records import WorkerInfo
from core.report import to_markdown, to_text
from core.report.json import result
from core.results import Answer, RepeatResult
from core.run import judged_again, read_run
from core.run.events import LoadStateChanged, RepeatJudged, RepeatStarted, WorkersKnown
from core.view import RunView
from tests.builders import told
from tests.core.run.bench import Bench, events_of, final_view, on_bench, stopped_at, to_the_end
from tests.core.run.both_ways import same
from tests.core.run.fakes import config

NAMES = ("gpu-east", "gpu-west", "gpu-north")
WORKERS = tuple(
    WorkerInfo(name=name, python="3.11.9", version="0.1.0", cores=4, clock_error_s=0.0001 * at) for at, name in enumerate(NAMES)
)


def three(bench: Bench) -> None:
    bench.generator.workers = WORKERS


def second_late(bench: Bench) -> None:
    three(bench)
    bench.generator.late_by = {1: 0.15}  # of a TTFT limit of 500 ms 100 ms are allowed


def judged(path: Path) -> list[RepeatResult]:
    return [event.result for event in events_of(path, RepeatJudged)]


def test_three_good_machines_find_what_one_finds_and_each_is_told(path: Path, tmp_path: Path) -> None:
    _, alone = on_bench(tmp_path / "alone.jsonl", to_the_end)
    _, answer = on_bench(path, to_the_end, set_up=three)
    assert (answer.outcome, answer.knee.pass_rps) == (alone.outcome, alone.knee.pass_rps)
    assert all([use.name for use in repeat.workers] == list(NAMES) for repeat in judged(path))
    assert all(sum(use.sent for use in repeat.workers) >= repeat.sent for repeat in judged(path))
    assert all(repeat.workers == () for repeat in judged(tmp_path / "alone.jsonl"))
    assert events_of(tmp_path / "alone.jsonl", WorkersKnown) == []


def test_who_sends_is_written_before_the_first_order(path: Path) -> None:
    on_bench(path, to_the_end, set_up=three)
    kinds = [type(event) for event in read_run(path) if isinstance(event, (WorkersKnown, RepeatStarted, LoadStateChanged))]
    assert kinds[0] is WorkersKnown
    assert kinds.count(WorkersKnown) == 1
    view = final_view(path)
    assert view.workers == WORKERS
    assert fact("workers_known", *NAMES, clock_error_s=0.0002) in [line.text for line in view.lines]


def test_one_late_machine_is_named_and_the_run_has_no_answer(path: Path) -> None:
    _, answer = on_bench(path, to_the_end, set_up=second_late)
    assert answer.outcome == "void"
    assert {repeat.verdict for repeat in judged(path)} == {"void"}
    assert told(answer.message, "worker_late").figures["worker"] == "gpu-west"
    assert told(answer.message, "worker_stalled").figures["worker"] == "gpu-west"


@pytest.mark.parametrize("set_up", [three, second_late], ids=["good", "one late"])
def test_a_recorded_run_is_judged_again_alike(path: Path, set_up: object) -> None:
    on_bench(path, to_the_end, set_up=second_late if set_up is second_late else three)
    again = judged_again(read_run(path), lambda slo: slo)
    repeats = [each for each_step in again.steps for each in each_step.repeats]
    assert repeats
    assert all(each.now.verdict == each.then.verdict for each in repeats)
    assert all(each.now.workers == each.then.workers for each in repeats)


def test_what_several_machines_sent_is_seen_alike_when_it_is_taken_in_together(path: Path) -> None:
    on_bench(path, to_the_end, set_up=second_late)
    same(list(read_run(path)), 5)


def test_what_each_machine_does_is_seen_while_it_runs(path: Path) -> None:
    seen: list[RunView] = []

    async def watched(bench: Bench) -> Answer:
        second_late(bench)
        for t in range(1000, 1100):
            asyncio.get_running_loop().call_at(float(t), lambda: seen.append(bench.session.state.view(bench.session._clock())))
        return await bench.session.run()

    on_bench(path, watched)
    lives = [view.current.live for view in seen if view.current is not None and view.current.live is not None]
    busy = [live for live in lives if live.sent > 30 and any(worker.in_flight is not None for worker in live.workers)]
    assert busy
    for live in busy:
        assert [worker.name for worker in live.workers] == list(NAMES)
        assert sum(worker.sent for worker in live.workers) == live.sent
        assert [worker.in_flight for worker in live.workers] == [0, 1, 2]
        assert [worker.client_cpu_frac for worker in live.workers] == pytest.approx([0.1, 0.2, 0.3])
    assert [worker.lateness_p99_s for worker in busy[-1].workers] == pytest.approx([0.0, 0.15, 0.0])
    assert [worker.stalled for worker in busy[-1].workers] == [False, True, False]
    assert busy[-1].stalled


def test_this_machine_alone_shows_none(path: Path) -> None:
    on_bench(path, to_the_end)
    view = final_view(path)
    assert view.workers == ()
    assert result(view, None)["workers"] == []
    assert "Sent by" not in to_text(view, None)
    assert "sent by" not in to_markdown(view, "run.jsonl")


@pytest.mark.usefixtures("short_orders")
def test_the_segments_of_a_held_rate_know_who_sent(path: Path) -> None:
    """Each segment is judged by an account that begins elsewhere in the plan."""
    on_bench(path, stopped_at(1150.0), probe=config(hold_rps=4.0, measure_s=20.0), set_up=second_late)
    whole = [repeat for repeat in judged(path) if repeat.verdict != "unjudged"]
    assert len(whole) > 2
    for repeat in whole:
        late = {use.name: use.lateness_p99_s for use in repeat.workers}
        assert late == pytest.approx({"gpu-east": 0.0, "gpu-west": 0.15, "gpu-north": 0.0})
        assert says(repeat.reason, "worker_late")


def test_the_result_and_the_reports_tell_who_sent(path: Path) -> None:
    def a_little_late(bench: Bench) -> None:
        three(bench)
        bench.generator.late_by = {2: 0.004}

    on_bench(path, to_the_end, set_up=a_little_late)
    view = final_view(path)
    data = result(view, None)
    assert data["workers"][1] == {"name": "gpu-west", "python": "3.11.9", "version": "0.1.0", "cores": 4, "clock_error_s": 0.0001}
    sent = "ent by 3 machines: gpu-east, gpu-west, gpu-north; the latest p99 4.00 ms (gpu-north)"
    assert sent in " ".join(to_text(view, None).split())
    assert f"load: s{sent}" in to_markdown(view, "run.jsonl").replace("\\", "")


def test_a_redacted_copy_names_no_machine(path: Path, tmp_path: Path) -> None:
    on_bench(path, to_the_end, set_up=second_late)
    copy = history.redact(path, tmp_path / "copy.jsonl")
    assert [name for name in NAMES if name in copy.read_text()] == []
    told_as = {worker.name for event in events_of(copy, WorkersKnown) for worker in event.workers}
    assert len(told_as) == len(NAMES)
    assert {use.name for repeat in judged(copy) for use in repeat.workers} == told_as

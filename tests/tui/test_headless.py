"""The line printer: what it prints for which change of the view, and that it holds up nothing."""

import asyncio
import threading

import pytest
from msgspec.structs import replace

from core import prose
from core.config import Lengths, Method, ProbeConfig, Slo, Target, Workload
from core.records import Check, Phase
from core.results import Answer, Bounds, Percentiles, RepeatResult, RepeatVerdict, StepResult
from core.run.state import step_told
from core.view import Line, RampSegment, RepeatView, RunView, StepView, WorkerLive
from core.workloads import parse_mix
from tests import builders
from tui.cli.headless import PROGRESS_S, CheckPrinter, Printer, follow
from tui.phrases import method_text

DRAWN = Lengths(median=180, sigma=0.7, maximum=1024)
CONFIG = ProbeConfig(
    target=Target(url="http://h:8000"),
    slo=Slo(ttft_s=0.5, tpot_s=0.03, target=0.95),
    workload=Workload(input_tokens=Lengths(median=64), output_tokens=Lengths(median=180, sigma=0.7, maximum=1024)),
)
START = RunView(version=1, now_s=0.0, bin_s=1.0, config=CONFIG)
LIVE = RepeatView(
    index=0,
    bounds=Bounds(planned=100, good=18, bad=1, open=1),
    part="measuring",
    elapsed_s=12.2,
    length_s=40.0,
    sent=1234,
    in_flight=5,
    no_first_token=2,
    errors=0,
    lateness_p99_s=0.0008,
)
STEP = StepView(step=3, phase="search", rate_rps=12.4, repeats_planned=1, finished=(), live=LIVE)


def repeat(index: int, verdict: RepeatVerdict, interval: tuple[float, float], reason: str) -> RepeatResult:
    counts = {"planned": 1200, "sent": 1100, "succeeded": 1000, "good": 480, "misses": 20}
    late = Percentiles(p99=0.0021, n=1100)
    return builders.repeat(verdict, interval, index=index, reason=reason, lateness_s=late, **counts)


def judged(*repeats: RepeatResult, phase: Phase = "search", step: int = 3) -> StepResult:
    return builders.step(12.4, "fail", *repeats, number=step, phase=phase, reason="repeat 2 failed")


def said(step: StepResult, t_s: float = 59.0) -> Line:
    """The line that the state writes when a step is judged."""
    return Line(t_s=t_s, level="info", text=step_told(step), step=step.step)


def test_the_head_says_what_is_asked_and_comes_once() -> None:
    printer = Printer()
    assert printer.feed(START) == [
        "server    http://h:8000",
        "limits    TTFT at most 500 ms and TPOT at most 30 ms for 95 % of requests",
        "workload  64 tokens in, lognormal:180,0.7,1024 out",
        "method    quick mode, 1 repeat of at least 40 s at each rate, about 3 min in all; seed 11",
    ]
    assert printer.feed(START) == []


def test_the_head_says_which_kinds_of_request_come_and_by_what_they_are_judged() -> None:
    mix = Workload(mix=parse_mix("1024:128=3,4096:64=1@ttft=2s"))
    config = replace(CONFIG, workload=mix)
    assert Printer().feed(replace(START, config=config))[1:3] == [
        "limits    TTFT at most 500 ms (2 s for 4,096:64) and TPOT at most 30 ms for 95 % of requests",
        "workload  mix of 2: 1,024:128 ×3, 4,096:64 ×1",  # noqa: RUF001
    ]
    together = replace(CONFIG, workload=Workload(input_tokens=DRAWN, output_tokens=DRAWN, length_correlation=0.6))
    said = Printer().feed(replace(START, config=together))[2]
    assert said == "workload  lognormal:180,0.7,1024 tokens in, lognormal:180,0.7,1024 out (correlation 0.6)"


def test_nothing_is_known_before_the_first_event() -> None:
    assert Printer().feed(RunView(version=0, now_s=0.0, bin_s=1.0)) == []


def test_each_check_is_printed_once() -> None:
    checks = (Check(check="reachable", status="pass", message="Yes."), Check(check="metrics", status="warn", message="None."))
    printer = Printer()
    printer.feed(START)
    assert printer.feed(replace(START, checks=checks[:1], now_s=0.5)) == ["    0.5 s  pass    reachable: Yes."]
    assert printer.feed(replace(START, checks=checks, now_s=1.0)) == ["    1.0 s  warn    metrics: None."]
    assert CheckPrinter().feed(replace(START, checks=checks)) == ["pass    reachable: Yes.", "warn    metrics: None."]


def test_a_step_is_announced_then_reported_every_few_seconds() -> None:
    printer = Printer()
    printer.feed(START)
    begin = replace(START, current=STEP, now_s=10.0, left_s=95.0)
    assert printer.feed(begin) == ["   10.0 s  step 3 at 12.4 requests/s starts, about 1 min 40 s left"]
    assert printer.feed(replace(begin, now_s=10.0 + PROGRESS_S - 0.1)) == []
    assert printer.feed(replace(begin, now_s=10.0 + PROGRESS_S)) == [
        "   15.0 s  step 3 at 12.4 requests/s: measuring 12 s of 40 s, sent 1,234, in flight 5,"
        " good 18, missed 1, open 1 of 100 planned, attainment 18.0 % to 99.0 % of the plan, late p99 0.800 ms"
    ]
    assert printer.feed(replace(begin, now_s=11.0 + PROGRESS_S)) == []
    ramp = replace(STEP, step=4, phase="ramp", rate_rps=0.5, repeats_planned=3, live=None)
    later = replace(begin, now_s=20.0, current=ramp, left_s=None)
    assert printer.feed(later) == ["   20.0 s  ramp at 0.500 requests/s starts, 3 repeats"]
    assert printer.feed(replace(begin, now_s=40.0, current=ramp)) == []


def test_of_several_machines_the_latest_is_named() -> None:
    workers = tuple(WorkerLive(name=f"node-{i}", sent=9, lateness_p99_s=late_s) for i, late_s in enumerate((0.0005, 0.212, None)))
    step = replace(STEP, live=replace(LIVE, workers=workers))
    printer = Printer()
    printer.feed(replace(START, current=STEP, now_s=10.0))
    (line,) = printer.feed(replace(START, current=step, now_s=10.0 + PROGRESS_S))
    assert line.endswith("late p99 0.800 ms (node-1 212 ms)")


@pytest.mark.parametrize(
    ("method", "text"),
    [
        (Method(mode="standard"), "standard mode, 2 repeats of at least 1 min at each rate, about 12 min in all; seed 11"),
        (
            Method(careful=True, budget_s=240.0),
            "quick, careful mode, 2 repeats of at least 30 s at each rate, about 4 min in all; seed 11",
        ),
        (
            Method(mode="acceptance", repeats=12, measure_s=90.0, require_rps=12.0, reset_cache=True, between=True, seed=3),
            "acceptance mode, 12 repeats of at least 1 min 30 s at each rate, about 1 h in all; 12.0 requests/s must pass;"
            " the prefix cache is emptied between repeats; your command runs between repeats; seed 3",
        ),
        (Method(rates_rps=(2.0, 4.0, 6.5), repeats=3), "judges 2, 4 and 6.5 requests/s, 3 repeats of at least 40 s each; seed 11"),
        (Method(rates_rps=(11.3,), measure_s=1800.0), "judges 11.3 requests/s, 1 repeat of at least 30 min; seed 11"),
        (Method(hold_rps=6.0), "holds 6.00 requests/s until you stop it, and judges each stretch by itself; seed 11"),
        (
            Method(rates_rps=(11.3,), measure_s=1800.0, workload_seed=4),
            "judges 11.3 requests/s, 1 repeat of at least 30 min; arrival seed 11, workload seed 4",
        ),
    ],
)
def test_the_method_is_said_before_anything_is_sent(method: Method, text: str) -> None:
    assert method_text(method) == text
    lines = Printer().feed(replace(START, config=replace(CONFIG, method=method)))
    assert lines[-1] == f"method    {text}"


def test_arrivals_that_are_not_poisson_are_said_before_anything_is_sent() -> None:
    bursty = replace(CONFIG, workload=replace(CONFIG.workload, arrival_cv=2.0))
    lines = Printer().feed(replace(START, config=bursty))
    assert lines[2].startswith("workload  ")
    assert lines[2].endswith(" out; arrivals with gamma gaps of CV 2 (Poisson: 1)")


def test_answers_that_may_stop_by_themselves_are_said_before_anything_is_sent() -> None:
    natural = replace(CONFIG, workload=replace(CONFIG.workload, stop="natural"))
    lines = Printer().feed(replace(START, config=natural))
    assert lines[2] == "workload  64 tokens in, at most lognormal:180,0.7,1024 out (natural stop)"


def test_the_scale_of_a_recording_is_said_with_the_step() -> None:
    recorded = replace(CONFIG, workload=replace(CONFIG.workload, trace=builders.TRACE))
    printer = Printer()
    assert printer.feed(replace(START, config=recorded))[2].endswith("arrivals as recorded, scaled from 2.50 requests/s")
    line = printer.feed(replace(START, config=recorded, current=STEP, now_s=1.0, left_s=300.0))[-1]
    assert f", {STEP.rate_rps / 2.5:.2g} times the recording, starts" in line


def test_each_repeat_is_announced_with_what_the_one_before_came_to() -> None:
    printer = Printer()
    printer.feed(START)
    first = replace(STEP, repeats_planned=3)
    assert printer.feed(replace(START, current=first, now_s=1.0, left_s=300.0)) == [
        "    1.0 s  step 3 at 12.4 requests/s starts, 3 repeats, about 5 min left"
    ]
    second = replace(first, finished=((0.96, 0.96),), live=replace(LIVE, index=1))
    view = replace(START, current=second, now_s=4.0, left_s=205.0)
    assert printer.feed(view) == ["    4.0 s  step 3 at 12.4 requests/s, repeat 2 of 3 starts after 96.0 %, about 3 min 20 s left"]
    (line,) = printer.feed(replace(view, now_s=6.0))
    assert line.startswith("    6.0 s  step 3 at 12.4 requests/s, repeat 2 of 3: measuring 12 s of 40 s, sent 1,234")
    third = replace(second, finished=((0.96, 0.96), (0.95, 0.97)), live=replace(LIVE, index=2))
    (line,) = printer.feed(replace(view, now_s=7.0, left_s=0.0, current=third))
    assert line.endswith("repeat 3 of 3 starts after 95.0 % to 97.0 %, later than expected")


def test_what_was_cut_off_is_not_called_open() -> None:
    printer = Printer()
    printer.feed(replace(START, current=STEP))
    (line,) = printer.feed(replace(START, current=replace(STEP, live=replace(LIVE, in_flight=0)), now_s=PROGRESS_S))
    assert "missed 1, cut off 1 of 100 planned" in line


def test_of_a_ramp_the_account_is_that_of_the_rate_that_is_sent_else_of_what_was_sent() -> None:
    ramp, told = replace(STEP, phase="ramp"), []
    for known in ((), (RampSegment(rate_rps=12.4, held=False, bounds=Bounds(planned=40, good=10, bad=0, open=5)),)):
        printer = Printer()
        printer.feed(replace(START, current=ramp))
        told += printer.feed(replace(START, current=ramp, ramp=known, now_s=PROGRESS_S))
    assert "good 18, missed 1, open 1 of 20 sent, attainment 90.0 % to 95.0 % of what was sent" in told[0]
    assert "good 10, missed 0, open 5 of 40 planned, attainment 25.0 % to 100 % of the plan" in told[1]


def test_a_drain_counts_down() -> None:
    printer = Printer()
    printer.feed(replace(START, current=STEP))
    live = replace(LIVE, part="waiting", drain_left_s=84.2)
    (line,) = printer.feed(replace(START, current=replace(STEP, live=live), now_s=PROGRESS_S))
    assert ": waiting for open requests, at most 1 min 24 s more, sent 1,234" in line
    longer = replace(STEP, live=replace(LIVE, part="waiting", elapsed_s=42.0))
    (line,) = printer.feed(replace(START, current=longer, now_s=2 * PROGRESS_S))
    assert ": waiting 2 s, sent 1,234" in line


def test_a_held_rate_has_a_line_for_each_segment_and_no_end() -> None:
    printer = Printer()
    printer.feed(START)
    step = replace(STEP, phase="hold", rate_rps=6.0, repeats_planned=0)
    view = replace(START, current=step)
    assert printer.feed(view) == ["    0.0 s  hold at 6.00 requests/s starts"]
    view = replace(view, now_s=80.0, current=replace(step, finished=((0.97, 0.97), (0.9, 0.9)), live=replace(LIVE, index=2)))
    assert printer.feed(view) == [
        "   80.0 s  hold at 6.00 requests/s, segment 1: attainment 97.0 %",
        "   80.0 s  hold at 6.00 requests/s, segment 2: attainment 90.0 %",
    ]
    (line,) = printer.feed(view)
    assert "hold at 6.00 requests/s, segment 3: measuring 12 s of 40 s, sent" in line
    ended = judged(*(repeat(n, "pass", (0.97, 0.97), "in time") for n in range(2)), phase="hold")
    assert printer.feed(replace(START, steps=(ended,), lines=(said(ended, 90.0),))) == [
        f"   90.0 s  {prose.text(step_told(ended))}"
    ]


def test_errors_are_named_in_the_progress_and_unknowns_left_out() -> None:
    live = replace(LIVE, errors=7, lateness_p99_s=None, bounds=Bounds(planned=10, good=0, bad=0, open=0))
    printer = Printer()
    printer.feed(replace(START, current=STEP))
    (line,) = printer.feed(replace(START, current=replace(STEP, live=live), now_s=PROGRESS_S))
    assert line.endswith("in flight 5, errors 7")


def test_what_waits_at_a_gateways_limit_is_told_beside_what_is_in_flight() -> None:
    live = replace(LIVE, at_gateway=12)
    printer = Printer()
    printer.feed(replace(START, current=STEP))
    (line,) = printer.feed(replace(START, current=replace(STEP, live=live), now_s=PROGRESS_S))
    assert "in flight 5, waiting at the gateway 12," in line


COUNTS = "(480 good and 20 missed of 1,200 planned), late p99 2.10 ms"


def test_every_repeat_of_a_judged_step_has_its_verdict_and_reason() -> None:
    printer = Printer()
    printer.feed(START)
    step = judged(
        repeat(0, "pass", (0.95005, 1.0), "decided early"),
        repeat(1, "fail", (0.2, 0.41), "too many misses"),
        repeat(2, "void", (0.2, 0.41), "the client was late"),
        repeat(3, "fail", (0.94996, 0.94996), "complete"),
        repeat(4, "fail", (0.0, 1.0), "overloaded already in the warm-up"),
    )
    view = replace(START, steps=(step,), lines=(said(step),), now_s=60.0)
    assert printer.feed(view) == [
        f"   59.0 s  step 3 at 12.4 requests/s, repeat 1: PASS, at least 95.0 % {COUNTS}: decided early",
        f"   59.0 s  step 3 at 12.4 requests/s, repeat 2: FAIL, at most 41 % {COUNTS}: too many misses",
        f"   59.0 s  step 3 at 12.4 requests/s, repeat 3: VOID, 20.0 % to 41.0 % {COUNTS}: the client was late",
        f"   59.0 s  step 3 at 12.4 requests/s, repeat 4: FAIL, 94.996 % {COUNTS}: complete",
        f"   59.0 s  step 3 at 12.4 requests/s, repeat 5: FAIL {COUNTS}: overloaded already in the warm-up",
        "   59.0 s  step 3: fail at 12.4 requests/s: repeat 2 failed",
    ]
    assert printer.feed(replace(view, now_s=61.0)) == []


def test_a_step_of_one_repeat_is_one_line_and_a_ramp_is_no_verdict() -> None:
    printer = Printer()
    printer.feed(START)
    ramp = judged(repeat(0, "unjudged", (0.0, 1.0), "cut off"), phase="ramp", step=1)
    step = judged(repeat(0, "fail", (0.2, 0.41), "too many misses"), step=2)
    view = replace(START, steps=(ramp, step), lines=(said(ramp, 20.0), said(step, 60.0)))
    assert printer.feed(view) == [
        "   20.0 s  ramp: fail at 12.4 requests/s: repeat 2 failed",
        f"   60.0 s  step 2 at 12.4 requests/s: FAIL, at most 41 % {COUNTS}: too many misses",
    ]


def test_lines_of_the_run_keep_their_own_time_and_are_never_repeated() -> None:
    one, two = Line(t_s=1.0, level="info", text="one"), Line(t_s=2.0, level="warn", text="two")
    printer = Printer()
    printer.feed(START)
    assert printer.feed(replace(START, lines=(one,), now_s=5.0)) == ["    1.0 s  one"]
    assert printer.feed(replace(START, lines=(one, two), now_s=6.0)) == ["    2.0 s  warn: two"]
    # the view keeps the newest only: the front may be gone
    three = Line(t_s=3.0, level="error", text="three")
    assert printer.feed(replace(START, lines=(two, three), now_s=7.0)) == ["    3.0 s  error: three"]
    assert printer.feed(replace(START, lines=(three,), now_s=8.0)) == []


def test_no_escape_code_and_no_second_line_of_a_server_gets_through() -> None:
    printer = Printer()
    printer.feed(START)
    bad = Line(t_s=1.0, level="info", text="a\x1b[31m\nb\r\x07\u2028c")
    assert printer.feed(replace(START, lines=(bad,))) == ["    1.0 s  a [31m b   c"]


def test_after_the_answer_there_is_no_progress() -> None:
    printer = Printer()
    printer.feed(replace(START, current=STEP))
    ended = replace(START, current=STEP, now_s=100.0, answer=Answer(outcome="bracket", message="Done."))
    assert printer.feed(ended) == []


async def test_follow_prints_while_the_work_goes_on_and_what_is_left_at_its_end() -> None:
    loop, seen = asyncio.get_running_loop(), asyncio.Event()
    printed: list[str] = []
    pending = [["first"], ["second", "third"]]

    def write(text: str) -> None:
        printed.append(text)
        loop.call_soon_threadsafe(seen.set)

    async def work() -> int:
        await seen.wait()
        return 7

    assert await follow(work(), lambda: pending.pop(0) if pending else [], write, lambda: None, poll_s=0.001) == 7
    assert printed == ["first", "second\nthird"]


async def test_follow_does_not_let_a_stuck_reader_hold_up_the_work() -> None:
    """Ctrl-S on a terminal blocks the write for as long as the user likes."""
    stuck, let_through, worked = threading.Event(), threading.Event(), asyncio.Event()

    def lines_now() -> list[str]:
        return [] if stuck.is_set() else ["x"]

    def write(text: str) -> None:
        stuck.set()
        let_through.wait()

    async def work() -> None:
        await asyncio.to_thread(stuck.wait)
        worked.set()

    following = asyncio.ensure_future(follow(work(), lines_now, write, lambda: None, poll_s=0.001))
    await worked.wait()
    assert not following.done()
    let_through.set()
    await following


async def test_follow_says_once_that_the_reader_is_gone_and_goes_on() -> None:
    lost: list[str] = []
    stop = asyncio.Event()

    def write(text: str) -> None:
        raise BrokenPipeError

    def on_lost() -> None:
        lost.append("lost")
        stop.set()

    async def work() -> str:
        await stop.wait()
        return "stopped"

    assert await follow(work(), lambda: ["x"], write, on_lost, poll_s=0.001) == "stopped"
    assert lost == ["lost"]


async def test_follow_raises_what_the_work_raises() -> None:
    async def work() -> None:
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        await follow(work(), lambda: [], lambda _: None, lambda: None, poll_s=0.001)

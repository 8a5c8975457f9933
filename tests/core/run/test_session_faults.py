"""Whole runs in which something goes wrong, in virtual time: no fault is read as a knee, and none leaves load running."""

import asyncio
import errno
import os
from pathlib import Path

import msgspec
import pytest

from core import prose
from core.access import Access
from core.config import FleetAsk, Slo
from core.facts import fact, says
from core.hardware import Hardware
from core.judge.idle import LENGTHS
from core.records import Check, CheckStatus
from core.results import Answer
from core.run import log as runs
from core.run.away import AWAY_S
from core.run.events import CheckDone, Note, RepeatJudged, RepeatStarted, RunEnded, StepJudged
from core.run.scraping import FRESH_S
from tests.builders import told
from tests.core.run.bench import Bench, assert_ended_clean, events_of, final_view, on_bench, to_the_end
from tests.core.run.fakes import SERVICE_S, config


def test_a_void_repeat_is_done_once_more_with_the_same_index(path: Path) -> None:
    late: list[int] = []

    def once_late(bench: Bench) -> None:
        def late_s(order: object) -> float:
            search = getattr(order, "phase", "") == "search"
            late.append(1) if search else None
            return 2.0 if search and len(late) == 1 else 0.0

        bench.generator.late_s = late_s

    _, answer = on_bench(path, to_the_end, set_up=once_late)

    assert answer.outcome == "bracket"
    step = events_of(path, StepJudged)[1].result
    assert [(repeat.index, repeat.verdict) for repeat in step.repeats] == [(0, "void"), (0, "pass")]
    assert step.verdict == "pass"
    assert step.floor == step.repeats[1].attainment_interval
    again = [told(note.text, "done_again") for note in events_of(path, Note) if says(note.text, "done_again")]
    assert [says(each, "client_late", "client_late_once") for each in again] == [True]
    orders = [event.order for event in events_of(path, RepeatStarted) if event.order.phase == "search"]
    assert (orders[0].repeat, orders[0].segments) == (orders[1].repeat, orders[1].segments)


def test_a_second_void_ends_the_run_without_an_answer(path: Path) -> None:
    def late(bench: Bench) -> None:
        bench.generator.late_s = lambda order: 2.0 if order.phase == "search" else 0.0

    bench, answer = on_bench(path, to_the_end, set_up=late)

    assert answer.outcome == "void"
    last = events_of(path, StepJudged)[-1].result
    assert last.verdict == "void"
    assert says(last.reason, "client_late", "client_late_once")
    assert answer.message == fact("void_twice", last.reason, rate_rps=last.rate_rps)
    assert sum(order.phase == "search" for order in bench.generator.orders) == 2
    assert_ended_clean(bench, path)


def test_a_ramp_by_a_late_client_says_nothing_about_the_server(path: Path) -> None:
    def late(bench: Bench) -> None:
        bench.generator.late_s = lambda order: 2.0 if order.phase == "ramp" else 0.0

    _, answer = on_bench(path, to_the_end, set_up=late)

    assert answer.outcome == "void"
    assert answer.knee.first_fail_rps is None


def test_death_of_the_child_ends_the_run(path: Path) -> None:
    def dies(bench: Bench) -> None:
        bench.generator.dies_at = 1040.0

    bench, answer = on_bench(path, to_the_end, set_up=dies)

    assert answer.outcome == "void"
    assert "SIGKILL" in prose.text(answer.message)
    assert [event.result.verdict for event in events_of(path, StepJudged)] == ["fail", "unjudged"]
    assert_ended_clean(bench, path)


def test_a_fail_whose_load_the_child_does_not_stop_is_no_knee(path: Path) -> None:
    async def deaf(order: int) -> None:
        del order

    def set_up(bench: Bench) -> None:
        bench.generator.abort = deaf  # type: ignore[method-assign]

    work = on_bench(path, to_the_end, set_up=set_up, probe=config(rates_rps=(40.0,)))

    assert work[1].message == fact("client_stuck", within_s=5.0)
    assert work[1].knee.first_fail_rps is None


def test_a_scrape_that_hangs_delays_neither_sends_nor_verdicts(path: Path) -> None:
    def hangs(bench: Bench) -> None:
        bench.scraper.hangs_at = 1030.0

    _, normal = on_bench(path, to_the_end)
    hung_path = path.with_name("hung.jsonl")
    bench, hung = on_bench(hung_path, to_the_end, set_up=hangs)

    assert hung.knee == normal.knee
    judged, judged_hung = events_of(path, RepeatJudged), events_of(hung_path, RepeatJudged)
    assert [event.result.sent for event in judged] == [event.result.sent for event in judged_hung]
    within_s = FRESH_S + 2 * SERVICE_S  # without readings, a single request shows that the server is idle
    assert all(b.t - a.t <= within_s * len(judged) for a, b in zip(judged, judged_hung, strict=True))
    assert not any(says(note.text, "readings_stopped", "idle_unknown") for note in events_of(hung_path, Note))
    age = bench.session.state.view(1e9).sample_age_s
    assert age is not None
    assert age > 10


def test_an_error_nobody_foresaw_stops_the_load_first_and_is_raised(path: Path) -> None:
    caught: list[str] = []

    def breaks(bench: Bench) -> None:
        bench.scraper.fails_at = 1035.0

    async def work(bench: Bench) -> None:
        try:
            await bench.session.run()
        except RuntimeError as error:
            caught.append(str(error))

    bench, _ = on_bench(path, work, set_up=breaks)

    assert caught == ["the parser met what nobody foresaw"]
    assert events_of(path, RunEnded)[0].answer.outcome == "void"
    what = "RuntimeError: the parser met what nobody foresaw"
    assert events_of(path, RunEnded)[0].answer.message == fact("own_error", what=what)
    assert events_of(path, StepJudged)[-1].result.verdict == "unjudged"
    assert_ended_clean(bench, path)


@pytest.mark.parametrize("frozen_at", [1018.0, 1040.0, 1062.0], ids=["ramp", "step", "next step"])
def test_a_frozen_server_is_no_knee(path: Path, frozen_at: float) -> None:
    def freezes(bench: Bench) -> None:
        bench.server.frozen_at = frozen_at

    bench, answer = on_bench(path, to_the_end, set_up=freezes, probe=config(start_rps=0.7))

    assert answer.outcome == "void"
    assert answer.message == fact("server_unusable", fact("server_frozen", silent_s=10.0))
    last = events_of(path, StepJudged)[-1].result
    assert last.verdict == "void"
    assert answer.knee.first_fail_rps != last.rate_rps
    assert any(command.startswith("stop_arrivals") for command in bench.generator.commands)
    assert_ended_clean(bench, path)


@pytest.mark.parametrize("cuts", [False, True], ids=["refuses", "crashes"])
def test_a_server_that_is_gone_is_no_knee(path: Path, cuts: bool) -> None:
    def goes(bench: Bench) -> None:
        bench.server.refuses_from, bench.server.cuts = 1040.0, cuts
        asyncio.get_running_loop().call_at(1040.0, setattr, bench.server, "healthy", False)

    bench, answer = on_bench(path, to_the_end, set_up=goes)

    assert answer.outcome == "void"
    assert told(answer.message, "away_for_good").figures["within_s"] == AWAY_S
    judged = events_of(path, StepJudged)[-1].result
    assert judged.verdict == "void"
    assert says(judged.reason, "server_away")
    assert told(judged.reason, "server_away").figures["seen"] == "lost"
    assert_ended_clean(bench, path)


@pytest.mark.parametrize(
    ("slow", "alive_path"),
    [((), "/health"), (("/health",), "/v1/models"), (("/health", "/v1/models", "/version"), None)],
    ids=["health tells", "health is slow", "no route tells"],
)
def test_a_server_that_refuses_connections_but_is_there_fails(path: Path, slow: tuple[str, ...], alive_path: str | None) -> None:
    def refuses(bench: Bench) -> None:
        bench.server.refuses_from, bench.server.serves_singles = 1040.0, True
        bench.server.slow, bench.alive_path = slow, alive_path

    _, answer = on_bench(path, to_the_end, set_up=refuses)

    step = events_of(path, StepJudged)[1].result
    assert step.verdict == "fail"
    assert step.repeats[0].endings["connection"] > 0
    assert answer.outcome == "void"
    assert list(told(answer.message, "ended_in_errors").figures["endings"]) == ["connection"]  # type: ignore[arg-type]


def test_a_server_of_which_no_route_tells_is_gone_when_no_single_request_is_answered(path: Path) -> None:
    def goes(bench: Bench) -> None:
        bench.server.refuses_from, bench.alive_path = 1040.0, None

    _, answer = on_bench(path, to_the_end, set_up=goes)

    assert answer.outcome == "void"
    assert told(events_of(path, StepJudged)[-1].result.reason, "server_away").figures["seen"] == "asked"


def test_a_server_that_refuses_connections_and_does_not_say_how_it_is_is_gone(path: Path) -> None:
    def hangs(bench: Bench) -> None:
        bench.server.refuses_from, bench.server.hangs = 1040.0, True

    async def in_time(bench: Bench) -> Answer:
        async with asyncio.timeout(300 + AWAY_S):
            return await bench.session.run()

    _, answer = on_bench(path, in_time, set_up=hangs)

    assert answer.outcome == "void"
    assert says(answer.message, "away_for_good")


def test_a_refused_check_sends_no_load(path: Path) -> None:
    bench, answer = on_bench(path, to_the_end, refuse=("prompt length",))

    assert answer.outcome == "refused"
    assert answer.message == fact("refused", "prompt length is not right; mend it.")
    assert {order.phase for order in bench.generator.orders} == {"single"}
    assert_ended_clean(bench, path)


def test_limits_that_single_requests_miss_are_infeasible(path: Path) -> None:
    strict = msgspec.structs.replace(config(), slo=Slo(ttft_s=0.01, tpot_s=None))
    bench, answer = on_bench(path, to_the_end, refuse=("slo",), probe=strict)

    assert answer.outcome == "infeasible"
    assert "even single requests miss the limits" in prose.text(answer.message)
    assert {order.phase for order in bench.generator.orders} == {"single"}


@pytest.mark.parametrize("frozen_at", [1000.0, 1001.2], ids=["the first", "a judged one"])
def test_a_single_request_that_was_given_up_is_refused_and_no_limit_missed(path: Path, frozen_at: float) -> None:
    def freezes(bench: Bench) -> None:
        bench.server.frozen_at = frozen_at

    bench, answer = on_bench(path, to_the_end, refuse=("slo",), set_up=freezes)

    assert answer.outcome == "refused"
    assert says(final_view(path).checks[-1].message, "singles_spoilt", "singles_missing")
    assert len(bench.generator.orders) == (1 if frozen_at == 1000.0 else 2)


def test_a_limit_under_the_floor_of_the_hardware_is_refused_before_load(path: Path) -> None:
    """The fake server's single streams take 47 ms a token: slower than the floor of 40 ms, so nothing speaks against it."""
    hardware = Hardware(weights_gb=40, gpu_bandwidth_gbs=1000, eta=1.0)
    asked = msgspec.structs.replace(config(), slo=Slo(ttft_s=1.0, tpot_s=0.03), fleet=FleetAsk(hardware=hardware))
    bench, answer = on_bench(path, to_the_end, probe=asked)

    assert answer.outcome == "refused"
    assert says(answer.message, "limit_under_floor")
    assert "no number of replicas changes that. " in prose.text(answer.message)
    assert {order.phase for order in bench.generator.orders} == {"single"}
    assert final_view(path).checks[-1].check == "speed"


def test_singles_that_miss_have_the_last_word_over_the_floor(path: Path) -> None:
    hardware = Hardware(weights_gb=40, gpu_bandwidth_gbs=1000, eta=1.0)
    asked = msgspec.structs.replace(config(), slo=Slo(ttft_s=0.01, tpot_s=0.03), fleet=FleetAsk(hardware=hardware))
    _, answer = on_bench(path, to_the_end, refuse=("slo",), probe=asked)

    assert answer.outcome == "infeasible"


def test_the_checks_alone(path: Path) -> None:
    bench, checks = on_bench(path, lambda bench: bench.session.preflight(), refuse=("model",))

    assert [check.status for check in checks] == ["pass", "pass", "refuse"]
    assert bench.generator.closed_at is not None
    assert {order.phase for order in bench.generator.orders} == {"single"}


def test_a_full_disk_ends_the_run_with_its_reason(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    room = [100_000]

    def little_room(fd: int, data: bytes) -> int:
        room[0] -= len(data)
        if room[0] < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(fd, data)

    monkeypatch.setattr(os, "write", little_room)
    bench, answer = on_bench(path, to_the_end)

    assert answer.outcome == "void"
    assert "the disk is full" in prose.text(answer.message)
    assert not bench.generator.loading
    assert bench.session.state.view(1e9).answer == answer
    assert len(list(runs.read_run(path))) > 10


def test_an_error_that_nobody_foresaw_is_kept_and_shown_without_the_key(path: Path) -> None:
    def broken(bench: Bench) -> None:
        vars(bench.session)["_access"] = Access(api_key="sk-TESTSECRET")
        bench.scraper.fails_at = 1010.0
        bench.scraper.words = "Illegal header value b'Bearer sk-TESTSECRET'"

    with pytest.raises(RuntimeError) as caught:
        on_bench(path, to_the_end, set_up=broken)
    assert str(caught.value) == "Illegal header value b'Bearer ***'"
    what = "RuntimeError: Illegal header value b'Bearer ***'"
    assert events_of(path, RunEnded)[0].answer.message == fact("own_error", what=what)
    assert b"TESTSECRET" not in path.read_bytes()


@pytest.mark.parametrize(("status", "outcome"), [("warn", "bracket"), ("refuse", "refused")])
def test_lengths_that_miss_on_the_idle_server_are_a_check_before_the_load(
    path: Path, monkeypatch: pytest.MonkeyPatch, status: CheckStatus, outcome: str
) -> None:
    found = fact("lengths_miss", missed_frac=0.07, allowed_frac=0.05, target=0.95, searches=True)
    said = Check(check=LENGTHS, status=status, message=found)
    monkeypatch.setattr("core.run.checking.lengths_check", lambda config, singles: said if len(singles) == 3 else None)
    _, answer = on_bench(path, to_the_end)

    assert answer.outcome == outcome
    assert said in [event.check for event in events_of(path, CheckDone)]
    loaded = [event.order.phase for event in events_of(path, RepeatStarted) if event.order.phase not in ("preflight", "single")]
    assert bool(loaded) == (status == "warn")

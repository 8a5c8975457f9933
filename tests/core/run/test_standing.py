"""How every request stands against its limits: by rate, by the moment it was due, and whatever becomes of its repeat."""

import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.config import Slo
from core.judge import CLOSING_S
from core.margins import AT_LIMIT, BINS, INNER_EDGES, bin_of, lower_edge
from core.records import RepeatOrder, RequestEnded, RequestFirst, RequestHeld, RequestSent
from core.results import Bounds
from core.run import log as runs
from core.run.events import Event, RepeatJudged, RepeatStarted, SearchRestarted, StepJudged, time_of
from core.run.standing import Sent, Standing
from core.run.state import State
from core.schedule import draw
from core.slo import good, least_margin, margin, sure_miss_at
from core.view import RateMargins, RunView
from tests import builders
from tests.core.judge.play import START as PLAYED_AT
from tests.core.judge.play import Play, Request, RequestEvent
from tests.core.judge.test_tally_property import LIMITS, plays, requests
from tests.core.run.bench import Bench, events_of, final_view, on_bench, scripted, stopped_at, to_the_end
from tests.core.run.events import CONFIG, SEGMENTS, START, due, ended, first, opening, order, request, sent
from tests.core.run.fakes import config
from tests.core.run.test_hold import late

SLO = CONFIG.slo
RATE_RPS = 4.0


# --- bins --------------------------------------------------------------------------------------------------------


def test_the_limit_itself_is_good_and_the_next_float_is_not() -> None:
    assert lower_edge(AT_LIMIT) == 1.0
    assert bin_of(1.0) == AT_LIMIT - 1
    assert bin_of(math.nextafter(1.0, 2.0)) == AT_LIMIT


@pytest.mark.parametrize(("share", "at"), [(None, 0), (0.0, 0), (-1.0, 0), (1e-9, 0), (1e9, BINS - 1), (math.inf, BINS - 1)])
def test_what_lies_beyond_the_bins_is_in_those_at_the_ends(share: float | None, at: int) -> None:
    assert bin_of(share) == at


@given(st.floats(0, 100) | st.sampled_from(INNER_EDGES))
def test_a_bin_holds_what_is_above_its_lower_edge_and_not_above_the_next(share: float) -> None:
    at = bin_of(share)
    assert at == 0 or share > lower_edge(at)
    assert at == BINS - 1 or share <= lower_edge(at + 1)


# --- the least margin --------------------------------------------------------------------------------------------


def least(r: Request, slo: Slo, now: float) -> float:
    """Of a request that was due at 0, by what is known of it at `now`."""
    begun = r.first is not None and r.first <= now
    return least_margin(
        slo.of(r.asked_input, r.asked), now, 0.0, r.asked, r.first if begun else None, r.first_tokens if begun else 0
    )


@given(requests(), LIMITS, st.floats(0, 5))
def test_the_least_margin_is_above_one_exactly_when_a_request_surely_misses(r: Request, slo: Slo, now: float) -> None:
    begun = r.first is not None and r.first <= now
    by = sure_miss_at(slo.of(r.asked_input, r.asked), 0.0, r.asked, r.first if begun else None, r.first_tokens if begun else 0)
    if not math.isclose(now, by, abs_tol=1e-9):  # there the two may round differently
        assert (least(r, slo, now) > 1.0) == (now > by)


@given(requests(), LIMITS, st.floats(0, 5), st.floats(0, 5))
def test_the_least_margin_never_falls_and_the_end_has_no_less(r: Request, slo: Slo, one: float, other: float) -> None:
    early, later = sorted((one, other))
    assert least(r, slo, early) <= least(r, slo, later)
    if r.ending == "ok" and r.last is not None and early <= r.last:
        *_, end = r.events(0, 0.0)
        assert isinstance(end, RequestEnded)
        assert bin_of(least(r, slo, early)) <= bin_of(margin(end, slo) or 0.0)


# --- the account -------------------------------------------------------------------------------------------------


def hear(standing: Standing, event: RequestEvent, r: Request) -> None:
    match event:
        case RequestSent() if r.held:
            standing.let_through(event)
        case RequestHeld() | RequestSent():
            standing.sent(event, Sent(event.t_sched, r.asked_input, r.asked, RATE_RPS, True))
        case RequestFirst():
            standing.first(event)
        case RequestEnded():
            standing.ended(event, CLOSING_S)


def only(standing: Standing, now: float) -> RateMargins:
    (rate,) = standing.look(now, CLOSING_S).margins
    return rate


@settings(max_examples=60, deadline=None)
@given(plays(), LIMITS)
def test_every_request_is_counted_once_and_as_it_is_judged(play: Play, slo: Slo) -> None:
    standing, came, records = Standing(slo), set[int](), []
    for event in play.events():
        hear(standing, event, play.flat[event.index])
        came.add(event.index)
        if isinstance(event, RequestEnded):
            records.append(event)
        rate = only(standing, time_of(event))
        assert (rate.sent, rate.judged) == (len(came), len(came))
        assert rate.good == sum(good(record, slo) for record in records)
        assert rate.missed >= sum(not good(record, slo) for record in records)
        assert rate.failed == sum(record.ending != "ok" for record in records)
        assert sum(rate.open) == len(came) - len(records)


@settings(max_examples=100, deadline=None)
@given(requests(), LIMITS, st.lists(st.floats(0, 4), max_size=6))
def test_an_open_request_is_never_in_a_higher_bin_than_at_its_end(r: Request, slo: Slo, looks: list[float]) -> None:
    """Also where its body ends after its last token: until it has, nobody knows that the token was the last."""
    standing, bins = Standing(slo), list[int]()
    pending: list[tuple[float, RequestEvent | None]] = [(t, None) for t in looks]
    pending += [(time_of(event) - PLAYED_AT, event) for event in r.events(0, PLAYED_AT)]
    for t, event in sorted(pending, key=lambda each: each[0]):
        if event is not None:
            hear(standing, event, r)
        elif (found := standing.look(PLAYED_AT + t, CLOSING_S)).margins and sum(found.margins[0].open):
            (at,) = (k for k, n in enumerate(found.margins[0].open) if n)
            bins.append(at)
            assert bool(found.overdue) == (at >= AT_LIMIT)
    assert bins == sorted(bins), "the least that is left to it never falls"
    if r.ending == "ok" and r.last is not None and bins:
        (end,) = (k for k, n in enumerate(only(standing, PLAYED_AT + 9).ended) if n)
        assert bins[-1] <= end


def test_an_answer_that_ended_ok_with_nothing_to_compare_is_as_good_as_can_be() -> None:
    """Its only limit is on TPOT, and it has a single token."""
    standing = Standing(Slo(ttft_s=None, tpot_s=0.05))
    r = Request(output=1, asked=1, last=0.1)
    for event in r.events(0, START):
        hear(standing, event, r)
    rate = only(standing, START + 5)
    assert (rate.ended[0], rate.good, rate.missed) == (1, 1, 0)


@pytest.mark.parametrize(("cut_s", "missed"), [(0.3, 0), (0.9, 1)], ids=["undecided", "past its limit"])
def test_what_was_cut_off_stays_open_unless_it_had_missed(cut_s: float, missed: int) -> None:
    standing = Standing(Slo(ttft_s=0.8, tpot_s=None))
    standing.sent(sent(0, START), Sent(START, 64, 21, RATE_RPS, True))
    fate = standing.ended(ended(0, START, START + cut_s, ttft_s=None, ending="aborted"), CLOSING_S)
    rate = only(standing, START + 60)

    assert fate is not None
    assert fate.good == (False if missed else None)
    assert (sum(rate.open), rate.good, rate.missed) == (1, 0, missed), "what it waits since says nothing"


# --- repeats that do not count -----------------------------------------------------------------------------------


def with_one(standing: Standing, number: int, repeat: int = 0) -> None:
    """A request of that order that ended well, and one that is still open."""
    for index in (0, 1):
        standing.sent(sent(index, START, number=number), Sent(START, 64, 11, RATE_RPS, True, repeat))
    standing.ended(ended(0, START, START + 0.3, number=number), CLOSING_S)


def abort(standing: Standing, number: int) -> None:
    standing.ended(ended(1, START, START + 0.4, ttft_s=None, ending="aborted", number=number), CLOSING_S)


@pytest.mark.parametrize("before", [True, False], ids=["aborts, then its verdict", "its verdict, then aborts"])
def test_a_void_repeat_leaves_nothing(before: bool) -> None:
    standing = Standing(SLO)
    with_one(standing, 1)
    if before:
        abort(standing, 1)
    standing.judged(1, 0, void=True)
    if not before:
        abort(standing, 1)
    with_one(standing, 2)
    assert only(standing, START + 0.3).sent == 2, "those of the second order alone"


@pytest.mark.parametrize("before", [True, False], ids=["aborts, then its verdict", "its verdict, then aborts"])
def test_what_a_repeat_that_counts_had_open_stays_though_the_next_is_void(before: bool) -> None:
    standing = Standing(SLO)
    with_one(standing, 1)
    if before:
        abort(standing, 1)
    standing.judged(1, 0, void=False)
    if not before:
        abort(standing, 1)
    with_one(standing, 2)
    abort(standing, 2)
    standing.judged(2, 0, void=True)
    assert (only(standing, START + 9).sent, only(standing, START + 9).good) == (2, 1)


def test_a_void_segment_of_a_held_rate_takes_neither_its_neighbours_with_it_nor_what_is_sent_meanwhile() -> None:
    standing = Standing(SLO)
    for segment in range(3):  # the next one is being sent when a segment is judged
        for k in (0, 1):
            index = 2 * segment + k
            standing.sent(sent(index, START), Sent(START, 64, 11, RATE_RPS, True, segment))
            if k or segment != 1:
                standing.ended(ended(index, START, START + 0.3), CLOSING_S)
    standing.judged(1, 0, void=False)
    standing.judged(1, 1, void=True)
    standing.judged(1, 2, void=False)
    standing.ended(ended(2, START, START + 0.3), CLOSING_S)  # open for long, of the void segment

    assert (only(standing, START + 1).sent, only(standing, START + 1).good) == (4, 4)


def test_a_search_that_begins_anew_forgets_also_what_is_open() -> None:
    standing = Standing(SLO)
    with_one(standing, 1)
    standing.judged(1, 0, void=False)
    with_one(standing, 2)
    standing.forget()
    abort(standing, 2)
    abort(standing, 1)
    assert standing.look(START + 9, CLOSING_S).margins == ()
    with_one(standing, 3)
    assert only(standing, START + 9).sent == 2


def test_a_day_of_a_held_rate_keeps_no_more_than_an_hour() -> None:
    """2,160 segments of 40 s, every tenth of them void: what is kept is a count for each bin."""
    standing = Standing(SLO)
    for segment in range(2160):
        for k in range(3):
            index = 3 * segment + k
            standing.sent(sent(index, START), Sent(START, 64, 11, RATE_RPS, True, segment))
            standing.ended(ended(index, START, START + 0.3), CLOSING_S)
        standing.judged(1, segment, void=segment % 10 == 0)
    assert (len(standing._open), len(standing._unjudged), len(standing._kept)) == (0, 0, 1)
    assert only(standing, START).sent == 3 * 2160 * 9 // 10


# --- through the state -------------------------------------------------------------------------------------------


def applied(*events: Event) -> State:
    state = State()
    for event in events:
        state.apply(event)
    return state


def assert_adds_up(view: RunView, state_sent: int) -> None:
    assert sum(at.good + at.missed + at.open for at in view.outcomes) == state_sent
    assert all(min(at.good, at.missed, at.open) >= 0 for at in view.outcomes)


def test_the_faster_half_of_a_warm_up_belongs_to_no_rate_and_all_of_it_to_the_outcomes() -> None:
    plan = order()
    times = due(plan)[due(plan) < plan.start_at + 8].tolist()
    state = applied(*opening(plan), *sorted((e for k, t in enumerate(times) for e in request(k, t)), key=time_of))
    view = state.view(plan.start_at + 9)
    (rate,) = view.margins
    faster = sum(t < plan.start_at + SEGMENTS[0].duration_s for t in times)

    assert faster > 3
    assert (rate.rate_rps, rate.sent, rate.good) == (4.0, len(times) - faster, len(times) - faster)
    assert rate.judged == sum(t >= plan.start_at + 4 for t in times)
    assert_adds_up(view, len(times))
    assert {at.rate_rps for at in view.outcomes if at.good} == {4.0}, "the whole warm-up is of the rate that is judged"


def test_the_end_of_a_request_reaches_the_pictures_also_after_its_step_is_closed() -> None:
    plan = order()
    t = float(due(plan)[0])
    result = builders.repeat("fail", (0.0, 0.5))
    step = builders.step(4.0, "fail", result)
    state = applied(*opening(plan), sent(0, t), RepeatJudged(t=t + 5, step=1, result=result), StepJudged(t=t + 5, result=step))
    assert sum(at.missed for at in state.view(t + 6).outcomes) == 1, "late by now"
    state.apply(ended(0, t, t + 6.1, ttft_s=None, ending="aborted"))
    view = state.view(t + 9)
    assert_adds_up(view, 1)
    assert sum(at.missed for at in view.outcomes) == 1
    assert view.series[-1].in_flight == 0


def test_the_account_of_a_warm_up_stands_still_once_the_repeat_is_judged() -> None:
    plan = order()
    times = due(plan)
    warm = [k for k, t in enumerate(times) if plan.start_at + 2 <= t < plan.start_at + 4]
    state = applied(*opening(plan), *(sent(k, float(times[k])) for k in warm))
    at = plan.start_at + 6
    state.apply(RepeatJudged(t=at, step=1, result=builders.repeat("fail", (0.0, 0.5))))
    before = state.view(at)
    for k in warm:
        state.apply(ended(k, float(times[k]), at + 0.1, ttft_s=None, ending="aborted"))
    after = state.view(at + 5)

    told = [view.current.live.warmup for view in (before, after) if view.current is not None and view.current.live is not None]
    assert told == [Bounds(planned=len(warm), good=0, bad=len(warm), open=0, overdue=len(warm))] * 2


def counts_of(path: Path, view: RunView) -> None:
    """What the view says at a run's end beside what its records say, by rate and over all."""
    probe = view.config
    assert probe is not None
    orders = {event.order.order: event.order for event in events_of(path, RepeatStarted)}
    loads = {n: each for n, each in orders.items() if each.phase not in ("preflight", "single")}
    void = {(e.result.order, e.result.index) for e in events_of(path, RepeatJudged) if e.result.verdict == "void"}
    sent_at: dict[float, int] = {}
    good_at: dict[float, int] = {}
    plans = {n: draw(each, probe.workload) for n, each in loads.items()}

    def rate_of(event: RequestSent | RequestEnded) -> float | None:
        if event.order not in loads:
            return None
        each = loads[event.order]
        measured = {s.rate_rps for s in each.segments if s.role == "measured"}
        at = int(plans[event.order].segment[event.index])
        within = sum(s.role == "measured" for s in each.segments[:at]) if each.phase == "hold" else 0
        is_void = (event.order, each.repeat + within) in void
        return each.segments[at].rate_rps if each.segments[at].rate_rps in measured and not is_void else None

    left = events_of(path, RequestSent)
    for event in left:
        if (rate_rps := rate_of(event)) is not None:
            sent_at[rate_rps] = sent_at.get(rate_rps, 0) + 1
    for record in events_of(path, RequestEnded):
        if (rate_rps := rate_of(record)) is not None:
            good_at[rate_rps] = good_at.get(rate_rps, 0) + good(record, probe.slo)
    assert {rate.rate_rps: rate.sent for rate in view.margins} == sent_at
    assert {rate.rate_rps: rate.good for rate in view.margins} == {rate_rps: good_at.get(rate_rps, 0) for rate_rps in sent_at}
    assert_adds_up(view, sum(event.order in loads for event in left))


def test_at_the_end_of_a_search_every_request_is_counted_at_its_rate(path: Path) -> None:
    on_bench(path, to_the_end)
    view = final_view(path)
    assert len(view.margins) >= 4
    counts_of(path, view)


@pytest.mark.usefixtures("short_orders")
@pytest.mark.parametrize("client_late", [False, True], ids=["", "the first segments void"])
def test_at_the_end_of_a_held_rate_too(path: Path, client_late: bool) -> None:
    on_bench(
        path,
        stopped_at(1200.0),
        probe=config(hold_rps=RATE_RPS, measure_s=30.0),
        set_up=late if client_late else lambda bench: None,
    )
    verdicts = [event.result.verdict for event in events_of(path, RepeatJudged)]
    assert ("void" in verdicts) == client_late
    counts_of(path, final_view(path))


def test_a_repeat_that_is_done_again_is_counted_once(path: Path) -> None:
    orders: list[int] = []

    def lateness_s(each: RepeatOrder) -> float:
        if each.phase == "confirm":
            orders.append(each.order)
        return 2.0 if orders == [each.order] else 0.0

    def one_late(bench: Bench) -> None:
        scripted(builders.asked_step(RATE_RPS, 1))(bench)
        bench.generator.late_s = lateness_s

    on_bench(path, to_the_end, set_up=one_late)
    assert [event.result.verdict for event in events_of(path, RepeatJudged)] == ["void", "pass"]
    counts_of(path, final_view(path))


def test_before_a_restart_of_the_search_nothing_counts() -> None:
    plan = order()
    t = float(due(plan)[30])
    result = builders.repeat("pass", (1.0, 1.0))
    state = applied(*opening(plan), sent(30, t), first(30, t + 0.1), ended(30, t, t + 0.3))
    assert state.view(t + 1).margins
    state.apply(RepeatJudged(t=t + 2, step=1, result=result))
    state.apply(StepJudged(t=t + 2, result=builders.step(4.0, "pass", result)))
    state.apply(SearchRestarted(t=t + 3, since=t))
    assert state.view(t + 4).margins == ()
    assert_adds_up(state.view(t + 4), 1)


def test_the_recorded_run_adds_up_at_any_moment() -> None:
    path = Path("tests/data/pictures/kvlim-inverted.jsonl")
    state, sent_, looked = State(), 0, -math.inf
    loads: set[int] = set()
    for event in runs.read_run(path):
        state.apply(event)
        if isinstance(event, RepeatStarted) and event.order.phase not in ("preflight", "single"):
            loads.add(event.order.order)
        sent_ += isinstance(event, RequestSent) and event.order in loads
        if time_of(event) > looked + 1:
            looked = time_of(event)
            assert_adds_up(state.view(looked), sent_)
    counts_of(path, state.view(looked))

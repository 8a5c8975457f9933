"""What the view shows of the repeat that runs: the rates of a ramp, and what the client says of itself."""

import msgspec
import pytest

from core.records import LoadTick, RepeatOrder, Segment, ServerSample, SharedBlocks
from core.results import StepVerdict
from core.run.events import RepeatJudged, ServerSampled, StepJudged
from core.run.state import State
from tests.core.run.events import START, due, opening, order, request, sent
from tests.core.run.test_state import applied, repeat_result, step_result


def ramp(*rates_rps: float) -> RepeatOrder:
    segments = tuple(Segment(rate_rps=rate, duration_s=5.0, role="measured") for rate in rates_rps)
    return order(phase="ramp", segments=segments)


def rows(state: State, t: float) -> list[tuple[float, bool]]:
    return [(segment.rate_rps, segment.held) for segment in state.view(t).ramp]


def all_good(plan: RepeatOrder, until: float) -> State:
    """A ramp of which everything that was due by then was sent and answered well."""
    state = applied(*opening(plan))
    for index, t in enumerate(due(plan)):
        if t < until:
            for event in request(index, float(t)):
                state.apply(event)
    return state


def test_the_rate_of_a_ramp_is_that_of_the_segment_being_sent() -> None:
    state = applied(*opening(ramp(1.0, 2.0, 4.0)))

    rates = [view.current.rate_rps for t in (0, 4.9, 5.1, 14, 99) if (view := state.view(START + 1 + t)).current]
    assert rates == [1.0, 1.0, 2.0, 4.0, 4.0]


def test_a_rate_of_the_ramp_that_was_never_sent_has_no_row() -> None:
    """The load was cut off in the second segment; by the clock the third one has begun when the ramp is judged."""
    plan = ramp(4.0, 8.0, 16.0)
    state = all_good(plan, plan.start_at + 9.0)
    before = [rate for rate, _ in rows(state, plan.start_at + 8.0)]
    late = [rate for rate, _ in rows(state, plan.start_at + 12.0)]
    state.apply(RepeatJudged(t=plan.start_at + 12.0, step=1, result=repeat_result()))
    state.apply(StepJudged(t=plan.start_at + 12.0, result=step_result(phase="ramp")))

    assert before == late == [4.0, 8.0]
    assert rows(state, plan.start_at + 30.0) == [(4.0, True), (8.0, False)]


def test_a_segment_of_one_request_is_not_held_before_it_is_good() -> None:
    """A segment may miss one request: what is open is as good as missed, and nothing was seen to hold."""
    plan = ramp(*(0.2 for _ in range(20)))
    (_, at) = min((t, at) for at, t in enumerate(due(plan)))
    t = float(due(plan)[at])
    state = applied(*opening(plan), sent(at, t))

    assert [held for _, held in rows(state, t + 0.01)] == [False]
    for event in request(at, t)[1:]:
        state.apply(event)
    assert [held for _, held in rows(state, t + 0.3)] == [True]


@pytest.mark.parametrize(("verdict", "kept"), [("pass", True), ("fail", True), ("void", False), ("unjudged", False)])
def test_the_rates_of_a_ramp_stay_only_where_it_was_judged(verdict: StepVerdict, kept: bool) -> None:
    plan = ramp(4.0, 8.0)
    state = all_good(plan, plan.start_at + 10.0)
    state.apply(StepJudged(t=plan.start_at + 12.0, result=step_result(phase="ramp", verdict=verdict)))

    assert rows(state, plan.start_at + 13.0) == ([(4.0, True), (8.0, True)] if kept else [])


def own(t: float, lag_s: float, cpu_frac: float, number: int = 1) -> LoadTick:
    return LoadTick(order=number, t=t, in_flight=0, loop_lag_max_s=lag_s, cpu_frac=cpu_frac)


def test_what_the_client_says_of_itself() -> None:
    state = applied(*opening(order()))
    before = state.view(START + 2).current
    for t, lag_s, cpu_frac, number in ((2.0, 0.001, 0.10, 1), (2.5, 0.019, 0.25, 1), (3.0, 0.002, 0.15, 1), (3.1, 9.0, 1.0, 7)):
        state.apply(own(START + t, lag_s, cpu_frac, number))
    after = state.view(START + 4).current

    assert before is not None
    assert before.live is not None
    assert (before.live.client_cpu_frac, before.live.loop_lag_max_s) == (None, None)
    assert after is not None
    assert after.live is not None
    assert (after.live.client_cpu_frac, after.live.loop_lag_max_s, after.live.stalled) == (0.25, 0.019, False)


@pytest.mark.parametrize(("stalls", "stalled"), [(0, False), (1, False), (2, True)])
def test_a_client_that_stands_still_again_and_again_is_told_while_it_runs(stalls: int, stalled: bool) -> None:
    """As the repeat will be judged: the limit is 20 % of a TTFT limit of 500 ms, one stall is forgiven."""
    state = applied(*opening(order()))
    for at in range(10):
        state.apply(own(START + 2 + at / 2, 0.101 if at < stalls else 0.099, 0.1))
    now = state.view(START + 8).current

    assert now is not None
    assert now.live is not None
    assert now.live.stalled is stalled


def test_of_a_held_rate_the_client_is_seen_for_the_segment_that_is_sent() -> None:
    segments = (Segment(rate_rps=4.0, duration_s=10, role="measured"), Segment(rate_rps=4.0, duration_s=10, role="measured"))
    state = applied(*opening(order(phase="hold", segments=segments)))
    state.apply(own(START + 5, 0.5, 0.9))
    state.apply(own(START + 12, 0.002, 0.1))
    now = state.view(START + 12.5).current

    assert now is not None
    assert now.live is not None
    assert (now.live.client_cpu_frac, now.live.loop_lag_max_s) == (0.1, 0.002)


def looked_up(t: float, queries: float, hits: float) -> ServerSampled:
    reading = ServerSample(t=t, took_s=0.01, prefix_queries_total=queries, prefix_hits_total=hits, epoch=1.0)
    return ServerSampled(t=t, sample=reading)


def test_prefix_hits_are_those_of_the_repeat_that_runs() -> None:
    """What its prefixes took is counted before it begins."""
    plan = order()
    begin, *rest = opening(plan)
    state = applied(begin, looked_up(START, 5000, 4000), *rest)
    found = []
    for t, queries, hits in ((1.0, 5000, 4000), (2.0, 6000, 4600), (3.0, 7000, 5000)):
        state.apply(looked_up(START + 1 + t, queries, hits))
        current = state.view(START + 1 + t).current
        assert current is not None
        assert current.live is not None
        found.append(current.live.prefix_hit_frac)
    assert found == [None, 0.6, 0.5]


def test_the_hits_that_were_planned_are_those_of_what_was_due() -> None:
    """Of four prompts of 32 tokens, one a second, all but the first begin with a block of 16 that came before."""
    blocks = SharedBlocks(block_tokens=16, parents=(-1,), blocks=(1,), of=(0, 0, 0, 0))
    state = applied(*opening(msgspec.structs.replace(order(), offsets_s=(0.5, 1.5, 2.5, 3.5), shared=blocks)))
    begin = order().start_at

    def planned(after_s: float) -> float | None:
        current = state.view(begin + after_s).current
        assert current is not None
        assert current.live is not None
        return current.live.planned_hit_frac

    assert [planned(after_s) for after_s in (0.1, 1.0, 2.0, 4.0)] == [None, 0.0, 0.25, 0.375]

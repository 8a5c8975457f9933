"""Whatever happens, in whatever order it is reported: the bounds hold the end, and what is certain stays so."""

from dataclasses import replace

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from core.config import Slo, SloByKind
from core.judge.stopping import REPORT_DELAY_S, decide_ramp, decide_step
from core.judge.tally import CLOSING_S, Tally
from core.records import Ending
from core.slo import allowed_misses, needed_good
from tests.core.judge.play import START, Play, Request, RequestEvent, aborted, apply, measured, rules, tail, time_of, warmup

LIMITS = st.sampled_from(
    [
        Slo(ttft_s=0.8, tpot_s=0.05),
        Slo(ttft_s=0.8, tpot_s=None),
        Slo(ttft_s=None, tpot_s=0.05),
        Slo(ttft_s=None, tpot_s=None, e2e_s=2.0),
        Slo(ttft_s=0.8, tpot_s=0.05, e2e_s=1.5, target=0.8),
        Slo(ttft_s=0.5, tpot_s=0.1, e2e_s=3.0, target=0.5, max_error_rate=0.2),
        SloByKind(
            ttft_s=0.8,
            tpot_s=0.05,
            kinds={(512, 1): Slo(ttft_s=0.2, tpot_s=None, e2e_s=0.5), (512, 2): Slo(ttft_s=None, tpot_s=None, e2e_s=4.0)},
        ),
    ]
)
ENDINGS: st.SearchStrategy[Ending] = st.sampled_from(
    ("ok", "ok", "ok", "ok", "http", "stream", "truncated", "empty", "timeout", "connection")
)

TURNED_AWAY: tuple[Ending, ...] = ("rejected", "queue_timeout")


@st.composite
def requests(draw: st.DrawFn) -> Request:
    """Any fate: fast, slow, at the limit, one clump, an early end, a hanging stream, an error, a slow end of the body; held back by
    a gateway's limit until it left, or turned away there."""
    late = draw(st.sampled_from([0.0, 0.001, 0.4]))
    asked = draw(st.sampled_from([1, 2, 21]))
    first_tokens = draw(st.integers(1, asked))
    output = draw(st.just(asked) | st.integers(first_tokens, asked))
    first = late + draw(st.sampled_from([0.0, 0.1, 0.4, 0.8, 1.2]) | st.floats(0, 2))
    per_token = draw(st.sampled_from([0.0, 0.02, 0.0499, 0.05, 0.0999, 0.3]))
    last = first + per_token * (output - first_tokens)
    closing = draw(st.sampled_from([0.0, 0.001, 0.99 * CLOSING_S]))
    ok = Request(late=late, first=first, last=last, closing=closing, first_tokens=first_tokens, output=output, asked=asked)
    ok = replace(ok, held=draw(st.booleans()))
    if ok.held and draw(st.integers(0, 3)) == 0:
        away = draw(st.sampled_from(TURNED_AWAY))
        return replace(ok, ending=away, late=None, first=None, last=None, end=draw(st.floats(0, 3)))
    ending = draw(ENDINGS)
    if ending == "ok":
        return replace(ok, end=None) if draw(st.integers(0, 9)) else replace(ok, last=None)
    reached = draw(st.booleans())
    return replace(ok, ending=ending, first=first if reached else None, last=None, end=first + draw(st.floats(0, 3)))


JUST_IN_TIME = st.builds(
    lambda first, first_tokens, closing: Request(
        first=first, last=first + 0.0499 * (21 - first_tokens), first_tokens=first_tokens, closing=closing
    ),
    st.sampled_from([0.1, 0.399, 0.499]),
    st.integers(1, 20),
    st.sampled_from([0.0, 0.99 * CLOSING_S]),
)
"""Inside every limit by a hair, and known to be only when the body ends."""


@st.composite
def plays(draw: st.DrawFn) -> Play:
    fates = draw(st.sampled_from([requests(), JUST_IN_TIME]))
    warm, window, after = (draw(st.lists(fates, max_size=n)) for n in (4, 12, 3))
    return Play((warmup(1.0), measured(4.0), tail(2.0)), (tuple(warm), tuple(window), tuple(after)))


def final_good(play: Play, slo: Slo, part: int = 1) -> int:
    """By definition, from the numbers of the requests; one that never ends is not good."""
    good = 0
    for r in play.requests[part]:
        if r.ending != "ok" or r.first is None or r.last is None:
            continue
        later, own = r.output - r.first_tokens, slo.of(r.asked_input, r.asked)
        fast = own.ttft_s is None or r.first <= own.ttft_s + 1e-9
        steady = own.tpot_s is None or later == 0 or (r.last - r.first) / later <= own.tpot_s + 1e-9
        done = own.e2e_s is None or r.last <= own.e2e_s + 1e-9
        good += fast and steady and done
    return good


def at_a_limit(play: Play, slo: Slo) -> bool:
    """Whether rounding alone can tip a request: such a play has no exact end to compare with."""
    loose, tight = (
        final_good(
            play, Slo(ttft_s=slo.ttft_s and slo.ttft_s + d, tpot_s=slo.tpot_s and slo.tpot_s + d, e2e_s=slo.e2e_s and slo.e2e_s + d)
        )
        for d in (1e-7, -1e-7)
    )
    return loose != tight


@settings(max_examples=120, deadline=None)
@given(plays(), LIMITS)
def test_bounds_hold_the_end_at_every_moment_and_counts_add_up(play: Play, slo: Slo) -> None:
    tally = play.tally(slo)
    events = play.events()
    whole = play.played(slo=slo)
    end = whole.bounds(START + 1e5)
    if not at_a_limit(play, slo):
        assert end.good == final_good(play, slo)
    for event, following in zip(events, events[1:] + events[-1:], strict=True):
        apply(tally, [event])
        for now in (time_of(event), max(time_of(event), time_of(following) - 1e-9)):
            bounds = tally.bounds(now)
            unsent = bounds.planned - bounds.sent
            assert min(bounds.good, bounds.bad, bounds.open, unsent) >= 0
            assert bounds.good <= end.good <= bounds.planned - bounds.bad
            if bounds.so_far is not None:
                assert 0 <= bounds.so_far[0] <= bounds.so_far[1] <= 1


@st.composite
def reported(draw: st.DrawFn) -> tuple[Play, list[tuple[float, RequestEvent]]]:
    """A play whose events are reported up to REPORT_DELAY_S late, those of one request in order."""
    play = draw(plays())
    arrivals: list[tuple[float, RequestEvent]] = []
    for index, (request, offset) in enumerate(zip(play.flat, play.offsets_s, strict=True)):
        seen = 0.0
        for event in request.events(index, START + offset):
            seen = max(seen, time_of(event) + draw(st.sampled_from([0.0, 0.0, 0.1, 0.99 * REPORT_DELAY_S])))
            arrivals.append((seen, event))
    return play, sorted(arrivals, key=lambda pair: pair[0])


@settings(max_examples=120, deadline=None)
@given(reported(), LIMITS)
def test_a_certain_verdict_never_changes(story: tuple[Play, list[tuple[float, RequestEvent]]], slo: Slo) -> None:
    play, arrivals = story
    tally = play.tally(slo)
    planned = len(play.requests[1])
    end = play.played(slo=slo)
    good = end.bounds(START + 1e5).good
    for now, event in arrivals:
        decisions = [decide_step(tally, now, rules(slo), drain_s=120.0)]
        apply(tally, [event])
        decisions.append(decide_step(tally, now, rules(slo), drain_s=120.0))
        for decision in decisions:
            match decision.kind if decision and planned else None:
                case "fail":
                    assert good < needed_good(planned, slo.target) or end.measured_errors > slo.max_error_rate * planned
                case "pass":
                    assert good >= needed_good(planned, slo.target)
                    assert now >= tally.layout.window[1]
                case "complete":
                    assert tally.bounds(now).good == good
                    assert now >= tally.layout.window[1]
    assert decide_step(tally, START + 300.0, rules(slo), drain_s=120.0) is not None, "a step always comes to an end"


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(requests(), min_size=1, max_size=8), min_size=1, max_size=4), LIMITS)
def test_a_failed_segment_of_a_ramp_stays_failed(parts: list[list[Request]], slo: Slo) -> None:
    play = Play(tuple(measured(2.0, 2.0**i) for i in range(len(parts))), tuple(tuple(p) for p in parts), phase="ramp")
    tally, end = play.tally(slo), play.played(slo=slo)
    for event in play.events():
        apply(tally, [event])
        decision = decide_ramp(tally, time_of(event), rules(slo))
        if decision is not None and decision.segment is not None:
            bounds = end.bounds(START + 1e5, decision.segment)
            assert bounds.planned - bounds.good > max(1, allowed_misses(bounds.planned, slo.target))
    assert decide_ramp(tally, START + 300.0, rules(slo)) is not None, "a ramp always comes to an end"


@settings(max_examples=60, deadline=None)
@given(plays(), LIMITS, st.floats(0, 8))
def test_an_abort_keeps_the_bounds_of_its_moment(play: Play, slo: Slo, at: float) -> None:
    before: Tally = play.played(until=at, slo=slo)
    after = aborted(play, at, slo)
    assert after.bounds(START + 1e5) == msgspec.structs.replace(before.bounds(START + at), overdue=0), "nothing is open any more"
    assert after.in_flight == 0

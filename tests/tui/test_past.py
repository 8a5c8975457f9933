"""The past of a run that still goes on: one view for each stretch of time, never too many, and the cursor that moves in them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace
from textual.pilot import Pilot

from core.margins import BINS
from core.results import Answer
from core.view import Outcomes, RateMargins, RunView
from tests.tui import samples
from tests.tui.screen import Held, lines_of, settle, shown, text_of
from tests.tui.test_app import FakeRun
from tui.app import KneescopeApp, RunControls
from tui.past import MOST, Past
from tui.widgets.plot_view import PlotPanel
from tui.widgets.ribbon import Ribbon


def view_at(now_s: float, **given: object) -> RunView:
    return RunView(version=int(4 * now_s), now_s=now_s, bin_s=1.0, **given)  # type: ignore[arg-type]


def past_of(*moments_s: float) -> Past:
    past = Past()
    for now_s in moments_s:
        past.keep(view_at(now_s))
    return past


def moment(view: RunView | None) -> float | None:
    return None if view is None else view.now_s


def test_of_each_second_the_last_view_is_kept() -> None:
    past = past_of(0.1, 0.4, 0.9, 1.2, 1.7, 2.1)
    assert len(past) == 3
    assert moment(past.at(0.0)) == 0.9
    assert moment(past.at(1.6)) == 1.7


def test_what_is_not_past_yet_is_now() -> None:
    past = past_of(0.9, 1.9, 2.5)
    assert past.at(2.5) is None
    assert past.at(60.0) is None
    assert past.beyond(1.9, 1.0) is None
    assert Past().at(0.0) is None
    assert Past().beyond(0.0, -1.0) is None


@pytest.mark.parametrize("by_s", [0.01, 0.4, 1.0])
def test_each_step_back_or_ahead_leads_to_another_view_however_short_it_is(by_s: float) -> None:
    past = past_of(*(second + 0.9 for second in range(10)), 10.2)
    seen = [9.9]
    while seen[-1] > 1.0:
        seen.append(moment(past.beyond(seen[-1], -by_s)) or 0.0)
    assert seen == [second + 0.9 for second in range(9, -1, -1)]
    while (later := past.beyond(seen[-1], by_s)) is not None:
        assert later.now_s > seen[-1]
        seen.append(later.now_s)
    assert seen[-1] == 9.9


def test_a_long_step_leads_as_far_as_it_says_and_not_beyond_the_first() -> None:
    past = past_of(*(second + 0.9 for second in range(60)))
    assert moment(past.beyond(50.9, -20.0)) == 30.9
    assert moment(past.beyond(30.9, 20.0)) == 50.9
    assert moment(past.beyond(5.9, -20.0)) == 0.9
    assert moment(past.beyond(0.9, -20.0)) == 0.9


def test_a_long_run_is_thinned_evenly_and_its_newest_view_stays() -> None:
    past = past_of(*(quarter / 4 for quarter in range(4 * 3000)))
    assert MOST / 2 < len(past) <= MOST
    kept = [past.beyond(-1.0, 1.0 + at * 10) for at in range(290)]
    assert all(view is not None and abs(view.now_s - at * 10) <= 8.0 for at, view in enumerate(kept))
    assert past.at(2999.75) is None


def test_what_has_not_changed_since_is_kept_once() -> None:
    def outcomes(open_: int) -> tuple[Outcomes, ...]:
        done = tuple(Outcomes(t_s=float(at), step=1, rate_rps=4.0, good=4) for at in range(9))
        return (*done, Outcomes(t_s=9.0, step=1, rate_rps=4.0, open=open_))

    def margins(good: int) -> tuple[RateMargins, ...]:
        rates = ((1.0, 7), (2.0, good))
        return tuple(RateMargins(rate_rps=rate, ended=(n, *(0,) * (BINS - 1)), open=(0,) * BINS) for rate, n in rates)

    past = Past()
    given = [view_at(at + 0.9, outcomes=outcomes(at), margins=margins(at)) for at in range(3)]
    for view in given:
        past.keep(view)
    kept = [past.at(at + 0.9) for at in range(2)]
    assert [replace(view, version=0) for view in kept if view] == [replace(view, version=0) for view in given[:2]]
    first, second = (view for view in kept if view is not None)
    assert all(mine is theirs for mine, theirs in zip(first.outcomes[:9], second.outcomes[:9], strict=True))
    assert first.outcomes[9] is not second.outcomes[9]
    assert first.margins[0] is second.margins[0]


# --- the cursor in a live run -------------------------------------------------------------------------------------


def live_at(now_s: float) -> RunView:
    """A run whose TTFT tells the second: each second brings one more bin."""
    whole = samples.mid_step()
    known = int(now_s)
    outcomes = tuple(Outcomes(t_s=float(at), step=5, rate_rps=12.4, good=at, counted=True) for at in range(known))
    return replace(whole, version=known, now_s=now_s, series=whole.series[:known], outcomes=outcomes)


@asynccontextmanager
async def going_on(
    size: tuple[int, int] = (122, 36),
) -> AsyncIterator[tuple[KneescopeApp, Pilot[Answer | None], Held, FakeRun]]:
    """A run that is a minute and 20 s old, polled once a second until then: the axis is 90 s, a column 0.75 s."""
    fake = FakeRun()
    async with shown(live_at(40.5), size, run=fake.run, controls=RunControls(stop=fake.stop)) as (app, pilot, held):
        fake.held = held
        for second in range(41, 81):
            held.now = live_at(second + 0.5)
            app.look()
        await settle(app, pilot)
        yield app, pilot, held, fake


async def press(app: KneescopeApp, pilot: Pilot[Answer | None], *keys: str) -> None:
    await pilot.press(*keys)
    await settle(app, pilot)


async def test_left_and_right_move_through_the_past_while_the_load_goes_on() -> None:
    async with going_on() as (app, pilot, held, fake):
        await press(app, pilot, "left", "left")
        rows = lines_of(app)
        assert "‖ VIEW at 1:18, now 1:20, the load goes on" in rows[1]
        assert "● LOADING" in rows[1]
        assert "↑ 1:18  12.4 req/s: 78 good" in text_of(app) or "1:18  12.4 req/s: 78 good ↑" in text_of(app)
        held.now = live_at(83.5)
        await settle(app, pilot)
        assert "VIEW at 1:18, now 1:23" in text_of(app)
        await press(app, pilot, "right")
        assert "VIEW at 1:19" in text_of(app)
        await press(app, pilot, "right", "right", "right", "right", "right")
        assert "VIEW" not in text_of(app)
        assert fake.stops == 0


@pytest.mark.parametrize(("back", "ahead"), [("comma", "full_stop"), ("shift+left", "shift+right")])
async def test_other_keys_move_it_by_a_twentieth(back: str, ahead: str) -> None:
    async with going_on() as (app, pilot, _, _):
        await press(app, pilot, back, back)
        assert "VIEW at 1:12" in text_of(app)
        await press(app, pilot, ahead)
        assert "VIEW at 1:16" in text_of(app)


@pytest.mark.parametrize("key", ["space", "escape", "end"])
async def test_several_keys_lead_back_to_now(key: str) -> None:
    async with going_on() as (app, pilot, _, _):
        await press(app, pilot, "comma")
        assert "VIEW at" in text_of(app)
        await press(app, pilot, key)
        assert "VIEW" not in text_of(app)


async def test_escape_closes_a_zoomed_panel_first() -> None:
    async with going_on() as (app, pilot, _, _):
        await press(app, pilot, "comma", "3", "escape")
        assert "VIEW at" in text_of(app)
        await press(app, pilot, "escape")
        assert "VIEW" not in text_of(app)


async def test_a_pause_is_the_same_with_this_moment_and_can_be_moved() -> None:
    async with going_on() as (app, pilot, held, _):
        await press(app, pilot, "space")
        held.now = live_at(88.5)
        await settle(app, pilot)
        assert "‖ VIEW at 1:20, now 1:28, the load goes on" in text_of(app)
        await press(app, pilot, "left")
        assert "‖ VIEW at 1:19, now 1:28" in text_of(app)


@pytest.mark.parametrize("key", ["x", "q", "ctrl+c"])
async def test_a_stop_ends_it_and_shows_now(key: str) -> None:
    async with going_on() as (app, pilot, _, fake):
        await press(app, pilot, "comma", key)
        assert fake.stops == 1
        assert "VIEW" not in text_of(app)
        assert "■ STOPPED" in text_of(app)


async def test_the_end_of_the_run_ends_it_but_its_past_can_still_be_seen() -> None:
    async with going_on() as (app, pilot, held, _):
        await press(app, pilot, "comma")
        held.now = replace(samples.finished(), now_s=81.0, series=live_at(81.5).series, outcomes=live_at(81.5).outcomes)
        await settle(app, pilot)
        assert "VIEW" not in text_of(app)
        await press(app, pilot, "r", "left")
        assert "‖ VIEW at 1:20 of 1:21" in text_of(app)
        assert "● LOADING" not in lines_of(app)[1]


async def test_a_click_on_the_ribbon_sets_it_and_one_on_what_is_not_yet_leads_back() -> None:
    async with going_on() as (app, pilot, _, _):
        await pilot.click(Ribbon, offset=(1 + 79, 0))
        await settle(app, pilot)
        assert "VIEW at 0:59" in text_of(app) or "VIEW at 1:00" in text_of(app)
        await pilot.click(Ribbon, offset=(1 + 117, 1))
        await settle(app, pilot)
        assert "VIEW" not in text_of(app)


async def test_plots_show_the_moment_on_the_axis_of_the_ribbon_with_a_line_at_it() -> None:
    async with going_on() as (app, pilot, held, _):
        await press(app, pilot, "comma", "comma", "comma", "comma")
        held.now = live_at(100.5)
        await settle(app, pilot)
        for name in ("ttft", "tpot", "queue", "kv"):
            body = app.screen.query_one(f"#{name}", PlotPanel)._body
            assert not isinstance(body, str)
            assert body.x_range == (0.0, 120.0)
            assert [upright.name for upright in body.uprights] == ["1:04"]
            assert max(t for curve in body.curves for t, _ in curve.points) < 65.5


async def test_on_the_fleet_left_and_right_belong_to_the_slider() -> None:
    async with going_on() as (app, pilot, _, _):
        await press(app, pilot, "f")
        app.screen.set_focus(None)
        await press(app, pilot, "left", "shift+left")
        assert "VIEW" not in text_of(app)


async def test_before_the_first_step_there_is_no_past() -> None:
    async with shown(samples.preflight(), run=samples.never) as (app, pilot, _):
        await press(app, pilot, "left", "comma")
        assert "VIEW" not in text_of(app)
        assert "Cursor" not in lines_of(app)[-1]

"""The panel that decides: what counts, what does not count yet, and what nothing can change any more."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from core.facts import fact
from core.results import Bounds
from core.view import Outcomes, RepeatView, RunView
from tests.tui import samples
from tests.tui.screen import settle, shown, text_of
from tui import account
from tui.app import KneescopeApp
from tui.cli.recorded import Recorded
from tui.widgets import band, deciding, repeat_bars, steps_table
from tui.widgets.repeat_bars import GOOD, MISSED, OPEN, TARGET

RUN = "tests/data/pictures/kvlim-inverted.jsonl"
SIZES = [(80, 24), (120, 36), (200, 60)]


@pytest.fixture(scope="module")
def recorded() -> Recorded:
    return Recorded(RUN, lambda: 0.0)


async def panel_at(recorded: Recorded, t_s: float, size: tuple[int, int]) -> str:
    """What stands in the deciding panel at a moment of the recorded run, in one line."""
    recorded.seek(t_s)
    app = KneescopeApp(recorded, player=recorded)
    async with app.run_test(size=size) as pilot:
        await settle(app, pilot)
        return str(app.screen.query_one("#floor").render()).replace("\n", " ")


@pytest.mark.parametrize("size", SIZES)
async def test_while_the_server_drowns_the_panel_tells_of_the_warm_up_as_not_counted(
    recorded: Recorded, size: tuple[int, int]
) -> None:
    text = await panel_at(recorded, 49.0, size)
    live = recorded.view().current.live  # type: ignore[union-attr]
    assert live is not None
    assert live.warmup is not None
    assert (live.warmup.bad, live.bounds.bad) == (63, 0)
    assert re.search("warm-up, not counted: +\u2573 missed 63\\b", text)
    assert "\u2573 missed 0" in text
    assert live.in_flight == 0
    assert "▒ cut off 7" in text, "nothing is open where nothing is in flight"
    assert "▒ open" not in text


@pytest.mark.parametrize("size", SIZES)
async def test_what_is_past_its_limit_and_still_open_is_told_in_the_warm_up(recorded: Recorded, size: tuple[int, int]) -> None:
    text = await panel_at(recorded, 48.0, size)
    assert "not counted yet" in text
    assert "\u2573 missed 41  (41 still open)" in text
    assert "▒ open 20" in text


@pytest.mark.parametrize("size", SIZES)
async def test_good_missed_and_open_stand_apart_and_the_band_is_that_of_the_whole_repeat(
    recorded: Recorded, size: tuple[int, int]
) -> None:
    text = await panel_at(recorded, 78.0, size)
    step = recorded.view().current
    assert step is not None
    assert step.live is not None
    bounds = step.live.bounds
    assert f"█ good {bounds.good}  \u2573 missed 0  ▒ open {bounds.open}" in text
    assert f"of {bounds.planned} planned" in text
    assert account.reach(recorded.view(), step) == bounds.end != bounds.so_far
    assert "41.3\u2013100 %" in text  # 209 of 506, whatever is open


async def test_the_running_step_has_the_same_floor_in_the_table_and_in_the_panel(recorded: Recorded) -> None:
    recorded.seek(78.0)
    view = recorded.view()
    assert view.current is not None
    assert deciding.floor(view, view.current) == pytest.approx((209 / 506, 1.0))
    assert steps_table.running(view.current, view).floor == "41.3\u2013100 %"


def test_in_a_ramp_the_rate_that_is_sent_is_judged_apart_from_those_before(recorded: Recorded) -> None:
    recorded.seek(39.0)
    view = recorded.view()
    assert view.current is not None
    assert view.current.live is not None
    bounds = account.account(view, view.current)
    assert bounds == view.ramp[-1].bounds
    assert bounds != view.current.live.bounds


@pytest.mark.parametrize("size", SIZES)
async def test_zoomed_the_band_is_drawn_over_the_time_of_the_window(recorded: Recorded, size: tuple[int, int]) -> None:
    recorded.seek(78.0)
    app = KneescopeApp(recorded, player=recorded)
    async with app.run_test(size=size) as pilot:
        await settle(app, pilot)
        await pilot.press("2")
        await settle(app, pilot)
        rows = [row for row in text_of(app).splitlines() if row.startswith("│")]
        assert any(re.match(r"│ +95 % ╌+", row) for row in rows)
        assert any(re.match(r"│ +0 % ·*[▁-█]+ +│", row) for row in rows)
        assert not any("\u2573·" in row or "\u2573█" in row for row in rows)  # nothing missed: no area comes down
        assert "0:57 \u2013 1:37" in text_of(app)


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 60)])
async def test_why_a_step_failed_can_be_read_in_full(recorded: Recorded, size: tuple[int, int]) -> None:
    recorded.seek(78.0)
    reason = "overloaded already in the warm-up: 89 of its 176 requests can no longer meet the limits"
    app = KneescopeApp(recorded, player=recorded)
    async with app.run_test(size=size) as pilot:
        await settle(app, pilot)
        if size != (200, 60):
            await pilot.press("8")
            await settle(app, pilot)
        assert reason in re.sub(r"\s+", " ", str(app.screen.query_one("#steps").render()))


async def test_the_ended_step_stands_until_the_next_one_runs() -> None:
    view = replace(samples.mid_step(), current=None)
    async with shown(view) as (app, _, _):
        text = str(app.screen.query_one("#floor").render()).replace("\n", " ")
    assert "✔ PASS" in text
    assert "attainment 96.0 %, target 95 %, queue flat" in text


def with_live(bounds: Bounds, **facts: object) -> RunView:
    step = samples.mid_step().current
    assert step is not None
    assert step.live is not None
    live: RepeatView = replace(step.live, bounds=bounds, index=0, **facts)
    return replace(samples.mid_step(), current=replace(step, finished=(), repeats_planned=1, live=live))


@pytest.mark.parametrize(
    ("bounds", "decided", "word"),
    [
        (Bounds(planned=100, good=95, bad=0, open=5), None, "✔ target met"),
        (Bounds(planned=100, good=0, bad=6, open=20), None, "✘ below target"),
        (Bounds(planned=100, good=0, bad=5, open=20), None, "… undecided"),
        (Bounds(planned=100, good=0, bad=0, open=5), fact("overloaded_in_warmup", misses=40, planned=67), "✘ failed"),
    ],
)
def test_when_nothing_can_change_the_verdict_it_is_said(bounds: Bounds, decided: object, word: str) -> None:
    view = with_live(bounds, decided=decided)
    assert view.current is not None
    assert str(deciding.state(view, view.current)) == word
    lines = deciding.draw(view, view.current, 60, 8).content.plain
    assert (word[0] in lines) == (word[0] != "…")


@pytest.mark.parametrize(("missed", "spare"), [(0, "25 more may miss"), (25, "0 more may miss")])
def test_how_many_more_may_miss_is_told(missed: int, spare: str) -> None:
    view = with_live(Bounds(planned=506, good=200, bad=missed, open=10))
    assert view.current is not None
    assert spare in deciding.draw(view, view.current, 100, 8).content.plain


def test_what_is_late_and_still_open_is_counted_among_the_missed_and_told_apart() -> None:
    view = with_live(Bounds(planned=506, good=200, bad=9, open=10, overdue=4))
    assert view.current is not None
    assert "4 missed still open" in deciding.draw(view, view.current, 120, 8).content.plain


@given(st.integers(1, 400), st.data(), st.sampled_from([0.5, 0.9, 0.95, 0.99, 1.0]), st.integers(6, 80))
def test_a_bar_never_hides_a_miss_nor_shows_the_target_missed_before_its_time(
    planned: int, data: st.DataObject, target: float, width: int
) -> None:
    bad = data.draw(st.integers(0, planned))
    good = data.draw(st.integers(0, planned - bad))
    bar = repeat_bars.bar_of("r1", Bounds(planned=planned, good=good, bad=bad, open=planned - good - bad), "x", target)
    (row,) = repeat_bars.rows([bar], width + 7)
    line = row.plain[row.plain.index("▕") + 1 : row.plain.index("▏")]
    assert len(line) == width
    assert (MISSED in line) == (bad > 0)
    assert line.count(TARGET) == 1
    if bad > 0 and target < 1 and bad / planned <= 1 - target:
        assert line.index(MISSED) > line.index(TARGET)


def outcomes(*counts: tuple[int, int, int]) -> tuple[Outcomes, ...]:
    return tuple(
        Outcomes(t_s=float(at), step=1, rate_rps=1.0, counted=True, good=good, missed=missed, open=open_)
        for at, (good, missed, open_) in enumerate(counts)
    )


def area(counts: list[tuple[int, int, int]], planned: int, target: float, height: int) -> list[str]:
    good, missed, open_ = (sum(column) for column in zip(*counts, strict=True))
    told = band.moments(outcomes(*counts), Bounds(planned=planned, good=good, bad=missed, open=open_))
    return [
        line[6:] for line in band.content(told, (0.0, float(len(counts))), target, 6 + 4 * len(counts), height).plain.splitlines()
    ]


def test_the_area_reaches_the_rule_exactly_when_nothing_can_change_that_any_more() -> None:
    allowed = area([(10, 5, 0), (10, 0, 0)], 100, 0.95, 13)
    assert all(MISSED in row for row in allowed[:6])
    assert MISSED not in allowed[6]
    assert MISSED in area([(10, 5, 0), (10, 1, 0)], 100, 0.95, 13)[6]
    assert GOOD not in area([(94, 0, 6)], 100, 0.95, 13)[6]
    assert GOOD in area([(95, 0, 5)], 100, 0.95, 13)[6]


def test_the_area_shows_no_miss_that_the_account_does_not_have() -> None:
    told = band.moments(outcomes((0, 8, 0), (3, 0, 4)), Bounds(planned=100, good=3, bad=0, open=4))
    assert [one.missed for one in told] == [0.0, 0.0]
    assert told[-1].open == 0.04


def test_a_repeat_that_is_done_again_shows_nothing_of_the_one_before() -> None:
    counted = outcomes(*([(2, 0, 0)] * 60))
    view = replace(with_live(Bounds(planned=100, good=4, bad=0, open=0), elapsed_s=12.0), outcomes=counted, bin_s=1.0, now_s=60.0)
    view = replace(view, outcomes=tuple(replace(one, step=5) for one in counted))
    assert view.current is not None
    told = deciding.draw(view, view.current, 80, 20)
    assert told.span is not None
    assert told.span[0] >= 47.0


def test_the_area_of_open_requests_lies_on_that_of_the_good() -> None:
    rows = area([(40, 0, 40)], 100, 0.95, 11)
    column = "".join(row[0] for row in rows)
    assert re.fullmatch(rf"·+╌·*{OPEN}+[▁-█]*{GOOD}+", column)

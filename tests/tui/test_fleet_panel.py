"""The fleet panel: numbers that follow peak and headroom at once."""

import re

import pytest
from msgspec.structs import replace

from core import fleet
from core.config import FleetAsk
from core.run.view import RunView
from tests.tui import samples
from tests.tui.screen import rendered, settle, shown, text_of
from tui.widgets.fleet_panel import PeakInput
from tui.widgets.slider import Slider


def sizes(text: str) -> list[tuple[str, str, str]]:
    """(knee in rps, replicas, GPUs) of each row of results."""
    return re.findall(r"if (?:the knee|it) is ([0-9.]+) rps +([0-9,]+) replicas? +([0-9,]+) GPUs?", text)


async def test_the_peak_is_asked_for_and_never_made_up() -> None:
    async with shown(samples.finished(), (120, 36)) as (app, _, _):
        assert "type the peak" in text_of(app)
        assert sizes(text_of(app)) == []


async def test_the_configured_peak_and_headroom_are_where_it_starts() -> None:
    view = samples.finished(50.0)
    assert view.config is not None
    view = replace(view, config=replace(view.config, fleet=replace(view.config.fleet, headroom=0.5)))
    async with shown(view, (120, 36)) as (app, _, _):
        at_pass, at_fail = fleet.size(50, 0.5, 11.3, 1), fleet.size(50, 0.5, 13.6, 1)
        assert sizes(text_of(app)) == [("11.3", str(at_pass.replicas), "9"), ("13.6", str(at_fail.replicas), "8")]
        assert f"{at_pass.replicas} replicas" in next(row for row in text_of(app).splitlines() if "f fleet" in row)


async def test_typing_and_sliding_move_both_ends() -> None:
    async with shown(samples.finished(), (80, 24)) as (app, pilot, _):
        await pilot.press("f", "5", "0")
        await settle(app, pilot)
        assert sizes(text_of(app)) == [("11.3", "7", "7"), ("13.6", "6", "6")]
        await pilot.press("tab", "right", "right", "right")
        await settle(app, pilot)
        assert app.screen.query_one(Slider).value == 0.73
        assert "use at most 73 % of what holds (27 % spare)" in text_of(app)
        await pilot.press("home")
        assert app.screen.query_one(Slider).value == 0.01
        await pilot.press("left", "end")
        await settle(app, pilot)
        assert sizes(text_of(app)) == [("11.3", "5", "5"), ("13.6", "4", "4")]


async def test_the_slider_follows_the_mouse() -> None:
    async with shown(samples.finished(50.0), (120, 36)) as (app, pilot, _):
        slider = app.screen.query_one(Slider)
        track = slider.size.width - 7
        await pilot.mouse_down(slider, offset=(1, 0))
        assert slider.value == 0.01
        await pilot.hover(slider, offset=(track, 0))
        assert slider.value == 1.0
        await pilot.mouse_up(slider, offset=(track, 0))
        await pilot.hover(slider, offset=(5, 0))
        assert slider.value == 1.0


@pytest.mark.parametrize("typed", ["0", ".", "0.0"])
async def test_what_is_no_peak_gives_no_fleet(typed: str) -> None:
    async with shown(samples.finished(), (120, 36)) as (app, pilot, _):
        await pilot.press("f", *typed)
        await settle(app, pilot)
        assert sizes(text_of(app)) == []
        assert "type the peak of all users together" in text_of(app)


async def test_gpus_count_the_layout_and_say_when_it_is_assumed() -> None:
    sharded = replace(samples.finished(50.0), server=replace(samples.SERVER, tp=2, pp=1, dp=2))
    async with shown(sharded, (120, 36)) as (app, _, _):
        assert sizes(text_of(app))[0] == ("11.3", "7", "28")
        assert "4 GPUs each" in text_of(app)
    silent = replace(samples.finished(50.0), server=replace(samples.SERVER, tp=None, pp=None, dp=None))
    async with shown(silent, (120, 36)) as (app, _, _):
        assert "1 GPU each (assumed)" in text_of(app)


async def test_during_the_search_it_opens_over_the_bracket_so_far() -> None:
    async with shown(samples.mid_step(), (120, 36)) as (app, pilot, _):
        assert "fleet" not in text_of(app).replace("f Fleet", "")
        await pilot.press("f", "5", "0")
        await settle(app, pilot)
        assert "holds 11.3 rps" in text_of(app)
        assert "fails 16.0 rps" in text_of(app)
        assert "● LOADING" in text_of(app)
        await pilot.press("escape")
        await settle(app, pilot)
        assert "attainment floor" in text_of(app)
        await pilot.press("f", "f")
        await settle(app, pilot)
        assert "attainment floor" in text_of(app)


async def test_before_a_rate_held_there_is_nothing_to_size() -> None:
    async with shown(samples.ramp(), (120, 36)) as (app, pilot, _):
        await pilot.press("f")
        await settle(app, pilot)
        assert "attainment floor" in text_of(app)
        assert "No rate has held yet" in " ".join(note.message for note in app._notifications)


async def test_the_fleet_key_leads_to_the_peak_and_typing_replaces_it() -> None:
    async with shown(samples.finished(50.0), (120, 36)) as (app, pilot, _):
        await pilot.press("f", "8", "0")
        await settle(app, pilot)
        assert app.screen.query_one(PeakInput).value == "80"
        assert "\u25c6" not in text_of(app)
        await pilot.press("tab")
        await settle(app, pilot)
        assert "\u25c6" in text_of(app)
        assert app.fleet_ask == FleetAsk(peak_rps=80.0)


@pytest.mark.parametrize(
    ("keys", "value"), [("65", 0.65), ("0.65", 0.65), (".5", 0.5), ("100", 1.0), ("6550", 0.5), ("1.5", 0.05), ("0", 0.7)]
)
async def test_a_number_typed_on_the_slider_sets_it(keys: str, value: float) -> None:
    async with shown(samples.finished(50.0), (120, 36)) as (app, pilot, _):
        await pilot.press("f", "tab", *("full_stop" if key == "." else key for key in keys))
        assert app.screen.query_one(Slider).value == value
        assert app.screen.maximized is None


async def test_a_hidden_peak_takes_neither_focus_nor_figures() -> None:
    async with shown(samples.finished(50.0), (120, 36)) as (app, pilot, _):
        await pilot.press("f", "tab", "escape", "3", "tab", "4", "f", "f")
        await settle(app, pilot)
        assert app.screen.query_one(PeakInput).value == "50"
        await pilot.press("f")
        app.screen.action_panel(3)  # type: ignore[attr-defined]
        await settle(app, pilot)
        assert app.focused is None
        await pilot.press("9", "f", "8")
        await settle(app, pilot)
        assert app.screen.query_one(PeakInput).value == "8"
        assert "f fleet" in text_of(app)


async def test_the_ends_of_the_slider_say_what_they_mean() -> None:
    text = await rendered(samples.finished(50.0), (80, 24))
    assert re.search(r"safer \u251c.*\u2524 0\.70 fewer replicas", text)
    assert "use at most 70 % of what holds (30 % spare)" in text
    assert "at most 70 % of what holds \u2502" in re.sub(" +", " ", await fleet_alone(samples.finished(50.0), (60, 16)))


async def fleet_alone(view: RunView, size: tuple[int, int]) -> str:
    async with shown(view, size) as (app, pilot, _):
        await pilot.press("f")
        await settle(app, pilot)
        return text_of(app)


async def test_a_load_near_what_holds_is_called_so() -> None:
    view = samples.finished(900.0)
    assert view.config is not None
    text = await rendered(view, (120, 36))
    assert not re.search("if the knee is.*tight", text)
    view = replace(view, config=replace(view.config, fleet=replace(view.config.fleet, headroom=0.9)))
    text = await rendered(view, (80, 24))
    assert re.search(r"if the knee is 11\.3 rps .*\u25b2 tight: 89 % of what holds", text)
    assert re.search(r"if it is 13\.6 rps .*\u2718 over: 108 % of what holds", text)
    assert re.search(r"at 13\.6 rps .*\u2718 over: 108 % ", await fleet_alone(view, (60, 16)))


async def test_where_rows_are_few_the_answer_comes_before_the_fleet() -> None:
    text = await rendered(samples.finished(50.0), (60, 16))
    assert "HOLDS at 11.3 rps" in text
    assert "FAILS at 13.6 rps" in text
    assert "one replica" not in text

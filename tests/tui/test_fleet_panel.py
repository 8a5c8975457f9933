"""The fleet panel: numbers that follow peak and headroom at once."""

import re

import pytest
from msgspec.structs import replace

from core import fleet
from tests.tui import samples
from tests.tui.screen import settle, shown, text_of
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
        await pilot.press("enter", "right", "right", "right")
        await settle(app, pilot)
        assert app.screen.query_one(Slider).value == 0.73
        assert "headroom 0.73" in text_of(app)
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

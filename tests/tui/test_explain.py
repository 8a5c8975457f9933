"""`?` on every screen: the panel that is looked at, each number in it, and the keys as they are there."""

import pytest
from msgspec.structs import replace

from core.records import EngineSample
from tests.tui import knee_samples, length_samples, samples
from tests.tui.screen import settle, shown, text_of
from tui import explain, keys
from tui.app import SCREENS, Name
from tui.widgets.plot_view import Titled

NAMES = list(SCREENS)


def words(text: str) -> str:
    """Without line ends."""
    return " ".join(text.split())


@pytest.mark.parametrize("name", NAMES)
async def test_every_panel_of_every_screen_is_explained(name: Name) -> None:
    async with shown(knee_samples.finished(), (200, 60), on=name) as (app, _, _):
        panels = {widget.id for widget in app.screen.walk_children() if isinstance(widget, Titled)}
        assert panels
        assert panels <= set(explain.PANELS)


@pytest.mark.parametrize(
    ("name", "digit", "panel"),
    [(name, str(at), panel) for name, make in SCREENS.items() for at, panel in enumerate(make.PANELS, 1)],  # type: ignore[attr-defined]
)
async def test_a_digit_and_a_question_mark_explain_that_panel(name: Name, digit: str, panel: str) -> None:
    async with shown(length_samples.finished(), (160, 80), on=name) as (app, pilot, _):
        await pilot.press(digit, "question_mark")
        await settle(app, pilot)
        told = explain.PANELS[panel]
        assert told.name.startswith(digit)
        text = words(text_of(app))
        assert f"{told.name}: {told.question}" in text
        for what, meaning in (*told.rows, *explain.TOP_LINE.rows, *explain.RIBBON.rows):
            assert words(f"{what} {meaning}") in text


@pytest.mark.parametrize(("digit", "panel"), [("5", "queue"), ("6", "kv")])
async def test_what_stands_in_a_panel_for_replicas_is_explained_where_there_are_some(digit: str, panel: str) -> None:
    view = samples.mid_step()
    assert view.sample is not None
    row = EngineSample(name="r:1", running=1.0, waiting=0.0)
    for by_replica in (False, True):
        shown_view = replace(view, sample=replace(view.sample, by_engine=(row,), by_replica=by_replica))
        async with shown(shown_view, (160, 80), on="ramp") as (app, pilot, _):
            await pilot.press(digit, "question_mark")
            await settle(app, pilot)
            text = words(text_of(app))
            assert all((words(f"{what} {meaning}") in text) is by_replica for what, meaning in explain.OF_REPLICAS[panel])


async def test_on_the_fleet_screen_the_fleet_is_explained_and_its_curve_when_it_is_looked_at() -> None:
    async with shown(knee_samples.finished(), (160, 80), on="fleet") as (app, pilot, _):
        await pilot.press("question_mark")
        await settle(app, pilot)
        assert explain.PANELS["fleet"].question in text_of(app)
        await pilot.press("escape")
        await settle(app, pilot)
        app.screen.query_one("#fleet-curve").focus()
        await pilot.press("question_mark")
        await settle(app, pilot)
        assert explain.PANELS["fleet-curve"].question in text_of(app)


@pytest.mark.parametrize(("name", "digits"), [("ramp", "1-8"), ("knee", "1-5"), ("fleet", "")])
async def test_digits_are_offered_as_far_as_there_are_panels(name: Name, digits: str) -> None:
    async with shown(samples.finished(50.0), (160, 80), on=name) as (app, pilot, _):
        footer = text_of(app).splitlines()[-1]
        assert ("Zoom" in footer) is bool(digits)
        assert f"{digits} Zoom" in footer or not digits
        offered = {command.title for command in app.get_system_commands(app.screen)}
        assert sum(title.startswith("Zoom") for title in offered) == int(digits[-1:] or 0)
        app.screen.set_focus(None)
        await pilot.press("question_mark")
        await settle(app, pilot)
        assert ("show one panel alone" in text_of(app)) is bool(digits)
        assert f"{digits}  " in text_of(app)


def test_help_has_each_key_once_and_says_what_both_of_a_pair_do() -> None:
    rows = dict(keys.in_help(8))
    assert len(rows) == len(keys.in_help(8))
    assert "go back to now" in rows["space"]
    assert "click on the ribbon" in rows["← →"]
    assert "recorded run: play" in rows["space"]
    assert "back or ahead" in rows[", ."]
    assert "halve or double" in rows["[ ]"]
    assert "raise" in rows["+ -"]
    assert "lower" in rows["+ -"]
    assert {"esc", "ctrl+p", "q, ctrl+c", "x", "n", "c", "s"} <= set(rows)

"""Keys, stops and endings of the screen, with a run that a test holds in its hand."""

import asyncio

import pytest
from msgspec.structs import replace
from rich.color import Color
from textual.command import CommandPalette
from textual.pilot import Pilot

from core.errors import UserError
from core.results import Answer
from tests.tui import knee_samples, samples
from tests.tui.screen import Held, lines_of, settle, shown, text_of
from tui.app import KneescopeApp, Name, RunControls
from tui.keys import MOST_IN_FOOTER
from tui.screens.help import HelpScreen
from tui.screens.run_screen import RunScreen


class FakeRun:
    """A run that goes on until it is stopped, and then ends as interrupted; `stubborn` never ends."""

    def __init__(self, held: Held | None = None, *, stubborn: bool = False) -> None:
        self.stops = 0
        self.held = held
        self.stubborn = stubborn
        self.cancelled = False
        self._stopped = asyncio.Event()

    def stop(self) -> None:
        self.stops += 1
        if self.held is not None:
            self.held.now = replace(self.held.now, version=self.held.now.version + 1, load="stopped")
        if not self.stubborn:
            self._stopped.set()

    async def run(self) -> Answer:
        try:
            await self._stopped.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        answer = Answer(outcome="interrupted", message="stopped by the user")
        if self.held is not None:
            self.held.now = replace(self.held.now, version=self.held.now.version + 1, current=None, answer=answer)
        return answer


async def press(app: KneescopeApp, pilot: Pilot[Answer | None], *keys: str) -> None:
    await pilot.press(*keys)
    await settle(app, pilot)


def left(app: KneescopeApp) -> bool:
    return app._exit


@pytest.mark.parametrize("key", ["x", "q", "ctrl+c", "ctrl+q"])
async def test_the_first_key_stops_the_load_at_once_and_stays(key: str) -> None:
    fake = FakeRun()
    async with shown(samples.mid_step(), run=fake.run, controls=RunControls(stop=fake.stop)) as (app, pilot, held):
        fake.held = held
        await press(app, pilot, key)
        assert fake.stops == 1
        assert not left(app)
        assert "■ STOPPED" in text_of(app)


@pytest.mark.parametrize("keys", [("q", "q"), ("ctrl+c", "ctrl+c"), ("x", "q"), ("q", "ctrl+c")])
async def test_the_second_leaves_with_the_answer(keys: tuple[str, str]) -> None:
    fake = FakeRun()
    async with shown(samples.mid_step(), run=fake.run, controls=RunControls(stop=fake.stop)) as (app, pilot, held):
        fake.held = held
        await press(app, pilot, keys[0])
        await pilot.press(keys[1])
        await pilot.pause()
        assert left(app)
        assert app.return_value is not None
        assert app.return_value.outcome == "interrupted"


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
async def test_without_load_the_first_leaves(key: str) -> None:
    async with shown(samples.finished()) as (app, pilot, _):
        await pilot.press(key)
        await pilot.pause()
        assert left(app)
        assert app.return_value == samples.finished().answer


async def test_x_keeps_stopping_but_never_leaves() -> None:
    fake = FakeRun(stubborn=True)
    async with shown(samples.mid_step(), run=fake.run, controls=RunControls(stop=fake.stop)) as (app, pilot, _):
        await press(app, pilot, "x", "x", "x")
        assert fake.stops == 3
        assert not left(app)
        assert "LOADING, stopping" in text_of(app)


async def test_a_run_that_does_not_end_is_left_on_the_third_press() -> None:
    fake = FakeRun(stubborn=True)
    async with shown(samples.mid_step(), run=fake.run, controls=RunControls(stop=fake.stop)) as (app, pilot, _):
        await press(app, pilot, "q", "q")
        assert not left(app)
        await pilot.press("q")
        await pilot.pause()
        assert left(app)


async def test_between_two_steps_a_key_still_means_stop() -> None:
    fake = FakeRun()
    idle = replace(samples.mid_step(), load="idle")
    async with shown(idle, run=fake.run, controls=RunControls(stop=fake.stop)) as (app, pilot, _):
        await press(app, pilot, "q")
        assert fake.stops == 1
        assert not left(app)


async def test_during_the_checks_q_stops_the_run_and_leaves() -> None:
    fake = FakeRun()
    async with shown(samples.preflight(), run=fake.run, controls=RunControls(stop=fake.stop)) as (app, pilot, _):
        await pilot.press("q")
        await pilot.pause()
        await pilot.pause()
        assert fake.stops == 1
        assert left(app)


@pytest.mark.parametrize("leave", [False, True])
async def test_a_signal_handler_can_ask_for_the_end(leave: bool) -> None:
    fake = FakeRun()
    async with shown(samples.mid_step(), run=fake.run, controls=RunControls(stop=fake.stop)) as (app, pilot, held):
        fake.held = held
        app.request_stop(leave=leave)
        await pilot.pause()
        await pilot.pause()
        assert fake.stops >= 1
        assert left(app) == leave


@pytest.mark.parametrize("keys", [("question_mark",), ("f", "5"), ("3",)])
async def test_x_stops_from_wherever_the_user_is(keys: tuple[str, ...]) -> None:
    fake = FakeRun()
    async with shown(samples.mid_step(), run=fake.run, controls=RunControls(stop=fake.stop)) as (app, pilot, _):
        await press(app, pilot, *keys)
        await press(app, pilot, "x")
        assert fake.stops == 1


async def test_typing_in_the_palette_stops_nothing() -> None:
    fake = FakeRun()
    async with shown(samples.mid_step(), run=fake.run, controls=RunControls(stop=fake.stop)) as (app, pilot, _):
        await pilot.press("ctrl+p")
        await pilot.pause()
        await pilot.press("x", "q", "space")
        await pilot.pause()
        assert fake.stops == 0
        assert not left(app)
        await pilot.press("escape")


async def test_ctrl_c_stops_the_load_from_the_palette_too() -> None:
    fake = FakeRun()
    async with shown(samples.mid_step(), run=fake.run, controls=RunControls(stop=fake.stop)) as (app, pilot, _):
        await pilot.press("ctrl+p")
        await pilot.pause()
        assert isinstance(app.screen, CommandPalette)
        await pilot.press("ctrl+c")
        await pilot.pause()
        assert fake.stops == 1


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (RuntimeError("parser [/red] broke"), "RuntimeError: parser [/red] broke"),
        (UserError("The disk is full."), "off: The disk is full."),
    ],
)
async def test_an_exception_of_the_run_is_shown_and_the_results_stay(error: Exception, text: str) -> None:
    stops: list[bool] = []

    async def run() -> Answer:
        raise error

    controls = RunControls(stop=lambda: stops.append(True))
    async with shown(samples.mid_step(), (80, 24), run=run, controls=controls) as (app, pilot, _):
        await settle(app, pilot)
        assert text in text_of(app)
        assert "attainment floor" in text_of(app)
        assert app.run_error is error
        assert stops == [True]
        for key in ("k", "f"):
            await press(app, pilot, key)
            assert text in text_of(app), "on every screen"
        await pilot.press("q")
        await pilot.pause()
        assert left(app)


async def test_the_run_is_cancelled_when_the_screen_goes() -> None:
    fake = FakeRun(stubborn=True)
    async with shown(samples.mid_step(), run=fake.run, controls=RunControls(stop=fake.stop)):
        pass
    assert fake.cancelled


@pytest.mark.parametrize("on", ["ramp", "knee", "fleet"])
async def test_a_look_while_the_screens_go_is_none(on: Name, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[str] = []

    def look_at_something_new(screen: RunScreen) -> None:
        held.now = replace(held.now, version=999)
        app.look()
        looks.append(on)

    monkeypatch.setattr(RunScreen, "on_unmount", look_at_something_new, raising=False)
    async with shown(knee_samples.finished(), (80, 24), on=on) as (app, _, held):
        pass
    assert on in looks


async def test_space_holds_the_panels_and_says_that_the_load_goes_on() -> None:
    fake = FakeRun()
    async with shown(samples.mid_step(), (200, 60), run=fake.run, controls=RunControls(stop=fake.stop)) as (app, pilot, held):
        await press(app, pilot, "space")
        assert "‖ VIEW at 2:16, now 2:16, the load goes on" in text_of(app)
        assert "Resume" in lines_of(app)[-1]
        held.now = replace(samples.failing(), version=500)
        await settle(app, pilot)
        assert "46.7\u201398.0 % of the plan" in text_of(app)
        assert "below target" not in text_of(app)
        assert "◑ DRAINING" in text_of(app)
        assert "16.0 req/s" in lines_of(app)[1]
        await press(app, pilot, "space")
        assert "below target" in text_of(app)
        assert "VIEW" not in text_of(app)
        assert "Pause" in lines_of(app)[-1]


async def test_the_answer_and_a_stop_end_a_pause() -> None:
    fake = FakeRun()
    async with shown(samples.mid_step(), run=fake.run, controls=RunControls(stop=fake.stop)) as (app, pilot, held):
        await press(app, pilot, "space")
        held.now = samples.finished()
        await settle(app, pilot)
        assert "HOLDS at 11.3 requests/s" in text_of(app)
        assert "VIEW" not in text_of(app)
        await press(app, pilot, "space")
        assert "VIEW at" in text_of(app)
        await press(app, pilot, "x")
        assert "VIEW" not in text_of(app)


@pytest.mark.parametrize(
    ("key", "title"),
    [
        ("1", "1 cliff"),
        ("2", "attainment floor"),
        ("3", "3 TTFT"),
        ("4", "4 TPOT"),
        ("5", "5 queue"),
        ("6", "6 KV"),
        ("8", " steps"),
    ],
)
@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
async def test_a_digit_gives_one_panel_the_screen(key: str, title: str, size: tuple[int, int]) -> None:
    async with shown(samples.mid_step(), size) as (app, pilot, _):
        before = text_of(app)
        await press(app, pilot, key)
        rows = lines_of(app)
        assert sum("╭─" in row for row in rows) == 1
        assert any(title in row for row in rows)
        assert "● LOADING" in rows[1]
        assert rows[-3].startswith("╰")
        await press(app, pilot, "escape")
        assert text_of(app) == before
        await press(app, pilot, key, key)
        assert text_of(app) == before


async def test_help_lists_keys_and_panels_on_one_page() -> None:
    async with shown(samples.mid_step(), (80, 24)) as (app, pilot, _):
        await press(app, pilot, "question_mark")
        assert isinstance(app.screen, HelpScreen)
        text = text_of(app)
        for word in ("stop the load at once", "ctrl+c", "space", "freeze the panels"):
            assert word in text
        assert "● LOADING" in lines_of(app)[0]
        assert "esc closes  ↑ ↓ for more" in text
        await press(app, pilot, "end")
        for word in ("1 cliff", "2 attainment floor", "6 KV cache", "explains every number"):
            assert word in text_of(app)
        await press(app, pilot, "escape")
        assert "attainment floor" in text_of(app)


@pytest.mark.parametrize("way", [("5",), ("tab", "tab", "tab", "tab", "tab")])
async def test_a_panel_that_is_looked_at_is_explained_first(way: tuple[str, ...]) -> None:
    async with shown(samples.mid_step(), (120, 36)) as (app, pilot, _):
        await press(app, pilot, *way, "question_mark")
        rows = lines_of(app)
        assert rows[2].strip().startswith(("5 queue: does work pile up?", "7 rate", "4 TPOT"))
        assert "what" not in rows[0]


async def test_help_wraps_under_its_words_and_follows_the_load() -> None:
    async with shown(samples.mid_step(), (60, 16)) as (app, pilot, held):
        await press(app, pilot, "question_mark")
        rows = lines_of(app)
        assert rows[-1].strip() == "esc closes  ↑ ↓ for more"
        at = next(y for y, row in enumerate(rows) if "q, ctrl+c" in row)
        assert rows[at + 1].index("without load, to quit") == rows[at].index("stop the load")
        held.now = samples.failing()
        await settle(app, pilot)
        assert "◑ DRAINING" in lines_of(app)[0]


@pytest.mark.parametrize("width", [60, 80, 120])
async def test_the_footer_fits_and_has_no_more_keys_than_are_read(width: int) -> None:
    fake = FakeRun()
    controls = RunControls(stop=fake.stop, end_step=lambda: None)
    async with shown(samples.mid_step(), (width, 36), run=fake.run, controls=controls) as (app, _, _):
        footer = lines_of(app)[-1]
        for key in ("space Pause", "n End step", "x Stop load", "1-8 Zoom", "? Explain", "q Quit"):
            assert key in footer
        assert len(app.screen.query("FooterKey")) <= MOST_IN_FOOTER + 1  # the palette's


@pytest.mark.parametrize("no_color", [False, True])
async def test_every_theme_can_be_read(no_color: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if no_color:
        monkeypatch.setenv("NO_COLOR", "1")
    async with shown(samples.failing(), (200, 60)) as (app, pilot, _):
        for theme in app.available_themes:
            app.theme = theme
            await pilot.pause()
            seen = contrasts(app)
            assert {"✔ PASS", "✘ FAIL", "✘ below target", "◑ DRAINING"} <= {word.strip() for word in seen}
            assert all(contrast is None or contrast >= 3 for contrast in seen.values()), theme


def contrasts(app: KneescopeApp) -> dict[str, float | None]:
    """How far each word that tells a state stands out from its background; None where the terminal's own colours are used."""
    found: dict[str, float | None] = {}
    for strip in app.screen._compositor.render_strips():
        for text, style, _ in strip:
            if any(word in text for word in ("PASS", "FAIL", "below target", "DRAINING")) and style is not None:
                lights = [
                    light(colour) for colour in (style.color, style.bgcolor) if colour is not None and colour.triplet is not None
                ]
                found[text] = (max(lights) + 0.05) / (min(lights) + 0.05) if len(lights) == 2 else None
    return found


def light(colour: Color) -> float:
    """Relative luminance as WCAG 2 defines it."""
    parts = [part / 255 for part in colour.get_truecolor()]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

"""One table of keys: what the footer, the help and the palette say is what the keys do."""

from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.tui import samples
from tests.tui.screen import Held, lines_of, settle, shown
from tui import keys
from tui.app import KneescopeApp, RunControls


def saved_pictures(folder: Path) -> int:
    return sum("attainment" in picture.read_text() for picture in folder.glob("kneescope-ramp-*.svg"))


def notices(app: KneescopeApp) -> str:
    return " ".join(notice.message for notice in app._notifications)


def test_the_footer_takes_the_most_important_of_what_means_something() -> None:
    every = keys.in_footer((key.action for key in keys.KEYS), 200)
    assert len(every) == keys.MOST_IN_FOOTER
    assert [key.action for key in every[:2]] == ["stop_load", "leave"]
    assert [key.action for key in keys.in_footer(["copy", "leave", "picture"], 200)] == ["leave", "copy"]
    assert [key.action for key in keys.in_footer(["copy", "leave", "picture"], 12)] == ["leave"]


@pytest.mark.parametrize("recorded", [False, True])
async def test_no_key_is_cut_in_the_footer_also_when_the_width_changes(recorded: bool) -> None:
    controls, player = RunControls(end_step=lambda: None), samples.StandingStill() if recorded else None
    async with shown(samples.mid_step(), (120, 36), run=None if recorded else samples.never, controls=controls, player=player) as (
        app,
        pilot,
        _,
    ):
        for width in (120, 60, 80, 99, 100, 160):
            await pilot.resize_terminal(width, 36)
            for _ in range(4):  # a new layout, then other keys in it
                await settle(app, pilot)
            footer = lines_of(app)[-1]
            told = keys.in_footer([binding.action for _, binding, on, _ in app.screen.active_bindings.values() if on], width)
            kept = [f"{key.shown_as} {key.short}" for key in told if f"{key.shown_as} {key.short}" in footer]
            assert footer.replace("▏", " ").split() == " ".join([*kept, *(["^p All"] if width >= 100 else [])]).split(), width


async def test_a_recording_offers_all_ways_through_it() -> None:
    for width in (80, 120):
        async with shown(samples.mid_step(), (width, 36), player=samples.StandingStill()) as (app, _, _):
            for key in ("q Quit", "space Play", "← → Cursor", "[ ] Speed", "? Explain", "k Knee", "f Fleet"):
                assert key in lines_of(app)[-1]


def test_every_key_does_one_thing_at_a_time() -> None:
    together = [("pause", "resume", "play")]  # of which at most one means something
    for name in {name for key in keys.KEYS for name in key.names}:
        doing = tuple(key.action for key in keys.KEYS if name in key.names)
        assert len(doing) == 1 or doing in together, name


def test_help_names_every_key_that_the_footer_can_show() -> None:
    shown_as = " ".join(names for names, _ in keys.in_help(8))
    assert all(key.shown_as in shown_as for key in keys.KEYS if key.rank is not None)  # 1 stands in 1-8


async def test_the_palette_offers_what_means_something_and_nothing_else() -> None:
    async with shown(samples.mid_step(), run=samples.never, controls=RunControls(end_step=lambda: None)) as (app, _, _):
        offered = {command.title.split("  ")[0] for command in app.get_system_commands(app.screen)}
        assert {"End step", "Zoom 8", "Knee", "Fleet", "Copy", "Picture", "Explain", "Quit", "Theme", "Stop load"} <= offered
        assert not {"Ramp", "Play", "Now", "Rate"} & offered


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("", ("Seek  [,]", "Seek on  [.]", "Speed  [[]", "Faster  []]", "Cursor  [←]", "Play  [space]", "Zoom 8  [8]")),
        ("speed", ("Speed  [[]",)),
        ("cursor", ("Cursor  [←]", "Cursor on  [→]")),
    ],
)
async def test_the_palette_shows_the_key_of_each_command(query: str, told: tuple[str, ...]) -> None:
    async with shown(samples.mid_step(), (120, 90), player=samples.StandingStill()) as (app, pilot, _):
        await pilot.press("ctrl+p", *query)
        for _ in range(40):
            await settle(app, pilot)
        for command in told:
            assert command in "\n".join(lines_of(app))


async def no_png(svg: Path) -> None:
    """A PNG takes a process, and time that is no virtual one."""


async def test_a_picture_is_saved_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tui.app.png_beside", no_png)
    async with shown(samples.mid_step()) as (app, pilot, _):
        await pilot.press("s")
        await settle(app, pilot)
    assert saved_pictures(tmp_path) == 1


def test_pictures_are_no_part_of_the_repository() -> None:
    patterns = Path(__file__, "../../../.gitignore").resolve().read_text().split()
    assert any(fnmatch("kneescope-ramp-20260301-142855-000000.svg", pattern) for pattern in patterns)


async def test_what_was_done_is_said_over_the_keys_and_over_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tui.app.png_beside", no_png)
    for size in ((80, 24), (120, 36)):
        async with KneescopeApp(Held(samples.finished(50.0))).run_test(size=size, notifications=True) as pilot:
            app = pilot.app
            assert isinstance(app, KneescopeApp)
            for _ in range(3):  # the screen of the answer comes up, and is laid out
                await settle(app, pilot)
            before = lines_of(app)
            for key, said in (("s", "✔ Saved in the current folder: kneescope-"), ("c", "✔ Copied if the terminal")):
                await pilot.press(key)
                for _ in range(3):
                    await settle(app, pilot)
                after = lines_of(app)
                assert after[:-1] == before[:-1]
                assert said in after[-1]
                assert "…" not in after[-1]


async def test_a_folder_that_takes_no_picture_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.chdir(tmp_path)
    async with shown(samples.mid_step()) as (app, pilot, _):
        monkeypatch.setattr(app, "save_screenshot", refuse)
        await pilot.press("s")
        await settle(app, pilot)
        assert "No picture can be written" in notices(app)


async def test_copy_hands_the_summary_to_the_terminal() -> None:
    async with shown(samples.finished(50.0)) as (app, pilot, _):
        await pilot.press("c")
        await settle(app, pilot)
        assert "11.3" in app.clipboard
        assert "report RUN --format md" in notices(app)


@pytest.mark.parametrize("recorded", [False, True])
async def test_the_bell_rings_once_when_a_live_run_ends(recorded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    rung: list[bool] = []
    monkeypatch.setattr(KneescopeApp, "bell", lambda _: rung.append(True))
    async with shown(samples.mid_step(), player=samples.StandingStill() if recorded else None) as (app, pilot, held):
        assert rung == []
        held.now = samples.finished()
        await settle(app, pilot)
        await settle(app, pilot)
        assert rung == ([] if recorded else [True])


async def test_the_knee_comes_up_when_it_is_known_unless_the_user_is_elsewhere() -> None:
    async with shown(samples.mid_step()) as (app, pilot, held):
        held.now = samples.finished()
        await settle(app, pilot)
        assert app.current_mode == "knee"
        await pilot.press("r")
        await settle(app, pilot)
        assert app.current_mode == "ramp"
    async with shown(samples.mid_step()) as (app, pilot, held):
        await pilot.press("1")
        held.now = samples.finished()
        await settle(app, pilot)
        assert app.current_mode == "ramp"


async def test_a_step_can_be_ended_but_not_a_ramp_or_nothing() -> None:
    ended: list[bool] = []
    controls = RunControls(end_step=lambda: ended.append(True))

    async with shown(samples.mid_step(), run=samples.never, controls=controls) as (_, pilot, _):
        await pilot.press("n")
        await pilot.pause()
        assert ended == [True]
    async with shown(samples.ramp(), run=samples.never, controls=controls) as (_, pilot, _):
        await pilot.press("n")
        await pilot.pause()
        assert ended == [True]

"""The screen of a watch: a table that is sorted and filtered, a page for one replica, and ways back and out."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.pilot import Pilot

from core.report import COLUMNS
from core.server import Found
from core.watch import Figures, ReplicaKnee, Table, Watched
from tests.core.watch.feed import vitals
from tui.watch.app import WatchApp
from tui.watch.page import ReplicaPage

KNEE = ReplicaKnee(10.0, 12.0, "tiny", Path("run.jsonl"))
SIZES = ((80, 24), (120, 36), (200, 60))
A, B, C = "http://10.0.0.1:8000", "http://10.0.0.2:8000", "http://10.0.0.3:8000"


class Held:
    """Three replicas as a test left them, at 60 s: one busy, one idle, one away. `failure` ends the reading."""

    def __init__(self, knee: ReplicaKnee | None = None, urls: tuple[str, ...] = (A, B, C)) -> None:
        self.watched = Watched(knee=knee)
        self.watched.see(Found(urls), 0.0)
        self.began = self.ended = False
        for t in range(0, 61):
            buckets = (0.0, 2.0 * t, 3.0 * t, 4.0 * t)
            self.watched.take(A, vitals(float(t), ttft=buckets, running=7.0, waiting=2.0, requests_success_total=11.0 * t))
            self.watched.take(B, vitals(float(t), ttft=(0, 0, 0, 0), running=3.0, requests_success_total=2.0 * t))
        self.watched.fail(C, 48.0, "cannot be reached: nothing listens there (connection refused)")

    def table(self) -> Table:
        return self.watched.table(60.0)

    def points(self, url: str) -> tuple[Figures, ...]:
        return self.watched.points(url)

    async def run(self) -> None:
        self.began = True
        try:
            await asyncio.Event().wait()
        finally:
            self.ended = True


def lines_of(app: WatchApp) -> list[str]:
    return ["".join(segment.text for segment in strip).rstrip() for strip in app.screen._compositor.render_strips()]


def text_of(app: WatchApp) -> str:
    return "\n".join(lines_of(app))


def names(app: WatchApp) -> list[str]:
    """The replicas in the table, from above."""
    found = [line.split()[1] for line in lines_of(app) if line.strip()[:1] in ("✔", "✘", "⊘", "…")]
    return [name for name in found if name.startswith("10.")]


@asynccontextmanager
async def watching(
    held: Held, size: tuple[int, int] = (120, 36), knee: ReplicaKnee | None = None
) -> AsyncIterator[tuple[WatchApp, Pilot[None]]]:
    app: WatchApp = WatchApp(held, knee)
    async with app.run_test(size=size) as pilot:
        await settle(app, pilot)
        yield app, pilot
    await app.end()


async def settle(app: WatchApp, pilot: Pilot[None]) -> None:
    app.look()
    await pilot.pause()
    await pilot.pause()


async def press(app: WatchApp, pilot: Pilot[None], *keys: str) -> None:
    await pilot.press(*keys)
    await settle(app, pilot)


@pytest.mark.parametrize("size", SIZES)
async def test_each_replica_has_a_row_and_one_that_is_away_says_why_and_since_when(size: tuple[int, int]) -> None:
    async with watching(Held(), size) as (app, _):
        text = text_of(app)
        assert names(app) == ["10.0.0.1:8000", "10.0.0.2:8000", "10.0.0.3:8000"]
        assert "2 of 3 replicas read" in text
        assert "✘ 10.0.0.3:8000 not read for 12 s: cannot be reached" in " ".join(text.split())
        assert "10 running, 2 waiting" in text
        assert "10.0.0.1:8000, had 1.50 times an even share" in " ".join(text.split())
        assert "over" in next(line for line in lines_of(app) if "10.0.0.1:8000" in line)  # its TTFT p95 is beyond the last bucket
        assert "q Quit" in text
        assert all(len(line) <= size[0] for line in lines_of(app))


async def test_a_wide_terminal_shows_every_column() -> None:
    async with watching(Held(), (200, 60)) as (app, _):
        head = next(line for line in lines_of(app) if "replica " in line and "load" in line)
        assert [column.head for column in COLUMNS if column.head not in head] == []


async def test_rows_are_sorted_by_a_column_and_the_cursor_stays_with_its_replica() -> None:
    async with watching(Held()) as (app, pilot):
        await press(app, pilot, "down")
        assert app._screen.table.chosen is not None
        assert app._screen.table.chosen.url == B
        await press(app, pilot, "right", "right")
        assert "run↓" in text_of(app)
        assert names(app) == ["10.0.0.1:8000", "10.0.0.2:8000", "10.0.0.3:8000"]
        await press(app, pilot, "r")
        assert "run↑" in text_of(app)
        assert names(app) == ["10.0.0.2:8000", "10.0.0.1:8000", "10.0.0.3:8000"]  # without a figure: last, either way
        assert app._screen.table.chosen.url == B
        await press(app, pilot, "left", "left")
        assert names(app) == ["10.0.0.1:8000", "10.0.0.2:8000", "10.0.0.3:8000"]


async def test_a_filter_leaves_the_rows_that_hold_it_and_escape_takes_it_away() -> None:
    async with watching(Held()) as (app, pilot):
        await press(app, pilot, "slash", *"refused")
        assert names(app) == ["10.0.0.3:8000"]
        await press(app, pilot, "q")  # typed, not obeyed
        assert app.is_running
        assert names(app) == []
        await press(app, pilot, "backspace", "enter")
        assert "1 shown" in text_of(app)
        await press(app, pilot, "escape")
        assert len(names(app)) == 3


@pytest.mark.parametrize("size", SIZES)
async def test_enter_opens_the_page_of_one_and_escape_goes_back(size: tuple[int, int]) -> None:
    async with watching(Held(KNEE), size, KNEE) as (app, pilot):
        await press(app, pilot, "enter")
        await settle(app, pilot)
        assert isinstance(app.screen, ReplicaPage)
        text = text_of(app)
        for words in ("10.0.0.1:8000", "✔ ok", "requests  run 7  wait 2", "req/s 11.0", "TTFT", "TPOT", "out tok/s", "esc Back"):
            assert words in text
        assert "110 % of the rate that a replica was measured to hold" in " ".join(text.split())
        assert all(len(line) <= size[0] for line in lines_of(app))
        await press(app, pilot, "escape")
        assert len(app.screen_stack) == 1
        assert len(names(app)) == 3


async def test_a_page_of_a_replica_that_goes_away_stays() -> None:
    held = Held()
    async with watching(held) as (app, pilot):
        await press(app, pilot, "enter")
        held.watched.see(Found((B, C)), 60.0)
        await settle(app, pilot)
        assert "⊘ gone" in text_of(app)
        held.watched.see(Found((B, C)), 400.0)
        await settle(app, pilot)
        assert "⊘ gone" in text_of(app)


async def test_load_against_a_knee_is_marked_by_a_glyph_as_well() -> None:
    async with watching(Held(KNEE), knee=KNEE) as (app, _):
        rows = {line.split()[1]: line for line in lines_of(app) if "10.0.0." in line and line.strip()[0] in "✔✘"}
        assert "110 % ▲" in rows["10.0.0.1:8000"]
        assert "20 % " in rows["10.0.0.2:8000"]
        assert "Load is the share of 10.0 requests/s, which one replica of tiny was measured to hold." in text_of(app)


async def test_help_names_every_column_and_any_of_its_keys_closes_it() -> None:
    async with watching(Held(), (120, 60)) as (app, pilot):
        await press(app, pilot, "question_mark")
        text = " ".join(text_of(app).split())
        assert all(f"{column.head} {column.told}" in text for column in COLUMNS)
        await press(app, pilot, "escape")
        assert len(names(app)) == 3


@pytest.mark.parametrize("keys", [("q",), ("ctrl+c",), ("enter", "q"), ("slash", "ctrl+c"), ("question_mark", "ctrl+c")])
async def test_it_is_left_and_nothing_is_read_any_more(keys: tuple[str, ...]) -> None:
    held = Held()
    app: WatchApp = WatchApp(held)
    async with app.run_test() as pilot:
        await settle(app, pilot)
        assert held.began
        await pilot.press(*keys)
        await pilot.pause()
        assert app._exit
    await app.end()
    assert (app.return_code, held.ended) == (0, True)


async def test_a_thousand_replicas_are_scrolled_through() -> None:
    held = Held(urls=tuple(f"http://10.1.0.{n}:8000" for n in range(1000)))
    async with watching(held, (80, 24)) as (app, pilot):
        assert names(app)[0] == "10.1.0.0:8000"
        await press(app, pilot, "pagedown", "pagedown", "down")
        assert app._screen.table.chosen is not None
        chosen = app._screen.table.chosen.url.removeprefix("http://")
        assert chosen in names(app)
        assert chosen != "10.1.0.0:8000"
        await press(app, pilot, *("pageup",) * 3)
        assert names(app)[0] == "10.1.0.0:8000"


async def test_what_a_server_says_draws_nothing_of_its_own() -> None:
    held = Held()
    held.watched.fail(C, 50.0, "answers 500 (\x1b[31mred\x1b[0m\nand [bold]more[/bold])")
    async with watching(held) as (app, _):
        assert "answers 500 (red and [bold]more[/bold])" in text_of(app)


async def test_a_stuck_replica_is_told_of_below_the_table_whichever_is_chosen() -> None:
    held = Held()
    for t in range(61, 90):
        held.watched.take(A, vitals(float(t), running=7.0, waiting=2.0, requests_success_total=660.0))
    held.table = lambda: held.watched.table(89.0)  # type: ignore[method-assign]
    async with watching(held, (80, 24)) as (app, pilot):
        assert "10.0.0.1:8000: requests are stuck: no token for" in text_of(app)
        await press(app, pilot, "down")
        assert "1 replica is stuck: http://10.0.0.1:8000." in text_of(app)


async def test_the_page_says_what_the_row_says() -> None:
    held = Held()
    for t in range(61, 90):
        held.watched.take(A, vitals(float(t), running=7.0, waiting=2.0, epoch=2000.0))
    held.table = lambda: held.watched.table(89.0)  # type: ignore[method-assign]
    async with watching(held) as (app, pilot):
        await press(app, pilot, "enter")
        text = " ".join(text_of(app).split())
        assert "Requests are stuck: no token for 28 s. Restarted 28 s ago." in text

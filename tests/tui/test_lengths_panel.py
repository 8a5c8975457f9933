"""Requests by their lengths on the knee screen."""

import re

import pytest
from msgspec.structs import replace

from core.results import StepResult
from core.units import DASH
from core.view import RunView
from tests.tui import knee_samples, length_samples
from tests.tui.screen import rendered, settle, shown, text_of
from tui.widgets import lengths_panel


def squeezed(text: str) -> str:
    return re.sub(" +", " ", text).replace(DASH, "-")


def drawn(view: RunView, step: StepResult | None, width: int, height: int) -> list[str]:
    rows: list[str] = lengths_panel.content(view, step, width, height).plain.split("\n")
    assert len(rows) <= height
    assert max(map(len, rows)) <= width
    return rows


def holding(view: RunView) -> StepResult:
    return next(step for step in view.steps if step.rate_rps == 11.3)


MIXED = length_samples.finished(length_samples.MIXED)


@pytest.mark.parametrize(
    ("size", "there"), [((80, 24), False), ((80, 50), True), ((120, 36), True), ((200, 36), True), ((200, 60), True)]
)
async def test_the_panel_is_there_where_requests_differ_and_there_is_room(size: tuple[int, int], there: bool) -> None:
    async with shown(MIXED, size, on="knee") as (app, pilot, held):
        await settle(app, pilot)  # the panel that only some runs have
        assert ("6 lengths" in text_of(app)) is there
        held.now = replace(knee_samples.finished(), version=999)
        await settle(app, pilot)
        await settle(app, pilot)
        assert "6 lengths" not in text_of(app)


async def test_a_digit_shows_it_alone_where_there_is_anything_to_show() -> None:
    async with shown(MIXED, (80, 24), on="knee") as (app, pilot, held):
        assert "1-6 Zoom" in text_of(app)
        await pilot.press("6")
        await settle(app, pilot)
        assert "3 of 4 below 95 %" in text_of(app)
        assert "in ↓ out →" in text_of(app)
        await pilot.press("6")
        held.now = replace(knee_samples.finished(), version=999)
        await settle(app, pilot)
        await pilot.press("6")
        await settle(app, pilot)
        assert "6 lengths" not in text_of(app)
        assert "1-5 Zoom" in text_of(app)


async def test_it_tells_of_the_step_that_is_chosen() -> None:
    async with shown(MIXED, (200, 60), on="knee") as (app, pilot, _):
        await settle(app, pilot)
        assert "6 lengths 11.3 req/s 3 of 4 below 95 %" in squeezed(text_of(app))
        await pilot.press("up")
        await settle(app, pilot)
        assert "6 lengths 12.4 req/s" in squeezed(text_of(app))


def test_each_kind_of_request_has_a_row_with_its_population() -> None:
    rows = [squeezed(row).strip() for row in drawn(MIXED, holding(MIXED), 100, 30)]
    planned = sum(repeat.planned for repeat in holding(MIXED).repeats if repeat.verdict == "pass")
    assert rows[0] == f"{planned:,} requests planned in 3 windows p50, p95: the highest of them"
    assert rows[1] == "tokens in out requests inside TTFT p50 TTFT p95 TPOT p50 TPOT p95 E2E p95 errors"
    assert [row.split()[:2] for row in rows[2:6]] == [["256", "64"], ["1,024", "128"], ["4,096", "64"], ["8,192", "512"]]
    assert "99.0 % 72.8 ms 128 ms 12.0 ms 20.0 ms 1.38 s 0" in rows[2]


def test_a_step_without_a_window_says_so() -> None:
    ramp = MIXED.steps[0]
    assert ramp.phase == "ramp"
    assert drawn(MIXED, ramp, 60, 4) == ["segments of a ramp are no windows"]
    assert drawn(MIXED, None, 60, 4) == ["no window of this step is judged"]


def test_a_small_panel_has_the_worst_rows_in_their_order_and_counts_the_others() -> None:
    view = length_samples.finished()
    whole, small = drawn(view, holding(view), 118, 40), drawn(view, holding(view), 60, 7)
    assert [row.split()[0] for row in small[2:6]] == ["1,024–2,047", "1,024–2,047", "1,024–2,047", "others"]  # noqa: RUF001
    assert small[6] == "… 13 more, none with a lower share inside"
    assert sum("%" in row for row in whole) == 17


@pytest.mark.parametrize("width", [36, 40, 60, 100])
def test_no_row_is_wider_than_the_panel_which_would_wrap_it(width: int) -> None:
    """The widest share is one whose requests had not all ended."""
    view = length_samples.finished()
    step = holding(view)
    open_ = [replace(each, decided=each.n - 1, good=each.n - 1) for each in step.repeats[0].buckets]
    drawn(view, replace(step, repeats=(replace(step.repeats[0], buckets=tuple(open_)),)), width, 9)  # asserts it


def test_the_picture_counts_all_that_came_in_judged_windows() -> None:
    view = length_samples.finished()
    windows = [
        repeat for step in view.steps if step.phase != "ramp" for repeat in step.repeats if repeat.verdict in ("pass", "fail")
    ]
    sent = sum(repeat.sent for repeat in windows)
    for height in (25, 30, 60):
        rows = drawn(view, holding(view), 118, height)
        at = next(at for at, row in enumerate(rows) if "sent in judged windows" in row)
        assert rows[at].startswith(f"{sent - len(windows):,} of {sent:,} requests sent in judged windows ended")
        assert rows[at + 1].startswith("in ↓ out →")
        cells = [int(n.replace(",", "")) for row in rows[at + 2 :] for n in re.findall(r"(\d[\d,]*) [░▒▓█]", row)]
        assert sum(cells) == sent - len(windows)
        assert sum("█" in row for row in rows[at + 2 :]) >= 1


def test_of_a_wide_and_low_panel_the_picture_stands_beside_the_table() -> None:
    rows = drawn(MIXED, holding(MIXED), 190, 9)
    assert "tokens in" in rows[1]
    assert "in ↓ out →" in rows[1]


def test_what_did_not_come_is_no_picture() -> None:
    steps = tuple(replace(step, repeats=tuple(replace(each, sizes=()) for each in step.repeats)) for step in MIXED.steps)
    assert not any("judged windows" in row for row in drawn(replace(MIXED, steps=steps), holding(MIXED), 118, 40))


async def test_lengths_that_fail_come_before_other_notes() -> None:
    text = squeezed(await rendered(MIXED, (200, 60), "knee"))
    assert "requests with prompts of 4,096 tokens and answers of 64 tokens miss the target at 11.3 requests/s" in text
    assert text.index("requests with prompts of 4,096") < text.index("PASS by one request")

"""Recorded runs on the knee: that no picture says more than is known, and that none contradicts another."""

import re
from functools import lru_cache
from pathlib import Path

import pytest

from core.run import Replay, read_run
from core.view import RunView
from tests.tui.screen import lines_of, settle, shown, text_of

ROOT = Path(__file__).parents[2]
INVERTED, DEMO = ROOT / "tests/data/pictures/kvlim-inverted.jsonl", ROOT / "screenshots/demo.jsonl"
SIZES = [(80, 24), (120, 36), (200, 60)]
MARKS = "✔✘✓✗●○"
NEAR = 3
"""Columns within which a mark is that of the rate whose name stands there."""


@lru_cache
def end_of(path: Path) -> RunView:
    """The run when it is over."""
    replay = Replay(read_run(path))
    return replay.view(replay.length_s)


async def panel(path: Path, digit: str, size: tuple[int, int] = (120, 36), keys: tuple[str, ...] = ()) -> list[str]:
    """The rows of a panel that has the screen for itself."""
    async with shown(end_of(path), size, on="knee") as (app, pilot, _):
        await pilot.press(*keys, digit)
        await settle(app, pilot)
        rows = lines_of(app)
    top = next(at for at, row in enumerate(rows) if row.startswith("╭"))
    bottom = next(at for at, row in enumerate(rows) if row.startswith("╰"))
    return rows[top : bottom + 1]


def squeezed(rows: list[str]) -> str:
    return re.sub(" +", " ", "\n".join(rows))


def column(rows: list[str], rate: str) -> int:
    """Where the name of a rate stands under the plot."""
    found = re.search(rf"(?<![\d.]){re.escape(rate)}(?![\d.])( req/s)?", rows[-2])
    assert found is not None, rows[-2]
    return (found.start() + found.end() - 1) // 2


def marks_at(rows: list[str], rate: str, among: str = MARKS) -> list[tuple[int, str]]:
    """Row and glyph of what stands at a rate."""
    at = column(rows, rate)
    return [(y, char) for y, row in enumerate(rows[2:-2], 2) for char in row[at - NEAR : at + NEAR + 1] if char in among]


def rule_of(rows: list[str]) -> int:
    return next(y for y, row in enumerate(rows) if "╌" in row)


@pytest.mark.parametrize("size", SIZES)
async def test_a_rate_of_which_nothing_counts_does_not_stand_above_the_one_that_passed(size: tuple[int, int]) -> None:
    rows = await panel(INVERTED, "2", size)
    (passed,) = [y for y, char in marks_at(rows, "12.1") if char == "✔"]
    failed = marks_at(rows, "17.1", "✘✗")
    assert passed < rule_of(rows) < min(y for y, _ in failed)
    assert not any("⠁" <= char <= "⣿" for row in rows[1:-1] for char in row), "no line joins what is only bounded"


async def test_the_rates_of_the_ramp_that_held_are_in_the_picture() -> None:
    rows = await panel(INVERTED, "2")
    for rate in ("1.51", "3.03", "6.06", "12.1"):
        assert (rule_of(rows) - 1, "✓") in marks_at(rows, rate)


async def test_a_rate_that_was_ended_early_is_a_bar_down_to_what_is_sure_and_no_point_near_the_target() -> None:
    rows = await panel(INVERTED, "2")
    at = marks_at(rows, "24.2", "✗│┴")
    assert at[0][1] == "✗"
    assert at[-1][1] == "┴"
    assert " 0 %" in rows[at[-1][0]], "3 of the 153 that it was to have were good"
    assert len(at) > 10


@pytest.mark.parametrize("size", SIZES)
async def test_a_step_of_the_ramp_has_the_numbers_of_its_rate_and_not_the_percentiles_of_the_survivors(
    size: tuple[int, int],
) -> None:
    text = squeezed(await panel(INVERTED, "3", size, ("up", "up")))
    assert "3 ramp 24.2 req/s ✘ FAIL" in text
    assert "at 24.2 req/s: 3 good, 19 missed, 92 open of 114 sent" in text
    assert "ramp 1.51 to 24.2 req/s" in text
    assert "TTFT" not in text
    assert "132 ms" not in text


async def test_a_step_that_nobody_ended_in_says_what_its_requests_had_reached() -> None:
    text = squeezed(await panel(INVERTED, "3", (120, 36), ("up",)))
    assert "none of the 7 requests of its window ended" in text
    assert "at 17.1 req/s: 0 good, 63 missed, 11 open of 74 sent" in text
    assert "median ≥" in text
    assert "floor not known" in text


async def test_a_pass_that_was_certain_early_leads_with_those_that_had_not_ended() -> None:
    rows = await panel(INVERTED, "3")
    assert "483 of 506 ended" in rows[1]
    ttft = next(row for row in rows if "TTFT" in row)
    assert ttft.count("≥") == 3


@pytest.mark.parametrize("size", SIZES)
async def test_goodput_and_attainment_have_each_rate_at_the_same_place_and_in_the_same_order(size: tuple[int, int]) -> None:
    attainment, goodput = await panel(INVERTED, "2", size), await panel(INVERTED, "5", size)
    for rate in ("12.1", "17.1", "24.2"):
        assert abs(column(attainment, rate) - column(goodput, rate)) <= 1
    assert [char for _, char in marks_at(goodput, "12.1")] == ["✔"]
    assert marks_at(goodput, "17.1") == [], "nothing is known of it"
    assert "not known at 17.1" in goodput[0] or size[0] < 100


@pytest.mark.parametrize(("keys", "offered"), [((), "12.7"), (("up",), "17.3")])
async def test_what_was_offered_is_what_the_plan_had_however_much_of_it_was_sent(keys: tuple[str, ...], offered: str) -> None:
    rows = await panel(INVERTED, "3", (120, 36), keys)
    head = next(row for row in rows if "repeat  verdict" in row)
    row = rows[rows.index(head) + 1]
    end = head.index("offered") + len("offered")
    assert row[:end].split()[-1] == offered


@pytest.mark.parametrize("size", SIZES)
async def test_the_headline_says_what_is_known_of_the_failing_end(size: tuple[int, int]) -> None:
    async with shown(end_of(INVERTED), size, on="knee") as (app, _, _):
        text = text_of(app)
    assert "✘ FAILS at 17.1 requests/s" in text
    assert "63 of 74 sent missed a limit, none was good" in text
    assert "≤ 100 %" not in text


@pytest.mark.parametrize("size", SIZES)
async def test_a_usual_run_ends_with_its_bracket_and_bars(size: tuple[int, int]) -> None:
    async with shown(end_of(DEMO), size, on="knee") as (app, _, _):
        text = text_of(app)
    assert "✔ HOLDS at 17.5 requests/s" in text
    assert "floor ≥ 99.1 %, 1 missed of 711" in text
    assert "✘ FAILS at 24.7 requests/s" in text
    rows = await panel(DEMO, "2", size)
    (passed,) = [y for y, char in marks_at(rows, "17.5") if char == "✔"]
    assert passed < rule_of(rows) < min(y for y, _ in marks_at(rows, "24.7", "✗"))
    assert marks_at(await panel(DEMO, "5", size), "17.5", "✔")

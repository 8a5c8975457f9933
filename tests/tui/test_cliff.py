"""The cliff of a run: at each moment it says what is known of every rate, and its end tells what the run found."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from core.margins import AT_LIMIT
from core.results import Answer, FailCount, Knee
from core.run import log as runs
from core.run.replay import Replay
from core.view import RunView
from tests.tui import samples
from tests.tui.screen import settle, shown, text_of
from tui.app import Name
from tui.draw import density
from tui.draw.density import Cliff, Column, Ink
from tui.widgets import cliff
from tui.widgets.cliff import CliffContent, CliffPanel, content_of

DATA = Path(__file__).parents[1] / "data"
INVERTED = DATA / "pictures" / "kvlim-inverted.jsonl"
DEMO = DATA.parents[1] / "screenshots" / "demo.jsonl"
RUNS = sorted((DATA / "runs").glob("*.jsonl"))
END = 1e6
SIZES = [(80, 24), (120, 36), (200, 60)]


@cache
def replay(path: Path) -> Replay:
    return Replay(list(runs.read_run(path)))


def at(at_s: float, path: Path = INVERTED) -> RunView:
    return replay(path).view(at_s)


def picture(content: CliffContent) -> Cliff:
    assert isinstance(content.body, Cliff)
    return content.body


def words(content: CliffContent) -> list[str]:
    return [piece.text for piece in content.title]


def column(view: RunView, rate: str) -> Column:
    return next(one for one in picture(content_of(view)).columns if rate in one.names[-1])


def over_share(one: Column) -> float:
    """Of all requests, those that are drawn above the horizon."""
    sent = sum(one.ended) + sum(one.open) + one.failed
    return (sum(one.ended[AT_LIMIT:]) + sum(one.open[AT_LIMIT:]) + one.failed) / sent


def heights(view: RunView, rate: str, width: int = 74, height: int = 20) -> tuple[set[Ink], set[Ink]]:
    """The inks in the column of that rate, above and below the horizon."""
    body = picture(content_of(view))
    index = next(index for index, one in enumerate(body.columns) if rate in one.names[-1])
    slot = density.slots_of(body, width - 7)[index]
    rows = [[run.ink for run in row for _ in run.text] for row in density.draw(body, width, height)]
    horizon = next(y for y, row in enumerate(rows) if row[-1] == "rule")
    above, below = (
        {ink for row in part for ink in row[7 + slot.start : 7 + slot.end] if ink is not None and ink not in ("strong", "label")}
        for part in (rows[:horizon], rows[horizon + 1 : height - 2])
    )
    return above, below


# --- the run whose picture was inverted ---------------------------------------------------------------------------


def test_while_a_rate_fails_in_its_warm_up_all_that_is_decided_is_above_the_horizon() -> None:
    view = at(49)
    above, below = heights(view, "17.1")
    assert above == {"over"}
    assert below == {"open"}, "what may still be good is drawn as nothing yet"
    assert {"17.1 req/s now: 63 over the limit", "0 good", "11 undecided"} <= set(words(content_of(view)))
    mark = density.quantile(column(view, "17.1"), 0.95)
    assert mark is not None
    assert mark[0] >= AT_LIMIT


def test_at_the_end_the_rate_that_fails_stands_above_the_one_that_holds() -> None:
    view = at(END)
    assert over_share(column(view, "17.1")) > 0.8 > 0.0 == over_share(column(view, "12.1"))
    ends = {rate: density.quantile(column(view, rate), 0.95) for rate in ("12.1", "17.1")}
    assert all(mark is not None for mark in ends.values())
    assert ends["12.1"][1] < AT_LIMIT <= ends["17.1"][0]  # type: ignore[index]
    assert heights(view, "12.1") == (set(), {"good", "open"})
    assert words(content_of(view))[-2:] == ["✔ holds 12.1", "✘ fails at 17.1"]


def test_the_bracket_grows_with_what_is_judged() -> None:
    assert picture(content_of(at(30))).note == "ramp: nothing judged yet"
    assert picture(content_of(at(30))).stretches == ()
    kinds = [
        (one.kind, one.start_rps and round(one.start_rps, 1), one.end_rps and round(one.end_rps, 1)) for one in stretches(at(49))
    ]
    assert kinds == [("unknown", None, 24.2), ("fails", 24.2, None)]
    assert [one.kind for one in stretches(at(END))] == ["holds", "unknown", "fails"]


def stretches(view: RunView) -> tuple[density.Stretch, ...]:
    return picture(content_of(view)).stretches


def test_what_was_not_judged_is_paler_and_its_rate_stands_in_brackets() -> None:
    view = at(END)
    names = [one.names[0] for one in picture(content_of(view)).columns]
    assert names == ["(1.51)", "(3.03)", "(6.06)", "✔ 12.1", "✘ 17.1", "✘ (24.2)"]
    assert heights(view, "3.03")[1] == {"good-pale"}
    long, short = content_of(view).legend
    assert any("only ramp and warm-up, not counted" in piece.text for piece in long)
    assert any("not counted" in piece.text for piece in short)


def test_the_axes_move_in_few_steps() -> None:
    axes: list[tuple[tuple[float, float], int, int]] = []
    for half in range(18, 200):
        body = content_of(at(half / 2)).body
        if isinstance(body, Cliff) and (not axes or axes[-1] != (body.x_range, body.up, body.down)):
            axes.append((body.x_range, body.up, body.down))
    assert len(axes) <= 4
    assert [axis[1:] for axis in axes] == sorted(axis[1:] for axis in axes), "up and down only grow"


async def test_the_screen_says_it_in_the_title_and_below_the_columns() -> None:
    on: Name
    for on in ("ramp", "knee"):
        async with shown(at(49), (120, 36), on=on, run=samples.never) as (app, _, _):
            text = text_of(app)
            assert "1 cliff  17.1 req/s now: 63 over the limit  0 good" in text
            assert "limit ─ TTFT 800 ms, TPOT 50 ms ─" in text
            assert "not known" in text


@pytest.mark.parametrize("size", SIZES)
async def test_it_is_whole_at_every_size_and_alone(size: tuple[int, int]) -> None:
    async with shown(at(49), size, run=samples.never) as (app, pilot, held):
        panel = app.screen.query_one(CliffPanel)
        for view in (at(0), at(5), at(12), at(30), at(49)):
            held.now = view
            await settle(app, pilot)
            drawn = [panel.render_line(y).cell_length for y in range(panel.size.height)]
            assert drawn == [panel.size.width] * panel.size.height
        await pilot.press("1")
        await settle(app, pilot)
        assert app.screen.maximized is panel
        assert "limit ─" in text_of(app)


# --- any run ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [*RUNS, DEMO], ids=lambda path: path.stem)
def test_every_request_that_counts_at_a_rate_is_drawn(path: Path) -> None:
    run = replay(path)
    for tenth in range(11):
        view = run.view(run.length_s * tenth / 10)
        body = content_of(view).body
        if isinstance(body, str):
            assert not view.margins
            continue
        drawn = {one.rate_rps: sum(one.ended) + sum(one.open) + one.failed for one in body.columns}
        assert {rate: n for rate, n in drawn.items() if n} == {rate.rate_rps: rate.sent for rate in view.margins}
        low, high = body.x_range
        assert low <= body.columns[0].rate_rps <= body.columns[-1].rate_rps <= high
        for size in ((40, 5), (78, 8), (98, 22)):
            assert len(density.draw(body, *size)) == size[1]


def test_before_the_first_request_a_sentence_stands_there() -> None:
    assert content_of(samples.preflight()).body == cliff.NOTHING
    assert words(content_of(samples.preflight())) == ["1 cliff"]


def test_a_held_rate_has_no_bracket() -> None:
    view = at(30, DATA / "runs" / "vllm-0.32.0-hold.jsonl")
    assert "held" in picture(content_of(view)).note
    assert words(content_of(view))[1].startswith("2.00 req/s now:")


def test_a_rate_that_is_to_be_sent_has_its_place_already() -> None:
    view = at(END)
    assert view.margins
    current = replace(at(49).current, rate_rps=14.4)  # type: ignore[type-var]
    body = content_of(replace(view, answer=None, current=current))
    (now,) = [one for one in picture(body).columns if one.now]
    assert (now.rate_rps, sum(now.ended)) == (14.4, 0)
    assert words(body)[1] == "14.4 req/s now: nothing to count yet"


def test_failed_requests_are_named_in_the_title() -> None:
    view = at(49)
    failing = tuple(replace(rate, failed=5) if round(rate.rate_rps, 1) == 17.1 else rate for rate in view.margins)
    content = content_of(replace(view, margins=failing))
    assert {"17.1 req/s now: 63 over the limit", "5 failed"} <= set(words(content))
    assert column(replace(view, margins=failing), "17.1").failed == 5


def test_what_is_mixed_is_neither() -> None:
    view = at(END)
    assert view.answer is not None
    knee = Knee(
        pass_rps=12.1,
        first_fail_rps=14.0,
        first_fail=FailCount(failed=1, run=3),
        clear_fail_rps=17.1,
        clear_fail=FailCount(failed=2, run=2),
    )
    mixed = content_of(replace(view, answer=replace(view.answer, knee=knee)))
    assert [one.kind for one in picture(mixed).stretches] == ["holds", "unknown", "mixed", "fails"]
    assert words(mixed)[-1] == "✘ clearly fails at 17.1"
    assert isinstance(view.answer, Answer)


async def test_nothing_is_drawn_again_when_nothing_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Cliff] = []
    draw = density.draw

    def counted(body: Cliff, *rest: Any) -> tuple[tuple[density.Run, ...], ...]:
        drawn.append(body)
        return draw(body, *rest)

    monkeypatch.setattr(density, "draw", counted)
    async with shown(at(49), run=samples.never) as (app, pilot, held):
        before = len(drawn)
        assert before >= 1
        held.now = replace(held.now, version=held.now.version + 1, now_s=held.now.now_s + 1)
        await settle(app, pilot)
        assert len(drawn) == before
        held.now = at(60)
        await settle(app, pilot)
        assert len(drawn) == before + 1

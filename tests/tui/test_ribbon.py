"""The ribbon: glyph, ink and words for what became of the requests of each moment, and the cursor on it."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from core.results import Bounds
from core.run.log import read_run
from core.run.replay import Replay
from core.view import Outcomes, RampSegment, RunView
from tests.tui import samples
from tests.tui.screen import lines_of, settle, shown
from tui.app import KneescopeApp, RunControls
from tui.cli.recorded import Recorded
from tui.draw import symbols
from tui.widgets import ribbon
from tui.widgets.ribbon import Axis, Cell, Ribbon, Slice

RUN = Path("tests/data/pictures/kvlim-inverted.jsonl")


def view_of(outcomes: Iterable[Outcomes], **given: object) -> RunView:
    known = tuple(outcomes)
    return replace(samples.mid_step(), outcomes=known, bin_s=1.0, **given)


def seconds(*rates: tuple[int, float | None, int], begin: int = 0) -> Iterator[Outcomes]:
    """(step, rate, how many seconds), with three good requests in each second in which anything was sent."""
    at = begin
    for step, rate_rps, length in rates:
        for _ in range(length):
            yield Outcomes(t_s=float(at), step=step, rate_rps=rate_rps, good=0 if rate_rps is None else 3)
            at += 1


def only_cell(each: Slice) -> Cell:
    return ribbon.cells([each], Axis(0.0, 1.0, 1), None)[0]


@pytest.mark.parametrize("counted", [True, False])
def test_each_fate_has_a_glyph_and_an_ink_of_its_own(counted: bool) -> None:
    fates = [Slice(good=3), Slice(missed=3), Slice(good=2, missed=1), Slice(good=2, open=1), Slice()]
    drawn = [only_cell(Slice(each.good, each.missed, each.open, counted)) for each in fates]
    assert len({cell.glyph for cell in drawn}) == len({cell.ink for cell in drawn}) == len(fates)
    assert drawn[-1] == Cell(" ", None)


@pytest.mark.parametrize("written", symbols.CHOICES)
def test_what_counts_stands_out_from_what_does_not_in_whatever_is_written(
    written: symbols.Symbols, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(symbols, "_in_use", written)
    found = [
        symbols.written(only_cell(Slice(good, missed, open_, counted)).glyph, written)
        for good, missed, open_ in ((3, 0, 0), (0, 3, 0), (2, 1, 0), (0, 0, 3))
        for counted in (True, False)
    ]
    assert len(set(found)) == len(found)
    assert written != "ascii" or all(glyph.isascii() for glyph in found)


def test_the_height_is_the_share_of_the_decided_that_was_good_and_no_single_request_is_lost() -> None:
    heights = [only_cell(Slice(good, 16 - good, 0, counted=True)).glyph for good in range(17)]
    assert heights[0] == "╳"  # noqa: RUF001
    assert heights[16] == "█"
    assert heights[1:16] == sorted(heights[1:16])
    assert heights[8] == "▄"
    assert only_cell(Slice(999, 1, 0, counted=True)).glyph == "▇"
    assert only_cell(Slice(1, 999, 0, counted=True)).glyph == "▁"
    assert only_cell(Slice(8, 8, 100, counted=True)).glyph == "▄"


def test_no_request_is_lost_or_counted_twice_where_columns_are_coarse() -> None:
    view = view_of(Outcomes(t_s=float(at), step=1, rate_rps=1.0, good=1, missed=at % 2, open=at % 3) for at in range(97))
    for columns in (3, 10, 59, 96):
        found = ribbon.slices(view, Axis(0.0, 97.0, columns))
        for name in ("good", "missed", "open"):
            assert sum(getattr(each, name) for each in found) == sum(getattr(each, name) for each in view.outcomes)


def test_where_columns_are_fine_each_shows_the_bin_in_which_it_lies() -> None:
    view = view_of(Outcomes(t_s=float(at), step=1, rate_rps=1.0, good=at + 1) for at in range(10))
    found = ribbon.slices(view, Axis(0.0, 20.0, 80))
    assert [each.good for each in found[:40]] == [at + 1 for at in range(10) for _ in range(4)]
    assert all(each.fate is None for each in found[40:])


def test_a_column_counts_if_most_of_its_requests_do() -> None:
    view = view_of(
        [
            Outcomes(t_s=0.0, step=1, rate_rps=1.0, good=2),
            Outcomes(t_s=1.0, step=1, rate_rps=1.0, good=3, counted=True),
            Outcomes(t_s=2.0, step=1, rate_rps=1.0, good=3),
            Outcomes(t_s=3.0, step=1, rate_rps=1.0, good=2, counted=True),
        ]
    )
    assert [each.counted for each in ribbon.slices(view, Axis(0.0, 4.0, 2))] == [True, False]


def names(view: RunView, columns: int, end_s: float, cursor_s: float | None = None) -> list[str]:
    axis = Axis(0.0, end_s, columns)
    placed = ribbon.names(view, ribbon.slices(view, axis), axis, cursor_s)
    row = [" "] * columns
    for name in placed:
        before = name.column - 1
        assert name.column >= 0
        assert name.column + len(name.text) <= columns
        assert before < 0 or row[before] == " "
        row[name.column : name.column + len(name.text)] = name.text
    return [name.text for name in placed]


def test_a_band_is_named_by_rate_and_verdict_in_the_longest_words_that_fit() -> None:
    view = view_of(seconds((0, None, 5), (4, 11.3, 30), (5, 12.4, 20)))
    assert names(view, 120, 60.0) == ["0:00", "11.3 req/s ✔ PASS", "12.4 req/s … running", "1:00"]
    assert names(view, 50, 60.0) == ["11.3 req/s ✔ PASS", "12.4 req/s … running"]
    assert names(view, 30, 60.0) == ["11.3 ✔ PASS", "12.4 …", "1:00"]
    assert names(view, 12, 60.0) == ["11.3✔", "12.4…"]
    assert names(view, 3, 60.0) == []


def test_no_name_is_ever_cut_or_touches_another() -> None:
    view = Replay(read_run(RUN)).view(1e6)
    for columns in range(8, 220, 3):
        for cursor_s in (None, 0.5, 44.0, 97.0):
            for name in names(view, columns, 98.1, cursor_s):
                assert not name.endswith(" ")


def test_a_pause_at_one_rate_is_no_new_band_and_another_step_at_it_is_one() -> None:
    view = view_of(seconds((4, 11.3, 20), (4, None, 5), (4, 11.3, 20), (5, 11.3, 20)))
    assert [(band.start_s, band.names[-1]) for band in ribbon.bands(view)] == [(0.0, "11.3"), (45.0, "11.3")]


def test_rates_of_a_ramp_are_only_hints() -> None:
    segments = tuple(
        RampSegment(rate_rps=rate, bounds=Bounds(planned=9, good=9, bad=0, open=0), held=held)
        for rate, held in ((4.0, True), (8.0, True), (16.0, False))
    )
    view = view_of(seconds((3, 4.0, 10), (3, 8.0, 10), (3, 16.0, 10)), ramp=segments, current=None)
    assert [band.names[0] for band in ribbon.bands(view)] == ["4.00", "8.00", "16.0 ✘"]
    going = replace(samples.ramp(), outcomes=view.outcomes[:25], ramp=segments)
    step = going.current.step if going.current else 0
    going = replace(going, outcomes=tuple(replace(at, step=step) for at in going.outcomes))
    assert [band.names[0] for band in ribbon.bands(going)] == ["4.00", "8.00", "16.0 …"]


def test_the_recorded_run_is_told() -> None:
    view = Replay(read_run(RUN)).view(1e6)
    assert names(view, 196, 98.1) == [
        *("0:00", "1.51", "3.03", "6.06", "12.1", "24.2 ✘", "17.1 req/s ✘ FAIL", "12.1 req/s ✔ PASS", "1:38"),
    ]
    found = ribbon.slices(view, Axis(0.0, 98.0, 98))
    assert [each.fate for each in found[38:49]] == [*("missed", "open"), *["good"] * 3, "mixed", *["missed"] * 5]
    assert next(at for at, each in enumerate(found) if each.counted) == 48


def test_the_cursor_tells_the_moment_and_what_was_sent_in_its_column() -> None:
    view = Replay(read_run(RUN)).view(1e6)
    axis = Axis(0.0, 98.0, 98)
    found = ribbon.slices(view, axis)
    assert [at for at, cell in enumerate(ribbon.cells(found, axis, 45.0)) if cell.reverse] == [44]
    told = [text for text in names(view, 98, 98.0, 45.0) if "↑" in text]
    assert told == ["0:45  17.1 req/s: 17 missed, not counted ↑"]
    assert [text for text in names(view, 98, 98.0, 97.5) if "↑" in text] == ["1:37  12.1 req/s: 6 open ↑"]
    assert [text for text in names(view, 98, 98.0, 60.0) if "↑" in text] == ["1:00  12.1 req/s: 16 good ↑"]
    assert [text for text in names(view, 98, 98.0, 4.0) if "↑" in text] == ["↑ 0:04  nothing sent"]
    assert [text for text in names(view, 12, 98.0, 45.0) if "↑" in text] == ["0:45 ↑"]


def test_a_step_of_a_column_leads_to_the_next_one_and_ends_stay_inside() -> None:
    axis = Axis(0.0, 98.1, 118)
    at_s, columns = 98.1, []
    while at_s > axis.column_s:
        columns.append(axis.ending(at_s))
        at_s -= axis.column_s
    assert columns == list(range(117, 117 - len(columns), -1))
    assert axis.ending(0.0) == 0
    assert axis.ending(500.0) == axis.holding(500.0) == 117


@pytest.mark.parametrize(("size", "rows"), [((80, 24), 1), ((120, 36), 2), ((200, 60), 2)])
async def test_it_stands_under_the_header_at_full_width(size: tuple[int, int], rows: int) -> None:
    app = KneescopeApp(Recorded(str(RUN)))
    async with app.run_test(size=size) as pilot:
        await settle(app, pilot)
        app.action_look_at("ramp")
        await settle(app, pilot)
        drawn = app.screen.query_one(Ribbon)
        assert drawn.size == (size[0] - 2, rows)
        lines = lines_of(app)
        at = next(y for y, line in enumerate(lines) if "━" in line)
        assert lines[at].rstrip().endswith("▒")
        assert ("✔ PASS" in lines[at + 1]) == (rows == 2)


async def test_before_anything_is_sent_it_takes_no_room() -> None:
    async with shown(samples.preflight(), (120, 36)) as (app, _, _):
        assert app.screen.query_one(Ribbon).size.height == 0


async def test_without_colour_a_mixed_column_is_not_reversed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    view = view_of([Outcomes(t_s=0.0, step=5, rate_rps=12.4, good=3, missed=3, counted=True)], now_s=1.0)
    async with shown(view, (120, 36), run=samples.never, controls=RunControls()) as (app, _, _):
        styles = [style for strip in app.screen._compositor.render_strips() for text, style, _ in strip if "▄" in text]
        assert styles
        assert not any(style is not None and (style.reverse or style.bgcolor is not None) for style in styles)

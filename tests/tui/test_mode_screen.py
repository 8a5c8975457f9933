"""Several repeats, zones, lists and a held rate on the screen, at the sizes that people have."""

import re

import pytest
from msgspec.structs import replace

from core.results import Answer, RepeatVerdict
from core.view import StepView
from tests.tui import mode_samples, samples
from tests.tui.screen import lines_of, rendered, shown
from tests.tui.test_app import FakeRun, press
from tui import keys
from tui.app import RunControls
from tui.draw.plots import Plot
from tui.widgets import curve, steps_table

SIZES = [(80, 24), (120, 36), (160, 50)]


def bars(text: str) -> list[tuple[str, str]]:
    """Name and value of each bar of the hero."""
    return re.findall(r"│ ([rs]\d+) +▕[^▏]*▏ +(\S+)", text)


@pytest.mark.parametrize("size", SIZES)
async def test_the_running_repeat_is_named_and_each_has_its_bar(size: tuple[int, int]) -> None:
    text = await rendered(mode_samples.standard(), size)
    assert "step 7" in text
    assert "repeat 3/3" in text
    each = [("r1", "97.0"), ("r2", "50.0\u201388.0"), ("r3", "46.7\u201398.0")]
    assert bars(text) == (each if size != (80, 24) else each[1:])  # the lowest sets the floor


@pytest.mark.parametrize(("size", "shown"), [((80, 24), "r4 r8"), ((120, 36), "r4 r7 r8"), ((160, 50), "r3 r4 r5 r6 r7 r8")])
async def test_of_ten_repeats_the_lowest_and_the_newest_have_bars(size: tuple[int, int], shown: str) -> None:
    found = bars(await rendered(mode_samples.acceptance(), size))
    assert " ".join(name for name, _ in found) == shown
    assert ("r4", "95.4") in found


async def test_the_lowest_repeat_keeps_its_bar_when_it_is_an_old_one() -> None:
    view = mode_samples.acceptance()
    assert view.current is not None
    first_is_lowest = replace(view.current, finished=((0.9541, 0.9541), *[(0.99, 0.99)] * 6))
    found = bars(await rendered(replace(view, current=first_is_lowest), (120, 36)))
    assert [name for name, _ in found] == ["r1", "r7", "r8"]


async def test_a_judged_repeat_is_not_drawn_twice() -> None:
    text = await rendered(mode_samples.between_repeats(), (160, 50))
    assert [name for name, _ in bars(text)] == ["r1", "r2"]
    assert re.search(r"13\.6 +✔✘· ", text)


async def test_the_steps_table_has_a_glyph_for_each_repeat() -> None:
    text = await rendered(mode_samples.standard(), (160, 50))
    assert re.search(r"13\.6 +✔✘… +46\.7\u201388\.0 % +… running", text)
    assert re.search(r"12\.4 +✔✘✔ +93\.0 % +◐ MIXED", text)
    assert re.search(r"11\.3 +✔⊘✔✔ +96\.0 % +✔ PASS", text)
    assert "◐12.4" in await rendered(mode_samples.standard(), (80, 24))


@pytest.mark.parametrize(("width", "repeats"), [(36, "7✔"), (60, "✔✔✔✔✔✔✔…··")])
def test_repeats_that_have_no_room_are_counted(width: int, repeats: str) -> None:
    view = mode_samples.acceptance()
    assert view.current is not None
    row = steps_table.running(view.current, view)
    text = steps_table.table([row], None, width).plain
    assert re.search(rf"11\.3 +{repeats} +46\.7\u201395\.5 % +… running", text)


async def test_many_segments_are_counted_everywhere() -> None:
    view = mode_samples.hold_finished()
    verdicts: tuple[RepeatVerdict, ...] = ("pass",) * 58 + ("fail",) * 2 + ("unjudged",)
    step = samples.judged_step(1, 6.0, "hold", "fail", (0.9, 0.9), "", verdicts)
    assert re.search(r"6\.00 +58✔2✘ +90\.0 %", await rendered(replace(view, steps=(step,)), (160, 50)))


@pytest.mark.parametrize("size", SIZES)
async def test_a_drain_counts_down(size: tuple[int, int]) -> None:
    text = await rendered(mode_samples.draining(), size)
    assert "waiting, at most 1 min 24 s" in text
    assert "repeat 3/3" in text
    assert "◑ DRAINING" in text


@pytest.mark.parametrize("size", SIZES)
async def test_the_end_has_three_zones_with_the_repeats_behind_each(size: tuple[int, int]) -> None:
    text = await rendered(mode_samples.standard_finished(), size)
    narrow = size == (120, 36)  # its panel has no room for how many of the repeats failed
    assert re.search(r"✔ HOLDS at 11\.3 req.+?floor 96\.0 %, 3 repeats", text, re.DOTALL)
    assert re.search(rf"◐ MIXED from 12\.4 req.+?floor 93\.0 %{'' if narrow else ', 1 of 3 repeats failed'}", text, re.DOTALL)
    assert re.search(
        rf"✘ CLEARLY FAILS at 13\.6 req.+?floor ≤ 88\.0 %{'' if narrow else ', 2 of 2 repeats failed'}", text, re.DOTALL
    )
    assert "PASS by one request" in text or narrow
    assert "REQUIRED" not in text


async def test_without_a_mixed_rate_there_is_no_mixed_zone() -> None:
    view = mode_samples.standard_finished()
    assert view.answer is not None
    knee = replace(view.answer.knee, first_fail_rps=13.6)
    assert "MIXED from" not in await rendered(replace(view, answer=replace(view.answer, knee=knee)), (120, 36))


@pytest.mark.parametrize(
    ("met", "words"), [(False, "✘ REQUIRED RATE DOES NOT HOLD 12.0 requests/s"), (True, "✔ REQUIRED RATE HOLDS 12.0 requests/s")]
)
async def test_a_required_rate_comes_first(met: bool, words: str) -> None:
    view = mode_samples.not_met()
    assert view.answer is not None
    rows = (await rendered(replace(view, answer=replace(view.answer, required_met=met)), (80, 24))).splitlines()
    title = next(at for at, row in enumerate(rows) if "2 answer" in row)
    assert words in rows[title + 1]


async def test_the_end_of_a_list_and_of_a_held_rate_are_no_search() -> None:
    listed = await rendered(mode_samples.list_finished(), (120, 36))
    assert "■ LIST FINISHED" in listed
    assert "1 passes, 1 is mixed, 1 fails" in await rendered(mode_samples.list_finished(), (160, 50))
    held = await rendered(mode_samples.hold_finished(), (120, 36))
    assert "■ HELD UNTIL STOPPED" in held
    assert "seed 11" in held
    assert "quick" not in listed.splitlines()[0] + held.splitlines()[0]


@pytest.mark.parametrize("size", SIZES)
async def test_a_held_rate_shows_its_segments_and_its_keys(size: tuple[int, int]) -> None:
    fake = FakeRun()
    controls = RunControls(stop=fake.stop, rate=lambda _: None)
    async with shown(mode_samples.hold(), size, run=fake.run, controls=controls) as (app, _, _):
        text = "\n".join(lines_of(app))
        assert re.search(r"hold +segment 3 +6\.60 req/s +measuring 11/40 s", text)
        assert [name for name, _ in bars(text)] == (["s1", "s2", "s3"] if size != (80, 24) else ["s2", "s3"])
        footer = lines_of(app)[-1]
        assert "+ - Rate" in footer
        assert "Fleet" not in footer
        assert len(app.screen.query("FooterKey")) <= keys.MOST_IN_FOOTER + 1, "beside the palette's"


async def test_plus_and_minus_change_the_held_rate_and_undo_each_other() -> None:
    factors: list[float] = []
    fake = FakeRun()
    controls = RunControls(stop=fake.stop, rate=factors.append)
    async with shown(mode_samples.hold(), run=fake.run, controls=controls) as (app, pilot, held):
        await press(app, pilot, "plus", "minus")
        assert factors[0] == pytest.approx(1.1)
        assert factors[0] * factors[1] == pytest.approx(1.0)
        await press(app, pilot, "x")
        await press(app, pilot, "plus")
        assert len(factors) == 2
        answer = Answer(outcome="held", message="held")
        held.now = replace(mode_samples.hold(), version=999, current=None, answer=answer)
        await press(app, pilot, "plus")
        assert len(factors) == 2
        assert "+ - Rate" not in lines_of(app)[-1]


async def test_a_search_has_no_rate_to_change() -> None:
    factors: list[float] = []
    fake = FakeRun()
    controls = RunControls(stop=fake.stop, rate=factors.append)
    async with shown(mode_samples.standard(), run=fake.run, controls=controls) as (app, pilot, _):
        await press(app, pilot, "plus", "minus")
        assert factors == []
        assert "+ - Rate" not in lines_of(app)[-1]
        assert "k Knee" in lines_of(app)[-1]
        assert len(app.screen.query("FooterKey")) <= keys.MOST_IN_FOOTER + 1, "beside the palette's"


def failed_by_its_queue() -> StepView:
    """Every request was in time, and the repeat failed all the same."""
    step = samples.mid_step().current
    assert step is not None
    return replace(step, finished=((1.0, 1.0),), verdicts=("fail",))


def test_a_repeat_that_failed_by_its_queue_has_the_glyph_of_a_failure_at_once() -> None:
    view = replace(samples.mid_step(), current=failed_by_its_queue())
    assert view.current is not None
    assert steps_table.running(view.current, view).repeats == "✘…·"
    assert steps_table.running(replace(view.current, verdicts=()), view).repeats == "✔…·"
    plot = curve.attainment(view, "attainment").body
    assert isinstance(plot, Plot)
    assert [(bar.glyph, bar.ink) for bar in plot.bars if bar.low == 1.0 and bar.ink != "label"] == [("✘", "bad")]

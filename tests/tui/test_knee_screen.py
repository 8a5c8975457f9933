"""The knee on the screen: the answer, the reason, and the step that is chosen."""

import itertools
import re

import pytest
from msgspec.structs import replace

from core import prose
from core.facts import fact
from core.judge.rate_verdicts import set_aside
from core.results import Answer, GatewayUse, Percentiles, StepResult
from core.view import Line, RunView
from tests.core.fleet_check.sentences import HELD
from tests.tui import knee_samples, mode_samples, samples
from tests.tui.screen import lines_of, rendered, settle, shown, text_of
from tui.draw.plots import Plot
from tui.draw.style import VERDICTS
from tui.widgets import answer, curve, knee_step


def squeezed(text: str) -> str:
    return re.sub(" +", " ", text)


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 60)])
async def test_the_zones_the_curve_and_the_reason_are_there_at_every_size(size: tuple[int, int]) -> None:
    async with shown(knee_samples.finished(), size, on="knee") as (app, pilot, _):
        await settle(app, pilot)  # the panels that only some sizes have
        text = text_of(app)
    for words in (
        "✔ HOLDS at 11.3 requests/s",
        "◐ MIXED from 12.4 requests/s",
        "✘ CLEARLY FAILS at 13.6 requests/s",
        "floor 96.0 %",
        "3 repeats",
    ):
        assert words in text
    for words in ("1 cliff", "WHY   13.6 requests/s: 2 of 2 repeats failed"):
        assert words in text
    for words in ("2 attainment", "PASS up to 11.3", "╌", "3 step 5"):
        assert (words in text) == (size[0] > 80)
    assert ("5 goodput" in text) == (size[0] > 160)


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 60)])
async def test_the_cliff_has_the_largest_area(size: tuple[int, int]) -> None:
    async with shown(knee_samples.diagnosed(), size, on="knee") as (app, _, _):
        areas = {widget.id: widget.size.area for widget in app.screen.query("#knee-panels > *, #knee-head, #knee-why")}
        assert max(areas, key=lambda name: areas[name]) == "knee-cliff"


async def test_the_app_comes_here_by_itself_when_a_rate_held() -> None:
    async with shown(knee_samples.running()) as (app, pilot, held):
        assert "CLEARLY FAILS" not in text_of(app)
        held.now = replace(knee_samples.finished(), version=999)
        await settle(app, pilot)
        await settle(app, pilot)
        assert "✘ CLEARLY FAILS at 13.6" in text_of(app)


async def test_the_answer_is_there_while_a_closed_loop_is_measured_beside_it() -> None:
    """On the screen about it and on that of the run, and what the loop says by then beside it."""
    over = knee_samples.diagnosed()
    so_far = replace(knee_samples.CLOSED, rungs=knee_samples.CLOSED.rungs[:1], ended=None)
    going = replace(over, answer=None, found=over.answer, duration_s=None, closed_loop=so_far, closed_in_flight=16, version=999)
    async with shown(knee_samples.running()) as (app, pilot, held):
        held.now = going
        await settle(app, pilot)
        await settle(app, pilot)
        text = text_of(app)
        for words in ("✘ CLEARLY FAILS at 13.6", "A closed loop says at least 26.9", "closed loop", "16 in flight", "WHY"):
            assert words in text
        assert "the search goes on" not in text
        await pilot.press("r")
        await settle(app, pilot)
        text = text_of(app)
        assert "2 answer" in text
        assert "✘ CLEARLY FAILS at 13.6" in text
        assert "ended after" not in text


async def test_percentiles_are_first_those_of_the_rate_that_held() -> None:
    text = squeezed(await rendered(knee_samples.finished(), (120, 36), "knee"))
    assert "3 step 5 11.3 req/s ✔ PASS floor 96.0 %" in text
    assert "TTFT 100 ms 200 ms 400 ms 500 ms" in text, "each the highest of the three repeats that count"
    assert "TPOT 12.0 ms 24.0 ms 48.0 ms ✘ 30 ms" in text
    assert "all 1,200 ended each the highest of 3 repeats" in text


@pytest.mark.parametrize(
    ("keys", "title"),
    [
        (("down",), "3 step 4 8.00 req/s"),
        (("tab",), "3 step 4 8.00 req/s"),
        (("up",), "3 step 6 12.4 req/s ◐ MIXED"),
        (("shift+tab", "up"), "3 step 7 13.6 req/s ✘ FAIL floor ≤ 87.0 %"),
        (("up",) * 4, "3 ramp 4.00 req/s"),
    ],
)
async def test_up_down_and_tab_choose_the_step(keys: tuple[str, ...], title: str) -> None:
    async with shown(knee_samples.finished(), on="knee") as (app, pilot, _):
        await pilot.press(*keys)
        await settle(app, pilot)
        assert title in squeezed(text_of(app))


async def test_the_choice_stays_when_the_run_goes_on() -> None:
    async with shown(knee_samples.running(), on="knee") as (app, pilot, held):
        await pilot.press("up")
        await settle(app, pilot)
        assert "3 step 6 12.4 req/s" in squeezed(text_of(app))
        held.now = replace(knee_samples.finished(), version=999)
        await settle(app, pilot)
        assert "3 step 6 12.4 req/s" in squeezed(text_of(app))


async def test_percentiles_of_few_values_are_marked() -> None:
    async with shown(knee_samples.finished(), (160, 50), on="knee") as (app, pilot, _):
        assert "too few" not in text_of(app)
        await pilot.press("down")
        await settle(app, pilot)
        text = squeezed(text_of(app))
        assert "TTFT 80.0 ms 160 ms 320 ms* 500 ms" in text
        assert "all 80 ended * too few values" in text


async def test_alone_the_panel_has_the_worst_stretch_and_every_repeat() -> None:
    async with shown(knee_samples.finished(), (80, 30), on="knee") as (app, pilot, _):
        await pilot.press("3")
        await settle(app, pilot)
        text = squeezed(text_of(app))
        assert "worst stretch 44.0 %, 12 s to 30 s of repeat 2" not in text, "a void repeat is no evidence"
        assert "worst stretch 90.0 %, 12 s to 30 s of repeat 1" in text
        assert "2 ⊘ VOID" in text
        assert "3 ✔ PASS 97.5\u2013100 % 480 11.3 \u2013 \u2013 flat", "of a window that was cut short" in text
        await pilot.press("5")
        await settle(app, pilot)
        assert "5 goodput" in text_of(app)
        await pilot.press("escape")
        await settle(app, pilot)
        assert "5 goodput" not in text_of(app)


async def test_beside_the_curve_each_repeat_has_one_line() -> None:
    rows = (await rendered(knee_samples.finished(), (200, 60), on="knee")).splitlines()
    at = next(y for y, row in enumerate(rows) if "repeat  verdict" in row)
    assert "queue" in rows[at]
    assert [row[row.rindex("│", 0, -2) :].split()[1:4] for row in rows[at + 1 : at + 5]] == [
        ["1", "✔", "PASS"],
        ["2", "⊘", "VOID"],
        ["2", "✔", "PASS"],
        ["3", "✔", "PASS"],
    ]


async def test_the_reason_is_that_of_the_failing_end() -> None:
    text = await rendered(knee_samples.finished(), (120, 36), "knee")
    assert "✘ at most 88 % can still meet the limits" in text
    assert "✘ the queue rises by 4.1 requests a second" in text
    assert "WHY   a segment of the ramp, 16.0 requests/s: at most 41 %" in await rendered(samples.mid_step(), (120, 36), "knee")


async def test_the_diagnosis_says_what_bound_it_what_follows_what_is_open_and_what_it_is_not() -> None:
    async with shown(knee_samples.diagnosed(), (200, 60), on="knee") as (app, _, _):
        rows = [row.strip() for row in lines_of(app)]
        at = next(at for at, row in enumerate(rows) if row.startswith("WHY"))
        assert rows[at] == f"WHY   {knee_samples.DIAGNOSIS.sentence}"
        assert rows[at + 1] == knee_samples.DIAGNOSIS.advice
        assert rows[at + 2] == f"SEEN  {knee_samples.DIAGNOSIS.steps[2].text}; {knee_samples.DIAGNOSIS.steps[3].text}"
        assert rows[at + 3] == "OPEN  the GPU: no exporter was named"
        assert rows[at + 4] == "NOT   the client: sends late by 0.9 ms (p99) · memory: KV peak 41 %"
        assert "13.6 requests/s: 2 of 2 repeats failed" not in text_of(app)


@pytest.mark.parametrize("size", [(60, 16), (80, 24), (120, 28)])
async def test_where_the_reasons_have_no_room_the_conclusion_is_there_and_a_digit_shows_the_rest(size: tuple[int, int]) -> None:
    async with shown(knee_samples.diagnosed(), size, on="knee") as (app, pilot, _):
        assert "WHY   At 12.4 requests/s the number" in text_of(app)
        assert re.search(r"… \d+ more: press 4", text_of(app))
        await pilot.press("4")
        await settle(app, pilot)
        assert "4 why it breaks there" in text_of(app)
        assert "SEEN  6.0 requests wait" in text_of(app)
        assert ("PASS by one request" in text_of(app)) == (size != (60, 16))
        await pilot.press("4")
        await settle(app, pilot)
        assert "1 cliff" in text_of(app)


async def test_with_some_more_room_no_reason_is_cut() -> None:
    text = await rendered(knee_samples.diagnosed(), (120, 44), "knee")
    for words in ("WHY   At 12.4", "SEEN  6.0", "OPEN  the GPU", "NOT   the client", "A curve fitted", "PASS by one request"):
        assert words in text
    assert "press 4" not in text
    assert "1 cliff" in text


@pytest.mark.parametrize("size", [(120, 36), (200, 60)])
async def test_of_the_chosen_step_it_is_said_how_the_client_did(size: tuple[int, int]) -> None:
    text = squeezed(await rendered(knee_samples.finished(), size, "knee"))
    assert "client CPU 12 % lag 4.10 ms late p99 0.800 ms" in text


async def test_each_repeat_has_the_client_beside_it() -> None:
    late = replace(knee_samples.STEPS[4].repeats[1], client_cpu_frac=0.951, loop_lag_max_s=0.31)
    step = replace(knee_samples.STEPS[4], repeats=(knee_samples.STEPS[4].repeats[0], late))
    blocks = knee_step.blocks(samples.finished(), step, 116)
    rows = next([str(row) for row in block] for block in blocks if block and str(block[0]).startswith("repeat"))
    assert rows[0].split()[-3:] == ["CPU", "lag", "late"]
    assert rows[2].split()[-6:] == ["96", "%", "310", "ms", "0.8", "ms"]


def test_of_the_chosen_step_it_is_said_what_a_gateways_limit_did() -> None:
    wait_s = Percentiles(p50=0.0, p95=1.2, max=2.5, n=90)
    use = GatewayUse(limit=8, wait_s=wait_s, held=40, rejected=10, timed_out=0, never_sent=10)
    step = knee_samples.STEPS[4]
    capped = replace(step, repeats=tuple(replace(repeat, gateway=use) for repeat in step.repeats))
    rows = [str(row) for block in knee_step.blocks(samples.finished(), capped, 116) for row in block]
    row = next(row for row in rows if row.startswith("at the gateway"))
    assert " ".join(row.split()) == "at the gateway p50 / p95 / max 0 ms / 1.20 s / 2.50 s 40 waited 10 rejected"
    assert not any("gateway" in str(row) for block in knee_step.blocks(samples.finished(), step, 116) for row in block)


@pytest.mark.parametrize(("low", "high", "said"), [(11.4, 13.1, True), (8.0, 16.0, False)])
async def test_the_fitted_interval_is_said_as_what_it_is_and_only_where_it_says_something(
    low: float, high: float, said: bool
) -> None:
    words = "A curve fitted over all repeats puts the knee between 11.4 and 13.1 requests/s, meant to be right 9 times in 10; not a"
    async with shown(knee_samples.diagnosed(low, high), (200, 60), on="knee") as (app, _, _):
        assert (words in text_of(app)) == said
        assert ("A curve fitted" in text_of(app)) == said


def test_the_chosen_step_says_how_far_the_model_is_off_in_each_window() -> None:
    def said(step: int) -> list[str]:
        view = replace(knee_samples.diagnosed(), twin=knee_samples.TWIN)
        rows = [str(row) for block in knee_step.blocks(view, knee_samples.STEPS[step], 116) for row in block]
        return [row.split(" faster")[0] for row in rows if row.startswith("model of the server")]

    assert [each.step for each in knee_samples.STEPS[-3:]] == [5, 6, 7]
    assert said(-3) == said(-2) == ["model of the server: +3 %, +2 %, +1 %"]
    assert said(-1) == ["model of the server: at least +11 %"]
    assert said(-4) == []


async def test_during_a_run_it_shows_what_is_known_so_far() -> None:
    text = await rendered(knee_samples.running(), (120, 36), "knee")
    ends = ("✔ HOLDS at 11.3 requests/s", "◐ MIXED from 12.4 requests/s", "✘ FAILS at 16.0 requests/s")
    for words in ("so far, the search goes on", *ends, "13.6 req/s now:", "● LOADING"):
        assert words in text
    assert "the checks come first" in await rendered(samples.preflight(), (120, 36), "knee")
    assert "no rate is judged yet" in await rendered(samples.ramp(), (120, 36), "knee")
    assert "a rate is held" in await rendered(mode_samples.hold(), (120, 36), "knee")


async def test_without_an_answer_the_screen_says_why() -> None:
    assert "✘ REFUSED, NO LOAD SENT" in await rendered(samples.refused(), (80, 24), "knee")
    void = await rendered(samples.void(), (80, 24), "knee")
    assert "⊘ VOID, NO ANSWER" in void
    assert "no rate that was tried failed" not in void


async def test_texts_of_a_server_are_literal() -> None:
    view = knee_samples.finished()
    evil = replace(view.steps[-1], reason="[/red] \x1b[31mboom\x1b[0m [bold]x")
    text = await rendered(replace(view, steps=(*view.steps[:-1], evil)), (120, 36), "knee")
    assert "13.6 requests/s: [/red] boom [bold]x" in text


@pytest.mark.parametrize("size", [(60, 16), (99, 40), (200, 20), (40, 10)])
async def test_every_moment_can_be_drawn_at_every_size(size: tuple[int, int]) -> None:
    views: list[RunView] = [make() for make in {**samples.ALL, **mode_samples.ALL}.values()]
    async with shown(knee_samples.finished(), size, on="knee") as (app, pilot, held):
        for at, view in enumerate(views):
            held.now = replace(view, version=5000 + at)
            await settle(app, pilot)
            assert len(lines_of(app)) == size[1]


@pytest.mark.parametrize("width", [46, 56, 62, 76, 120])
@pytest.mark.parametrize("step", knee_samples.STEPS, ids=lambda step: f"{step.step}")
def test_no_row_of_the_numbers_is_wider_than_the_panel(step: StepResult, width: int) -> None:
    for row in itertools.chain(*knee_step.blocks(knee_samples.finished(), step, width)):
        assert row.cell_length <= width


def test_what_became_of_the_server_is_the_first_thing_to_know() -> None:
    view, remark = knee_samples.finished(), fact("was_away", away_s=20.0, said="HTTP 502")
    assert view.answer is not None
    given = replace(view.answer, knee=replace(view.answer.knee, notes=(*view.answer.knee.notes, remark)))
    void = fact("done_again", fact("server_restarted"), rate_rps=12.4)
    lines = tuple(Line(t_s=1.0, level="warn", text=told) for told in (void, remark))
    assert answer.notes(replace(view, answer=given, lines=lines), given)[:2] == [prose.text(remark), prose.text(void)]


def test_what_was_set_aside_is_drawn_as_void_and_is_no_end_of_the_curve() -> None:
    view = knee_samples.finished()
    drawn = curve.attainment(replace(view, steps=(*map(set_aside, view.steps), *view.steps)), "1").body
    plain = curve.attainment(view, "1").body
    assert isinstance(drawn, Plot)
    assert isinstance(plain, Plot)
    assert (drawn.x_range, drawn.y_range, drawn.zones) == (plain.x_range, plain.y_range, plain.zones)
    void = VERDICTS["void"].glyph
    assert sum(bar.glyph == void for bar in drawn.bars) > sum(bar.glyph == void for bar in plain.bars)
    assert [bar for bar in drawn.bars if bar.glyph != void] == [bar for bar in plain.bars if bar.glyph != void]


def test_below_a_headline_that_says_infeasible_it_is_not_said_again() -> None:
    reason = "even single requests miss the limits, 3 of 3 (TTFT 1.2 s, limit 500 ms)"
    given = Answer(outcome="infeasible", message=f"infeasible at any rate: {reason}", alone=reason)
    view = replace(samples.finished(), answer=given, steps=())
    head, sentence = (block[0].plain for block in answer.headlines(view, given, 100))
    assert "INFEASIBLE AT ANY RATE" in head
    assert sentence == "Even single requests miss the limits, 3 of 3 (TTFT 1.2 s, limit 500 ms)."


def test_the_answer_of_a_fleet_stands_below_its_ends_in_words() -> None:
    found = knee_samples.finished()
    assert found.answer is not None
    given = replace(found.answer, message=fact("fleet_holds", **HELD))
    said = "\n".join(line.plain for block in answer.headlines(found, given, 100) for line in block)
    assert "The planned load of 63.0 requests/s holds; 8 replicas hold 83.0 of 90.0" in said

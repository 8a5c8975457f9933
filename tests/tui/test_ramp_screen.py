"""The ramp screen as text, at the sizes that people have."""

import re

import pytest
from msgspec.structs import replace
from rich.cells import cell_len
from textual.content import Content

from core import prose, report
from core.facts import fact
from core.judge import caveats
from core.records import Check
from core.results import Bounds, Percentiles
from core.view import Line, RunView, SeriesPoint
from tests.tui import mode_samples, samples
from tests.tui.screen import lines_of, rendered, settle, shown, text_of
from tui.draw import plots
from tui.widgets import answer

SIZES = [(60, 16), (80, 24), (80, 50), (100, 30), (120, 36), (160, 50), (200, 60)]
ALL = samples.ALL | mode_samples.ALL
LOAD = {"idle": "○ IDLE", "loading": "● LOADING", "draining": "◑ DRAINING", "stopped": "■ STOPPED"}


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("size", [(60, 16), (80, 24), (200, 60)])
async def test_every_view_fills_the_screen_and_names_the_load(name: str, size: tuple[int, int]) -> None:
    view = ALL[name]()
    async with shown(view, size) as (app, _, _):
        rows = lines_of(app)
        assert [cell_len(row) for row in rows] == [size[0]] * size[1]
        assert LOAD[view.load] in rows[1]
        assert not app.screen.show_vertical_scrollbar
        assert not app.screen.show_horizontal_scrollbar


@pytest.mark.parametrize("size", SIZES)
async def test_the_facts_of_a_running_step_are_at_every_size(size: tuple[int, int]) -> None:
    text = await rendered(samples.mid_step(), size)
    for words in ("12.4 req/s", "measuring 24/40 s", "late p99 0.800 ms", "46.7\u201398.0 %", "target 95 %", "● LOADING"):
        assert words in text
    assert "127.0.0.1:8000 · tiny · 64 → 32 tokens, cold" in text or (size[0] == 60 and "127.0.0.1:8000 · 64→32 cold" in text)
    limits = "TTFT ≤ 500 ms, TPOT ≤ 30 ms for 95 %" if size[0] >= 100 else "TTFT 500 ms, TPOT 30 ms"
    assert limits in text
    for value in ("324 ms", "29.3 ms", "65.3 %"):  # p95 of TTFT and TPOT, KV: titles, or the sparklines' heads
        assert value in text
    assert "…12.4" in text or "… running" in text


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 60)])
async def test_no_number_is_cut(size: tuple[int, int]) -> None:
    """No ellipsis follows a figure, and a fact that has no room is not there at all."""
    view = samples.mid_step(in_flight=1_234_567)
    for text in (await rendered(view, size), await rendered(samples.failing(), size), await rendered(samples.finished(50), size)):
        assert not re.search(r"\d…", text)
    text = await rendered(view, size)
    assert "in flight 1,234,567" in text or "1,234" not in text


async def test_the_panel_shows_each_repeat_and_what_it_is_made_of() -> None:
    text = await rendered(samples.mid_step(), (120, 36))
    text = text.replace("\u2573", "x")
    assert re.search(r"r1 ▕█+┃?█*x+▏ +96\.0 %", text)
    assert re.search(r"r2 ▕█+▒+·+┃·*x+▏ 46\.7\u201398\.0 %", text)
    assert "█ good 232  x missed 10  ▒ open 12" in text
    assert "· not sent 242  of 496 planned" in text
    wide = await rendered(samples.mid_step(), (200, 60))
    assert "2 attainment floor  r2 46.7\u201398.0 % of the plan  … undecided  target 95 %" in wide
    assert "14 more may miss" in wide


async def test_a_single_miss_is_seen_in_the_bar() -> None:
    step = samples.mid_step().current
    assert step is not None
    assert step.live is not None
    live = replace(step.live, bounds=Bounds(planned=100_000, good=10, bad=1, open=0))
    text = await rendered(replace(samples.mid_step(), current=replace(step, live=live)), (120, 36))
    assert re.search(r"r2 ▕█·+┃·*x▏", text.replace("\u2573", "x"))


async def test_while_warming_up_nothing_is_called_judged() -> None:
    text = await rendered(samples.warm_up(), (120, 36))
    assert "not judged yet" in text
    assert re.search(r"r1 ▕·+┃·+▏ not yet", text)


async def test_a_failing_step_says_so_in_words() -> None:
    text = await rendered(samples.failing(), (80, 24))
    assert "✘ below target" in text
    assert "at most 67 % can still meet the limits" in text
    assert "◑ DRAINING" in text
    assert "TTFT p95 1.04 s ✘" in text


async def test_preflight_shows_the_checks_alone() -> None:
    text = await rendered(samples.preflight(), (80, 24))
    assert re.search(r"✔ pass +reachable +http://127\.0\.0\.1:8000 answers in 3 ms\.", text)
    assert "6 done" in text
    assert "checking, no load yet" in text
    assert "KV" not in text


async def test_checks_that_do_not_fit_keep_what_matters() -> None:
    text = await rendered(samples.preflight(13), (60, 16))
    assert "✔ pass: reachable, version, model" in text
    assert "▲ WARN" in text
    assert "The cache holds 2,048" in text


async def test_the_steps_table_is_sorted_and_has_reasons_where_there_is_room() -> None:
    rows = (await rendered(samples.mid_step(), (200, 60))).splitlines()
    found = [re.search(r"│ +([0-9.]+) +(ramp|[✔✘…·]+) .*(✔ PASS|✘ FAIL|… running)(.*)", row) for row in rows]
    rungs = [match.groups() for match in found if match]
    assert [(rate, repeats, verdict) for rate, repeats, verdict, _ in rungs] == [
        ("16.0", "ramp", "✘ FAIL"),
        ("12.4", "✔…·", "… running"),
        ("11.3", "✔", "✔ PASS"),
        ("8.00", "ramp", "✔ PASS"),
        ("4.00", "ramp", "✔ PASS"),
    ]
    assert "at most 41 % can still meet the…" in rungs[0][3]
    assert "≤ 41.0 %" in rows[next(i for i, match in enumerate(found) if match)]


async def test_a_long_steps_table_stays_around_the_running_rate() -> None:
    view = samples.mid_step()
    steps = tuple(replace(samples.STEPS[0], step=n, rate_rps=float(n)) for n in range(20, 60))
    text = await rendered(replace(view, steps=steps), (200, 60))
    assert "… running" in text
    assert re.search("20.0 +ramp", text)
    assert not re.search("59.0 +ramp", text)


@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
async def test_the_end_shows_the_bracket_and_its_evidence(size: tuple[int, int]) -> None:
    text = await rendered(samples.finished(), size)
    assert re.search(r"✔ HOLDS at 11\.3 req[^✘]+floor 96\.0 %, 1 repeat", text)
    assert re.search(r"✘ FAILS at 13\.6 req[^✔]+floor ≤ 88\.0 %, 1 repeat", text)
    assert "ended after 2:32" in text
    assert "long-run knee" not in text


async def test_a_demo_shows_the_knee_of_its_replica_only_at_the_end() -> None:
    running = replace(samples.mid_step(), truth_rps=12.1, server=replace(samples.SERVER, simulated=True))
    assert "12.1" not in await rendered(running, (120, 36))
    text = await rendered(samples.demo_finished(), (80, 24))
    assert "long-run knee of this simulated replica: 12.1 requests/s, inside the bracket" in text
    assert "simulated" in text.splitlines()[0]
    assert "127.0.0.1:8000 · simulated · 64→32 cold · default TTFT 500 ms, TPOT 30 ms" in text.splitlines()[0]
    assert "default limits TTFT ≤" in (await rendered(samples.demo_finished(), (120, 36))).splitlines()[0]


@pytest.mark.parametrize(
    ("truth_rps", "place"), [(10.0, "below the rate that held here"), (15.0, "above the rate that failed here")]
)
async def test_the_truth_may_lie_outside(truth_rps: float, place: str) -> None:
    assert place in await rendered(replace(samples.demo_finished(), truth_rps=truth_rps), (200, 60))


async def test_notes_without_room_are_counted() -> None:
    ended = samples.finished().answer
    assert ended is not None
    many = replace(ended, knee=replace(ended.knee, notes=tuple(f"note {n}" for n in range(30))))
    text = await rendered(replace(samples.finished(), answer=many), (80, 24))
    more = re.search(r"… (\d+) more: press 2", text)
    assert more is not None
    assert "note 0" in text
    assert int(more[1]) + len(re.findall(r"note \d", text)) == len(many.knee.notes)
    async with shown(replace(samples.finished(), answer=many), (80, 24)) as (app, pilot, _):
        await pilot.press("2")
        await settle(app, pilot)
        assert re.search(r"… \d+ more: in the report", text_of(app))


async def test_void_and_refused_say_why() -> None:
    void = await rendered(samples.void(), (80, 24))
    assert "⊘ VOID, NO ANSWER" in void
    assert "the client sent late (p99 212 ms, allowed 25 ms)" in void.replace("\n", "")
    refused = await rendered(samples.refused(), (80, 24))
    assert "✘ REFUSED, NO LOAD SENT" in refused
    assert refused.count("no load can meet it; raise --tpot.") == 1
    assert "A single request misses TPOT 30 ms" in refused
    assert void.count("the client sent late (p99 212 ms, allowed 25 ms)") == 1
    assert "fleet" not in refused.replace("f Fleet", "")


async def test_without_metrics_the_panels_say_so() -> None:
    text = await rendered(samples.no_metrics(), (160, 50))
    assert "server metrics not available: http://127.0.0.1:8000/metrics answers 404" in text
    assert "preemptions not available" in text
    assert "KV n/a" in await rendered(samples.no_metrics(), (80, 24))


@pytest.mark.parametrize("size", [(80, 24), (160, 50)])
async def test_text_of_a_server_is_shown_as_it_is(size: tuple[int, int]) -> None:
    text = await rendered(samples.hostile(), size)
    assert "boom [/red] [bold]x[/bold] red  end" in text
    assert "127.0.0.1:8000 · [/evil]model" in text
    assert "\x1b" not in text


@pytest.mark.parametrize("size", [(59, 30), (100, 15), (20, 5)])
async def test_a_tiny_terminal_still_names_the_load_and_how_to_stop_it(size: tuple[int, int]) -> None:
    async with shown(samples.mid_step(), size) as (app, pilot, _):
        rows = lines_of(app)
        assert rows[0].startswith("● LOADING")
        assert any("60x16" in row for row in rows)
        assert any("x stops" in row for row in rows)
        await pilot.resize_terminal(80, 24)
        await settle(app, pilot)
        assert "attainment floor" in text_of(app)


async def test_resizing_goes_from_plots_to_sparklines_and_back() -> None:
    async with shown(samples.mid_step(), (160, 50)) as (app, pilot, _):
        assert "3 TTFT" in text_of(app)
        await pilot.resize_terminal(80, 24)
        await settle(app, pilot)
        assert "3 TTFT" not in text_of(app)
        assert "▁" in text_of(app)
        await pilot.resize_terminal(120, 36)
        await settle(app, pilot)
        assert "3 TTFT" in text_of(app)
        assert "▁" not in text_of(app)


async def test_a_panel_is_drawn_again_only_when_its_data_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[plots.Plot] = []
    draw = plots.draw

    def counted(plot: plots.Plot, width: int, height: int) -> tuple[tuple[plots.Run, ...], ...]:
        drawn.append(plot)
        return draw(plot, width, height)

    monkeypatch.setattr(plots, "draw", counted)
    original = samples.mid_step()
    async with shown(original, (120, 36)) as (app, pilot, held):
        first = len(drawn)
        assert first >= 4
        held.now = later(original, 0.25)
        await settle(app, pilot)
        assert len(drawn) == first
        held.now = replace(held.now, version=held.now.version + 1, series=(*original.series[:-1], _slower(original)))
        await settle(app, pilot)
        assert len(drawn) == first + 1  # TTFT alone
        app.theme = "textual-light"
        await pilot.pause()
        await pilot.pause()
        assert len(drawn) >= first + 5


def later(view: RunView, seconds: float) -> RunView:
    """The same moment of the same repeat, seen later."""
    assert view.current is not None
    assert view.current.live is not None
    live = replace(view.current.live, elapsed_s=view.current.live.elapsed_s + seconds)
    current = replace(view.current, live=live)
    return replace(view, version=view.version + 1, now_s=view.now_s + seconds, current=current)


def _slower(view: RunView) -> SeriesPoint:
    return replace(view.series[-1], ttft_p95_s=0.4)


async def test_a_long_model_name_keeps_its_last_part() -> None:
    server = replace(samples.SERVER, model="some-organisation/with-a-rather-long-name/Model-70B-Instruct")
    header = (await rendered(replace(samples.mid_step(), server=server), (100, 36))).splitlines()[0]
    assert "127.0.0.1:8000 · Model-70B-Instruct" in header
    assert "organisation" not in header
    assert "TTFT ≤ 500 ms" in header


async def test_the_address_stays_whatever_else_has_no_room() -> None:
    host = "gpu-node-17.a-cluster.example:8000"
    config = replace(samples.CONFIG, target=replace(samples.CONFIG.target, url=f"http://{host}", model="some/Model-70B-Instruct"))
    view = replace(samples.mid_step(), server=None, config=config)
    assert host in (await rendered(view, (60, 16))).splitlines()[0]
    header = (await rendered(view, (80, 24))).splitlines()[0]
    assert f"{host} · 64→32 cold · TTFT 500 ms, TPOT 30 ms" in header
    assert "kneescope" not in header


async def test_in_the_ramp_the_bar_stands_for_what_was_sent() -> None:
    text = (await rendered(samples.ramp(), (120, 36))).replace("\u2573", "x")
    assert "█ good 110  x missed 3  ▒ open 41" in text
    assert "of 154 sent" in text
    assert re.search(r"ramp ▕█+▒+┃▒*x+▏", text)


async def test_a_target_of_all_requests_has_an_axis() -> None:
    assert samples.CONFIG.slo.target < 1
    strict = replace(samples.mid_step(), config=replace(samples.CONFIG, slo=replace(samples.CONFIG.slo, target=1.0)))
    text = await rendered(strict, (200, 60))
    assert "target 100 %" in text
    assert "0 %" in text


def with_bounds(bounds: Bounds) -> RunView:
    step = samples.mid_step().current
    assert step is not None
    assert step.live is not None
    return replace(samples.mid_step(), current=replace(step, finished=(), live=replace(step.live, bounds=bounds)))


async def test_below_the_target_is_said_only_when_the_whole_repeat_is() -> None:
    early = await rendered(with_bounds(Bounds(planned=500, good=40, bad=20, open=0)), (120, 36))
    assert "✘ below target" not in early
    assert "… undecided" in early
    late = await rendered(with_bounds(Bounds(planned=500, good=40, bad=26, open=0)), (120, 36))
    assert "✘ below target" in late


async def test_an_early_pass_shows_how_near_it_was() -> None:
    step = samples.judged_step(4, 11.3, "search", "pass", (0.9507, 1.0), "enough are good", ("pass",))
    text = await rendered(replace(samples.finished(), steps=(*samples.RAMP_STEPS, step, samples.FAILED)), (80, 24))
    assert re.search(r"✔ HOLDS at 11\.3 requests/s +floor ≥ 95\.0 %, 0 missed of 480, 1 repeat", text)
    narrow = await rendered(replace(samples.finished(), steps=(*samples.RAMP_STEPS, step, samples.FAILED)), (60, 16))
    assert re.search(r"✔ HOLDS at 11\.3 req/s +floor ≥ 95\.0 %, 1 repeat +│", narrow)


async def test_the_answer_has_the_notes_of_the_report_the_gravest_first() -> None:
    step = samples.STEPS[-1]
    late = caveats.lateness(Percentiles(p99=0.08, max=0.1), 0.5)
    assert late is not None
    warned = replace(step, repeats=(replace(step.repeats[0], warnings=("few requests", late)),))
    cold = Check(check="isolation", status="warn", message=fact("cold_unproven_still"))
    again = fact("done_again", fact("others_took_part", others=20.0, ours=100), rate_rps=12.4)
    void = Line(t_s=3.0, level="warn", text=again)
    view = replace(samples.finished(), steps=(*samples.RAMP_STEPS, warned), checks=(cold,), lines=(void,))
    assert view.answer is not None
    found = answer.notes(view, view.answer)
    assert found == [
        prose.text(again),
        f"11.3 requests/s: {prose.text(late)}",
        f"isolation: {prose.text(cold.message)}",
        "11.3 requests/s: few requests",
        *map(prose.text, samples.KNEE.notes),
    ]
    assert sorted(found) == sorted(report.notes(view))
    assert "does not count" in await rendered(view, (80, 24))


@pytest.mark.parametrize("size", [(60, 16), (120, 36)])
async def test_a_recorded_run_says_so_and_when(size: tuple[int, int]) -> None:
    async with shown(samples.mid_step(), size, player=samples.StandingStill()) as (app, _, _):
        rows = lines_of(app)
        assert "recorded 2026-03-01 14:28 UTC" in rows[1]
        assert "■ RECORDED" in rows[1]
        assert "LOADING" not in rows[1]


async def test_the_line_of_rates_tells_the_ramp_from_steps() -> None:
    assert "✔11.3  …12.4  ramp ✘16.0" in await rendered(samples.mid_step(), (80, 24))


def test_behind_a_note_that_has_no_room_a_shorter_one_has() -> None:
    long, short = [Content("a")] * 4, [Content("b")]
    assert str(answer.clip([short, long, short], 4, "there", skips=True)).split("\n") == ["b", "b", "… 1 more: there"]
    assert str(answer.clip([short, long, short], 4, "there")).split("\n") == ["b", "… 2 more: there"]


async def test_a_small_table_leaves_out_no_rate_that_was_tried() -> None:
    for size, rates in (((120, 36), ("✔11.3", "…12.4", "✘16.0")), ((100, 30), ("✔11.3", "…12.4", "ramp ✘16.0"))):
        text = await rendered(samples.mid_step(), size)
        assert all(rate in text for rate in rates), size

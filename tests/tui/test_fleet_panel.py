"""The fleet screen: numbers that follow peak, price and load at peak at once, and never claim more than was measured."""

import re

import pytest
from msgspec.structs import replace
from textual import events

from core import fleet, prose, report
from core.config import FleetAsk, FleetPlan, Lengths
from core.hardware import Hardware
from core.report import evidence_of
from core.results import FailCount, Knee
from core.units import rate_brief
from core.view import RunView
from tests.tui import knee_samples, samples
from tests.tui.screen import rendered, settle, shown, text_of
from tui.app import KneescopeApp
from tui.frame import Frame
from tui.widgets import fleet_rows
from tui.widgets.curve import knee_of
from tui.widgets.fleet_panel import FleetPanel, NumberInput
from tui.widgets.slider import Slider


def peak(app: KneescopeApp) -> NumberInput:
    return app.screen.query_one("#peak", NumberInput)


def sizes(text: str) -> list[tuple[str, str, str]]:
    """(replicas, GPUs, rate that sizes them) of each row of results."""
    return re.findall(r"([0-9,]+) replicas? +([0-9,]+) GPUs? .*(?:sized by|if it were) ([0-9.]+) req/s", text)


def squeezed(text: str) -> str:
    return re.sub(" +", " ", text)


def with_ask(view: RunView, ask: FleetAsk) -> RunView:
    assert view.config is not None
    return replace(view, config=replace(view.config, fleet=ask))


async def test_the_peak_is_asked_for_and_never_made_up() -> None:
    text = await rendered(samples.finished(), (120, 36), "fleet")
    assert "type the peak of all users together" in text
    assert sizes(text) == []


async def test_the_configured_fleet_is_where_it_starts() -> None:
    view = with_ask(samples.finished(), FleetAsk(peak_rps=50.0, headroom=0.5, cost_per_gpu_h=2.5))
    async with shown(view, (120, 36), on="fleet") as (app, _, _):
        at_pass, at_fail = fleet.size(50, 0.5, 11.3, 1), fleet.size(50, 0.5, 13.6, 1)
        assert sizes(text_of(app)) == [(str(at_pass.replicas), "9", "11.3"), (str(at_fail.replicas), "8", "13.6")]
        assert "22.50 $/h" in next(row for row in text_of(app).splitlines() if "fleet" in row)
        assert app.fleet_ask is None, "nothing was asked for here yet"


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 60)])
async def test_the_numbers_are_there_at_every_size_and_the_curve_where_it_has_room(size: tuple[int, int]) -> None:
    text = await rendered(knee_samples.finished(), size, "fleet")
    assert sizes(text) == [("7", "7", "11.3"), ("6", "6", "13.6")]
    for words in ("at peak", "one lost", "two lost", "assumes Poisson arrivals", "holds 11.3 req/s", "clearly fails at 13.6 req/s"):
        assert words in text
    assert ("load of each replica" in text) == (size[1] > 24)
    if size[1] > 24:
        assert all(words in text for words in ("at peak 7.14", "one lost 8.33", "two lost 10.0"))


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 60)])
async def test_a_check_of_a_fleet_sizes_none_by_its_rates(size: tuple[int, int]) -> None:
    view = knee_samples.finished()
    assert view.config is not None
    method = replace(view.config.method, fleet=FleetPlan(replicas=3, one_rps=5.0))
    async with shown(replace(view, config=replace(view.config, method=method)), size, on="fleet") as (app, pilot, _):
        for words in (
            "one replica",
            "5.00 requests/s",
            "planned load",
            "10.5 requests/s",
            "3 replicas",
            "kneescope fleet --run RUN",
        ):
            assert words in text_of(app)
        await pilot.press("5", "0", "right")
        await settle(app, pilot)
        assert sizes(text_of(app)) == []
        assert "GPU" not in text_of(app)
        assert app.fleet_ask is None


async def test_whether_the_planned_load_holds_has_room_before_any_note() -> None:
    view = knee_samples.finished()
    assert view.config is not None
    plan = FleetPlan(replicas=3, one_rps=view.steps[0].rate_rps / 3 / 0.7)
    view = replace(view, config=replace(view.config, method=replace(view.config.method, fleet=plan)))
    rows = (await rendered(view, (120, 36), "ramp")).splitlines()
    assert any("planned load" in row and ("hold" in row or "not judged" in row) for row in rows)


async def test_replicas_that_were_measured_behind_a_gateway_are_not_told_as_one() -> None:
    view = knee_samples.finished()
    assert view.server is not None
    text = await rendered(replace(view, server=replace(view.server, replicas=("a:1", "b:1", "c:1"))), (80, 24), "fleet")
    assert "3 replicas as one holds 11.3 req/s" in squeezed(text)


async def test_typing_and_sliding_move_every_number() -> None:
    async with shown(samples.finished(), (80, 24)) as (app, pilot, _):
        await pilot.press("f", "5", "0")
        await settle(app, pilot)
        assert sizes(text_of(app)) == [("7", "7", "11.3"), ("6", "6", "13.6")]
        await pilot.press("tab", "2", "full_stop", "5", "tab", "right", "right", "right")
        await settle(app, pilot)
        assert app.screen.query_one(Slider).value == 0.73
        assert "load at peak 73 % of what holds (27 % spare)" in text_of(app)
        assert "17.50 $/h" in text_of(app)
        await pilot.press("home")
        assert app.screen.query_one(Slider).value == 0.01
        await pilot.press("left", "end")
        await settle(app, pilot)
        assert sizes(text_of(app)) == [("5", "5", "11.3"), ("4", "4", "13.6")]
        assert app.fleet_ask == FleetAsk(peak_rps=50.0, headroom=1.0, cost_per_gpu_h=2.5)


async def test_the_slider_follows_the_mouse() -> None:
    async with shown(samples.finished(50.0), (120, 36), on="fleet") as (app, pilot, _):
        slider = app.screen.query_one(Slider)
        track = slider.size.width - 2
        await pilot.mouse_down(slider, offset=(1, 0))
        assert slider.value == 0.01
        await pilot.hover(slider, offset=(track, 0))
        assert slider.value == 1.0
        await pilot.mouse_up(slider, offset=(track, 0))
        await pilot.hover(slider, offset=(5, 0))
        assert slider.value == 1.0


@pytest.mark.parametrize("typed", ["0", ".", "0.0"])
async def test_what_is_no_peak_gives_no_fleet(typed: str) -> None:
    async with shown(samples.finished(), (120, 36)) as (app, pilot, _):
        await pilot.press("f", *("full_stop" if char == "." else char for char in typed))
        await settle(app, pilot)
        assert sizes(text_of(app)) == []
        assert "type the peak of all users together" in text_of(app)


async def test_gpus_count_the_layout_and_say_when_it_is_assumed() -> None:
    sharded = replace(samples.finished(50.0), server=replace(samples.SERVER, tp=2, pp=1, dp=2))
    text = await rendered(sharded, (120, 36), "fleet")
    assert sizes(text)[0] == ("7", "28", "11.3")
    assert "4 GPUs each" in text
    silent = replace(samples.finished(50.0), server=replace(samples.SERVER, tp=None, pp=None, dp=None))
    assert "1 GPU each (assumed)" in await rendered(silent, (120, 36), "fleet")


async def test_during_the_search_it_opens_over_the_bracket_so_far() -> None:
    async with shown(samples.mid_step(), (120, 36)) as (app, pilot, _):
        await pilot.press("f", "5", "0")
        await settle(app, pilot)
        assert "holds 11.3 req/s" in text_of(app)
        assert "fails at 16.0 req/s" in text_of(app)
        assert "● LOADING" in text_of(app)


async def test_before_a_rate_held_there_is_nothing_to_size() -> None:
    text = await rendered(with_ask(samples.ramp(), FleetAsk(peak_rps=50.0)), (120, 36), "fleet")
    assert "no rate has held yet" in text
    assert sizes(text) == []


@pytest.mark.parametrize("start", ["ramp", "knee"])
@pytest.mark.parametrize("before", [(), ("f", "tab", "tab", "k")], ids=["first time", "again"])
async def test_figures_in_one_burst_with_the_key_that_leads_here_are_the_peak(start: str, before: tuple[str, ...]) -> None:
    async with shown(samples.finished(50.0), (120, 36), on=start) as (app, pilot, _):  # type: ignore[arg-type]
        await pilot.press(*before)
        for key in ("f", "8", "0"):
            app.post_message(events.Key(key, key))
        await pilot.pause()
        await settle(app, pilot)
        assert peak(app).value == "80"
        assert app.fleet_ask == FleetAsk(peak_rps=80.0)


async def test_typing_replaces_the_peak_and_the_slider_shows_its_focus() -> None:
    async with shown(samples.finished(50.0), (120, 36)) as (app, pilot, _):
        await pilot.press("f", "8", "0")
        await settle(app, pilot)
        assert peak(app).value == "80"
        assert "\u25c6" not in text_of(app)
        await pilot.press("enter")
        await settle(app, pilot)
        assert "\u25c6" in text_of(app)
        await pilot.press("shift+tab", "shift+tab", "9")
        assert peak(app).value == "9"


@pytest.mark.parametrize(
    ("keys", "value"), [("65", 0.65), ("0.65", 0.65), (".5", 0.5), ("100", 1.0), ("6550", 0.5), ("1.5", 0.05), ("0", 0.7)]
)
async def test_a_number_typed_on_the_slider_sets_it(keys: str, value: float) -> None:
    async with shown(samples.finished(50.0), (120, 36)) as (app, pilot, _):
        await pilot.press("f", "tab", "tab", *("full_stop" if key == "." else key for key in keys))
        assert app.screen.query_one(Slider).value == value


async def test_figures_that_no_field_takes_are_the_peaks_here_and_a_panels_number_elsewhere() -> None:
    async with shown(samples.finished(50.0), (120, 36)) as (app, pilot, _):
        await pilot.press("f", "escape", "7")
        await settle(app, pilot)
        assert peak(app).value == "7"
        await pilot.press("k", "1")
        await settle(app, pilot)
        assert app.screen.maximized is not None
        await pilot.press("f")
        assert peak(app).value == "7"


async def test_the_load_can_be_stopped_while_typing() -> None:
    async with shown(samples.finished(50.0), (120, 36)) as (app, pilot, _):
        await pilot.press("f", "8", "r")
        await settle(app, pilot)
        assert "2 answer" in text_of(app)


async def test_another_ask_from_elsewhere_is_followed_and_its_own_echo_is_not() -> None:
    async with shown(samples.finished(50.0), (120, 36), on="fleet") as (app, pilot, _):
        app.fleet_ask = FleetAsk(peak_rps=120.0, headroom=0.5)
        await settle(app, pilot)
        assert (peak(app).value, app.screen.query_one(Slider).value) == ("120", 0.5)
        panel, view = app.screen.query_one(FleetPanel), samples.finished(50.0)
        for value in (0.6, 0.61):
            panel.on_slider_changed(Slider.Changed(value))
        panel.show(Frame(view=view, live=view, ask=FleetAsk(peak_rps=120.0, headroom=0.6)))
        assert "load at peak 61 %" in str(panel.border_title)
        panel.show(Frame(view=view, live=view, ask=FleetAsk(peak_rps=120.0, headroom=0.61)))
        panel.show(Frame(view=view, live=view, ask=FleetAsk(peak_rps=120.0, headroom=0.6)))
        assert "load at peak 60 %" in str(panel.border_title)


def as_measured(knee: Knee, rate_rps: float) -> str:
    mark, words = fleet_rows.as_measured(knee_samples.finished(), knee, rate_rps)
    return f"{mark}: {words}"


THREE_ZONES = Knee(
    pass_rps=11.3,
    pass_repeats=3,
    first_fail_rps=12.4,
    first_fail=FailCount(failed=1, run=3),
    clear_fail_rps=13.6,
    clear_fail=FailCount(failed=2, run=2),
)


@pytest.mark.parametrize(
    ("rate_rps", "said"),
    [
        (0.5, "✔ holds: 8.00 req/s passed, floor 98.9 %"),
        (8.0, "✔ holds: 8.00 req/s passed, floor 98.9 %"),
        (8.1, "✔ holds: 11.3 req/s passed, floor 96.0 %"),
        (11.3, "✔ holds: 11.3 req/s passed, floor 96.0 %"),
        (11.4, "? not measured: above 11.3 req/s that held, below 12.4 that failed"),
        (12.4, "◐ mixed: 12.4 req/s was mixed"),
        (13.5, "◐ mixed: 12.4 req/s was mixed"),
        (13.6, "✘ fails: 13.6 req/s failed"),
        (99.0, "✘ fails: 13.6 req/s failed"),
    ],
)
def test_a_load_is_called_what_was_measured_and_no_more(rate_rps: float, said: str) -> None:
    assert as_measured(THREE_ZONES, rate_rps) == said


def test_above_what_held_nothing_is_claimed_where_nothing_failed() -> None:
    assert as_measured(Knee(pass_rps=11.3, pass_repeats=3), 20.0) == "? not measured: above 11.3 req/s that held"


async def test_what_becomes_of_each_replica_when_some_are_lost() -> None:
    view = with_ask(knee_samples.finished(), FleetAsk(peak_rps=50.0, headroom=0.95))
    rows = re.sub(" +", " ", await rendered(view, (120, 36), "fleet"))
    assert "at peak 10.0 req/s 88.5 % ✔ holds 11.3 req/s passed, floor 96.0 %" in rows
    assert "one lost 12.5 req/s 111 % ◐ mixed 12.4 req/s was mixed" in rows
    assert "two lost 16.7 req/s 147 % ✘ fails 13.6 req/s failed" in rows


async def test_the_last_replica_can_be_lost_too() -> None:
    text = re.sub(" +", " ", await rendered(with_ask(knee_samples.finished(), FleetAsk(peak_rps=3.0)), (120, 36), "fleet"))
    assert "1 replica 1 GPU" in text
    assert "one lost ✘ no replica is left" in text
    assert "two lost" not in text


OPERATION = FleetAsk(
    peak_rps=50.0,
    headroom=0.75,
    rollout=2,
    growth_per_min=0.1,
    scale_out_s=240.0,
    burstiness=0.5,
    cost_per_gpu_h=2.5,
    mean_rps=20.0,
    hardware=Hardware(gpu="H100 SXM", weights_gb=15.2),
)


def operated(ask: FleetAsk = OPERATION) -> RunView:
    """A run whose fleet must survive everything that can be asked for, on a server that tells its memory."""
    view = with_ask(knee_samples.finished(), ask)
    assert view.config is not None
    long = replace(view.config.workload, output_tokens=Lengths(median=32, sigma=1.0, maximum=500))
    server = replace(samples.SERVER, kv_cache_tokens=45_000)
    return replace(view, single_tpot_s=0.0119, server=server, config=replace(view.config, workload=long))


def plan_of(view: RunView) -> fleet.Fleet:
    assert view.config is not None
    plan = fleet.plan(knee_of(view), view.config.fleet, view.server, evidence_of(view))
    assert plan is not None
    return plan


async def test_every_mark_stands_on_the_slider_and_in_a_row_with_its_reason_and_what_binds() -> None:
    plan = plan_of(operated())
    async with shown(operated(), (200, 60), on="fleet") as (app, _, _):
        slider, text = app.screen.query_one(Slider), squeezed(text_of(app))
        assert slider.marks == tuple(mark.rho for mark in plan.marks)
        assert slider.binding == min(slider.marks)
        track = next(row for row in text_of(app).splitlines() if "fewer replicas" in row)
        assert (track.count("▾"), track.count("┴")) == (1, len({round(rho, 2) for rho in slider.marks}) - 1)
        for mark in plan.marks:
            word = "✔ holds" if mark.holds else "✘ fails"
            binds = " ◂ binds" if mark.binds else ""
            figures = f"{prose.mark_label(mark.why)} {report.mark_number(mark)} {mark.replicas} replicas"
            row = f"{figures} {word}{binds} {prose.text(mark.why)[:60]}"
            assert squeezed(row) in text
        assert f"✘ {report.fleet_verdict(plan)}" in text


async def test_cost_long_answers_and_both_gates_are_there() -> None:
    plan, text = plan_of(operated()), squeezed(await rendered(operated(), (200, 60), "fleet"))
    assert plan.cost is not None
    assert plan.cost.per_million_at_peak is not None
    assert plan.at_p90_output is not None
    assert f"cost 15.00 $/h {plan.cost.per_million_at_peak:.2f} $ per million output tokens at peak" in text
    assert "mean 20.0 req/s needs 3 replicas scaling to it saves at most 3 GPUs, 7.50 $/h" in text
    assert f"{plan.at_p90_output.replicas} replicas" in text
    assert f"if all answers were as long as the p90: {plan.at_p90_output.replica_rps:.2f} req/s, estimated" in text
    assert "At 11.3 requests/s speed binds and not memory, which holds" in text
    assert "Speed: the TPOT floor is 6.48 ms" in text
    assert "Measured: a single stream has a TPOT of 11.9 ms" in text
    assert "Memory: 45,000 KV tokens hold" in text


@pytest.mark.parametrize("size", [(60, 16), (80, 24), (120, 28), (120, 36)])
async def test_where_room_is_short_the_numbers_stay_and_the_rest_is_counted(size: tuple[int, int]) -> None:
    async with shown(operated(), size, on="fleet") as (app, _, _):
        text = squeezed(text_of(app))
        assert "6 replicas 6 GPUs 15.00 $/h" in text
        assert "✘ Load at peak 75 % does not hold" in text
        assert re.search(r"… \d+ more: c copies all", text)
        assert ("load of each replica" in text) == (size[1] == 36)
        if size[1] >= 24:
            long = plan_of(operated()).at_p90_output
            assert long is not None
            assert f": {rate_brief(long.replica_rps)}, estimated" in text
            assert "two lost 12.5 req/s" in text
            assert text.index("✘ fails ◂ binds") > text.index("highest load at peak")
        if size[1] >= 36:
            assert "speed binds and not memory" in text


async def test_the_marks_follow_the_peak() -> None:
    async with shown(operated(), (120, 36), on="fleet") as (app, pilot, _):
        slider = app.screen.query_one(Slider)
        before = slider.marks
        await pilot.press("8", "0", "0")
        await settle(app, pilot)
        assert slider.marks == tuple(mark.rho for mark in plan_of(operated(replace(OPERATION, peak_rps=800.0))).marks) != before
        await pilot.press("backspace", "backspace", "backspace")
        await settle(app, pilot)
        assert (slider.marks, slider.binding) == ((), None)


async def test_a_price_that_cannot_be_is_refused_in_a_sentence_and_changes_nothing() -> None:
    async with shown(operated(), (120, 36), on="fleet") as (app, pilot, _):
        await pilot.press("tab", "0", "full_stop", *"0000001")
        await settle(app, pilot)
        assert "✘ --cost: 0.0000001 is out of range" in text_of(app)
        assert app.is_running
        await pilot.press("backspace")
        await settle(app, pilot)
        assert "✘ --cost" not in text_of(app)


@pytest.mark.parametrize(
    "before", [(), ("8",), ("tab",), ("escape",)], ids=["at once", "after a figure", "at the price", "nothing"]
)
async def test_left_and_right_move_the_load_at_peak_whatever_has_the_focus(before: tuple[str, ...]) -> None:
    async with shown(samples.finished(50.0), (120, 36)) as (app, pilot, _):
        await pilot.press("f", *before, "left", "left", "left")
        assert app.screen.query_one(Slider).value == 0.67
        await pilot.press("right")
        await settle(app, pilot)
        assert app.fleet_ask is not None
        assert app.fleet_ask.headroom == 0.68
        assert app.fleet_ask.peak_rps == (8.0 if before == ("8",) else 50.0), "figures are the peak's as ever"


@pytest.mark.parametrize(
    ("value", "marks", "shown_as"),
    [(0.7, (), "● 70 % ─"), (1.0, (), "─ 100 % ●"), (0.7, (0.72,), "─ 70 % ●▾"), (0.01, (), "├● 1 % ─")],
)
async def test_the_slider_shows_its_value_at_the_knob_and_hides_no_mark_that_binds(
    value: float, marks: tuple[float, ...], shown_as: str
) -> None:
    async with shown(samples.finished(), (120, 36), on="fleet") as (app, pilot, _):
        slider = app.screen.query_one(Slider)
        slider.value = value
        await settle(app, pilot)
        slider.marks, slider.binding = marks, marks[0] if marks else None
        assert shown_as in "".join(segment.text for segment in slider.render_line(0))


async def test_a_low_load_at_peak_says_what_it_costs() -> None:
    view = with_ask(knee_samples.finished(), FleetAsk(peak_rps=50.0, headroom=0.3, cost_per_gpu_h=2.5))
    text = squeezed(await rendered(view, (120, 36), "fleet"))
    few, many = fleet.size(50, 0.7, 11.3, 1).replicas, fleet.size(50, 0.3, 11.3, 1).replicas
    assert f"you run {many} replicas instead of {few} at 70 %" in text
    assert "▲" not in await rendered(with_ask(knee_samples.finished(), FleetAsk(peak_rps=50.0)), (120, 36), "fleet")

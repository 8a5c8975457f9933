"""The measured curve: what stands where, and that nothing is drawn that was not measured."""

import math

import pytest
from msgspec.structs import replace

from core.margins import AT_LIMIT, BINS
from core.results import Bounds, FailCount, Knee
from core.view import RampSegment, RateMargins, RunView
from tests.tui import knee_samples, samples
from tui.draw import plots
from tui.draw.plots import Plot, Upright
from tui.widgets import curve
from tui.widgets.plot_view import PanelContent


def plot_of(content: PanelContent) -> Plot:
    assert isinstance(content.body, Plot)
    return content.body


def words(content: PanelContent) -> str:
    return "  ".join(piece.text for piece in content.title)


def at(plot: Plot, rate_rps: float) -> list[tuple[str, float, float]]:
    """Glyph, lower and upper end of each bar at a rate."""
    return [(bar.glyph, bar.low, bar.high) for bar in plot.bars if math.isclose(bar.x, math.log10(rate_rps))]


def test_every_repeat_is_a_bar_from_the_least_to_the_most_that_it_can_be() -> None:
    plot = plot_of(curve.attainment(knee_samples.finished(), "knee"))
    bottom = plot.y_range[0]
    assert sorted(at(plot, 11.3)) == [("⊘", bottom, bottom), ("✔", 0.96, 0.96), ("✔", 0.975, 1.0), ("✔", 0.981, 0.981)]
    assert at(plot, 12.4) == [("✘", 0.7, 0.93), ("✔", 0.965, 0.965), ("✔", 0.955, 0.955)]
    assert at(plot, 13.6) == [("✘", 0.52, 0.88), ("✘", 0.5, 0.87)]
    assert plot.dots == (), "nothing that is a bound is drawn as a point"


def test_the_mark_stands_at_the_end_by_which_it_was_judged() -> None:
    plot = plot_of(curve.attainment(knee_samples.finished(), "knee"))
    known = {(bar.glyph, bar.known) for bar in plot.bars}
    assert known == {("✔", "low"), ("✘", "high"), ("⊘", "both"), ("✓", "low"), ("✗", "high")}


def test_what_the_ramp_showed_is_there_and_is_no_evidence() -> None:
    plot = plot_of(curve.attainment(knee_samples.finished(), "knee"))
    assert at(plot, 4.0) == [("✓", 1.0, 1.0)]
    assert at(plot, 8.0) == [("✔", 0.989, 0.989), ("✓", 0.989, 0.989)]
    assert at(plot, 16.0) == [("✗", 0.12, 0.41)]
    assert plot.x_range[0] < math.log10(4.0)
    assert {bar.ink for bar in plot.bars if bar.glyph == "✓"} == {"label"}


def test_segments_of_the_ramp_that_runs_are_there_as_far_as_they_were_sent() -> None:
    segments = (
        RampSegment(rate_rps=4.0, bounds=Bounds(planned=20, good=20, bad=0, open=0), held=True),
        RampSegment(rate_rps=8.0, bounds=Bounds(planned=40, good=6, bad=1, open=3), held=False),
    )
    plot = plot_of(curve.attainment(replace(samples.ramp(), ramp=segments), "knee"))
    assert at(plot, 4.0) == [("✓", 1.0, 1.0)]
    assert at(plot, 8.0) == [("○", 0.6, 0.9)]


def unknown(*margins: RateMargins) -> RunView:
    """A repeat at 13.6 that was given up before anything of it was decided."""
    step = replace(samples.FAILED, floor=(0.0, 1.0), repeats=(knee_samples.repeat("fail", (0.0, 1.0), 13.6),))
    return replace(samples.finished(), steps=(*samples.STEPS, step), margins=margins)


def margins(good: int, missed: int, open_: int) -> RateMargins:
    """Requests of which the missed and the open ones have not ended."""
    ended, cut = [0] * BINS, [0] * BINS
    ended[AT_LIMIT - 8], cut[AT_LIMIT + 4], cut[AT_LIMIT - 4] = good, missed, open_
    return RateMargins(rate_rps=13.6, ended=tuple(ended), open=tuple(cut))


def test_a_failure_of_which_nothing_counts_is_drawn_by_all_that_was_sent_there() -> None:
    plot = plot_of(curve.attainment(unknown(margins(5, 85, 10)), "knee"))
    assert at(plot, 13.6) == [(curve.BROKE_GLYPH, 0.05, 0.15)]


@pytest.mark.parametrize("sent", [(), (margins(2, 0, 8),)])
def test_where_these_say_nothing_either_the_whole_bar_is_open(sent: tuple[RateMargins, ...]) -> None:
    plot = plot_of(curve.attainment(unknown(*sent), "knee"))
    assert at(plot, 13.6) == [("?", 0.0, 1.0)]


def test_no_line_joins_what_was_measured_and_the_target_is_a_rule() -> None:
    plot = plot_of(curve.attainment(knee_samples.finished(), "knee"))
    assert plot.curves == ()
    assert plot.rule == 0.95
    assert (0.95, "95 %") in plot.y_labels


def test_the_axis_is_near_the_target_and_whole_when_something_lies_far_lower() -> None:
    view = knee_samples.finished()
    assert plot_of(curve.attainment(view, "knee")).y_range[0] == 0.0
    assert plot_of(curve.attainment(replace(view, steps=knee_samples.STEPS[3:]), "knee")).y_range[0] == 0.5
    holding = replace(samples.finished(), steps=(samples.STEPS[-1],), answer=None)
    plot = plot_of(curve.attainment(holding, "knee"))
    assert plot.y_range == (0.9, 1.0)
    assert (0.9, "90 %") in plot.y_labels


@pytest.mark.parametrize("target", [0.9, 0.95, 0.99, 0.999])
@pytest.mark.parametrize("least", [0.0, 0.6, 0.97])
def test_at_least_four_shares_are_named_on_a_large_plot_and_there_is_room_above_the_target(target: float, least: float) -> None:
    view = knee_samples.finished()
    assert view.config is not None
    steps = (knee_samples.step(5, 11.3, "search", "fail", "", knee_samples.repeat("fail", (least, least), 11.3)),)
    slo = replace(view.config.slo, target=target)
    plot = plot_of(curve.attainment(replace(view, steps=steps, config=replace(view.config, slo=slo)), "knee"))
    rows = ["".join(run.text for run in row) for row in plots.draw(plot, 100, 26)]
    assert sum("%" in row[:8] for row in rows) >= 4
    small = ["".join(run.text for run in row) for row in plots.draw(plot, 60, 7)]
    assert "╌" not in small[1], "the first row under the names of the zones is above the rule"


def zones(view: RunView) -> list[tuple[str, float, float]]:
    return [(zone.names[0], 10**zone.start, 10**zone.end) for zone in plot_of(curve.attainment(view, "knee")).zones]


def test_the_zones_say_what_was_measured_and_what_lies_between_is_not_known() -> None:
    found = {name: (start, end) for name, start, end in zones(knee_samples.finished())}
    assert list(found) == ["not known", "PASS up to 11.3", "MIXED from 12.4", "CLEAR FAIL from 13.6"]
    assert found["not known"] == pytest.approx((11.3, 12.4))
    assert found["PASS up to 11.3"][1] == pytest.approx(11.3)
    assert found["MIXED from 12.4"] == pytest.approx((12.4, 13.6))
    assert found["CLEAR FAIL from 13.6"][0] == pytest.approx(13.6)


def test_one_failing_step_is_no_clear_fail() -> None:
    assert [name for name, _, _ in zones(samples.finished())] == ["not known", "PASS up to 11.3", "FAIL from 13.6"]
    assert "✘ fails at 13.6 req/s" in words(curve.attainment(samples.finished(), "knee"))
    view = samples.finished()
    assert view.answer is not None
    one = FailCount(failed=1, run=1)
    knee = Knee(pass_rps=11.3, pass_repeats=3, first_fail_rps=13.6, first_fail=one, clear_fail_rps=13.6, clear_fail=one)
    by_the_ramp = replace(view, answer=replace(view.answer, knee=knee))
    assert zones(by_the_ramp)[-1][0] == "FAIL from 13.6"
    assert "clearly fails at 13.6 req/s" in words(curve.attainment(knee_samples.finished(), "knee"))


def test_what_never_failed_has_no_zone_above_it() -> None:
    view = samples.finished()
    assert view.answer is not None
    knee = Knee(pass_rps=11.3, pass_repeats=1)
    steps = (samples.STEPS[-1],)
    assert [name for name, _, _ in zones(replace(view, steps=steps, answer=replace(view.answer, knee=knee)))] == ["PASS up to 11.3"]


def test_during_a_run_the_repeats_so_far_and_the_rate_that_is_sent_are_there() -> None:
    view = knee_samples.running()
    plot = plot_of(curve.attainment(view, "knee"))
    assert view.current is not None
    assert view.current.live is not None
    so_far = view.current.live.bounds.so_far
    assert so_far is not None
    assert at(plot, 13.6) == [("✔", 0.97, 0.97), ("✘", 0.5, 0.88), ("○", *so_far)]
    assert [upright.name for upright in plot.uprights] == ["now 13.6"]


def test_while_a_step_warms_up_its_account_so_far_is_there_and_paler() -> None:
    view = samples.warm_up()
    assert view.current is not None
    assert view.current.live is not None
    live = replace(view.current.live, warmup=Bounds(planned=40, good=10, bad=5, open=5))
    plot = plot_of(curve.attainment(replace(view, current=replace(view.current, live=live)), "knee"))
    assert [(bar.low, bar.high, bar.ink) for bar in plot.bars if bar.glyph == "○"] == [(0.5, 0.75, "label")]


def test_the_known_knee_is_shown_only_at_the_end_of_a_demo() -> None:
    assert [upright.name for upright in plot_of(curve.attainment(samples.demo_finished(), "knee")).uprights] == [
        "long-run knee 12.1"
    ]
    going_on = replace(samples.demo_finished(), answer=None)
    assert plot_of(curve.attainment(going_on, "knee")).uprights == ()


def test_marks_widen_the_axis_unless_they_are_far_off() -> None:
    near, far = Upright(2.0, "at peak 2.00"), Upright(0.01, "at peak 0.01")
    plain = plot_of(curve.attainment(knee_samples.finished(), "load"))
    assert plot_of(curve.attainment(knee_samples.finished(), "load", [near])).x_range[0] < math.log10(2.0) < plain.x_range[0]
    assert plot_of(curve.attainment(knee_samples.finished(), "load", [far])).x_range == plain.x_range


def test_before_a_rate_is_sent_a_sentence_says_so() -> None:
    for view in (samples.nothing_yet(), samples.preflight(), samples.ramp(), samples.refused()):
        assert curve.attainment(view, "knee").body == "no rate was sent yet: the ramp is the first"
        assert curve.served(view, "goodput").body == "no repeat is judged yet"


def test_goodput_stands_over_the_rate_that_was_asked_for_on_the_axis_of_the_attainment() -> None:
    view = knee_samples.finished()
    plot, beside = plot_of(curve.served(view, "goodput")), plot_of(curve.attainment(view, "knee"))
    assert (plot.x_range, plot.zones) == (beside.x_range, beside.zones)
    assert {round(10**bar.x, 1) for bar in plot.bars} == {8.0, 11.3, 12.4, 13.6}, "a ramp's segments have none of their own"
    assert all(y == 10**x for x, y in plot.curves[0].points), "the line is all that was asked for"


def test_goodput_is_a_bar_between_what_is_good_and_what_still_could_be() -> None:
    plot = plot_of(curve.served(knee_samples.finished(), "goodput"))
    (_, *decided) = at(plot, 12.4)
    assert [(low, high) for _, low, high in decided] == [pytest.approx((share * 12.4,) * 2) for share in (0.965, 0.955)]
    bounds = [(low, high) for _, low, high in at(plot, 13.6)]
    assert bounds == [pytest.approx((low * 13.6, high * 13.6)) for low, high in ((0.52, 0.88), (0.5, 0.87))]
    assert "most 12.0 req/s good, at 12.4 req/s" in words(curve.served(knee_samples.finished(), "goodput"))


def test_a_repeat_that_was_given_up_has_no_goodput() -> None:
    content = curve.served(unknown(), "goodput")
    assert at(plot_of(content), 13.6) == []
    assert "not known at 13.6" in words(content)
    only = replace(unknown(), steps=unknown().steps[-1:])
    assert curve.served(only, "goodput").body == "of no repeat it is known: each was given up before its window was over"


@pytest.mark.parametrize(("duration_s", "shown"), [(20.0, 0), (48.0, 1)])
def test_what_was_served_is_shown_of_windows_that_were_over(duration_s: float, shown: int) -> None:
    ended = {"warmup_s": 8.0, "measure_s": 40.0, "duration_s": duration_s, "served_rps": 12.0, "planned": 480}
    repeat = replace(knee_samples.repeat("fail", (0.1, 0.5), 12.4), **ended)
    view = replace(samples.finished(), steps=(knee_samples.step(5, 12.4, "search", "fail", "", repeat),))
    assert len(plot_of(curve.served(view, "goodput")).dots) == shown


def test_on_a_small_plot_too_a_pass_that_is_nearly_all_stands_above_the_target() -> None:
    passed = knee_samples.step(5, 11.3, "search", "pass", "", knee_samples.repeat("pass", (0.991, 0.9986), 11.3))
    failed = knee_samples.step(6, 12.4, "search", "fail", "", knee_samples.repeat("fail", (0.53, 0.948), 12.4))
    plot = plot_of(curve.attainment(replace(samples.finished(), steps=(passed, failed)), "knee"))
    rows = ["".join(run.text for run in row) for row in plots.draw(plot, 60, 7)]
    passes, rule, fails = (next(y for y, row in enumerate(rows) if y and char in row) for char in "✔╌✘")
    assert passes < rule < fails

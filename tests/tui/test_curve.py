"""The measured curve: what stands where, and that nothing is drawn that was not measured."""

import math

import pytest
from msgspec.structs import replace

from core.results import FailCount, Knee
from core.view import RunView
from tests.tui import knee_samples, samples
from tui.draw.plots import Plot, Upright
from tui.widgets import curve
from tui.widgets.plot_view import PanelContent


def plot_of(content: PanelContent) -> Plot:
    assert isinstance(content.body, Plot)
    return content.body


def words(content: PanelContent) -> str:
    return "  ".join(piece.text for piece in content.title)


def at(plot: Plot, rate_rps: float) -> list[tuple[str, float]]:
    """Glyph and height of each point at a rate."""
    return [(dot.glyph, dot.y) for dot in plot.dots if math.isclose(dot.x, math.log10(rate_rps))]


def test_every_repeat_is_a_point_at_the_share_that_is_certain() -> None:
    plot = plot_of(curve.attainment(knee_samples.finished(), "knee"))
    assert sorted(at(plot, 11.3)) == [("⊘", plot.y_range[0]), ("✔", 0.96), ("✔", 0.975), ("✔", 0.981)]
    assert at(plot, 12.4) == [("✘", 0.93), ("✔", 0.965), ("✔", 0.955)]
    assert at(plot, 13.6) == [("✘", 0.88), ("✘", 0.87)]


def test_of_the_ramp_only_the_failing_segment_is_evidence() -> None:
    plot = plot_of(curve.attainment(knee_samples.finished(), "knee"))
    assert at(plot, 16.0) == [("✗", 0.41)]
    assert at(plot, 4.0) == []
    assert plot.x_range[0] > math.log10(4.0)


def test_the_line_goes_through_the_floors_and_the_target_is_a_rule() -> None:
    plot = plot_of(curve.attainment(knee_samples.finished(), "knee"))
    floors = {round(10**x, 3): y for x, y in plot.curves[0].points}
    assert floors == {8.0: 0.989, 11.3: 0.96, 12.4: 0.93, 13.6: 0.87, 16.0: 0.41}
    assert plot.rule == 0.95
    assert (0.95, "95 %") in plot.y_labels


def test_the_axis_is_near_the_target_and_says_when_something_lies_lower() -> None:
    assert plot_of(curve.attainment(knee_samples.finished(), "knee")).y_labels[-1] == (0.8, "≤ 80 %")
    without_ramp = replace(knee_samples.finished(), steps=knee_samples.STEPS[3:])
    assert plot_of(curve.attainment(without_ramp, "knee")).y_labels[-1] == (0.8, "80 %")
    holding = replace(samples.finished(), steps=(samples.STEPS[-1],), answer=None)
    assert plot_of(curve.attainment(holding, "knee")).y_range == (0.9, 1.0)


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
    assert "✘ fails 13.6 req/s" in words(curve.attainment(samples.finished(), "knee"))
    view = samples.finished()
    assert view.answer is not None
    one = FailCount(failed=1, run=1)
    knee = Knee(pass_rps=11.3, pass_repeats=3, first_fail_rps=13.6, first_fail=one, clear_fail_rps=13.6, clear_fail=one)
    by_the_ramp = replace(view, answer=replace(view.answer, knee=knee))
    assert zones(by_the_ramp)[-1][0] == "FAIL from 13.6"
    assert "clearly fails 13.6 req/s" in words(curve.attainment(knee_samples.finished(), "knee"))


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
    assert at(plot, 13.6) == [("✔", 0.97), ("✘", 0.88), ("○", so_far[1])]
    assert [upright.name for upright in plot.uprights] == ["now 13.6"]


def test_the_known_knee_is_shown_only_at_the_end_of_a_demo() -> None:
    assert [upright.name for upright in plot_of(curve.attainment(samples.demo_finished(), "knee")).uprights] == [
        "long-run knee 12.1"
    ]
    going_on = replace(samples.demo_finished(), answer=None)
    assert plot_of(curve.attainment(going_on, "knee")).uprights == ()


def test_marks_widen_the_axis_unless_they_are_far_off() -> None:
    near, far = Upright(7.0, "at peak 7.00"), Upright(0.01, "at peak 0.01")
    plain = plot_of(curve.attainment(knee_samples.finished(), "load"))
    assert plot_of(curve.attainment(knee_samples.finished(), "load", [near])).x_range[0] < math.log10(7.0) < plain.x_range[0]
    assert plot_of(curve.attainment(knee_samples.finished(), "load", [far])).x_range == plain.x_range


def test_before_a_rate_is_judged_a_sentence_says_so() -> None:
    for view in (samples.nothing_yet(), samples.preflight(), samples.ramp(), samples.refused()):
        assert curve.attainment(view, "knee").body == "no rate is judged yet: the points come with the first step"
        assert curve.served(view, "goodput").body == "no repeat is judged yet"


def test_served_and_good_stand_over_what_was_offered() -> None:
    plot = plot_of(curve.served(knee_samples.finished(), "goodput"))
    at_clear_fail = [(dot.glyph, round(dot.y, 2), dot.ink) for dot in plot.dots if dot.x == 13.6]
    assert at_clear_fail == [("○", 13.0, "bright"), ("○", 13.0, "bright"), ("●", 11.44, "bad"), ("●", 11.31, "bad")]
    assert plot.curves[0].points == ((0.0, 0.0), (15.0, 15.0))
    assert not any(dot.x == 16.0 for dot in plot.dots), "a ramp's segments have no served rate of their own"
    assert sum(dot.glyph == curve.SERVED_GLYPH for dot in plot.dots) == 3, "only where rounding cannot have made the difference"
    assert "most good 12.0 req/s, of 12.4 offered" in words(curve.served(knee_samples.finished(), "goodput"))

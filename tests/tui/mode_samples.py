"""Views of runs with several repeats, of lists and of a held rate, beside those of a quick search in `samples`."""

from msgspec.structs import replace

from core.config import Method
from core.results import Answer, Bounds, FailCount, Knee
from core.view import Line, RepeatView, RunView, StepView
from tests.tui import margin_samples as margins
from tests.tui import samples
from tests.tui.samples import CONFIG, RAMP_STEPS, judged_step

STANDARD = replace(CONFIG, method=Method(mode="standard"))
ACCEPTANCE = replace(CONFIG, method=Method(mode="acceptance", require_rps=12.0))
HOLD = replace(CONFIG, method=Method(hold_rps=6.0))

HELD_RUNG = judged_step(5, 11.3, "confirm", "pass", (0.96, 0.96), "all 3 repeats passed", ("pass", "void", "pass", "pass"))
MIXED_RUNG = judged_step(
    6, 12.4, "confirm", "mixed", (0.93, 0.93), "1 of 3 repeats failed: attainment 93.0 %", ("pass", "fail", "pass")
)
CLEAR_RUNG = judged_step(7, 13.6, "tighten", "fail", (0.52, 0.88), "2 of 3 repeats failed: at most 88 %", ("fail", "fail"))


def _running(view: RunView) -> tuple[RunView, StepView, RepeatView]:
    assert view.current is not None
    assert view.current.live is not None
    return view, view.current, view.current.live


def standard() -> RunView:
    """The third of three repeats, after a mixed rate."""
    view, step, live = _running(samples.mid_step())
    live = replace(live, index=2, elapsed_s=40.0, length_s=106.0)
    current = replace(step, step=7, phase="tighten", rate_rps=13.6, live=live, finished=((0.97, 0.97), (0.5, 0.88)))
    series = samples.series_of([(1, 30, 0.7), (5, 120, 0.9), (6, 110, 1.0), (7, 200, 1.1)])
    return replace(
        view, config=STANDARD, current=current, steps=(*RAMP_STEPS, HELD_RUNG, MIXED_RUNG), series=series, now_s=461.0, left_s=430.0
    )


def acceptance() -> RunView:
    """The eighth of ten repeats; the fourth was the lowest."""
    view, step, live = _running(samples.mid_step())
    shares = (0.981, 0.975, 0.99, 0.9541, 0.982, 0.966, 0.99)
    current = replace(
        step,
        step=8,
        phase="confirm",
        rate_rps=11.3,
        repeats_planned=10,
        finished=tuple((share, share) for share in shares),
        live=replace(live, index=7),
    )
    series = samples.series_of([(1, 30, 0.7), (8, 560, 0.95)])
    return replace(view, config=ACCEPTANCE, current=current, series=series, now_s=591.0, left_s=1500.0)


def between_repeats() -> RunView:
    """The second of three repeats is judged and the third not begun."""
    view, step, live = _running(standard())
    live = replace(live, index=1, part="decided", decided="at most 88 % can still meet the limits")
    return replace(view, load="idle", current=replace(step, live=live))


def draining() -> RunView:
    """Only requests that no limit decides are still waited for."""
    view, step, live = _running(standard())
    bounds = Bounds(planned=496, good=470, bad=10, open=16)
    live = replace(live, part="waiting", elapsed_s=112.0, bounds=bounds, in_flight=16, drain_left_s=84.2)
    return replace(view, load="draining", current=replace(step, live=live))


def hold() -> RunView:
    """A held rate, raised once: two stretches are judged, the third runs."""
    view, _, live = _running(samples.mid_step())
    bounds = Bounds(planned=264, good=70, bad=1, open=12)
    live = replace(live, index=2, elapsed_s=11.0, length_s=40.0, bounds=bounds)
    current = StepView(step=2, phase="hold", rate_rps=6.6, repeats_planned=0, finished=((0.99, 0.99), (0.981, 0.981)), live=live)
    before = judged_step(1, 6.0, "hold", "pass", (0.988, 0.988), "all 3 segments are within the target", ("pass",) * 3)
    line = Line(t_s=60.0, level="info", text="the rate is now 6.60 requests/s")
    series = samples.series_of([(1, 60, 0.5), (2, 131, 0.55)])
    view = replace(view, config=HOLD, series=series, now_s=191.0, left_s=None, lines=(line,))
    return replace(view, current=current, steps=(before,), margins=margins.HELD)


STANDARD_KNEE = Knee(
    pass_rps=11.3,
    pass_repeats=3,
    first_fail_rps=12.4,
    first_fail=FailCount(failed=1, run=3),
    clear_fail_rps=13.6,
    clear_fail=FailCount(failed=2, run=2),
    notes=("PASS by one request: one more miss in repeat 2 would have failed this rate",),
)


def standard_finished() -> RunView:
    """Three zones."""
    answer = Answer(outcome="bracket", message="holds at 11.3 requests/s, clearly fails at 13.6 requests/s", knee=STANDARD_KNEE)
    return replace(
        samples.finished(50.0),
        config=STANDARD,
        steps=(*RAMP_STEPS, HELD_RUNG, MIXED_RUNG, CLEAR_RUNG),
        answer=answer,
        duration_s=851.0,
        margins=margins.STANDARD,
    )


def not_met() -> RunView:
    """Acceptance, in which the required rate did not pass."""
    view = standard_finished()
    assert view.answer is not None
    return replace(view, config=ACCEPTANCE, answer=replace(view.answer, required_met=False))


def list_finished() -> RunView:
    """A list of rates, all judged."""
    config = replace(CONFIG, method=Method(rates_rps=(11.3, 12.4, 13.6), repeats=3))
    answer = Answer(outcome="held", message="3 rates judged: 1 passes, 1 is mixed, 1 fails", knee=STANDARD_KNEE)
    steps = tuple(replace(step, phase="list") for step in (HELD_RUNG, MIXED_RUNG, CLEAR_RUNG))
    view = replace(samples.finished(), config=config, margins=(margins.HOLDS, margins.MIXED, margins.FAILS))
    return replace(view, steps=steps, answer=answer, duration_s=851.0)


def hold_finished() -> RunView:
    """A held rate after its stop."""
    steps = hold().steps
    answer = Answer(outcome="held", message="Held 6.00 requests/s for 1 min until it was stopped: attainment 98.8 % at the least.")
    view = replace(samples.finished(), config=HOLD, margins=margins.HELD[:1])
    return replace(view, steps=steps, answer=answer, load="stopped", duration_s=62.0)


ALL = {
    "standard": standard,
    "acceptance": acceptance,
    "between repeats": between_repeats,
    "draining": draining,
    "hold": hold,
    "standard finished": standard_finished,
    "not met": not_met,
    "list finished": list_finished,
    "hold finished": hold_finished,
}

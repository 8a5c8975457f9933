"""After the end the titles have the result of the step that the answer rests on, and whose latencies it is."""

from msgspec.structs import replace

from core.results import Knee, Percentiles, RepeatVerdict, StepVerdict
from core.view import RunView
from tests import builders
from tests.tui import samples
from tests.tui.screen import rendered
from tui.widgets import panel_content
from tui.widgets.plot_view import PanelContent
from tui.widgets.standing import ordered, standing


def step(number: int, rate_rps: float, verdict: StepVerdict, *p95_s: float, succeeded: int = 480, phase: str = "search") -> object:
    counted: RepeatVerdict = "pass" if verdict == "pass" else "fail"
    repeats = [
        samples.repeat(counted, (1.0, 1.0), succeeded=succeeded, ttft_s=Percentiles(p50=at / 2, p95=at, p99=2 * at, n=succeeded))
        for at in p95_s
    ]
    return builders.step(rate_rps, verdict, *repeats, number=number, phase=phase)


def ended(*steps: object, knee: Knee) -> RunView:
    view = samples.finished()
    assert view.answer is not None
    return replace(view, steps=steps, answer=replace(view.answer, knee=knee))


def title(content: PanelContent) -> str:
    return "  ".join(piece.text for piece in content.title)


def test_the_passing_end_of_the_knee_stands_and_of_its_repeats_the_highest() -> None:
    failing = step(2, 16.0, "fail", 0.9)
    view = ended(step(1, 12.0, "pass", 0.3, 0.31, 0.2), failing, knee=Knee(pass_rps=12.0, first_fail_rps=16.0))
    assert title(panel_content.ttft(view)).startswith("3 TTFT  at 12.0 req/s p95 310 ms  all 1,440 ended  p99 620 ms")
    assert "last" not in title(panel_content.ttft(view))
    for content in (panel_content.queue(view), panel_content.kv(view), panel_content.rate(view)):
        assert "at 12.0 req/s" in title(content)


def test_without_a_passing_rate_the_failing_one_stands_and_is_called_so() -> None:
    view = ended(step(1, 2.0, "fail", 0.9), knee=Knee(first_fail_rps=2.0))
    assert "✘ at 2.00 req/s p95 900 ms" in title(panel_content.ttft(view))


def test_where_most_have_not_ended_that_comes_first() -> None:
    some = ended(step(1, 12.0, "pass", 0.3, succeeded=457), knee=Knee(pass_rps=12.0))
    assert "p95 300 ms  457 of 480 ended" in title(panel_content.ttft(some))
    few = ended(step(1, 12.0, "fail", 0.3, succeeded=100), knee=Knee(first_fail_rps=12.0))
    assert title(panel_content.ttft(few)).startswith("3 TTFT  only 100 of 480 ended  ✘ at 12.0 req/s p95 300 ms")


async def test_the_row_of_a_small_terminal_tells_now_from_the_result() -> None:
    live = await rendered(samples.mid_step(), (80, 24))
    assert "TTFT p95" in live, "whose value it is comes before when"
    assert "KV now" in live
    text = await rendered(ended(step(1, 12.0, "pass", 0.3), knee=Knee(pass_rps=12.0)), (80, 24))
    assert "TTFT@12.0 300 ms" in text
    assert "now" not in text


def test_before_the_end_nothing_stands_and_after_an_end_without_steps_neither() -> None:
    assert standing(samples.mid_step()) is None
    assert title(panel_content.ttft(ended(knee=Knee()))) == "3 TTFT  limit 500 ms"


def test_the_percentile_that_is_judged_comes_first() -> None:
    assert [ordered(target)[0] for target in (0.5, 0.9, 0.95, 0.99, 0.999, None)] == ["p50", "p95", "p95", "p99", "p99", "p95"]

"""Prefix hits stand beside what was planned of them, wherever a figure rests on them; of cold prompts nothing new is shown."""

import pytest
from msgspec.structs import replace

from core import report
from core.config import ProbeConfig, Workload
from core.results import StepResult
from core.view import RunView
from core.workloads import COLD, Prefix
from tests.tui import knee_samples, samples
from tests.tui.test_headless import CONFIG as ASKED
from tests.tui.test_headless import START, judged, repeat, said
from tests.tui.test_panel_content import title
from tui.cli.headless import Printer
from tui.connect.fields import Wrong, problem, read
from tui.widgets import knee_step, panel_content, status, steps_table

SHARED = Prefix(kind="shared", tokens=32, groups=8)
"""Of the samples' prompts of 64 tokens half."""
TOLD = "prefix hits 48 % (planned 50 %)"


def with_prefix(view: RunView, prefix: Prefix = SHARED) -> RunView:
    assert view.config is not None
    return replace(view, config=shared(view.config, prefix))


def shared(config: ProbeConfig, prefix: Prefix = SHARED) -> ProbeConfig:
    return replace(config, workload=replace(config.workload, prefix=prefix))


def live(hit_frac: float | None, prefix: Prefix = SHARED) -> RunView:
    """A repeat on its way."""
    view = samples.mid_step()
    assert view.current is not None
    assert view.current.live is not None
    current = replace(view.current, live=replace(view.current.live, prefix_hit_frac=hit_frac))
    return with_prefix(replace(view, current=current), prefix)


def over(hit_frac: float | None, prefix: Prefix = SHARED) -> RunView:
    """A run that has ended."""
    view = knee_samples.finished()
    steps = tuple(
        replace(step, repeats=tuple(replace(each, prefix_hit_frac=hit_frac) for each in step.repeats)) for step in view.steps
    )
    return with_prefix(replace(view, steps=steps), prefix)


@pytest.mark.parametrize(
    ("hit_frac", "prefix", "words"),
    [
        (0.48, SHARED, TOLD),
        (None, SHARED, "prefix hits not known (planned 50 %)"),
        (0.03, COLD, "prefix hits 3.0 %"),
        (0.0, COLD, None),
        (None, COLD, None),
    ],
)
def test_the_panel_of_the_cache_has_them_now_and_after_the_end(hit_frac: float | None, prefix: Prefix, words: str | None) -> None:
    for view in (live(hit_frac, prefix), over(hit_frac, prefix)):
        told = title(panel_content.kv(view))
        assert (words in told) if words is not None else ("prefix" not in told)


def step_of(view: RunView) -> StepResult:
    return next(each for each in view.steps if each.phase != "ramp")


def test_the_chosen_step_and_the_rows_of_steps_have_them() -> None:
    view = over(0.48)
    step = step_of(view)
    assert TOLD in [str(row) for block in knee_step.blocks(view, step, 116) for row in block]
    assert steps_table.judged(step, 0.95, shared=True).reason.startswith("hits 48 %; ")
    rows = [str(row) for block in knee_step.blocks(over(0.0, COLD), step_of(over(0.0, COLD)), 116) for row in block]
    assert not any(row.startswith("prefix hits") for row in rows)
    assert "hits" not in steps_table.judged(step, 0.95).reason


def test_the_header_says_what_is_shared() -> None:
    assert status.workload_text(Workload(prefix=SHARED)) == "512 → 128 tokens, 32 shared by 8 groups"
    assert status.workload_text(Workload(prefix=SHARED), short=True) == "512→128 shared:32/8"


def test_lines_have_them_in_the_head_in_progress_and_beside_each_verdict() -> None:
    printer = Printer()
    start = replace(START, config=shared(ASKED))
    assert printer.feed(start)[2].endswith("out, 32 tokens shared within each of 8 groups")
    step = judged(replace(repeat(0, "pass", (0.95, 1.0), "decided early"), prefix_hit_frac=0.48))
    lines = printer.feed(replace(start, steps=(step,), lines=(said(step),), now_s=60.0))
    assert "prefix hits 48 % (planned" in lines[-1]


def test_the_reports_have_them_beside_each_step() -> None:
    view = over(0.48)
    text = " ".join(report.to_text(view, None).split())
    assert "32 tokens shared within each of 8 groups" in text
    assert text.count(TOLD) == len(view.steps)
    markdown = report.to_markdown(view, "")
    assert f"floor 96.0 %, {TOLD} |" in markdown
    assert "32 tokens shared within each of 8 groups" in markdown
    cold = over(0.0, COLD)
    assert "prefix hits" not in report.to_text(cold, None).partition("Notes:")[0].partition("Why")[0]
    assert "cold prompts" in report.to_markdown(cold, "")


def test_the_result_has_the_plan() -> None:
    work = report.result(over(0.48), None)["workload"]
    assert (work["prefix"], work["cache"], work["planned_hit_frac"]) == ("shared:32/8", "shared", 0.5)
    cold = report.result(over(0.0, COLD), None)["workload"]
    assert (cold["prefix"], cold["cache"], cold["planned_hit_frac"]) == ("cold", "cold", None)


def test_a_long_prefix_is_held_against_the_prompts_of_their_own_field() -> None:
    """What stands in the last field alone is not wrong because prompts are short unless another field says otherwise."""
    more = "--prefix shared:1024/8"
    assert problem("more", more) is None
    assert read({"url": "http://h", "input-tokens": "2048", "more": more}, "", {}).config.workload.prefix.tokens == 1024
    with pytest.raises(Wrong) as wrong:
        read({"url": "http://h", "more": more}, "", {})
    assert wrong.value.problems["more"].startswith("--prefix: with 1,024 shared tokens nothing is unique in a prompt of 512")
    assert "is no prefix" in (problem("more", "--prefix warm") or "")


RECORDED = Prefix(kind="trace")
"""Each repeat has a plan of its own."""


def test_of_a_trace_the_plan_is_that_of_each_repeat() -> None:
    view = live(0.48, RECORDED)
    assert view.current is not None
    assert view.current.live is not None
    now = replace(view, current=replace(view.current, live=replace(view.current.live, planned_hit_frac=0.5)))
    assert TOLD in title(panel_content.kv(now))

    ended = over(0.48, RECORDED)
    planned = tuple(
        replace(step, repeats=tuple(replace(each, planned_hit_frac=0.5) for each in step.repeats)) for step in ended.steps
    )
    ended = replace(ended, steps=planned)
    assert TOLD in title(panel_content.kv(ended))
    assert TOLD in [str(row) for block in knee_step.blocks(ended, step_of(ended), 116) for row in block]
    assert " ".join(report.to_text(ended, None).split()).count(TOLD) == len(ended.steps)
    assert report.result(ended, None)["workload"]["planned_hit_frac"] is None


def test_where_a_repeat_has_no_plan_only_what_was_seen_is_told() -> None:
    assert "prefix hits 48 %" in title(panel_content.kv(live(0.48, RECORDED)))
    assert "planned" not in title(panel_content.kv(live(0.48, RECORDED)))

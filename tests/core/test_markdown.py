"""The summary to be pasted: complete, literal, and without anything that a server could make of it."""

import re

import pytest
from msgspec.structs import replace

from core import prose
from core.config import FleetAsk
from core.hardware import Hardware
from core.judge.rate_verdicts import set_aside
from core.report import to_markdown
from core.run.state import State
from core.view import RunView
from tests.core.run.events import started
from tests.tui import knee_samples, mode_samples, samples

PATH = "/home/me/run_1.jsonl"


def summary(view: RunView) -> str:
    return to_markdown(view, PATH)


def finished() -> RunView:
    return replace(knee_samples.finished(), command="kneescope probe http://127.0.0.1:8000 --mode standard --peak-rps 50")


def test_it_says_what_was_asked_the_answer_the_reason_the_fleet_and_how_to_repeat_it() -> None:
    text = summary(finished())
    assert text.startswith("### kneescope: holds at 11.3 requests/s, clearly fails at 13.6 requests/s\n")
    assert "| holds | 11.3 requests/s | 3 of 3 repeats passed, floor 96.0 % |" in text
    assert "| mixed from | 12.4 requests/s | 1 of 3 repeats failed, floor at most 93 % |" in text
    assert "| clearly fails | 13.6 requests/s | 2 of 2 repeats failed, floor at most 87 % |" in text
    assert "- 13.6 requests/s: 2 of 2 repeats failed: at most 87 %" in text
    assert "- limits: TTFT at most 500 ms and TPOT at most 30 ms for 95 % of requests" in text
    assert "- for a peak of 50.0 requests/s, load at peak 70 % of what holds (30 % spare), 1 GPU per replica" in text
    assert "- at 11.3 per replica (holds): 7 replicas, 7 GPUs; each gets 7.14 requests/s, 63 % of it" in text
    assert "- at 13.6 per replica (fails): 6 replicas, 6 GPUs; each gets 8.33 requests/s, 61 % of it" in text
    assert "```sh\nkneescope probe http://127.0.0.1:8000 --mode standard --peak-rps 50\n```" in text
    assert "Run file: /home/me/run\\_1.jsonl" in text


def test_the_caveats_of_the_answer_are_in_it() -> None:
    view = samples.finished()
    assert view.answer is not None
    text = summary(view)
    for note in view.answer.knee.notes:
        assert f"- {prose.text(note)}\n" in text


def test_a_rate_that_failed_in_the_ramp_alone_is_no_repeat() -> None:
    view = samples.finished()
    assert view.answer is not None
    knee = replace(view.answer.knee, first_fail_rps=16.0)
    text = summary(replace(view, answer=replace(view.answer, knee=knee)))
    assert "| fails | 16.0 requests/s | in a short segment of the ramp alone, floor at most 41 % |" in text
    aside = set_aside(replace(view.steps[-1], rate_rps=16.0, phase="search", step=0))
    assert text == summary(replace(view, answer=replace(view.answer, knee=knee), steps=(aside, *view.steps)))


def test_the_price_of_the_fleet_where_one_is_given() -> None:
    view = finished()
    assert view.config is not None
    priced = replace(view, config=replace(view.config, fleet=FleetAsk(peak_rps=50.0, cost_per_gpu_h=2.5)))
    assert "7 replicas, 7 GPUs, 17.50 per hour at 2.5 per GPU and hour" in summary(priced)
    unasked = replace(view, config=replace(view.config, fleet=FleetAsk()))
    assert "**Fleet**" not in summary(unasked)


def test_the_diagnosis_takes_the_place_of_the_reasons_of_single_steps() -> None:
    text = summary(knee_samples.diagnosed())
    assert "- WHY 6.0 requests wait on average, 0.2 at 11.3 requests/s; TTFT of 500 ms is 78 % queue, 15 % prefill\n" in text
    assert f"- -\\> {knee_samples.DIAGNOSIS.sentence}\n" in text
    assert f"- {knee_samples.DIAGNOSIS.advice}\n" in text
    assert "- NOT the client: sends late by 0.9 ms (p99) · memory: KV peak 41 %\n" in text
    assert "2 of 2 repeats failed: at most 87 %" not in text
    assert "A curve fitted over all repeats puts the knee between 11.4 and 13.1 requests/s" in text
    assert "A curve fitted" not in summary(knee_samples.diagnosed(8.0, 16.0))


def test_what_the_fleet_survives_and_what_limits_one_replica() -> None:
    view = finished()
    assert view.config is not None
    ask = FleetAsk(peak_rps=50.0, rollout=2, cost_per_gpu_h=2.5, mean_rps=20.0, hardware=Hardware(gpu="H100 SXM", weights_gb=15.2))
    text = summary(replace(view, config=replace(view.config, fleet=ask), server=replace(samples.SERVER, kv_cache_tokens=45_000)))
    assert "- load at peak 88 % at most for 1 lost: with 1 replica lost at peak" in text
    assert "- load at peak 73 % at most for 2 out, which binds: with 2 replicas out" in text
    assert "- Load at peak 70 % (30 % spare) is within all marks; 2 out binds (73 %)." in text
    assert "- With 1 lost each gets 8.33 requests/s at peak, 74 % of what holds; measured at 11.3 requests/s: floor 96.0 %." in text
    assert "- Cost: 17.50 an hour, 3.04 per million output tokens while the peak lasts" in text
    assert "- Speed: the TPOT floor is 6.48 ms" in text
    assert "- Memory: 45,000 KV tokens hold" in text
    assert "speed binds and not memory" in text


def test_a_demo_says_that_it_was_one() -> None:
    text = summary(samples.demo_finished())
    assert "This was a simulated replica" in text
    assert "known: 12.1 requests/s" in text


def test_no_markup_of_a_server_works_and_no_control_character_is_left() -> None:
    view = finished()
    server = replace(samples.SERVER, model="<img src=x> &lt;b&gt; [a](http://e) `x` | **b** \x1b[31m\n# h", version="1\n\n## boo")
    text = summary(replace(view, server=server))
    line = next(line for line in text.splitlines() if line.startswith("- server:"))
    assert "\\<img src=x\\> \\&lt;b\\&gt; \\[a\\](http://e) \\`x\\` \\| \\*\\*b\\*\\*" in line
    assert "\x1b" not in text
    assert not [row for row in text.splitlines() if row.startswith(("# h", "## boo"))]


def test_nothing_in_the_command_closes_its_fence() -> None:
    text = summary(replace(finished(), command="kneescope probe 'http://h/```' --model x"))
    assert re.search(r"^````sh\nkneescope probe 'http://h/```' --model x\n````$", text, re.MULTILINE)


def test_the_view_has_the_command_as_the_run_wrote_it_down() -> None:
    state = State()
    state.apply(started(t=1.0))
    assert state.view(1.0).command == "kneescope probe"
    assert "kneescope probe\n```" in summary(state.view(1.0))


@pytest.mark.parametrize("name", [*samples.ALL, *mode_samples.ALL])
def test_every_moment_has_a_summary(name: str) -> None:
    text = summary({**samples.ALL, **mode_samples.ALL}[name]())
    assert text.startswith("### kneescope: ")
    assert text.endswith(f"Run file: {PATH}\n".replace("_", "\\_"))
    assert "\n\n\n" not in text

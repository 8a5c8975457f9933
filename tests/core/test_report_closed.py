"""What a closed loop said, in the result and in the texts: beside the answer, never as a part of it."""

from msgspec.structs import replace

from core import report
from core.facts import fact
from core.results import ClosedLoop
from core.view import RunView
from tests.core.test_report import VIEW
from tests.tui import knee_samples

RUN = replace(knee_samples.diagnosed(), closed_loop=knee_samples.CLOSED)


def closed(view: RunView) -> dict[str, object]:
    data = report.result(view, None)["closed_loop"]
    assert isinstance(data, dict)
    return data


def test_the_most_in_flight_that_met_the_target_counts() -> None:
    data = closed(RUN)
    best = knee_samples.CLOSED.rungs[1]
    assert RUN.answer is not None
    assert RUN.answer.knee.pass_rps is not None
    assert (data["in_flight"], data["rate_rps"]) == (16, best.completed_rps)
    assert data["times_pass"] == best.completed_rps / RUN.answer.knee.pass_rps
    assert len(str(data["message"])) <= report.WIDTH


def test_it_is_one_line_of_the_text_and_changes_nothing_else() -> None:
    without = replace(RUN, closed_loop=None)
    line = [text for text in report.to_text(RUN, None).splitlines() if "closed loop" in text]
    assert line == [line for line in report.to_text(RUN, None).splitlines() if line.startswith("A closed loop says ")]
    assert len(line) == 1
    rest = [text for text in report.to_text(RUN, None).splitlines() if text and text != line[0]]
    assert rest == [text for text in report.to_text(without, None).splitlines() if text]
    assert "A closed loop says" in report.to_markdown(RUN, "run.jsonl")
    same = report.result(without, None)
    assert {**report.result(RUN, None), "closed_loop": None} == same


def test_one_that_was_ended_by_something_else_says_the_least() -> None:
    assert RUN.answer is not None
    cut = replace(RUN, closed_loop=ClosedLoop(rungs=knee_samples.CLOSED.rungs[:2], ended=fact("closed_stopped")))
    said = report.closed_fact(cut, RUN.answer)
    assert said is not None
    assert (said.code, said.figures["to_the_end"]) == ("closed_loop", False)


def test_where_nothing_met_the_target_it_says_no_rate() -> None:
    assert RUN.answer is not None
    missed = replace(RUN, closed_loop=ClosedLoop(rungs=knee_samples.CLOSED.rungs[2:], ended=knee_samples.CLOSED.ended))
    said = report.closed_fact(missed, RUN.answer)
    assert said is not None
    assert said.code == "closed_none"
    assert closed(missed)["rate_rps"] is None
    unmeasured = replace(RUN, closed_loop=ClosedLoop(ended=fact("closed_no_time")))
    assert report.closed_fact(unmeasured, RUN.answer) == fact("closed_unmeasured", fact("closed_no_time"))


def test_a_run_without_one_says_null() -> None:
    assert report.result(VIEW, None)["closed_loop"] is None

"""A run file of schema 2: its reasons, warnings and notes are facts, its answer and the lines of its events are sentences."""

import json
from pathlib import Path

from core import prose
from core.facts import says
from core.report import notes, to_json, to_text
from core.run.events import RunStarted
from core.run.log import read_run
from tui.cli.recorded import Recorded

RUN = Path("tests/data/schema_2/run.jsonl")
"""Made in virtual time; its requests and readings are left out."""
MESSAGE = "holds at 7.07 requests/s, fails at 10.0 requests/s"


def test_it_is_of_schema_2() -> None:
    first = next(iter(read_run(RUN)))
    assert isinstance(first, RunStarted)
    assert first.schema == 2


def test_its_answer_and_its_lines_are_shown_as_stored() -> None:
    view = Recorded(str(RUN)).view()

    assert view.answer is not None
    assert view.answer.message == MESSAGE
    assert not view.answer.alone
    assert to_text(view, None).startswith(f"Holds{MESSAGE.removeprefix('holds')}.\n")
    data = json.loads(to_json(view, None))
    assert (data["message"], data["message_fact"]) == (MESSAGE, None)
    (again,) = (line.text for line in view.lines if line.level == "warn" and line.step is None)
    assert isinstance(again, str)
    assert again.startswith("A repeat at 7.07 requests/s does not count and is done again: the client, not the server: ")
    assert again in notes(view)


def test_its_facts_are_facts() -> None:
    view = Recorded(str(RUN)).view()

    void = [repeat for step in view.steps for repeat in step.repeats if repeat.verdict == "void"]
    assert [says(repeat.reason, "client_late") for repeat in void] == [True]
    assert prose.text(void[0].reason) in to_json(view, None)

"""A run file of schema 3: everything that is said is a fact, and nothing tells yet how the time that is left has changed."""

import json
from pathlib import Path

from core import prose
from core.facts import Fact
from core.report import to_json, to_text
from core.run.events import RunStarted
from core.run.log import read_run
from tui.cli.recorded import Recorded

RUN = Path("tests/data/schema_3/run.jsonl")
"""A demo of two rates; its requests and readings are left out."""


def test_it_is_of_schema_3() -> None:
    first = next(iter(read_run(RUN)))
    assert isinstance(first, RunStarted)
    assert first.schema == 3


def test_its_answer_and_its_lines_are_facts_with_sentences() -> None:
    view = Recorded(str(RUN)).view()

    assert view.answer is not None
    assert isinstance(view.answer.message, Fact)
    assert prose.text(view.answer.message).startswith("holds at 4.00 requests/s, fails at 40.0 requests/s")
    assert to_text(view, None).startswith("Holds at 4.00 requests/s")
    assert all(isinstance(line.text, Fact) for line in view.lines)
    data = json.loads(to_json(view, None))
    assert (data["knee"]["pass_rps"], data["knee"]["first_fail_rps"]) == (4.0, 40.0)
    assert data["message_fact"]["code"] == view.answer.message.code

"""A run file of schema 1, which holds sentences where later ones hold facts: it opens everywhere, and says what it said."""

import json
from pathlib import Path

from core import prose
from core.judge.rate_verdicts import set_aside
from core.judge.search.bracket import Bracket
from core.report import notes, to_json, to_markdown, to_text
from core.run.events import RunStarted
from core.run.log import read_run
from tui.cli.recorded import Recorded

RUN = Path("tests/data/schema_1/run.jsonl")
"""A demo; its requests and readings are left out."""
REASON = "at least 99.1 % of 711 met the limits, target 95 %"


def test_it_is_of_schema_1() -> None:
    first = next(iter(read_run(RUN)))
    assert isinstance(first, RunStarted)
    assert first.schema == 1


def test_its_sentences_are_shown_as_stored() -> None:
    view = Recorded(str(RUN)).view()

    assert view.answer is not None
    assert [prose.text(step.reason) for step in view.steps][-1] == REASON
    assert REASON in " ".join(to_text(view, None).split())
    assert "upper end comes from the ramp" in to_markdown(view, "")
    assert view.answer.message == "holds at 17.5 requests/s, fails at 24.7 requests/s"
    assert view.lines[0].text == "Expected time: about 2 min 20 s in quick mode."
    assert [prose.text(note) for note in view.answer.knee.notes] == notes(view)[:2]


def test_its_result_has_sentences_without_a_code() -> None:
    data = json.loads(to_json(Recorded(str(RUN)).view(), None))

    assert data["message_fact"] is None
    last = data["steps"][-1]
    assert (last["reason"], last["reason_fact"]) == (REASON, None)
    assert (last["repeats"][0]["reason"], last["repeats"][0]["reason_fact"]) == (REASON, None)


def test_its_diagnosis_is_shown_as_stored() -> None:
    view = Recorded(str(RUN)).view()
    assert view.answer is not None
    assert view.answer.diagnosis is not None
    assert isinstance(view.answer.diagnosis.sentence, str)

    data = json.loads(to_json(view, None))["diagnosis"]
    assert (data["sentence"], data["sentence_fact"]) == (view.answer.diagnosis.sentence, None)
    assert {step["text_fact"] for step in data["steps"]} == {None}
    assert data["ruled_out_fact"] == [None] * len(data["ruled_out"])
    assert view.answer.diagnosis.sentence in " ".join(to_text(view, None).split())


def test_its_steps_can_still_be_reasoned_from() -> None:
    view = Recorded(str(RUN)).view()
    assert view.config is not None
    assert Bracket.of(view.config.method, view.steps).knee().pass_rps == view.steps[-1].rate_rps
    assert prose.text(set_aside(view.steps[-1]).reason).endswith(f"(pass: {REASON})")

"""Whole runs on servers that do not take a request as vLLM does: each is loaded in the form that it takes, and that is said."""

import json
from pathlib import Path
from typing import Any

import pytest

from core import prose
from core.config import Lengths
from core.facts import says
from core.records import Shape
from core.report import result
from tests.core.load.server import Received, event
from tests.faults.answers import JSON, Answer, tokens, whole
from tests.faults.runs import TOKENS, Ran, config, preflight, probe
from tests.faults.server import Fault, FaultServer

RATE = config(rates_rps=(3.0,), measure_s=10.0)
CHAT = config(rates_rps=(3.0,), measure_s=10.0, api="chat", output_tokens=Lengths(median=TOKENS))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.jsonl"


def given(request: Received) -> Answer:
    """An answer as vLLM gives it: usage where it is asked for, the length that was asked for; a letter is a token."""
    asked = request.json
    prompt = asked.get("prompt") or asked["messages"][0]["content"]
    counted = len(prompt) if isinstance(prompt, list) else 1 + len(prompt.split())
    options = asked.get("stream_options", {})
    usage = "each" if options.get("continuous_usage_stats") else "last" if options.get("include_usage") else "none"
    n = int(asked.get("max_tokens") or asked["max_completion_tokens"])
    return Answer(pieces=tokens(n, first_s=0.05, gap_s=0.02, prompt=counted, usage_by=usage))  # type: ignore[arg-type]


def bad(message: Any, status: int = 400) -> Answer:
    return whole(json.dumps({"object": "error", "message": message, "code": status}).encode(), status, JSON)


def request_of(ran: Ran) -> dict[str, Any]:
    data: dict[str, Any] = result(ran.view, None)["request"]
    return data


def fields(request: Received) -> set[str]:
    """The names of all that was sent, however deep."""
    return {*request.json, *request.json.get("stream_options", {})}


def text_alone(server: FaultServer, request: Received) -> Answer:
    if isinstance(request.json["prompt"], list):
        return bad("prompt: Input should be a valid string", 422)
    return given(request)


def test_a_server_that_takes_text_alone_is_loaded_with_text(path: Path) -> None:
    ran = probe(path, lambda: FaultServer(text_alone), RATE)
    assert [step.verdict for step in ran.steps] == ["pass"]
    assert request_of(ran)["prompt"] == "text"
    checks = {check.check: check for check in ran.view.checks}
    assert says(checks["request"].message, "takes_text")
    assert checks["prompt length"].status == "pass"


def test_no_two_prompts_of_text_share_their_beginning(path: Path) -> None:
    """Nothing else keeps them apart where the salt is refused as well."""
    beginnings: list[str] = []

    def keep(server: FaultServer, request: Received) -> Answer:
        if "cache_salt" in request.json:
            return bad("cache_salt: Extra inputs are not permitted")
        if isinstance(request.json["prompt"], str):
            beginnings.append(request.json["prompt"][:15])
        return text_alone(server, request)

    for name in ("one", "two"):
        ran = probe(path.with_name(name), lambda: FaultServer(keep), RATE)
        assert [step.verdict for step in ran.steps] == ["pass"]
    assert len(beginnings) > 60
    assert len(set(beginnings)) == len(beginnings)


def test_a_server_that_takes_chats_alone_is_refused_with_a_word_of_that(path: Path) -> None:
    checks, _ = preflight(path, lambda: FaultServer(lambda server, request: bad("Not a chat")))
    assert checks["request"].status == "refuse"
    assert "Not a chat; does it serve only chats? Try --api chat" in prose.text(checks["request"].message)


def by_names(*names: str) -> Fault:
    """A gateway that refuses these fields and names the first of them."""

    def refuse(server: FaultServer, request: Received) -> Answer:
        sent = [name for name in names if name in fields(request)]
        return bad(f"Unrecognized request argument supplied: {sent[0]}") if sent else given(request)

    return refuse


STRICT = ("cache_salt", "continuous_usage_stats", "ignore_eos")
"""What OpenAI's own API does not have."""


def without_a_word(server: FaultServer, request: Received) -> Answer:
    return bad("Invalid request body") if fields(request) & set(STRICT) else given(request)


def by_pydantic(server: FaultServer, request: Received) -> Answer:
    """The text of pydantic's own error, whose first line names no field."""
    sent = [name for name in STRICT if name in fields(request)]
    lines = [f"{name}\n  Extra inputs are not permitted [type=extra_forbidden]" for name in sent]
    return bad("\n".join([f"{len(sent)} validation errors for CompletionRequest", *lines])) if sent else given(request)


def in_the_stream(server: FaultServer, request: Received) -> Answer:
    """Status 200, and the refusal as its only event."""
    sent = [name for name in STRICT if name in fields(request)]
    if not sent:
        return given(request)
    error = {"error": {"message": f"{sent[0]}: Extra inputs are not permitted", "code": 400}}
    return Answer(pieces=((0.0, event(error)),))


@pytest.mark.parametrize("fault", [by_names(*STRICT), without_a_word, by_pydantic, in_the_stream])
@pytest.mark.parametrize("asked", [RATE, CHAT], ids=["completions", "chat"])
def test_a_gateway_that_takes_openais_fields_alone_is_loaded_with_those(path: Path, fault: Fault, asked: Any) -> None:
    ran = probe(path, lambda: FaultServer(fault), asked)
    assert [step.verdict for step in ran.steps] == ["pass"]
    first = Shape(prompt="messages", length_by="max_completion_tokens") if asked is CHAT else Shape()
    assert request_of(ran) == {
        "prompt": first.prompt,
        "length_by": first.length_by,
        "cache_salt": False,
        "usage": "end",
        "left_out": ["ignore_eos"],
        "counted_by": "usage",
    }


def test_a_server_that_takes_no_stream_options_is_counted_by_its_length(path: Path) -> None:
    def refuse(server: FaultServer, request: Received) -> Answer:
        return bad("Unknown field: stream_options") if "stream_options" in request.json else given(request)

    asked = config(rates_rps=(3.0,), measure_s=10.0, output_tokens=Lengths(median=16))
    ran = probe(path, lambda: FaultServer(refuse), asked)
    assert [step.verdict for step in ran.steps] == ["pass"]
    assert (request_of(ran)["usage"], request_of(ran)["counted_by"]) == ("none", "length")


def test_a_field_that_is_taken_and_left_unread_is_told_by_what_comes_of_it(path: Path) -> None:
    """Without ignore_eos answers end when they like: that it was taken without a word proves nothing."""

    def ends_early(server: FaultServer, request: Received) -> Answer:
        if "ignore_eos" in request.json:
            return bad("ignore_eos: not permitted")
        return Answer(pieces=tokens(2, first_s=0.05, gap_s=0.02, prompt=len(request.json["prompt"]), finish="stop"))

    ran = probe(path, lambda: FaultServer(ends_early), RATE)
    assert ran.answer.outcome == "refused"
    assert says(ran.answer.message, "answers_short")


# --- answers that may stop by themselves ------------------------------------------------------------------------------

NATURAL = config(rates_rps=(3.0,), measure_s=10.0, output_tokens=Lengths(median=16), stop="natural")


def stopping(usage_by: str) -> Fault:
    """A server of a model that stops after 5 tokens unless it is told not to."""

    def answer(server: FaultServer, request: Received) -> Answer:
        n, why = (16, "length") if "ignore_eos" in request.json else (5, "stop")
        prompt = len(request.json["prompt"])
        return Answer(pieces=tokens(n, first_s=0.05, gap_s=0.02, prompt=prompt, usage_by=usage_by, finish=why))  # type: ignore[arg-type]

    return answer


def test_a_run_takes_answers_as_they_come_and_tells_how_long_they_were(path: Path) -> None:
    ran = probe(path, lambda: FaultServer(stopping("each")), NATURAL)
    assert [step.verdict for step in ran.steps] == ["pass"]
    checks = {check.check: check for check in ran.view.checks}
    assert (checks["output length"].status, checks["usage"].status) == ("pass", "pass")
    data: dict[str, Any] = result(ran.view, None)
    assert data["workload"]["stop"] == "natural"
    assert data["workload"]["sampling"]["ignore_eos"] is False
    assert (request_of(ran)["left_out"], request_of(ran)["counted_by"]) == ([], "usage")
    (repeat,) = data["steps"][0]["repeats"]
    assert (repeat["output_tokens"]["mean"], repeat["stopped_frac"]) == (5.0, 1.0)


def test_the_same_server_gives_what_was_asked_for_where_that_is_exact(path: Path) -> None:
    exact = config(rates_rps=(3.0,), measure_s=10.0, output_tokens=Lengths(median=16))
    ran = probe(path, lambda: FaultServer(stopping("each")), exact)
    assert [step.verdict for step in ran.steps] == ["pass"]
    (repeat,) = ran.steps[0].repeats
    assert repeat.output_tokens is not None
    assert (repeat.output_tokens.mean, repeat.stopped_frac) == (16.0, 0.0)


def test_without_usage_the_length_of_answers_that_stop_is_not_known_and_none_is_counted_as_asked(path: Path) -> None:
    ran = probe(path, lambda: FaultServer(stopping("none")), NATURAL)
    assert [step.verdict for step in ran.steps] == ["pass"]
    checks = {check.check: check for check in ran.view.checks}
    assert (checks["output length"].status, request_of(ran)["counted_by"]) == ("warn", "events")
    (repeat,) = ran.steps[0].repeats
    assert (repeat.output_tokens, repeat.stopped_frac, repeat.tpot_s.n) == (None, 1.0, 0)


def test_a_gateway_that_refuses_without_a_word_is_found_out_though_ignore_eos_is_not_sent(path: Path) -> None:
    ran = probe(path, lambda: FaultServer(without_a_word), NATURAL)
    assert [step.verdict for step in ran.steps] == ["pass"]
    assert (request_of(ran)["cache_salt"], request_of(ran)["usage"], request_of(ran)["left_out"]) == (False, "end", [])

"""What a row of each form becomes, and what a broken one is called."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.facts import Fact, fact
from core.traffic.forms import Read, columns_of_prompts, recognised
from core.traffic.rows import Conversation, Message, Prompt, Turn
from tests.core.traffic.files import DATA

QUESTION = {"from": "human", "value": "Q"}
ANSWER = {"from": "gpt", "value": "A"}


def read(row: object, like: object = None) -> Read:
    """The row, by the reader of the first one of its file."""
    reader = recognised(row if like is None else like)
    assert reader is not None
    return reader.read(row, 7)


def rows_of(name: str) -> list[Any]:
    text = (DATA / name).read_text(encoding="utf-8-sig")
    return json.loads(text) if text.startswith("[") else [json.loads(line) for line in text.splitlines() if line]


def of_file(name: str) -> list[Read]:
    rows = rows_of(name)
    reader = recognised(rows[0])
    assert reader is not None
    return [reader.read(row, at) for at, row in enumerate(rows, 1)]


def user(text: str) -> tuple[Message, ...]:
    return (Message("user", text),)


def test_sharegpt_in_all_its_shapes() -> None:
    assert of_file("sharegpt.json") == [
        Prompt(1, messages=user("Why is the sky blue?"), answer="Because of Rayleigh scattering."),
        Conversation(
            2,
            (Turn(user("Name a river."), "The Elbe."), Turn(user("Another?"), "The Weser.")),
            before=(Message("system", "Be brief."),),
            session="b_0",
        ),
        fact("row_begins_with_answer"),
        fact("row_few_turns", turns=0),
        fact("row_few_turns", turns=1),
        fact("row_empty", field="value"),
        Prompt(7, messages=user('A turn as a string, with [brackets], {braces} and "quotes"'), answer="Yes \\ no."),
        Prompt(8, messages=user("In the singular?"), answer="Also that."),
        Prompt(9, messages=user("In items?"), answer="<div>Copy code</div> 1 / 2"),
        fact("row_few_turns", turns=1),
        fact("row_kind", field="from"),
    ]


def test_turns_with_human_and_assistant_in_one_object() -> None:
    assert of_file("sharegpt-90k.jsonl") == [
        Conversation(1, (Turn(user("Erste Frage"), "Antwort"), Turn(user("Zweite"), "Noch eine"))),
        Prompt(2, messages=user("Allein"), answer="Ja"),
    ]


def test_a_conversation_ends_where_questions_and_answers_no_longer_alternate() -> None:
    row = {"conversations": [QUESTION, ANSWER, QUESTION, {"from": "gpt", "value": " "}, QUESTION, ANSWER]}
    assert read(row) == Prompt(7, messages=user("Q"), answer="A")


def test_the_recorded_answer_of_a_chat_is_cut_off_and_tools_stay() -> None:
    first, second, third = of_file("chat.jsonl")
    assert first == Prompt(1, messages=(Message("system", "S"), *user("Q")), answer="recorded", endpoint="chat")
    assert isinstance(second, Prompt)
    assert second.messages[0].as_body() == rows_of("chat.jsonl")[1]["messages"][0]
    assert second.body == {"tools": [{"type": "function", "function": {"name": "f"}}]}
    assert isinstance(third, Prompt)
    assert [message.role for message in third.messages] == ["user", "assistant", "tool"]
    assert third.messages[1].rest.keys() == {"tool_calls"}
    assert (third.answer, third.messages[2].as_body()["tool_call_id"]) == ("It is 2.", "1")


def test_a_batch_keeps_its_body_but_for_model_stream_and_length() -> None:
    assert of_file("batch.jsonl") == [
        Prompt(1, messages=user("Hi"), output_tokens=64, body={"temperature": 0.2}, endpoint="chat"),
        Prompt(2, messages=user("Ho"), output_tokens=32, endpoint="chat"),
    ]


def test_prompts_with_the_fields_of_other_tools() -> None:
    assert of_file("custom.jsonl") == [
        Prompt(1, text="Write a poem", output_tokens=128),
        Prompt(2, text="Write prose", output_tokens=64),
        Prompt(3, text="No length"),
    ]
    assert of_file("guidellm.jsonl") == [
        Prompt(1, messages=(Message("system", "S"), *user("A")), output_tokens=20, input_tokens=10),
        Prompt(2, text="Q?", output_tokens=5, answer="A."),
        Conversation(3, (Turn(user("One"), output_tokens=3), Turn(user("Two"), output_tokens=4))),
    ]
    assert of_file("aiperf.jsonl") == [
        Prompt(1, text="T", output_tokens=7),
        Prompt(2, text="U"),
        Conversation(
            3,
            (Turn(user("V"), output_tokens=3), Turn(user("W"), output_tokens=4, think_s=1.5)),
            session="t",
        ),
    ]


def test_whole_bodies_are_requests_too() -> None:
    chat = {"timestamp": 5, "body": {"model": "m", "messages": [{"role": "user", "content": "Q"}], "seed": 1}}
    text = {"payload": {"prompt": "P", "max_tokens": 9}}
    assert read(chat) == Prompt(7, messages=user("Q"), body={"seed": 1}, endpoint="chat")
    assert read(text) == Prompt(7, text="P", output_tokens=9, endpoint="completions")


TALK = {"conversations": [QUESTION, ANSWER]}
CHAT = {"messages": [{"role": "user", "content": "Q"}]}
BATCH = {"custom_id": "1", "method": "POST", "url": "/v1/completions", "body": {"prompt": "P"}}
PROMPT = {"prompt": "P"}
TURNS = {"turns": [{"text": "T"}]}


@pytest.mark.parametrize(
    ("like", "row", "why"),
    [
        (TALK, {"id": "x"}, fact("row_lacks", field="conversations")),
        (TALK, {"conversations": "text"}, fact("row_lacks", field="conversations")),
        (TALK, [1], fact("row_kind", field="row")),
        (TALK, {"conversations": [3, 4]}, fact("row_kind", field="conversations")),
        (TALK, {"conversations": ["no JSON", "either"]}, fact("row_kind", field="conversations")),
        (TALK, {"conversations": [{"from": "human", "value": 3}, ANSWER]}, fact("row_kind", field="value")),
        (TALK, {"conversations": [{"value": "Q"}, ANSWER]}, fact("row_kind", field="from")),
        (CHAT, {"text": "x"}, fact("row_lacks", field="messages")),
        (CHAT, {"messages": {}}, fact("row_kind", field="messages")),
        (CHAT, {"messages": ["Q"]}, fact("row_kind", field="messages")),
        (CHAT, {"messages": []}, fact("row_few_turns", turns=0)),
        (CHAT, {"messages": [{"role": "system", "content": "S"}]}, fact("row_few_turns", turns=0)),
        (CHAT, {"messages": [{"role": "assistant", "content": "A"}]}, fact("row_few_turns", turns=0)),
        (CHAT, {"messages": [{"role": "user", "content": " "}]}, fact("row_empty", field="content")),
        (CHAT, {"messages": [{"role": "user", "content": 3}]}, fact("row_kind", field="content")),
        (CHAT, CHAT | {"max_tokens": 0}, fact("row_number", field="max_tokens")),
        (BATCH, {"custom_id": "1", "body": {}}, fact("row_lacks", field="method")),
        (BATCH, BATCH | {"method": "GET"}, fact("row_kind", field="method")),
        (BATCH, BATCH | {"url": "/v1/embeddings"}, fact("row_endpoint", url="/v1/embeddings")),
        (BATCH, BATCH | {"url": "https://me:pa55@host/v1/embeddings"}, fact("row_kind", field="url")),
        (BATCH, BATCH | {"url": "/v1/embeddings?key=pa55"}, fact("row_kind", field="url")),
        (BATCH, BATCH | {"body": {"prompt": [1, 2]}}, fact("row_kind", field="prompt")),
        (BATCH, BATCH | {"body": 3}, fact("row_kind", field="body")),
        (PROMPT, {"prompt": 42}, fact("row_kind", field="prompt")),
        (PROMPT, {"prompt": " "}, fact("row_empty", field="prompt")),
        (PROMPT, {"promt": "P"}, fact("row_lacks", field="prompt")),
        (PROMPT, PROMPT | {"output_tokens": 0}, fact("row_number", field="output_tokens")),
        (PROMPT, PROMPT | {"output_tokens": "many"}, fact("row_number", field="output_tokens")),
        (PROMPT, PROMPT | {"output_tokens": True}, fact("row_number", field="output_tokens")),
        (PROMPT, PROMPT | {"output_tokens": 1e9}, fact("row_number", field="output_tokens")),
        (PROMPT, {"texts": ["a", "b"]}, fact("row_kind", field="texts")),
        (PROMPT, {"prompt_0": "P", "prompt_1": 3}, fact("row_kind", field="prompt_1")),
        (TURNS, {"turns": []}, fact("row_few_turns", turns=0)),
        (TURNS, {"turns": 3}, fact("row_lacks", field="turns")),
        (TURNS, {"turns": [{"text": "T", "delay": -1}]}, fact("row_number", field="delay")),
        ("a", " ", fact("row_empty", field="prompt")),
        ("a", 3, fact("row_kind", field="prompt")),
    ],
)
def test_a_row_that_cannot_be_used_has_its_reason(like: object, row: object, why: Fact) -> None:
    assert read(row, like) == why


@pytest.mark.parametrize("row", [None, 3, [], {}, {"input_length": 5, "output_length": 5}, {"turn": 2, "type": "text"}])
def test_what_holds_no_text_has_no_form(row: object) -> None:
    assert recognised(row) is None


@pytest.mark.parametrize(
    ("line", "is_one"),
    [("prompt,output_tokens", True), ('"id","question","answer"', True), ("prompt", False), ("Write a poem, please", False)],
)
def test_the_head_of_a_table_of_prompts_is_no_prompt(line: str, is_one: bool) -> None:
    assert columns_of_prompts(line) is is_one


LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["", " ", "x", "human", "gpt", '{"from":"gpt"}'])
NAMES = st.sampled_from(
    [
        *(
            "conversations",
            "items",
            "from",
            "value",
            "human",
            "assistant",
            "messages",
            "role",
            "content",
            "tool_calls",
            "custom_id",
        ),
        *("method", "url", "body", "prompt", "prompt_0", "prompt_1", "texts", "turns", "text", "delay", "output_tokens", "system"),
    ]
)
JSON = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4), max_leaves=12)


@settings(deadline=None)
@given(JSON, JSON)
def test_any_json_becomes_a_row_or_a_reason(row: object, other: object) -> None:
    """And what becomes a prompt has a text or messages, never both, and never an empty one."""
    for like in (TALK, CHAT, BATCH, PROMPT, TURNS, {"body": {}}, "a", row):
        reader = recognised(like)
        if reader is None:
            continue
        for each in (row, other):
            found = reader.read(each, 1)
            assert isinstance(found, (Prompt, Conversation, Fact))
            if isinstance(found, Prompt):
                assert (found.text is None) is bool(found.messages)
                assert found.output_tokens is None or found.output_tokens > 0
            if isinstance(found, Conversation):
                assert len(found.turns) > 1


def test_a_turn_goes_with_all_that_was_said_before_it() -> None:
    talk = Conversation(1, (Turn(user("Q1"), "A1"), Turn(user("Q2"), "A2", output_tokens=5)), before=(Message("system", "S"),))
    said = [message.content for message in talk.prompt(1, ["what came"]).messages]
    assert said == ["S", "Q1", "what came", "Q2"]
    assert [message.content for message in talk.prompt(1).messages] == ["S", "Q1", "A1", "Q2"]
    assert talk.prompt(1).output_tokens == 5


def test_no_repr_shows_text() -> None:
    rows = [each for name in ("sharegpt.json", "chat.jsonl", "batch.jsonl", "guidellm.jsonl") for each in of_file(name)]
    shown = repr(rows) + repr([message for row in rows if isinstance(row, Prompt) for message in row.messages])
    assert not any(word in shown for word in ("sky", "Rayleigh", "Elbe", "recorded", "What is it", "brief", "temperature"))

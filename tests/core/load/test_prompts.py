"""Bodies ask for exactly what the plan says, and no two prompts ever share a beginning."""

import json
import re
from typing import Any

import msgspec
import pytest

from core.config import Api, Lengths, Workload
from core.load.prompts import UNIQUE_TOKENS, Bodies
from core.records import Hello, PromptAlphabet, RepeatOrder, Shape
from core.schedule import draw
from tests.core.load.orders import ALPHABET, CHAT, hello, order

WORKLOAD = Workload(
    input_tokens=Lengths(median=100, sigma=0.5, maximum=400),
    output_tokens=Lengths(median=30, sigma=0.5, maximum=90),
    temperature=0.7,
)
ORDER = order((5, 20))
TEXT = Shape(prompt="text")


def bodies(said: Hello, asked: RepeatOrder = ORDER) -> list[dict[str, Any]]:
    plan = draw(asked, said.workload)
    builder = Bodies(said, asked, plan)
    return [json.loads(builder.build(i)) for i in range(len(plan))]


def prompts(said: Hello, asked: RepeatOrder = ORDER) -> list[list[Any]]:
    made = bodies(said, asked)
    said_by = [b["messages"][0]["content"] if "messages" in b else b["prompt"] for b in made]
    return [prompt.split(" ") if isinstance(prompt, str) else prompt for prompt in said_by]


def test_completions_body_is_exact() -> None:
    plan = draw(ORDER, WORKLOAD)
    for i, body in enumerate(bodies(hello(workload=WORKLOAD))):
        prompt, salt = body.pop("prompt"), body.pop("cache_salt")
        assert len(prompt) == plan.input_tokens[i]
        assert set(prompt) <= set(ALPHABET.token_ids)
        assert re.fullmatch("[0-9a-f]{32,128}", salt)
        assert body == {
            "model": "tiny",
            "max_tokens": plan.output_tokens[i],
            "ignore_eos": True,
            "temperature": 0.7,
            "top_p": 1.0,
            "stream": True,
            "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        }


def test_chat_body_counts_words_by_their_tokens() -> None:
    plan = draw(ORDER, WORKLOAD)
    for i, body in enumerate(bodies(hello(api="chat", workload=WORKLOAD))):
        words = body["messages"][0]["content"].split(" ")
        assert body["messages"][0]["role"] == "user"
        assert abs(len(words) * 2 + 12 - plan.input_tokens[i]) <= 1
        assert set(words) <= set(ALPHABET.words)
        assert body["max_completion_tokens"] == plan.output_tokens[i]
        assert "max_tokens" not in body
        assert "prompt" not in body


@pytest.mark.parametrize("shape", [Shape(), TEXT, CHAT], ids=["ids", "text", "messages"])
def test_no_beginning_and_no_salt_ever_comes_twice(shape: Shape) -> None:
    """Across requests, orders (a repeat redone has a new number) and runs (a new nonce with the same seed)."""
    api: Api = "chat" if shape == CHAT else "completions"
    made = [
        (hello(api=api, nonce=nonce, workload=WORKLOAD, shape=shape), order((5, 20), number=number))
        for nonce in ("aa", "bb")
        for number in (1, 2)
    ]
    firsts = [tuple(p[:UNIQUE_TOKENS]) for said, asked in made for p in prompts(said, asked)]
    salts = [b["cache_salt"] for said, asked in made for b in bodies(said, asked)]
    assert len(firsts) > 300
    assert len(set(firsts)) == len(firsts)
    assert len(set(salts)) == len(salts)


@pytest.mark.parametrize("api", ["completions", "chat"])
def test_the_rest_of_the_prompt_comes_from_the_seed(api: Api) -> None:
    one = prompts(hello(api=api, nonce="aa", workload=WORKLOAD))
    other = prompts(hello(api=api, nonce="bb", workload=WORKLOAD), order((5, 20), number=9))
    seeded = prompts(hello(api=api, nonce="aa", workload=WORKLOAD), order((5, 20), seed=12))
    assert [p[UNIQUE_TOKENS:] for p in one] == [p[UNIQUE_TOKENS:] for p in other]
    assert one[0][UNIQUE_TOKENS : UNIQUE_TOKENS + 8] != seeded[0][UNIQUE_TOKENS : UNIQUE_TOKENS + 8]
    assert one[0][UNIQUE_TOKENS : UNIQUE_TOKENS + 8] != one[1][UNIQUE_TOKENS : UNIQUE_TOKENS + 8]


def test_the_same_request_is_built_the_same_at_every_rate_and_in_any_order() -> None:
    said = hello(workload=WORKLOAD)
    slow, fast = order((1, 20)), order((9, 20))
    a, b = Bodies(said, slow, draw(slow, WORKLOAD)), Bodies(said, fast, draw(fast, WORKLOAD))
    assert [a.build(i) for i in (3, 0, 3)] == [b.build(i) for i in (3, 0, 3)]


def test_prompts_shorter_than_the_unique_part_keep_their_length() -> None:
    said = hello(workload=Workload(input_tokens=Lengths(median=3), output_tokens=Lengths(median=1)))
    assert {len(p) for p in prompts(said)} == {3}


@pytest.mark.parametrize("api", ["completions", "chat"])
def test_an_alphabet_with_nothing_in_it_is_refused(api: Api) -> None:
    said = hello(api=api, alphabet=PromptAlphabet(token_ids=()))
    with pytest.raises(ValueError, match="alphabet"):
        Bodies(said, ORDER, draw(ORDER, said.workload))


@pytest.mark.parametrize("first", [Shape(), TEXT, CHAT], ids=["ids", "text", "messages"])
@pytest.mark.parametrize(
    ("changes", "gone"),
    [
        ({"salted": False}, {"cache_salt"}),
        ({"usage": "none"}, {"stream_options"}),
        ({"left_out": ("ignore_eos",)}, {"ignore_eos"}),
        ({"left_out": ("top_p", "ignore_eos"), "salted": False}, {"ignore_eos", "top_p", "cache_salt"}),
    ],
)
def test_what_a_server_does_not_take_is_left_out_and_nothing_else_changes(
    first: Shape, changes: dict[str, Any], gone: set[str]
) -> None:
    api: Api = "chat" if first == CHAT else "completions"
    whole = bodies(hello(api=api, shape=first))
    plain = bodies(hello(api=api, shape=msgspec.structs.replace(first, **changes)))
    assert {name for body in whole for name in body if name not in plain[0]} == gone
    assert plain == [{name: value for name, value in body.items() if name not in gone} for body in whole]


def test_usage_at_the_end_is_asked_for_without_the_field_of_vllm() -> None:
    assert {str(body["stream_options"]) for body in bodies(hello(shape=Shape(usage="end")))} == {"{'include_usage': True}"}


def test_a_chat_asks_for_its_length_by_the_field_that_the_server_heeds() -> None:
    new = bodies(hello(api="chat", workload=WORKLOAD))
    old = bodies(hello(api="chat", workload=WORKLOAD, shape=msgspec.structs.replace(CHAT, length_by="max_tokens")))
    assert not any("max_completion_tokens" in body for body in old)
    assert [body.pop("max_tokens") for body in old] == [body.pop("max_completion_tokens") for body in new]
    assert old == new


def test_a_completion_of_text_is_as_long_as_its_words() -> None:
    plan = draw(ORDER, WORKLOAD)
    for i, body in enumerate(bodies(hello(workload=WORKLOAD, shape=TEXT))):
        words = body["prompt"].split(" ")
        assert abs(len(words) * 2 + 12 - plan.input_tokens[i]) <= 1
        assert set(words) <= set(ALPHABET.words)
        assert body["max_tokens"] == plan.output_tokens[i]
        assert "messages" not in body


@pytest.mark.parametrize(
    ("shape", "alphabet"), [(TEXT, PromptAlphabet(token_ids=(1, 2))), (Shape(), PromptAlphabet(token_ids=(), words=("a",)))]
)
def test_an_alphabet_of_another_form_is_refused(shape: Shape, alphabet: PromptAlphabet) -> None:
    said = hello(shape=shape, alphabet=alphabet)
    with pytest.raises(ValueError, match="alphabet"):
        Bodies(said, ORDER, draw(ORDER, said.workload))

"""Bodies ask for exactly what the plan says, and no two prompts ever share a beginning."""

import json
import re
from typing import Any

import msgspec
import pytest

from core.config import Api, Lengths, Workload
from core.load.prompts import UNIQUE_TOKENS, Bodies
from core.records import Hello, PromptAlphabet, RepeatOrder, Shape, SharedBlocks
from core.schedule import draw
from core.workloads import Prefix
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


@pytest.mark.parametrize("api", ["completions", "chat"])
def test_answers_that_may_stop_by_themselves_ask_for_nothing_else(api: Api) -> None:
    exact = bodies(hello(api=api, workload=WORKLOAD))
    natural = bodies(hello(api=api, workload=msgspec.structs.replace(WORKLOAD, stop="natural")))
    assert all(body.pop("ignore_eos") for body in exact)
    assert natural == exact


# --- prefixes that groups share -----------------------------------------------------------------------------------

GROUPED = Workload(input_tokens=Lengths(median=100), prefix=Prefix(kind="shared", tokens=60, groups=3))
"""Prompts of 100 ids, or as text of 44 words of two tokens beside 12 of the template, of which 24 are shared."""
SHAPES = pytest.mark.parametrize(
    ("api", "shape", "shared"),
    [("completions", Shape(), 60), ("completions", TEXT, 24), ("chat", CHAT, 24)],
    ids=["ids", "text", "chat"],
)


@SHAPES
def test_prompts_of_a_group_share_its_prefix_and_nothing_more(api: Api, shape: Shape, shared: int) -> None:
    said = hello(api=api, workload=GROUPED, shape=shape)
    by_group: dict[int, list[list[Any]]] = {}
    groups = draw(ORDER, GROUPED).group
    assert groups is not None
    for group, prompt in zip(groups.tolist(), prompts(said), strict=True):
        by_group.setdefault(group, []).append(prompt)
    assert sorted(by_group) == [0, 1, 2]
    for same in by_group.values():
        assert len({tuple(prompt[:shared]) for prompt in same}) == 1
        behind = {tuple(prompt[shared : shared + UNIQUE_TOKENS]) for prompt in same}
        assert len(behind) == len(same) > 10, "the first tokens behind the prefix are unique"
    assert len({tuple(same[0][:shared]) for same in by_group.values()}) == 3
    assert {len(prompt) for same in by_group.values() for prompt in same} == {100 if shape == Shape() else 44}


def test_a_prefix_stays_in_a_run_and_never_comes_in_another() -> None:
    def beginnings(nonce: str, number: int) -> set[tuple[Any, ...]]:
        return {tuple(p[:60]) for p in prompts(hello(nonce=nonce, workload=GROUPED), order((5, 20), number=number))}

    assert beginnings("aa", 1) == beginnings("aa", 2)
    assert not beginnings("aa", 1) & beginnings("bb", 1)


def test_the_requests_of_a_run_share_one_salt_and_those_of_another_run_do_not() -> None:
    """A salt of its own would part a request from its group: vLLM hashes it with the first block."""
    salts = [{b["cache_salt"] for b in bodies(hello(nonce=nonce, workload=GROUPED))} for nonce in ("aa", "bb")]
    assert [len(each) for each in salts] == [1, 1]
    assert salts[0] != salts[1]
    assert re.fullmatch("[0-9a-f]{32,128}", salts[0].pop())


def test_a_prompt_shorter_than_its_prefix_ends_in_a_token_of_its_own() -> None:
    workload = Workload(input_tokens=Lengths(median=40, sigma=0.5, maximum=80), prefix=Prefix(kind="shared", tokens=60, groups=1))
    made = prompts(hello(workload=workload))
    whole = max(made, key=len)
    short = [prompt for prompt in made if len(prompt) < 60]
    assert len(short) > 20
    assert all(prompt[:-1] == whole[: len(prompt) - 1] for prompt in short)


def test_a_group_is_sent_as_its_prefix_and_one_token() -> None:
    """So that all whole blocks of the prefix are in the cache before the load."""
    asked = msgspec.structs.replace(ORDER, phase="prefix", segments=(), offsets_s=(0.0, 0.0), groups=(2, 0))
    said = hello(workload=GROUPED)
    sent = bodies(said, asked)
    groups = draw(ORDER, GROUPED).group
    assert groups is not None
    by_group = dict(zip(groups.tolist(), prompts(said), strict=True))
    assert [len(b["prompt"]) for b in sent] == [61, 61]
    assert [b["max_tokens"] for b in sent] == [1, 1]
    assert [b["prompt"][:60] for b in sent] == [by_group[2][:60], by_group[0][:60]]


def test_only_the_prefixes_used_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    said, plan = hello(workload=GROUPED), draw(ORDER, GROUPED)
    all_kept = Bodies(said, ORDER, plan)
    monkeypatch.setattr("core.load.prompts._KEPT_TOKENS", 60)
    one_kept = Bodies(said, ORDER, plan)
    assert [one_kept.build(i) for i in range(len(plan))] == [all_kept.build(i) for i in range(len(plan))]
    assert len(one_kept._prefixes) == 1


BLOCKS = SharedBlocks(block_tokens=32, parents=(-1, 0, 0), blocks=(1, 2, 1), of=(1, 2, 0, 1, -1, 2))
"""Requests 0 and 3 begin with 96 tokens alike, 1 and 5 with 64; 32 of these are those of 2 as well; 4 shares nothing."""
ALIKE = {(0, 3): 96, (1, 5): 64, (0, 1): 32, (0, 2): 32, (2, 5): 32, (0, 4): 0, (1, 4): 0}
RECORDED = Workload(input_tokens=Lengths(median=110), prefix=Prefix(kind="trace"))


def recorded(number: int = 1) -> RepeatOrder:
    return msgspec.structs.replace(order(offsets_s=(0.0,) * 6, number=number), shared=BLOCKS)


def alike(one: list[Any], other: list[Any]) -> int:
    """How many tokens two prompts have in common from the first one on."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def test_recorded_prompts_share_exactly_the_blocks_of_the_trace() -> None:
    made = prompts(hello(workload=RECORDED), recorded())
    assert {len(prompt) for prompt in made} == {110}
    assert {pair: alike(made[pair[0]], made[pair[1]]) for pair in ALIKE} == ALIKE
    assert len({b["cache_salt"] for b in bodies(hello(workload=RECORDED), recorded())}) == 1


@pytest.mark.parametrize("api", ["completions", "chat"])
def test_in_words_they_share_as_many_as_are_that_long(api: Api) -> None:
    """A word is two tokens; in a chat the template's twelve come first and are shared as well."""
    made = prompts(hello(api=api, workload=RECORDED, shape=CHAT if api == "chat" else TEXT), recorded())
    assert {pair: alike(made[pair[0]], made[pair[1]]) for pair in ALIKE} == {
        pair: max(0, (tokens - 12) // 2) for pair, tokens in ALIKE.items()
    }
    assert {len(prompt) for prompt in made} == {49}


def test_no_other_order_and_no_other_run_has_these_blocks() -> None:
    said = hello(nonce="aa", workload=RECORDED)
    first = prompts(said, recorded())
    for other in (prompts(said, recorded(2)), prompts(hello(nonce="bb", workload=RECORDED), recorded())):
        assert max(alike(one, two) for one in first for two in other) < 4
    assert prompts(said, recorded()) == first


def test_orders_without_recorded_blocks_are_cold() -> None:
    asked = bodies(hello(workload=RECORDED), order(offsets_s=(0.0,) * 6))
    assert len({b["cache_salt"] for b in asked}) == 6
    assert max(alike(one["prompt"], two["prompt"]) for one in asked for two in asked if one is not two) < 4


def test_a_prompt_of_shared_blocks_alone_is_the_same_twice() -> None:
    whole = msgspec.structs.replace(RECORDED, input_tokens=Lengths(median=96))
    made = prompts(hello(workload=whole), recorded())
    assert made[0] == made[3]

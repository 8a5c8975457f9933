"""A server that refuses how a request is written: what is tried, what is used then, and what is said of it."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from core.config import Lengths, Workload
from core.facts import Code, fact, says
from core.records import Hello, Phase, RequestRecord, Shape
from core.server.fallbacks import FIRST
from core.server.prompt_vocabulary import LETTERS
from tests.core.server.fakes import ALL, FakeSend, FakeVllm, byte_ids, codes, config, found, record, run

IDS, CHAT = FIRST["completions"], FIRST["chat"]
TEXT = replace(IDS, prompt="text")
NO = "Invalid request body"

Takes = Callable[[Shape], str | None]
"""What a server says against a shape; None: it takes it."""


def answered(hello: Hello, *, tokens_per_letter: float = 1.0, special: int = 0, **changes: Any) -> RequestRecord:
    """An answer as asked, whose prompt is counted as the server counts it."""
    asked, output = hello.workload.input_tokens.largest, hello.workload.output_tokens.largest
    prompt = asked
    if hello.shape.prompt == "text":
        alphabet = hello.alphabet
        words = max(1, round((asked - alphabet.chat_overhead_tokens) / alphabet.tokens_per_word))
        prompt = round(special + tokens_per_letter * words)
    return replace(record(asked_input=asked, asked_output=output, prompt_tokens=prompt, output_tokens=output), **changes)


def refusal(said: str, status: int = 400) -> RequestRecord:
    return record(ending="http", status=status, error=said, t_first=None, output_tokens=0)


def taking(says: Takes, **counts: Any) -> FakeSend:
    def answer(hello: Hello, i: int, phase: Phase) -> RequestRecord:
        said = says(hello.shape)
        return answered(hello, **counts) if said is None else refusal(said)

    return FakeSend(answer)


def shapes(send: FakeSend) -> list[Shape]:
    return [hello.shape for hello, _, _ in send.calls]


# --- what is used, and what is said -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "refused", "said", "left", "code", "status"),
    [
        (IDS, lambda s: s.salted, "cache_salt", replace(IDS, salted=False), "takes_no_salt", "warn"),
        (IDS, lambda s: s.usage == "continuous", "continuous_usage_stats", replace(IDS, usage="end"), "takes_usage_at_end", "pass"),
        (IDS, lambda s: s.usage != "none", "stream_options", replace(IDS, usage="none"), "takes_no_usage", "pass"),
        (IDS, lambda s: s.prompt == "ids", "prompt", TEXT, "takes_text", "pass"),
        (IDS, lambda s: "top_p" not in s.left_out, "top_p", replace(IDS, left_out=("top_p",)), "fields_left_out", "pass"),
        (
            IDS,
            lambda s: "ignore_eos" not in s.left_out,
            "ignore_eos",
            replace(IDS, left_out=("ignore_eos",)),
            "fields_left_out",
            "warn",
        ),
        (
            CHAT,
            lambda s: s.length_by == "max_completion_tokens",
            "max_completion_tokens",
            replace(CHAT, length_by="max_tokens"),
            "takes_max_tokens",
            "pass",
        ),
    ],
)
@pytest.mark.parametrize("named", [True, False], ids=["named", "not named"])
async def test_one_refused_field_gives_way_named_or_not(
    first: Shape, refused: Callable[[Shape], bool], said: str, left: Shape, code: Code, status: str, named: bool
) -> None:
    send = taking(lambda shape: f"{said}: not permitted" if named and refused(shape) else NO if refused(shape) else None)
    ran = await run(FakeVllm(), send, config(api="chat" if first == CHAT else "completions"))
    assert ran.names == ALL
    assert ran.preflight.hello is not None
    assert ran.preflight.hello.shape == ran.preflight.info.shape == shapes(send)[-1] == left
    assert (ran["request"].status, codes(ran["request"])) == (status, ["in_turn", "request_answered", code])
    assert len(send.calls) <= 1 + 7 + 2


async def test_two_fields_that_are_refused_without_a_word_are_both_found() -> None:
    def says(shape: Shape) -> str | None:
        return NO if shape.salted or shape.usage == "continuous" or "ignore_eos" not in shape.left_out else None

    ran = await run(FakeVllm(), taking(says))
    assert ran.names == ALL
    assert ran.preflight.info.shape == Shape(salted=False, usage="end", left_out=("ignore_eos",))


async def test_what_a_refusal_does_not_name_is_looked_for_by_short_requests() -> None:
    send = taking(lambda shape: NO if shape.salted else None)
    await run(FakeVllm(), send)
    short = [hello.workload.output_tokens.largest for hello, _, phase in send.calls if phase == "preflight"]
    assert short == [128, *[4] * 5, 128]


async def test_a_refusal_of_the_length_is_told_and_no_field_is_given_up_for_it() -> None:
    def answer(hello: Hello, i: int, phase: Phase) -> RequestRecord:
        return answered(hello) if hello.workload.output_tokens.largest < 100 else refusal("Too long")

    ran = await run(FakeVllm(), FakeSend(answer))
    assert ran["request"].status == "refuse"
    assert found(ran["request"]).of == (fact("request_broken_off", ending="http", status=400, said="Too long"),)
    assert found(ran["request"]).figures["text_refused"] is False


async def test_nothing_that_is_taken_leaves_no_trace() -> None:
    ran = await run(FakeVllm())
    assert (ran.preflight.info.shape, ran.preflight.info.counted_by) == (IDS, "usage")
    assert codes(ran["request"]) == ["request_answered"]


async def test_without_usage_it_stands_by_what_tokens_are_counted() -> None:
    send = FakeSend(lambda hello, i, phase: answered(hello, usage=False, counted_by="length" if hello.keeps_length else "events"))
    ran = await run(FakeVllm(), send)
    assert ran.preflight.info.counted_by == "length"


async def test_a_refusal_in_the_stream_is_one_too() -> None:
    """Status 200, and then the error as the only event."""

    def answer(hello: Hello, i: int, phase: Phase) -> RequestRecord:
        said = "cache_salt: Extra inputs are not permitted"
        return replace(refusal(said), ending="stream", status=200) if hello.shape.salted else answered(hello)

    ran = await run(FakeVllm(), FakeSend(answer))
    assert ran.names == ALL
    assert ran.preflight.info.shape == replace(IDS, salted=False)


async def test_a_field_that_turns_up_in_the_calibration_of_chats_is_found_there() -> None:
    send = taking(lambda shape: NO if shape.usage == "continuous" else None)
    ran = await run(FakeVllm(tokenize=None), send, config(api="chat"))
    assert ran.names == ALL
    assert ran.preflight.info.shape == replace(CHAT, usage="end")
    assert shapes(send).count(CHAT) == 1


# --- all fail ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("said", [NO, "cache_salt is wrong", "prompt must be a string", "stream_options, ignore_eos"])
@pytest.mark.parametrize("tokenize", [FakeVllm().tokenize, None])
@pytest.mark.parametrize("api", ["completions", "chat"])
async def test_where_nothing_helps_the_first_refusal_is_told(api: Any, tokenize: Any, said: str) -> None:
    n = 0

    def answer(hello: Hello, i: int, phase: Phase) -> RequestRecord:
        nonlocal n
        n += 1
        return refusal(said if hello.shape == FIRST[api] else f"{said}, and this is number {n}")

    ran = await run(FakeVllm(tokenize=tokenize), FakeSend(answer), config(api=api))
    assert ran.names[-1] == "request"
    assert ran.preflight.hello is None
    assert ran.preflight.info.shape is None
    assert found(ran["request"]).of == (fact("request_broken_off", ending="http", status=400, said=said),)
    assert found(ran["request"]).figures["text_refused"] is (api == "completions")
    assert n <= 12


async def test_only_where_text_was_refused_too_chats_are_thought_of() -> None:
    gone = FakeSend(lambda hello, i, phase: refusal("The model `tiny` does not exist", 404))
    ran = await run(FakeVllm(), gone)
    assert found(ran["request"]).figures["text_refused"] is False
    assert len(gone.calls) == 1


async def test_a_text_that_is_too_long_is_no_sign_of_chats() -> None:
    def answer(hello: Hello, i: int, phase: Phase) -> RequestRecord:
        short = hello.workload.output_tokens.largest < 100
        return answered(hello) if short and hello.shape.prompt == "text" else refusal("prompt: too long")

    ran = await run(FakeVllm(tokenize=None), FakeSend(answer))
    assert (ran["request"].status, ran.preflight.hello) == ("refuse", None)
    assert found(ran["request"]).figures["text_refused"] is False


async def test_a_server_that_gets_silent_meanwhile_is_asked_no_more() -> None:
    def answer(hello: Hello, i: int, phase: Phase) -> RequestRecord:
        silent = record(ending="aborted", t_first=None)
        return refusal(NO) if hello.shape == IDS else silent

    send = FakeSend(answer)
    ran = await run(FakeVllm(), send)
    assert len(send.calls) == 2
    assert ran["request"].status == "refuse"


# --- prompts of text ------------------------------------------------------------------------------------------------------


def text_alone(shape: Shape) -> str | None:
    return "prompt: Input should be a valid string" if shape.prompt == "ids" else None


async def test_text_is_made_of_words_that_the_server_counts() -> None:
    send = taking(text_alone)
    ran = await run(FakeVllm(), send)
    assert ran["prompt length"].status == "pass"
    assert [hello.alphabet.words == LETTERS for hello, _, _ in send.calls] == [False, True, False, False]
    assert (send.calls[-1][0].workload, len(send.calls[-1][0].alphabet.words) > len(LETTERS)) == (Workload(), True)


async def test_without_tokenize_two_requests_show_what_text_costs() -> None:
    send = taking(text_alone, tokens_per_letter=2.0, special=1)
    ran = await run(FakeVllm(tokenize=None), send, config(workload=Workload(input_tokens=Lengths(median=201))))
    assert ran["prompt length"].status == "pass"
    alphabet = send.calls[-1][0].alphabet
    assert (alphabet.words, alphabet.tokens_per_word, alphabet.chat_overhead_tokens) == (LETTERS, 2, 1)
    first = [hello.shape.prompt for hello, _, _ in send.calls][:3]
    assert first == ["ids", "ids", "text"], "the other token ids come before text"


async def test_text_that_is_counted_otherwise_than_by_tokenize_is_counted_by_requests() -> None:
    """A gateway in front of another model, whose `/tokenize` is not that of what answers."""
    send = taking(text_alone, tokens_per_letter=1.5)
    ran = await run(FakeVllm(tokenize=byte_ids), send, config(workload=Workload(input_tokens=Lengths(median=300))))
    assert ran["prompt length"].status == "pass"
    assert send.calls[-1][0].alphabet.tokens_per_word == 1.5


async def test_a_server_that_breaks_on_token_ids_is_asked_by_text() -> None:
    def answer(hello: Hello, i: int, phase: Phase) -> RequestRecord:
        return refusal("TypeError: expected str", 500) if hello.shape.prompt == "ids" else answered(hello)

    ran = await run(FakeVllm(), FakeSend(answer))
    assert ran.names == ALL
    assert says(ran["request"].message, "takes_text")

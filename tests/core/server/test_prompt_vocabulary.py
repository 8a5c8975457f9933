from collections.abc import Callable

import httpx
import pytest

from core.records import PromptAlphabet
from core.server.http import Caller, Credential
from core.server.prompt_vocabulary import BLIND_RANGES, LETTERS, Tokenizer, calibrated, chat_alphabet, completion_alphabets
from tests.core.server.fakes import BASE, FakeVllm, Handler, byte_ids, client, record, word_ids

Encode = Callable[[str], list[int]]


def tokenizer(server: Handler) -> Tokenizer:
    return Tokenizer(Caller(client(server), Credential(BASE)), BASE, "tiny")


def cost(encode: Encode, alphabet: PromptAlphabet, count: int, template: int) -> int:
    """Tokens of a chat prompt of that many words, as the server will count them."""
    words = alphabet.words
    return template + len(encode(" ".join(words[i * 7 % len(words)] for i in range(count))))


def promised(alphabet: PromptAlphabet, count: int) -> float:
    return alphabet.chat_overhead_tokens + count * alphabet.tokens_per_word


@pytest.mark.parametrize("encode", [word_ids, byte_ids])
async def test_ids_are_those_that_ordinary_text_has(encode: Encode) -> None:
    server = FakeVllm(tokenize=encode)
    (alphabet,) = await completion_alphabets(tokenizer(server))
    assert len(set(alphabet.token_ids)) == len(alphabet.token_ids) >= 64
    asked = server.seen[-1].content
    assert b'"add_special_tokens":false' in asked
    assert b'"model":"tiny"' in asked


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(404),
        httpx.Response(200, text="<html>"),
        httpx.Response(200, json={"count": 3}),
        httpx.Response(200, json={"count": 2, "tokens": ["a", "b"]}),
        httpx.Response(200, json={"count": 100, "tokens": [5] * 100}),
        httpx.Response(200, json={"count": 100, "tokens": [2**63 + i for i in range(100)]}),
        httpx.Response(200, text='{"count": 3, "more": ' + "[" * 100_000 + "]" * 100_000 + "}"),
        httpx.ConnectError("gone"),
    ],
)
async def test_blind_ranges_without_a_tokenizer(answer: httpx.Response | Exception) -> None:
    found = await completion_alphabets(tokenizer(FakeVllm(overrides={"/tokenize": answer})))
    assert [alphabet.token_ids for alphabet in found] == [tuple(ids) for ids in BLIND_RANGES]


async def test_chat_words_of_an_ordinary_vocabulary_need_two_looks() -> None:
    server = FakeVllm(tokenize=word_ids, template_tokens=9)
    alphabet = await chat_alphabet(tokenizer(server))
    assert alphabet is not None
    assert (alphabet.tokens_per_word, alphabet.chat_overhead_tokens) == (1, 9)
    assert len(alphabet.words) > len(LETTERS)
    assert len(server.seen) == 4  # two texts, two conversations
    assert cost(word_ids, alphabet, 200, 9) == promised(alphabet, 200)


async def test_chat_words_of_a_byte_level_vocabulary_all_cost_the_same() -> None:
    alphabet = await chat_alphabet(tokenizer(FakeVllm(tokenize=byte_ids, template_tokens=21)))
    assert alphabet is not None
    assert set(alphabet.words) == set(LETTERS) - set("abcdefghijklm")  # 39 letters cost two tokens behind a blank, 13 one
    assert alphabet.tokens_per_word == 2
    assert cost(byte_ids, alphabet, 50, 21) == promised(alphabet, 50)


async def test_chat_words_whose_costs_only_average_out_are_told_apart() -> None:
    def odd_costs_three(text: str) -> list[int]:
        return [0 for word in text.split() for _ in range(3 if ord(word[0]) % 2 else 1)]

    alphabet = await chat_alphabet(tokenizer(FakeVllm(tokenize=odd_costs_three)))
    assert alphabet is not None
    assert len({ord(word) % 2 for word in alphabet.words}) == 1
    assert cost(odd_costs_three, alphabet, 40, 9) == promised(alphabet, 40)


async def test_no_words_when_the_server_counts_chats_otherwise() -> None:
    assert await chat_alphabet(tokenizer(FakeVllm(template_tokens=None))) is None
    assert await chat_alphabet(tokenizer(FakeVllm(tokenize=None))) is None


async def test_no_words_when_the_template_changes_the_words() -> None:
    server = FakeVllm()
    server.tokenize = lambda text: word_ids(text) * (1 if text.startswith("a a") else 2)
    assert await chat_alphabet(tokenizer(server)) is None


async def test_no_words_when_every_letter_costs_something_else() -> None:
    def uneven(text: str) -> list[int]:
        return [token for word in text.split() for token in [0] * (1 + ord(word[0]) % 53)]

    assert await chat_alphabet(tokenizer(FakeVllm(tokenize=uneven))) is None


def test_calibration_by_two_requests() -> None:
    small, large = record(asked_input=32, prompt_tokens=9 + 2 * 32), record(asked_input=96, prompt_tokens=9 + 2 * 96)
    alphabet = calibrated(small, large)
    assert alphabet == PromptAlphabet(token_ids=(), words=LETTERS, tokens_per_word=2, chat_overhead_tokens=9)


@pytest.mark.parametrize(("small", "large"), [(None, 200), (50, None), (50, 50), (80, 40)])
def test_calibration_that_does_not_tell(small: int | None, large: int | None) -> None:
    assert calibrated(record(asked_input=32, prompt_tokens=small), record(asked_input=96, prompt_tokens=large)) is None


async def test_a_tokenizer_that_gives_the_same_for_every_text_has_no_words() -> None:
    server = FakeVllm(tokenize=lambda text: list(range(100)), template_tokens=0)
    assert await chat_alphabet(tokenizer(server)) is None

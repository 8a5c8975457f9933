"""The tokenizer: repeatable, about one token a word, ordinary ids only."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.replica.tokens import ANSWER_TEXT, VOCABULARY, encode, encode_chat


@given(st.text())
def test_any_text_becomes_ordinary_ids(text: str) -> None:
    ids = encode(text)
    assert all(8 <= token_id < VOCABULARY for token_id in ids)
    assert bool(ids) == bool(text)
    assert encode(text, add_special_tokens=True) == [1, *ids]


@pytest.mark.parametrize("words", [["the", "number", "sentence"], list("abcXYZ"), ["right"] * 40])
def test_a_short_word_is_one_token(words: list[str]) -> None:
    assert len(encode(" ".join(words))) == len(words)


def test_a_long_word_is_several_and_an_answer_token_is_one() -> None:
    assert len(encode("tokenization")) == 2
    assert len(encode(ANSWER_TEXT * 5)) == 5


def test_a_conversation_costs_a_constant_more_than_its_words() -> None:
    overhead = {len(encode_chat([("user", " ".join(["word"] * n))])) - n for n in (1, 5, 50)}
    assert len(overhead) == 1
    assert len(encode_chat([("user", "a")], add_generation_prompt=False)) < len(encode_chat([("user", "a")]))


def test_ids_are_the_same_in_every_process() -> None:
    assert encode("hello big world") == [23694, 185, 13139]

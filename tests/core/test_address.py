"""Addresses as people paste them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.address import Address, joined, split_address

HOST = "http://h:8000"


@pytest.mark.parametrize(
    ("pasted", "base", "prefix"),
    [
        ("", "", "/v1"),
        ("/", "", "/v1"),
        ("/v1", "", "/v1"),
        ("/v1/", "", "/v1"),
        ("/v1/chat/completions", "", "/v1"),
        ("/v1/completions/", "", "/v1"),
        ("/v1/models", "", "/v1"),
        ("/metrics", "", "/v1"),
        ("/health", "", "/v1"),
        ("/docs", "", "/v1"),
        ("/docs#/default/create", "", "/v1"),
        ("/openapi.json", "", "/v1"),
        ("/openai/v1", "/openai", "/v1"),
        ("/openai/v1/chat/completions", "/openai", "/v1"),
        ("/v1-openai", "", "/v1-openai"),
        ("/v3", "", "/v3"),
        ("/v3/chat/completions", "", "/v3"),
        ("/team/a/v1beta1", "/team/a", "/v1beta1"),
        ("/team/models", "/team", "/v1"),
        ("/serve/v1.0/", "/serve", "/v1.0"),
    ],
)
def test_what_people_paste(pasted: str, base: str, prefix: str) -> None:
    assert split_address(HOST + pasted) == Address(HOST + base, prefix)


@given(st.lists(st.sampled_from(["v1", "v3", "openai", "a", "chat", "completions", "models", "v1-openai", ""]), max_size=6))
def test_an_address_that_was_split_is_split_no_further(segments: list[str]) -> None:
    address = split_address("/".join([HOST, *segments]))
    assert address.base.startswith(HOST)
    assert not address.base.endswith("/")
    assert split_address(joined(address)) == address

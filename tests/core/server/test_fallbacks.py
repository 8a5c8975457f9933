"""Which field gives way when a server refuses a request, to what, and how many requests that takes."""

from collections.abc import Callable
from itertools import combinations

import pytest
from msgspec.structs import replace

from core.config import Stop
from core.records import RequestRecord, Shape
from core.server.fallbacks import FIRST, give_way, sought, turned_down
from tests.core.server.fakes import record

IDS, CHAT = FIRST["completions"], FIRST["chat"]
EVERYTHING = (IDS, replace(IDS, prompt="text"), CHAT, replace(CHAT, length_by="max_tokens"))
MOST = 7


def refusal(error: str | None, status: int = 400) -> RequestRecord:
    return record(ending="http", status=status, error=error, t_first=None)


# --- a field that is named --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [400, 422])
@pytest.mark.parametrize(
    ("shape", "error", "other"),
    [
        (IDS, "HTTP 400: Extra inputs are not permitted: ('body', 'cache_salt')", replace(IDS, salted=False)),
        (IDS, '[{"loc":["body","stream_options","continuous_usage_stats"],"msg":"extra"}]', replace(IDS, usage="end")),
        (IDS, "Unknown field: stream_options", replace(IDS, usage="end")),
        (replace(IDS, usage="end"), "Unknown field: stream_options", replace(IDS, usage="none")),
        (replace(IDS, usage="end"), "include_usage: unknown", replace(IDS, usage="none")),
        (CHAT, "max_completion_tokens: not permitted", replace(CHAT, length_by="max_tokens")),
        (CHAT, "`max_tokens` is required", replace(CHAT, length_by="max_tokens")),
        (
            replace(CHAT, length_by="max_tokens"),
            "Unsupported parameter: 'max_tokens'",
            replace(CHAT, length_by="max_completion_tokens"),
        ),
        (IDS, "prompt: Input should be a valid string", replace(IDS, prompt="text")),
        (
            IDS,
            "json: cannot unmarshal array into field CompletionRequest.prompt",
            replace(IDS, prompt="text"),
        ),
        (IDS, "top_p is not supported", replace(IDS, left_out=("top_p",))),
        (replace(IDS, left_out=("top_p",)), "no ignore_eos", replace(IDS, left_out=("top_p", "ignore_eos"))),
    ],
)
def test_a_field_that_is_named_gives_way(shape: Shape, error: str, other: Shape, status: int) -> None:
    assert give_way(shape, refusal(error, status), [shape]) == other


def test_of_several_that_are_named_the_one_goes_first_that_costs_least() -> None:
    both = refusal("ignore_eos and cache_salt: Extra inputs are not permitted")
    unsalted = replace(IDS, salted=False)
    assert give_way(IDS, both, [IDS]) == unsalted
    assert give_way(unsalted, both, [IDS, unsalted]) == replace(unsalted, left_out=("ignore_eos",))


@pytest.mark.parametrize(
    ("shape", "error"),
    [
        (IDS, None),
        (IDS, "Invalid request body"),
        (IDS, "prompt_tokens and max_tokens_total and my_cache_salt"),
        (IDS, "max_tokens is too large"),
        (replace(IDS, prompt="text"), "prompt: Input should be a list"),
        (CHAT, "prompt: too long"),
        (replace(IDS, salted=False), "cache_salt"),
        (replace(IDS, usage="none"), "stream_options"),
        (replace(IDS, left_out=("ignore_eos",)), "ignore_eos"),
    ],
)
def test_where_nothing_of_ours_is_named_nothing_gives_way(shape: Shape, error: str | None) -> None:
    assert give_way(shape, refusal(error), [shape]) is None


def test_a_refusal_that_shows_the_whole_request_names_nothing() -> None:
    shown = "{'model': 'tiny', 'ignore_eos': True, 'top_p': 1.0, 'stream_options': {'include_usage': True}, 'cache_salt': '0a'}"
    assert give_way(IDS, refusal(shown), [IDS]) is None


def test_what_was_tried_is_not_tried_again() -> None:
    old = replace(CHAT, length_by="max_tokens")
    both = refusal("use max_tokens, not max_completion_tokens")
    assert give_way(CHAT, both, [CHAT]) == old
    assert give_way(old, both, [CHAT, old]) is None


@pytest.mark.parametrize("shape", EVERYTHING)
def test_however_it_is_refused_the_ways_come_to_an_end(shape: Shape) -> None:
    named = refusal("cache_salt stream_options ignore_eos")
    tried = [shape]
    while (other := give_way(tried[-1], named, tried)) is not None:
        tried.append(other)
    assert len(tried) == 5
    assert len(set(tried)) == 5


def test_an_error_of_the_servers_own_is_met_with_text_and_nothing_else() -> None:
    broken = refusal("TypeError: cache_salt", 500)
    text = replace(IDS, prompt="text")
    assert give_way(IDS, broken, [IDS]) == text
    assert give_way(text, broken, [IDS, text]) is None
    assert give_way(CHAT, broken, [CHAT]) is None


@pytest.mark.parametrize(
    ("ended", "yes"),
    [
        (record(), False),
        (refusal("no"), True),
        (refusal("no", 404), False),
        (refusal("cache_salt", 429), False),
        (refusal("cache_salt", 503), False),
        (record(ending="stream", error="cache_salt: Extra inputs are not permitted", t_first=None), True),
        (record(ending="stream", error="cache_salt"), False),
        (record(ending="stream", error="The engine is dead", t_first=None), False),
        (record(ending="aborted", t_first=None), False),
    ],
)
def test_what_is_a_refusal(ended: RequestRecord, yes: bool) -> None:
    assert turned_down(ended) is yes
    if not yes:
        assert give_way(IDS, ended, [IDS]) is None


# --- a field that is not named ----------------------------------------------------------------------------------------

PARTS: dict[str, Callable[[Shape], bool]] = {
    "cache_salt": lambda shape: shape.salted,
    "continuous_usage_stats": lambda shape: shape.usage == "continuous",
    "stream_options": lambda shape: shape.usage != "none",
    "top_p": lambda shape: "top_p" not in shape.left_out,
    "ignore_eos": lambda shape: "ignore_eos" not in shape.left_out,
    "form": lambda shape: shape.prompt == "ids" or shape.length_by == "max_completion_tokens",
}


def found(whole: Shape, takes: Callable[[Shape], bool], stop: Stop = "exact") -> tuple[Shape | None, list[Shape]]:
    """What is found at a server that takes these shapes, and what was asked of it."""
    search = sought(whole, stop)
    asked = [next(search)]
    while True:
        try:
            asked.append(search.send(takes(asked[-1])))
        except StopIteration as end:
            return end.value, asked


@pytest.mark.parametrize("whole", [IDS, CHAT], ids=["completions", "chat"])
def test_whatever_it_refuses_is_found_exactly_and_by_few_requests(whole: Shape) -> None:
    for n in range(len(PARTS) + 1):
        for refused in combinations(PARTS, n):
            fullest, asked = found(whole, lambda shape, refused=refused: not any(PARTS[name](shape) for name in refused))  # type: ignore[misc]
            assert fullest is not None, refused
            gone = {name for name, has in PARTS.items() if not has(fullest)}
            assert gone == {*refused, *(["continuous_usage_stats"] if "stream_options" in refused else [])}
            assert len(asked) <= MOST
            assert len(set(asked)) == len(asked)


@pytest.mark.parametrize("whole", EVERYTHING)
def test_a_server_that_takes_nothing_is_asked_twice_at_most(whole: Shape) -> None:
    fullest, asked = found(whole, lambda shape: False)
    assert fullest is None
    assert len(asked) == (1 if whole.prompt == "text" else 2)


def test_what_was_left_out_before_is_not_put_back() -> None:
    less = Shape(salted=False, usage="end", left_out=("top_p",))
    fullest, asked = found(less, lambda shape: True)
    assert fullest == less
    assert all(not shape.salted and shape.usage != "continuous" and "top_p" in shape.left_out for shape in asked)


@pytest.mark.parametrize("whole", [IDS, CHAT], ids=["completions", "chat"])
def test_what_natural_stopping_does_not_send_is_neither_left_out_nor_tried(whole: Shape) -> None:
    fullest, asked = found(whole, lambda shape: not shape.salted, "natural")
    assert fullest == replace(whole, salted=False)
    assert not any("ignore_eos" in shape.left_out for shape in asked)
    assert len(asked) == len(found(whole, lambda shape: not shape.salted)[1]) - 1

"""How a request is written another way when a server refuses a field that was our own choice. Pure.

Only a refusal is read here. A field that a server leaves unread is told by what comes of it: the length, the usage, the hits.
"""

import re
from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from core.config import Api, Stop
from core.records import Dispensable, LengthField, RequestRecord, Shape, UsageAsked

FIRST: dict[Api, Shape] = {"completions": Shape(), "chat": Shape(prompt="messages", length_by="max_completion_tokens")}
"""What is tried first: all that vLLM takes."""

_UNTAKEN = (400, 422)
"""The statuses by which a request is refused for what it says."""
_MOST_NAMED = 3
"""A refusal that names more of our fields shows the whole request, and tells nothing."""


PutBack = Callable[[Shape, Shape], Shape]
"""Of a shape that is taken and the whole one, the first with one thing more; the same where that is left out in both."""


class Fallback(NamedTuple):
    """`names`: what a refusal calls the field. `otherwise`: the shape that does without; None where there is no other way."""

    names: tuple[str, ...]
    otherwise: Callable[[Shape], Shape | None]


def _unsalted(shape: Shape) -> Shape | None:
    return replace(shape, salted=False) if shape.salted else None


def _less_usage(shape: Shape) -> Shape | None:
    less: dict[UsageAsked, UsageAsked] = {"continuous": "end", "end": "none"}
    return replace(shape, usage=less[shape.usage]) if shape.usage in less else None


def other_length(shape: Shape) -> Shape | None:
    """The same by the other field for the length of an answer; None for a completion, which has one."""
    other: LengthField = "max_tokens" if shape.length_by == "max_completion_tokens" else "max_completion_tokens"
    return replace(shape, length_by=other) if shape.prompt == "messages" else None


def _text(shape: Shape) -> Shape | None:
    return replace(shape, prompt="text") if shape.prompt == "ids" else None


def _without(name: Dispensable) -> Callable[[Shape], Shape | None]:
    return lambda shape: replace(shape, left_out=(*shape.left_out, name)) if name not in shape.left_out else None


_BY_TEXT = Fallback(("prompt",), _text)

FALLBACKS = (
    Fallback(("cache_salt",), _unsalted),
    Fallback(("continuous_usage_stats", "include_usage", "stream_options"), _less_usage),
    Fallback(("max_completion_tokens", "max_tokens"), other_length),
    _BY_TEXT,
    Fallback(("top_p",), _without("top_p")),
    Fallback(("ignore_eos",), _without("ignore_eos")),
)
"""What gives way first costs the measurement least."""


def refused(record: RequestRecord) -> bool:
    """Whether the server would not take what it was sent, whether or not it says why."""
    return record.ending == "http" and record.status in _UNTAKEN


def turned_down(record: RequestRecord) -> bool:
    """Whether a request ended before a token in a way that another one may not: it was refused, by a status or in the stream, or
    the server stumbled over it."""
    return refused(record) or (record.ending == "http" and record.status == 500) or _refused_in_stream(record)


def give_way(shape: Shape, record: RequestRecord, tried: Sequence[Shape]) -> Shape | None:
    """The shape to try after this one was turned down, by the field that the server names; none that was tried. None where it
    names none of ours, or nothing is left. An error of its own (500) may be what it makes of token ids."""
    if not turned_down(record):
        return None
    fallbacks = (_BY_TEXT,) if record.status == 500 else _named(record.error or "")
    others = (fallback.otherwise(shape) for fallback in fallbacks)
    return next((other for other in others if other is not None and other not in tried), None)


def sought(shape: Shape, stop: Stop = "exact") -> Generator[Shape, bool, Shape | None]:
    """What a server takes that refuses this shape and does not say why: yields shapes to try, is sent whether each was taken, and
    returns the fullest of those; None where it takes none. `stop`: what natural stopping does not send is not tried.

    First all at once is left out that can be, and then the other form of prompt or of length is tried, too: a server that refuses
    even that, as most do that refuse anything, is asked no more than twice. Then one thing at a time is put back, what is
    missed most first: however many it refuses, these are found by seven requests at most.
    """
    dispensable: tuple[Dispensable, ...] = ("top_p", "ignore_eos") if stop == "exact" else ("top_p",)
    bare = replace(shape, salted=False, usage="none", left_out=dispensable)
    for taken in (bare, _text(bare) or other_length(bare)):
        if taken is not None and (yield taken):
            break
    else:
        return None
    for put_back in (_with("ignore_eos"), _with_usage("continuous"), _with_usage("end"), _with_salt, _with("top_p")):
        more = put_back(taken, shape)
        if more != taken and (yield more):
            taken = more
    return taken


def _with(name: Dispensable) -> PutBack:
    def put_back(taken: Shape, whole: Shape) -> Shape:
        return replace(taken, left_out=tuple(out for out in taken.left_out if out != name or out in whole.left_out))

    return put_back


def _with_usage(usage: UsageAsked) -> PutBack:
    def put_back(taken: Shape, whole: Shape) -> Shape:
        wanted = taken.usage == "none" and whole.usage in ("continuous", usage)
        return replace(taken, usage=usage) if wanted else taken

    return put_back


def _with_salt(taken: Shape, whole: Shape) -> Shape:
    return replace(taken, salted=whole.salted)


def _named(error: str) -> tuple[Fallback, ...]:
    """The fallbacks whose fields stand in a refusal, in order; none where they are so many that it shows the whole request."""
    words = set(re.findall(r"\w+", error))
    named = tuple(fallback for fallback in FALLBACKS if words.intersection(fallback.names))
    return named if len(named) <= _MOST_NAMED else ()


def _refused_in_stream(record: RequestRecord) -> bool:
    return record.ending == "stream" and record.t_first is None and bool(_named(record.error or ""))

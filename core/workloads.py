"""What may be asked for in place of two lengths, a mix of several kinds of request or a window of a recorded trace; what the
prompts have in common; and a gateway in front of the server with its limit."""

import re
from typing import Literal

import msgspec

from core.errors import UserError
from core.units import count, typed

MOST_PARTS = 64
"""More kinds of request than anyone reads in a table; a file of lengths has no such limit."""
MOST_TOKENS = 10_000_000
"""No model has a longer context. A server that does not tell its own would get what the generator cannot even hold."""
LONGEST_S = 400 * 86400.0
MOST_OPEN = 1_000_000
"""More requests than any server has open at once, or any gateway keeps in its queue."""

_UNIT_S = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?)\s*(?P<unit>ms|s|m|h)")
_PART = re.compile(r"(?P<input>[0-9]+)\s*:\s*(?P<output>[0-9]+)\s*(?:=\s*(?P<weight>[0-9]*\.?[0-9]+))?\s*(?P<limits>(?:@[^@]*)*)")
_WHOLE = re.compile(r"[0-9]{1,20}")
_LIMITS = ("ttft", "tpot", "e2e")
_MIX = "give input:output=weight with commas between them, such as 1024:128=3,4096:64=1@ttft=2s"
_WINDOW = "give its length and where it begins, such as 10m@2h or 10m@busiest"
_LIMIT = "give the requests that may be open at once, such as 64 or 64,queue=100,timeout=5s"

MOST_PREFIX_TOKENS = 1_000_000
MOST_GROUPS = 10_000
"""Each group's prefix is sent once before the load, and so many take a quarter of an hour."""
_SHARED = re.compile(r"shared\s*:\s*(?P<tokens>[0-9]+)\s*/\s*(?P<groups>[0-9]+)")
_PREFIX = "give cold, shared:TOKENS/GROUPS such as shared:512/8, turns, or trace"

MOST_THINK_S = 600.0
"""Longer pauses between turns are cut to this: a window is judged when its conversations are over."""


class MixPart(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of request: its lengths in tokens, its weight (as many times as often as one of weight 1), and limits of its own.

    `limits_s` has only those that differ from the run's; None there is no such limit. `row`: which row of a file of prompts it is
    (its place, from 0); None where its prompt is made up. `turn`: which turn of the row's conversation it is; the turns of one
    stand behind each other in a mix. `think_s`: the pause after the answer before it.
    """

    input_tokens: int
    output_tokens: int
    weight: float = 1.0
    limits_s: dict[str, float | None] = {}
    row: int | None = None
    turn: int = 0
    think_s: float = 0.0

    def __hash__(self) -> int:
        return hash((self.input_tokens, self.output_tokens, self.weight, self.row, self.turn))  # of the limits only equality tells

    def __str__(self) -> str:
        limits = "".join(f"@{name}={'none' if limit is None else f'{typed(limit)}s'}" for name, limit in self.limits_s.items())
        return f"{self.input_tokens}:{self.output_tokens}={typed(self.weight)}{limits}"


SourceKind = Literal["mix", "lengths", "dataset", "trace"]


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """Where a mix was taken from: `file` is a name without its folder, `form` what was recognised, `rows` how many rows of it are
    in the mix, `of_rows` how many it has, `bad` how many of those read cannot be used, `estimated` how many of those in the mix
    have prompts whose tokens the server did not count beforehand."""

    kind: SourceKind
    file: str | None = None
    form: str | None = None
    rows: int = 0
    of_rows: int | None = None
    bad: int = 0
    estimated: int = 0


class TraceUse(msgspec.Struct, frozen=True, kw_only=True):
    """Arrivals that are those of a trace, as they were recorded, so many times as fast as a rate is above `mean_rps`.

    `mean_rps`, `gap_cv` (coefficient of variation of the gaps) and `rows` are of the `window_s` from `from_s` after its first
    request on; `span_s` is the whole trace's length. `unit`: what its timestamps count. `tick_s`: they are cut to such steps (None:
    to none); `spread`: requests that share one were spread over it.
    """

    file: str
    form: str
    unit: str
    rows: int
    from_s: float
    window_s: float
    span_s: float
    mean_rps: float
    gap_cv: float
    tick_s: float | None = None
    spread: bool = False

    def scale(self, rate_rps: float) -> float:
        """How many times as fast as recorded requests come at a rate."""
        return rate_rps / self.mean_rps


class TraceWindow(msgspec.Struct, frozen=True, kw_only=True):
    """A window of a trace: so many seconds, from `at_s` after its first request on; None: where most requests are."""

    duration_s: float
    at_s: float | None = None


class Gateway(msgspec.Struct, frozen=True, kw_only=True):
    """A limit of concurrent requests in front of the server: at most `limit` are open there. Up to `queue` more wait in order of
    arrival, each for at most `timeout_s`; None: no limit on their number, or on their wait."""

    limit: int
    queue: int | None = None
    timeout_s: float | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.limit <= MOST_OPEN:
            raise UserError(f"--gateway-limit: {self.limit} requests open at once must be from 1 to {count(MOST_OPEN)}.")
        if self.queue is not None and not 0 <= self.queue <= MOST_OPEN:
            raise UserError(f"--gateway-limit: a queue of {self.queue} must be from 0 to {count(MOST_OPEN)}.")
        if self.timeout_s is not None and not 0 < self.timeout_s <= LONGEST_S:
            raise UserError(f"--gateway-limit: a timeout of {typed(self.timeout_s)} s must be above zero, and not of years.")

    def __str__(self) -> str:
        queue = "" if self.queue is None else f",queue={self.queue}"
        return f"{self.limit}{queue}{'' if self.timeout_s is None else f',timeout={typed(self.timeout_s)}s'}"


PrefixKind = Literal["cold", "shared", "turns", "trace"]


class Prefix(msgspec.Struct, frozen=True, kw_only=True):
    """What prompts have in common with others. `cold`: nothing. `shared`: the first `tokens` of each prompt are those of one of
    `groups` groups. `turns`: a conversation's earlier turns. `trace`: the blocks that a recorded trace names."""

    kind: PrefixKind = "cold"
    tokens: int = 0
    groups: int = 0

    def __post_init__(self) -> None:
        if self.kind != "shared":
            return
        if not 1 <= self.tokens <= MOST_PREFIX_TOKENS:
            raise UserError(f"--prefix: {self.tokens} tokens cannot be shared; give 1 to {count(MOST_PREFIX_TOKENS)}.")
        if not 1 <= self.groups <= MOST_GROUPS:
            raise UserError(f"--prefix: {self.groups} groups cannot be sent; give 1 to {count(MOST_GROUPS)}.")

    @property
    def cold(self) -> bool:
        """Whether no prompt may hit the prefix cache."""
        return self.kind == "cold"

    def __str__(self) -> str:
        return f"shared:{self.tokens}/{self.groups}" if self.kind == "shared" else self.kind


COLD = Prefix()


def parse_prefix(text: str, name: str = "--prefix") -> Prefix:
    """Read `cold`, `shared:512/8`, `turns` or `trace`. Raises UserError naming the option."""
    word = text.strip().lower()
    if word == "cold":
        return COLD
    if word == "turns":
        return Prefix(kind="turns")
    if word == "trace":
        return Prefix(kind="trace")
    match = _SHARED.fullmatch(word)
    if not match:
        raise UserError(f"{name}: {text!r} is no prefix that prompts can share; {_PREFIX}.")
    return Prefix(kind="shared", tokens=int(match["tokens"][:20]), groups=int(match["groups"][:20]))


def parse_mix(text: str, name: str = "--mix") -> tuple[MixPart, ...]:
    """Read `1024:128=3,4096:64=1@ttft=2s@tpot=none`; without `=` a weight is 1. A kind that stands there twice has both weights.

    Raises UserError naming the option.
    """
    parts = tuple(_part(each.strip(), name) for each in text.split(","))
    if len(parts) > MOST_PARTS:
        raise UserError(
            f"{name}: {count(len(parts), 'kind')} of request are too many; give at most {MOST_PARTS}, or a file to --lengths."
        )
    merged: dict[tuple[int, int, frozenset[tuple[str, float | None]]], MixPart] = {}
    for part in parts:
        key = part.input_tokens, part.output_tokens, frozenset(part.limits_s.items())
        weight = part.weight + merged[key].weight if key in merged else part.weight
        merged[key] = msgspec.structs.replace(part, weight=round(weight, 12))  # without the dust of adding
    return tuple(merged.values())


def _part(text: str, name: str) -> MixPart:
    match = _PART.fullmatch(text)
    if not match:
        raise UserError(f"{name}: {text!r} is no kind of request; {_MIX}.")
    lengths = [int(match[each][:20]) for each in ("input", "output")]
    if not all(0 < tokens <= MOST_TOKENS for tokens in lengths):
        raise UserError(f"{name}: {text!r} asks for a length that no request has; give 1 to {count(MOST_TOKENS, 'token')}.")
    weight = float(match["weight"] or 1)
    if not 1e-6 <= weight <= 1e6:
        raise UserError(f"{name}: the weight in {text!r} must be from 0.000001 to 1,000,000; leave out a kind that never comes.")
    limits: dict[str, float | None] = {}
    for each in match["limits"].split("@")[1:]:
        limit, _, value = (part.strip() for part in each.partition("="))
        if limit not in _LIMITS:
            raise UserError(f"{name}: {limit!r} is no limit of a request; give @ttft=, @tpot= or @e2e=.")
        if limit in limits:
            raise UserError(f"{name}: {text!r} has two limits for {limit}; give one of them.")
        limits[limit] = None if value.lower() == "none" else _seconds(value, name, "2s, 50ms or none")
    return MixPart(input_tokens=lengths[0], output_tokens=lengths[1], weight=weight, limits_s=limits)


def parse_window(text: str, name: str = "--trace-window") -> TraceWindow:
    """Read `10m@2h`, `10m@busiest` or `10m` (from the first request on). Raises UserError naming the option."""
    length, at, place = text.strip().partition("@")
    if not length or (at and not place.strip()):
        raise UserError(f"{name}: {text!r} is no window of a trace; {_WINDOW}.")
    duration_s = _seconds(length, name, _WINDOW.removeprefix("give "))
    if place.strip().lower() == "busiest":
        return TraceWindow(duration_s=duration_s)
    return TraceWindow(duration_s=duration_s, at_s=_seconds(place, name, _WINDOW.removeprefix("give "), zero=True) if at else 0.0)


def parse_think_s(text: str, name: str = "--think-time") -> float:
    """Read `0s`, `500ms` or `5s`. Raises UserError naming the option."""
    think_s = _seconds(text, name, "0s, 500ms or 5s", zero=True)
    if think_s > MOST_THINK_S:
        raise UserError(f"{name}: {text!r} is too long; give at most {typed(MOST_THINK_S / 60)}m.")
    return think_s


def parse_gateway(text: str, name: str = "--gateway-limit") -> Gateway:
    """Read `64`, `64,queue=100` or `64,queue=100,timeout=5s`. Raises UserError naming the option."""
    head, *rest = (part.strip() for part in text.split(","))
    if not _WHOLE.fullmatch(head):
        raise UserError(f"{name}: {text!r} is no limit of a gateway; {_LIMIT}.")
    queue: int | None = None
    timeout_s: float | None = None
    seen: set[str] = set()
    for part in rest:
        key, _, value = (each.strip() for each in part.partition("="))
        if key in seen:
            raise UserError(f"{name}: {text!r} has {key} twice; give it once.")
        seen.add(key)
        if key == "queue" and _WHOLE.fullmatch(value):
            queue = int(value)
        elif key == "timeout":
            timeout_s = _seconds(value, name, "a timeout such as 500ms or 5s")
        else:
            raise UserError(f"{name}: {part!r} is no part of a gateway's limit; {_LIMIT}.")
    return Gateway(limit=int(head), queue=queue, timeout_s=timeout_s)


def _seconds(text: str, name: str, example: str, zero: bool = False) -> float:
    """A duration with its unit (ms, s, m or h)."""
    match = _DURATION.fullmatch(text.strip())
    seconds = float(match["number"]) * _UNIT_S[match["unit"]] if match else -1.0
    if not (seconds > 0 or (zero and seconds == 0)) or seconds > LONGEST_S:
        raise UserError(f"{name}: {text!r} is not a duration{'' if zero else ' above zero'}; give {example}.")
    return seconds

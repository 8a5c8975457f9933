"""Single values of others' files: whole numbers, times, JSON. What is wrong comes back as a fact that repeats no text."""

import math
from datetime import UTC, datetime
from typing import cast

import msgspec

from core.facts import Fact, fact
from core.workloads import MOST_TOKENS

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_decoder = msgspec.json.Decoder()


def decoded(data: bytes) -> object | Fact:
    """JSON, or why it is none."""
    try:
        return cast(object, _decoder.decode(data))
    except (msgspec.DecodeError, RecursionError):
        pass
    try:
        data.decode()
    except UnicodeDecodeError:
        return fact("row_not_utf8")
    return fact("row_not_json")


def whole(value: object) -> int | None:
    """A whole number of tokens from 0 on: 128, 128.0 or "128"; None for anything else."""
    if isinstance(value, str) and value.isdecimal() and len(value) < 8:  # nearly all of them
        return int(value)
    found = number(value)
    return int(found) if found is not None and 0 <= found <= MOST_TOKENS and found == int(found) else None


def number(value: object) -> float | None:
    """A finite number, also written as a string; None for anything else."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def date_s(value: object) -> float | None:
    """Seconds since 1970 of a date with a time of day; without an offset it is UTC. None for anything else.

    Taken are `T` or a blank between them, 0 to 9 digits of a fraction (cut to microseconds), `Z` and `+00:00`.
    """
    if not isinstance(value, str) or ":" not in value or "-" not in value:  # eight digits alone would pass for a date
        return None
    text = value.strip()
    try:
        moment = datetime.fromisoformat(text.removesuffix("."))
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH).total_seconds()

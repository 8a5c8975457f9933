"""The public forms of traces: their fields, and what their timestamps count; told by names and contents, never by guess."""

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from core.traffic.values import number, whole

TraceFormat = Literal["azure", "burstgpt", "vidur", "mooncake", "qwen", "ragpulse", "shared_prefix", "plain"]
TimeUnit = Literal["date", "s", "ms", "us", "ns"]

MOONCAKE_BLOCK, QWEN_BLOCK = 512, 16
"""Tokens of a block, as the authors of the traces say; every row is held against it."""


@dataclass(frozen=True, slots=True)
class TraceForm:
    """Where the figures of a row stand. `unit` None: the form does not tell what its timestamps count. `time` None: it has none.

    `inputs` add up to the length of a prompt. `parent`: the row that this one follows, from which its session is found.
    """

    format: TraceFormat
    unit: TimeUnit | None
    time: str | None
    inputs: tuple[str, ...]
    output: str
    session: str | None = None
    parent: str | None = None
    hash_ids: str | None = None
    block_tokens: int | None = None
    images: str | None = None

    @property
    def needed(self) -> set[str]:
        """The fields that every row has."""
        return {*self.inputs, self.output, *(name for name in (self.time, self.parent) if name)}


_TABLES = (
    TraceForm("azure", "date", "timestamp", ("contexttokens",), "generatedtokens", images="numimages"),
    TraceForm("burstgpt", "s", "timestamp", ("request tokens",), "response tokens", session="session id"),
    TraceForm("vidur", "s", "arrived_at", ("num_prefill_tokens",), "num_decode_tokens"),
    TraceForm("plain", None, "timestamp", ("input_tokens",), "output_tokens"),
    TraceForm("plain", None, "timestamp", ("input_length",), "output_length"),
)
_WITHOUT_TIME = (
    *(("contexttokens", "generatedtokens"), ("request tokens", "response tokens"), ("num_prefill_tokens", "num_decode_tokens")),
    *(("input_tokens", "output_tokens"), ("input_length", "output_length"), ("prompt_tokens", "completion_tokens")),
)
_QWEN = TraceForm(
    "qwen",
    "s",
    "timestamp",
    ("input_length",),
    "output_length",
    session="chat_id",
    parent="parent_chat_id",
    hash_ids="hash_ids",
    block_tokens=QWEN_BLOCK,
)
_RAGPULSE = TraceForm("ragpulse", "s", "timestamp", ("input_length",), "output_length", session="session_id")
_SHARED_PREFIX = TraceForm("shared_prefix", "s", "timestamp", ("shared_prefix_length", "tail_input_length"), "output_length")
_MOONCAKE = TraceForm(
    "mooncake",
    "ms",
    "timestamp",
    ("input_length",),
    "output_length",
    session="session_id",
    hash_ids="hash_ids",
    block_tokens=MOONCAKE_BLOCK,
)
_PLAIN = TraceForm("plain", None, "timestamp", ("input_length",), "output_length", session="session_id", hash_ids="hash_ids")
_TEXTS = {"messages", "text", "texts", "text_input", "payload", "body", "prompt", "conversations", "conversation", "items", "turns"}
_TEXT_FIELD = re.compile(rb'"(?:' + b"|".join(sorted(name.encode() for name in _TEXTS)) + rb')"\s*:')
HOLDS_TEXT = "holds the text of its requests; give it to --dataset, which takes prompts and no times"
_LAWS = {"Gamma", "Weibull", ""}


def cells(line: str) -> list[str]:
    """The cells of a line of CSV, in small letters."""
    try:
        return [cell.strip().lower() for cell in next(csv.reader([line.strip()]), [])]
    except csv.Error:
        return []


def form_of_table(head: Iterable[str], timed: bool) -> TraceForm | None:
    """The form of a CSV file with this head; without `timed` of its lengths alone."""
    names = set(head)
    if timed:
        return next((form for form in _TABLES if form.needed <= names), None)
    pair = next((pair for pair in _WITHOUT_TIME if set(pair) <= names), None)
    return None if pair is None else TraceForm("plain", None, None, pair[:1], pair[1])


def form_of_rows(rows: Sequence[Mapping[str, object]], timed: bool) -> TraceForm | None:
    """The form of JSONL that begins with these rows; without `timed` of its lengths alone.

    Mooncake's names stand in files of other units too. It is Mooncake's form if the rows say so (`type`), or if their ids are
    blocks of 512 tokens; otherwise the unit is not known.
    """
    if not timed:
        if any(_SHARED_PREFIX.needed <= row.keys() for row in rows):
            return replace(_SHARED_PREFIX, time=None)
        pairs = (pair for row in rows for pair in _WITHOUT_TIME if set(pair) <= row.keys())
        pair = next(pairs, None)
        return None if pair is None else TraceForm("plain", None, None, pair[:1], pair[1])
    for row in rows:
        names = row.keys()
        if _SHARED_PREFIX.needed <= names:
            return _SHARED_PREFIX
        if not _PLAIN.needed <= names:
            continue
        if _QWEN.needed <= names:
            return _QWEN
        if isinstance(row.get("hash_ids"), dict):
            return _RAGPULSE
        if row.get("type") == "mooncake_trace" or _blocks_fit(rows, MOONCAKE_BLOCK):
            return _MOONCAKE
        block = next((size for size in (QWEN_BLOCK, 64) if _blocks_fit(rows, size)), None)
        return TraceForm("plain", None, "timestamp", ("input_length",), "output_length", "session_id", None, "hash_ids", block)
    return None


def _blocks_fit(rows: Sequence[Mapping[str, object]], block_tokens: int) -> bool:
    """Whether rows have as many ids as blocks of this size need; one in ten may be broken."""
    fits = [
        blocks(tokens, block_tokens) == len(ids)
        for row in rows
        if isinstance(ids := row.get("hash_ids"), list) and (tokens := whole(row.get("input_length")))
    ]
    return bool(fits) and sum(fits) >= 0.9 * len(fits)


def blocks(tokens: int, block_tokens: int) -> int:
    """How many blocks a prompt of so many tokens takes; the last one may be part of one."""
    return -(-tokens // block_tokens)


def trace_head(line: str) -> str | None:
    """What a line is if it is the head of a table of lengths, and which options take that; or None."""
    head = cells(line)
    return _lengths_alone(form_of_table(head, True), form_of_table(head, False), "columns ")


def trace_row(row: object) -> str | None:
    """What a decoded row of JSONL is if it holds lengths and no text, and which options take that; or None."""
    return _lengths_alone(form_of_rows([row], True), form_of_rows([row], False), "") if isinstance(row, dict) else None


def _lengths_alone(timed: TraceForm | None, untimed: TraceForm | None, kind: str) -> str | None:
    if timed is not None:
        return f"a trace ({kind}{', '.join(sorted(timed.needed))}); give it to --trace or --lengths"
    return None if untimed is None else f"lengths ({kind}{', '.join(sorted(untimed.needed))}); give it to --lengths"


def known_otherwise(first: Sequence[Mapping[str, object]], timed: bool) -> str | None:
    """What JSON rows are that are no trace of lengths (with times, where it is `timed`), or None where that is not known."""
    for row in first:
        if "requests" in row and isinstance(row["requests"], list):
            return "nests its requests in conversations, which is not read here"
        if not _TEXTS.isdisjoint(row):
            return HOLDS_TEXT
        if timed and form_of_rows([row], False):
            return "has no timestamps; give it to --lengths"
    return None


def has_text(first: bytes) -> bool:
    """Whether JSON that cannot be decoded, since it is cut off, has a field of texts."""
    return _TEXT_FIELD.search(first) is not None


def is_generator(line: str) -> bool:
    """Whether a line without a head is a window of ServeGen: start, rate, CV, law, shape, scale."""
    row = line.split(",")
    return len(row) == 6 and row[3].strip() in _LAWS and all(number(row[n]) is not None for n in (0, 1, 4, 5))

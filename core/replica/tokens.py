"""Text to token ids without a model: repeatable in every process, about one token a short word, ids below `VOCABULARY`."""

import re
import zlib
from collections.abc import Sequence

VOCABULARY = 32_000
ANSWER_TEXT = " sim"  # every generated token reads so: one token, and nobody takes it for an answer

_BEGIN, _HEADER, _HEADER_END, _TURN_END = 1, 2, 3, 4
_FIRST_ORDINARY = 8
_PIECE = re.compile(r"\s?[^\W\d_]{1,8}|\s?\d{1,4}|\s?\S|\s")


def encode(text: str, add_special_tokens: bool = False) -> list[int]:
    """The ids of a text, with the begin token in front when asked for."""
    span = VOCABULARY - _FIRST_ORDINARY
    ids = [_FIRST_ORDINARY + zlib.crc32(piece.encode()) % span for piece in _PIECE.findall(text)]
    return [_BEGIN, *ids] if add_special_tokens else ids


def encode_chat(messages: Sequence[tuple[str, str]], add_generation_prompt: bool = True) -> list[int]:
    """The ids of a conversation of (role, text) under a small chat template."""
    ids = [_BEGIN]
    for role, text in messages:
        ids += [_HEADER, *encode(role), _HEADER_END, *encode(text), _TURN_END]
    return [*ids, _HEADER, *encode("assistant"), _HEADER_END] if add_generation_prompt else ids

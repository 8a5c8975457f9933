"""What an engine is, in numbers: how long its steps take and what fits into it. Of the simulated replica, and of a fitted twin."""

import math
from typing import Literal

import msgspec

BLOCK_TOKENS = 16  # vLLM's block size on CUDA
WATERMARK_FRAC = 0.01  # blocks that an admission leaves free beside running sequences: vLLM's long-standing 1 %

LimitSource = Literal["told", "inferred", "assumed"]
"""Where a limit of an engine is from: the server says it, its readings show it, or nobody does."""


def blocks_for(tokens: int) -> int:
    """KV blocks that hold so many tokens."""
    return -(-tokens // BLOCK_TOKENS)


class EngineSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How fast and how large an engine is. One step takes `step_s + per_sequence_s * decoding + per_kv_token_s * KV tokens
    read + per_prefill_token_s * prefill tokens` seconds; the cache holds `kv_blocks` blocks of 16 tokens.
    `known_prefix_tokens`: so many of every prompt are found in the prefix cache, as if all began with one system prompt.

    Raises ValueError for numbers that no engine can have.
    """

    step_s: float
    per_sequence_s: float
    per_kv_token_s: float
    per_prefill_token_s: float
    kv_blocks: int
    max_seqs: int = 256
    max_batched_tokens: int = 2048
    known_prefix_tokens: int = 0

    def __post_init__(self) -> None:
        costs = (self.step_s, self.per_sequence_s, self.per_kv_token_s, self.per_prefill_token_s)
        if not all(math.isfinite(cost) and cost >= 0 for cost in costs) or self.step_s == 0:
            raise ValueError("step times must be zero or more seconds, and step_s above zero")
        if min(self.kv_blocks, self.max_seqs, self.max_batched_tokens) < 1 or self.known_prefix_tokens < 0:
            raise ValueError("kv_blocks, max_seqs and max_batched_tokens must be at least 1, known_prefix_tokens at least 0")

    @property
    def kv_tokens(self) -> int:
        """Tokens that the KV cache can hold."""
        return self.kv_blocks * BLOCK_TOKENS


class StepModel(msgspec.Struct, frozen=True, kw_only=True):
    """How long a step of a measured server takes: a + b * decoding + c * KV tokens read + p * prefill tokens, in seconds.

    `error_frac`: half of the requests decoded for a time that is further off from what the constants say, as a share of it.
    """

    a_s: float
    b_s: float
    c_s: float
    p_s: float
    error_frac: float

    def step_s(self, decoding: float, kv_tokens: float, prefill_tokens: float = 0.0) -> float:
        """The time of one step at this batch, in seconds."""
        return self.a_s + self.b_s * decoding + self.c_s * kv_tokens + self.p_s * prefill_tokens


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What fits into a measured server: sequences at once, tokens of a step, tokens of the KV cache (None: no limit is known).
    Each stands with where it is from."""

    max_seqs: int
    max_batched_tokens: int
    kv_tokens: int | None = None
    seqs_from: LimitSource = "assumed"
    batched_from: LimitSource = "assumed"
    kv_from: LimitSource = "assumed"

    @property
    def source(self) -> LimitSource:
        """The least sure of the three."""
        order: tuple[LimitSource, ...] = ("told", "inferred", "assumed")
        return max((self.seqs_from, self.batched_from, self.kv_from), key=order.index)

"""The replicas that can be simulated, each with its load, its limits and the knee that a long simulation found for it."""

import math
import os
from pathlib import Path

import msgspec

from core.engine import EngineSpec
from core.errors import UserError

NATURAL_SHARE = (0.2, 1.0)
"""Of the length asked for: between these a request gets an answer that does not ask to `ignore_eos`. It is made up, since no model
is behind it: the share is drawn evenly from a hash of the prompt, so that answers of different lengths can be shown and tested."""


class TokenLengths(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tokens a request has: lognormal around `median` with `sigma`, cut to [minimum, maximum]; sigma 0 means all `median`."""

    median: float
    sigma: float = 0.0
    maximum: int = 0
    minimum: int = 1

    def __post_init__(self) -> None:
        if not (self.median >= 1 and self.sigma >= 0 and self.minimum >= 1):
            raise ValueError("median and minimum must be at least 1, sigma at least 0")
        if self.sigma > 0 and self.maximum < max(self.minimum, self.median):
            raise ValueError("a lognormal length needs a maximum not below its median and minimum")
        if self.sigma == 0 and self.median != int(self.median):
            raise ValueError("a fixed length is a whole number of tokens")

    @property
    def largest(self) -> int:
        """The longest that can be drawn, in tokens."""
        return self.maximum if self.sigma > 0 else int(self.median)


class Slow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Requests that take `extra_s` more: those whose prompt has `from_prompt_tokens` or more. A client that draws the same lengths
    again meets the same ones."""

    from_prompt_tokens: int
    extra_s: float

    def __post_init__(self) -> None:
        if self.from_prompt_tokens < 1 or not 0 < self.extra_s < math.inf:
            raise ValueError("from_prompt_tokens must be at least 1, extra_s above zero")


class Shown(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a demo of a replica shows, where that is no search: rates to judge by `repeats` windows of `measure_s`, and whether a
    closed loop beside them."""

    rates_rps: tuple[float, ...]
    repeats: int
    measure_s: float
    seed: int
    closed_loop: bool = False


class Replica(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One simulated replica: engine, lengths, limits in seconds (None: no such limit), share of requests that must meet
    them, and `truth_rps`, the highest rate at which they do in the long run (None: not known). `slow` requests take longer
    than the engine has it; `shown` is what its demo shows. `truth_rps` is that of answers as long as `output_tokens`, not of
    those that stop by themselves, at lengths that are made up (NATURAL_SHARE)."""

    name: str
    description: str
    engine: EngineSpec
    input_tokens: TokenLengths
    output_tokens: TokenLengths
    ttft_s: float | None = None
    tpot_s: float | None = None
    e2e_s: float | None = None
    target: float = 0.95
    truth_rps: float | None = None
    slow: Slow | None = None
    shown: Shown | None = None

    def __post_init__(self) -> None:
        if not self.name.replace("-", "").isalnum():
            raise ValueError(f"name {self.name!r} must be letters, digits and hyphens")
        limits = [self.ttft_s, self.tpot_s, self.e2e_s, self.truth_rps]
        if any(limit is not None and not limit > 0 for limit in limits) or not 0 < self.target <= 1:
            raise ValueError("limits and truth_rps must be above zero, target in (0, 1]")
        if self.input_tokens.largest + self.output_tokens.largest > self.engine.kv_tokens:
            raise ValueError(f"its longest request does not fit into a KV cache of {self.engine.kv_tokens} tokens")

    def extra_s(self, prompt_tokens: int) -> float:
        """How much longer a request with such a prompt takes, in seconds."""
        return self.slow.extra_s if self.slow is not None and prompt_tokens >= self.slow.from_prompt_tokens else 0.0

    @property
    def model_name(self) -> str:
        """The model it serves; the name says that it is none."""
        return f"simulated-{self.name}"

    @property
    def max_model_len(self) -> int:
        """The longest sequence it takes: a quarter above its own longest request, as a power of two of at least 2048, but
        never more than the KV cache holds."""
        longest = self.input_tokens.largest + self.output_tokens.largest
        return min(self.engine.kv_tokens, max(2048, 1 << (longest * 5 // 4 - 1).bit_length()))


# Two engines of the size of an 80 GB and a 24 GB card, and one with 8 slots such as llama.cpp has.
_LARGE = EngineSpec(step_s=0.009, per_sequence_s=4e-5, per_kv_token_s=7e-8, per_prefill_token_s=4.5e-5, kv_blocks=20_000)
_SMALL = EngineSpec(step_s=0.010, per_sequence_s=5e-5, per_kv_token_s=8e-8, per_prefill_token_s=5e-5, kv_blocks=2_800)
_SLOTS = EngineSpec(step_s=0.010, per_sequence_s=2e-4, per_kv_token_s=8e-8, per_prefill_token_s=6e-5, kv_blocks=20_000, max_seqs=8)
_DEMO = EngineSpec(step_s=0.014, per_sequence_s=4e-4, per_kv_token_s=1e-7, per_prefill_token_s=6e-5, kv_blocks=224)
_ONE_AT_A_TIME = EngineSpec(
    step_s=0.020, per_sequence_s=0.0, per_kv_token_s=0.0, per_prefill_token_s=0.0, kv_blocks=128, max_seqs=1
)

# True knees: long-run attainment under Poisson arrivals in virtual time, 150,000 s x 4 runs per rate with common random
# numbers, rate where it crosses the target; standard error below 0.1 %. For `demo`, tests/benchmarks/demo_knee.py;
# for `queue`, 5.93 +- 0.01 by Lindley's recursion, as in tests/core/judge/queue_model.py.
_ALL = (
    Replica(
        name="demo",
        description="short requests on a small KV cache: past the knee it fills up and preempts",
        engine=_DEMO,
        input_tokens=TokenLengths(median=128, sigma=0.3, maximum=512, minimum=8),
        output_tokens=TokenLengths(median=32, sigma=0.5, maximum=128),
        ttft_s=0.8,
        tpot_s=0.05,
        truth_rps=19.67,
    ),
    Replica(
        name="chat",
        description="chat on an 80 GB card: decode slows down before the cache is full",
        engine=_LARGE,
        input_tokens=TokenLengths(median=500, sigma=0.9, maximum=4096, minimum=8),
        output_tokens=TokenLengths(median=180, sigma=0.7, maximum=1024),
        ttft_s=0.8,
        tpot_s=0.05,
        truth_rps=13.14,
    ),
    Replica(
        name="rag",
        description="long prompts and short answers on an 80 GB card: prefill is what is scarce",
        engine=_LARGE,
        input_tokens=TokenLengths(median=2500, sigma=0.5, maximum=8000, minimum=8),
        output_tokens=TokenLengths(median=100, sigma=0.6, maximum=512),
        ttft_s=1.5,
        tpot_s=0.06,
        truth_rps=4.160,
    ),
    Replica(
        name="kvlim",
        description="longer answers on a 24 GB card: the KV cache is what is scarce",
        engine=_SMALL,
        input_tokens=TokenLengths(median=500, sigma=0.8, maximum=4096, minimum=8),
        output_tokens=TokenLengths(median=300, sigma=0.7, maximum=2048),
        ttft_s=2.0,
        tpot_s=0.05,
        truth_rps=4.960,
    ),
    Replica(
        name="slot",
        description="eight slots, as a llama.cpp server has: requests queue for a slot",
        engine=_SLOTS,
        input_tokens=TokenLengths(median=300, sigma=0.8, maximum=4096, minimum=8),
        output_tokens=TokenLengths(median=120, sigma=0.7, maximum=1024),
        ttft_s=2.0,
        tpot_s=0.05,
        truth_rps=3.148,
    ),
    Replica(
        name="queue",
        description="one request at a time, four of five in 20 ms and one in 180 ms: what a closed loop hides",
        engine=_ONE_AT_A_TIME,
        input_tokens=TokenLengths(median=128, sigma=0.5, maximum=512, minimum=8),
        output_tokens=TokenLengths(median=1),
        e2e_s=0.25,
        truth_rps=5.93,
        slow=Slow(from_prompt_tokens=195, extra_s=0.160),  # 19.99 % of the prompts
        shown=Shown(rates_rps=(4.0, 6.0), repeats=2, measure_s=60.0, seed=101, closed_loop=True),
    ),
)

CATALOG: dict[str, Replica] = {replica.name: replica for replica in _ALL}


def load(name_or_path: str) -> Replica:
    """The replica of that name, or the one that a JSON file describes. Raises UserError, naming what there is."""
    if name_or_path in CATALOG:
        return CATALOG[name_or_path]
    path = Path(name_or_path)
    if not os.path.isfile(path):  # unlike Path.is_file, False also for what may not be looked into
        names = ", ".join(CATALOG)
        raise UserError(f"There is no simulated replica {name_or_path!r}; use one of {names}, or a JSON file that describes one.")
    try:
        return msgspec.json.decode(path.read_bytes(), type=Replica)
    except (msgspec.MsgspecError, OSError) as error:
        raise UserError(f"{path} does not describe a simulated replica: {error}.") from None

"""What is sent: seeded prompts as JSON bodies, each cold. Pure."""

import hashlib

import msgspec
import numpy as np
from numpy.random import PCG64, Generator
from numpy.typing import NDArray

from core.config import Api
from core.records import Hello, RepeatOrder, UsageAsked
from core.schedule import Plan, seeds

PATHS: dict[Api, str] = {"completions": "/completions", "chat": "/chat/completions"}
"""Behind the prefix of the API."""

UNIQUE_TOKENS = 16
"""Length of the unique beginning: vLLM's prefix cache shares whole blocks of 16 tokens or more, each hashed with all before it."""

_JUMP = 210306068529402873165736369884012333109
"""Draws between the beginnings of two prompts: 2^128 over the golden ratio, as numpy's `PCG64.jumped` has it, so that no two
prompts come near each other. A third of the CPU of a generator for each."""

_USAGE: dict[UsageAsked, dict[str, object]] = {
    "continuous": {"stream_options": {"include_usage": True, "continuous_usage_stats": True}},
    "end": {"stream_options": {"include_usage": True}},
    "none": {},
}

_encoder = msgspec.json.Encoder()


class Bodies:
    """Builds the bodies of one order, any of them at any time; 0.1 ms for a prompt of 512 tokens.

    Cold twice over: a `cache_salt` (vLLM 0.9 and later; hex, because vLLM 0.30 refuses `@ / \\`) and unique first tokens for
    servers that ignore it. Both come from the run's nonce, the order and the index, so they never repeat within a run or between
    two; the rest of the prompt and its length come from the seed. Raises ValueError when there is nothing to make prompts of.
    """

    def __init__(self, hello: Hello, order: RepeatOrder, plan: Plan) -> None:
        alphabet, shape = hello.alphabet, hello.shape
        self._chat = hello.target.api == "chat"
        self._ids = not self._chat and shape.prompt == "ids"
        if not (alphabet.token_ids if self._ids else alphabet.words):
            raise ValueError(f"the prompt alphabet holds nothing for the {hello.target.api} API")
        self._hello, self._order, self._plan = hello, order, plan
        self._source = PCG64(seeds(order).prompts)
        self._begin = self._source.state
        self._draw = Generator(self._source)
        self._token_ids = np.array(alphabet.token_ids, dtype=np.int64)
        sampling = {"ignore_eos": True, "temperature": hello.workload.temperature, "top_p": 1.0}
        self._same: dict[str, object] = {
            "model": hello.model,
            **{name: value for name, value in sampling.items() if name not in shape.left_out},
            "stream": True,
            **_USAGE[shape.usage],
        }

    def build(self, index: int) -> bytes:
        """The JSON body of request `index` of the plan."""
        digest = hashlib.blake2b(f"{self._hello.nonce}/{self._order.order}/{index}".encode()).digest()
        output_tokens = int(self._plan.output_tokens[index])
        body = self._same | {self._hello.shape.length_by: output_tokens}
        if self._hello.shape.salted:
            body["cache_salt"] = digest[:32].hex()
        if self._ids:
            picks = self._picks(index, digest, int(self._plan.input_tokens[index]), self._token_ids.size)
            body["prompt"] = self._token_ids[picks].tolist()
        elif self._chat:
            body["messages"] = [{"role": "user", "content": self._text(index, digest)}]
        else:
            body["prompt"] = self._text(index, digest)
        return _encoder.encode(body)

    def _text(self, index: int, digest: bytes) -> str:
        alphabet = self._hello.alphabet
        tokens = int(self._plan.input_tokens[index]) - alphabet.chat_overhead_tokens
        count = max(1, round(tokens / alphabet.tokens_per_word))
        picks = self._picks(index, digest, count, len(alphabet.words))
        return " ".join([alphabet.words[pick] for pick in picks.tolist()])

    def _picks(self, index: int, digest: bytes, count: int, size: int) -> NDArray[np.int64]:
        self._source.state = self._begin
        self._source.advance(index * _JUMP)
        picks = self._draw.integers(0, size, count)
        unique = np.frombuffer(digest, dtype="<u4")[: min(UNIQUE_TOKENS, count)]
        picks[: unique.size] = unique % size
        return picks

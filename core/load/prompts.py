"""What is sent: seeded prompts as JSON bodies, each cold or behind the prefix that its group shares. Pure."""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Sequence

import msgspec
import numpy as np
from numpy.random import PCG64, Generator
from numpy.typing import NDArray

from core.config import Api
from core.load.rows import Rows
from core.records import ClosedOrder, Hello, RepeatOrder, SharedBlocks, UsageAsked
from core.schedule import Plan, seeds
from core.shared_blocks import ends_tokens

PATHS: dict[Api, str] = {"completions": "/completions", "chat": "/chat/completions"}
"""Behind the prefix of the API."""

UNIQUE_TOKENS = 16
"""Length of the unique beginning: vLLM's prefix cache shares whole blocks of 16 tokens or more, each hashed with all before it."""

_JUMP = 210306068529402873165736369884012333109
"""Draws between the beginnings of two prompts: 2^128 over the golden ratio, as numpy's `PCG64.jumped` has it, so that no two
prompts come near each other. A third of the CPU of a generator for each."""

_KEPT_TOKENS = 4_000_000
"""Of the prefixes used last as many are kept as have so many tokens, 32 MB: to draw one of 512 tokens anew takes 10 us."""

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

    Where groups share a prefix, a prompt begins with that of its group, cut where no unique token would be left, and the unique
    first tokens follow. Prefixes and the one salt come from the run's nonce, so that no other run shares them. So it is where the
    prompts of an order share blocks; these come from the order's number as well, so that no other order shares them.

    Prompts from `rows` are sent as they stand there: the salt alone makes them cold. Turns that are to find the ones before them
    in the cache have the salt of their conversation.
    """

    def __init__(self, hello: Hello, order: RepeatOrder | ClosedOrder, plan: Plan, rows: Rows | None = None) -> None:
        alphabet, shape = hello.alphabet, hello.shape
        self._chat = hello.target.api == "chat"
        self._ids = not self._chat and shape.prompt == "ids"
        if rows is None and not (alphabet.token_ids if self._ids else alphabet.words):
            raise ValueError(f"the prompt alphabet holds nothing for the {hello.target.api} API")
        self._hello, self._order, self._plan, self._rows = hello, order, plan, rows
        self._source = PCG64(seeds(order).prompts)
        self._begin = self._source.state
        self._draw = Generator(self._source)
        self._token_ids = np.array(alphabet.token_ids, dtype=np.int64)
        self._prefixes: OrderedDict[str, NDArray[np.int64]] = OrderedDict()
        self._kept_tokens = 0
        self._shared = order.shared if isinstance(order, RepeatOrder) else None
        self._ends_tokens = [] if self._shared is None else ends_tokens(self._shared)
        self._common_salt = hashlib.blake2b(f"{hello.nonce}/shared".encode(), digest_size=32).hexdigest()
        self._same_salt = hello.workload.prefix.kind == "turns"
        ending = {} if hello.workload.natural else {"ignore_eos": True}
        sampling: dict[str, object] = {**ending, "temperature": hello.workload.temperature, "top_p": 1.0}
        self._same: dict[str, object] = {
            "model": hello.model,
            **{name: value for name, value in sampling.items() if name not in shape.left_out},
            "stream": True,
            **_USAGE[shape.usage],
        }

    def build(self, index: int, answers: Sequence[str] = ()) -> bytes:
        """The JSON body of request `index` of the plan; `answers`: those of the conversation before it."""
        digest = hashlib.blake2b(
            f"{self._hello.nonce}/{self._order.order}/{index - self._same_salt * len(answers)}".encode()
        ).digest()
        output_tokens = int(self._plan.output_tokens[index])
        body = self._same | {self._hello.shape.length_by: output_tokens}
        if self._hello.shape.salted:
            cold = self._plan.group is None and self._shared is None
            body["cache_salt"] = digest[:32].hex() if cold else self._common_salt
        if self._rows is not None and self._plan.part is not None:
            place = int(self._plan.part[index])
            body |= self._rows.asked(place, self._hello.workload.mix[place].turn, answers)
        elif self._ids:
            picks = self._picks(index, digest, int(self._plan.input_tokens[index]), self._token_ids.size, lambda tokens: tokens)
            body["prompt"] = self._token_ids[picks].tolist()
        elif self._chat:
            body["messages"] = [{"role": "user", "content": self._text(index, digest)}]
        else:
            body["prompt"] = self._text(index, digest)
        return _encoder.encode(body)

    def _text(self, index: int, digest: bytes) -> str:
        """Words for as many tokens as are left beside what the server adds, most of which comes first and is shared as well."""
        alphabet = self._hello.alphabet

        def words(tokens: int) -> int:
            return max(1, round((tokens - alphabet.chat_overhead_tokens) / alphabet.tokens_per_word))

        picks = self._picks(index, digest, words(int(self._plan.input_tokens[index])), len(alphabet.words), words)
        return " ".join([alphabet.words[pick] for pick in picks.tolist()])

    def _picks(self, index: int, digest: bytes, count: int, size: int, units: Callable[[int], int]) -> NDArray[np.int64]:
        """`count` picks out of `size`, those first that others begin with, too; `units`: how many picks make so many tokens."""
        self._source.state = self._begin
        self._source.advance(index * _JUMP)
        picks = self._draw.integers(0, size, count)
        common = 0
        if self._plan.group is not None:
            shared = units(self._hello.workload.prefix.tokens)
            common = min(shared, count - 1)
            picks[:common] = self._known(f"prefix/{int(self._plan.group[index])}", shared, size)[:common]
        elif self._shared is not None:
            blocks = self._blocks(self._shared, self._shared.of[index], size, units)[:count]
            common = blocks.size
            picks[:common] = blocks
        unique = np.frombuffer(digest, dtype="<u4")[: min(UNIQUE_TOKENS, count - common)]
        picks[common : common + unique.size] = unique % size
        return picks

    def _blocks(self, shared: SharedBlocks, branch: int, size: int, units: Callable[[int], int]) -> NDArray[np.int64]:
        """The blocks up to the end of a branch."""
        path: list[NDArray[np.int64]] = []
        while branch >= 0:
            parent = shared.parents[branch]
            begin = units(self._ends_tokens[parent]) if parent >= 0 else 0
            path.append(self._known(f"blocks/{self._order.order}/{branch}", units(self._ends_tokens[branch]) - begin, size))
            branch = parent
        return np.concatenate(path[::-1]) if path else np.zeros(0, dtype=np.int64)

    def _known(self, name: str, count: int, size: int) -> NDArray[np.int64]:
        """What prompts begin with that share it."""
        known = self._prefixes.get(name)
        if known is not None:
            self._prefixes.move_to_end(name)
            return known
        seed = hashlib.blake2b(f"{self._hello.nonce}/{name}".encode(), digest_size=16).digest()
        known = self._prefixes[name] = Generator(PCG64(int.from_bytes(seed, "little"))).integers(0, size, count)
        self._kept_tokens += count
        while self._kept_tokens > _KEPT_TOKENS and len(self._prefixes) > 1:
            self._kept_tokens -= self._prefixes.popitem(last=False)[1].size
        return known

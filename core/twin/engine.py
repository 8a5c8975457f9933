"""The engine of the simulated replica at a speed for thousands of plans: the schedule of `core.replica.scheduler`, to the last bit.

A step costs O(1) however many sequences decode, because all that decode get one token each: their number, their KV tokens,
when each ends and which need a new block are kept as sums. Steps in which nobody comes, ends or lacks a block are done in one
loop. Only steps that preempt look at every sequence.
"""

import math
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from core.engine import BLOCK_TOKENS, WATERMARK_FRAC, EngineSpec, blocks_for
from core.schedule import Plan


class Emitted(NamedTuple):
    """At `t` the requests `first` got their first token and `last` their last one (a request can be in both)."""

    t: float
    first: list[int]
    last: list[int]


class FastEngine:
    """One engine that serves one plan, starting empty. State of request i: its index in the lists.

    Raises ValueError for a request that does not fit into the cache, and for more sequences than a step has tokens.
    """

    def __init__(self, spec: EngineSpec, plan: Plan) -> None:
        if spec.max_batched_tokens < spec.max_seqs:
            raise ValueError("a step has a token for each sequence")
        if len(plan) and blocks_for(int((plan.input_tokens + plan.output_tokens).max())) > spec.kv_blocks:
            raise ValueError("a request of the plan does not fit into the KV cache")
        self._spec = spec
        self._due: list[float] = [*plan.offsets_s.tolist(), math.inf]
        self._prompt: list[int] = plan.input_tokens.tolist()
        self._asked: list[int] = plan.output_tokens.tolist()
        n = len(plan)
        self._generated = [0] * n  # up to when it began to decode
        self._left = [0] * n  # prefill tokens still to compute
        self._context = [0] * n  # tokens in the cache; of a decoding one, as many as when it began
        self._blocks = [0] * n  # of a prefilling one
        self._joined = [-1] * n  # the step after which it decodes; -1 while it does not
        self._next = 0
        self._steps = 0
        self._free = spec.kv_blocks
        self._watermark = int(spec.kv_blocks * WATERMARK_FRAC)
        self._running: dict[int, None] = {}  # in order of admission
        self._preempted: list[int] = []
        self._blocked = False  # who waits cannot come in before somebody ends
        self._prefilling: dict[int, int] = {}  # with the tokens of this step
        self._decoding = 0
        self._kv_tokens = 0
        self._crossing = [0] * BLOCK_TOKENS  # decoding ones that need a block when the step number has this remainder
        self._ending: defaultdict[int, list[int]] = defaultdict(list)

    def run(self) -> Iterator[Emitted]:
        """Everything that comes out, in order of time."""
        now, due, spec = 0.0, self._due, self._spec
        while True:
            if not self._running and not self._preempted:
                if due[self._next] == math.inf:
                    return
                now = max(now, due[self._next])
            self._plan(now)
            if self._running:
                computed = sum(self._prefilling.values())
                seconds = spec.step_s + spec.per_sequence_s * self._decoding + spec.per_kv_token_s * self._kv_tokens
                now += seconds + spec.per_prefill_token_s * computed
                first, last = self._advance()
                if first or last:
                    yield Emitted(now, first, last)
                if last or computed:  # room, or tokens of a step, for who waits
                    self._blocked = False
                if self._decoding and not self._prefilling:
                    now = self._decode_on(now)

    def _decode_on(self, now: float) -> float:
        """The steps before the next in which somebody comes in, ends, or finds no block; returns when they are over."""
        if self._blocked:
            due = math.inf
        elif self._preempted:
            return now
        else:
            due = self._due[self._next]
        spec, decoding, crossing, ending = self._spec, self._decoding, self._crossing, self._ending
        fixed_s, per_kv_token_s = spec.step_s + spec.per_sequence_s * decoding, spec.per_kv_token_s
        steps, kv_tokens, free = self._steps, self._kv_tokens, self._free
        while due > now:
            need = crossing[steps % BLOCK_TOKENS]
            if need > free or steps + 1 in ending:
                break
            free -= need
            now += fixed_s + per_kv_token_s * kv_tokens
            kv_tokens += decoding
            steps += 1
        self._steps, self._kv_tokens, self._free = steps, kv_tokens, free
        return now

    def _plan(self, now: float) -> None:
        """Tokens and blocks for those that run; then admissions, unless somebody had to give way."""
        self._blocked = False
        budget = self._spec.max_batched_tokens - self._decoding
        need = self._crossing[self._steps % BLOCK_TOKENS]
        for i, left in ((i, self._left[i]) for i in self._prefilling):
            tokens = min(left, budget)
            self._prefilling[i] = tokens
            need += blocks_for(self._context[i] + tokens) - self._blocks[i]
            budget -= tokens
        if need > self._free:
            self._plan_slowly()
            return
        self._free -= need
        for i, tokens in self._prefilling.items():
            self._blocks[i] = blocks_for(self._context[i] + tokens)
        if self._preempted or self._due[self._next] <= now:
            self._admit(now, budget)

    def _plan_slowly(self) -> None:
        """The same, sequence by sequence: whoever was admitted last gives up its blocks."""
        budget, order, i = self._spec.max_batched_tokens, list(self._running), 0
        while i < len(order):
            r = order[i]
            decodes = self._joined[r] >= 0
            held = self._context[r] + (self._steps - self._joined[r] if decodes else 0)
            tokens = 1 if decodes else min(self._left[r], budget)
            need = blocks_for(held + tokens) - (blocks_for(held) if decodes else self._blocks[r])
            while need > self._free:
                victim = order.pop()
                self._preempt(victim)
                if victim == r:
                    return
            self._free -= need
            if not decodes:
                self._blocks[r], self._prefilling[r] = self._blocks[r] + need, tokens
            budget -= tokens
            i += 1

    def _preempt(self, r: int) -> None:
        del self._running[r]
        if self._joined[r] >= 0:
            self._generated[r] += self._steps - self._joined[r]
            self._free += self._stop_decoding(r)
        else:
            self._free += self._blocks[r]
            del self._prefilling[r]
        self._context[r] = self._blocks[r] = 0
        self._left[r] = self._prompt[r] + self._generated[r]
        self._preempted.append(r)

    def _stop_decoding(self, r: int) -> int:
        """Take it out of the sums; returns the blocks that it holds."""
        joined, began = self._joined[r], self._context[r]
        held = began + self._steps - joined
        self._decoding -= 1
        self._kv_tokens -= held
        self._crossing[(joined - began) % BLOCK_TOKENS] -= 1
        self._joined[r] = -1
        return blocks_for(held)

    def _admit(self, now: float, budget: int) -> None:
        running, preempted, spec = self._running, self._preempted, self._spec
        while budget > 0 and len(running) < spec.max_seqs:
            if preempted:
                r = preempted[-1]
            elif self._due[self._next] <= now:
                r = self._next
            else:
                return
            keep_free = self._watermark if running else 0
            if blocks_for(self._prompt[r] + self._generated[r]) + keep_free > self._free:
                break
            if preempted:
                preempted.pop()
            else:
                self._next += 1
                self._left[r] = self._prompt[r]
            tokens = min(self._left[r], budget)
            self._prefilling[r], self._blocks[r] = tokens, blocks_for(tokens)
            self._free -= self._blocks[r]
            running[r] = None
            budget -= tokens
        self._blocked = True

    def _advance(self) -> tuple[list[int], list[int]]:
        """Account for what was planned; returns who got a first and who a last token."""
        self._steps += 1
        self._kv_tokens += self._decoding
        first: list[int] = []
        last: list[int] = []
        for r in self._ending.pop(self._steps, ()):
            if self._joined[r] >= 0 and self._generated[r] + self._steps - self._joined[r] == self._asked[r]:
                self._free += self._stop_decoding(r)
                del self._running[r]
                last.append(r)
        if self._prefilling:
            self._advance_prefills(first, last)
        return first, last

    def _advance_prefills(self, first: list[int], last: list[int]) -> None:
        for r, tokens in list(self._prefilling.items()):
            self._left[r] -= tokens
            self._context[r] += tokens
            if self._left[r]:
                continue
            del self._prefilling[r]
            self._generated[r] += 1
            if self._generated[r] == 1:
                first.append(r)
            if self._generated[r] == self._asked[r]:
                self._free += self._blocks[r]
                del self._running[r]
                last.append(r)
            else:
                self._decode(r)

    def _decode(self, r: int) -> None:
        self._joined[r] = self._steps
        self._decoding += 1
        self._kv_tokens += self._context[r]
        self._crossing[(self._steps - self._context[r]) % BLOCK_TOKENS] += 1
        self._ending[self._steps + self._asked[r] - self._generated[r]].append(r)


def fast_engine(spec: EngineSpec, plan: Plan) -> Iterator[Emitted]:
    """The plan served by an engine that starts empty."""
    return FastEngine(spec, plan).run()

"""Servers of another structure than the twin, by name: each has an engine's numbers, and serves a plan in a way of its own."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import merge

import numpy as np
from msgspec.structs import replace

from core.engine import EngineSpec
from core.schedule import Plan
from core.twin import Emitted, FastEngine, Twin, fast_engine

Structure = Callable[[EngineSpec, Plan], Iterator[Emitted]]
"""How a server with these numbers serves a plan, starting empty."""


class OddSteps(FastEngine):
    """The same schedule, with the time of each step by `seconds(decoding, KV tokens, prompt tokens, prompts)`."""

    def __init__(self, spec: EngineSpec, plan: Plan, seconds: Callable[[int, int, int, int], float]) -> None:
        super().__init__(spec, plan)
        self._seconds = seconds

    def run(self) -> Iterator[Emitted]:
        """Step by step."""
        now, due = 0.0, self._due
        while True:
            if not self._running and not self._preempted:
                if due[self._next] == float("inf"):
                    return
                now = max(now, due[self._next])
            self._plan(now)
            if self._running:
                computed = sum(self._prefilling.values())
                now += self._seconds(self._decoding, self._kv_tokens, computed, len(self._prefilling))
                first, last = self._advance()
                if first or last:
                    yield Emitted(now, first, last)


def _line(spec: EngineSpec, decoding: int, kv_tokens: int, computed: int) -> float:
    return spec.step_s + spec.per_sequence_s * decoding + spec.per_kv_token_s * kv_tokens + spec.per_prefill_token_s * computed


def bent(spec: EngineSpec, plan: Plan, by: float = 0.02) -> Iterator[Emitted]:
    """A step takes longer by the square of the batch: as much again as a sequence costs at 1 / `by` sequences."""
    return OddSteps(spec, plan, lambda n, kv, computed, _: _line(spec, n, kv, computed) + by * spec.per_sequence_s * n * n).run()


def padded(spec: EngineSpec, plan: Plan) -> Iterator[Emitted]:
    """Batches are padded to a power of two, as engines with captured graphs do: the step time has stairs."""
    return OddSteps(spec, plan, lambda n, kv, computed, _: _line(spec, 1 << (n - 1).bit_length() if n else 0, kv, computed)).run()


def noisy(spec: EngineSpec, plan: Plan, sigma: float = 0.3) -> Iterator[Emitted]:
    """Each step takes another time, as on a machine that is shared; in the median that of the engine."""
    random = np.random.default_rng(7)
    return OddSteps(
        spec, plan, lambda n, kv, computed, _: _line(spec, n, kv, computed) * float(np.exp(sigma * random.standard_normal()))
    ).run()


def handing_in(spec: EngineSpec, plan: Plan, each_s: float = 0.01) -> Iterator[Emitted]:
    """Every prompt costs a time of its own, however long it is."""
    return OddSteps(spec, plan, lambda n, kv, computed, prompts: _line(spec, n, kv, computed) + each_s * prompts).run()


def two_engines(spec: EngineSpec, plan: Plan) -> Iterator[Emitted]:
    """Two engines behind one address, which get requests in turn. The server tells the KV cache of one."""

    def one(at: int) -> Iterator[Emitted]:
        own = np.arange(at, len(plan), 2)
        part = Plan(plan.offsets_s[own], plan.segment[own], plan.input_tokens[own], plan.output_tokens[own])
        for each in fast_engine(spec, part):
            yield Emitted(each.t, own[each.first].tolist(), own[each.last].tolist())

    return merge(one(0), one(1), key=lambda each: each.t)


def two_tokens_a_step(spec: EngineSpec, plan: Plan) -> Iterator[Emitted]:
    """Every step brings two tokens of an answer, as with speculative decoding that always guesses right."""
    return fast_engine(spec, Plan(plan.offsets_s, plan.segment, plan.input_tokens, (plan.output_tokens + 1) // 2))


def known_prompts(spec: EngineSpec, plan: Plan) -> Iterator[Emitted]:
    """Half of every prompt is in a prefix cache, and nothing tells it."""
    return fast_engine(spec, Plan(plan.offsets_s, plan.segment, (plan.input_tokens + 1) // 2, plan.output_tokens))


def few_places(spec: EngineSpec, plan: Plan) -> Iterator[Emitted]:
    """It runs eight requests at once at most, and nothing tells it."""
    return fast_engine(replace(spec, max_seqs=min(8, spec.max_seqs)), plan)


def behind_a_queue(spec: EngineSpec, plan: Plan, each_s: float = 0.06) -> Iterator[Emitted]:
    """Something before the engine hands requests on one at a time: a queue that no step explains."""
    free_s, passed = 0.0, []
    for due_s in plan.offsets_s.tolist():
        free_s = max(free_s, due_s) + each_s
        passed.append(free_s)
    return fast_engine(spec, Plan(np.array(passed), plan.segment, plan.input_tokens, plan.output_tokens))


STRUCTURES: dict[str, Structure] = {
    "batching": fast_engine,
    "bent, .02": bent,
    "bent, .1": lambda spec, plan: bent(spec, plan, 0.1),
    "padded": padded,
    "noisy, .3": noisy,
    "noisy, .8": lambda spec, plan: noisy(spec, plan, 0.8),
    "10 ms a prompt": handing_in,
    "two engines": two_engines,
    "two tokens a step": two_tokens_a_step,
    "known prompts": known_prompts,
    "eight places": few_places,
    "20 ms queue before": lambda spec, plan: behind_a_queue(spec, plan, 0.02),
    "60 ms queue before": behind_a_queue,
}


@dataclass(frozen=True, slots=True)
class Truth(Twin):
    """A server of a structure whose numbers are known: what is true of it in long runs."""

    structure: Structure = fast_engine

    def served(self, plan: Plan) -> Iterator[Emitted]:
        """As the server does."""
        return self.structure(self.spec(plan), plan)

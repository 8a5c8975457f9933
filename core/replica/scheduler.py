"""Continuous batching as a vLLM engine schedules it, without a clock: `step(now)` says how long a step takes and what it emits.

The rules: every step first serves the running sequences in order of admission, then admits from the queue, first come first
served, until the token budget, the sequence limit or the KV blocks run out; prefills are chunked by the budget. A sequence
that needs a block when none is free preempts the one admitted last, which loses its blocks, recomputes prompt and answer so
far, and comes back before anything new. No GPU is behind it; the duration of a step is a formula of its batch.
"""

from collections import deque
from dataclasses import dataclass

from core.engine import BLOCK_TOKENS, WATERMARK_FRAC, EngineSpec, blocks_for
from core.replica.prefix import PrefixCache


@dataclass(slots=True, eq=False)
class Sequence:
    """One request in the engine; only the scheduler changes it. `prefix_hashes` names the full blocks of its prompt and its
    answer, in order; the step that brings its first token takes `extra_s` longer."""

    arrival_s: float
    prompt_tokens: int
    max_tokens: int
    prefix_hashes: tuple[int, ...] = ()
    extra_s: float = 0.0
    scheduled_s: float | None = None
    generated: int = 0
    cached_tokens: int = 0
    preemptions: int = 0
    context: int = 0  # tokens whose KV is in the cache
    prefill_left: int = 0  # tokens to compute before the next one comes out
    blocks: int = 0
    planned: int = 0  # tokens to compute in the current step

    @property
    def finished(self) -> bool:
        """Whether the last token is out."""
        return self.generated >= self.max_tokens


@dataclass(frozen=True, slots=True)
class Step:
    """What one step did. `emitted` got one token each at `end_s`; `admitted` were scheduled for the first time; the counts
    are those after the step."""

    start_s: float
    duration_s: float
    emitted: list[Sequence]
    admitted: list[Sequence]
    preempted: int
    running: int
    waiting: int
    used_blocks: int

    @property
    def end_s(self) -> float:
        """When the tokens come out, on the caller's clock."""
        return self.start_s + self.duration_s


class Scheduler:
    """The state of one engine: waiting, running and preempted sequences, and free KV blocks."""

    def __init__(self, spec: EngineSpec) -> None:
        self.spec = spec
        self.free_blocks = spec.kv_blocks
        self.running: list[Sequence] = []
        self._waiting: deque[Sequence] = deque()
        self._preempted: list[Sequence] = []  # a stack: preempted last, resumed first
        self._aborted: set[Sequence] = set()
        self._prefixes = PrefixCache(spec.kv_blocks)
        self._watermark = int(spec.kv_blocks * WATERMARK_FRAC)

    def submit(self, sequence: Sequence) -> None:
        """Queue a sequence; arrivals must come in order of time. Raises ValueError when it could never fit into the cache."""
        if sequence.prompt_tokens < 1 or sequence.max_tokens < 1:
            raise ValueError("a sequence has at least one prompt token and one answer token")
        if blocks_for(sequence.prompt_tokens + sequence.max_tokens) > self.spec.kv_blocks:
            raise ValueError("the sequence does not fit into the KV cache")
        self._waiting.append(sequence)

    def abort(self, sequence: Sequence) -> None:
        """Forget a sequence; its blocks are free again at the next step."""
        self._aborted.add(sequence)

    def next_start(self, now: float) -> float | None:
        """When the next step can begin, not before `now`; None while there is nothing to do."""
        if self.running or self._preempted or self._aborted:
            return now
        return max(now, self._waiting[0].arrival_s) if self._waiting else None

    def step(self, now: float) -> Step:
        """Plan and account for the step that begins at `now`; only sequences that have arrived by then take part."""
        self._drop_aborted()
        budget, preempted = self._plan_running()
        admitted = [] if preempted else self._admit(now, budget)
        duration_s, emitted = self._advance()
        waiting = len(self._waiting) + len(self._preempted)
        used = self.spec.kv_blocks - self.free_blocks
        return Step(now, duration_s, emitted, admitted, preempted, len(self.running), waiting, used)

    def _drop_aborted(self) -> None:
        if not self._aborted:
            return
        gone, self._aborted = self._aborted, set()
        for sequence in self.running:
            if sequence in gone:
                self._release(sequence)
        self.running = [s for s in self.running if s not in gone]
        self._preempted = [s for s in self._preempted if s not in gone]
        self._waiting = deque(s for s in self._waiting if s not in gone)

    def _release(self, sequence: Sequence) -> None:
        self.free_blocks += sequence.blocks
        sequence.blocks = 0

    def _plan_running(self) -> tuple[int, int]:
        """Give each running sequence its tokens and blocks; returns the budget left and how many were preempted for blocks."""
        budget = self.spec.max_batched_tokens
        preempted = 0
        running = self.running
        index = 0
        while index < len(running):
            sequence = running[index]
            tokens = min(sequence.prefill_left or 1, budget)
            need = blocks_for(sequence.context + tokens) - sequence.blocks
            while need > self.free_blocks:
                victim = running.pop()
                self._preempt(victim)
                preempted += 1
                if victim is sequence:
                    return budget, preempted
            self.free_blocks -= need
            sequence.blocks += need
            sequence.planned = tokens
            budget -= tokens
            index += 1
        return budget, preempted

    def _preempt(self, sequence: Sequence) -> None:
        self._release(sequence)
        sequence.context = 0
        sequence.prefill_left = sequence.prompt_tokens + sequence.generated
        sequence.preemptions += 1
        self._preempted.append(sequence)

    def _admit(self, now: float, budget: int) -> list[Sequence]:
        """Let sequences in while budget, places and blocks last; returns those scheduled for the first time."""
        new: list[Sequence] = []
        while budget > 0 and len(self.running) < self.spec.max_seqs:
            if self._preempted:
                sequence = self._preempted[-1]
            elif self._waiting and self._waiting[0].arrival_s <= now:
                sequence = self._waiting[0]
            else:
                break
            keep_free = self._watermark if self.running else 0
            if blocks_for(sequence.prompt_tokens + sequence.generated) + keep_free > self.free_blocks:
                break
            if self._preempted:
                self._preempted.pop()
            else:
                new.append(self._waiting.popleft())
                self._first_plan(sequence, now)
            sequence.planned = min(sequence.prefill_left, budget)
            sequence.blocks = blocks_for(sequence.context + sequence.planned)
            self.free_blocks -= sequence.blocks
            self.running.append(sequence)
            budget -= sequence.planned
        return new

    def _first_plan(self, sequence: Sequence, now: float) -> None:
        """What of the prompt is cached need not be computed; the last token always is, since the answer starts from it."""
        whole_blocks = (sequence.prompt_tokens - 1) // BLOCK_TOKENS
        hits = self._prefixes.leading_hits(sequence.prefix_hashes[:whole_blocks])
        hits = max(hits, min(self.spec.known_prefix_tokens // BLOCK_TOKENS, whole_blocks))
        sequence.scheduled_s = now
        sequence.cached_tokens = sequence.context = hits * BLOCK_TOKENS
        sequence.prefill_left = sequence.prompt_tokens - sequence.context

    def _advance(self) -> tuple[float, list[Sequence]]:
        """Compute what was planned; returns the seconds it takes and the sequences that got a token."""
        decoding = kv_tokens = prefill_tokens = 0
        extra_s = 0.0
        emitted: list[Sequence] = []
        going_on: list[Sequence] = []
        for sequence in self.running:
            tokens = sequence.planned
            if sequence.prefill_left:
                prefill_tokens += tokens
                sequence.prefill_left -= tokens
                emits = sequence.prefill_left == 0
            else:
                emits = tokens > 0
                decoding += tokens
                kv_tokens += sequence.context * tokens
            sequence.context += tokens
            if emits:
                sequence.generated += 1
                emitted.append(sequence)
                if sequence.generated == 1:
                    extra_s += sequence.extra_s
                if sequence.generated == 1 or sequence.finished:
                    self._prefixes.add(sequence.prefix_hashes[: sequence.context // BLOCK_TOKENS])
            if sequence.finished:
                self._release(sequence)
            else:
                going_on.append(sequence)
        if not self.running:
            return 0.0, emitted
        self.running = going_on
        spec = self.spec
        duration_s = spec.step_s + spec.per_sequence_s * decoding + spec.per_kv_token_s * kv_tokens
        return duration_s + spec.per_prefill_token_s * prefill_tokens + extra_s, emitted

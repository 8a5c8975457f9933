"""Prefix caching: who hits, what it saves, and that it forgets."""

from core.engine import BLOCK_TOKENS
from core.replica.prefix import PrefixCache, prefix_hashes
from core.replica.scheduler import Scheduler, Sequence
from tests.core.replica.timeline import spec

PROMPT = list(range(100, 200))


def _sequence(token_ids: list[int], salt: str | None, at: float = 0.0) -> Sequence:
    return Sequence(at, len(token_ids), 2, prefix_hashes(token_ids, salt, BLOCK_TOKENS))


def _cached(scheduler: Scheduler, sequence: Sequence) -> int:
    scheduler.submit(sequence)
    while not sequence.finished:
        scheduler.step(0.0)
    return sequence.cached_tokens


def test_only_the_same_salt_and_the_same_beginning_hit() -> None:
    scheduler = Scheduler(spec())
    assert _cached(scheduler, _sequence(PROMPT, "a")) == 0
    assert _cached(scheduler, _sequence(PROMPT, "a")) == 96
    assert _cached(scheduler, _sequence(PROMPT, "b")) == 0
    assert _cached(scheduler, _sequence(PROMPT, None)) == 0
    assert _cached(scheduler, _sequence(PROMPT[:40] + [7] * 60, "a")) == 32
    assert _cached(scheduler, _sequence([7, *PROMPT[1:]], "a")) == 0


def test_the_next_turn_finds_the_answer_before_it() -> None:
    scheduler = Scheduler(spec())
    answer = [5] * 40
    first = Sequence(0.0, len(PROMPT), len(answer), prefix_hashes([*PROMPT, *answer], "a", BLOCK_TOKENS))
    assert _cached(scheduler, first) == 0
    assert _cached(scheduler, _sequence([*PROMPT, *answer, *PROMPT], "a")) == 128  # of 140: the last token of an answer is not kept


def test_the_last_token_is_always_computed() -> None:
    scheduler = Scheduler(spec())
    assert _cached(scheduler, _sequence(PROMPT[:96], "a")) == 0
    assert _cached(scheduler, _sequence(PROMPT[:96], "a")) == 80


def test_a_hit_shortens_the_prefill_but_takes_its_blocks() -> None:
    scheduler = Scheduler(spec(step_s=1.0, per_prefill_token_s=0.01))
    _cached(scheduler, _sequence(PROMPT, "a"))
    warm = _sequence(PROMPT, "a")
    scheduler.submit(warm)
    step = scheduler.step(0.0)
    assert step.duration_s == 1.0 + 0.01 * 4
    assert step.used_blocks == 7


def test_full_blocks_only() -> None:
    assert len(prefix_hashes(PROMPT[:15], "a", 16)) == 0
    assert len(prefix_hashes(PROMPT[:33], "a", 16)) == 2
    assert prefix_hashes(PROMPT[:33], "a", 16) == prefix_hashes(PROMPT[:40], "a", 16)


def test_the_blocks_unused_for_longest_are_forgotten() -> None:
    cache = PrefixCache(capacity_blocks=3)
    cache.add((1, 2))
    cache.add((3,))
    assert cache.leading_hits((1, 2)) == 2
    cache.add((4,))
    assert [cache.leading_hits((block,)) for block in (1, 2, 3, 4)] == [1, 1, 0, 1]

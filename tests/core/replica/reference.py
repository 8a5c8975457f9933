"""The scheduling rules once more, written apart from the product: plain lists, one loop, the whole timeline at once."""

from dataclasses import dataclass

from core.engine import EngineSpec


@dataclass(frozen=True)
class Timeline:
    """When each request's first and last token came out, and how many preemptions there were."""

    first_s: list[float]
    finish_s: list[float]
    preemptions: int


def simulate(spec: EngineSpec, arrivals: list[float], prompts: list[int], outputs: list[int]) -> Timeline:
    """Serve cold requests with arrivals in order; every request must fit into the cache."""
    n = len(arrivals)
    first, finish = [-1.0] * n, [-1.0] * n
    made, in_cache, todo, held = [0] * n, [0] * n, [0] * n, [0] * n
    active: list[int] = []
    stack: list[int] = []
    upcoming, preemptions, free, t = 0, 0, spec.kv_blocks, 0.0
    while active or stack or upcoming < n:
        if not active and not stack:
            t = max(t, arrivals[upcoming])
        work: dict[int, int] = {}
        left, pressed, position = spec.max_batched_tokens, False, 0
        while position < len(active):
            r = active[position]
            k = min(todo[r] if todo[r] else 1, left)
            want = (in_cache[r] + k + 15) // 16 - held[r] if k else 0
            while free < want and r in active:
                victim = active.pop()
                free, held[victim], in_cache[victim] = free + held[victim], 0, 0
                todo[victim] = prompts[victim] + made[victim]
                work.pop(victim, None)
                stack.append(victim)
                preemptions, pressed = preemptions + 1, True
            if r not in active:
                break
            free, held[r], work[r], left, position = free - want, held[r] + want, k, left - k, position + 1
        while not pressed and left > 0 and len(active) < spec.max_seqs:
            fresh = not stack
            if fresh and (upcoming >= n or arrivals[upcoming] > t):
                break
            r = upcoming if fresh else stack[-1]
            reserve = spec.kv_blocks // 100 if active else 0
            if (prompts[r] + made[r] + 15) // 16 + reserve > free:
                break
            if fresh:
                upcoming, todo[r] = upcoming + 1, prompts[r]
            else:
                stack.pop()
            k = min(todo[r], left)
            held[r] = (k + 15) // 16
            free, work[r], left = free - held[r], k, left - k
            active.append(r)
        if not active:
            continue
        decoding = [r for r in active if not todo[r] and work[r]]
        prefill = sum(work[r] for r in active if todo[r])
        kv = sum(in_cache[r] for r in decoding)
        t += spec.step_s + spec.per_sequence_s * len(decoding) + spec.per_kv_token_s * kv + spec.per_prefill_token_s * prefill
        for r in list(active):
            was_prefill = todo[r] > 0
            in_cache[r] += work[r]
            todo[r] -= work[r] if was_prefill else 0
            if not work[r] or todo[r]:
                continue
            made[r] += 1
            if made[r] == 1:
                first[r] = t
            if made[r] == outputs[r]:
                finish[r], free, held[r] = t, free + held[r], 0
                active.remove(r)
    return Timeline(first, finish, preemptions)

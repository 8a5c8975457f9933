"""What the idle server tells: its speed, whether any rate can be right, and which share of drawn lengths can never meet the limits.

Three single requests say how fast it is; the lengths that a run draws say the rest. Without load a request of L prompt tokens and
O answer tokens has its first token after t + p L and its last after p L + t O, with the seconds t per answer token and p per
prompt token of `core.judge.idle.idle_speed`. Pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from core.config import ProbeConfig, Slo, Workload
from core.facts import Fact, Figure, fact
from core.judge.evidence import errors_said
from core.records import Check, RequestRecord
from core.results import Idle
from core.schedule import Joint, joint, shares_of
from core.singles import judged
from core.slo import by_limits, e2e_s, good, limits_of, tpot_s, ttft_s

_SHORTEST_S = 1e-3
"""An idle latency counts as at least a millisecond, so that the first rate (2/s0) stays one that a client can send."""


def idle_e2e_s(records: Sequence[RequestRecord]) -> float | None:
    """s0: the mean E2E latency of the requests that succeeded, in seconds; None when none did."""
    e2es_s = [e2e for r in records if r.ending == "ok" and (e2e := e2e_s(r)) is not None]
    return max(sum(e2es_s) / len(e2es_s), _SHORTEST_S) if e2es_s else None


def idle_speed(records: Sequence[RequestRecord]) -> Idle:
    """The idle server's speed: mean TPOT, and the time to first token per prompt token beyond the step that brings the token."""
    ok = [r for r in records if r.ending == "ok"]
    tpots_s = [tpot for r in ok if (tpot := tpot_s(r)) is not None]
    tpot = sum(tpots_s) / len(tpots_s) if tpots_s else None
    ttfts_s = [ttft for r in ok if (ttft := ttft_s(r)) is not None]
    tokens = sum(r.asked_input if r.prompt_tokens is None else r.prompt_tokens for r in ok if r.t_first is not None)
    prefill_s = sum(ttfts_s) - len(ttfts_s) * (tpot or 0.0)
    return Idle(tpot_s=tpot, prefill_token_s=max(0.0, prefill_s) / tokens if tpot is not None and tokens else None)


def why_infeasible(records: Sequence[RequestRecord], slo: Slo) -> Fact | None:
    """Why no rate can be right, or None where one of them met the limits (`core.singles`)."""
    if judged(records, slo).code in ("singles_meet", "some_singles_miss"):
        return None
    succeeded = [r for r in records if r.ending == "ok"]
    if succeeded:
        return fact("singles_over_limits", missed=len(records), **_excess(succeeded[0], slo))
    if not records:
        return fact("no_single_sent")
    answered = any(r.ending == "http" for r in records)
    return fact("singles_in_errors", requests=len(records), answered=answered, said=errors_said(records) or records[0].ending)


def _excess(record: RequestRecord, slo: Slo) -> dict[str, Figure]:
    """The latencies over their limits, each with that, in seconds; None for the others."""
    slo = limits_of(record, slo)
    latencies = (("ttft", ttft_s(record), slo.ttft_s), ("tpot", tpot_s(record), slo.tpot_s), ("e2e", e2e_s(record), slo.e2e_s))
    over: dict[str, Figure] = {}
    for name, value_s, limit_s in latencies:
        missed = value_s is not None and limit_s is not None and value_s > limit_s
        over |= {f"{name}_s": value_s if missed else None, f"{name}_limit_s": limit_s if missed else None}
    return over


QUANTILES = 400
"""Equal shares of the requests, by prompt and by answer: a share of misses is known to a quarter of a point."""
SHARES = 2000
"""Equal shares of the requests of a mix, where their latencies are asked for."""

LENGTHS = "lengths"
UNEXPLAINED = 0.25
"""A single request whose E2E is farther than this from what its lengths say: something else than lengths makes it, and the lengths
tell nothing of the others."""
SURELY = 1.1
"""Single requests tell the idle server's speed to some percent: only what a server a tenth faster misses, too, is refused."""
NEAR_SHARE = 0.5
"""Where lengths alone use up half of the misses that the target allows, what load may add is hardly seen over chance."""


@dataclass(frozen=True, slots=True)
class IdleServer:
    """Latencies of requests on the idle server, in seconds: TPOT of all, TTFT and E2E of each of the lengths."""

    lengths: Joint
    tpot_s: float
    ttft_s: NDArray[np.float64]
    e2e_s: NDArray[np.float64]

    @classmethod
    def of(cls, records: Sequence[RequestRecord], workload: Workload) -> Self | None:
        """By single requests, some of which ended ok; None where all have one length, and where they tell no TPOT or are not as
        long as their lengths say."""
        lengths = joint(workload, QUANTILES)
        if lengths.weights.size == 1:
            return None
        seen = idle_speed(records)
        if seen.tpot_s is None or seen.prefill_token_s is None:
            return None
        if any(abs(_told_s(r, seen) - lasted) > UNEXPLAINED * lasted for r in records if r.ending == "ok" and (lasted := e2e_s(r))):
            return None
        ttft_s = seen.tpot_s + seen.prefill_token_s * lengths.input_tokens
        return cls(lengths, seen.tpot_s, ttft_s, ttft_s + seen.tpot_s * (lengths.output_tokens - 1))

    def misses(self, slo: Slo, faster: float = 1.0) -> float:
        """The share of requests whose lengths miss a limit with nothing else to do; `faster`: on a server so many times as fast.
        TPOT does not follow the lengths: the single requests themselves are judged by it. Only a kind with a limit of its own
        on it may be one that none of them was of."""
        late = np.zeros(self.ttft_s.shape, dtype=bool)
        inputs, outputs = (each.astype(np.int64) for each in (self.lengths.input_tokens, self.lengths.output_tokens))
        for own, whose in by_limits(slo, inputs, outputs):
            if own.tpot_s is not None and own.tpot_s != slo.tpot_s and self.tpot_s > faster * own.tpot_s:
                late |= whose & (outputs > 1)
            for took_s, limit_s in ((self.ttft_s, own.ttft_s), (self.e2e_s, own.e2e_s)):
                if limit_s is not None:
                    late |= whose & (took_s > faster * limit_s)
        return self.lengths.share(late)


def _told_s(record: RequestRecord, seen: Idle) -> float:
    """The E2E of a request by its lengths."""
    prompt = record.asked_input if record.prompt_tokens is None else record.prompt_tokens
    return (seen.prefill_token_s or 0.0) * prompt + (seen.tpot_s or 0.0) * record.output_tokens


def idle_e2es_s(records: Sequence[RequestRecord], workload: Workload, mean_s: float) -> NDArray[np.float64]:
    """E2E in seconds of equal shares of the requests on the idle server. Three drawn lengths say little of long ones, so it goes by
    all that can be drawn; `mean_s`, that of the single requests, where all have one length, or where these do not tell."""
    server = IdleServer.of(records, workload)
    if server is None:
        return np.array([mean_s])
    return server.e2e_s if not workload.mix else server.lengths.at(server.e2e_s, (np.arange(SHARES) + 0.5) / SHARES)


def mean_tokens(workload: Workload) -> tuple[float, float]:
    """The means of token counts in and out as they are drawn."""
    if workload.mix:
        lengths = joint(workload, QUANTILES)
        return lengths.mean(lengths.input_tokens), lengths.mean(lengths.output_tokens)
    inputs, outputs = (shares_of(each, QUANTILES) for each in (workload.input_tokens, workload.output_tokens))
    return float(inputs.mean()), float(outputs.mean())


def lengths_check(config: ProbeConfig, singles: Sequence[RequestRecord]) -> Check | None:
    """A check before the load: the share of requests whose lengths miss the limits even on the idle server, by the single requests.
    None where that is small beside what the target allows, or not known, or said by the single requests themselves. Answers that
    end by themselves may have a single token, so that only prompts count then."""
    server = IdleServer.of(singles, config.workload)
    if server is not None and config.workload.natural:
        server = replace(server, e2e_s=server.ttft_s)
    if server is None or not any(good(record, config.limits) for record in singles):
        return None
    allowed, missed = 1 - config.slo.target, server.misses(config.limits)
    if missed <= NEAR_SHARE * allowed:
        return None
    found: dict[str, Figure] = {"missed_frac": missed, "allowed_frac": allowed, "target": config.slo.target}
    if server.misses(config.limits, SURELY) <= allowed:
        return Check(check=LENGTHS, status="warn", message=fact("lengths_near", **found))
    searches = not config.method.rates_rps and config.method.hold_rps is None
    return Check(check=LENGTHS, status="refuse" if searches else "warn", message=fact("lengths_miss", **found, searches=searches))

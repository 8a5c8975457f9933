"""What a repeat's measured window was like, in the numbers of the result."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from core.judge.modes import warmup_needed_s
from core.judge.slo import e2e_s, tpot_s, ttft_s
from core.judge.tally import Tally
from core.percentiles import percentiles
from core.records import RequestRecord
from core.results import Percentiles


@dataclass(frozen=True, slots=True)
class Latencies:
    """Over the requests scheduled in the window that ended ok: those that failed have no latency. In seconds."""

    ttft_s: Percentiles
    tpot_s: Percentiles
    e2e_s: Percentiles
    itl_s: Percentiles

    @classmethod
    def of(cls, ok: Sequence[RequestRecord], itl_s: Percentiles) -> "Latencies":
        """`itl_s`: of their gaps, which the tally has summed up."""
        return cls(
            ttft_s=percentiles(v for r in ok if (v := ttft_s(r)) is not None),
            tpot_s=percentiles(v for r in ok if (v := tpot_s(r)) is not None),
            e2e_s=percentiles(v for r in ok if (v := e2e_s(r)) is not None),
            itl_s=itl_s,
        )


def warmup_needed(measured: Sequence[RequestRecord]) -> float | None:
    """The warm-up in seconds that requests as long as these need; None where none ended well.

    A request that was cut off had lasted for some time: where that is longer than the mean it counts, or a pass that was certain
    before the longest answers ended would know nothing of them.
    """
    lasted_s = np.array([v for r in measured if r.ending == "ok" and (v := e2e_s(r)) is not None])
    if not lasted_s.size:
        return None
    cut_s = np.array([r.t_end - r.t_sched for r in measured if r.ending == "aborted"])
    all_s = np.append(lasted_s, cut_s[cut_s > lasted_s.mean()])
    return warmup_needed_s(all_s)


@dataclass(frozen=True, slots=True)
class Rates:
    """Per second of the window. Of a repeat that was cut short, only the part of the window that had passed counts: its
    arrivals as planned, what finished in it, what of it is good. All but `offered_rps` are 0 where no part had passed.

    Finishes are ok requests, whenever they were sent, whose last token came inside the window: so a straggler moves
    nothing. Their tokens are `output_tps`, and with the prompts (as the server counted them, else as asked) `total_tps`.
    """

    offered_rps: float
    served_rps: float
    goodput_rps: float
    output_tps: float
    total_tps: float

    @classmethod
    def of(cls, tally: Tally, planned: int, good: int, cut_at: float) -> "Rates":
        """`cut_at`: when the load was stopped; after the end of the window it does not matter."""
        start, end = tally.layout.window
        passed_s = min(cut_at, end) - start
        if passed_s <= 0:
            planned_rps = planned / (end - start) if end > start else 0.0
            return cls(offered_rps=planned_rps, served_rps=0.0, goodput_rps=0.0, output_tps=0.0, total_tps=0.0)
        until = start + passed_s
        finished = [r for r in tally.records if r.ending == "ok" and r.t_last is not None and start <= r.t_last < until]
        output = sum(r.output_tokens for r in finished)
        prompt = sum(r.asked_input if r.prompt_tokens is None else r.prompt_tokens for r in finished)
        return cls(
            offered_rps=(planned if cut_at >= end else tally.layout.due_before(cut_at)) / passed_s,
            served_rps=len(finished) / passed_s,
            goodput_rps=good / passed_s,
            output_tps=output / passed_s,
            total_tps=(prompt + output) / passed_s,
        )

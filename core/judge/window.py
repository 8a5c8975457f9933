"""The whole of a window in two figures: how far its requests were from their limits, and how much work it happened to bring."""

import math

import numpy as np

from core.judge.tally import Tally
from core.results import SloMargin, WindowWork
from core.slo import least_margin, margin, needed_good

LEAD_WARMUP, LEAD_MEASURED = 0.5, 0.25
"""What arrives so long before a window loads it, too: half of the warm-up, and at most a quarter of the window."""


def slo_margin(tally: Tally, planned: int, *, drained: bool) -> SloMargin | None:
    """Of the measured requests; None where none was planned. Of one that was cut off, or never sent, the least is known that its
    margin can have come to; `drained`: what was open then had had its time, and is beyond every limit."""
    if planned == 0:
        return None
    slo, records = tally.slo, tally.measured_records[:planned]
    shares, exact = np.zeros(planned), np.zeros(planned, dtype=bool)
    for at, record in enumerate(records):
        exact[at] = record.ending != "aborted" or drained
        if record.ending == "ok":
            shares[at] = margin(record, slo) or 0.0
        elif exact[at]:
            shares[at] = math.inf
        else:
            asked, first = record.asked_output, record.first_tokens
            shares[at] = least_margin(slo, record.t_end, record.t_sched, asked, record.t_first, first)
    order = np.lexsort((~exact, shares))
    ranked = order[max(needed_good(planned, slo.target), 1) - 1]
    at_target, p50 = (float(shares[at]) for at in (ranked, order[math.ceil(planned / 2) - 1]))
    least = not exact[ranked] or bool((~exact & (shares < at_target)).any())
    return SloMargin(
        at_target=at_target if math.isfinite(at_target) else None,
        p50=p50 if math.isfinite(p50) else None,
        unbounded=math.isinf(at_target),
        at_least=least,
    )


def work(tally: Tally) -> WindowWork | None:
    """What was planned for the window and the stretch before it; None of an order without a measured segment."""
    layout, plan = tally.layout, tally.plan
    begin, end = layout.window
    if end <= begin:
        return None
    lead_s = min(LEAD_WARMUP * layout.length_s("warmup"), LEAD_MEASURED * (end - begin))
    low, high = np.searchsorted(layout.due, [begin - lead_s, end])
    return WindowWork(
        seconds=end - begin + lead_s,
        requests=int(high - low),
        input_tokens=int(plan.input_tokens[low:high].sum()),
        output_tokens=int(plan.output_tokens[low:high].sum()),
    )

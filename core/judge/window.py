"""The whole of a window in two figures: how far its requests were from their limits, and how much work it happened to bring."""

import math

import numpy as np

from core.config import Workload
from core.judge.idle import mean_tokens
from core.judge.tally import Tally
from core.results import Idle, SloMargin, TokenCosts, WindowWork
from core.slo import least_margin_of_cut, margin, needed_good

IDLE_DECODING = 8.0
"""Before any step tells how many requests decode at once, so many share a step: the time of a token is that much cheaper."""
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
            shares[at] = least_margin_of_cut(record, slo, tally.closing_s)
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


def work(tally: Tally, costs: TokenCosts | None, latencies_s: tuple[float | None, float | None, float | None]) -> WindowWork | None:
    """What was planned for the window and the stretch before it; None of an order without a measured segment. `latencies_s`: mean
    TTFT, TPOT and E2E over the window, None where not known."""
    layout, plan = tally.layout, tally.plan
    begin, end = layout.window
    if end <= begin:
        return None
    lead_s = min(LEAD_WARMUP * layout.length_s("warmup"), LEAD_MEASURED * (end - begin))
    low, high = np.searchsorted(layout.due, [begin - lead_s, end])
    rate_rps, seconds = layout.segments[tally.measured[0]].rate_rps, end - begin + lead_s
    tokens = int(plan.input_tokens[low:high].sum()), int(plan.output_tokens[low:high].sum())
    more_frac = None if costs is None else _more_frac(costs, tokens, rate_rps * seconds, _answer_s(costs, rate_rps, latencies_s))
    return WindowWork(
        seconds=seconds, requests=int(high - low), input_tokens=tokens[0], output_tokens=tokens[1], more_frac=more_frac
    )


def token_costs(workload: Workload, idle: Idle) -> TokenCosts:
    """What a run's tokens cost as far as single requests tell: before anything tells how many answers share a step, IDLE_DECODING
    do. Where they tell nothing, tokens of both kinds cost the same."""
    prompt_s, answer_s = idle.prefill_token_s or 0.0, (idle.tpot_s or 0.0) / IDLE_DECODING
    if not prompt_s and not answer_s:
        prompt_s = answer_s = 1.0
    means = mean_tokens(workload)
    return TokenCosts(prompt_s=prompt_s, answer_s=answer_s, input_tokens=means[0], output_tokens=means[1])


def _answer_s(costs: TokenCosts, rate_rps: float, latencies_s: tuple[float | None, float | None, float | None]) -> float:
    """What a token of an answer costs: its TPOT over the requests that decode at once (Little's law)."""
    ttft_s, tpot_s, e2e_s = latencies_s
    if ttft_s is None or tpot_s is None or e2e_s is None:
        return costs.answer_s
    return tpot_s / max(rate_rps * (e2e_s - ttft_s), 1.0)


def _more_frac(costs: TokenCosts, tokens: tuple[int, int], requests: float, answer_s: float) -> float | None:
    expected = requests * (costs.prompt_s * costs.input_tokens + answer_s * costs.output_tokens)
    brought = costs.prompt_s * tokens[0] + answer_s * tokens[1]
    return brought / expected - 1 if brought > 0 and expected > 0 else None

"""What one request's latencies are, whether it met every limit at once, and when it surely no longer can.

How far requests may be from what was asked: the checks before the load and the judge of a repeat have the same bounds.
"""

import math
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from core.config import Slo, SloByKind
from core.records import RequestRecord

_DUST = 1e-9

MIN_OUTPUT_FRAC, MAX_OUTPUT_FRAC = 0.95, 1.05
"""An answer is as long as asked within these: a server that counts an end token too (129 for 128) is, one that leaves the length
unread is not."""

MAX_PROMPT_OFF_FRAC = 0.02
"""Prompts that the server counts further off than this, longer or shorter, are not what was asked."""

MAX_HIT_FRAC = 0.01
"""From this share of prompt tokens out of the prefix cache on, prompts are not cold."""

MAX_HIT_OFF_FRAC = 0.05
"""So far may the share of prompt tokens from the prefix cache be from the planned one where prompts share prefixes: five points."""

ENOUGH_COUNTED = 0.95
"""By how much answers may be shorter than asked at all: a count by events that is no further off moves no TPOT by more."""


def ttft_s(record: RequestRecord) -> float | None:
    """Time to first token in seconds: from when the request was due to its first event with output."""
    return None if record.t_first is None else record.t_first - record.t_sched


def e2e_s(record: RequestRecord) -> float | None:
    """Seconds from when the request was due to its last token; what comes after that (usage, a slow close) is not in it."""
    return None if record.t_last is None else record.t_last - record.t_sched


def tpot_s(record: RequestRecord) -> float | None:
    """Seconds per output token after the first event: (t_last - t_first)/(O - k), k tokens in the first event.

    None where it does not exist, since no token came after the first event, and where it is not known (`uncounted`).
    """
    return None if uncounted(record) else _per_token_s(record, record.output_tokens)


def uncounted(record: RequestRecord) -> bool:
    """Whether an answer may have had many more tokens than were counted: one per event, and too few for what it was asked for.

    With natural stopping that is as it is: an answer which ended by itself has fewer tokens than were asked for, and without usage
    nothing tells whether it had as many as there were events.
    """
    return record.counted_by == "events" and record.output_tokens < ENOUGH_COUNTED * record.asked_output


def least_tpot_s(record: RequestRecord) -> float | None:
    """Its TPOT in seconds; where that is not known the least that it can be, by the tokens it was asked for: it can have had no
    more, with natural stopping either."""
    return _per_token_s(record, record.asked_output if uncounted(record) else record.output_tokens)


def _per_token_s(record: RequestRecord, tokens: int) -> float | None:
    later_tokens = tokens - record.first_tokens
    if record.t_first is None or record.t_last is None or later_tokens <= 0:
        return None
    return (record.t_last - record.t_first) / later_tokens


def limits_of(record: RequestRecord, slo: Slo) -> Slo:
    """What a request is judged by, of the limits of its run."""
    return slo.of(record.asked_input, record.asked_output)


def by_limits(
    slo: Slo, input_tokens: NDArray[np.int64] | NDArray[np.float64], output_tokens: NDArray[np.int64] | NDArray[np.float64]
) -> Iterator[tuple[Slo, NDArray[np.bool_]]]:
    """Many requests of a run by their limits: these, and whose they are. Together they are all requests, each once."""
    others = np.ones(input_tokens.shape, dtype=bool)
    for (asked_input, asked_output), own in slo.kinds.items() if isinstance(slo, SloByKind) else ():
        whose = (input_tokens == asked_input) & (output_tokens == asked_output)
        others &= ~whose
        yield own, whose
    yield slo, others


def margin(record: RequestRecord, slo: Slo) -> float | None:
    """The worst of its latencies as a share of that latency's limit: 1.0 is at the limit, above it the request is a miss.

    None where there is nothing to compare: it did not end ok, or its only limit is on TPOT and it has none. An answer without a
    first or a last token is infinitely late. A TPOT that is not known counts as the least that it can be. `slo`: those of the run.
    """
    if record.ending != "ok":
        return None
    slo = limits_of(record, slo)
    shares = [
        math.inf if value_s is None else value_s / limit_s
        for value_s, limit_s in ((ttft_s(record), slo.ttft_s), (e2e_s(record), slo.e2e_s))
        if limit_s is not None
    ]
    if slo.tpot_s is not None and (tpot := least_tpot_s(record)) is not None:
        shares.append(tpot / slo.tpot_s)
    return max(shares, default=None)


def margins(
    slo: Slo,
    asked_input: NDArray[np.float64],
    asked_output: NDArray[np.float64],
    ttft_s: NDArray[np.float64],
    e2e_s: NDArray[np.float64],
    least_tpot_s: NDArray[np.float64],
) -> NDArray[np.float64]:
    """`margin` of many requests that ended ok, by their latencies; NaN is a latency that there is not, and nothing to compare."""
    worst = np.full(ttft_s.shape, -np.inf)
    for limits, whose in by_limits(slo, asked_input, asked_output):
        for value_s, limit_s in ((ttft_s, limits.ttft_s), (e2e_s, limits.e2e_s)):
            if limit_s is not None:
                share = np.where(np.isnan(value_s), np.inf, value_s / limit_s)
                np.maximum(worst, share, out=worst, where=whose)
        if limits.tpot_s is not None:
            np.fmax(worst, least_tpot_s / limits.tpot_s, out=worst, where=whose)
    return np.where(np.isneginf(worst), np.nan, worst)


def good(record: RequestRecord, slo: Slo) -> bool:
    """The joint indicator: ended ok and inside every limit that is set. Without a TPOT, the other limits decide.

    A margin above 1 is a latency above its limit, exactly: of two floats a > b, a / b is never rounded down to 1.
    """
    return record.ending == "ok" and within(margin(record, slo))


def within(share: float | None) -> bool:
    """Whether a request that ended ok is good, by its margin."""
    return share is None or share <= 1.0


def too_long(record: RequestRecord) -> bool:
    """Whether the answer, finished or not, has more tokens than may be by the way that a server counts: one more may be its end."""
    return record.output_tokens > max(MAX_OUTPUT_FRAC * record.asked_output, record.asked_output + 1)


def sure_miss_at(slo: Slo, t_sched: float, asked_output: int, t_first: float | None = None, first_tokens: int = 0) -> float:
    """The moment after which an open request, still without its last token, is surely a miss; inf if only its end can tell. `slo`:
    those of the request (`Slo.of`).

    Before the first token the limits on TTFT and E2E decide. After it, E2E does, and TPOT: an answer has at most
    `asked_output` tokens, so (now - t_first)/(asked_output - k) is a lower bound of its final TPOT. That holds with natural
    stopping, too: an answer that ends earlier has a higher TPOT for the same time. When the first event brought all tokens that
    were asked for, nothing can become late any more.
    """
    limit_s = min(slo.ttft_s or math.inf, slo.e2e_s or math.inf)
    if t_first is None or t_first - t_sched > limit_s:
        return t_sched + limit_s
    later_tokens = asked_output - first_tokens
    if later_tokens <= 0:
        return math.inf
    return min(
        math.inf if slo.e2e_s is None else t_sched + slo.e2e_s,
        math.inf if slo.tpot_s is None else t_first + slo.tpot_s * later_tokens,
    )


def first_within_s(slo: Slo) -> float | None:
    """How long after it was due a request of any kind may get its first token without a sure miss; None: no limit tells. `slo`:
    those of the run, with those of its kinds."""
    longest_s = max(min(each.ttft_s or math.inf, each.e2e_s or math.inf) for each in slo.each)
    return None if math.isinf(longest_s) else longest_s


def least_margin(
    slo: Slo, now: float, t_sched: float, asked_output: int, t_first: float | None = None, first_tokens: int = 0
) -> float:
    """The least margin (`margin`) that a request can still have whose last token has not come by `now`; above 1 it is past
    `sure_miss_at`, and never before. `slo`: those of the request.

    It never falls as `now` goes on, and the request ends with no less: an answer has at most `asked_output` tokens.
    """
    if t_first is not None and asked_output <= first_tokens:
        now = t_first  # its last token is here, whenever its body ends
    shares = [0.0]
    if slo.ttft_s is not None:
        shares.append(((now if t_first is None else t_first) - t_sched) / slo.ttft_s)
    if slo.e2e_s is not None:
        shares.append((now - t_sched) / slo.e2e_s)
    if slo.tpot_s is not None and t_first is not None and asked_output > first_tokens:
        shares.append((now - t_first) / (asked_output - first_tokens) / slo.tpot_s)
    return max(shares)


def least_margin_of_cut(record: RequestRecord, slo: Slo, closing_s: float) -> float:
    """`least_margin` of a request that was cut off: its last token, unlike its first one, may have come `closing_s` before the end
    of its body would have told. `slo`: those of the run."""
    t_first = record.t_first
    until = record.t_end if t_first is None else max(record.t_end - closing_s, t_first)
    limits = limits_of(record, slo)
    return least_margin(limits, until, record.t_sched, record.asked_output, t_first, record.first_tokens)


def needed_good(planned: int, target: float) -> int:
    """How many of the planned requests must be good: ceil(target * planned), safe against binary dust (0.95 * 20)."""
    return math.ceil(target * planned - _DUST)


def allowed_misses(planned: int, target: float) -> int:
    """How many of the planned requests may miss; one more and the target is out of reach."""
    return planned - needed_good(planned, target)


def too_many_errors(errors: int, of: int, max_error_rate: float) -> bool:
    """Whether more than the allowed share of requests ended in an error."""
    return errors > max_error_rate * of + _DUST


def floor(repeats: Iterable[tuple[float, float]]) -> tuple[float, float] | None:
    """The attainment floor over repeats whose attainments are intervals: [least lower end, least upper end]; None without any.

    A repeat that is over has both ends alike. Which of them sets the floor may still be open, so each end is for itself.
    """
    known = list(repeats)
    return (min(low for low, _ in known), min(high for _, high in known)) if known else None


def tells_nothing(attainment: tuple[float, float], target: float | None) -> bool:
    """Whether what is known of an attainment, [least, most], leaves open on which side of the target it ends."""
    low, high = attainment
    return low < high and low < (1.0 if target is None else target) <= high

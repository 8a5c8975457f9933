"""What a reader should know beside a verdict: facts that change nothing about it."""

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from typing import Literal

from core.config import Slo
from core.facts import Fact, Figure, fact
from core.judge.validity import lateness_limit_s, lateness_status
from core.modes import ENOUGH_MISSES
from core.records import NO_ERRORS, RequestRecord
from core.results import Percentiles, QueueVerdict, RepeatVerdict
from core.slo import limits_of, needed_good, tpot_s, uncounted

_DUST = 1e-9

ENOUGH_E2E = 5
"""Neighbouring requests share their fate for 1 to 7 mean durations: a window of fewer than 5 is hardly one observation."""


TOKEN_RATE_OFF = 0.05
"""Of 40 s windows of simulated replicas with drawn lengths one in six is off by more than that by chance, of 90 s windows none."""


def few_requests(planned: int, target: float) -> Fact | None:
    """n against 1/(1-q), where no miss is allowed, and against 5/(1-q)."""
    may_miss = planned * (1 - target)
    if may_miss < 1 - _DUST:
        return fact("no_miss_allowed", planned=planned)
    if may_miss >= ENOUGH_MISSES - _DUST:
        return None
    return fact("few_requests", planned=planned, target=target, needed=needed_requests(target))


def needed_requests(target: float) -> int:
    """5/(1-q), rounded; only for targets below 1."""
    return round(ENOUGH_MISSES / (1 - target))


LUCK = 0.1
"""Of windows of 100 requests with drawn lengths a third are off by so much; of windows of a thousand hardly one."""


def luck(verdict: RepeatVerdict, more_frac: float | None, recorded: bool = False) -> Fact | None:
    """Whether the draw itself made the verdict likelier: the work of the window was off what its rate lets expect. Of a `recorded`
    window it was not the draw, but the stretch of the recording that was its turn."""
    if more_frac is None or abs(more_frac) < LUCK:
        return None
    how: dict[str, Figure] = {"recorded": True} if recorded else {}
    if verdict == "pass" and more_frac < 0:
        return fact("window_lucky", less_frac=-more_frac, **how)
    return fact("window_unlucky", more_frac=more_frac, **how) if verdict == "fail" and more_frac > 0 else None


def hits_unseen() -> Fact:
    """Prompts share prefixes, and nobody says how many of their tokens were found in the cache."""
    return fact("hits_unseen")


def short_window(measure_s: float, e2e: float | None) -> Fact | None:
    """M < 5E, with the mean E2E that the step itself had, in seconds."""
    if e2e is None or measure_s >= ENOUGH_E2E * e2e - _DUST:
        return None
    return fact("window_short", measure_s=measure_s, e2e_mean_s=e2e, durations=ENOUGH_E2E)


def short_warmup(warmup_s: float, needed_s: float | None) -> Fact | None:
    """W against what the requests that were seen need (`core.modes.warmup_needed_s`): E grows two- to fourfold from idle to
    the knee, so a warm-up planned before may turn out short."""
    if needed_s is None or warmup_s >= needed_s - _DUST:
        return None
    return fact("warmup_short", warmup_s=warmup_s, needed_s=needed_s)


def by_one_request(good: int, planned: int, target: float) -> Fact | None:
    """For a pass whose endings were all decided."""
    return fact("by_one_request", good=good, planned=planned) if good == needed_good(planned, target) else None


def left_open(still_open: int, planned: int) -> Fact | None:
    """For a pass that was certain before all had ended: from 1 % on, what the percentiles leave out can move the p99."""
    if still_open == 0 or 100 * still_open < planned:
        return None
    return fact("left_open", open=still_open, planned=planned)


def lateness(lateness_s: Percentiles, ttft_limit_s: float | None) -> Fact | None:
    """Sends late enough to be told, and not so late that the repeat is void."""
    if lateness_status(lateness_s, ttft_limit_s) != "warn" or lateness_s.p99 is None:
        return None
    return fact("sends_late", late_p99_s=lateness_s.p99)


def loop_lag(lag_max_s: float, ttft_limit_s: float | None) -> Fact | None:
    """The client's event loop stalled for longer than sends may be late; what arrived meanwhile was stamped late."""
    if lag_max_s <= lateness_limit_s(ttft_limit_s):
        return None
    return fact("loop_stalled", lag_max_s=lag_max_s)


def few_values(n: int, latency: Literal["TPOT"] | None = None) -> Fact | None:
    """Nearest rank makes the p99 of fewer than 100 values, and the p95 of fewer than 20, the maximum or nearly so.

    `latency` names the one that this is about, where it has fewer values than the others.
    """
    if n == 0 or n >= 100:
        return None
    return fact("few_values", answers=n, latency=latency)


def no_success(succeeded: int, planned: int) -> Fact | None:
    """Latencies are those of requests that ended ok."""
    return fact("no_success", planned=planned) if planned and not succeeded else None


def queue_undecided(queue: QueueVerdict | None) -> Fact | None:
    """Neither flat nor rising: fails nothing."""
    return fact("queue_undecided") if queue == "undecided" else None


def lengthened(by_s: float | None) -> Fact | None:
    """The load went on for an undecided queue; None: it did not."""
    if by_s is None:
        return None
    return fact("lengthened", by_s=by_s)


def token_rate_off(output_tps: float, outputs: Sequence[int], served_rps: float) -> Fact | None:
    """Output tokens per second over the mean output of the window's answers, against the requests per second that finished.

    Both count what the server does, by tokens and by requests, and may part by 5 %, or by two standard errors of a mean of so
    many drawn lengths. They part further when what finished in the window was not like what was scheduled in it.
    """
    if served_rps <= 0 or not outputs or (mean := statistics.fmean(outputs)) <= 0:
        return None
    by_tokens_rps = output_tps / mean
    by_chance = 2 * statistics.pstdev(outputs) / mean / math.sqrt(len(outputs))
    if abs(by_tokens_rps / served_rps - 1) <= max(TOKEN_RATE_OFF, by_chance) + _DUST:
        return None
    return fact("token_rate_off", by_tokens_rps=by_tokens_rps, counted_rps=served_rps)


def no_tpot(ok: Sequence[RequestRecord], slo: Slo) -> Fact | None:
    """Answers whose TPOT does not exist, where TPOT has a limit."""
    without = sum(tpot_s(r) is None and not uncounted(r) for r in ok if limits_of(r, slo).tpot_s is not None)
    if not without:
        return None
    return fact("no_tpot", without=without, answers=len(ok))


def tpot_unknown(ok: Sequence[RequestRecord], slo: Slo) -> Fact | None:
    """Answers whose TPOT is not known, because an event of them may hold more than one token, where TPOT has a limit."""
    without = sum(uncounted(r) for r in ok if limits_of(r, slo).tpot_s is not None)
    if not without:
        return None
    return fact("tpot_unknown", without=without, answers=len(ok))


def no_usage(ok: Sequence[RequestRecord]) -> Fact | None:
    """Answers whose tokens had to be counted by something else than the server's usage, and by what."""
    by = Counter(r.counted_by or "events" for r in ok if not r.usage)
    if not by:
        return None
    return fact("no_usage", without=by.total(), answers=len(ok), counted_by={name: by[name] for name in sorted(by)})


def no_finish_reason(ok: Sequence[RequestRecord]) -> Fact | None:
    """Answers that are whole by their count alone."""
    without = sum(r.finish_reason is None for r in ok)
    if not without:
        return None
    return fact("no_finish_reason", without=without, answers=len(ok))


def what_failed(records: Sequence[RequestRecord], alike: Fact | None = None) -> Fact | None:
    """What the errors said: the most frequent sentence. `alike`: what they have in common."""
    said = Counter(record.error or record.ending for record in records if record.ending not in NO_ERRORS)
    if not said:
        return None
    words, n = said.most_common(1)[0]
    common = () if alike is None else (alike,)
    return fact("errors_said", *common, times=n, errors=said.total(), said=words.rstrip("."), other_sentences=len(said) - 1)


def resent(records: Sequence[RequestRecord]) -> Fact | None:
    """Requests that went out twice."""
    n = sum(record.resent for record in records)
    if not n:
        return None
    return fact("resent", requests=n)


def turned_away(records: Sequence[RequestRecord]) -> Fact | None:
    """Requests that a gateway's limit turned away, which are misses beside those that are late."""
    endings = Counter(record.ending for record in records)
    rejected, timed_out = endings["rejected"], endings["queue_timeout"]
    return fact("gateway_turned_away", rejected=rejected, timed_out=timed_out) if rejected or timed_out else None


def retried(records: Sequence[RequestRecord]) -> Fact | None:
    """Requests that were sent again because a 429 asked for that, and how many of them were answered in the end."""
    again = [record for record in records if record.retries]
    if not again:
        return None
    return fact("retried", requests=len(again), answered=sum(record.ending == "ok" for record in again))


def several_processes(in_turn: bool) -> Fact | None:
    """Counters that changed back and forth."""
    return fact("several_processes") if in_turn else None


def unread(readings: int, has_metrics: bool) -> Fact | None:
    """Of a server that has metrics, fewer than the two readings that a difference needs."""
    if readings > 1 or not has_metrics:
        return None
    return fact("metrics_unread")

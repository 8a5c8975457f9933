"""What a reader should know beside a verdict: sentences that change nothing about it."""

import math
import statistics
from collections import Counter
from collections.abc import Sequence

from core.config import Slo
from core.judge.slo import needed_good, tpot_s
from core.judge.validity import lateness_limit_s, lateness_status
from core.judge.wording import count, duration, plain
from core.records import RequestRecord
from core.results import Percentiles, QueueVerdict

_DUST = 1e-9

ENOUGH_MISSES = 5
"""Requests for which a target lets at least five miss (100 at 95 %, 500 at 99 %): fewer, and one slow request moves the verdict."""

ENOUGH_E2E = 5
"""Neighbouring requests share their fate for 1 to 7 mean durations: a window of fewer than 5 is hardly one observation."""


TOKEN_RATE_OFF = 0.05
"""Of 40 s windows of simulated replicas with drawn lengths one in six is off by more than that by chance, of 90 s windows none."""


def few_requests(planned: int, target: float) -> str | None:
    """n against 1/(1-q), where no miss is allowed, and against 5/(1-q)."""
    may_miss = planned * (1 - target)
    if may_miss < 1 - _DUST:
        return f"no miss is allowed: of {count(planned, 'request')}, one slow one fails this step"
    if may_miss >= ENOUGH_MISSES - _DUST:
        return None
    return (
        f"this step saw only {planned} requests; attainment moves in steps of {100 / planned:.2g} %, "
        f"at a target of {plain(target)} plan at least {needed_requests(target)}"
    )


def needed_requests(target: float) -> int:
    """5/(1-q), rounded; only for targets below 1."""
    return round(ENOUGH_MISSES / (1 - target))


def short_window(measure_s: float, e2e: float | None) -> str | None:
    """M < 5E, with the mean E2E that the step itself had, in seconds."""
    if e2e is None or measure_s >= ENOUGH_E2E * e2e - _DUST:
        return None
    return (
        f"the step ({duration(measure_s)}) is shorter than {ENOUGH_E2E} mean request durations ({duration(e2e)} each): "
        "repeats will scatter, a pass is optimistic"
    )


def short_warmup(warmup_s: float, needed_s: float | None) -> str | None:
    """W against what the requests that were seen need (`core.judge.modes.warmup_needed_s`): E grows two- to fourfold from idle to
    the knee, so a warm-up planned before may turn out short."""
    if needed_s is None or warmup_s >= needed_s - _DUST:
        return None
    return f"the warm-up of {duration(warmup_s)} was too short: requests as long as these need {duration(needed_s)}"


def by_one_request(good: int, planned: int, target: float) -> str | None:
    """For a pass whose endings were all decided."""
    return "passed by one request" if good == needed_good(planned, target) else None


def left_open(still_open: int, planned: int) -> str | None:
    """For a pass that was certain before all had ended: from 1 % on, what the percentiles leave out can move the p99."""
    if still_open == 0 or 100 * still_open < planned:
        return None
    return f"{still_open} of {count(planned, 'request')} had not ended when the pass was certain: p95 and p99 leave them out"


def lateness(lateness_s: Percentiles, ttft_limit_s: float | None) -> str | None:
    """Sends late enough to be told, and not so late that the repeat is void."""
    if lateness_status(lateness_s, ttft_limit_s) != "warn" or lateness_s.p99 is None:
        return None
    return f"sends were late by {duration(lateness_s.p99)} (p99): latencies hold that much of the client's own"


def loop_lag(lag_max_s: float, ttft_limit_s: float | None) -> str | None:
    """The client's event loop stood still for longer than sends may be late; what arrived meanwhile was stamped late."""
    if lag_max_s <= lateness_limit_s(ttft_limit_s):
        return None
    return f"the client stood still for {duration(lag_max_s)}: what arrived meanwhile looks that much slower than it was"


def few_values(n: int, of: str = "") -> str | None:
    """Nearest rank makes the p99 of fewer than 100 values, and the p95 of fewer than 20, the maximum or nearly so.

    `of` names the one latency that this is about, where it has fewer values than the others.
    """
    if n == 0 or n >= 100:
        return None
    which = "p95 and p99 are" if n < 20 else "p99 is"
    return f"{of}{': ' if of else ''}{which} over only {count(n, 'answer')}, so hardly more than the slowest"


def no_success(succeeded: int, planned: int) -> str | None:
    """Latencies are those of requests that ended ok."""
    return f"none of {count(planned, 'request')} ended well, so there are no latencies" if planned and not succeeded else None


def queue_undecided(queue: QueueVerdict | None) -> str | None:
    """Neither flat nor rising: fails nothing."""
    return "queue: undecided" if queue == "undecided" else None


def lengthened(by_s: float | None) -> str | None:
    """The load went on for an undecided queue; None: it did not."""
    if by_s is None:
        return None
    return f"lengthened by {duration(by_s)} because the queue was undecided; only the queue is judged over the longer time"


def token_rate_off(output_tps: float, outputs: Sequence[int], served_rps: float) -> str | None:
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
    return (
        f"token rate and request rate do not agree: by its output tokens the server finished {by_tokens_rps:.3g} requests/s, "
        f"counted were {served_rps:.3g}; what finished in the window had other lengths than what was sent in it"
    )


def no_tpot(ok: Sequence[RequestRecord], slo: Slo) -> str | None:
    """Answers whose TPOT does not exist, where TPOT has a limit."""
    without = sum(tpot_s(r) is None for r in ok)
    if slo.tpot_s is None or not without:
        return None
    return f"{without} of {count(len(ok), 'answer')} had no token after the first event: judged without a TPOT"


def no_usage(ok: Sequence[RequestRecord]) -> str | None:
    """Answers whose tokens had to be counted by events."""
    guessed = sum(not r.usage for r in ok)
    if not guessed:
        return None
    return f"the server sent no usage with {guessed} of {count(len(ok), 'answer')}: their tokens are counted one per event"


def what_failed(records: Sequence[RequestRecord]) -> str | None:
    """What the errors said: the most frequent sentence."""
    said = Counter(record.error or record.ending for record in records if record.ending not in ("ok", "aborted"))
    if not said:
        return None
    words, n = said.most_common(1)[0]
    others = f"; {count(len(said) - 1, 'other sentence')} beside it" if len(said) > 1 else ""
    return f"{n} of {count(said.total(), 'error')}: {words.rstrip('.')}{others}"


def resent(records: Sequence[RequestRecord]) -> str | None:
    """Requests that went out twice."""
    n = sum(record.resent for record in records)
    if not n:
        return None
    return f"{count(n, 'request')} went out a second time, on a fresh connection: the server was just closing the kept one"


def several_processes(breaks: int) -> str | None:
    """Counters that changed back and forth."""
    if breaks < 2:
        return None
    return "the server's counters jump back and forth: several processes answer there, so their differences are withheld"


END_UNREAD = "no reading of the server after the load's end: requests of others or a restart near it would have gone unseen"


def unread(readings: int, metrics_url: str | None) -> str | None:
    """Of a server that has metrics, fewer than the two readings that a difference needs."""
    if readings > 1 or metrics_url is None:
        return None
    return "the server's metrics could not be read meanwhile: a restart, prefix hits or other traffic would have gone unseen"

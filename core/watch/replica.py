"""One replica over time: a state machine that is fed readings and failures, and tells its row at any moment. No I/O, no clock."""

from collections import deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from core.server import Buckets, TpotOf, Vitals
from core.watch.growth import BIN_S, SPAN_S, Growth, growth
from core.watch.knee import ReplicaKnee
from core.watch.latency import Estimate, quantile

WINDOW_S = 30.0
"""Rates and percentiles are of the last half minute: a p95 takes some dozens of requests."""

KEPT_S = 900.0
"""Of what its page draws: a quarter of an hour."""

TOLD_S = 60.0
"""So long a restart is told, and that it is new."""

STALLED_S = 20.0
"""Requests in flight and no token for so long: a step of vLLM gives each running request a token within a second, and only the
prefill of a very long prompt takes some seconds without one."""

_ENOUGH_FINISHED = 10.0
"""Requests within the window, from which on the time that a queue takes can be told: by fewer it is mostly chance."""

_SAME_START_S = 1.0
"""Starts of a process that are nearer to each other are the same one."""

_EARLY_S = 0.1
"""By so much the tenth reading of a second each may come early."""

State = Literal["unread", "ok", "failing", "gone"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What a replica does; None where it does not tell. The first four are of the moment `t`, of several engines the sum, of KV the
    fullest. The others are of the `over_s` before (None: there was only one reading yet).

    `arriving_rps`: what finished, and by how much more are in flight; requests whose client went away are in none of vLLM's counts,
    so it is low by those. `in_flight`: running and waiting ones, mean over the readings. `errors_per_s`: see
    `core.server.Vitals`. `queued`: the least that waited in the two newest readings. `wait_s`: how long the shortest queue of all
    readings takes at `finished_rps`, None where too few finished to tell. `stalled_s`: for how long requests have been in flight
    and nothing came of them, neither a token nor an end.
    """

    t: float
    engines: int
    running: float | None
    waiting: float | None
    kv_usage_frac: float | None
    queued: float | None = None
    stalled_s: float | None = None
    over_s: float | None = None
    in_flight: float | None = None
    wait_s: float | None = None
    arriving_rps: float | None = None
    finished_rps: float | None = None
    errors_per_s: float | None = None
    preemptions_per_s: float | None = None
    prefix_hit_frac: float | None = None
    prompt_tps: float | None = None
    output_tps: float | None = None
    ttft_p50: Estimate | None = None
    ttft_p95: Estimate | None = None
    tpot_p50: Estimate | None = None
    tpot_p95: Estimate | None = None
    tpot_of: TpotOf | None = None


@dataclass(frozen=True, slots=True)
class Load:
    """How full a replica is: by its measured knee (arriving requests/s / the rate that held), else by its KV cache, or 1 where
    requests wait (beside a knee: for longer than its limit) or where nothing comes of those in flight."""

    frac: float
    by: Literal["knee", "kv", "waiting", "stalled"]

    def above(self, most: float) -> bool:
        """Whether it is more than that share; requests that wait or that are stuck are more than any."""
        return self.by in ("waiting", "stalled") or self.frac > most


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A replica now. `figures` None: not read yet, or not any more. `since_s`: how long it has been in this state, and `why` what
    its last failed reading said. `model`: the name that its metrics have for its model; `other_model`: that of the run to compare
    with, where it is another. `read_s`: how old the figures are; `unanswered_s`: for how long the reading that goes on has taken,
    None between two. `restarted_s`, `joined_s`: how long ago, None where that is over a minute or was never. `several`: more than
    one server answers at this address."""

    url: str
    state: State
    since_s: float
    why: str | None = None
    figures: Figures | None = None
    model: str | None = None
    other_model: str | None = None
    read_s: float | None = None
    unanswered_s: float | None = None
    load: Load | None = None
    growth: Growth | None = None
    restarted_s: float | None = None
    joined_s: float | None = None
    several: bool = False
    failures: int = 0


class Replica:
    """`t` of readings and failures never goes back. `window_s`: over which rates are taken."""

    def __init__(self, url: str, t: float, *, knee: ReplicaKnee | None, window_s: float = WINDOW_S, joined: bool = False) -> None:
        """`joined`: it was not there from the beginning."""
        self.url = url
        self._knee = knee
        self._window_s = window_s
        self._state: State = "unread"
        self._since = t
        self._joined = t if joined else None
        self._why: str | None = None
        self._window: deque[Vitals] = deque()
        self._marks: deque[tuple[float, float]] = deque()
        self._points: deque[Figures] = deque()
        self._moved: float | None = None
        self._epoch: float | None = None
        self._restarted: float | None = None
        self._mixed: float | None = None
        self._failures = 0
        self._asked: float | None = None
        self._model: str | None = None

    @property
    def points(self) -> tuple[Figures, ...]:
        """Its figures at each reading of the last quarter of an hour."""
        return tuple(self._points)

    def ask(self, t: float) -> None:
        """A reading begins."""
        self._asked = t

    def take(self, vitals: Vitals) -> None:
        """A reading."""
        self._asked = None
        t = vitals.sample.t
        self._enter("ok", t)
        if self._window and self._began_anew(vitals):
            self._window.clear()
            self._marks.clear()
        self._epoch = vitals.sample.epoch
        self._model = vitals.model
        stalled_s = self._stalled_s(vitals)
        self._window.append(vitals)
        while len(self._window) > 2 and self._window[1].sample.t <= t - self._window_s:
            self._window.popleft()
        if len(self._window) > 1 and self._window[0].sample.t < t - 3 * self._window_s:  # after a gap: of now, not of then
            self._window.popleft()
        self._mark(vitals)
        self._points.append(_figures(self._window, stalled_s))
        while self._points[0].t < t - KEPT_S:
            self._points.popleft()

    def fail(self, t: float, why: str) -> None:
        """A reading that came to nothing, and what it said."""
        self._asked = None
        self._enter("failing", t)
        self._why = why
        self._failures += 1

    def leave(self, t: float) -> None:
        """It is not among the replicas any more."""
        self._asked = None
        self._enter("gone", t)

    def come_back(self, t: float) -> None:
        """It is among them again."""
        if self._state == "gone":
            self._enter("unread", t)
            self._joined = t

    def row(self, now: float) -> Row:
        """How it stands."""
        figures = self._points[-1] if self._points and self._state == "ok" else None
        model, of_run = self._model, None if self._knee is None else self._knee.model
        return Row(
            url=self.url,
            state=self._state,
            since_s=max(0.0, now - self._since),
            why=self._why if self._state == "failing" else None,
            figures=figures,
            model=model,
            other_model=of_run if model is not None and model != of_run else None,
            read_s=None if figures is None else max(0.0, now - figures.t),
            unanswered_s=None if self._asked is None else max(0.0, now - self._asked),
            load=None if figures is None else self._load(figures),
            growth=self._growth(now) if figures is not None else None,
            restarted_s=_lately(self._restarted, now),
            joined_s=_lately(self._joined, now),
            several=_lately(self._mixed, now) is not None,
            failures=self._failures,
        )

    def _enter(self, state: State, t: float) -> None:
        if state != self._state:
            self._state, self._since = state, t

    def _began_anew(self, vitals: Vitals) -> bool:
        """Whether counters began again, so that no difference to what was before means anything. A process that began earlier than
        the one before is another one."""
        last, t = self._window[-1], vitals.sample.t
        epoch, before = vitals.sample.epoch, self._epoch
        apart = epoch is not None and before is not None and abs(epoch - before) > _SAME_START_S
        if apart and epoch is not None and before is not None and epoch < before:
            self._mixed = t
            return True
        if apart or any(_fell(before, after) for before, after in zip(_counters(last), _counters(vitals), strict=True)):
            self._restarted = t
            return True
        return False

    def _stalled_s(self, vitals: Vitals) -> float | None:
        """For how long nothing has come of the requests in flight; None where the server does not tell, or is idle."""
        tokens, t = _tokens(vitals), vitals.sample.t
        if tokens is None or not _in_flight([vitals]):
            self._moved = None
        elif self._moved is None or not self._window or tokens != _tokens(self._window[-1]):
            self._moved = t
        return None if self._moved is None else t - self._moved

    def _mark(self, vitals: Vitals) -> None:
        """Requests that have come so far: those that finished, and those in flight."""
        t, come = vitals.sample.t, _come(vitals)
        if come is not None and (not self._marks or t - self._marks[-1][0] >= BIN_S - _EARLY_S):
            self._marks.append((t, come))
            while self._marks[0][0] < t - SPAN_S - BIN_S:
                self._marks.popleft()

    def _growth(self, now: float) -> Growth | None:
        if self._knee is None:
            return None
        marks = list(self._marks)
        bins = [(begin[0], end[0], end[1] - begin[1]) for begin, end in pairwise(marks)]
        return growth(bins, self._knee.pass_rps, now)

    def _load(self, figures: Figures) -> Load | None:
        if figures.stalled_s is not None and figures.stalled_s >= STALLED_S:
            return Load(1.0, "stalled")
        if self._knee is not None:
            if figures.arriving_rps is None:
                return None
            frac = figures.arriving_rps / self._knee.pass_rps
            late = self._knee.wait_s is not None and figures.wait_s is not None and figures.wait_s > self._knee.wait_s
            return Load(1.0, "waiting") if late and frac < 1.0 else Load(frac, "knee")
        if figures.queued:
            return Load(1.0, "waiting")
        return None if figures.kv_usage_frac is None else Load(figures.kv_usage_frac, "kv")


def _figures(window: deque[Vitals], stalled_s: float | None) -> Figures:
    """Of the newest reading, against the oldest of the window."""
    newest, oldest = window[-1], window[0]
    sample, before = newest.sample, oldest.sample
    now = Figures(
        t=sample.t,
        engines=sample.engines,
        running=sample.running,
        waiting=sample.waiting,
        kv_usage_frac=sample.kv_usage_max_frac,
        stalled_s=stalled_s,
    )
    over_s = sample.t - before.t
    if over_s <= 0:
        return now

    def rate(value: Callable[[Vitals], float | None]) -> float | None:
        first, last = value(oldest), value(newest)
        return None if first is None or last is None else max(0.0, last - first) / over_s

    def percentile(value: Callable[[Vitals], Buckets | None], q: float) -> Estimate | None:
        first, last = value(oldest), value(newest)
        return None if first is None or last is None or oldest.tpot_of != newest.tpot_of else quantile(first, last, q)

    hits, queries = rate(lambda v: v.sample.prefix_hits_total), rate(lambda v: v.sample.prefix_queries_total)
    finished_rps = rate(lambda v: v.sample.requests_success_total)
    return replace(
        now,
        queued=min((each.sample.waiting or 0.0 for each in list(window)[-2:]), default=None),
        over_s=over_s,
        in_flight=_in_flight(window),
        wait_s=_wait_s(window, finished_rps, over_s),
        arriving_rps=rate(_come),
        finished_rps=finished_rps,
        errors_per_s=rate(lambda v: v.errors_total),
        preemptions_per_s=rate(lambda v: v.sample.preemptions_total),
        prefix_hit_frac=None if hits is None or not queries else min(1.0, hits / queries),
        prompt_tps=rate(lambda v: v.sample.prompt_tokens_total),
        output_tps=rate(lambda v: v.sample.generation_tokens_total),
        ttft_p50=percentile(lambda v: v.ttft, 0.5),
        ttft_p95=percentile(lambda v: v.ttft, 0.95),
        tpot_p50=percentile(lambda v: v.tpot, 0.5),
        tpot_p95=percentile(lambda v: v.tpot, 0.95),
        tpot_of=newest.tpot_of,
    )


def _come(vitals: Vitals) -> float | None:
    sample = vitals.sample
    if sample.requests_success_total is None or sample.running is None:
        return None
    return sample.requests_success_total + sample.running + (sample.waiting or 0.0)


def _wait_s(window: Iterable[Vitals], finished_rps: float | None, over_s: float) -> float | None:
    """By Little's law, of the shortest queue that was seen: what comes to its end waits for as long as the queue takes to go."""
    waiting = [each.sample.waiting for each in window if each.sample.waiting is not None]
    if finished_rps is None or not waiting or finished_rps * over_s < _ENOUGH_FINISHED:
        return None
    return min(waiting) / finished_rps


def _tokens(vitals: Vitals) -> tuple[float | None, ...] | None:
    """What moves while requests get on; None where the server counts no output tokens, for without those a long answer and a stuck
    one look alike."""
    sample = vitals.sample
    if sample.generation_tokens_total is None:
        return None
    return sample.generation_tokens_total, sample.prompt_tokens_total, sample.requests_success_total


def _in_flight(window: Collection[Vitals]) -> float | None:
    known = [each.sample.running + (each.sample.waiting or 0.0) for each in window if each.sample.running is not None]
    return sum(known) / len(known) if known else None


def _counters(vitals: Vitals) -> tuple[float | None, ...]:
    """What only grows while a server runs. Errors are the more of two counts, and grow with them."""
    sample = vitals.sample
    return (
        sample.requests_success_total,
        sample.prompt_tokens_total,
        sample.generation_tokens_total,
        sample.preemptions_total,
        sample.prefix_queries_total,
        *(each.counts[-1] if each is not None else None for each in (vitals.ttft, vitals.tpot)),
    )


def _fell(before: float | None, after: float | None) -> bool:
    return before is not None and after is not None and after < before


def _lately(then: float | None, now: float) -> float | None:
    return None if then is None or now - then > TOLD_S else max(0.0, now - then)

"""Every request of a run as one row with stable names: where it stood in the run, and what became of it."""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

import msgspec

from core.config import ProbeConfig, Slo
from core.judge import CLOSING_S
from core.records import (
    ASIDE,
    ClosedOrder,
    Ending,
    Phase,
    RepeatOrder,
    RequestEnded,
    RequestFirst,
    RequestHeld,
    RequestSent,
    Role,
    Segment,
)
from core.results import RepeatVerdict
from core.run.events import ClosedStarted, Event, RepeatJudged, RepeatStarted, RunStarted, SearchRestarted, WorkloadKnown
from core.schedule import draw
from core.slo import e2e_s, least_margin_of_cut, margin, tpot_s, ttft_s, within

_DIGITS = 9
"""Nanoseconds: a difference of two clock readings has no more."""


class RequestRow(msgspec.Struct, frozen=True, kw_only=True):
    """One request, in the order of the columns; None where not known. docs/report.md says what each one means.

    Times in seconds: `scheduled_s` and `sent_s` since the run began, the others as they are named. `rate_rps` in requests a second.
    """

    step: int | None
    phase: Phase | Literal["closed"] | None
    rate_rps: float | None
    repeat: int | None
    verdict: RepeatVerdict | None
    set_aside: bool
    role: Role | None
    in_window: bool
    order: int
    index: int
    scheduled_s: float
    sent_s: float | None
    lateness_s: float | None
    gateway_wait_s: float | None
    ttft_s: float | None
    tpot_s: float | None
    e2e_s: float | None
    itl_mean_s: float | None
    itl_max_s: float | None
    asked_input_tokens: int | None
    asked_output_tokens: int | None
    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None
    ending: Ending | None
    status: int | None
    finish_reason: str | None
    error: str | None
    good: bool | None
    margin: float | None
    retries: int | None
    backend: str | None


def request_rows(events: Callable[[], Iterable[Event]]) -> Iterator[RequestRow]:
    """The requests of a run in the order in which they ended; behind them those whose end is not recorded, as of a run that was
    killed. A request that was planned and never left has no row.

    `events` gives the events of the run anew each time: they are gone through twice, for a verdict comes after its requests.
    Raises ValueError where no run begins there.
    """
    verdicts, aside = _judged(events())
    rows = _Rows(verdicts, aside)
    for event in events():
        yield from rows.of(event)
    yield from rows.unfinished()


# --- from events to rows ------------------------------------------------------------------------------------------


def _judged(events: Iterable[Event]) -> tuple[dict[tuple[int, int], RepeatVerdict], set[int]]:
    """The verdict of each repeat by its order and index, and the orders that are set aside because the server was away."""
    verdicts: dict[tuple[int, int], RepeatVerdict] = {}
    orders: set[int] = set()
    aside: set[int] = set()
    for event in events:
        match event:
            case RepeatStarted():
                orders.add(event.order.order)
            case RepeatJudged():
                verdicts[event.result.order, event.result.index] = event.result.verdict
            case SearchRestarted():
                aside |= orders
            case _:
                pass
    return verdicts, aside


class _Place(msgspec.Struct, frozen=True):
    """Where one request stands in its run."""

    step: int | None = None
    phase: Phase | Literal["closed"] | None = None
    rate_rps: float | None = None
    repeat: int | None = None
    role: Role | None = None


class _Order:
    """An order that is being sent: which segment each of its requests belongs to, and which of them left."""

    def __init__(self, order: RepeatOrder, config: ProbeConfig) -> None:
        plan = draw(order, config.workload)
        segments = order.segments or (Segment(rate_rps=1.0, duration_s=1.0, role="measured"),)
        self._segment = plan.segment
        aside, hold = order.phase in ASIDE, order.phase == "hold"
        measured = itertools.accumulate(segment.role == "measured" for segment in segments)
        self._places = [
            _Place(
                None if aside else order.step,
                order.phase,
                segment.rate_rps if order.segments and not aside else None,
                order.repeat + (max(n - 1, 0) if hold else 0),
                None if aside else segment.role,
            )
            for segment, n in zip(segments, measured, strict=True)
        ]

    def place(self, index: int) -> _Place:
        return self._places[int(self._segment[index])]


class _Rows:
    """Follows a run, and keeps no more of it than what is open."""

    def __init__(self, verdicts: dict[tuple[int, int], RepeatVerdict], aside: set[int]) -> None:
        self._verdicts, self._aside = verdicts, aside
        self._began_at = 0.0
        self._config: ProbeConfig | None = None
        self._orders: dict[int, _Order | ClosedOrder] = {}
        self._open: dict[tuple[int, int], RequestHeld | RequestSent] = {}
        self._first: dict[tuple[int, int], RequestFirst] = {}

    def of(self, event: Event) -> Iterator[RequestRow]:
        """The row that an event completes."""
        match event:
            case RunStarted():
                self._began_at, self._config = event.t, event.config
            case WorkloadKnown() if self._config is not None:
                self._config = event.known(self._config)
            case RepeatStarted() if self._config is not None:
                self._orders[event.order.order] = _Order(event.order, self._config)
            case ClosedStarted():
                self._orders[event.order.order] = event.order
            case RequestHeld() | RequestSent() if self._config is not None:
                self._open[event.order, event.index] = event
            case RequestFirst():
                self._first[event.order, event.index] = event
            case RequestEnded():
                if self._config is None:
                    raise ValueError("no run begins here")
                left = self._open.pop((event.order, event.index), None)
                self._first.pop((event.order, event.index), None)
                yield self._ended(event, left)
            case _:
                pass

    @property
    def _slo(self) -> Slo:
        assert self._config is not None
        return self._config.slo

    def unfinished(self) -> Iterator[RequestRow]:
        """What left, or waits at a gateway's limit, and has no end in the file."""
        for (order, index), left in self._open.items():
            first = self._first.get((order, index))
            yield self._row(
                order,
                index,
                left,
                t_sched=left.t_sched,
                ttft_s=None if first is None else first.t_first - left.t_sched,
            )

    def _ended(self, record: RequestEnded, left: RequestHeld | RequestSent | None) -> RequestRow:
        gaps = record.gaps
        share = margin(record, self._slo)
        return self._row(
            record.order,
            record.index,
            left,
            t_sched=record.t_sched,
            t_sent=record.t_sent,
            gateway_wait_s=record.gateway_wait_s,
            ttft_s=ttft_s(record),
            tpot_s=tpot_s(record),
            e2e_s=e2e_s(record),
            itl_mean_s=gaps.sum_s / gaps.n if gaps.n else None,
            itl_max_s=gaps.max_s if gaps.n else None,
            asked_input_tokens=record.asked_input,
            asked_output_tokens=record.asked_output,
            input_tokens=record.prompt_tokens,
            output_tokens=record.output_tokens,
            cached_tokens=record.cached_tokens,
            ending=record.ending,
            status=record.status,
            finish_reason=_line(record.finish_reason),
            error=_line(record.error),
            good=self._good(record, share),
            margin=share if share is not None and math.isfinite(share) else None,
            retries=record.retries,
            backend=_line(record.backend),
        )

    def _good(self, record: RequestEnded, share: float | None) -> bool | None:
        """Whether it met every limit; None of one that was cut off before that was decided, as the run counts it live."""
        if record.ending == "ok":
            return within(share)
        if record.ending != "aborted":
            return False
        return False if least_margin_of_cut(record, self._slo, CLOSING_S) > 1 else None

    def _row(
        self,
        number: int,
        index: int,
        left: RequestHeld | RequestSent | None,
        *,
        t_sched: float,
        t_sent: float | None = None,
        gateway_wait_s: float | None = None,
        **known: Any,
    ) -> RequestRow:
        order = self._orders.get(number)
        place = order.place(index) if isinstance(order, _Order) else _Place() if order is None else _Place(phase="closed")
        connect_s = 0.0
        if isinstance(left, RequestSent):
            t_sent, connect_s = left.t_sent, left.connect_s
            gateway_wait_s = left.gateway_wait_s
        late_s = None if t_sent is None else t_sent - t_sched - connect_s - (gateway_wait_s or 0.0)
        values: dict[str, Any] = {
            **dict.fromkeys(RequestRow.__struct_fields__),
            **known,
            "step": place.step,
            "phase": place.phase,
            "rate_rps": place.rate_rps,
            "repeat": place.repeat,
            "verdict": None if place.repeat is None else self._verdicts.get((number, place.repeat)),
            "set_aside": number in self._aside and place.role is not None,
            "role": place.role,
            "in_window": place.role == "measured" and place.phase != "ramp",
            "order": number,
            "index": index,
            "scheduled_s": t_sched - self._began_at,
            "sent_s": None if t_sent is None else t_sent - self._began_at,
            "lateness_s": late_s,
            "gateway_wait_s": gateway_wait_s,
        }
        for name in _TIMES:
            if values[name] is not None:
                values[name] = round(values[name], _DIGITS)
        return RequestRow(**values)


_TIMES = tuple(name for name in RequestRow.__struct_fields__ if name.endswith("_s"))


def _line(text: str | None) -> str | None:
    """In one line, without control characters."""
    return None if text is None else " ".join("".join(char if char.isprintable() else " " for char in text).split())

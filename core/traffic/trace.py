"""A recorded trace in columns, and what may be taken from it: a window, the rows that fit a context."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.errors import UserError
from core.facts import Fact, fact
from core.traffic.refusals import BadRows, too_many_bad
from core.traffic.rows import TraceRow
from core.traffic.trace_forms import TimeUnit, TraceFormat
from core.units import count, duration
from core.workloads import TraceWindow

NAME, WINDOW = "--trace", "--trace-window"
_DUST_S = 1e-9


@dataclass(frozen=True, slots=True)
class Chains:
    """The hash ids of all rows, one after the other: those of row i are `ids[begins[i]:begins[i + 1]]`."""

    block_tokens: int
    begins: NDArray[np.int64] = field(repr=False)
    ids: NDArray[np.int64] = field(repr=False)

    def part(self, low: int, high: int) -> "Chains":
        """Those of some rows that follow each other."""
        begins = self.begins[low : high + 1]
        return Chains(self.block_tokens, begins - begins[0], self.ids[int(begins[0]) : int(begins[-1])])

    def of(self, rows: NDArray[np.int64]) -> "Chains":
        """Those of the rows at these places."""
        lengths = np.diff(self.begins)[rows]
        begins = np.append(0, np.cumsum(lengths))
        places = np.repeat(self.begins[rows] - begins[:-1], lengths) + np.arange(begins[-1])
        return Chains(self.block_tokens, begins, self.ids[places])


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Rows of the file that are not in the trace.

    `before[i]`: how many rows of the trace stand before the i-th of them in the file. `examples` are the first ones, each with its
    line and reason.
    """

    before: NDArray[np.int64] = field(repr=False)
    examples: tuple[Fact, ...] = ()

    def __len__(self) -> int:
        return int(self.before.size)

    def part(self, low: int, high: int, last: bool) -> "LeftOut":
        """Those that stand among some rows that follow each other; with `last` also those behind them."""
        first, end = np.searchsorted(self.before, low), self.before.size if last else np.searchsorted(self.before, high)
        return LeftOut(self.before[first:end] - low, self.examples[int(first) : int(end)])


@dataclass(frozen=True, slots=True)
class Trace:
    """Requests as they were recorded, by time. All columns have the same length and are read-only.

    `time_s` counts from the beginning of the trace or window, which is `clock_s` on the recording's own clock and `span_s` long.
    `unit`: what the timestamps of the file count. `tick_s`: they are cut to such steps; None if they are not, or are spread.
    `sessions` are numbers, -1 is none. `bad` rows cannot be used; `failed` ones have no tokens, they are requests that failed.
    """

    file: str
    format: TraceFormat
    unit: TimeUnit
    clock_s: float
    span_s: float
    time_s: NDArray[np.float64] = field(repr=False)
    input_tokens: NDArray[np.int32] = field(repr=False)
    output_tokens: NDArray[np.int32] = field(repr=False)
    sessions: NDArray[np.int32] | None = field(default=None, repr=False)
    chains: Chains | None = field(default=None, repr=False)
    tick_s: float | None = None
    bad: LeftOut = field(default_factory=lambda: LeftOut(np.zeros(0, dtype=np.int64)))
    failed: LeftOut = field(default_factory=lambda: LeftOut(np.zeros(0, dtype=np.int64)))
    notes: tuple[Fact, ...] = ()

    def __len__(self) -> int:
        return int(self.time_s.size)

    @property
    def rate_rps(self) -> float | None:
        """Requests per second over its span; None where all came at once."""
        return len(self) / self.span_s if self.span_s > 0 else None

    def row(self, place: int) -> TraceRow:
        """One request."""
        ids = None
        if self.chains is not None:
            ids = tuple(self.chains.ids[self.chains.begins[place] : self.chains.begins[place + 1]].tolist())
        session = None if self.sessions is None or self.sessions[place] < 0 else int(self.sessions[place])
        return TraceRow(
            float(self.time_s[place]),
            int(self.input_tokens[place]),
            int(self.output_tokens[place]),
            ids,
            None if self.chains is None else self.chains.block_tokens,
            session,
        )

    def rows(self) -> Iterator[TraceRow]:
        """All of them, by time."""
        return map(self.row, range(len(self)))

    @property
    def found(self) -> tuple[Fact, ...]:
        """What was recognised, with the unit of the timestamps and the rate that results; then what is worth a word."""
        what = fact(
            "trace_found",
            file=self.file,
            form=self.format,
            unit=self.unit,
            rows=len(self),
            span_s=self.span_s,
            rate_rps=self.rate_rps,
            input_tokens=float(self.input_tokens.mean()),
            output_tokens=float(self.output_tokens.mean()),
        )
        return (what, *self._said())

    def _said(self) -> Iterator[Fact]:
        if self.tick_s is not None:
            alike = np.unique(self.time_s, return_counts=True)[1]
            shared = int(alike[alike > 1].sum()) / len(self)
            yield fact("trace_tick", tick_s=self.tick_s, most_at_once=int(alike.max()), shared_frac=shared)
        if self.chains is not None:
            yield fact("trace_blocks", block_tokens=self.chains.block_tokens)
        if len(self.failed):
            yield fact("trace_failed", rows=len(self.failed), rows_frac=len(self.failed) / (len(self.failed) + len(self)))
        if len(self.bad):
            yield fact("rows_bad", *self.bad.examples[:5], bad=len(self.bad), drawn=len(self.bad) + len(self))
        yield from self.notes


def usable(trace: Trace) -> Trace:
    """The trace, or BadRows if more than 1 % of the rows that it was made of cannot be used, or none can."""
    if not len(trace) or too_many_bad(len(trace.bad), len(trace)):
        raise BadRows(NAME, trace.file, trace.bad.examples, len(trace) + len(trace.bad), len(trace))
    return trace


def window(trace: Trace, asked: TraceWindow) -> Trace:
    """The window that is asked for, with its rows counted from its own beginning. UserError where the trace has none such."""
    if asked.duration_s > trace.span_s + _DUST_S:
        raise UserError(
            f"{WINDOW}: {duration(asked.duration_s)} is longer than the trace, which lasts {duration(trace.span_s)}; ask for less."
        )
    at_s = _busiest(trace, asked.duration_s) if asked.at_s is None else asked.at_s
    if at_s + asked.duration_s > trace.span_s + _DUST_S:
        raise UserError(
            f"{WINDOW}: a window of {duration(asked.duration_s)} from {duration(at_s)} on would end after the trace, which lasts "
            f"{duration(trace.span_s)}; let it begin at {duration(trace.span_s - asked.duration_s)} or before."
        )
    part = _between(trace, at_s, at_s + asked.duration_s)
    if not len(part):
        raise UserError(f"{WINDOW}: no request is recorded in {duration(asked.duration_s)} from {duration(at_s)} on; take another.")
    said = fact(
        "trace_window",
        from_s=at_s,
        duration_s=asked.duration_s,
        busiest=asked.at_s is None,
        rows=len(part),
        rate_rps=part.rate_rps,
        whole_rate_rps=trace.rate_rps,
    )
    return replace(part, notes=(*part.notes, said))


def _busiest(trace: Trace, duration_s: float) -> float:
    """Where a window of this length holds most requests: one that begins with a request and ends inside the trace."""
    latest = trace.span_s - duration_s
    begins = np.append(trace.time_s[trace.time_s <= latest], latest)
    counts = np.searchsorted(trace.time_s, begins + duration_s) - np.searchsorted(trace.time_s, begins)
    return float(begins[int(counts.argmax())])


def _between(trace: Trace, from_s: float, to_s: float) -> Trace:
    """The rows of [from, to); a row at the very end of the trace belongs to what ends there."""
    last = to_s >= trace.span_s - _DUST_S
    low = int(np.searchsorted(trace.time_s, from_s))
    high = len(trace) if last else int(np.searchsorted(trace.time_s, to_s))
    rows = slice(low, high)
    return replace(
        trace,
        clock_s=trace.clock_s + from_s,
        span_s=to_s - from_s,
        time_s=frozen(trace.time_s[rows] - from_s),
        input_tokens=trace.input_tokens[rows],
        output_tokens=trace.output_tokens[rows],
        sessions=None if trace.sessions is None else trace.sessions[rows],
        chains=None if trace.chains is None else trace.chains.part(low, high),
        bad=trace.bad.part(low, high, last),
        failed=trace.failed.part(low, high, last),
    )


def fitting(trace: Trace, context_tokens: int) -> Trace:
    """Without the rows whose prompt and answer are together longer than the model takes; their share is among the notes.

    Raises UserError if none fits.
    """
    tokens = trace.input_tokens.astype(np.int64) + trace.output_tokens
    kept = np.flatnonzero(tokens <= context_tokens)
    dropped = len(trace) - kept.size
    if not dropped:
        return trace
    if not kept.size:
        raise UserError(
            f"{NAME}: no request of {trace.file} fits into the model's {count(context_tokens, 'token')}; the shortest has "
            f"{count(int(tokens.min()), 'token')}."
        )
    said = fact(
        "trace_unfit",
        rows=dropped,
        rows_frac=dropped / len(trace),
        tokens_frac=1 - int(tokens[kept].sum()) / int(tokens.sum()),
        context_tokens=context_tokens,
    )
    return replace(
        trace,
        time_s=frozen(trace.time_s[kept]),
        input_tokens=frozen(trace.input_tokens[kept]),
        output_tokens=frozen(trace.output_tokens[kept]),
        sessions=None if trace.sessions is None else frozen(trace.sessions[kept]),
        chains=None if trace.chains is None else trace.chains.of(kept),
        bad=replace(trace.bad, before=np.searchsorted(kept, trace.bad.before)),
        failed=replace(trace.failed, before=np.searchsorted(kept, trace.failed.before)),
        notes=(*trace.notes, said),
    )


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """The array, which nobody changes any more."""
    array.setflags(write=False)
    return array

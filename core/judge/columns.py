"""Events of many requests of one order as columns, so that an account can take them in together."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.config import Slo
from core.records import Ending, RequestEnded
from core.slo import ENOUGH_COUNTED, margins

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Mask = NDArray[np.bool_]
Rows = list[float | None]


SEND_WIDTH = 5
"""Values in a row of `Sends`."""


@dataclass(frozen=True, slots=True)
class Comes:
    """Requests that came, to the server or to a gateway that held them back: `t` is when."""

    index: Indices
    t_sched: Floats
    t: Floats


@dataclass(frozen=True, slots=True)
class Sends:
    """Requests that left, in the order in which they were told, and in `come` those that came, in the order of that.
    `told`: how many events that were."""

    told: int
    come: Comes
    index: Indices
    t_sent: Floats
    lateness_s: Floats

    @classmethod
    def of(cls, rows: Rows, held: Sequence[int] = (), let_through: Sequence[int] = ()) -> "Sends":
        """`rows`: of each (index, t_sched, t_sent, connect_s, gateway_wait_s), one behind the other. `held`: which of them
        only come, with the time of that for `t_sent`; `let_through`: which of them had come before."""
        columns = _columns(rows, SEND_WIDTH)
        coming, leaving = columns, columns
        if held or let_through:
            coming, leaving = np.delete(columns, let_through, axis=1), np.delete(columns, held, axis=1)
        index, t_sched, t, *_ = coming
        come = Comes(index.astype(np.int64), t_sched, t)
        index, t_sched, t_sent, connect_s, gateway_wait_s = leaving
        return cls(columns.shape[1], come, index.astype(np.int64), t_sent, t_sent - t_sched - connect_s - gateway_wait_s)


@dataclass(frozen=True, slots=True)
class Firsts:
    """Their first tokens."""

    index: Indices
    t_first: Floats
    first_tokens: Floats

    @classmethod
    def of(cls, rows: Rows) -> "Firsts":
        """`rows`: of each (index, t_first, first_tokens), one behind the other."""
        index, t_first, first_tokens = _columns(rows, 3)
        return cls(index.astype(np.int64), t_first, first_tokens)


@dataclass(frozen=True, slots=True)
class Ends:
    """Their ends, none of which was cut off. What there is not is NaN; `margin` is `core.slo.margin`, and `tpot_s` the one of
    `core.slo.tpot_s`, of those that ended ok. `closing_s` is the longest of all. `left`: it had been sent, and was not turned away
    by a gateway's limit."""

    index: Indices
    t_sched: Floats
    t_first: Floats
    t_last: Floats
    t_end: Floats
    ok: Mask
    left: Mask
    endings: tuple[Ending, ...]
    margin: Floats
    tpot_s: Floats
    closing_s: float

    @classmethod
    def of(cls, rows: Rows, endings: Sequence[Ending], slo: Slo, turned_away: Sequence[int] = ()) -> "Ends":
        """`rows`: what `ended_row` is of each, one behind the other, `endings` how they ended. `slo`: the limits of the run.
        `turned_away`: which of them never left."""
        index, t_sched, t_first, t_last, t_end, first_tokens, output_tokens, asked_input, asked_output, by_events = _columns(
            rows, 10
        )
        left = np.ones(len(endings), dtype=bool)
        left[list(turned_away)] = False
        ok = np.array([ending == "ok" for ending in endings], dtype=bool)
        uncounted = (by_events > 0) & (output_tokens < ENOUGH_COUNTED * asked_output)
        tpot_s = _per_token_s(t_first, t_last, output_tokens - first_tokens)
        least_s = np.where(uncounted, _per_token_s(t_first, t_last, asked_output - first_tokens), tpot_s)
        share = margins(slo, asked_input, asked_output, t_first - t_sched, t_last - t_sched, least_s)
        lags_s = (2 * (t_end - t_last))[ok & ~np.isnan(t_last)]
        return cls(
            index=index.astype(np.int64),
            t_sched=t_sched,
            t_first=t_first,
            t_last=t_last,
            t_end=t_end,
            ok=ok,
            left=left,
            endings=tuple(endings),
            margin=np.where(ok, share, np.nan),
            tpot_s=np.where(ok & ~uncounted, tpot_s, np.nan),
            closing_s=float(lags_s.max(initial=0.0)),
        )

    @property
    def good(self) -> Mask:
        """Ended ok, and inside every limit that it has."""
        return self.ok & ~(self.margin > 1.0)


def ended_row(event: RequestEnded) -> tuple[float | None, ...]:
    """What `Ends` needs of a request that ended."""
    return (
        event.index,
        event.t_sched,
        event.t_first,
        event.t_last,
        event.t_end,
        event.first_tokens,
        event.output_tokens,
        event.asked_input,
        event.asked_output,
        event.counted_by == "events",
    )


def _columns(rows: Rows, width: int) -> Floats:
    return np.ascontiguousarray(np.array(rows, dtype=np.float64).reshape(-1, width).T)


def _per_token_s(t_first: Floats, t_last: Floats, later_tokens: Floats) -> Floats:
    known = later_tokens > 0
    return np.where(known, (t_last - t_first) / np.where(known, later_tokens, 1.0), np.nan)

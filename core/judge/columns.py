"""Events of many requests of one order as columns, so that an account can take them in together."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from core.config import Slo
from core.records import RequestEnded, RequestFirst, RequestSent
from core.slo import ENOUGH_COUNTED, margins

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Mask = NDArray[np.bool_]


class Sends(NamedTuple):
    """Requests that left, in the order in which they were told."""

    index: Indices
    t_sched: Floats
    t_sent: Floats
    lateness_s: Floats

    @classmethod
    def of(cls, events: Sequence[RequestSent]) -> "Sends":
        rows = [x for e in events for x in (e.index, e.t_sched, e.t_sent, e.connect_s, e.gateway_wait_s)]
        index, t_sched, t_sent, connect_s, gateway_wait_s = _columns(rows, 5)
        return cls(index.astype(np.int64), t_sched, t_sent, t_sent - t_sched - connect_s - gateway_wait_s)


class Firsts(NamedTuple):
    """Their first tokens."""

    index: Indices
    t_first: Floats
    first_tokens: Floats

    @classmethod
    def of(cls, events: Sequence[RequestFirst]) -> "Firsts":
        index, t_first, first_tokens = _columns([x for e in events for x in (e.index, e.t_first, e.first_tokens)], 3)
        return cls(index.astype(np.int64), t_first, first_tokens)


class Ends(NamedTuple):
    """Their ends, none of which was cut off. What there is not is NaN; `margin` is `core.slo.margin`, and `tpot_s` the one of
    `core.slo.tpot_s`, of those that ended ok. `closing_s` is the longest of all."""

    index: Indices
    t_sched: Floats
    t_first: Floats
    t_last: Floats
    t_end: Floats
    ok: Mask
    endings: tuple[str, ...]
    margin: Floats
    tpot_s: Floats
    closing_s: float

    @classmethod
    def of(cls, events: Sequence[RequestEnded], slo: Slo) -> "Ends":
        """`slo`: the limits of the run."""
        rows = [
            x
            for e in events
            for x in (e.index, e.t_sched, e.t_first, e.t_last, e.t_end, e.first_tokens, e.output_tokens, e.asked_input, e.asked_output)
        ]
        index, t_sched, t_first, t_last, t_end, first_tokens, output_tokens, asked_input, asked_output = _columns(rows, 9)
        endings = tuple([e.ending for e in events])
        ok = np.array([ending == "ok" for ending in endings], dtype=bool)
        uncounted = np.array([e.counted_by == "events" for e in events], dtype=bool) & (output_tokens < ENOUGH_COUNTED * asked_output)
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
            endings=endings,
            margin=np.where(ok, share, np.nan),
            tpot_s=np.where(ok & ~uncounted, tpot_s, np.nan),
            closing_s=float(lags_s.max(initial=0.0)),
        )

    @property
    def good(self) -> Mask:
        """Ended ok, and inside every limit that it has."""
        return self.ok & ~(self.margin > 1.0)


def _columns(rows: list[float | None], width: int) -> Floats:
    return np.ascontiguousarray(np.array(rows, dtype=np.float64).reshape(-1, width).T)


def _per_token_s(t_first: Floats, t_last: Floats, later_tokens: Floats) -> Floats:
    known = later_tokens > 0
    return np.where(known, (t_last - t_first) / np.where(known, later_tokens, 1.0), np.nan)

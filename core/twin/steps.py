"""How long a step of the measured server takes, fitted from the records of its requests.

While a request decodes, every step gives it one token. So its tokens are the steps that fit into its decode time, if a step takes
a + b * decoding + c * KV tokens + p * prompt tokens: who decodes at a moment, with how many KV tokens, follows from the records,
and so does when prompts are computed, just before first tokens. The constants are those by which every request gets its number of
steps. (Least squares of decode times on tokens, KV tokens and prompt tokens during each life are quicker and their b is off by
.92, c by .35, p by .13 on `chat`: tokens do not come evenly. Counting steps, b and c are off by .03 and p by .004.)
"""

from collections.abc import Iterable, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from core.engine import StepModel
from core.records import RequestRecord

Floats = NDArray[np.float64]

LEAST_REQUESTS = 150
"""With fewer, the constants follow the noise."""
LEAST_STEPS = 8
"""Requests of fewer steps tell little of one, and the edges of their lives much."""
_ROUNDS = 5
"""Of Gauss and Newton: after the third no constant of the built-in replicas moved by a standard error."""
_NUDGE = 0.01
_ORDINARY = 2.5
"""Requests further off than so many deviations count less: those that were preempted waited, too."""
_LEAST_SPREAD = 0.1


def fit(records: Sequence[RequestRecord]) -> StepModel | None:
    """The constants of a step by the decode times of these requests, of one or more orders; None where fewer than LEAST_REQUESTS
    tell, or where no constants explain them."""
    return fit_lives(lives_of(records))


def fit_lives(lives: "Sequence[Lives]") -> StepModel | None:
    """The same by the lives of the requests of each order."""
    tokens = np.concatenate([each.tokens for each in lives]) if lives else np.zeros(0)
    if tokens.size < LEAST_REQUESTS:
        return None
    weight, order = 1 / np.sqrt(tokens), np.repeat(np.arange(len(lives)), [each.tokens.size for each in lives])

    def steps(constants: Floats) -> Floats:
        return np.concatenate([each.steps(constants) for each in lives])

    constants, typical = _first_guess(lives)
    if constants[:2].sum() <= 0:
        return None
    counted = steps(constants)
    for _ in range(_ROUNDS):
        trusted = weight * _trust(np.abs(counted - tokens) * weight, order)
        nudges = np.diag(_NUDGE * typical)
        slopes = np.column_stack([(steps(constants + nudge) - counted) / nudge.sum() for nudge in nudges])
        better = _least_squares(-slopes * trusted[:, None], (counted - tokens - slopes @ constants) * trusted)
        if better[:2].sum() <= 0:
            return None
        constants, counted = better, steps(better)
    a_s, b_s, c_s, p_s = constants.tolist()
    return StepModel(a_s=a_s, b_s=b_s, c_s=c_s, p_s=p_s, error_frac=float(np.median(np.abs(counted / tokens - 1))))


def lives_of(records: Iterable[RequestRecord]) -> list["Lives"]:
    """Those of each order."""
    by_order: dict[int, list[RequestRecord]] = {}
    for record in records:
        if record.t_first is not None:
            by_order.setdefault(record.order, []).append(record)
    return [Lives(each) for each in by_order.values()]


class Lives:
    """One order's requests, in seconds since its first token: who decoded when, and `tokens` of those usable for a fit."""

    def __init__(self, records: Sequence[RequestRecord]) -> None:
        first = np.array([record.t_first for record in records], dtype=np.float64)
        ends = [record.t_last if record.ending == "ok" else record.t_end for record in records]
        start_s = float(first.min())
        self._first, last = first - start_s, np.array(ends, dtype=np.float64) - start_s
        prompt = np.array([record.prompt_tokens or record.asked_input for record in records], dtype=np.float64)
        cached = np.array([record.cached_tokens or 0 for record in records], dtype=np.float64)
        whole = np.array([record.ending == "ok" for record in records], dtype=bool)
        tokens = _with_guesses(np.array([r.output_tokens - r.first_tokens for r in records]), self._first, last, whole)
        lasting = (last > self._first) & (tokens > 0)
        self._changes(self._first[lasting], last[lasting], tokens[lasting], prompt[lasting])
        usable = lasting & whole & (tokens >= LEAST_STEPS)
        self.began, self.ended, self.tokens = self._first[usable], last[usable], tokens[usable]
        by_first = np.argsort(self._first, kind="stable")
        self._first, self._computed = self._first[by_first], np.maximum(prompt - cached, 0)[by_first]

    def _changes(self, first: Floats, last: Floats, tokens: Floats, prompt: Floats) -> None:
        """When the batch changes; from then on `_decoding` sequences, with `_fixed` + `_rising` * t KV tokens."""
        rate = tokens / np.maximum(last - first, 1e-9)
        at, sign = np.concatenate([first, last]), np.concatenate([np.ones(first.size), -np.ones(last.size)])
        order = np.argsort(at, kind="stable")

        def alive(each: Floats) -> Floats:
            return np.asarray(np.append(0.0, np.cumsum((sign * np.tile(each, 2))[order])))

        self._at = at[order]
        self._decoding, self._rising = alive(np.ones(first.size)), alive(rate)
        self._fixed = alive(prompt - rate * first)

    def batch(self, t: Floats) -> tuple[Floats, Floats]:
        """How many decode at these times, and their KV tokens."""
        now = np.searchsorted(self._at, t, side="right")
        return self._decoding[now], np.maximum(self._fixed[now] + self._rising[now] * t, 0.0)

    def steps(self, constants: Floats) -> Floats:
        """How many steps fit into the decode time of each usable request. Prompts are computed just before their first token, one
        after another, and no step counts meanwhile."""
        a_s, b_s, c_s, p_s = constants
        computing = p_s * self._computed
        total = np.append(0.0, np.cumsum(computing))
        begins = np.minimum.accumulate((self._first - total[1:])[::-1])[::-1] + total[:-1]
        ends = begins + computing
        at = np.unique(np.concatenate([self._at, begins, ends]))
        decoding, kv_tokens = self.batch((at[1:] + at[:-1]) / 2)
        spent = np.interp(at, np.column_stack([begins, ends]).ravel(), np.column_stack([total[:-1], total[1:]]).ravel())
        left = np.maximum(np.diff(at) - np.diff(spent), 0.0)
        clock = np.append(0.0, np.cumsum(left / (a_s + b_s * np.maximum(decoding, 1.0) + c_s * kv_tokens)))
        return np.asarray(np.interp(self.ended, at, clock) - np.interp(self.began, at, clock))

    def met(self) -> Floats:
        """Rows of when each usable request began, its seconds a token, and the means over its life of decoding sequences, of KV
        tokens and of the prompt tokens of a step."""
        counts = self.spans()
        seconds, tokens, decoding, kv_tokens, prompt_tokens = counts.T
        steps = seconds * tokens.sum() / seconds.sum()
        return np.array([self.began, seconds / tokens, decoding / steps, kv_tokens / steps, prompt_tokens / tokens])

    def spans(self) -> Floats:
        """For each usable request its decode time, and what would be 1 * steps, 1 * tokens, 1 * KV tokens and 1 * prompt tokens
        during it, if the tokens of each came evenly."""
        lengths = np.diff(self._at)
        decoding, kv_tokens = self.batch((self._at[1:] + self._at[:-1]) / 2)
        per_step_s = float((self.ended - self.began).sum() / self.tokens.sum())
        computed = np.append(0.0, np.cumsum(self._computed))
        sums = [np.append(0.0, np.cumsum(each * lengths / per_step_s)) for each in (decoding, kv_tokens)]
        within = [np.interp(self.ended, self._at, each) - np.interp(self.began, self._at, each) for each in sums]
        first, last = (np.searchsorted(self._first, t, side="right") for t in (self.began, self.ended))
        return np.column_stack([self.ended - self.began, self.tokens, *within, computed[last] - computed[first]])


def _with_guesses(tokens: Floats, first: Floats, last: Floats, whole: NDArray[np.bool_]) -> Floats:
    """Requests that were cut off loaded the server, too: where their tokens are not known, as many as others got meanwhile."""
    tokens = tokens.astype(np.float64)
    known = whole & (last > first) & (tokens > 0)
    if known.any():
        token_s = float((last[known] - first[known]).sum() / tokens[known].sum())
        unknown = ~whole & (tokens <= 0)
        tokens[unknown] = (last[unknown] - first[unknown]) / token_s
    return tokens


def _first_guess(lives: Sequence[Lives]) -> tuple[Floats, Floats]:
    """Constants to start from, and of each the one that would alone make up a step."""
    spans = np.concatenate([each.spans() for each in lives if each.tokens.size])
    seconds, counts = spans[:, 0], spans[:, 1:]
    root = np.sqrt(seconds)
    totals = counts.sum(0)
    typical = seconds.sum() / np.where(totals > 0, totals, np.inf)
    return _least_squares(counts / root[:, None], root), np.where(typical > 0, typical, 1.0)


def _trust(off: Floats, order: NDArray[np.int64]) -> Floats:
    """How much each request counts, by how far it is off. Where an engine preempts, prompts are computed anew that nobody sees: all
    requests of such an order are further off than those of others."""
    usual = float(np.median(off)) + 1e-9
    spread = np.array([float(np.median(off[order == each])) if (order == each).any() else usual for each in range(order[-1] + 1)])
    spread = np.maximum(spread, _LEAST_SPREAD * usual)[order]
    ordinary = np.sqrt(np.minimum(1.0, _ORDINARY * 1.4826 * spread / np.maximum(off, 1e-12)))
    return np.asarray(ordinary * usual / spread)


def _least_squares(rows: Floats, wanted: Floats) -> Floats:
    """The least squares with no constant below zero: the best of those of all subsets whose own solution has none."""
    scale = np.linalg.norm(rows, axis=0)
    scale[scale == 0] = 1.0
    scaled, columns = rows / scale, rows.shape[1]
    best, found = float(wanted @ wanted), np.zeros(columns)
    for size in range(1, columns + 1):
        for chosen in map(list, combinations(range(columns), size)):
            solved, _, rank, _ = np.linalg.lstsq(scaled[:, chosen], wanted)
            off = float(((scaled[:, chosen] @ solved - wanted) ** 2).sum())
            if rank == size and (solved >= 0).all() and off < best:
                best, found = off, np.zeros(columns)
                found[chosen] = solved
    return np.asarray(found / scale)

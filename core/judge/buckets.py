"""A repeat by length class: long prompts and long answers can miss while the average looks well."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.judge.slo import good, tpot_s, ttft_s
from core.judge.tally import Tally
from core.percentiles import percentiles
from core.records import RequestRecord
from core.results import Bucket

GROUPS = 4
"""Quartiles of the input by quartiles of the output: up to 16 classes, each with a sixteenth of the requests where the two
are drawn apart."""


@dataclass(frozen=True, slots=True)
class _Groups:
    """Which group each request's length falls into, and each group's (shortest, longest)."""

    of: NDArray[np.int64]
    spans: tuple[tuple[int, int], ...]


def buckets(tally: Tally, *, closed: bool) -> tuple[Bucket, ...]:
    """The window's requests by (input, output) class, shorter prompts first, then shorter answers; empty classes left out.

    Classes are cut at the quartiles of the lengths that the plan asked for in the window; equal lengths are never parted, so
    fixed lengths are one class. `closed`: all that was planned counts as decided, what has not ended well is a miss.
    Empty when the tally was not told the input lengths.
    """
    if tally.input_tokens is None:
        return ()
    at = tally.measured_indices
    if not at.size:
        return ()
    inputs, outputs = _groups(tally.input_tokens[at]), _groups(tally.output_tokens[at])
    class_of = inputs.of * len(outputs.spans) + outputs.of
    planned = np.bincount(class_of, minlength=len(inputs.spans) * len(outputs.spans)).tolist()
    records: list[list[RequestRecord]] = [[] for _ in planned]
    for record in tally.measured_records:
        records[class_of[np.searchsorted(at, record.index)]].append(record)
    spans = [(i, o) for i in inputs.spans for o in outputs.spans]
    return tuple(_bucket(tally, span, n, ended, closed) for span, n, ended in zip(spans, planned, records, strict=True) if n)


def _bucket(
    tally: Tally, span: tuple[tuple[int, int], tuple[int, int]], n: int, ended: list[RequestRecord], closed: bool
) -> Bucket:
    ok = [r for r in ended if r.ending == "ok"]
    decided = n if closed else sum(r.ending != "aborted" for r in ended)
    return Bucket(
        input=span[0],
        output=span[1],
        n=n,
        decided=decided,
        attainment=sum(good(r, tally.slo) for r in ok) / n if decided == n else None,
        ttft_p95_s=percentiles(v for r in ok if (v := ttft_s(r)) is not None).p95,
        tpot_p95_s=percentiles(v for r in ok if (v := tpot_s(r)) is not None).p95,
    )


def _groups(lengths: NDArray[np.int64]) -> _Groups:
    ordered = np.sort(lengths)
    cuts = np.unique(ordered[[-(-lengths.size * k // GROUPS) - 1 for k in range(1, GROUPS)]])
    of = np.unique(np.searchsorted(cuts, lengths, side="left"), return_inverse=True)[1]
    spans = [lengths[of == group] for group in range(int(of.max()) + 1)]
    return _Groups(of=of, spans=tuple((int(s.min()), int(s.max())) for s in spans))

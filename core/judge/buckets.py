"""Requests told apart by their lengths: those of a repeat, of several together, and what fails while the whole passes."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from core.facts import Fact, fact
from core.judge.evidence import log_comb
from core.judge.tally import Tally
from core.length_classes import LengthClasses, Span, size_bin
from core.percentiles import percentiles
from core.records import NO_ERRORS, RequestRecord
from core.results import Bucket, Knee, RepeatResult, StepResult
from core.slo import e2e_s, good, least_margin_of_cut, tpot_s, ttft_s


def buckets(tally: Tally, classes: LengthClasses | None, *, closed: bool) -> tuple[Bucket, ...]:
    """The window's requests by the class of the lengths that they asked for, shorter prompts first, then shorter answers, and those
    of no class last; classes without a request are left out.

    `classes` None: those of the pairs of lengths in this window. `closed`: all that was planned counts as decided, what has not
    ended well is a miss.
    """
    at = tally.measured_indices
    if not at.size:
        return ()
    inputs, outputs = tally.plan.input_tokens[at], tally.plan.output_tokens[at]
    known = LengthClasses.of_pairs(Counter(zip(inputs.tolist(), outputs.tolist(), strict=True))) if classes is None else classes
    class_of = known.which(inputs, outputs)
    records: dict[int, list[RequestRecord]] = defaultdict(list)
    for record in tally.measured_records:
        records[int(class_of[np.searchsorted(at, record.index)])].append(record)
    found = []
    for each in np.unique(class_of).tolist():
        members, others = class_of == each, each == len(known.spans)
        spans = (_ends(inputs[members]), _ends(outputs[members])) if others else known.spans[each]
        found.append(_bucket(tally, spans, int(members.sum()), records[each], others=others, closed=closed))
    return tuple(found)


def _ends(lengths: NDArray[np.int64]) -> Span:
    return int(lengths.min()), int(lengths.max())


def _bucket(
    tally: Tally, spans: tuple[Span, Span], n: int, ended: Sequence[RequestRecord], *, others: bool, closed: bool
) -> Bucket:
    ok = [r for r in ended if r.ending == "ok"]
    held = sum(good(r, tally.slo) for r in ok)
    missed = len(ok) - held + sum(_surely_missed(r, tally) for r in ended if r.ending != "ok")
    decided = n if closed else held + missed
    ttft, tpot, e2e = (percentiles(v for r in ok if (v := read(r)) is not None) for read in (ttft_s, tpot_s, e2e_s))
    return Bucket(
        input=spans[0],
        output=spans[1],
        others=others,
        n=n,
        decided=decided,
        good=held,
        errors=sum(r.ending not in NO_ERRORS for r in ended),
        attainment=held / n if decided == n else None,
        ttft_p50_s=ttft.p50,
        ttft_p95_s=ttft.p95,
        tpot_p50_s=tpot.p50,
        tpot_p95_s=tpot.p95,
        e2e_p95_s=e2e.p95,
    )


def _surely_missed(r: RequestRecord, tally: Tally) -> bool:
    """Of a request that did not end well: one that we cut off missed only if it was past a limit by then."""
    return r.ending != "aborted" or least_margin_of_cut(r, tally.slo, tally.closing_s) > 1


def pooled(repeats: Iterable[RepeatResult]) -> tuple[Bucket, ...]:
    """The buckets of several repeats of a run added up: counts are sums, each percentile is the highest of the repeats.

    Empty where a file has classes that cannot be added up.
    """
    by_class: dict[object, list[Bucket]] = defaultdict(list)
    for repeat in repeats:
        for bucket in repeat.buckets:
            by_class["others" if bucket.others else (bucket.input, bucket.output)].append(bucket)
    if any(bucket.good is None for same in by_class.values() for bucket in same):
        return ()
    return tuple(sorted(map(_together, by_class.values()), key=lambda bucket: (bucket.others, bucket.input, bucket.output)))


def _together(same: Sequence[Bucket]) -> Bucket:
    n, decided, held, errors = (sum(getattr(bucket, name) or 0 for bucket in same) for name in ("n", "decided", "good", "errors"))
    highest = {
        name: max((v for bucket in same if (v := getattr(bucket, name)) is not None), default=None)
        for name in ("ttft_p50_s", "ttft_p95_s", "tpot_p50_s", "tpot_p95_s", "e2e_p95_s")
    }
    inputs, outputs = (
        (min(span[0] for span in spans), max(span[1] for span in spans))
        for spans in ([bucket.input for bucket in same], [bucket.output for bucket in same])
    )
    return Bucket(
        input=inputs,
        output=outputs,
        others=same[0].others,
        n=n,
        decided=decided,
        good=held,
        errors=errors,
        attainment=held / n if decided == n else None,
        **highest,
    )


def windows(steps: Iterable[StepResult]) -> list[RepeatResult]:
    """The repeats of these steps that count; the segments of a ramp are no windows."""
    at_one_rate = [step for step in steps if step.phase != "ramp" and not step.set_aside]
    return [repeat for step in at_one_rate for repeat in step.repeats if repeat.verdict in ("pass", "fail")]


FEWEST = 20
"""Below so many planned requests a share of them says little of their lengths."""
BY_CHANCE = 0.01
"""How likely the buckets of a run may at most show one that fails where all requests meet the target alike."""
MOST_TOLD = 3


def buckets_that_fail(knee: Knee, steps: Sequence[StepResult], target: float) -> tuple[Fact, ...]:
    """The lengths that miss the target at the rate that holds, by more than chance, the worst first.

    That is a one-sided binomial test of the misses that are certain, over all repeats of the rate, corrected for the number of
    buckets (Bonferroni). A request that was cut off undecided speaks for its bucket.
    """
    holding = windows(step for step in steps if step.rate_rps == knee.pass_rps)
    tested = [bucket for bucket in pooled(holding) if bucket.n >= FEWEST]
    failing = [bucket for bucket in tested if len(tested) > 1 and _fails(bucket, target, BY_CHANCE / len(tested))]
    failing.sort(key=lambda bucket: bucket.attainment_interval[1])
    return tuple(
        fact(
            "bucket_fails",
            rate_rps=knee.pass_rps,
            input_tokens=[float(tokens) for tokens in bucket.input],
            output_tokens=[float(tokens) for tokens in bucket.output],
            others=bucket.others,
            attained_frac=bucket.attainment_interval[1],
            at_most=bucket.attainment is None,
            target=target,
            n=bucket.n,
        )
        for bucket in failing[:MOST_TOLD]
    )


def _fails(bucket: Bucket, target: float, by_chance: float) -> bool:
    missed = bucket.decided - (bucket.good or 0)
    return bucket.attainment_interval[1] < target and binomial_tail(missed, bucket.n, 1 - target) < by_chance


def binomial_tail(least: int, n: int, share: float) -> float:
    """How likely at least so many of n are marked, where each is with this chance."""
    if least <= 0 or share >= 1:
        return 1.0
    if share <= 0:
        return 0.0
    yes, no = math.log(share), math.log1p(-share)
    logs = (log_comb(n, k) + k * yes + (n - k) * no for k in range(least, n + 1))
    return min(1.0, math.fsum(math.exp(each) for each in logs))


def sizes(ok: Iterable[RequestRecord]) -> tuple[tuple[int, int, int], ...]:
    """How many requests that ended well had which lengths, as (bin of the prompt, bin of the answer, requests): the prompt as the
    server counted it, else as asked, and the answer as it came."""
    counts = Counter(
        (size_bin(r.asked_input if r.prompt_tokens is None else r.prompt_tokens), size_bin(r.output_tokens)) for r in ok
    )
    return tuple((at_in, at_out, n) for (at_in, at_out), n in sorted(counts.items()))

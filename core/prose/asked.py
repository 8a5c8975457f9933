"""What a run was asked to do, and what a curve over all of it suggests: words of a configuration, not of a fact."""

from collections.abc import Iterator

from core.config import Latency, Method, Slo, SloByKind, Workload
from core.results import KneeEstimate
from core.units import as_set, count, duration, limit, number, plain, rate_text
from core.workloads import MixPart

_WIDE = 2.0
"""An interval whose ends are so many times apart says nothing beside the bracket."""
_NAMED = 2
"""Kinds of request with limits of their own that are named one by one."""


def limits(slo: Slo) -> str:
    """What a request is judged by, named as the defaults when they are, with the limits of the kinds that have their own
    (`ProbeConfig.limits`)."""
    parts = " and ".join(_limits_of_kinds(slo))
    return f"{parts} for {plain(slo.target)} of requests{' (default limits)' if slo.default else ''}"


def _limits_of_kinds(slo: Slo) -> Iterator[str]:
    """Each latency with its limit, and with those of the kinds for which it is another, or none."""
    kinds, usual = (slo.kinds, slo.others) if isinstance(slo, SloByKind) else ({}, True)
    latencies: tuple[Latency, ...] = ("ttft_s", "tpot_s", "e2e_s")
    for name in latencies:
        label, own = f"{name[:-2].upper()} at most", getattr(slo, name) if usual else slo.common(name)
        others: dict[float | None, list[tuple[int, int]]] = {}
        for lengths, its in kinds.items():
            if (value := getattr(its, name)) != own:
                others.setdefault(value, []).append(lengths)
        told = [("none" if value is None else limit(value), _kinds(which)) for value, which in others.items()]
        if own is not None:
            own_kinds = ", ".join(f"{value} for {which}" for value, which in told)
            yield f"{label} {limit(own)} ({own_kinds})" if told else f"{label} {limit(own)}"
        elif told:
            yield f"{label} {' or '.join(f'{value} ({which})' for value, which in told)}"


def _kinds(which: list[tuple[int, int]]) -> str:
    """The first two of these kinds, and how many more."""
    named = ", ".join(f"{count(asked_input)}:{count(asked_output)}" for asked_input, asked_output in which[:_NAMED])
    return f"{named} and {count(len(which) - _NAMED)} more" if len(which) > _NAMED else named


def requests(workload: Workload) -> str:
    """Which lengths the requests have, or where they are from."""
    if not workload.mix and not workload.from_file:
        together = workload.length_correlation
        correlation = f" (correlation {as_set(together)})" if together else ""
        return f"{workload.input_tokens} tokens in, {output_length(workload)}{correlation}"
    think = [] if workload.think_s is None else [f"think time {limit(workload.think_s)}"]
    also = ", ".join([*(["natural stop"] if workload.natural else []), *think])
    return f"{mix(workload)} ({also})" if also else mix(workload)


def mix(workload: Workload, most: int = 4) -> str:
    """The kinds of request that come, the most frequent first if not all are named; of a file how many pairs of lengths, of a
    dataset how many prompts, or turns of conversations, once these are drawn."""
    source = workload.source
    if source is not None and source.file is not None:
        if source.kind == "dataset":
            drawn = count(len(workload.mix), "prompt") if workload.mix else "prompts"
            if workload.turns:
                drawn = f"{count(len(workload.mix), 'turn')} of {count(source.rows, 'conversation')}"
            return f"{drawn} from {source.file}"
        return f"{count(len(workload.mix), 'pair')} of lengths from {source.file}"
    named = sorted(workload.mix, key=lambda part: -part.weight)[:most] if len(workload.mix) > most else workload.mix
    more = f" and {count(len(workload.mix) - most)} more" if len(workload.mix) > most else ""
    return f"mix of {count(len(workload.mix))}: {', '.join(kind(part) for part in named)}{more}"


def kind(part: MixPart) -> str:
    """One kind of request: its lengths and its weight."""
    return f"{count(part.input_tokens)}:{count(part.output_tokens)} ×{as_set(part.weight)}"  # noqa: RUF001


def mode_words(method: Method) -> str:
    """What a run was to do: search by a mode, judge rates that were named, or hold one."""
    if method.hold_rps is not None:
        return "a held rate"
    if method.fleet is not None:
        return f"a check of {count(method.fleet.replicas, 'replica')}"
    if method.rates_rps:
        return "a list of rates" if len(method.rates_rps) > 1 else "one rate"
    return f"{method.mode} mode{', careful' if method.careful else ''}"


def output_length(workload: Workload) -> str:
    """How long answers are asked to be, and how they end where that is at a stop condition of the model."""
    return f"at most {workload.output_tokens} out (natural stop)" if workload.natural else f"{workload.output_tokens} out"


def arrivals(workload: Workload) -> str:
    """How requests follow each other."""
    if (trace := workload.trace) is not None:
        spread = ", spread over its ticks" if trace.spread else ""
        return f"arrivals as recorded{spread}, scaled from {rate_text(trace.mean_rps)}"
    return "Poisson arrivals" if workload.poisson else f"arrivals with gamma gaps of CV {as_set(workload.arrival_cv)} (Poisson: 1)"


def in_front(workload: Workload) -> str:
    """What stands in front of the server, and what a 429 comes to; empty where requests go there as they are due."""
    parts, gateway = [], workload.gateway
    if gateway is not None:
        queue = "" if gateway.queue is None else f", {count(gateway.queue)} in its queue"
        wait = "" if gateway.timeout_s is None else f", {duration(gateway.timeout_s)} of waiting"
        parts.append(f"a gateway's limit of {count(gateway.limit, 'open request')}{queue}{wait}")
    if workload.retry_after:
        parts.append("a 429 with Retry-After is sent again")
    return ", ".join(parts)


def scale(workload: Workload, rate_rps: float) -> str:
    """How many times as fast as recorded requests come at a rate; empty where none are recorded."""
    return "" if workload.trace is None else times(workload.trace.scale(rate_rps))


def times(scale: float) -> str:
    """So many times as fast as recorded."""
    return f"{as_set(scale, 2)} times the recording"


def seeds(method: Method) -> str:
    """What arrivals and requests are drawn from: one seed, or one each."""
    if method.seed_of_arrivals == method.seed_of_requests:
        return f"seed {method.seed_of_requests}"
    return f"arrival seed {method.seed_of_arrivals}, workload seed {method.seed_of_requests}"


def estimate(found: KneeEstimate | None) -> str:
    """The fitted interval, which no verdict rests on and no rate of which was sent; empty where there is none or it is wide."""
    if found is None or found.low_rps <= 0 or found.high_rps >= _WIDE * found.low_rps:
        return ""
    return (
        f"A curve fitted over all repeats puts the knee between {number(found.low_rps)} and {rate_text(found.high_rps)}, meant to "
        f"be right {as_set(10 * found.nominal, 2)} times in 10; not a measured rate."
    )

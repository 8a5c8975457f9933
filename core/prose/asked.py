"""What a run was asked to do, and what a curve over all of it suggests: words of a configuration, not of a fact."""

from core.config import Method, Slo
from core.results import KneeEstimate
from core.units import as_set, limit, number, plain, rate_text

_WIDE = 2.0
"""An interval whose ends are so many times apart says nothing beside the bracket."""


def limits(slo: Slo) -> str:
    """What a request is judged by, named as the defaults when they are."""
    named = (("TTFT", slo.ttft_s), ("TPOT", slo.tpot_s), ("E2E", slo.e2e_s))
    parts = " and ".join(f"{name} at most {limit(value)}" for name, value in named if value is not None)
    return f"{parts} for {plain(slo.target)} of requests{' (default limits)' if slo.default else ''}"


def mode_words(method: Method) -> str:
    """What a run was to do: search by a mode, judge rates that were named, or hold one."""
    if method.hold_rps is not None:
        return "a held rate"
    if method.rates_rps:
        return "a list of rates" if len(method.rates_rps) > 1 else "one rate"
    return f"{method.mode} mode{', careful' if method.careful else ''}"


def estimate(found: KneeEstimate | None) -> str:
    """The fitted interval, which no verdict rests on and no rate of which was sent; empty where there is none or it is wide."""
    if found is None or found.low_rps <= 0 or found.high_rps >= _WIDE * found.low_rps:
        return ""
    return (
        f"A curve fitted over all repeats puts the knee between {number(found.low_rps)} and {rate_text(found.high_rps)}, meant to "
        f"be right {as_set(10 * found.nominal, 2)} times in 10; not a measured rate."
    )

"""Numbers as the judge's sentences write them."""

import math
from collections.abc import Callable, Mapping

from core.config import Method, Slo
from core.results import KneeEstimate

_DUST = 1e-9
_WIDE = 2.0
"""An interval whose ends are so many times apart says nothing beside the bracket."""


def plain(share: float) -> str:
    """A share as a percentage without needless zeros: 0.95 -> "95 %"."""
    return f"{100 * share:.6g} %"


def beside(share: float, target: float, decimals: int = 1, rounded: Callable[[float], float] = round) -> str:
    """A share that is read beside a target: as many decimals as it takes to stay on its own side of it.

    94.96 % beside 95 % is never written "95.0 %", and "100 %" means all. `rounded` is round, math.floor or math.ceil.
    """
    reaches = share >= target - _DUST
    for places in range(decimals, 5):
        scale: int = 10**places
        percent = rounded(round(share * 100 * scale, 6)) / scale
        if (percent >= 100 * target - _DUST) == reaches and (percent < 100 or share >= 1):
            return f"{percent:.{places}f} %"
    return plain(share)


def at_most(share: float, target: float) -> str:
    """An upper bound beside a target: rounded up, so that it stays true."""
    return f"at most {beside(share, target, 0, math.ceil)}"


def limit(seconds: float) -> str:
    """A limit as it was set, without zeros that nobody typed: "800 ms", "1.5 s"."""
    return f"{1000 * seconds:g} ms" if seconds < 1 else f"{seconds:g} s"


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


def count(n: int, noun: str) -> str:
    """A number with its noun: "1 request", "3 requests"."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def classes(counts: Mapping[str, int]) -> str:
    """Counts by class, most frequent first: "connection 5, http 2"."""
    return ", ".join(f"{name} {n}" for name, n in sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def duration(seconds: float) -> str:
    """A short time as people say it: "12 ms", "3.4 s", "40 s"."""
    if abs(seconds) < 0.9995:
        return f"{1000 * seconds:.3g} ms"
    return f"{seconds:.2g} s" if seconds < 9.95 else f"{seconds:.0f} s"


def estimate(found: KneeEstimate | None) -> str:
    """The fitted interval, which no verdict rests on and no rate of which was sent; empty where there is none or it is wide."""
    if found is None or found.low_rps <= 0 or found.high_rps >= _WIDE * found.low_rps:
        return ""
    return (
        f"A curve fitted over all repeats puts the knee between {found.low_rps:.3g} and {found.high_rps:.3g} requests/s, meant to "
        f"be right {10 * found.nominal:.2g} times in 10; not a measured rate."
    )


def rate_text(rate_rps: float) -> str:
    """A rate with three significant digits and its unit: `16.0 requests/s`."""
    return f"{rate_number(rate_rps)} requests/s"


def rate_number(rate_rps: float) -> str:
    """A rate with three significant digits."""
    rounded = float(f"{rate_rps:.2e}")
    digits = max(0, 2 - math.floor(math.log10(rounded))) if rounded > 0 else 0
    return f"{rounded:.{digits}f}"


def long_duration(seconds: float) -> str:
    """A time to wait for: "40 s", "3 min", "2 min 30 s", "1 h 5 min"."""
    if seconds < 60:
        return duration(seconds)
    if seconds < 600:
        minutes, rest = divmod(round(seconds / 10) * 10, 60)
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(round(seconds / 60), 60)
    return " ".join(part for part in (f"{hours} h" if hours else "", f"{minutes} min" if minutes else "") if part)

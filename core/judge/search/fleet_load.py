"""Which load of a fleet is judged next: the planned one, as many times what one replica holds, then down from what fails. Pure."""

from collections.abc import Sequence

CLOSE = 1.1
"""Between ends no farther apart than this factor nothing is looked for: a replica's own passing rate is not known better."""
LEAST_FRAC = 1 / 16
"""Below this share of the planned load nothing is looked for: such a fleet does not work at all."""
_DUST = 1e-9


def next_rps(rates_rps: Sequence[float], passed_rps: float | None, failed_rps: float | None) -> float | None:
    """The rate to judge next, where `rates_rps` are to be judged in their order; None: nothing is left to look for. What is between
    the highest passing rate and the lowest failing one is halved."""
    between = [rate for rate in rates_rps if rate > (passed_rps or 0.0) and (failed_rps is None or rate < failed_rps)]
    if between:
        return between[0]
    if failed_rps is None or (passed_rps is not None and failed_rps <= CLOSE * passed_rps * (1 + _DUST)):
        return None
    middle_rps = ((passed_rps or 0.0) + failed_rps) / 2
    return middle_rps if middle_rps >= LEAST_FRAC * rates_rps[0] else None


def expected_rps(rates_rps: Sequence[float], passed_rps: float | None, failed_rps: float | None, now_rps: float) -> list[float]:
    """The rates that are likely still to come after `now_rps`, were that to pass."""
    to_come: list[float] = []
    passed_rps = max(passed_rps or 0.0, now_rps)
    while (rate_rps := next_rps(rates_rps, passed_rps, failed_rps)) is not None:
        to_come.append(rate_rps)
        passed_rps = rate_rps
    return to_come

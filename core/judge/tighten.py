"""The tightening of the clear fail with the time left over: which rate is judged next by a majority of repeats. Pure."""

import math

REPEATS = 3
"""A rate clearly fails when two of three repeats fail there; the third is run only if the first two disagree."""
REPEATS_EXPECTED = 2.5
STEP = 1.03
"""Rates closer than this cannot be told apart by three repeats of a minute, whose attainment scatters by 2 to 13 points."""
START_REPEATS = 1.5
"""A step is begun if so many full repeats fit the time left: two are needed at least, and failing ones are cut short."""


def next_rate(passed_rps: float, floor_rps: float, clear_rps: float, width: float) -> float | None:
    """The geometric middle of `floor_rps` (the first fail, or the highest rate that most repeats passed) and `clear_rps`
    (the lowest rate known to fail); None when the clear fail is within `width` of `passed_rps`, or the two are too close."""
    if clear_rps / passed_rps <= width:
        return None
    middle_rps = math.sqrt(floor_rps * clear_rps)
    return None if middle_rps < STEP * floor_rps else middle_rps


def steps_expected(passed_rps: float, floor_rps: float, clear_rps: float, width: float) -> int:
    """How many steps there will be if the clear fail comes down each time."""
    steps = 0
    while (rate_rps := next_rate(passed_rps, floor_rps, clear_rps, width)) is not None:
        steps, clear_rps = steps + 1, rate_rps
    return steps

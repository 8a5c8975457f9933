"""Did answers get longer or shorter between two repeats? Told once a run, of answers that stop by themselves. Pure.

A model that is asked other prompts, or is itself another one behind the same name, answers at other lengths, and a rate that holds
with short answers says little of long ones. What is asked for exactly has no such drift: it is judged by `core.judge.validity`.
"""

import math
from dataclasses import dataclass, field

from core.facts import Fact, fact
from core.results import OutputTokens

LEAST_CHANGE = 0.10
"""Of the smaller of both means."""
DOUBT = 3.0
"""Standard errors of the difference of two means. Of two repeats of one kind 3 in 1,000 differ by more, and a search compares some
ten of them with each other: with the least change besides, few runs tell of what is none."""


@dataclass(slots=True)
class OutputDrift:
    """The mean answers of one run's repeats that counted. The two that differ first are told of, the older one first."""

    _seen: list[tuple[OutputTokens, float]] = field(default_factory=list)
    _told: bool = False

    def judged(self, answers: OutputTokens | None, rate_rps: float) -> Fact | None:
        """A repeat that passed or failed at this rate; `answers` None where their lengths are not known."""
        if answers is None or answers.n < 2 or self._told:
            return None
        found = next((each for each in self._seen if _apart(each[0], answers)), None)
        self._seen.append((answers, rate_rps))
        if found is None:
            return None
        self._told = True
        before, before_rps = found
        return fact("output_drifts", from_tokens=before.mean, to_tokens=answers.mean, before_rps=before_rps, rate_rps=rate_rps)


def _apart(there: OutputTokens, here: OutputTokens) -> bool:
    change = abs(here.mean - there.mean)
    error = math.sqrt(there.sd**2 / there.n + here.sd**2 / here.n)
    return change > LEAST_CHANGE * min(there.mean, here.mean) and change > DOUBT * error

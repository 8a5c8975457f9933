"""Steps that the user has ended before they were judged."""

from core.facts import Fact, fact
from core.records import Phase


class Skipped:
    """Rates whose step was ended, in order. Nothing is known of them; the search goes on as if they were used up."""

    def __init__(self) -> None:
        self._steps: list[tuple[Phase, float]] = []

    def add(self, phase: Phase, rate_rps: float) -> None:
        """A step was ended."""
        self._steps.append((phase, rate_rps))

    def __bool__(self) -> bool:
        return bool(self._steps)

    def rates_rps(self, phase: Phase) -> tuple[float, ...]:
        """The rates whose step for that phase was ended."""
        return tuple(rate for each, rate in self._steps if each == phase)

    def lowest_rps(self, phase: Phase) -> float | None:
        """The lowest rate whose step for that phase was ended; None without one."""
        return min((rate for each, rate in self._steps if each == phase), default=None)

    def below(self, limit_rps: float | None) -> bool:
        """Whether a rate below the limit (None: any rate) was to be judged for the passing end and was not."""
        return any(phase != "tighten" and (limit_rps is None or rate < limit_rps) for phase, rate in self._steps)

    @property
    def note(self) -> Fact | None:
        """Which steps were ended; None when none was."""
        return fact("steps_ended", rates_rps=self._rates_rps) if self else None

    @property
    def notes(self) -> tuple[Fact, ...]:
        """The same as notes of a knee."""
        return () if self.note is None else (self.note,)

    @property
    def _rates_rps(self) -> list[float]:
        return list(dict.fromkeys(rate for _, rate in self._steps))

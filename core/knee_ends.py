"""The ends of a bracket, and which of the failing rates is its upper one. Apart from the rest of a knee, so that the list of runs
reads them without numpy."""

import msgspec


class FailCount(msgspec.Struct, frozen=True, kw_only=True):
    """How many of the repeats run at a rate failed."""

    failed: int
    run: int


class KneeEnds(msgspec.Struct, frozen=True, kw_only=True):
    """The rates and counts of `core.results.Knee`, which says what they are."""

    pass_rps: float | None = None
    pass_repeats: int = 0
    first_fail_rps: float | None = None
    first_fail: FailCount | None = None
    clear_fail_rps: float | None = None
    clear_fail: FailCount | None = None
    upper_rps: float | None = None
    upper: FailCount | None = None
    open_above: bool = False

    @property
    def fail_rps(self) -> float | None:
        """The upper end; of a record that has none, because it is older, the clear fail or else the first one."""
        if self.open_above or self.upper_rps is not None:
            return self.upper_rps
        return self.first_fail_rps if self.clear_fail_rps is None else self.clear_fail_rps

    @property
    def fails(self) -> FailCount | None:
        """The repeats at the upper end."""
        if self.upper_rps is not None:
            return self.upper
        return self.first_fail if self.clear_fail_rps is None else self.clear_fail

    @property
    def clearly_fails(self) -> bool:
        """Whether the upper end is a clear fail, on more than one failing repeat."""
        return self.fail_rps == self.clear_fail_rps and self.clear_fail is not None and self.clear_fail.failed > 1

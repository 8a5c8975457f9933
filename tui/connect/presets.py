"""Limits that are usual for a kind of use, to begin with where nobody has set any."""

from dataclasses import dataclass

from core.units import limit
from tui.cli.inputs import NO_LIMIT


@dataclass(frozen=True)
class Preset:
    """Limits in seconds; None: no such limit."""

    name: str
    ttft_s: float | None = None
    tpot_s: float | None = None
    e2e_s: float | None = None

    @property
    def texts(self) -> dict[str, str]:
        """What the fields of the limits hold for it."""
        limits = {"ttft": self.ttft_s, "tpot": self.tpot_s, "e2e": self.e2e_s}
        return {name: NO_LIMIT if seconds is None else limit(seconds).replace(" ", "") for name, seconds in limits.items()}

    @property
    def told(self) -> str:
        """Its numbers."""
        limits = (("TTFT", self.ttft_s), ("TPOT", self.tpot_s), ("E2E", self.e2e_s))
        return ", ".join(f"{name} {limit(seconds)}" for name, seconds in limits if seconds is not None)


PRESETS: tuple[Preset, ...] = (
    Preset("interactive", ttft_s=0.5, tpot_s=0.05),
    Preset("long-context", ttft_s=3.0, tpot_s=0.05),
    Preset("code completion", e2e_s=1.0),
    Preset("batch", e2e_s=60.0),
)

"""What a model of the server said during a run, as data: whether it helped to choose rates, and how far it was off by window."""

import math
from typing import Any

import msgspec

from core.judge import Bracket
from core.results import TwinShift
from core.view import RunView


def twin_data(view: RunView) -> dict[str, Any] | None:
    """Of the newest reading; None where no model was asked. `used`: it explains the windows well enough to help choose rates."""
    reading = view.twin
    if reading is None or view.config is None:
        return None
    bracket = Bracket.of(view.config.method, view.steps, target=view.config.slo.target)
    bracket.add_twin(reading)
    return {
        "used": bracket.by_twin,
        "error_frac": None if reading.median_shift is None else math.expm1(reading.median_shift),
        "limits": msgspec.to_builtins(reading.limits),
        "steps": msgspec.to_builtins(reading.steps),
        "windows": [_window(each) for each in reading.shifts],
        "cpu_s": reading.cpu_s,
    }


def _window(shift: TwinShift) -> dict[str, Any]:
    bound = "least" if shift.cut else "most" if shift.early else None
    return {"step": shift.step, "repeat": shift.repeat, "faster_frac": math.expm1(shift.shift), "bound": bound}

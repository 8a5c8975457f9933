"""A row of blocks: the smallest plot there is."""

import math
from collections.abc import Sequence

_BLOCKS = " ▁▂▃▄▅▆▇█"


def blocks(values: Sequence[float | None], top: float, width: int) -> str:
    """One row of blocks, newest at the right, each the greatest of its share of `values`; 0..`top` is the full height."""
    if width < 1 or not values:
        return " " * max(0, width)
    text = ""
    for column in range(width):
        part = values[len(values) * column // width : max(len(values) * (column + 1) // width, len(values) * column // width + 1)]
        known = [value for value in part if value is not None and math.isfinite(value)]
        if not known:
            text += " "
            continue
        level = min(1.0, max(0.0, max(known) / top)) if top > 0 else 0.0
        text += _BLOCKS[max(1, round(level * 8))]
    return text

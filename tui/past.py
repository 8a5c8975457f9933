"""The past of a run that still goes on: the views of it that were shown, so that the panels can show any moment again."""

import math
from collections.abc import Sequence
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from core.view import RunView

MOST = 600
"""As many as the time axis has bins: a cursor on it has no more places to stand."""
_FIRST_STRETCH_S = 1.0
_T = TypeVar("_T", bound=Struct)


class Past:
    """The last view of each stretch of time. Where there would be more than `MOST`, the stretches double, as the bins of the time
    axis do."""

    def __init__(self) -> None:
        self._stretch_s = _FIRST_STRETCH_S
        self._kept: list[RunView] = []

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, view: RunView) -> None:
        """Take the newest view."""
        before = self._kept[-1] if self._kept else None
        if before is not None:
            view = _sharing(view, before)
            if self._stretch(before) == self._stretch(view):
                self._kept.pop()
        self._kept.append(view)
        if len(self._kept) > MOST:
            self._double()

    def at(self, t_s: float) -> RunView | None:
        """The run as it was at about that moment; None: the moment is not past yet."""
        if not self._kept or t_s >= self._kept[-1].now_s:
            return None
        return min(self._kept, key=lambda view: abs(view.now_s - t_s))

    def beyond(self, from_s: float, by_s: float) -> RunView | None:
        """The view nearest to `from_s` + `by_s` of those that lie on that side of `from_s`: another one with each step, however
        short. Before all of them it is the first; None: the moment is not past yet."""
        if not self._kept or from_s + by_s >= self._kept[-1].now_s:
            return None
        that_side = [view for view in self._kept if (view.now_s - from_s) * by_s > 0]
        found = min(that_side, key=lambda view: abs(view.now_s - from_s - by_s), default=self._kept[0])
        return None if by_s > 0 and found is self._kept[-1] else found

    def _stretch(self, view: RunView) -> int:
        return math.floor(view.now_s / self._stretch_s)

    def _double(self) -> None:
        self._stretch_s *= 2
        last = {self._stretch(view): view for view in self._kept}
        self._kept = list(last.values())


def _sharing(view: RunView, before: RunView) -> RunView:
    """The view with the parts that have not changed since taken from the one before: each view has its own copy of all of them, and
    hundreds of views are kept."""
    return replace(view, outcomes=_shared(view.outcomes, before.outcomes), margins=_shared(view.margins, before.margins))


def _shared(new: Sequence[_T], old: Sequence[_T]) -> tuple[_T, ...]:
    same = tuple(theirs if theirs == mine else mine for mine, theirs in zip(new, old, strict=False))
    return same + tuple(new[len(same) :])

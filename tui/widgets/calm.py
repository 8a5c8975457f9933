"""Pictures of many requests: one request more is worth no picture of its own, so they are drawn once a second."""

from collections.abc import Callable
from typing import Generic, TypeVar

from textual.timer import Timer
from textual.widget import Widget

CALM_S = 1.0
T = TypeVar("T")


class Calm(Generic[T]):
    """What a widget is offered is taken at once where it is another thing, and else the newest of it once a second."""

    def __init__(self, widget: Widget, take: Callable[[T], None], same: Callable[[T, T], bool]) -> None:
        """`take` draws; `same` says of what was taken and what is offered whether only counts can differ."""
        self._widget, self._take, self._same = widget, take, same
        self._newest: T | None = None
        self._taken: T | None = None
        self._wait: Timer | None = None

    def offer(self, given: T) -> None:
        """Draw it, now or within a second."""
        self._newest = given
        if self._wait is None or self._taken is None or not self._same(self._taken, given):
            self._take_newest()

    def _take_newest(self) -> None:
        if self._newest is None or self._newest is self._taken:
            return
        if self._wait is not None:
            self._wait.stop()
        self._wait = self._widget.set_timer(CALM_S, self._waited)
        self._taken = self._newest
        self._take(self._taken)

    def _waited(self) -> None:
        self._wait = None
        self._take_newest()

"""Keys, pastes and clicks one after another: each is through before the next one looks where the focus is."""

from collections import deque
from typing import TypeVar

from textual import events
from textual.app import App
from textual.message import Message
from textual.widgets import Input

R = TypeVar("R")

_ROUNDS = 4
"""How often a marker goes from the focus up to the app behind a key: a key that opens a list moves the focus by messages that make
messages, at most three in a row."""
_STUCK_S = 0.25
"""A marker is through within milliseconds; one that went to a widget which was just removed never comes."""


def _is_text(event: events.Event) -> bool:
    return isinstance(event, events.Key) and event.is_printable


class InOrder(App[R]):
    """An app in which what is typed without a pause lands where it was meant.

    Textual looks for the focus when a key arrives, and handles Tab later, in the queue of the widget that has it. Keys that arrive
    in between would still go to that widget.
    """

    class Through(Message):
        """Goes the way of a key, behind it. `left`: so many more rounds."""

        def __init__(self, number: int, left: int) -> None:
            super().__init__()
            self.number, self.left = number, left

    def __init__(self, **keywords: object) -> None:
        super().__init__(**keywords)  # type: ignore[arg-type]  # textual's own
        self._inputs: deque[events.Event] = deque()
        self._awaited: int | None = None
        self._sent = 0
        self._seen_awaited: int | None = None

    def accepts(self, event: events.Event) -> bool:
        """Whether an input means anything now."""
        return True

    async def on_event(self, event: events.Event) -> None:
        """Queue what is typed, hand on everything else at once."""
        if not isinstance(event, events.Key | events.Paste | events.MouseDown | events.MouseUp) or event.is_forwarded:
            await super().on_event(event)
            return
        if self._sent == 0:
            self.set_interval(_STUCK_S, self._unstick)
        self._inputs.append(event)
        await self._hand_on()

    async def _hand_on(self) -> None:
        while self._inputs and self._awaited is None:
            event = self._inputs.popleft()
            if self.accepts(event):
                self._sent += 1
                self._awaited = self._sent
                stays = isinstance(self.focused, Input) and (isinstance(event, events.Paste) or _is_text(event))
                await super().on_event(event)
                if stays:  # the field keeps the order of what is typed into it by itself
                    self._awaited = None
                else:
                    self._mark(_ROUNDS)

    def _mark(self, left: int) -> None:
        target = self.focused or self.screen
        if not target.post_message(self.Through(self._sent, left)):
            self._awaited = None

    async def on_in_order_through(self, event: Through) -> None:
        """All that came of the key so far has been handled."""
        event.stop()
        if event.number != self._awaited:
            return
        if event.left > 1:
            self._mark(event.left - 1)
        else:
            self._awaited = None
        await self._hand_on()

    async def _unstick(self) -> None:
        if self._awaited is not None and self._awaited == self._seen_awaited:
            self._awaited = None
            await self._hand_on()
        self._seen_awaited = self._awaited

"""The child process that sends: takes one repeat as one order, sends on schedule, reports; nothing else.

`Generator` is the parent's handle. The child sends nothing once its stdin ends, so a dead parent never leaves load running.
"""

from collections.abc import AsyncIterator

from core.records import ChildMessage, Hello, RepeatOrder


class Generator:
    """Starts the child and speaks with it. One order at a time."""

    @classmethod
    async def start(cls) -> "Generator":
        """Start the child and wait for its LoadReady. Raises UserError when it cannot start."""
        raise NotImplementedError

    async def hello(self, hello: Hello) -> None:
        """Say what stays the same for the coming orders; may be said again when preflight learned more."""
        raise NotImplementedError

    async def order(self, order: RepeatOrder) -> None:
        """Hand over one repeat; its messages come from `messages`, the last is its LoadDone."""
        raise NotImplementedError

    async def stop_arrivals(self, order: int) -> None:
        """Nothing new is sent; open requests run to their end."""
        raise NotImplementedError

    async def abort(self, order: int) -> None:
        """Nothing new is sent, open requests are cancelled and their connections closed, within 0.5 s."""
        raise NotImplementedError

    def messages(self) -> AsyncIterator[ChildMessage]:
        """Everything the child reports, in order, until it ends. Raises UserError (exit code 3) when the child dies by itself."""
        raise NotImplementedError

    async def close(self) -> None:
        """End the child; whatever it was sending stops. Safe to call twice."""
        raise NotImplementedError

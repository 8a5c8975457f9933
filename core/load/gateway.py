"""A gateway's limit in front of the server, kept here in the client: who is let through, who waits for that, who is turned away."""

import asyncio
from collections.abc import Callable

from core.records import Ending
from core.workloads import Gateway

Turn = asyncio.Future[Ending | None]
"""What becomes of a request that waits: None, it is let through, or the ending by which it is turned away."""
Later = Callable[[float, Callable[[], None]], asyncio.TimerHandle]


class Gate:
    """At most `limit` requests are inside. The others wait in order of arrival; a place that gets free goes to the first of them,
    so that none who comes later overtakes. Make it inside the running loop. `later`: what calls something after so many seconds."""

    def __init__(self, gateway: Gateway, later: Later | None = None) -> None:
        self._gateway = gateway
        self._loop = asyncio.get_running_loop()
        self._later: Later = later or self._loop.call_later
        self._inside: set[int] = set()
        self._queue: dict[int, Turn] = {}

    def enter(self, index: int) -> bool:
        """Let that request through at once, if there is a place; where any wait there is none."""
        if len(self._inside) >= self._gateway.limit:
            return False
        self._inside.add(index)
        return True

    def queue_up(self, index: int) -> Turn:
        """Let it wait behind all others, or turn it away where no more may wait."""
        turn: Turn = self._loop.create_future()
        if self._gateway.queue is not None and len(self._queue) >= self._gateway.queue:
            turn.set_result("rejected")
            return turn
        self._queue[index] = turn
        if self._gateway.timeout_s is not None:
            timer = self._later(self._gateway.timeout_s, lambda: self._give_up(index))
            turn.add_done_callback(lambda _: timer.cancel())
        return turn

    def leave(self, index: int) -> None:
        """Give its place to the first that waits; safe to call of one that has none."""
        if index not in self._inside:
            return
        self._inside.discard(index)
        while self._queue:
            first = next(iter(self._queue))
            turn = self._queue.pop(first)
            if not turn.done():  # else it was cancelled
                self._inside.add(first)
                turn.set_result(None)
                return

    def _give_up(self, index: int) -> None:
        turn = self._queue.pop(index, None)
        if turn is not None and not turn.done():
            turn.set_result("queue_timeout")

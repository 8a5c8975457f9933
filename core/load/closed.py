"""A closed loop on its way, or this child's share of it: a number of requests in flight, the next sent when one ends.

Such a loop slows down with the server, which is why no rate is judged by it: it is shown beside the answer.
"""

import asyncio
import time
from collections.abc import Callable

from core.load.dispatch import WHOLE, Running, Sender
from core.load.protocol import Share
from core.load.timer import Alarm
from core.records import ChildMessage, ClosedOrder, RequestEnded
from core.schedule import Plan

FAILED_PAUSE_S = 0.5
"""The place of a request that ended in an error is taken again only after this: a server that refuses at once would otherwise be
asked thousands of times a second."""


class ClosedRun(Running):
    """Sends until `duration_s` is over, then waits for what is open. A request is due when its place gets free."""

    def __init__(
        self,
        order: ClosedOrder,
        plan: Plan,
        body: Callable[[int], bytes],
        sender: Sender,
        emit: Callable[[ChildMessage], None],
        share: Share = WHOLE,
    ) -> None:
        super().__init__(order.order, plan, body, sender, emit, share)
        self._start_at, self._end = order.start_at, order.start_at + order.duration_s
        self._places = asyncio.Semaphore(len(range(share.index, order.in_flight, share.of)))

    async def _send_all(self, requests: asyncio.TaskGroup, alarm: Alarm) -> None:
        await alarm.until(self._start_at)
        for index in self._indices:
            request = self._sender.prepare(self._body(index))
            try:
                async with asyncio.timeout_at(asyncio.get_running_loop().time() + self._end - time.monotonic()):
                    await self._places.acquire()
            except TimeoutError:
                return
            now = time.monotonic()
            if self._stopped_at is not None or now >= self._end:
                return
            self._send(requests, index, now, request)

    def _ended(self, message: RequestEnded) -> None:
        if message.ending == "ok":
            self._places.release()
        else:
            asyncio.get_running_loop().call_later(FAILED_PAUSE_S, self._places.release)

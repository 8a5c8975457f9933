"""What a run of orders tells, heard by a test that waits for it."""

import asyncio
from collections.abc import Callable

from core.records import ChildMessage, LoadDone, RequestEnded
from tests.core.load.server import WAIT_S


class Told:
    """All that was told so far; `until` waits for more."""

    def __init__(self) -> None:
        self.told: list[ChildMessage] = []
        self._changed = asyncio.Event()

    def tell(self, message: ChildMessage) -> None:
        self.told.append(message)
        self._changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(WAIT_S):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    @property
    def ended(self) -> dict[int, str]:
        """The ending of each request that is over."""
        return {message.index: message.ending for message in self.told if isinstance(message, RequestEnded)}

    @property
    def done(self) -> LoadDone:
        """The last word, said once."""
        done = self.told[-1]
        assert isinstance(done, LoadDone)
        assert sum(isinstance(message, LoadDone) for message in self.told) == 1
        return done

"""The readings of a GPU or host exporter beside the run: kept for the judge, and missed by nobody when they fail."""

from collections.abc import AsyncIterator, Callable
from typing import Protocol, Self

import httpx

from core.records import MachineSample
from core.run.events import Event, MachineSampled, Note
from core.server.machine import MachineScraper
from core.server.metrics import ScrapeError

KEPT = 4096
"""At one a second more than an hour, the longest that one repeat may take."""


class MachineSource(Protocol):
    """What `core.server.machine.MachineScraper` is to this module."""

    def readings(self) -> AsyncIterator[MachineSample | ScrapeError]: ...


class MachineReadings:
    """Takes readings in a task of its own (`pump`). A failing exporter is said and fails nothing."""

    def __init__(self, source: MachineSource | None, emit: Callable[[Event], None], clock: Callable[[], float]) -> None:
        self._source = source
        self._emit = emit
        self._clock = clock
        self._kept: list[MachineSample] = []

    @classmethod
    def of(
        cls, url: str | None, client: Callable[[], httpx.AsyncClient], emit: Callable[[Event], None], clock: Callable[[], float]
    ) -> Self:
        """The readings of an exporter, on a client of its own; None url: there are none."""
        return cls(None if url is None else MachineScraper(url, client(), clock=clock), emit, clock)

    async def pump(self) -> None:
        """Turn readings into events until cancelled."""
        if self._source is None:
            return
        async for reading in self._source.readings():
            if isinstance(reading, ScrapeError):
                self._emit(Note(t=self._clock(), level="warn", text=str(reading)))
                continue
            self._kept.append(reading)
            del self._kept[:-KEPT]
            self._emit(MachineSampled(t=reading.t, sample=reading))

    def kept(self) -> tuple[MachineSample, ...]:
        """Those of the last hour."""
        return tuple(self._kept)

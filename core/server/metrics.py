"""/metrics of any vLLM version -> ServerSample. What a server does not expose is None, never 0."""

from collections.abc import AsyncIterator

import httpx

from core.records import ServerSample

SCRAPE_INTERVAL_S = 0.5


class ScrapeError(Exception):
    """A reading that failed; the text is a sentence for the event line."""


def parse(text: str, content_type: str, t: float, took_s: float) -> ServerSample:
    """Read one exposition (Prometheus text or OpenMetrics). Raises ScrapeError when there is no vLLM metric in it."""
    raise NotImplementedError


class Scraper:
    """Reads one metrics URL on a connection of its own; at most one reading in flight."""

    def __init__(self, url: str, client: httpx.AsyncClient) -> None:
        self.url = url
        raise NotImplementedError

    async def once(self) -> ServerSample:
        """One reading now. Raises ScrapeError."""
        raise NotImplementedError

    def readings(self, interval_s: float = SCRAPE_INTERVAL_S) -> AsyncIterator[ServerSample | ScrapeError]:
        """Readings for ever, one each `interval_s`; a failed one is yielded as its ScrapeError (no text twice in a row)."""
        raise NotImplementedError

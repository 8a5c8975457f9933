"""Which replicas of a fleet can be read at this moment, by the sources that name them."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import httpx

from core.access import Access
from core.facts import Fact
from core.net import client_of_many
from core.server.discovery import Discovery, Places, Resolve, resolved
from core.server.http import Credential
from core.server.metrics import ScrapeError, Scraper

DEADLINE_S = 5.0
"""For one reading: a server under load answers late, one that hangs does not answer at all."""
AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class Roll:
    """Who is there: the addresses whose metrics could be read, those that could not with why, and what is wrong with sources."""

    there: tuple[str, ...] = ()
    unread: dict[str, str] = field(default_factory=dict)
    problems: tuple[Fact, ...] = ()


class Roster:
    """Asks the sources and every replica again at each call. `access` is sent to each replica and to nobody else. `http` and
    `resolve` are for tests."""

    def __init__(
        self,
        places: Places,
        access: Access,
        *,
        insecure: bool = False,
        http: Callable[[], httpx.AsyncClient] | None = None,
        resolve: Resolve = resolved,
    ) -> None:
        self._access = access
        self._http = http or (lambda: client_of_many(access, insecure))
        self._places, self._resolve = places, resolve

    async def call(self) -> Roll:
        """One reading of every replica that is named now. What fails is in the roll, never an error."""
        async with self._http() as http:
            found = await Discovery(self._places, http, self._resolve).find()
            free = asyncio.Semaphore(AT_ONCE)
            said = await asyncio.gather(*(self._read(http, url, free) for url in found.urls))
        each = dict(zip(found.urls, said, strict=True))
        return Roll(
            there=tuple(url for url, why in each.items() if why is None),
            unread={url: why for url, why in each.items() if why is not None},
            problems=found.problems,
        )

    async def _read(self, http: httpx.AsyncClient, url: str, free: asyncio.Semaphore) -> str | None:
        """Why it cannot be read; None where it can."""
        scraper = Scraper(f"{url}/metrics", http, credential=Credential(url, self._access), deadline_s=DEADLINE_S)
        async with free:
            try:
                await scraper.once()
            except ScrapeError as error:
                return str(error).rstrip(".")
        return None

"""How a run reaches its server beside the load: its connections, what reads the metrics, and whether the server is there."""

from collections.abc import Awaitable, Callable

import httpx

from core.access import Access
from core.config import Target
from core.facts import Fact
from core.net import client_of_many, status_of
from core.records import RequestRecord, ServerInfo
from core.run.between import READY_S
from core.run.events import Event, Note
from core.run.scraping import Source
from core.server import CacheReset, Caller, Credential, Discovery, ReplicaScraper, Scraper, reset_prefix_cache

MakeScraper = Callable[[str, httpx.AsyncClient, Credential, tuple[str, ...]], Source]
"""Of the address of the metrics, a client, what lets us in, and the names of the models that count."""


def scraper_of(url: str, client: httpx.AsyncClient, credential: Credential, models: tuple[str, ...]) -> Source:
    """What reads one address."""
    return Scraper(url, client, credential=credential, models=models)


class Connections:
    """All of one run, which are closed together. `discovery`: the replicas behind the target, whose metrics are read in place of
    its own, with `replica_access` alone. `ask` sends one request of the workload, within so many seconds."""

    def __init__(
        self,
        target: Target,
        access: Access,
        *,
        open_client: Callable[[], httpx.AsyncClient],
        make_scraper: MakeScraper,
        discovery: Discovery | None,
        replica_access: Access,
        ask: Callable[[float], Awaitable[RequestRecord | None]],
        emit: Callable[[Event], None],
        clock: Callable[[], float],
    ) -> None:
        self.replicas: ReplicaScraper | None = None
        self.alive_path: str | None = None
        """The route that tells whether the server is there, once the checks have found one."""
        self._target = target
        self._access = access
        self._open_client = open_client
        self._make_scraper = make_scraper
        self._ask = ask
        self._emit = emit
        self._clock = clock
        self._clients: list[httpx.AsyncClient] = []
        if discovery is not None:
            http = client_of_many(replica_access, target.insecure)
            self._clients.append(http)
            self.replicas = ReplicaScraper(discovery, http, access=replica_access, say=self._warn, clock=clock)

    def open(self) -> httpx.AsyncClient:
        """A client of its own."""
        client = self._open_client()
        self._clients.append(client)
        return client

    def source(self, server: ServerInfo) -> Source | None:
        """What reads the server's metrics, on a connection of its own; None when it has none."""
        if self.replicas is not None:
            self.replicas.models = frozenset(server.metrics_models)
            return self.replicas
        if server.metrics_url is None:
            return None
        return self._make_scraper(server.metrics_url, self.open(), self._credential, server.metrics_models)

    async def healthy(self, http: httpx.AsyncClient) -> bool:
        """Whether the server is there while load runs. Where no route tells, the load goes on to its verdict, and single requests
        show it after that."""
        if self.alive_path is None:
            return True
        status = await self.status(http)
        return status is not None and status < 500

    async def status(self, http: httpx.AsyncClient) -> int | None:
        """The status that the server answers with while nothing of ours is in flight; None without an answer. Of a single request
        where no route tells."""
        if self.alive_path is not None:
            return await status_of(http, f"{self._target.url.rstrip('/')}{self.alive_path}", self._access)
        record = await self._ask(READY_S)
        if record is None:
            return None
        return 200 if record.ending == "ok" else record.status

    async def reset_cache(self, http: httpx.AsyncClient) -> CacheReset:
        """Have the server forget all prefixes."""
        return await reset_prefix_cache(Caller(http, self._credential), self._target.url)

    async def close(self) -> None:
        """End what is in flight, and close all of them."""
        if self.replicas is not None:
            await self.replicas.close()
        for client in self._clients:
            await client.aclose()

    @property
    def _credential(self) -> Credential:
        return Credential(self._target.url, self._access)

    def _warn(self, found: Fact) -> None:
        self._emit(Note(t=self._clock(), level="warn", text=found))

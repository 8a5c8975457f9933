"""Which replicas are there now: addresses as given, from a file, behind a headless service's DNS name, or by a Prometheus query.

A source that fails after it has worked keeps what it found last: a name server that is down for a moment takes no replica away.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit

import httpx
import msgspec

from core.address import joined, split_address
from core.errors import UserError
from core.facts import Fact, fact
from core.net import UNREADABLE, error_text
from core.server.http import Caller, Credential, HttpError, public

AGAIN_S = 30.0
"""From one look at the sources to the next. Records of headless services live that long (CoreDNS of Kubernetes: 30 s)."""

MOST = 1000
"""Replicas; a query that finds more asks for something else."""

Resolve = Callable[[str, int], Awaitable[Iterable[str]]]
"""Name and port -> all its addresses. Raises OSError."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where replicas are told of. `dns` is NAME and port; `prometheus` is the address of a Prometheus server, `query` what it is
    asked, whose results name replicas by the label `url`, else `instance`."""

    urls: tuple[str, ...] = ()
    file: Path | None = None
    dns: tuple[str, int] | None = None
    prometheus: str | None = None
    query: str = ""

    @property
    def fixed(self) -> bool:
        """Whether it is known beforehand which they are."""
        return self.file is None and self.dns is None and self.prometheus is None


@dataclass(frozen=True, slots=True)
class Found:
    """The addresses in the order of the sources, each once, and what is wrong with sources."""

    urls: tuple[str, ...]
    problems: tuple[Fact, ...] = ()


class NotTold(Exception):
    """A source that told of no replica; the text goes on after its name."""


async def resolved(name: str, port: int) -> tuple[str, ...]:
    """All A and AAAA records, as the system finds them. Raises OSError."""
    found = await asyncio.get_running_loop().getaddrinfo(name, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in found))


class Discovery:
    """Asks the sources again each time. `http` goes to Prometheus, without any key: that is another server."""

    def __init__(self, places: Places, http: httpx.AsyncClient, resolve: Resolve = resolved) -> None:
        self._places = places
        self._http = http
        self._resolve = resolve
        self._last: dict[str, tuple[str, ...]] = {}

    async def find(self) -> Found:
        """What is there now. A failing source is a problem, never an error."""
        places, urls, problems = self._places, list(self._places.urls), []
        sources: list[tuple[str, Callable[[], Awaitable[tuple[str, ...]]]]] = []
        if places.file is not None:
            sources.append((f"--replicas-file {places.file.name}", self._of_file))
        if places.dns is not None:
            sources.append((f"--dns {places.dns[0]}:{places.dns[1]}", self._of_name))
        if places.prometheus is not None:
            sources.append((f"--prometheus {public(places.prometheus)}", self._of_prometheus))
        for name, ask in sources:
            try:
                self._last[name] = await ask()
            except NotTold as problem:
                problems.append(
                    fact("replicas_not_told", source=name, said=_clean(str(problem)), kept=len(self._last.get(name, ())))
                )
            urls += self._last.get(name, ())
        return Found(tuple(dict.fromkeys(urls))[:MOST], tuple(problems))

    async def _of_file(self) -> tuple[str, ...]:
        assert self._places.file is not None
        try:
            return read_replicas(self._places.file)
        except UserError as error:
            raise NotTold(str(error)) from error

    async def _of_name(self) -> tuple[str, ...]:
        assert self._places.dns is not None
        name, port = self._places.dns
        try:
            found = tuple(await self._resolve(name, port))
        except (OSError, UnicodeError) as error:
            said = error.strerror if isinstance(error, OSError) else None
            raise NotTold(f"the name is not known (DNS: {said or 'no answer'})") from error
        if not found:
            raise NotTold("the name has no address")
        old = tuple(each for each in found if ":" not in each)
        if 2 * len(old) == len(found):  # a service of both families: each replica has an address of either, and would count twice
            found = old
        return tuple(f"http://[{each}]:{port}" if ":" in each else f"http://{each}:{port}" for each in sorted(found))

    async def _of_prometheus(self) -> tuple[str, ...]:
        base = (self._places.prometheus or "").rstrip("/")
        try:
            reply = await Caller(self._http, Credential(base)).get(
                f"{base}/api/v1/query?query={quote(self._places.query, safe='')}"
            )
        except HttpError as error:
            raise NotTold(f"it {error}") from error
        if not reply.ok:
            raise NotTold(f"it {reply.refusal()}")
        return replicas_in(reply.body)


class _Series(msgspec.Struct):
    metric: dict[str, str] = {}


class _Data(msgspec.Struct):
    result: list[_Series] = []


class _Answer(msgspec.Struct):
    status: str = ""
    data: _Data | None = None


def replicas_in(body: bytes) -> tuple[str, ...]:
    """The replicas that the results of a Prometheus query name (its HTTP API, /api/v1/query; instant or range vector). Raises
    NotTold where none does."""
    try:
        answer = msgspec.json.decode(body, type=_Answer)
    except UNREADABLE as error:
        said = error_text(body)
        raise NotTold(f"it refuses the query: {said}" if said else "it does not answer as Prometheus does") from error
    if answer.status != "success" or answer.data is None:
        raise NotTold(f"it refuses the query: {error_text(body) or 'no reason given'}")
    named = [text for each in answer.data.result if (text := each.metric.get("url") or each.metric.get("instance"))]
    urls = tuple(dict.fromkeys(url for text in named if (url := replica_url(text)) is not None))
    if not urls:
        n = len(answer.data.result)
        raise NotTold("the query has no results" if not n else "no result has a label url or instance that is an address")
    return tuple(sorted(urls))


def read_replicas(path: Path) -> tuple[str, ...]:
    """The addresses in a file: one a line; empty lines and what follows a # are left out. Raises UserError naming the line."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or "it is not text"
        raise UserError(f"--replicas-file: {path} cannot be read ({why}); give a file with one address a line.") from None
    urls = []
    for number, line in enumerate(lines, 1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        url = replica_url(text)
        if url is None:
            raise UserError(
                f"--replicas-file: line {number} of {path} is not a server address; give one such as http://127.0.0.1:8000,"
                " without user, password and query."
            )
        urls.append(url)
    if not urls:
        raise UserError(f"--replicas-file: {path} holds no address; give one a line, such as http://127.0.0.1:8000.")
    return tuple(dict.fromkeys(urls))


def replica_url(text: str) -> str | None:
    """The base address of a replica, of `host:port` or any of its routes; None for what is none, or may hold a secret."""
    text = text.strip()
    text = text if "://" in text else f"http://{text}"
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return None
    if not usable or not text.isprintable() or " " in text or any(mark in text for mark in "@?#"):
        return None
    return joined(split_address(text))


def _clean(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text)

"""What must be true before load starts: one list of checks, each pass, warn or refuse with one sentence."""

from collections.abc import AsyncIterator, Awaitable, Callable

import httpx

from core.config import ProbeConfig
from core.records import Check, Hello, Phase, RequestRecord, ServerInfo

SendSingles = Callable[[Hello, int, Phase], Awaitable[list[RequestRecord]]]
"""Sends that many requests one after another through the generator, exactly as the load will, and returns how they ended.
Phase "preflight" while something is being found out, "single" for the one unjudged and the three judged requests."""


class Preflight:
    """Runs the checks in order; afterwards `info`, `hello` and the three judged `singles` hold what was learned."""

    info: ServerInfo
    hello: Hello | None
    singles: list[RequestRecord]

    def __init__(self, config: ProbeConfig, api_key: str | None, nonce: str, http: httpx.AsyncClient, send: SendSingles) -> None:
        raise NotImplementedError

    def checks(self) -> AsyncIterator[Check]:
        """The checks, each as soon as it is known; stops after the first refusal that makes the rest pointless."""
        raise NotImplementedError

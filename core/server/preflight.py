"""What must be true before load starts: one list of checks, each pass, warn or refuse with one sentence."""

from collections.abc import AsyncIterator, Awaitable, Callable

import httpx

from core.config import ProbeConfig
from core.records import Check, Hello, PromptAlphabet, RequestRecord, ServerInfo

SendOne = Callable[[Hello, int], Awaitable[list[RequestRecord]]]
"""Sends that many requests one after another through the generator, as the load will, and returns how they ended."""


class Preflight:
    """Runs the checks in order; afterwards `info`, `alphabet`, `model` and `singles` hold what was learned."""

    info: ServerInfo
    alphabet: PromptAlphabet
    model: str | None

    def __init__(self, config: ProbeConfig, api_key: str | None, nonce: str, http: httpx.AsyncClient, send: SendOne) -> None:
        raise NotImplementedError

    def checks(self) -> AsyncIterator[Check]:
        """The checks, each as soon as it is known; stops after the first refusal that makes the rest pointless."""
        raise NotImplementedError

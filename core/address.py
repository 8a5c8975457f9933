"""What people paste as an address -> a base and the prefix of its API: `http://h:8000/v1/chat/completions` is a server, too."""

import re
from typing import NamedTuple
from urllib.parse import urlsplit

PREFIX = "/v1"
"""Where vLLM serves its API."""

_ROUTES = (
    "/chat/completions",
    "/completions",
    "/models",
    "/responses",
    "/embeddings",
    "/metrics",
    "/health",
    "/version",
    "/ping",
    "/tokenize",
    "/docs",
    "/redoc",
    "/openapi.json",
)
_VERSION = re.compile(r"/v\d+[\w.-]*")
"""A last segment that is the version of an API and no part of a gateway's route: /v1, /v3, /v1-openai."""


class Address(NamedTuple):
    """`base` has no slash at its end; `base + prefix + "/models"` lists the models."""

    base: str
    prefix: str


def split_address(url: str) -> Address:
    """The base and the prefix of what was pasted: one route at its end is cut off, and a version before it is the prefix.

    `url` has a scheme and a host, and no query. A fragment, as of a page of documentation (`/docs#/default`), is dropped.
    """
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    route = next((each for each in _ROUTES if path.endswith(each)), "")
    path = path.removesuffix(route).rstrip("/")
    segment = path[path.rfind("/") :] if "/" in path else ""
    prefix = segment if _VERSION.fullmatch(segment) else ""
    return Address(f"{parts.scheme}://{parts.netloc}{path.removesuffix(prefix).rstrip('/')}", prefix or PREFIX)


def joined(address: Address) -> str:
    """The shortest address that `split_address` takes apart in the same way; a base may end like a route."""
    return address.base if split_address(address.base) == address else address.base + address.prefix

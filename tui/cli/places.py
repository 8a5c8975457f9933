"""Where replicas are told of, by the options that `watch` and the runs against a gateway share, and how they let us in."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from core.access import Access
from core.errors import UserError
from tui.cli import inputs

if TYPE_CHECKING:
    from core.server import Discovery, Places

_SOURCES = ("replica", "replicas_file", "dns", "prometheus")
_OF_REPLICAS = ("query", "replica_key_file", "replica_header")


def together(options: Mapping[str, Any]) -> None:
    """Refuse (UserError) options about replicas that do not go together."""
    if (options["prometheus"] is None) != (not options["query"]):
        raise UserError("--prometheus and --query belong together: the server that is asked, and what it is asked.")
    if not any(options.get(name) for name in _SOURCES) and (given := [name for name in _OF_REPLICAS if options.get(name)]):
        raise UserError(
            f"{inputs.flag(given[0])} is about the replicas behind a gateway; name them with --replica, --replicas-file, --dns or"
            " --prometheus."
        )


def places_of(urls: Sequence[str], options: Mapping[str, Any]) -> "Places":
    """Where to look for replicas: `urls` and what the options name. Raises UserError for a file that cannot be read."""
    from core.server import Places, read_replicas  # httpx is loaded only when it is used

    together(options)
    file = None if options["replicas_file"] is None else Path(options["replicas_file"])
    if file is not None:
        read_replicas(file)
    return Places(tuple(dict.fromkeys(urls)), file, options["dns"], options["prometheus"], options["query"] or "")


def replica_access(options: Mapping[str, Any], access: Access) -> Access:
    """What lets us in at the replicas: `access` is the gateway's, of which they get nothing that is a secret of its."""
    file = options["replica_key_file"]
    key = None if file is None else inputs.key_of_file(file, "--replica-key-file")
    return replace(access, api_key=key, headers=tuple(options["replica_header"] or ()))


@asynccontextmanager
async def discovery_of(options: Mapping[str, Any], access: Access, insecure: bool) -> "AsyncIterator[Discovery | None]":
    """The replicas behind a gateway that the options name; None where they name none."""
    places = places_of(options["replica"] or (), options)
    if not places.urls and places.fixed:
        yield None
        return
    from core.net import client_of_many
    from core.server import Discovery

    async with client_of_many(access, insecure) as http:
        yield Discovery(places, http)

"""The models that a server lists: one GET, for a user to choose from."""

import httpx
import msgspec

from core.access import Access
from core.errors import UserError
from core.net import http_client
from core.server import UNREADABLE, Caller, Credential, HttpError, ModelCard

MOST = 500
"""Nobody chooses from more."""


class _Models(msgspec.Struct):
    data: list[ModelCard]


async def models(url: str, access: Access, insecure: bool = False, http: httpx.AsyncClient | None = None) -> tuple[str, ...]:
    """The names in /v1/models, at most MOST of them. Raises UserError with a sentence when there is no such list."""
    async with http or http_client(access, insecure) as client:
        try:
            reply = await Caller(client, Credential(url, access)).get(f"{url}/v1/models")
            if not reply.ok:
                hint = (
                    ", which needs the API key: it is sent with the checks"
                    if reply.status in (401, 403) and not access.api_key
                    else ""
                )
                raise UserError(f"GET /v1/models {reply.refusal()}{hint}.")
            return tuple(card.id for card in msgspec.json.decode(reply.body, type=_Models).data[:MOST])
        except HttpError as error:
            raise UserError(f"{url} {error}.") from None
        except UNREADABLE:
            raise UserError(f"{url} answers, but GET /v1/models is no list of models; is it the address of the API?") from None

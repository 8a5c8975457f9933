"""Which machines were asked for."""

import re
import secrets
from importlib.util import find_spec

import msgspec

from core.errors import UserError

MOST_LOCAL = 64
"""Senders on one machine: more of them than it has cores measure nothing but each other."""

_PLACE = re.compile(r"([\w.-]+|\[[0-9A-Fa-f:.]+\]):([0-9]{1,5})")


class WorkersAsked(msgspec.Struct, frozen=True, kw_only=True):
    """A Ray cluster, one worker on each of its machines, or `local` workers on this machine alone. `address` None: the cluster that
    this machine is a part of."""

    local: int | None = None
    address: str | None = None

    @classmethod
    def parse(cls, text: str, name: str) -> "WorkersAsked":
        """`auto`, `HOST:PORT` of a cluster's head, or `local:N`. Raises UserError for anything else, and where Ray is missing."""
        asked = _parsed(text.strip(), name)
        if find_spec("ray") is None:
            raise UserError(f"{name}: load from several machines needs Ray, which is not installed; pip install 'kneescope[ray]'.")
        return asked

    @property
    def environment(self) -> dict[str, str]:
        """What Ray finds in the driver's environment when it is imported: no reports of usage, and workers that take their turn (by
        default all else on a machine goes first, nice 15). A Ray of our own listens on all addresses: a token keeps others out that
        is written nowhere, in place of one that Ray would keep in the user's folder."""
        ours = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
        if self.local is None:
            return ours
        return ours | {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}

    def __str__(self) -> str:
        return f"local:{self.local}" if self.local is not None else self.address or "auto"


def _parsed(text: str, name: str) -> WorkersAsked:
    if text == "auto":
        return WorkersAsked()
    if text.startswith("ray://"):
        raise UserError(
            f"{name}: {text!r} enters a cluster from outside, where a machine that is lost goes unseen for half a minute; start"
            " kneescope on a machine of the cluster and give auto."
        )
    kind, _, number = text.partition(":")
    if kind == "local":
        if not (number.isascii() and number.isdigit() and 1 <= int(number[:9]) <= MOST_LOCAL):
            raise UserError(f"{name}: {text!r} is not local:N; give 1 to {MOST_LOCAL} workers on this machine, such as local:2.")
        return WorkersAsked(local=int(number))
    place = _PLACE.fullmatch(text)
    if place is None or not 0 < int(place[2]) < 65536:
        raise UserError(f"{name}: {text!r} is not auto, local:N or HOST:PORT of a Ray cluster's head, such as 10.0.0.1:6379.")
    return WorkersAsked(address=text)

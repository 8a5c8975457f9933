"""What a person at a terminal is asked before a run: the key, the model, and whether a server may be loaded at all."""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import click
from msgspec.structs import replace

from core.access import Access
from core.config import ProbeConfig
from core.errors import UserError
from core.net import http_client
from core.server import AGAIN_S, ServerGlance, look, others_between, others_now, place
from core.units import count
from tui.terminal.whole import plain, why_no_screen

KEY_TRIES = 3

FAR = "{} is neither on this machine nor in a private network. Are you allowed to load it, and do you want to?"
OTHERS = "The server has {} from other clients. Load slows them down, and the answer is what fits on top of them. Load it?"

Looks = Callable[[ProbeConfig, Access], Coroutine[Any, Any, ServerGlance]]
"""What looks at a server; tests have their own."""


def can_ask() -> bool:
    """Whether somebody is there to answer: stdin and stderr are terminals."""
    return why_no_screen(sys.stdin, sys.stderr) is None


async def look_at(config: ProbeConfig, access: Access) -> ServerGlance:
    """A look over connections of its own."""
    async with http_client(access, config.target.insecure) as http:
        return await look(config.target, access, http)


def settle(config: ProbeConfig, access: Access, looks: Looks = look_at, *, loads: bool = True) -> tuple[ProbeConfig, Access]:
    """The run with what was answered; only what is missing is asked. `loads` False: single requests, which need no permission.

    Raises UserError when permission was not given, click.Abort for Ctrl-C and the end of input.
    """
    if loads and not config.safety.public_ok and not asyncio.run(near(config)):
        _confirm(FAR.format(config.target.url), "--yes")
        config = agreed(config, public_ok=True)
    seen, access = _let_in(config, access, looks)
    if config.target.model is None and len(seen.models) > 1:
        config = replace(config, target=replace(config.target, model=_model(access, seen.models)))
    if loads and not config.safety.with_others and seen.sample is not None and others_now(seen.sample) != 0:
        others = others_between(seen.sample, asyncio.run(_again(config, access, looks)).sample)
        if others != 0:
            _confirm(OTHERS.format(requests(others)), "--with-others")
            config = agreed(config, with_others=True)
    return config, access


def requests(others: float | None) -> str:
    """So many requests; None: others are served, and their number is not told."""
    return "an unknown number of requests" if others is None else count(round(others), "request")


async def near(config: ProbeConfig) -> bool:
    """Whether there is nothing to ask about. A name that is known to nobody here may be known to a proxy."""
    near = await place(config.target)
    return near or (near is None and config.target.proxy is None)


async def _again(config: ProbeConfig, access: Access, looks: Looks) -> ServerGlance:
    """What a run before this one had cut off is gone by now."""
    await asyncio.sleep(AGAIN_S)
    return await looks(config, access)


def _let_in(config: ProbeConfig, access: Access, looks: Looks) -> tuple[ServerGlance, Access]:
    """A look at the server, and the key asked for until it lets us in, at most KEY_TRIES times; an empty one gives up."""
    seen = asyncio.run(looks(config, access))
    named = any(name.lower() == "authorization" for name, _ in access.headers)
    for _ in range(KEY_TRIES):
        if not seen.key_wanted or named:
            break
        before = "rejects the key" if access.api_key else "requires an API key"
        text = f"{plain(config.target.url)} {before} (401). API key, not shown (leave empty to go on without one)"
        key = click.prompt(text, default="", hide_input=True, show_default=False, err=True).strip()
        if not key:
            break
        try:
            access = replace(access, api_key=key)
        except UserError as error:
            click.echo(str(error), err=True)
            continue
        seen = asyncio.run(looks(config, access))
    return seen, access


def _model(access: Access, models: tuple[str, ...]) -> str:
    """The model that is chosen by its number."""
    for number, name in enumerate(models, 1):
        click.echo(f"  {number:>3}  {plain(access.scrub(name))[:120]}", err=True)
    number = click.prompt("Number of the model to load", type=click.IntRange(1, len(models)), err=True)
    return models[number - 1]


def _confirm(question: str, option: str) -> None:
    if not click.confirm(plain(question), default=False, err=True):
        raise UserError(f"Not confirmed, so no load was sent; give {option} to confirm beforehand.")


def agreed(config: ProbeConfig, **permission: bool) -> ProbeConfig:
    """The run with permission to load its server (`public_ok`, `with_others`). Raises UserError for what that excludes."""
    return replace(config, safety=replace(config.safety, **permission))

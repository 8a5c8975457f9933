"""Routes beside the API, asked side by side: whether anybody is there. What they say of the server, a request says better."""

import asyncio

import msgspec

from core.facts import Fact, fact
from core.net import PROMPT_S
from core.records import Check
from core.server.checks import check_of
from core.server.http import Caller, HttpError, Reply

HEALTH = "/health"
_ANSWERS = ("elsewhere", "redirects", "too_large")
"""Of what makes a call fail, that which somebody must have answered."""


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """What GET on one route brought. `wrong`: why that is not as it should be; None where it is, as where a key is wanted.
    `answered`: somebody is there; `status` None: without an answer that could be read within PROMPT_S."""

    path: str
    status: int | None = None
    wrong: Fact | None = None
    answered: bool = False


async def ask_routes(caller: Caller, base: str, prefix: str) -> tuple[Route, ...]:
    """/health, the list of models and /version, in this order. One that is slow is waited for only while no other has answered."""
    paths = (HEALTH, f"{prefix}/models", "/version")
    tasks = [asyncio.create_task(_asked(caller, base, path)) for path in paths]
    try:
        _, slow = await asyncio.wait(tasks, timeout=PROMPT_S)
        late = set(slow)
        while slow and not any(task.done() and task.result().answered for task in tasks):
            _, slow = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            slow = {task for task in slow if not task.done()}
        return tuple(_so_far(path, task, late=task in late) for path, task in zip(paths, tasks, strict=True))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _asked(caller: Caller, base: str, path: str) -> Route:
    try:
        reply: Reply = await caller.get(f"{base}{path}")
    except HttpError as error:
        return Route(path=path, wrong=error.found, answered=error.found.figures.get("why") in _ANSWERS)
    good = reply.ok or reply.status in (401, 403)
    return Route(path=path, status=reply.status, wrong=None if good else reply.refused, answered=True)


def _so_far(path: str, task: "asyncio.Task[Route]", *, late: bool) -> Route:
    """One that was late, and then answered, is slow; it failed where it failed."""
    if task.done() and not (late and task.result().answered):
        return task.result()
    return Route(path=path, wrong=fact("route_slow", within_s=PROMPT_S), answered=task.done())


def alive_path(routes: tuple[Route, ...]) -> str | None:
    """The route that shows during a run whether the server is there: the first that answered as it should, else with less than
    500; None where none did."""
    good = (route.path for route in routes if route.wrong is None)
    return next(good, None) or next((route.path for route in routes if route.status is not None and route.status < 500), None)


def reachable_check(url: str, routes: tuple[Route, ...]) -> tuple[Check, Fact | None]:
    """Refuses only where nobody answered. What the streamed request has to decide, in words for its failure; None where nothing."""
    health = routes[0]
    if not any(route.answered for route in routes):
        failed = [route.wrong for route in routes if route.wrong is not None]
        first = next((wrong for wrong in failed if wrong.figures.get("why") not in (None, "timeout")), failed[0])
        return check_of("reachable", "refuse", fact("server_unreachable", first, url=url)), None
    good = next((route for route in routes if route.wrong is None), None)
    found = () if good is None else (fact("server_answers", url=url, path=good.path, status=good.status),)
    if health.wrong is None or (good is not None and health.status is not None and health.status < 500):
        return check_of("reachable", "pass", *found), None
    doubt = fact("server_not_up", health.wrong, url=url, path=health.path)
    unsure = fact("health_unsure", health.wrong, path=health.path, url=None if found else url)
    return check_of("reachable", "warn", *found, unsure), doubt

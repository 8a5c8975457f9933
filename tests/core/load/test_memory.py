"""Nothing stays of a request: collection is off while an order runs, so what only a collection would find is a leak."""

import asyncio
import gc

import pytest

from core.load.client import Job, _Exchange
from core.load.digest import _Reading
from core.load.reply import Reply
from core.load.wire import Connection
from core.records import RequestFirst
from tests.core.load.calling import calling, raw
from tests.core.load.server import HEAD, Handler, answer, chunk, endless, token, whole

CASES = {
    "ok": whole,
    "cut": raw(HEAD, chunk(token(count=1)), close=True),
    "http error": raw(answer(500, b"boom")),
    "no http": raw(b"no http", close=True),
    "broken on the way": raw(HEAD, chunk(token(count=1)), b"no chunk\r\n"),
    "two answers": raw(HEAD, b"0\r\n\r\n", HEAD),
    "an event too long": raw(HEAD, chunk(b"data: " + b"x" * 9_000_000), close=True),
    "cancelled": endless,
}


def left() -> list[object]:
    """What of requests is there, without the connections that wait for the next."""
    of_requests = [each for each in gc.get_objects() if isinstance(each, (_Exchange, _Reading, Reply, Connection))]
    return [each for each in of_requests if not (isinstance(each, Connection) and each.is_open)]


@pytest.mark.parametrize("handler", CASES.values(), ids=CASES.keys())
async def test_a_request_leaves_nothing_that_only_a_collection_would_find(handler: Handler) -> None:
    async with calling(handler) as (caller, _):
        gc.collect()
        gc.disable()
        try:
            request = caller.client.prepare(b"{}")
            job = Job(order=1, index=1, t_sched=0.0, asked_input=1, asked_output=1)
            task = asyncio.create_task(caller.client.send(job, request, caller.tell))
            del request
            if handler is endless:
                await caller.until(RequestFirst)
                assert left(), "the test sees what there is"
                task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            del task
            await asyncio.sleep(0.01)
            assert left() == []
        finally:
            gc.enable()

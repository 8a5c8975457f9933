"""Nothing stays of a request: collection is off while an order runs, so what only a collection would find is a leak."""

import asyncio
import gc
import weakref

import pytest

from core.load.client import Job
from core.records import RequestFirst
from tests.core.load.calling import calling, raw
from tests.core.load.server import HEAD, Handler, answer, chunk, endless, token, whole


@pytest.mark.parametrize(
    "handler",
    [whole, raw(HEAD, chunk(token(count=1)), close=True), raw(answer(500, b"boom")), raw(b"no http", close=True), endless],
    ids=["ok", "cut", "http error", "no http", "cancelled"],
)
async def test_a_request_leaves_nothing_that_only_a_collection_would_find(handler: Handler) -> None:
    async with calling(handler) as (caller, _):
        request = caller.client.prepare(b"{}")
        kept = weakref.ref(request)
        job = Job(order=1, index=1, t_sched=0.0, asked_input=1, asked_output=1)
        gc.collect()
        gc.disable()
        try:
            task = asyncio.create_task(caller.client.send(job, request, caller.tell))
            del request, job
            if handler is endless:
                await caller.until(RequestFirst)
                task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            del task
            await asyncio.sleep(0.01)
            assert kept() is None
        finally:
            gc.enable()

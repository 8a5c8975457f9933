"""Every request of a load is accounted for, however it was stopped and whatever lay between client and server."""

import pytest

from core.config import Lengths, Workload
from core.load.generator import Generator
from tests.benchmarks.soak import WAYS, Account, soak
from tests.core.load.orders import hello
from tests.core.load.server import serving
from tests.faults.proxy import Chaos, troubling
from tests.faults.server import FaultServer

SMALL = Workload(input_tokens=Lengths(median=32), output_tokens=Lengths(median=8))
CHAOS = Chaos(refuse_chance=0.1, cut_bytes=3000, delay_chance=0.2, delay_s=0.05, split_chance=0.3)

CALM = Chaos(refuse_chance=0, cut_bytes=1e9, delay_chance=0, split_chance=0)


async def account(chaos: Chaos) -> tuple[Account, FaultServer]:
    faults = FaultServer(slots=50, prefill_s=0.02, decode_s=0.1)
    async with serving(faults) as server, troubling(server.url, chaos) as proxy:
        generator = await Generator.start()
        try:
            given = hello(proxy.url, workload=SMALL)
            return await soak(generator, given, rate_rps=80.0, order_s=0.8, orders=len(WAYS)), faults
        finally:
            await generator.close()


@pytest.mark.parametrize("chaos", [CHAOS, CALM], ids=["chaos", "calm"])
async def test_planned_is_sent_and_unsent_and_sent_is_the_sum_of_the_endings(chaos: Chaos) -> None:
    told, server = await account(chaos)
    assert told.wrong == []
    assert told.planned == told.sent + told.unsent + told.not_due
    assert told.sent == told.endings.total()
    assert told.planned > 120
    assert told.endings["ok"] > 0
    if chaos is CHAOS:
        assert {"truncated", "connection"} <= set(told.endings)
        assert all(": " in words and words[-1] not in ": " for words in told.said), "each failure has its sentence"
    else:
        assert set(told.endings) <= {"ok", "aborted"}
        assert server.counts["success"] >= told.endings["ok"]


async def test_an_account_that_does_not_add_up_is_noticed() -> None:
    """The soak itself: a request that is told twice, and one that is never told of."""
    faults = FaultServer(prefill_s=0.0, decode_s=0.0)

    class Lossy(Generator):
        async def messages(self):  # type: ignore[no-untyped-def]
            seen = 0
            async for message in super().messages():
                seen += type(message).__name__ == "RequestEnded"
                if type(message).__name__ == "RequestEnded" and seen == 2:
                    continue
                yield message
                if type(message).__name__ == "RequestEnded" and seen == 3:
                    yield message

    async with serving(faults) as server:
        generator = await Lossy.start()
        try:
            told = await soak(generator, hello(server.url, workload=SMALL), rate_rps=60.0, order_s=0.3, orders=1)
        finally:
            await generator.close()
    assert [sentence.partition("requests")[0] for sentence in told.wrong] == ["order 1: ", "order 1: "]

"""Several children share one schedule, and are one generator to whoever uses it."""

import asyncio
import os
import signal
import time

import pytest

from core.config import Lengths, Workload
from core.errors import UserError
from core.load.generator import Generator, children_for
from core.records import LoadReady, LoadTick
from core.schedule import draw
from core.workloads import parse_mix
from tests.core.load.orders import hello, order
from tests.core.load.server import WAIT_S, endless, serving, whole
from tests.core.load.test_generator import LATER, at_once, done, ends, generating, until_done


async def test_several_children_send_what_one_would_send() -> None:
    workload = Workload(
        input_tokens=Lengths(median=40, sigma=0.5, maximum=120), output_tokens=Lengths(median=20, sigma=0.5, maximum=60)
    )
    async with serving(whole) as server:
        generator = await Generator.start(children=3)
        await generator.hello(hello(server.url, workload=workload))
        asked = order((300, 0.3), start_at=time.monotonic() + 0.05)
        plan = draw(asked, workload)
        await generator.order(asked)
        told = await until_done(generator)
        await generator.close()
    by_index = {m.index: m for m in ends(told)}
    assert sorted(by_index) == list(range(len(plan))), "each once, whoever sent it"
    for index, ended in by_index.items():
        assert ended.t_sched == asked.start_at + plan.offsets_s[index]
        assert (ended.asked_input, ended.asked_output) == (plan.input_tokens[index], plan.output_tokens[index])
    assert (done(told).sent, done(told).unsent) == (len(plan), 0)
    assert sum(isinstance(m, LoadReady) for m in told) == 1
    assert len({r.json["cache_salt"] for r in server.received}) == len(plan)


async def test_several_children_report_on_themselves_as_one_and_stop_as_one() -> None:
    async with serving(endless) as server:
        generator = await Generator.start(children=2)
        await generator.hello(hello(server.url))
        await generator.order(at_once(5, LATER))
        async with asyncio.timeout(WAIT_S):
            async for message in generator.messages():
                if isinstance(message, LoadTick) and message.in_flight == 5:
                    break
        await generator.abort(1)
        told = await until_done(generator)
        assert [m.ending for m in ends(told)] == ["aborted"] * 5
        assert done(told).sent == 5
        await generator.close()


async def test_when_one_of_several_children_dies_all_load_ends() -> None:
    async with serving(endless) as server:
        generator = await Generator.start(children=2)
        await generator.hello(hello(server.url))
        await generator.order(at_once(6, LATER))
        await server.until(lambda s: len(s.received) == 6)
        os.kill(generator._workers[1].process.pid, signal.SIGKILL)
        with pytest.raises(UserError, match="SIGKILL"):
            await until_done(generator)
        await server.until(lambda s: s.closed == s.connections)
        await generator.close()


@pytest.mark.parametrize(
    ("rate_rps", "output_tokens", "cores", "children"),
    [
        (5.0, 128, 8, 1),
        (2000.0, 1, 8, 1),
        (2001.0, 1, 8, 2),
        (500.0, 100, 8, 1),
        (501.0, 100, 8, 2),
        (9e9, 1, 8, 7),
        (9e9, 1, 1, 1),
    ],
)
def test_children_by_rate_and_tokens(
    monkeypatch: pytest.MonkeyPatch, rate_rps: float, output_tokens: int, cores: int, children: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    assert children_for(rate_rps, Workload(output_tokens=Lengths(median=output_tokens))) == children


async def test_a_plan_that_needs_more_children_gets_them_before_its_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(4)))
    async with serving(whole) as server, generating() as generator:
        await generator.hello(hello(server.url))
        await generator.plan(3000.0)
        assert generator.children == 2
        await generator.plan(5.0)
        assert generator.children == 2, "what runs stays"
        await generator.order(at_once(4))
        assert len(ends(await until_done(generator))) == 4


def test_a_mix_needs_children_for_its_mean_answer() -> None:
    mix = Workload(mix=parse_mix("8:40=1,8:440=1"))
    assert children_for(40, mix) == children_for(40, Workload(output_tokens=Lengths(median=240)))

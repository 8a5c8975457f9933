"""Whole runs against a gateway whose replicas are named: what they show is the run's server, and a change makes a repeat void."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from core import prose
from core.config import Method
from core.facts import parts, says
from core.results import Answer
from core.run import read_run
from core.run.events import RepeatJudged, ServerSampled
from core.server import Discovery, Places
from tests.core.run.bench import Bench, events_of, on_bench
from tests.core.run.both_ways import same
from tests.core.run.fakes import config
from tests.core.run.virtual import now

PLACES = Places(("http://10.0.0.1:8000", "http://10.0.0.2:8000"))
LISTED = config(method=Method(rates_rps=(4.0,), repeats=1, measure_s=20.0))


@dataclass
class Fleet:
    """Two replicas that share the work of a bench's server, the first three fourths of it; `down` ones refuse connections."""

    server: list[Bench] = field(default_factory=list)
    down: set[str] = field(default_factory=set)
    started: dict[str, float] = field(default_factory=dict)

    def answer(self, request: httpx.Request) -> httpx.Response:
        host = request.url.host
        if host in self.down:
            raise httpx.ConnectError("refused")
        sample = self.server[0].server.sample()
        part = 0.75 if host == "10.0.0.1" else 0.25
        values = {
            "vllm:num_requests_running": (sample.running or 0.0) * part,
            "vllm:num_requests_waiting": (sample.waiting or 0.0) * part,
            "vllm:kv_cache_usage_perc": sample.kv_usage_frac or 0.0,
            "vllm:request_success_total": 0.0 if host in self.started else (sample.requests_success_total or 0.0) * part,
            "vllm:generation_tokens_total": 0.0 if host in self.started else (sample.generation_tokens_total or 0.0) * part,
            "vllm:num_preemptions_total": 0.0,
        }
        labels = '{engine="0",model_name="fake"}'
        lines = [f"{name}{labels} {value}" for name, value in values.items()]
        return httpx.Response(200, text="\n".join([*lines, f"process_start_time_seconds {self.started.get(host, 1.0)}", ""]))


@pytest.fixture
def fleet(monkeypatch: pytest.MonkeyPatch) -> Fleet:
    made = Fleet()
    monkeypatch.setattr(
        "core.run.connections.client_of_many",
        lambda access, insecure: httpx.AsyncClient(transport=httpx.MockTransport(made.answer)),
    )
    return made


def ran(path: Path, fleet: Fleet, at_s: float | None = None, then: Callable[[], None] = lambda: None) -> Answer:
    """A run of one rate, in which something happens at a time after its begin."""

    async def work(bench: Bench) -> Answer:
        if at_s is not None:
            asyncio.get_running_loop().call_at(now() + at_s, then)
        return await bench.session.run()

    http = httpx.AsyncClient(transport=httpx.MockTransport(fleet.answer))
    _, answer = on_bench(path, work, probe=LISTED, replicas=Discovery(PLACES, http), set_up=fleet.server.append)
    return answer


def test_the_replicas_are_the_server_of_the_run(path: Path, fleet: Fleet) -> None:
    answer = ran(path, fleet)
    samples = [event.sample for event in events_of(path, ServerSampled)]
    assert all(sample.by_replica and len(sample.by_engine or ()) == 2 for sample in samples)
    (repeat,) = [event.result for event in events_of(path, RepeatJudged)]
    assert repeat.verdict == "pass"
    assert [(each.name, round(each.share or 0.0, 1)) for each in repeat.replicas] == [
        ("10.0.0.1:8000", 1.5),
        ("10.0.0.2:8000", 0.5),
    ]
    uneven = next(each for each in repeat.warnings if says(each, "replicas_uneven"))
    assert "10.0.0.1:8000, got 1.5 times its share" in prose.text(uneven)
    assert answer.knee.pass_rps == 4.0
    same(list(read_run(path)), 5)


def test_one_that_goes_during_a_repeat_makes_it_void_and_the_next_one_counts(path: Path, fleet: Fleet) -> None:
    ran(path, fleet, 12.0, lambda: fleet.down.add("10.0.0.2"))
    first, second = [event.result for event in events_of(path, RepeatJudged)]
    assert (first.verdict, second.verdict) == ("void", "pass")
    (changed,) = [each for each in parts(first.reason) if says(each, "replicas_changed")][:1]
    assert "2 at its begin, 1 at its end (10.0.0.2:8000)" in prose.text(changed)
    assert [each.name for each in second.replicas] == ["10.0.0.1:8000"]


def test_one_that_restarts_makes_the_repeat_void_and_not_the_server_away(path: Path, fleet: Fleet) -> None:
    ran(path, fleet, 12.0, lambda: fleet.started.update({"10.0.0.2": 99.0}))
    first, second = [event.result for event in events_of(path, RepeatJudged)]
    assert (first.verdict, second.verdict) == ("void", "pass")
    assert "10.0.0.2:8000 restarted during the repeat, of 2 replicas" in prose.text(first.reason)
    assert not says(first.reason, "server_restarted")


def test_readings_that_fail_for_a_moment_change_nothing(path: Path, fleet: Fleet) -> None:
    def blink() -> None:
        fleet.down.add("10.0.0.2")
        asyncio.get_running_loop().call_later(0.9, fleet.down.clear)

    ran(path, fleet, 12.0, blink)
    (repeat,) = [event.result for event in events_of(path, RepeatJudged)]
    assert repeat.verdict == "pass"
    assert any(len(event.sample.by_engine or ()) == 1 for event in events_of(path, ServerSampled))
    assert repeat.preemptions == 0
    assert round(sum(each.requests or 0.0 for each in repeat.replicas)) in range(70, 100)

"""One sample of all replicas behind a gateway: sums, rows, replicas that hang, go, come and restart, and who gets which key."""

import asyncio
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import httpx
import pytest

from core.access import Access
from core.facts import Fact
from core.records import ServerSample
from core.server import Discovery, Places, ReplicaScraper, ScrapeError
from tests.core.run.virtual import now, run
from tests.core.server.fakes import capture, client

PAGE = capture("0.32.0-preempting")


def page(*, running: float = 1.0, success: float = 10.0, started: float = 100.0, kv: float = 0.5) -> str:
    """What the real server showed, with these values."""
    text = re.sub(r"^(vllm:num_requests_running\{.*\}) .*$", rf"\1 {running}", PAGE, flags=re.M)
    text = re.sub(r"^(vllm:kv_cache_usage_perc\{.*\}) .*$", rf"\1 {kv}", text, flags=re.M)
    text = re.sub(r"^(vllm:request_success_total\{.*finished_reason=\"length\".*\}) .*$", rf"\1 {success}", text, flags=re.M)
    return re.sub(r"^(process_start_time_seconds) .*$", rf"\1 {started}", text, flags=re.M)


@dataclass
class Fleet:
    """Replicas by host: a page, an error, or what hangs for so long."""

    pages: dict[str, str | Exception] = field(default_factory=dict)
    slow_s: dict[str, float] = field(default_factory=dict)
    addresses: list[str] = field(default_factory=lambda: ["10.0.0.1", "10.0.0.2", "10.0.0.3"])
    asked: list[httpx.Request] = field(default_factory=list)
    looks: int = 0

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        await asyncio.sleep(self.slow_s.get(request.url.host, 0.01))
        answer = self.pages.get(request.url.host, page())
        if isinstance(answer, Exception):
            raise answer
        return httpx.Response(200, text=answer)

    async def resolve(self, name: str, port: int) -> Iterable[str]:
        self.looks += 1
        if not self.addresses:
            raise OSError(2, "no such name")
        return self.addresses

    def scraper(self, access: Access | None = None, said: list[Fact] | None = None) -> ReplicaScraper:
        http = httpx.AsyncClient(transport=httpx.MockTransport(self))
        found = Discovery(Places(dns=("vllm.svc", 8000)), client(lambda request: httpx.Response(500)), self.resolve)
        say = (lambda problem: None) if said is None else said.append
        return ReplicaScraper(found, http, access=access, say=say, clock=now)

    async def read(self, n: int, scraper: ReplicaScraper | None = None) -> list[ServerSample | ScrapeError]:
        scraper = scraper or self.scraper()
        found: list[ServerSample | ScrapeError] = []
        async for each in scraper.readings():
            found.append(each)
            if len(found) == n:
                break
        await scraper.close()
        return found


def names(sample: ServerSample) -> list[str]:
    return [row.name.partition(":")[0].rpartition(".")[2] for row in sample.by_engine or ()]


def samples(found: Sequence[ServerSample | ScrapeError]) -> list[ServerSample]:
    return [each for each in found if isinstance(each, ServerSample)]


def test_all_replicas_make_one_sample() -> None:
    fleet = Fleet({"10.0.0.1": page(running=2, kv=0.9), "10.0.0.2": page(running=5, kv=0.1), "10.0.0.3": page(running=0, kv=0.2)})
    (first,) = samples(run(fleet.read(1)))
    assert (first.running, first.engines, first.by_replica) == (7, 3, True)
    assert first.kv_usage_frac == pytest.approx(0.4)
    assert first.kv_usage_max_frac == 0.9
    rows = {row.name: (row.running, row.kv_usage_frac, row.started) for row in first.by_engine or ()}
    assert rows == {"10.0.0.1:8000": (2, 0.9, 100), "10.0.0.2:8000": (5, 0.1, 100), "10.0.0.3:8000": (0, 0.2, 100)}
    (one,) = samples(run(Fleet(addresses=["10.0.0.1"]).read(1)))
    assert first.requests_success_total is not None
    assert first.decode_time_s is not None
    assert one.decode_time_s is not None
    assert first.decode_time_s == (3 * one.decode_time_s[0], 3 * one.decode_time_s[1])
    assert [row.name for row in one.by_engine or ()] == ["10.0.0.1:8000"]  # the same form, so that names stay


def test_one_that_hangs_keeps_no_other_waiting() -> None:
    """It is waited for once; afterwards the others are read twice a second, and it is known to be there."""
    fleet = Fleet(slow_s={"10.0.0.2": 100.0})
    found = samples(run(fleet.read(12)))
    assert all(names(each) == ["1", "3"] for each in found)
    assert all(each.unread == ("10.0.0.2:8000",) for each in found[:-1])
    apart = [later.t - earlier.t for earlier, later in pairwise(found)]
    assert max(apart[1:]) == pytest.approx(0.5, abs=0.02)
    assert max(each.took_s for each in found[1:]) < 0.1


def test_a_machine_that_is_gone_is_not_taken_for_one_that_is_late() -> None:
    """Nothing refuses there: each connection is given up after 2 s, and the next try is under way at once."""
    fleet = Fleet({"10.0.0.2": httpx.ConnectTimeout("")}, slow_s={"10.0.0.2": 2.0})
    found = samples(run(fleet.read(20)))
    there = [bool(each.unread) for each in found]
    assert there == sorted(there, reverse=True)
    assert 2 <= there.count(True) <= 4


def test_one_that_is_slow_is_in_some_samples_and_one_that_recovers_in_all() -> None:
    async def slow_then_fast() -> list[ServerSample]:
        fleet = Fleet(slow_s={"10.0.0.2": 1.8})
        scraper, found = fleet.scraper(), list[ServerSample]()
        async for each in scraper.readings():
            assert isinstance(each, ServerSample)
            found.append(each)
            if len(found) == 12:
                fleet.slow_s.clear()
            if len(found) == 24:
                break
        await scraper.close()
        return found

    found = run(slow_then_fast())
    with_it = [each for each in found[:12] if "2" in names(each)]
    assert 2 <= len(with_it) <= 4
    assert all(each.took_s >= 1.8 for each in with_it)  # its values may be as old as its request
    assert all(names(each) == ["1", "2", "3"] for each in found[-6:])


def test_a_whole_fleet_that_is_slow_is_read_less_often() -> None:
    fleet = Fleet(slow_s=dict.fromkeys(["10.0.0.1", "10.0.0.2", "10.0.0.3"], 1.5))
    found = samples(run(fleet.read(4)))
    assert all(len(names(each)) == 3 for each in found[1:])
    assert found[3].t - found[2].t == pytest.approx(7.5, abs=0.1)


def test_a_large_fleet_is_read_less_often() -> None:
    """Its pages are read by the process that draws the screen: 200 take it a fifth of a second."""
    found = samples(run(Fleet(addresses=[f"10.0.1.{n}" for n in range(200)]).read(3)))
    assert found[2].t - found[1].t == pytest.approx(1.0, abs=0.05)


def test_counters_never_fall_because_a_replica_is_missing() -> None:
    async def missing() -> list[ServerSample]:
        fleet = Fleet({host: page(success=n) for host, n in (("10.0.0.1", 10), ("10.0.0.2", 1000), ("10.0.0.3", 20))})
        scraper = fleet.scraper()
        found = [await scraper.once()]
        fleet.pages["10.0.0.2"] = httpx.ConnectError("refused")
        fleet.pages["10.0.0.1"] = page(success=12)
        found.append(await scraper.once())
        fleet.pages["10.0.0.2"] = page(success=1001)
        found.append(await scraper.once())
        return found

    found = run(missing())
    base = found[0].requests_success_total or 0.0
    assert [(each.requests_success_total or 0.0) - base for each in found] == [0, 2, 3]
    assert [names(each) for each in found] == [["1", "2", "3"], ["1", "3"], ["1", "2", "3"]]
    assert found[1].unread == ()  # refused: it is not there
    assert found[1].running == 2
    assert len({each.epoch for each in found}) == 1


@pytest.mark.parametrize("started", [50.0, 100.0, 900.0])
def test_the_epoch_moves_when_any_replica_restarts_or_a_new_one_comes(started: float) -> None:
    """Also where its process began before others, and where only its counters show it."""

    async def restart() -> list[ServerSample]:
        fleet = Fleet({"10.0.0.2": page(started=60)})
        scraper = fleet.scraper()
        found = [await scraper.once(), await scraper.once()]
        fleet.pages["10.0.0.2"] = page(started=started if started != 100.0 else 60, success=0)
        found += [await scraper.once(), await scraper.once()]
        return found

    epochs = [each.epoch for each in run(restart())]
    assert None not in epochs
    assert epochs[0] == epochs[1] != epochs[2] == epochs[3]
    assert (epochs[2] or 0) > (epochs[1] or 0)


def test_the_sources_are_asked_again_every_half_minute_and_a_silent_one_is_said_once() -> None:
    async def scaled() -> tuple[list[ServerSample], list[Fact], int]:
        fleet, said = Fleet(), list[Fact]()
        scraper, found = fleet.scraper(said=said), list[ServerSample]()
        async for each in scraper.readings():
            assert isinstance(each, ServerSample)
            found.append(each)
            if len(found) == 10:
                fleet.addresses = ["10.0.0.1", "10.0.0.3", "10.0.0.4"]
            if len(found) == 100:
                fleet.addresses = []
            if len(found) == 300:
                break
        await scraper.close()
        return found, said, fleet.looks

    found, said, looks = run(scaled())
    assert names(found[50]) == ["1", "2", "3"]
    assert names(found[80]) == ["1", "3", "4"]
    assert found[80].epoch != found[50].epoch  # a new one brings all that it ever counted
    assert names(found[-1]) == ["1", "3", "4"]
    assert [problem.code for problem in said] == ["replicas_not_told"]
    assert looks == 5


def test_none_that_can_be_read_is_said_in_one_sentence() -> None:
    fleet = Fleet(dict.fromkeys(["10.0.0.1", "10.0.0.2", "10.0.0.3"], httpx.ConnectTimeout("")))
    with pytest.raises(ScrapeError, match=r"no replica can be read: 10\.0\.0\.1:8000 cannot be reached.* 2 others cannot"):
        run(fleet.scraper().once())
    with pytest.raises(ScrapeError, match="the sources that were named tell of none"):
        run(Fleet(addresses=[]).scraper().once())


def test_a_replica_gets_its_own_key_and_only_that() -> None:
    async def asked(access: Access | None) -> list[str | None]:
        fleet = Fleet()
        await fleet.scraper(access).once()
        return [request.headers.get("authorization") for request in fleet.asked]

    assert run(asked(None)) == [None] * 3
    assert run(asked(Access(api_key="sk-REPLICAS"))) == ["Bearer sk-REPLICAS"] * 3


def test_a_key_that_a_replica_echoes_is_not_said() -> None:
    async def refused() -> str:
        http = client(lambda request: httpx.Response(401, text=f"bad key {request.headers['authorization']}"))
        places = Discovery(Places(("http://a:1",)), http)
        scraper = ReplicaScraper(places, http, access=Access(api_key="sk-TESTSECRET-LONG"), clock=now)
        try:
            await scraper.once()
        except ScrapeError as error:
            return str(error)
        raise AssertionError("it was refused")

    said = run(refused())
    assert "401" in said
    assert "TESTSECRET" not in said


def test_a_router_is_no_replica() -> None:
    router = 'vllm:num_requests_running{server="http://10.0.0.1:8000"} 3\n'
    fleet = Fleet({"10.0.0.2": router})
    (first,) = samples(run(fleet.read(1)))
    assert names(first) == ["1", "3"]
    assert first.unread == ()

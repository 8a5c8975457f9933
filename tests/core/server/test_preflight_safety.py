"""Checks that spare the server, its users and the reader: the way to it, leave to load it, others' requests, no salt, silence."""

from collections.abc import Callable

import httpx
import msgspec
import pytest

from core.access import Access
from core.config import ProbeConfig, Safety, Target
from core.facts import Said, fact, in_turn, says
from core.records import Hello, Phase, RequestRecord
from core.server import checks
from core.server.preflight import Preflight
from tests.core.server.fakes import ALL, BASE, KEY, FakeSend, FakeVllm, Ran, capture, client, config, found, record, run

GIVEN_UP = fact("request_given_up", after_s=60.0, first_token=False, tokens_too_many=None)
REFUSED = "Extra inputs are not permitted: ('body', 'cache_salt')"


async def of(server: FakeVllm, asked: ProbeConfig, access: Access, send: FakeSend | None = None) -> Ran:
    async with client(server) as http:
        preflight = Preflight(asked, access, "00ff", http, send or FakeSend())
        return Ran(preflight, [check async for check in preflight.checks()])


# --- leave to load it -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("url", ["http://8.8.8.8:8000", "https://[2606:4700::1111]"])
async def test_a_server_that_is_far_is_not_loaded_without_leave(url: str) -> None:
    server = FakeVllm()
    ran = await run(server, config=ProbeConfig(target=Target(url=url)))
    assert ran.names == ["reachable", "place"]
    assert (ran["place"].status, found(ran["place"]).code) == ("refuse", "server_far")
    assert sorted(server.paths()) == ["/health", "/v1/models", "/version"]
    agreed = await run(FakeVllm(), config=ProbeConfig(target=Target(url=url), safety=Safety(public_ok=True)))
    assert agreed.names == ALL


@pytest.mark.parametrize("url", ["http://127.0.0.1:8000", "http://10.0.0.3", "http://localhost:1"])
async def test_a_server_that_is_near_needs_none(url: str) -> None:
    assert (await run(FakeVllm(), config=ProbeConfig(target=Target(url=url)))).names == ALL


def page(running: float | None, waiting: float | None, tokens: float, engine: int = 0, epoch: float = 1.7e9) -> str:
    """/metrics with these gauges, None for one that is not there."""
    rows = {"num_requests_running": running, "num_requests_waiting": waiting, "generation_tokens_total": tokens}
    lines = [f'vllm:{name}{{engine="{engine}"}} {value}' for name, value in rows.items() if value is not None]
    return "\n".join((*lines, f"process_start_time_seconds {epoch}", ""))


class Shown:
    """A server whose page is made of how often it was read and how many requests were answered."""

    def __init__(self, make: Callable[[int, int], str], answered: RequestRecord | None = None) -> None:
        self.reads = -1
        self.send = FakeSend(lambda hello, i, phase: answered or record())
        self._make = make
        self.server = FakeVllm(metrics=self._page)

    def _page(self) -> str:
        self.reads += 1
        return self._make(self.reads, sum(n for _, n, _ in self.send.calls))

    async def ran(self) -> Ran:
        return await run(self.server, self.send)


async def test_the_traffic_of_others_ends_the_checks_before_anything_is_sent() -> None:
    shown = Shown(lambda reads, answered: page(9, 50, 1000 + 70 * reads))
    ran = await shown.ran()
    assert ran.names[-1] == "traffic"
    assert (ran["traffic"].status, ran["traffic"].message) == (
        "refuse",
        fact("server_busy", others=59.0, running=9.0, waiting=50.0),
    )
    assert shown.send.calls == []


@pytest.mark.parametrize(
    "make",
    [
        lambda reads, answered: page(0 if answered else 106, 0 if answered else 15, 1000 + 64 * answered),
        lambda reads, answered: page(0 if reads > 2 else 106, 0 if reads > 2 else 15, 1000 + 64 * answered),
        lambda reads, answered: (
            page(0 if answered > 1 else 6, 0, 1000 + 64 * answered)
            + page(0 if answered > 2 else 100, 0 if answered > 2 else 15, 500, engine=1)
        ),
    ],
    ids=["at once", "a reading later", "two engines"],
)
async def test_gauges_of_an_earlier_load_are_made_right_by_a_request(make: Callable[[int, int], str]) -> None:
    shown = Shown(make)
    ran = await shown.ran()
    assert ran.names == ALL
    refreshed = fact("gauges_refreshed", others=121.0, running=106.0, waiting=15.0)
    assert (ran["traffic"].status, ran["traffic"].message) == ("pass", refreshed)
    assert [phase for _, _, phase in shown.send.calls].count("single") == 1, "the checks behind it are the same"


async def test_gauges_that_stay_above_0_refuse_though_the_counters_stand() -> None:
    shown = Shown(lambda reads, answered: page(3, 0, 1000 + 64 * answered))
    ran = await shown.ran()
    busy = fact("server_busy", others=3.0, running=3.0, waiting=0.0, still=True)
    assert (ran.names[-1], ran["traffic"].status, ran["traffic"].message) == ("traffic", "refuse", busy)
    assert len(shown.send.calls) == 1


async def test_a_server_that_answers_nothing_is_refused_for_that_and_not_for_its_gauges() -> None:
    silent = record(ending="aborted", t_first=None, t_last=None, t_end=160.0, output_tokens=0)
    shown = Shown(lambda reads, answered: page(106, 15, 1000), silent)
    ran = await shown.ran()
    assert ran["traffic"].message == fact("gauges_unproven", others=121.0, running=106.0, waiting=15.0)
    assert (ran["traffic"].status, ran.names[-1], ran["request"].status) == ("warn", "request", "refuse")
    assert len(shown.send.calls) == 1, "it is waited for once"


@pytest.mark.parametrize("gauges", [(None, None), (None, 0.0)])
async def test_counters_that_rise_are_others_where_there_is_no_gauge(gauges: tuple[float | None, float | None]) -> None:
    shown = Shown(lambda reads, answered: page(*gauges, 1000 + 70 * reads))
    ran = await shown.ran()
    assert (ran.names[-1], ran["traffic"].status, ran["traffic"].message) == ("traffic", "refuse", fact("server_working"))
    assert shown.send.calls == []


async def test_counters_that_stand_still_are_said_where_there_is_no_gauge() -> None:
    ran = await Shown(lambda reads, answered: page(None, None, 1000 + 64 * answered)).ran()
    assert (ran.names, ran["traffic"].status, ran["traffic"].message) == (ALL, "warn", fact("traffic_at_rest"))


async def test_counters_of_several_processes_in_turn_tell_nothing() -> None:
    ran = await Shown(lambda reads, answered: page(None, None, 1000 + 70 * reads, epoch=1.7e9 + reads % 2)).ran()
    assert (ran["traffic"].status, ran["traffic"].message) == ("warn", fact("traffic_unknown"))


async def test_with_others_no_gauge_is_asked_about() -> None:
    asked = msgspec.structs.replace(config(), safety=Safety(with_others=True, public_ok=True))
    shown = Shown(lambda reads, answered: page(None, None, 1000 + 70 * reads))
    ran = await run(shown.server, shown.send, asked)
    assert (ran.names, ran["traffic"].message) == (ALL, fact("traffic_unknown"))
    assert [n for _, n, _ in shown.send.calls] == [1, 4]


async def test_traffic_that_was_ending_is_none() -> None:
    pages = [capture("0.32.0-preempting"), capture("0.32.0-idle")]
    ran = await run(FakeVllm(metrics=lambda: pages.pop(0) if len(pages) > 1 else pages[0]))
    assert ran["traffic"].status == "pass"


async def test_with_others_the_checks_go_on() -> None:
    asked = msgspec.structs.replace(config(), safety=Safety(with_others=True, public_ok=True))
    ran = await run(FakeVllm(metrics=lambda: capture("0.32.0-preempting")), config=asked)
    assert ran.names == ALL
    assert ran["traffic"].status == "warn"


# --- the way to it ----------------------------------------------------------------------------------------------------


def connection(target: Target, access: Access, **environ: str) -> tuple[str, Said] | None:
    check = checks.connection_check(target, access, environ)
    return None if check is None else (check.status, check.message)


def test_nothing_unusual_is_not_spoken_of() -> None:
    assert connection(Target(url=BASE), Access(api_key=KEY)) is None
    assert connection(Target(url="http://127.0.0.1:1"), Access(), HTTP_PROXY="http://p:1") is None
    assert connection(Target(url="http://127.0.0.1:1", insecure=True), Access()) is None


def test_an_unchecked_certificate_is_a_warning() -> None:
    said = connection(Target(url="https://gw", insecure=True), Access())
    assert said == ("warn", fact("certificate_unchecked"))


def test_proxies_are_told_without_their_passwords() -> None:
    proxy = Access(proxy="http://user:p-SECRET@proxy:3128")
    used = connection(Target(url=BASE), proxy, HTTP_PROXY="http://other:1")
    assert used == ("warn", fact("through_proxy", proxy="http://proxy:3128"))
    near = connection(Target(url="http://localhost:8000"), proxy)
    assert near == ("pass", fact("proxy_not_used", proxy="http://proxy:3128"))
    unused = connection(Target(url=BASE), Access(), HTTPS_PROXY="http://u:p-SECRET@proxy:3128")
    named = "HTTPS_PROXY (http://proxy:3128)"
    assert unused == ("pass", fact("proxies_not_obeyed", named, variable="HTTPS_PROXY"))
    both = connection(Target(url="https://gw", insecure=True), Access(), HTTPS_PROXY="http://proxy:3128")
    assert both == ("warn", in_turn(fact("certificate_unchecked"), fact("proxies_not_obeyed", named, variable="HTTPS_PROXY")))


async def test_the_headers_of_a_gateway_go_where_the_key_goes() -> None:
    server = FakeVllm(key=KEY)
    access = Access(api_key=KEY, headers=(("X-Gateway", "h-SECRET"),))
    target = Target(url=BASE, metrics_url="http://pod:9090/metrics")
    echo = httpx.Response(400, json={"error": {"message": "what is h-SECRET?"}})
    server.overrides["/v1/models"] = echo
    ran = await of(server, config(target=target), access)
    assert found(ran["model"]).of == (fact("call_refused", status=400, said="what is ***?"),)
    server.overrides.clear()
    ran = await of(server, config(target=target), access)
    assert {(request.url.host, request.headers.get("x-gateway")) for request in server.seen} == {("gw", "h-SECRET"), ("pod", None)}
    assert all(request.headers["accept-encoding"] == "identity" for request in server.seen)
    assert ran.preflight.hello is not None
    assert ran.preflight.hello.access == access
    assert "SECRET" not in repr(ran.preflight.hello)


# --- servers that take no salt ------------------------------------------------------------------------------------------


def unsalted(hello: Hello, i: int, phase: Phase) -> RequestRecord:
    return record(ending="http", status=400, error=REFUSED) if hello.shape.salted else record()


async def test_a_server_that_refuses_the_salt_gets_none() -> None:
    send = FakeSend(unsalted)
    ran = await run(FakeVllm(), send)
    assert ran.names == ALL
    assert ran["request"].status == "warn"
    assert says(ran["request"].message, "takes_no_salt")
    assert [(hello.shape.salted, n) for hello, n, _ in send.calls] == [(True, 1), (False, 1), (False, 4)]
    assert ran.preflight.hello is not None
    assert not ran.preflight.hello.shape.salted


async def test_one_that_is_known_to_refuse_it_is_not_even_tried() -> None:
    send = FakeSend(unsalted)
    ran = await run(FakeVllm(version={"version": "0.6.4.post1"}), send)
    assert [hello.shape.salted for hello, _, _ in send.calls] == [False, False]
    assert ran["request"].status == "warn"


async def test_calibration_learns_it_too() -> None:
    asked = config(api="chat")
    send = FakeSend(unsalted)
    await run(FakeVllm(tokenize=None), send, asked)
    assert [hello.shape.salted for hello, _, _ in send.calls] == [True, False, False, False, False]


@pytest.mark.parametrize("status", [404, 429, 500, 503])
async def test_a_field_that_an_error_of_another_kind_names_is_sent_again(status: int) -> None:
    send = FakeSend(lambda hello, i, phase: record(ending="http", status=status, error=REFUSED, t_first=None))
    ran = await run(FakeVllm(), send)
    assert {hello.shape.salted for hello, _, _ in send.calls} == {True}
    assert ran["request"].status == "refuse"


# --- silence ------------------------------------------------------------------------------------------------------------


async def test_a_silent_server_is_waited_for_once() -> None:
    silent = record(ending="aborted", t_first=None, t_last=None, t_end=160.0, output_tokens=0)
    send = FakeSend(lambda hello, i, phase: silent)
    ran = await run(FakeVllm(tokenize=None), send, config(api="chat"))
    assert [phase for _, _, phase in send.calls] == ["preflight"]
    assert ran.names[-1] == "request"
    assert found(ran["request"]).of == (GIVEN_UP,)


async def test_a_single_request_that_is_given_up_is_said_as_it_was() -> None:
    silent = record(ending="aborted", t_first=None, t_last=None, t_end=160.0, output_tokens=0)
    ran = await run(FakeVllm(), FakeSend(lambda hello, i, phase: silent if phase == "single" else record()))
    assert ran["slo"].status == "refuse"
    assert (found(ran["slo"]).code, found(ran["slo"]).of) == ("request_failed", (GIVEN_UP,))

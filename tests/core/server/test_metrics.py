import asyncio
import threading

import httpx
import pytest

from core.access import Access
from core.records import ServerSample
from core.server.http import Credential
from core.server.metrics import Exposition, ScrapeError, Scraper
from tests.core.server.fakes import KEY, capture, client

URL = "http://gw:8000/metrics"


class Clock:
    """A clock that moves only when somebody sleeps, or when a test says so."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, duration_s: float) -> None:
        self.slept.append(duration_s)
        self.now += duration_s
        await asyncio.sleep(0)


def page(request: httpx.Request) -> httpx.Response:
    return httpx.Response(200, text=capture("0.32.0-idle"))


async def readings(scraper: Scraper, n: int, interval_s: float = 0.5) -> list[ServerSample | ScrapeError]:
    found: list[ServerSample | ScrapeError] = []
    async for reading in scraper.readings(interval_s):
        found.append(reading)
        if len(found) == n:
            break
    return found


async def said(response: httpx.Response | Exception, url: str = URL, key: str | None = None) -> str:
    def handler(request: httpx.Request) -> httpx.Response:
        if isinstance(response, Exception):
            raise response
        return response

    with pytest.raises(ScrapeError) as caught:
        await Scraper(url, client(handler), credential=Credential("http://gw:8000", Access(api_key=key))).once()
    return str(caught.value)


async def test_once_reads_a_sample_with_its_times() -> None:
    clock = Clock()

    def handler(request: httpx.Request) -> httpx.Response:
        assert request.headers["accept"].startswith("text/plain")
        clock.now += 0.25
        return page(request)

    sample = await Scraper(URL, client(handler), clock=clock).once()
    assert (sample.t, sample.took_s, sample.prompt_tokens_total) == (100.25, 0.25, 16)


async def test_openmetrics_is_read_by_its_content_type() -> None:
    text = '# TYPE vllm:prompt_tokens counter\nvllm:prompt_tokens_total 5 # {id="a"} 1.0\n# EOF\n'
    answer = httpx.Response(200, text=text, headers={"content-type": "application/openmetrics-text; version=1.0.0"})
    sample = await Scraper(URL, client(lambda request: answer)).once()
    assert sample.prompt_tokens_total == 5


async def test_failures_are_sentences_with_the_address() -> None:
    sentences = [
        await said(httpx.Response(404)),
        await said(httpx.Response(401, json={"error": "Unauthorized"})),
        await said(httpx.Response(200, text="")),
        await said(httpx.Response(200, text="process_open_fds 3\n")),
        await said(httpx.Response(307, headers={"location": "http://elsewhere/metrics"})),
        await said(httpx.ReadTimeout("x")),
    ]
    for sentence, word in zip(sentences, ("404", "unauthorised", "empty", "--disable-log-stats", "elsewhere", "8 s"), strict=True):
        assert word in sentence
        assert sentence.startswith(f"Metrics at {URL}")
        assert sentence.endswith(".")


async def test_a_server_that_echoes_the_key_does_not_get_it_shown() -> None:
    sentence = await said(httpx.Response(401, json={"error": f"bad key {KEY}"}), key=KEY)
    assert "bad key" in sentence
    assert KEY not in sentence


async def test_secrets_of_the_address_are_not_shown() -> None:
    assert "pass" not in await said(httpx.Response(404), url="http://me:pass@pod:9090/metrics?token=pass")


@pytest.mark.parametrize(("origin", "expected"), [("http://gw:8000", f"Bearer {KEY}"), ("http://other:8000", None)])
async def test_the_key_goes_only_to_its_origin(origin: str, expected: str | None) -> None:
    seen: list[str | None] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers.get("authorization"))
        return page(request)

    await Scraper(URL, client(handler), credential=Credential(origin, Access(api_key=KEY))).once()
    assert seen == [expected]


async def test_at_most_one_reading_is_in_flight() -> None:
    flying = most = 0
    go = asyncio.Event()

    async def slow(request: httpx.Request) -> httpx.Response:
        nonlocal flying, most
        flying += 1
        most = max(most, flying)
        await go.wait()
        flying -= 1
        return page(request)

    scraper = Scraper(URL, httpx.AsyncClient(transport=httpx.MockTransport(slow)))
    both = asyncio.gather(scraper.once(), scraper.once())
    for _ in range(20):
        await asyncio.sleep(0)
    go.set()
    await both
    assert most == 1


async def test_a_hanging_reading_ends_at_its_deadline_and_the_next_is_tried() -> None:
    calls = 0

    async def handler(request: httpx.Request) -> httpx.Response:
        nonlocal calls
        calls += 1
        if calls == 1:
            await asyncio.Event().wait()
        return page(request)

    scraper = Scraper(URL, httpx.AsyncClient(transport=httpx.MockTransport(handler)), deadline_s=0.01, sleep=Clock().sleep)
    first, second = await readings(scraper, 2)
    assert "within 10 ms" in str(first)
    assert isinstance(second, ServerSample)


async def test_readings_keep_an_absolute_pace() -> None:
    clock = Clock()

    def handler(request: httpx.Request) -> httpx.Response:
        clock.now += 0.1
        return page(request)

    found = await readings(Scraper(URL, client(handler), clock=clock, sleep=clock.sleep), 4)
    assert [reading.t for reading in found if isinstance(reading, ServerSample)] == pytest.approx([100.1, 100.6, 101.1, 101.6])


async def test_slow_readings_take_no_more_than_their_share_and_are_not_caught_up() -> None:
    clock = Clock()
    durations = [1.7, 0.1, 0.1]

    def handler(request: httpx.Request) -> httpx.Response:
        clock.now += durations.pop(0)
        return page(request)

    found = await readings(Scraper(URL, client(handler), clock=clock, sleep=clock.sleep), 3)
    begun = [reading.t - reading.took_s for reading in found if isinstance(reading, ServerSample)]
    assert begun == pytest.approx([100.0, 108.5, 109.0])


async def test_a_sleep_that_ends_early_does_not_bring_two_readings_for_one() -> None:
    clock = Clock()

    async def early(duration_s: float) -> None:
        await clock.sleep(max(0.0, duration_s - 0.001))

    found = await readings(Scraper(URL, client(page), clock=clock, sleep=early), 4)
    times = [reading.t for reading in found if isinstance(reading, ServerSample)]
    assert times == pytest.approx([100.0, 100.499, 100.999, 101.499])


async def test_the_same_failure_is_said_once_and_again_after_a_success() -> None:
    clock = Clock()
    answers = [404, 404, 404, 503, 200, 503]

    def handler(request: httpx.Request) -> httpx.Response:
        status = answers.pop(0)
        return page(request) if status == 200 else httpx.Response(status)

    found = await readings(Scraper(URL, client(handler), clock=clock, sleep=clock.sleep), 4)
    assert [isinstance(reading, ServerSample) for reading in found] == [False, False, True, False]
    assert ["404" in str(found[0]), "503" in str(found[1]), "503" in str(found[3])] == [True, True, True]
    assert len(clock.slept) == 5


async def test_a_large_exposition_is_read_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """That loop also draws, judges and stops the load."""
    threads: list[int] = []
    sample = Exposition.sample

    def watched(exposition: Exposition, models: frozenset[str]) -> ServerSample:
        threads.append(threading.get_ident())
        return sample(exposition, models)

    monkeypatch.setattr(Exposition, "sample", watched)
    for text in (capture("0.32.0-idle"), capture("0.32.0-idle") * 6):
        scraper = Scraper(URL, client(lambda request, text=text: httpx.Response(200, text=text)))  # type: ignore[misc]
        assert (await scraper.once()).running is not None
    assert [thread == threading.get_ident() for thread in threads] == [True, False]

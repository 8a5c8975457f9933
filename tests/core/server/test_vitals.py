"""What a watched server tells: the buckets of its latencies and its errors, beside what every reading has."""

import httpx
import pytest

from core.server import Caller, Credential, ScrapeError, Vitals, read_vitals
from tests.core.server.fakes import capture, client

URL = "http://h:8000/metrics"


async def read(text: str, status: int = 200, content_type: str = "text/plain; version=0.0.4") -> Vitals:
    http = client(lambda request: httpx.Response(status, text=text, headers={"content-type": content_type}))
    return await read_vitals(Caller(http, Credential(URL)), URL, lambda: 7.0)


async def test_a_real_page() -> None:
    found = await read(capture("0.32.0-preempting"))
    assert (found.sample.t, found.sample.requests_success_total, found.tpot_of, found.errors_total) == (7.0, 294.0, "request", 0.0)
    assert found.ttft is not None
    assert found.tpot is not None
    assert (found.ttft.bounds[:2], found.ttft.bounds[-1], found.ttft.counts[-1]) == ((0.001, 0.005), 2560.0, 305.0)
    assert (found.tpot.bounds[0], found.tpot.counts[0], found.tpot.counts[-1]) == (0.01, 294.0, 294.0)
    assert found.ttft.counts == tuple(sorted(found.ttft.counts))
    assert found.model == "tiny"


async def test_gaps_stand_in_where_no_request_has_a_tpot() -> None:
    text = capture("0.32.0-preempting").replace("vllm:request_time_per_output_token_seconds", "vllm:something_else")
    found = await read(text)
    assert found.tpot is not None
    assert (found.tpot_of, found.tpot.counts[0], found.tpot.counts[-1]) == ("gap", 58843.0, 59421.0)


@pytest.mark.parametrize("line", ["num_requests_running 1e308", "num_requests_waiting -5", "kv_cache_usage_perc 7.0"])
async def test_a_figure_that_cannot_be_is_none(line: str) -> None:
    with pytest.raises(ScrapeError, match="tells a figure that cannot be"):
        await read(f"vllm:{line}\n")


HEAD = 'vllm:num_requests_running{engine="0"} 1\n'


async def test_engines_are_summed_and_errors_are_the_more_of_two_counts() -> None:
    buckets = "".join(
        f'vllm:time_to_first_token_seconds_bucket{{engine="{engine}",le="{le}"}} {n}\n'
        for engine in (0, 1)
        for le, n in (("0.5", 3), ("1.0", 4), ("+Inf", 5))
    )
    finished = 'vllm:request_success_total{finished_reason="error"} 2\nvllm:request_success_total{finished_reason="stop"} 9\n'
    http = 'http_requests_total{handler="/v1/completions",status="5xx"} 3\nhttp_requests_total{handler="/v1/x",status="2xx"} 9\n'
    found = await read(HEAD + buckets + finished)
    assert found.ttft is not None
    assert (found.ttft.bounds, found.ttft.counts, found.errors_total) == ((0.5, 1.0), (6.0, 8.0, 10.0), 2.0)
    assert (await read(HEAD + finished + http)).errors_total == 3.0
    assert (await read(HEAD)).errors_total is None


@pytest.mark.parametrize("bucket", ['{le="x"} 1', '{le="0.5"} NaN', '{le="0.5"} 1'])
async def test_a_histogram_that_is_none_is_not_there(bucket: str) -> None:
    found = await read(f"{HEAD}vllm:time_to_first_token_seconds_bucket{bucket}\n")
    assert (found.ttft, found.sample.running) == (None, 1.0)


async def test_a_page_with_blanks_and_escapes_reads_the_same() -> None:
    """The quick way through plain lines, and the parser that knows the others, agree."""
    plain = capture("0.32.0-preempting")
    odd = plain.replace('model_name="tiny"', 'model_name="ti\\"ny"')
    assert (await read(odd)).ttft == (await read(plain)).ttft
    assert (await read(odd)).sample == (await read(plain)).sample


@pytest.mark.parametrize(
    ("text", "status", "words"),
    [("", 200, "no vLLM metrics"), ("go_info 1\n", 200, "no vLLM metrics"), ("", 404, "answers 404"), ("", 503, "answers 503")],
)
async def test_why_there_is_nothing(text: str, status: int, words: str) -> None:
    with pytest.raises(ScrapeError, match=words):
        await read(text, status)

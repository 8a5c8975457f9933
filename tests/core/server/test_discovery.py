"""Where replicas are told of: addresses, a file, a DNS name, a Prometheus server; and what is said when one of these is silent."""

import socket
from collections.abc import Iterable
from pathlib import Path

import httpx
import pytest

from core.errors import UserError
from core.server import Discovery, Found, Places, read_replicas, replica_url
from tests.core.server.fakes import client

PROMETHEUS = "http://prom:9090"
ANSWER = """{"status":"success","data":{"resultType":"vector","result":[
 {"metric":{"__name__":"up","instance":"10.0.0.2:8000","job":"vllm"},"value":[1795964773.3,"1"]},
 {"metric":{"__name__":"up","instance":"10.0.0.1:8000","job":"vllm"},"value":[1795964773.3,"1"]},
 {"metric":{"__name__":"up","instance":"x","url":"https://gw.example/team/v1","job":"vllm"},"value":[1795964773.3,"1"]}]}}"""
"""As Prometheus 3.1 answers /api/v1/query, with one label by relabelling."""
REFUSED = '{"status":"error","errorType":"bad_data","error":"invalid parameter \\"query\\": 1:4: parse error: unexpected end"}'


async def nobody(name: str, port: int) -> Iterable[str]:
    raise AssertionError("nobody is to be asked")


def told(found: Found) -> list[str]:
    return [str(problem.figures["said"]) for problem in found.problems]


async def test_addresses_need_nobody() -> None:
    http = client(lambda request: httpx.Response(500))
    assert await Discovery(Places(("http://a:1", "http://a:1", "http://b:1")), http, nobody).find() == Found(
        ("http://a:1", "http://b:1")
    )


def test_a_file_has_one_address_a_line(tmp_path: Path) -> None:
    file = tmp_path / "replicas"
    file.write_text("# ours\n\n10.0.0.1:8000\nhttp://10.0.0.2:8000/metrics  # the second\nhttps://h/v1\n10.0.0.1:8000\n")
    assert read_replicas(file) == ("http://10.0.0.1:8000", "http://10.0.0.2:8000", "https://h")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("http://a:1\nhttp://user:sk-TESTSECRET@b:1\n", "line 2"),
        ("ftp://a\n", "line 1"),
        ("# none\n", "holds no address"),
        ("http://a:99999\n", "line 1"),
    ],
)
def test_a_file_that_is_none_is_refused_by_its_line(tmp_path: Path, content: str, words: str) -> None:
    file = tmp_path / "replicas"
    file.write_text(content)
    with pytest.raises(UserError, match=words) as refused:
        read_replicas(file)
    assert "TESTSECRET" not in str(refused.value)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="No such file"):
        read_replicas(tmp_path / "none")


async def test_a_file_is_read_again_and_keeps_what_it_had(tmp_path: Path) -> None:
    file = tmp_path / "replicas"
    file.write_text("a:1\n")
    discovery = Discovery(Places(file=file), client(lambda request: httpx.Response(500)), nobody)
    assert (await discovery.find()).urls == ("http://a:1",)
    file.write_text("a:1\nb:1\n")
    assert (await discovery.find()).urls == ("http://a:1", "http://b:1")
    file.unlink()
    found = await discovery.find()
    assert found.urls == ("http://a:1", "http://b:1")
    assert (found.problems[0].code, found.problems[0].figures["kept"]) == ("replicas_not_told", 2)


async def test_every_address_of_a_name_is_a_replica() -> None:
    asked = []

    async def resolve(name: str, port: int) -> Iterable[str]:
        asked.append((name, port))
        return ("10.0.0.2", "fd00::1", "10.0.0.1")

    discovery = Discovery(Places(dns=("vllm.svc", 8000)), client(lambda request: httpx.Response(500)), resolve)
    assert (await discovery.find()).urls == ("http://10.0.0.1:8000", "http://10.0.0.2:8000", "http://[fd00::1]:8000")
    assert asked == [("vllm.svc", 8000)]


async def test_a_service_of_both_families_has_each_replica_once() -> None:
    """As a dual-stack headless service, and `localhost`: A and AAAA records of the same pods."""

    async def resolve(name: str, port: int) -> Iterable[str]:
        return ("fd00::2", "10.0.0.2", "fd00::1", "10.0.0.1")

    discovery = Discovery(Places(dns=("vllm.svc", 8000)), client(lambda request: httpx.Response(500)), resolve)
    assert (await discovery.find()).urls == ("http://10.0.0.1:8000", "http://10.0.0.2:8000")


async def test_a_name_that_is_not_known_is_told_and_one_that_was_keeps_its_replicas() -> None:
    answers: list[tuple[str, ...] | OSError] = [("10.0.0.1",), socket.gaierror(-2, "Name or service not known"), ()]

    async def resolve(name: str, port: int) -> Iterable[str]:
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    discovery = Discovery(Places(dns=("vllm.svc", 8000)), client(lambda request: httpx.Response(500)), resolve)
    await discovery.find()
    for words in ("Name or service not known", "no address"):
        found = await discovery.find()
        assert found.urls == ("http://10.0.0.1:8000",)
        assert words in told(found)[0]


async def test_each_result_of_a_query_is_a_replica() -> None:
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(200, text=ANSWER)

    places = Places(("http://a:1",), prometheus=PROMETHEUS, query='up{job="vllm"} == 1')
    found = await Discovery(places, client(answer), nobody).find()
    assert found == Found(("http://a:1", "http://10.0.0.1:8000", "http://10.0.0.2:8000", "https://gw.example/team"))
    assert (asked[0].method, asked[0].url.path, asked[0].url.params["query"]) == ("GET", "/api/v1/query", 'up{job="vllm"} == 1')
    assert "authorization" not in asked[0].headers


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (httpx.Response(400, text=REFUSED), "answers 400 (invalid parameter"),
        (httpx.Response(200, text='{"status":"error","error":"no"}'), "refuses the query: no"),
        (httpx.Response(200, text='{"status":"success","data":{"resultType":"vector","result":[]}}'), "no results"),
        (
            httpx.Response(200, text='{"status":"success","data":{"resultType":"vector","result":[{"metric":{"job":"x"}}]}}'),
            "no result has a label url or instance",
        ),
        (httpx.Response(200, text="<html>"), "does not answer as Prometheus does"),
        (httpx.Response(200, text='{"status":"success","data":{"resultType":"scalar","result":[1,"2"]}}'), "as Prometheus does"),
        (httpx.Response(503, text=""), "answers 503"),
    ],
)
async def test_a_query_that_tells_none(reply: httpx.Response, words: str) -> None:
    found = await Discovery(Places(prometheus=PROMETHEUS, query="up"), client(lambda request: reply), nobody).find()
    assert found.urls == ()
    assert words in told(found)[0]


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("10.0.0.1:8000", "http://10.0.0.1:8000"),
        ("http://h:8000/metrics", "http://h:8000"),
        ("https://h/v1/models", "https://h"),
        ("[fd00::1]:8000", "http://[fd00::1]:8000"),
        ("h:0", None),
        ("http://u:p@h", None),
        ("http://h?key=1", None),
        ("", None),
        ("a b", None),
    ],
)
def test_what_an_address_is(text: str, url: str | None) -> None:
    assert replica_url(text) == url

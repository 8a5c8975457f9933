"""What stands behind the Connect screen: fields into a run, forecast, models, checks in the background."""

import asyncio

import httpx
import pytest

from core.access import Access
from core.config import ProbeConfig, Target
from core.errors import UserError
from core.facts import fact
from core.run import NoAnswer
from tests.core.judge.feed import single
from tests.tui.connect_fakes import PASSED, SINGLES, URL, Server
from tui.cli import argv
from tui.cli.configure import build
from tui.connect import fields
from tui.connect.app import listed
from tui.connect.fields import FIELDS, LOAD_AT_PEAK, Wrong, fields_of, read
from tui.connect.forecast import forecast
from tui.connect.preflight_run import PreflightRun


def asked_in_words(line: str) -> ProbeConfig:
    return build(argv.options(argv.split(line)), URL)


def test_fields_and_the_command_line_are_the_same_run() -> None:
    texts = {
        **{"url": f" {URL}/v1 ", "model": "-m", "api": "chat", "input-tokens": "lognormal:64,1,128", "output-tokens": "32"},
        **{"ttft": "500ms", "tpot": "none", "e2e": "10s", "target": "99%", "mode": "careful", "max-rps": "40"},
        **{"peak-rps": "50", LOAD_AT_PEAK: "0.5", "more": "--seed 3 --between 'x y' --json -"},
    }
    request = read(texts, "", {})
    line = (
        "--model=-m --api chat --input-tokens lognormal:64,1,128 --output-tokens 32 --ttft 500ms --tpot none --e2e 10s"
        f" --target 99% --careful --max-rps 40 --peak-rps 50 --{LOAD_AT_PEAK} 0.5 --seed 3 --between 'x y' --json -"
    )
    assert (request.url, request.config) == (URL, asked_in_words(line))
    assert (request.options["between"], request.options["json"]) == ("x y", "-")
    assert request.command == f"kneescope probe {URL} {line}".replace("'x y'", "'...'")
    assert set(texts) == set(FIELDS) - {"key", "api-key-file"}


def test_empty_fields_are_the_defaults() -> None:
    request = read({"url": URL}, "", {})
    assert (request.words, request.config, request.access.api_key) == ((), ProbeConfig(target=Target(url=URL)), None)
    assert fields.placeholders(request.config, {})["ttft"] == "800 ms default"
    assert fields.placeholders(read({"url": URL, "ttft": "1s"}, "", {}).config, {})["tpot"] == "none"


def test_every_wrong_field_is_named() -> None:
    with pytest.raises(Wrong) as wrong:
        read({"url": "", "ttft": "5", "more": "x"}, "a b", {})
    assert set(wrong.value.problems) == {"url", "ttft", "more", "key"}
    with pytest.raises(Wrong) as wrong:
        read({"url": URL, "tpot": "5ms", "output-tokens": "1"}, "", {})
    assert list(wrong.value.problems) == [""]


@pytest.mark.parametrize(
    ("name", "typed", "sentence"),
    [
        ("url", "ftp://x", "'ftp://x' is not a server address"),
        ("url", "http://user:pw@host", "give this one without user, password and key"),
        ("input-tokens", "many", "--input-tokens: 'many' is not a length"),
        ("output-tokens", "0", "--output-tokens"),
        ("ttft", "800", "--ttft: '800' is not a duration"),
        ("tpot", "-1ms", "--tpot: '-1ms' is not a duration"),
        ("e2e", "2h", "--e2e: '2h' is not a duration"),
        ("e2e", "61m", "--e2e: 3660 s is too long"),
        ("target", "0", "--target: 0 must be above 0"),
        ("target", "nan", "--target: 'nan' is not a share"),
        ("max-rps", "inf", "--max-rps: inf is not possible"),
        ("peak-rps", "-5", "--peak-rps: -5 is not possible"),
        (LOAD_AT_PEAK, "1.5", f"--{LOAD_AT_PEAK}: '1.5' is not a share"),
        ("api-key-file", "/no/such", "--api-key-file: the file cannot be read"),
        ("api-key-file", "/dev/zero", "--api-key-file: this is not a regular file"),
        ("key", "two words", "API key: this does not hold an API key"),
        ("more", "--nonsense", "No such option '--nonsense'"),
        ("more", "word", "'word' is not an option"),
        ("more", "--ttft 1s", "--ttft has a field of its own (TTFT)"),
        ("more", "--careful", "--careful has a field of its own (mode)"),
        ("more", "'open", "These options cannot be read: no closing quotation"),
        ("more", "--profile x", "--profile works on the command line only"),
        ("more", "--key x", "no option takes a key"),
        ("more", "--hold 6 --rates 2", "--rates judges a list and ends, --hold keeps one rate"),
        ("more", "--help", "No such option '--help'"),
    ],
)
def test_nonsense_in_any_field_is_refused_in_a_sentence(name: str, typed: str, sentence: str) -> None:
    texts, key = {"url": URL, name: typed}, typed if name == "key" else ""
    with pytest.raises(Wrong) as wrong:
        read(texts, key, {})
    assert list(wrong.value.problems) == [name]
    assert sentence in wrong.value.problems[name]


def test_a_header_in_the_last_field_reaches_the_run_and_is_written_nowhere() -> None:
    request = read({"url": URL, "more": "--header 'X-A: SECRET' --header='X-B: SECRET' --cost 2.5"}, "", {})
    assert request.access.headers == (("X-A", "SECRET"), ("X-B", "SECRET"))
    assert request.command == f"kneescope probe {URL} --header '...' --header '...' --cost 2.5"
    assert "SECRET" not in repr(request)
    for more in ("--header X-A: SECRET", "--header SECRET", "--header 'X-A: SECRET", "--header --cost 2.5 SECRET"):
        with pytest.raises(Wrong) as wrong:
            read({"url": URL, "more": more}, "", {})
        assert "SECRET" not in str(wrong.value)


def test_every_option_without_a_field_of_its_own_goes_through_the_last_one() -> None:
    line = "--cost 2.5 --lost 2 --rollout 1 --growth 10% --scale-out 4m --burstiness 0.5 --gpu 'H100 SXM' --weights-gb 15.2 --yes"
    request = read({"url": URL, "peak-rps": "50", "more": f"{line} --with-others --max-waiting 4"}, "", {})
    assert request.config == asked_in_words(f"--peak-rps 50 {line} --with-others --max-waiting 4")
    assert request.config.safety.public_ok


@pytest.mark.parametrize(
    ("profile", "texts"),
    [
        ({"mode": "quick", "careful": True, "api": "completions"}, {"mode": "careful", "more": ""}),
        ({"mode": "standard", "seed": "3", "reset-cache": True}, {"mode": "standard", "more": "--seed 3 --reset-cache"}),
        ({"metrics-url": "http://h/a b", "careful": False}, {"more": "--metrics-url 'http://h/a b'"}),
    ],
)
def test_a_profile_fills_the_fields(profile: dict[str, str | bool], texts: dict[str, str]) -> None:
    assert fields_of(profile) == texts


def test_a_profile_may_name_the_load_at_peak_as_it_was_called_before() -> None:
    assert fields_of({"headroom": "0.5"}) == {LOAD_AT_PEAK: "0.5", "more": ""}


def test_what_the_checks_depend_on() -> None:
    def checked(**texts: str) -> tuple[object, ...]:
        return read({"url": URL, **texts}, "", {}).checked

    assert checked() == checked(mode="standard", more="--seed 3") == checked(**{"max-rps": "3", "peak-rps": "9"})
    changed = [{"model": "m"}, {"api": "chat"}, {"ttft": "1s"}, {"input-tokens": "9"}, {"more": "--metrics-url http://h"}]
    assert all(checked() != checked(**texts) for texts in changed)
    assert checked() != read({"url": URL}, "sk-1", {}).checked


@pytest.mark.parametrize(
    ("line", "time", "rate", "sends"),
    [
        (
            "",
            "about 2 min 10 s",
            "at most 512 requests/s (768 during warm-up): doubled from 4.00 requests/s",
            "per request/s",
        ),
        ("--max-rps 20", "about 2 min", "never above 20.0 requests/s (max rate)", "requests of up to 640 tokens"),
        ("--rates 2,6.5", "", "6.50 requests/s (9.75 during warm-up)", "at most about"),
        ("--rates 2,6.5 --max-rps 7", "", "6.50 requests/s (7.00 during warm-up)", "at most about"),
        ("--hold 6", "holds 6", "6.00 requests/s (9.00 during warm-up)", "until you stop it"),
        ("--require-rps 30", "about", "30.0 requests/s (45.0 during warm-up); at most 512", "per request/s"),
    ],
)
def test_what_is_to_be_expected_once_the_server_is_known(line: str, time: str, rate: str, sends: str) -> None:
    known = forecast(asked_in_words(line), SINGLES)
    assert time in known.time
    assert rate in known.rate
    assert sends in known.sends


def test_a_bound_is_how_many_it_says() -> None:
    known = forecast(asked_in_words("--rates 2,6 --measure 60s"), SINGLES)
    assert int(known.sends.split()[3].replace(",", "")) >= 2 * 60 + 6 * 60


def test_what_is_to_be_expected_before_that() -> None:
    known = forecast(asked_in_words("--mode standard"))
    assert "about 12 min in standard mode" in known.time
    assert "max rate caps it" in known.rate
    assert "the checks show how many" in known.sends
    assert "40.0 requests/s" in forecast(asked_in_words("--max-rps 40")).rate
    assert forecast(asked_in_words(""), (single(0.5, ending="http"),) * 3) == forecast(asked_in_words(""))


def client(status: int, body: bytes) -> httpx.AsyncClient:
    def answer(request: httpx.Request) -> httpx.Response:
        assert request.url == f"{URL}/v1/models"
        return httpx.Response(status, content=body, headers={"seen": request.headers.get("authorization", "")})

    return httpx.AsyncClient(transport=httpx.MockTransport(answer))


@pytest.mark.parametrize("pasted", ["127.0.0.1:8000", f"{URL}/v1/", f"{URL}/v1/chat/completions", f"{URL}/docs#/default/x"])
def test_an_address_in_any_form_is_the_same_run(pasted: str) -> None:
    assert read({"url": pasted}, "", {}).checked == read({"url": URL}, "", {}).checked


async def test_models_behind_another_prefix_are_listed_there() -> None:
    request = read({"url": f"{URL}/v3/models"}, "", {})
    assert (request.url, request.config.target.prefix) == (f"{URL}/v3", "/v3")
    seen: list[str] = []

    def answer(asked: httpx.Request) -> httpx.Response:
        seen.append(str(asked.url))
        return httpx.Response(200, json={"data": [{"id": "a"}]})

    http = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    assert (await listed(request.url, Access(), http=http), seen) == (("a",), [f"{URL}/v3/models"])


def test_a_model_that_no_list_has_is_named_in_the_last_field() -> None:
    assert read({"url": URL, "more": "--model tiny"}, "", {}).config.target.model == "tiny"


async def test_models_are_listed() -> None:
    body = b'{"data": [{"id": "[red]a[/red]"}, {"id": "b"}]}'
    assert await listed(URL, Access(), http=client(200, body)) == ("[red]a[/red]", "b")


@pytest.mark.parametrize(
    ("status", "body", "sentence"),
    [
        (401, b"", "(GET /v1/models) answers 401 (unauthorised), which needs the API key: it is sent with the checks."),
        (500, b"{}", "The list of models (GET /v1/models) answers 500."),
        (200, b"<html>", "does not return a list of models"),
        (200, b"[" * 5000, "does not return a list of models"),
    ],
)
async def test_no_list_of_models(status: int, body: bytes, sentence: str) -> None:
    with pytest.raises(UserError) as refused:
        await listed(URL, Access(), http=client(status, body))
    assert sentence in str(refused.value)


async def test_a_preflight_run_that_is_stopped_before_it_began_sends_nothing() -> None:
    server = Server()
    preflight = PreflightRun(read({"url": URL}, "", {}), server.checking)
    preflight.stop()
    await preflight.run()
    assert (preflight.stage, server.checker.stops, server.open) == ("stopped", 1, 0)


async def test_a_preflight_run_that_breaks_off_says_why_in_a_sentence() -> None:
    server = Server()
    preflight = PreflightRun(read({"url": URL}, "", {}), server.checking)
    work = asyncio.create_task(preflight.run())
    await asyncio.sleep(0)
    server.checker.end(NoAnswer(fact("checks_incomplete", fact("max_duration", limit_s=60.0))))
    await work
    assert (preflight.stage, preflight.failure) == (
        "broken",
        "The checks are not complete: stopped: --max-duration of 1 min is over.",
    )


async def test_a_preflight_run_keeps_what_was_found() -> None:
    server = Server()
    clock = [10.0]
    preflight = PreflightRun(read({"url": URL}, "", {}), server.checking, lambda: clock[0])
    work = asyncio.create_task(preflight.run())
    await asyncio.sleep(0)
    server.checker.say(PASSED)
    assert (preflight.stage, preflight.view().checks, preflight.age_s) == ("checking", (PASSED,), None)
    server.checker.end(singles=SINGLES)
    await work
    clock[0] = 13.0
    assert (preflight.stage, preflight.view().checks, preflight.singles, preflight.age_s) == ("ready", (PASSED,), SINGLES, 3.0)

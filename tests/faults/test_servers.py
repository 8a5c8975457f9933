"""Whole runs against servers that go wrong: what is seen is said, load stops when it must, no fault is read as a knee."""

import asyncio
import json
import re
from collections.abc import Callable, Coroutine
from pathlib import Path

import pytest

from core import prose
from core.config import Lengths, Slo, Target
from core.facts import Fact, fact, says
from core.records import RequestSent
from core.report import to_json, to_text
from core.results import RepeatResult
from core.run.events import RepeatStarted
from core.run.session import Session
from tests.builders import HERE, told
from tests.core.load.server import Received
from tests.faults.answers import JSON, Answer, tokens, whole
from tests.faults.runs import TOKENS, Ran, config, preflight, probe
from tests.faults.server import UNAUTHORISED, FaultServer

DEAD = Answer(cut_after=0, cut_by="rst")
PREFLIGHT_REQUESTS = 5
LIST = config(rates_rps=(4.0,), measure_s=15.0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.jsonl"


def in_load(answer: Callable[[FaultServer, Received, int], Answer | None], **options: object) -> Callable[[], FaultServer]:
    """A server that is well during the checks; then `answer` is asked, with the number of the request."""

    def fault(server: FaultServer, request: Received) -> Answer | None:
        number = server.counts["/v1/completions"] - PREFLIGHT_REQUESTS
        return answer(server, request, number) if number > 0 else None

    return lambda: FaultServer(fault, **options)  # type: ignore[arg-type]


def under_load(answer: Answer, after: int = 0) -> Callable[[Session, FaultServer], Coroutine[None, None, None]]:
    """A server that says this to every request but the first so many, as long as there is load; a single request is served."""

    async def meddle(session: Session, server: FaultServer) -> None:
        def fault(server: FaultServer, request: Received) -> Answer | None:
            loaded = session.state.load != "idle" and server.counts["/v1/completions"] > PREFLIGHT_REQUESTS + after
            return answer if loaded else None

        server.fault = fault

    return meddle


def repeat_of(ran: Ran) -> RepeatResult:
    return ran.steps[-1].repeats[-1]


def accounts(repeat: RepeatResult) -> bool:
    """Every request of the window that was sent has one ending."""
    return (
        repeat.sent
        == sum(repeat.endings.values())
        == repeat.succeeded + sum(n for ending, n in repeat.endings.items() if ending != "ok")
    )


# --- it produces nothing, or is gone ---------------------------------------------------------------------------------


def test_a_server_that_accepts_and_produces_nothing_is_no_knee(path: Path) -> None:
    """Health answers, every POST gets its 200 and no byte, the token counters stand still."""
    ran = probe(path, lambda: FaultServer(frozen_at=20.0))
    assert ran.answer.outcome == "void"
    assert ran.answer.message == fact("server_unusable", fact("server_frozen", silent_s=10.0))
    assert ran.steps[-1].verdict == "void"
    assert ran.answer.knee.first_fail_rps != ran.steps[-1].rate_rps
    assert ran.server.running == ran.server.waiting == 0, "the connections of what was open are closed"


def test_a_server_that_dies_under_load_ends_the_run_and_what_was_finished_stays(path: Path) -> None:
    async def die(session: Session, server: FaultServer) -> None:
        while not any(step.verdict == "pass" for step in session.state.view(0.0).steps):  # noqa: ASYNC110 (virtual time)
            await asyncio.sleep(1.0)
        await asyncio.sleep(3.0)
        server.fault = lambda server, request: DEAD
        server.pages = {"/health": DEAD, "/metrics": DEAD}

    ran = probe(path, FaultServer, config(rates_rps=(3.0, 4.0), measure_s=10.0), meddle=die)
    assert ran.answer.outcome == "void"
    assert told(ran.answer.message, "away_for_good").figures["rate_rps"] == 4.0
    assert [step.verdict for step in ran.steps] == ["pass", "void"]
    assert ran.answer.knee.pass_rps == 3.0
    assert set(repeat_of(ran).endings) <= {"ok", "connection", "aborted"}
    assert any("connection reset" in sentence for sentence in ran.said)


def test_a_server_that_restarts_voids_the_repeat(path: Path) -> None:
    async def restart(session: Session, server: FaultServer) -> None:
        await asyncio.sleep(18.0)
        server.epoch += 60
        server.counts.clear()

    ran = probe(path, FaultServer, LIST, meddle=restart)
    first = ran.steps[-1].repeats[0]
    assert (first.verdict, says(first.reason, "server_restarted")) == ("void", True)


# --- answers that are no answers -------------------------------------------------------------------------------------


def test_refusals_of_a_gateway_are_misses_and_improve_no_percentile(path: Path) -> None:
    """503 within 2 ms whenever more than three wait."""
    refused = Answer(status=503, pieces=((0.002, b'{"error":{"message":"Overloaded. Retry."}}'),), headers=(JSON,))
    ran = probe(
        path,
        in_load(lambda server, request, number: refused if server.waiting > 3 else None, slots=2),
        config(rates_rps=(3.2,), measure_s=20.0, slo=Slo(ttft_s=2.5, tpot_s=0.3, max_error_rate=0.5)),
    )
    repeat = repeat_of(ran)
    assert ran.steps[-1].verdict == "fail"
    assert repeat.endings["http"] > 1
    assert accounts(repeat)
    assert repeat.e2e_s.n == repeat.succeeded
    assert repeat.e2e_s.p50 is not None
    assert repeat.e2e_s.p50 > 0.7
    assert repeat.attainment_interval[1] < 0.95
    assert any("HTTP 503 Reason: Overloaded" in prose.text(warning) for warning in repeat.warnings)


def test_every_request_failing_is_a_fail_with_the_servers_words_and_no_number_out_of_nothing(path: Path) -> None:
    full = whole(b'{"error":{"message":"[Errno 24] Too many open files. Sorry."}}', 500, JSON)
    ran = probe(path, FaultServer, LIST, meddle=under_load(full))
    repeat = repeat_of(ran)
    assert (ran.answer.outcome, ran.steps[-1].verdict) == ("void", "fail")
    assert set(repeat.endings) <= {"http", "aborted"}
    assert (repeat.succeeded, repeat.ttft_s.p50, repeat.tpot_s.mean, repeat.e2e_s.p99) == (0, None, None, None)
    assert repeat.attainment_interval[0] == 0
    assert any("HTTP 500 Reason: [Errno 24] Too many open files" in prose.text(warning) for warning in repeat.warnings)
    json.loads(to_json(ran.view, None), parse_constant=pytest.fail)
    assert "nan" not in to_text(ran.view, None)


@pytest.mark.parametrize(
    ("status", "words"),
    [(401, "Unauthorized"), (404, "The model `fake` does not exist"), (400, "The prompt is longer than the context"), (307, "")],
)
def test_what_is_refused_at_any_rate_is_no_limit_of_load(path: Path, status: int, words: str) -> None:
    """After a rate that held, the key is taken back, the model unloaded, ...: the next rate is void, and the bracket stays open."""

    async def refuse(session: Session, server: FaultServer) -> None:
        while not any(step.verdict == "pass" for step in session.state.view(0.0).steps):  # noqa: ASYNC110 (virtual time)
            await asyncio.sleep(1.0)
        server.fault = lambda server, request: whole(json.dumps({"error": words}).encode(), status, JSON)

    ran = probe(path, FaultServer, config(rates_rps=(3.0, 4.0), measure_s=8.0), meddle=refuse)
    assert ran.answer.outcome == "void"
    assert ran.answer.knee.first_fail_rps is None
    assert [step.verdict for step in ran.steps] == ["pass", "void"]
    assert says(ran.answer.message, "void_twice")
    said = str(told(ran.answer.message, "refusals").figures["said"])
    assert f"HTTP {status} Reason" in said
    assert words in said


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_what_a_server_sheds_is_a_limit_of_load(path: Path, status: int) -> None:
    async def shed(session: Session, server: FaultServer) -> None:
        while not any(step.verdict == "pass" for step in session.state.view(0.0).steps):  # noqa: ASYNC110 (virtual time)
            await asyncio.sleep(1.0)
        server.fault = lambda server, request: whole(b"", status) if server.counts["/v1/completions"] % 3 == 0 else None

    ran = probe(path, FaultServer, config(rates_rps=(3.0, 4.0), measure_s=8.0), meddle=shed)
    assert ran.answer.outcome == "bracket"
    assert ran.answer.knee.first_fail_rps == 4.0


def test_a_server_that_only_answers_errors_after_a_rate_that_held_is_said_to(path: Path) -> None:
    words = "HTTP 503 Reason: No healthy upstream"

    async def gone(session: Session, server: FaultServer) -> None:
        while not any(step.verdict == "pass" for step in session.state.view(0.0).steps):  # noqa: ASYNC110 (virtual time)
            await asyncio.sleep(0.1)
        await under_load(whole(b'{"error":{"message":"No healthy upstream"}}', 503, JSON))(session, server)

    ran = probe(path, FaultServer, config(rates_rps=(3.0, 4.0), measure_s=8.0), meddle=gone)
    assert ran.steps[-1].verdict == "fail"
    assert prose.text(ran.steps[-1].reason).startswith(f"every request failed: {words} (")
    assert ran.answer.outcome == "bracket"
    errors = told(ran.answer.message, "errors_at")
    assert errors.figures["rate_rps"] == 4.0
    assert told(errors, "ended_in_errors").figures["said"] == words
    assert ran.answer.diagnosis is not None
    assert ran.answer.diagnosis.cause == "failures"
    assert words in prose.text(ran.answer.diagnosis.sentence)


def test_errors_of_a_ramp_are_the_reason_why_it_ended(path: Path) -> None:
    ran = probe(path, FaultServer, meddle=under_load(whole(b"no", 503), after=30))
    assert ran.steps[0].phase == "ramp"
    assert "requests ended in errors (HTTP 503 Reason: no); at most" in prose.text(ran.steps[0].reason)
    assert told(ran.answer.message, "nothing_served").of == (told(ran.answer.message, "ended_in_errors"),)
    assert told(ran.answer.message, "ended_in_errors").figures["said"] == "HTTP 503 Reason: no"


def test_single_requests_that_all_end_in_errors_miss_no_limit(path: Path) -> None:
    def fault(server: FaultServer, request: Received) -> Answer | None:
        return whole(b'{"error":"CUDA out of memory"}', 500, JSON) if server.counts["/v1/completions"] > 2 else None

    ran = probe(path, lambda: FaultServer(fault))
    assert ran.answer.outcome == "infeasible"
    errors = "the server answers errors to all 3 single requests (HTTP 500 Reason: CUDA out of memory)"
    assert prose.text(ran.answer.message).startswith(errors)
    (check,) = (check for check in ran.view.checks if check.check == "slo")
    assert check.status == "refuse"
    assert isinstance(check.message, Fact)
    assert (check.message.code, check.message.figures["endings"]) == ("all_singles_fail", {"http": 3})
    assert "HTTP 500 Reason: CUDA out of memory" in prose.text(check.message)


def test_answers_that_break_in_every_way_are_each_counted_by_its_class(path: Path) -> None:
    broken = {
        "http": whole(b"no", 500),
        "stream": Answer(pieces=((0.05, b'data: {"error":{"message":"boom"}}\n\n'),)),
        "truncated": Answer(pieces=tokens(TOKENS, prompt=16), cut_after=600, cut_by="rst"),
        "empty": Answer(pieces=((0.05, b'data: {"choices":[{"text":"","finish_reason":"stop"}]}\n\n'),)),
        "connection": Answer(cut_after=9),
    }
    kinds = list(broken)
    lax = config(rates_rps=(4.0,), measure_s=15.0, slo=Slo(ttft_s=0.5, tpot_s=0.3, target=0.3, max_error_rate=0.9))
    ran = probe(
        path, in_load(lambda server, request, number: broken[kinds[number // 2 % 5]] if number % 2 else None, slots=20), lax
    )
    repeat = repeat_of(ran)
    assert set(kinds) <= set(repeat.endings)
    assert accounts(repeat)
    assert repeat.errors == sum(repeat.endings[kind] for kind in kinds)
    assert repeat.attainment is not None
    assert repeat.attainment <= 0.6


# --- requests without an end -----------------------------------------------------------------------------------------


def test_requests_that_never_end_hold_up_nothing_that_is_decided(path: Path) -> None:
    """One in eight gets headers and then silence: each is a miss as soon as it is too late, and the run goes on."""
    ran = probe(path, in_load(lambda server, request, number: Answer(silent="head") if number % 8 == 0 else None, slots=20), LIST)
    assert (ran.answer.outcome, ran.steps[-1].verdict) == ("below", "fail")
    assert says(ran.steps[-1].reason, "out_of_reach")


def test_what_no_limit_decides_ends_with_the_drain_and_is_a_miss(path: Path) -> None:
    """With a limit on TTFT alone an answer that drips is never late: it is counted down, cut off and a miss."""
    drips = Answer(pieces=tokens(TOKENS, first_s=0.05, gap_s=50.0, prompt=16))
    asked = config(rates_rps=(4.0,), measure_s=15.0, drain_s=30.0, slo=Slo(ttft_s=0.5, tpot_s=None, max_error_rate=0.5))
    ran = probe(path, in_load(lambda server, request, number: drips if number % 8 == 0 else None, slots=20), asked)
    repeat = repeat_of(ran)
    assert ran.steps[-1].verdict == "fail"
    assert repeat.endings["aborted"] > 0
    assert accounts(repeat)
    assert "still open 30 s after the window, counted as missed" in prose.text(repeat.reason)
    assert ran.server.running == 0


def test_timeouts_are_in_the_attainment_and_in_no_latency(path: Path) -> None:
    """Six of ten never answer, four answer in a tenth of a second."""
    quick = Answer(pieces=tokens(TOKENS, first_s=0.05, gap_s=0.05, per_chunk=3, prompt=16))
    asked = config(rates_rps=(4.0,), measure_s=15.0, slo=Slo(ttft_s=0.5, tpot_s=0.3, target=0.2, max_error_rate=0.9))
    ran = probe(
        path, in_load(lambda server, request, number: quick if number % 10 in (0, 3, 6, 9) else Answer(silent="head")), asked
    )
    repeat = repeat_of(ran)
    assert repeat.attainment_interval[1] <= 0.5
    assert repeat.ttft_s.n == repeat.succeeded
    assert repeat.ttft_s.p50 is None or repeat.ttft_s.p50 == pytest.approx(0.05, abs=0.01)


def test_a_step_begins_when_nothing_of_the_one_before_is_left_in_the_server(path: Path) -> None:
    """The server goes on with requests whose client has gone; the next step waits for them."""
    busy: list[int] = []

    def watch(server: FaultServer, request: Received, number: int) -> None:
        busy.append(server.running + server.waiting)

    ran = probe(path, in_load(watch, keeps_cancelled=True, slots=4), config(rates_rps=(8.0, 2.0), measure_s=10.0))
    assert [step.verdict for step in ran.steps] == ["fail", "pass"]
    second = [event.order.order for event in ran.events(RepeatStarted) if isinstance(event, RepeatStarted)][-1]
    sent = [event.order for event in ran.events(RequestSent) if isinstance(event, RequestSent) and event.order >= second - 1]
    assert max(busy) > 8
    assert busy[-sum(order == second for order in sent)] == 0


# --- metrics ---------------------------------------------------------------------------------------------------------


def test_metrics_that_are_lost_on_the_way_are_said_once_and_stop_nothing(path: Path) -> None:
    async def lose(session: Session, server: FaultServer) -> None:
        await asyncio.sleep(15.0)
        server.metrics = lambda t: whole(b"", 404)

    ran = probe(path, FaultServer, LIST, meddle=lose)
    assert ran.answer.outcome == "at_least"
    assert sum("answers 404" in sentence for sentence in ran.said) == 1


def test_a_slow_reading_of_metrics_delays_no_send_and_none_is_begun_beside_it(path: Path) -> None:
    reading = [0, 0]

    async def hang(session: Session, server: FaultServer) -> None:
        await asyncio.sleep(12.0)
        page = server.exposition()
        server.metrics = lambda t: Answer(pieces=((8.0, page.encode()),), headers=("Content-Type: text/plain",), framing="length")
        await asyncio.sleep(10.0)
        server.metrics = lambda t: Answer(silent="request")
        reading[0] = server.counts["/metrics"]
        await asyncio.sleep(9.0)
        reading[1] = server.counts["/metrics"]

    ran = probe(path, FaultServer, config(rates_rps=(4.0,), measure_s=30.0), meddle=hang)
    repeat = repeat_of(ran)
    assert ran.answer.outcome == "at_least"
    assert repeat.lateness_s.max is not None
    assert repeat.lateness_s.max < 0.01
    assert reading[1] - reading[0] <= 2


def test_two_processes_behind_one_address_are_no_restarts_and_told_once(path: Path) -> None:
    """A balancer shows one and the other in turn: no difference of a counter means anything."""
    turn = [0]

    def either(server: FaultServer) -> str:
        turn[0] += 1
        server.epoch = 1000.0 + turn[0] % 2
        return server.exposition().replace("generation_tokens_total", "generation_tokens_total") + ""

    def make() -> FaultServer:
        server = FaultServer()
        server.metrics = lambda t: re.sub(
            r"(_total\S*) (\d+)", lambda m: f"{m[1]} {int(m[2]) + 289_957 + 14_500 * (turn[0] % 2)}", either(server)
        )
        return server

    ran = probe(path, make, LIST)
    repeat = repeat_of(ran)
    assert repeat.prefix_hit_frac is None
    assert repeat.preemptions is None
    warnings = [*map(prose.text, repeat.warnings)]
    assert not any("restarted" in sentence for sentence in (*ran.said, prose.text(repeat.reason), *warnings))
    assert sum("process" in sentence for sentence in (*ran.said, *warnings)) <= 2


_RAY = 'ReplicaId="r1",WorkerId="f00",model_name="fake",engine='
_NAMES = ("num_requests_running", "num_requests_waiting", "request_success_total", "prefix_cache_hits_total")


def _rays_twice(shown: str, t: float) -> str:
    return re.sub(r"vllm:(\w+?)(_total)?\{engine=(.*)", rf"ray_vllm_\1\2{{{_RAY}\3\nray_vllm_\1{{{_RAY}\3", shown)


def _rays_of_old(shown: str, t: float) -> str:
    return shown.replace("vllm:", "ray_vllm:").replace("engine=", _RAY)


def _rays_before_a_hit(shown: str, t: float) -> str:
    return re.sub(r"vllm:prefix_cache_hits_total.*", "", shown).replace("vllm:", "ray_vllm_").replace("engine=", _RAY)


def _beside_another_model(shown: str, t: float) -> str:
    others = (f'vllm:{name}{{engine="0",model_name="other"}} {40 + 7 * t:.0f}\n' for name in _NAMES)
    return shown.replace("engine=", 'model_name="fake",engine=') + "".join(others)


def _beside_a_routers(shown: str, t: float) -> str:
    return (
        "".join(f'vllm:{name}{{server="http://a"}} {3 + t % 9:.0f}\n' for name in (*_NAMES, "gpu_prefix_cache_hits_total")) + shown
    )


@pytest.mark.parametrize("page", [_rays_twice, _rays_of_old, _rays_before_a_hit, _beside_another_model, _beside_a_routers])
def test_metrics_by_other_names_or_beside_others_judge_a_run_like_an_engines_own(
    path: Path, page: Callable[[str, float], str]
) -> None:
    def make() -> FaultServer:
        server = FaultServer()
        server.metrics = lambda t: page(server.exposition(), t)
        return server

    ran = probe(path, make, LIST)
    repeat = repeat_of(ran)
    assert ran.answer.outcome == "at_least"
    assert (repeat.verdict, repeat.prefix_hit_frac, repeat.preemptions) == ("pass", 0.0, 0)
    assert repeat.gauges is not None
    assert repeat.gauges.waiting_mean == 0.0


SILENT = Answer(silent="request")
NO_JSON = whole(b"<html>portal</html>", 200, "Content-Type: text/html")
TINY_LIST = whole(b'{"data":[{"id":"openai/*","max_model_len":"n/a"}],"has_more":true}', 200, JSON)
GONE_404 = whole(b'{"detail":"Not Found"}', 404, JSON)
ELSEWHERE = whole(b"", 302, "Location: https://portal.invalid/login")
NAMED = config(target=Target(url=HERE, model="fake"), rates_rps=(4.0,), measure_s=15.0)


@pytest.mark.parametrize("health", [SILENT, DEAD, ELSEWHERE, whole(b"", 503)], ids=["silent", "reset", "redirected", "503"])
def test_a_health_that_tells_nothing_stops_no_run(path: Path, health: Answer) -> None:
    """Nor one whose connections break at times, where the server would be asked by it whether it is there."""
    broken = Answer(pieces=tokens(TOKENS, first_s=0.05, gap_s=0.1), cut_after=250, cut_by="rst")
    breaks = in_load(lambda server, request, number: broken if number % 5 == 0 else None, pages={"/health": health})
    ran = probe(path, breaks, LIST)
    assert ran.steps[-1].verdict == "fail"
    assert repeat_of(ran).endings["truncated"] > 0
    assert not says(ran.answer.message, "away_again", "away_for_good", "server_unusable")


@pytest.mark.parametrize(
    "models",
    [GONE_404, UNAUTHORISED, NO_JSON, TINY_LIST, ELSEWHERE, SILENT],
    ids=["missing", "refused", "no JSON", "paged, without it", "redirected", "silent"],
)
def test_a_server_without_a_list_of_models_is_loaded_by_the_name_that_is_given(path: Path, models: Answer) -> None:
    ran = probe(path, lambda: FaultServer(pages={"/v1/models": models}), NAMED)
    assert ran.answer.outcome == "at_least"
    (said,) = (check for check in ran.view.checks if check.check == "model")
    assert (said.status, says(said.message, "model_taken_as_given")) == ("warn", True)


def test_a_server_that_answers_requests_and_nothing_else_is_loaded(path: Path) -> None:
    pages = dict.fromkeys(("/health", "/version", "/v1/models", "/metrics", "/tokenize"), GONE_404)
    assert probe(path, lambda: FaultServer(pages=pages), NAMED).answer.outcome == "at_least"


def test_a_server_of_which_every_other_route_fails_is_refused_by_the_request_alone(path: Path) -> None:
    pages = dict.fromkeys(("/health", "/version", "/v1/models"), whole(b"", 503))
    assert probe(path, lambda: FaultServer(pages=pages), NAMED).answer.outcome == "at_least"
    dead, _ = preflight(path.with_name("dead"), lambda: FaultServer(whole(b"", 503), pages=pages), NAMED)
    assert [name for name, check in dead.items() if check.status == "refuse"] == ["request"]
    assert says(dead["request"].message, "server_not_up")


def test_a_run_whose_metrics_are_a_routers_goes_on_without_any(path: Path) -> None:
    def make() -> FaultServer:
        server = FaultServer()
        server.metrics = lambda t: f'vllm:num_requests_running{{server="http://a"}} {3 + t % 9}\n'
        return server

    ran = probe(path, make, LIST)
    assert ran.answer.outcome == "at_least"
    assert (repeat_of(ran).verdict, repeat_of(ran).gauges) == ("pass", None)
    assert ran.server.counts["/metrics"] == 1


@pytest.mark.parametrize(
    ("pages", "redirects", "status", "said"),
    [
        ({}, {"/metrics": "/metrics/"}, "pass", "1 engine"),
        ({}, {"/metrics": "http://localhost:9/metrics"}, "warn", "redirects to another place"),
        ({"/metrics": whole(b"")}, {}, "warn", "the answer is empty: no vLLM metrics here"),
        ({"/metrics": whole(b"x" * 100)}, {}, "warn", "there are no vLLM metrics in the answer"),
        ({"/metrics": whole(b"\xff\xfe\x00" * 50)}, {}, "warn", "there are no vLLM metrics in the answer"),
        ({"/metrics": whole(b"", 404)}, {}, "warn", "answers 404"),
        ({"/metrics": Answer(silent="request")}, {}, "warn", "does not answer within"),
        ({"/metrics": Answer(silent="head")}, {}, "warn", "does not answer within"),
        ({"/metrics": DEAD}, {}, "warn", "broke the connection before its answer was whole (connection reset)"),
    ],
    ids=["moved", "elsewhere", "empty", "words", "binary", "404", "silent", "no body", "dead"],
)
def test_what_becomes_of_metrics_before_the_run(
    path: Path, pages: dict[str, Answer], redirects: dict[str, str], status: str, said: str
) -> None:
    def make() -> FaultServer:
        server = FaultServer(pages=pages, redirects=redirects)
        if "/metrics" in redirects:
            server.pages = {**pages, "/metrics/": whole(server.exposition().encode())}
        return server

    checks, server = preflight(path, make)
    words = prose.sentence(checks["metrics"].message)
    assert (checks["metrics"].status, said in words) == (status, True), words
    assert checks["slo"].status == "pass", "the run goes on"
    assert server.counts["/metrics"] >= 1


# --- what is asked ---------------------------------------------------------------------------------------------------


def test_no_two_prompts_of_two_runs_share_their_beginning(path: Path) -> None:
    """The same seed twice: lengths and order are the same, and every prompt is cold all the same."""
    beginnings: list[tuple[int, ...]] = []

    def keep(server: FaultServer, request: Received) -> None:
        beginnings.append(tuple(request.json["prompt"][:8]))

    for name in ("one", "two"):
        probe(path.with_name(name), lambda: FaultServer(keep), config(rates_rps=(3.0,), measure_s=8.0))
    assert len(beginnings) > 60
    assert len(set(beginnings)) == len(beginnings)


def test_answers_that_end_early_are_refused_before_any_load(path: Path) -> None:
    ran = probe(path, lambda: FaultServer(Answer(pieces=tokens(1, first_s=0.05, finish="stop", prompt=16))))
    assert ran.answer.outcome == "refused"
    message = prose.text(ran.answer.message)
    assert "output" in message or "token" in message
    assert not ran.steps


def words(request: Received) -> int:
    return len(request.json["messages"][0]["content"].split())


CHAT = config(rates_rps=(3.0,), measure_s=10.0, api="chat", output_tokens=Lengths(median=8))


def test_a_chat_server_that_knows_max_tokens_alone_is_loaded_by_it(path: Path) -> None:
    """The newer field is left unread, so that its own default of 32 holds."""
    loaded: list[int] = []

    def default(server: FaultServer, request: Received) -> Answer:
        n = int(request.json.get("max_tokens", 32))
        loaded.append(n)
        return Answer(pieces=tokens(n, first_s=0.05, gap_s=0.02, prompt=words(request)))

    ran = probe(path, lambda: FaultServer(default), CHAT)
    assert [step.verdict for step in ran.steps] == ["pass"]
    assert (loaded[0], set(loaded[4:])) == (32, {8})
    assert any("max_tokens is sent instead" in sentence for sentence in ran.said)


def test_a_chat_server_that_refuses_the_newer_field_is_loaded_by_max_tokens(path: Path) -> None:
    message = "[{'type': 'extra_forbidden', 'loc': ('body', 'max_completion_tokens'), 'msg': 'Extra inputs are not permitted'}]"
    refusal = whole(json.dumps({"object": "error", "message": message, "code": 400}).encode(), 400, JSON)

    def refuse(server: FaultServer, request: Received) -> Answer:
        if "max_completion_tokens" in request.json:
            return refusal
        return Answer(pieces=tokens(int(request.json["max_tokens"]), first_s=0.05, gap_s=0.02, prompt=words(request)))

    ran = probe(path, lambda: FaultServer(refuse), CHAT)
    assert [step.verdict for step in ran.steps] == ["pass"]


def test_answers_longer_than_asked_are_refused_before_any_load(path: Path) -> None:
    ran = probe(path, lambda: FaultServer(Answer(pieces=tokens(16, first_s=0.05, gap_s=0.02, prompt=16))))
    assert ran.answer.outcome == "refused"
    assert "longer than asked: 400 %" in prose.text(ran.answer.message)
    assert not ran.steps


def test_answers_that_get_longer_under_load_are_no_fail_of_a_tpot_limit(path: Path) -> None:
    """42 ms a token, with a limit of 60, and four times the tokens: a bound that takes 16 for the most calls each late."""
    slo = Slo(ttft_s=0.5, tpot_s=0.06)
    long = Answer(pieces=tokens(64, first_s=0.05, gap_s=0.042, prompt=16))
    ran = probe(
        path,
        in_load(lambda server, request, number: long, decode_s=0.6),
        config(rates_rps=(4.0,), measure_s=15.0, slo=slo, output_tokens=Lengths(median=16)),
    )
    assert [step.verdict for step in ran.steps] == ["void"]
    assert says(repeat_of(ran).reason, "long_answers", "answer_outran")
    assert "16 were asked for; longer ones make the server look slow" in prose.text(repeat_of(ran).reason)
    assert ran.answer.outcome == "void"


@pytest.mark.parametrize("limits", [Slo(ttft_s=0.5, tpot_s=0.3), Slo(ttft_s=None, tpot_s=None, e2e_s=3.0)], ids=["TTFT", "E2E"])
def test_a_gateway_that_sends_the_body_in_one_piece_hides_ttft_and_tpot(path: Path, limits: Slo) -> None:
    """16 tokens 40 ms apart, held back to their end: TTFT would read 650 ms, TPOT 0."""
    held = Answer(pieces=tokens(16, first_s=0.05, gap_s=0.04, prompt=16), one_write=True)
    asked = config(rates_rps=(3.0,), measure_s=10.0, slo=limits, output_tokens=Lengths(median=16))
    ran = probe(path, lambda: FaultServer(held), asked)
    assert any("Something on the way buffers the stream" in sentence for sentence in ran.said)
    if limits.e2e_s is None:
        assert ran.answer.outcome == "refused"
        assert says(ran.answer.message, "refused")
        assert "nfeasible" not in prose.text(ran.answer.message)
        assert not ran.steps
    else:
        assert [step.verdict for step in ran.steps] == ["pass"]


def test_a_slow_first_request_is_said_and_not_judged(path: Path) -> None:
    cold = Answer(pieces=tokens(TOKENS, first_s=2.05, gap_s=0.75, per_chunk=3, prompt=16))
    checks, _ = preflight(
        path, lambda: FaultServer(lambda server, request: cold if server.counts["/v1/completions"] <= 2 else None)
    )
    assert checks["slo"].status == "pass"
    found = checks["slo"].message
    assert isinstance(found, Fact)
    assert (found.code, found.figures["slow_first_s"] is None) == ("singles_meet", False)


def test_a_server_that_tells_no_finish_reason_is_loaded_and_that_is_said(path: Path) -> None:
    def answer(server: FaultServer, request: Received) -> Answer:
        return Answer(pieces=tokens(TOKENS, first_s=0.05, gap_s=0.05, finish=None, prompt=16))

    ran = probe(path, lambda: FaultServer(answer), config(rates_rps=(3.0,), measure_s=10.0))
    assert [step.verdict for step in ran.steps] == ["pass"]
    assert says(next(c for c in ran.view.checks if c.check == "request").message, "ended_without_reason")
    told = next(warning for warning in repeat_of(ran).warnings if says(warning, "no_finish_reason"))
    assert isinstance(told, Fact)
    assert told.figures["without"] == told.figures["answers"] == repeat_of(ran).succeeded


@pytest.mark.parametrize("per_event", [1, 4], ids=["by its events", "by its counter"])
def test_a_server_without_usage_that_puts_tokens_together_under_load_is_judged_by_the_length_asked_for(
    path: Path, per_event: int
) -> None:
    """16 tokens 10 ms apart, but four in an event: counted one per event they would be a quarter as long, and 40 ms apart."""

    def answer(server: FaultServer, request: Received) -> Answer:
        loaded = server.counts["/v1/completions"] > PREFLIGHT_REQUESTS
        server.counts["generation_tokens"] += 16
        server.counts["prompt_tokens"] += 16
        server.counts["success"] += 1
        together = 4 if loaded else per_event
        return Answer(pieces=tokens(16, first_s=0.05, gap_s=0.01 * together, per_chunk=together, usage_by="none"))

    asked = config(rates_rps=(3.0,), measure_s=10.0, slo=Slo(ttft_s=0.5, tpot_s=0.015), output_tokens=Lengths(median=16))
    ran = probe(path, lambda: FaultServer(answer), asked)
    assert [step.verdict for step in ran.steps] == ["pass"]
    told = next(warning for warning in repeat_of(ran).warnings if says(warning, "no_usage"))
    assert isinstance(told, Fact)
    assert told.figures["counted_by"] == {"length": repeat_of(ran).succeeded}
    assert repeat_of(ran).tpot_s.p95 == pytest.approx(0.04 * 4 / 15, abs=1e-3)


def test_a_server_that_counts_nothing_and_puts_tokens_together_is_refused_for_that(path: Path) -> None:
    together = Answer(pieces=tokens(16, first_s=0.05, gap_s=0.04, per_chunk=4, usage_by="none"))
    ran = probe(path, lambda: FaultServer(together), config(output_tokens=Lengths(median=16)))
    assert ran.answer.outcome == "refused"
    assert says(next(c for c in ran.view.checks if c.check == "output length").message, "answers_uncounted")

"""A named exporter is read beside the run, and its figures are in each repeat; one that fails is said and fails nothing."""

from pathlib import Path

import httpx
import msgspec

from core.results import RepeatResult
from core.run.events import MachineSampled, Note, RepeatJudged
from tests.core.run.bench import Bench, events_of, on_bench, to_the_end
from tests.core.run.fakes import config

URL = "http://exporter:9400/metrics"


def with_exporter(bench: Bench, reply: httpx.Response) -> None:
    """Let the session's clients find an exporter at URL."""
    usual = bench.session._connections._open_client

    def http() -> httpx.AsyncClient:
        client = usual()
        transport = client._transport

        async def answer(request: httpx.Request) -> httpx.Response:
            if request.url.host == "exporter":
                return httpx.Response(reply.status_code, content=reply.content)
            return await transport.handle_async_request(request)

        return httpx.AsyncClient(transport=httpx.MockTransport(answer), trust_env=False)

    bench.session._connections._open_client = http


def run_with(path: Path, reply: httpx.Response) -> list[RepeatResult]:
    probe = config(rates_rps=(4.0,), measure_s=12.0)
    probe = msgspec.structs.replace(probe, target=msgspec.structs.replace(probe.target, gpu_metrics_url=URL))
    on_bench(path, to_the_end, probe=probe, set_up=lambda bench: with_exporter(bench, reply))
    return [event.result for event in events_of(path, RepeatJudged)]


def test_figures_of_the_exporter_are_in_each_repeat(tmp_path: Path) -> None:
    results = run_with(tmp_path / "run.jsonl", httpx.Response(200, text='DCGM_FI_DEV_GPU_UTIL{gpu="0"} 80\n'))
    assert events_of(tmp_path / "run.jsonl", MachineSampled)
    assert [result.machine and result.machine.gpu_frac for result in results] == [0.8] * len(results)
    assert results[0].verdict == "pass"


def test_an_exporter_that_fails_is_said_once_and_fails_nothing(tmp_path: Path) -> None:
    results = run_with(tmp_path / "run.jsonl", httpx.Response(404))
    assert [result.machine for result in results] == [None] * len(results)
    assert results[0].verdict == "pass"
    said = [note.text for note in events_of(tmp_path / "run.jsonl", Note) if note.level == "warn"]
    assert said == ["GPU metrics at http://exporter:9400/metrics answers 404 (not found)."]

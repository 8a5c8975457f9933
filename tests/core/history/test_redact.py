"""A copy to be given away: nobody's name is in it, and its verdicts are those of the run."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from core import history, report
from core.config import Lengths, ProbeConfig, Slo, Target, Workload
from core.errors import UserError
from core.facts import fact
from core.records import Check, EngineSample, RequestEnded, ServerInfo, ServerSample
from core.results import Answer, ClientInfo, Knee
from core.run import Replay, RunLog, read_run
from core.run.events import CheckDone, Event, Note, RunEnded, RunStarted, SampleFailed, ServerKnown, ServerSampled
from core.workloads import MixPart, Source
from tests.core.history.conftest import Make
from tests.core.run.events import started

ROOT = Path(__file__).parents[3]
RECORDED = ("screenshots/demo.jsonl", "tests/data/runs/vllm-0.32.0-list.jsonl", "tests/data/pictures/kvlim-inverted.jsonl")
HOST, MODEL = "gpu-7.acme.example", "AcmeCorp/secret-13b"
URL = f"https://{HOST}:8443"
NAMES = (
    *(HOST, "gpu-7", MODEL, "AcmeCorp", "secret-13b", "5bce98f73f3e", "falcon project", "X-Acme-Team", "customers.jsonl"),
    *(
        "tenant-a",
        "10.1.2.3",
        "kubepods",
        "acme-build",
        "pod-17",
        "Acme quota",
        "acme-engine",
        "http://proxy.acme:3128",
        "/home/ada",
    ),
    *("cafe1234", "fp_acme", "vllm-0.acme", "vllm-1.acme", "vllm-2.acme", "vllm.acme.svc"),
)


def verdicts(path: Path) -> dict[str, Any]:
    """What the run says, but for whose it was."""
    replay = Replay(read_run(path))
    result = report.result(replay.view(replay.length_s), None)
    steps = [(step["rate_rps"], step["verdict"], step["floor_interval"], len(step["repeats"])) for step in result["steps"]]
    asked = {key: result[key] for key in ("outcome", "slo", "method", "mode", "seed", "started_at", "duration_s", "twin")}
    knee = {key: value for key, value in result["knee"].items() if not key.startswith("notes")}
    return {**asked, "knee": knee, "steps": steps, "checks": [check["status"] for check in result["preflight"]]}


@pytest.fixture
def named(tmp_path: Path) -> Path:
    """A run in which names stand wherever one can."""
    source = Source(kind="dataset", file="customers.jsonl", form="plain", rows=1)
    config = ProbeConfig(
        target=Target(
            url=URL, prefix="/tenant-a", model=MODEL, metrics_url=f"{URL}/tenant-a/metrics", proxy="http://proxy.acme:3128"
        ),
        slo=Slo(ttft_s=0.5),
        workload=Workload(
            input_tokens=Lengths(median=32), mix=(MixPart(input_tokens=32, output_tokens=11, weight=1.0),), source=source
        ),
    )
    client = ClientInfo(
        version="0", python="3.11", platform="Linux-6.1-acme-build", hostname_hash="5bce98f73f3e", cores=2, transport=""
    )
    command = f"kneescope probe {URL} --header X-Acme-Team:a --ca-file /home/ada/ca.pem --label 'falcon project'"
    info = ServerInfo(
        url=URL,
        alive_path="/tenant-a/health",
        version="0.32.0+acme-build",
        model=MODEL,
        metrics_url=f"{URL}/tenant-a/metrics",
        metrics_models=(MODEL, "AcmeCorp/other"),
        fingerprint="vllm-cafe1234",
        config={"num_gpu_blocks": "225", "cache_dtype": "auto", "model": MODEL, "cgroup": "kubepods"},
        replicas=("vllm-0.acme:8000", "vllm-1.acme:8000"),
    )
    facts = (
        fact("server_answers", url=URL, path="/tenant-a/health", status=200),
        fact("model_found", model="secret-13b", context_tokens=2048),
        fact("models_left_out", "AcmeCorp/other", "pod-17", models=2),
        fact("metrics_unreadable", url=f"{URL}/tenant-a/metrics", said="Acme quota exceeded at 10.1.2.3:9000"),
    )
    ended = RequestEnded(
        order=1,
        index=0,
        t_sched=501.0,
        t_end=502.0,
        asked_input=32,
        asked_output=11,
        ending="http",
        status=429,
        error="Acme quota exceeded for tenant-a",
        backend="acme-engine",
        fingerprint="fp_acme",
    )
    log = RunLog(tmp_path / "named.jsonl")
    begin = replace(started(config), client=client, command=command, label="falcon project", utc_offset_s=3600)
    checks = [CheckDone(t=500.1, check=Check(check="model", status="pass", message=each)) for each in facts]
    events: list[Event] = [begin, *checks]
    for event in events:
        log.append(event)
    log.append(ServerKnown(t=500.2, info=info))
    log.append(ended)
    rows = (EngineSample(name="vllm-0.acme:8000"), EngineSample(name="vllm-2.acme:8000", model=MODEL))
    fleet = ServerSample(t=501.0, took_s=0.1, by_engine=rows, by_replica=True, unread=("vllm-1.acme:8000",))
    log.append(ServerSampled(t=501.0, sample=fleet))
    log.append(Note(t=501.5, text=fact("replicas_not_told", source="--dns vllm.acme.svc:8000", said="no answer", kept=2)))
    log.append(Note(t=501.6, text=fact("replicas_changed", "vllm-0.acme:8000", before=2, after=1, restarted=0)))
    log.append(Note(t=501.7, text="Metrics of no replica can be read: vllm-1.acme:8000 answers 401"))
    log.append(SampleFailed(t=502.0, reason=f"{HOST}: connection refused (10.1.2.3)"))
    log.append(Note(t=503.0, text=f"The server at {URL.upper()}/V1 serves {MODEL.upper()} from /home/ada/models"))
    knee = Knee(pass_rps=8.0, first_fail_rps=10.0)
    log.append(RunEnded(t=600.0, answer=Answer(outcome="bracket", message=f"{MODEL} holds.", knee=knee)))
    log.close()
    return log.path


def test_no_name_is_left_wherever_one_stood(named: Path) -> None:
    assert all(name.lower() in named.read_text().lower() for name in NAMES)
    copy = history.redact(named, None)
    assert copy.name == "named.redacted.jsonl"
    assert [name for name in NAMES if name.lower() in copy.read_text().lower()] == []
    assert verdicts(copy) == verdicts(named)
    assert copy.stat().st_mode & 0o777 == 0o600
    begin = next(iter(read_run(copy)))
    assert isinstance(begin, RunStarted)
    assert (begin.label, begin.config.target.url, begin.command) == ("redacted", "http://redacted", "kneescope")
    sample = next(event.sample for event in read_run(copy) if isinstance(event, ServerSampled))
    names = [*(row.name for row in sample.by_engine or ()), *sample.unread]
    assert len({*names}) == 3, "they are still told from each other"
    settings = next(event.info.config for event in read_run(copy) if isinstance(event, ServerKnown))
    assert (settings["num_gpu_blocks"], settings["cache_dtype"], settings["cgroup"]) == ("225", "auto", "redacted")


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_runs_keep_their_verdicts_and_lose_their_names(name: str, tmp_path: Path) -> None:
    path = ROOT / name
    lines = path.read_text().splitlines()
    first = json.loads(lines[0])
    server = next(json.loads(line)["info"] for line in lines if line.startswith('{"type":"server"'))
    copy = history.redact(path, tmp_path / "copy.jsonl")
    content = copy.read_text()
    address = first["config"]["target"]["url"]
    gone = (address, address.partition("//")[2], first["client"]["hostname_hash"], server["model"])
    assert [each for each in gone if re.search(rf"(?<!\w){re.escape(each)}(?!\w)", content)] == []
    assert verdicts(copy) == verdicts(path)
    assert len(content.splitlines()) == len(lines)


def test_a_copy_is_no_run_of_the_list(run: Make) -> None:
    path = run("a")
    history.redact(path, None)
    assert [each.place for each in history.runs()] == [path]


def test_nothing_is_overwritten_and_what_is_no_run_is_refused(run: Make, tmp_path: Path) -> None:
    path = run("a")
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(UserError, match="is there already"):
        history.redact(path, tmp_path / "mine")
    with pytest.raises(UserError, match="cannot be written"):
        history.redact(path, tmp_path / "no" / "copy.jsonl")
    with pytest.raises(UserError, match="not a run file"):
        history.redact(tmp_path / "mine", None)
    log = RunLog(tmp_path / "going.jsonl")
    log.append(started())
    with pytest.raises(UserError, match="still being written") as caught:
        history.redact(log.path, None)
    log.close()
    assert caught.value.exit_code == 3
    assert (tmp_path / "mine").read_text() == "mine"


def test_a_model_that_is_called_as_a_word_of_the_format_breaks_nothing(tmp_path: Path) -> None:
    for model in ("completions", "pass", "type", "null", "7", "x", "bracket/quick"):
        config = ProbeConfig(target=Target(url="http://h:1", model=model))
        log = RunLog(tmp_path / f"{model.replace('/', '-')}.jsonl")
        log.append(started(config))
        log.append(RunEnded(t=600.0, answer=Answer(outcome="bracket", message="As told.", knee=Knee(pass_rps=8.0))))
        log.close()
        assert verdicts(history.redact(log.path, None)) == verdicts(log.path)

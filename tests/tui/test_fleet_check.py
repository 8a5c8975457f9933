"""`kneescope fleet-check`: what is asked of the fleet, what is refused before any load, exit codes, and that no command is kept."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace

from core.config import FleetAsk, FleetPlan, Method, ProbeConfig, Safety, Workload
from core.records import Check
from core.results import Answer, Knee, Outcome, StepResult
from core.run import RunLog
from core.run.events import CheckDone, RunEnded, RunStarted, StepJudged
from core.server import ReplicasRead
from core.server.replicas import ReplicaUnread
from core.workloads import Source
from tests.builders import config, repeat, step
from tests.tui.cli_fakes import CLIENT, FakeSession
from tui.cli import fleet_check, probe
from tui.cli.commands import cli
from tui.cli.probe import code_of

GATEWAY = "http://127.0.0.1:8000"
REPLICAS = ("--replica", "http://127.0.0.1:8001", "--replica", "http://127.0.0.1:8002")
SECRET = "sk-TESTSECRET"
ONE = config(
    "http://127.0.0.1:8001",
    method=Method(mode="standard", seed=7),
    fleet=FleetAsk(headroom=0.6),
    safety=Safety(max_rps=5.0),
)


@pytest.fixture(autouse=True)
def fakes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async def two(asked: object, access: object) -> int:
        return 2

    monkeypatch.setattr(probe, "Session", FakeSession)
    monkeypatch.setattr(FakeSession, "made", [])
    monkeypatch.setattr(FakeSession, "how", "bracket")
    monkeypatch.setattr(fleet_check, "_count", two)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def recorded(path: Path, one: ProbeConfig = ONE, outcome: Outcome = "bracket", pass_rps: float | None = 4.0) -> str:
    log = RunLog(path)
    log.append(RunStarted(t=0.0, started_utc="2026-01-01T00:00:00Z", config=one, client=CLIENT, command=""))
    log.append(CheckDone(t=0.5, check=Check(check="reachable", status="pass", message="It answers.")))
    log.append(StepJudged(t=1.0, result=step(4.0, "pass", repeat("pass"))))
    answer = Answer(outcome=outcome, message="As told.", knee=Knee(pass_rps=pass_rps, first_fail_rps=5.0))
    log.append(RunEnded(t=2.0, answer=answer))
    log.close()
    return str(path)


def check(*args: str) -> Result:
    return CliRunner().invoke(cli, ("fleet-check", GATEWAY, "--headless", *args))


def asked(tmp_path: Path, *args: str) -> ProbeConfig:
    result = check("--run", recorded(tmp_path / "one.jsonl"), *REPLICAS, *args)
    assert FakeSession.made, result.output
    return FakeSession.made[0].config


def test_the_fleet_is_asked_what_one_replica_was(tmp_path: Path) -> None:
    probe = asked(tmp_path)
    assert probe.method.fleet == FleetPlan(replicas=2, one_rps=4.0, load_at_peak=0.6)
    assert probe.method.rates_rps == (4.8, 8.0)
    assert (probe.target.url, probe.slo, probe.workload, probe.safety) == (GATEWAY, ONE.slo, ONE.workload, Safety())
    assert (probe.method.mode, probe.method.seed) == ("standard", 7)
    assert FakeSession.made[0].replicas is not None


def test_what_is_given_takes_the_place_of_what_the_run_had(tmp_path: Path) -> None:
    options = ("--mode", "quick", "--measure", "20s", "--load-at-peak", "50%", "--max-rps", "6", "--model", "m", "--api", "chat")
    probe = asked(tmp_path, *options, "--budget", "5m", "--label", "eight")
    assert (probe.method.mode, probe.method.measure_s, probe.method.budget_s) == ("quick", 20.0, 300.0)
    assert (probe.method.rates_rps, probe.safety.max_rps) == ((4.0,), 6.0)
    assert (probe.target.model, probe.target.api) == ("m", "chat")
    assert FakeSession.made[0].label == "eight"


def test_a_command_is_handed_over_and_written_nowhere(tmp_path: Path) -> None:
    lose = f"KEY={SECRET} ./drain.sh 1"
    probe = asked(tmp_path, "--lost", "1", "--lose-command", lose)
    assert probe.method.fleet is not None
    assert (probe.method.fleet.lost, FakeSession.made[0].lose) == (1, lose)
    assert SECRET not in FakeSession.made[0].command
    files = [each for each in tmp_path.rglob("*") if each.is_file()]
    assert files
    assert not any(SECRET in each.read_text() for each in files)


@pytest.mark.parametrize(
    ("args", "said", "code"),
    [
        (("--lost", "1"), "--lost and --lose-command belong together", 2),
        (("--lose-command", "true"), "--lost and --lose-command belong together", 2),
        (("--lost", "2", "--lose-command", "true"), "at least one must be left", 2),
        (("--max-rps", "3"), "above --max-rps", 2),
        (("--trace", "x.csv"), "did not send what --trace would", 2),
        (("--load-at-peak", "70%", "--headroom", "60%"), "two names of one share", 2),
        (("--query", "up"), "--prometheus and --query belong together", 2),
    ],
)
def test_what_cannot_be_asked_is_refused(tmp_path: Path, args: tuple[str, ...], said: str, code: int) -> None:
    result = check("--run", recorded(tmp_path / "one.jsonl"), *REPLICAS, *args)
    assert (result.exit_code, FakeSession.made) == (code, [])
    assert said in result.stderr


def test_a_run_without_a_rate_that_held_says_nothing_of_a_fleet(tmp_path: Path) -> None:
    result = check("--run", recorded(tmp_path / "one.jsonl", outcome="below", pass_rps=None), *REPLICAS)
    assert (result.exit_code, FakeSession.made) == (3, [])
    assert "no rate that held" in result.stderr


@pytest.mark.parametrize(
    "command",
    [
        ("fleet", "--peak-rps", "50", "--run"),
        ("what-if",),
        ("report", "--format", "keda"),
        ("fleet-check", GATEWAY, *REPLICAS, "--run"),
        ("watch", GATEWAY, "--once", "--run"),
    ],
)
def test_a_check_of_a_fleet_is_taken_for_no_replica(tmp_path: Path, command: tuple[str, ...]) -> None:
    plan = FleetPlan(replicas=2, one_rps=4.0, load_at_peak=0.6)
    fleet = replace(ONE, safety=Safety(), method=replace(ONE.method, rates_rps=(4.8, 8.0), fleet=plan))
    result = CliRunner().invoke(cli, [*command, recorded(tmp_path / "fleet.jsonl", fleet)])
    assert (result.exit_code, FakeSession.made) == (3, [])
    assert "check of 2 replicas behind a gateway; give the run of one" in result.stderr


def test_prompts_of_a_file_are_given_again(tmp_path: Path) -> None:
    (tmp_path / "prompts.jsonl").write_text('{"prompt": "a b c", "output_tokens": 5}\n')
    sent = replace(ONE, workload=Workload(source=Source(kind="dataset", file="prompts.jsonl", rows=1)))
    run = recorded(tmp_path / "one.jsonl", sent)
    result = check("--run", run, *REPLICAS)
    assert result.exit_code == 2
    assert "give it again with --dataset" in result.stderr
    check("--run", run, *REPLICAS, "--dataset", str(tmp_path / "prompts.jsonl"))
    assert FakeSession.made[0].config.workload.source == Source(kind="dataset", file="prompts.jsonl")


def test_replicas_that_cannot_be_read_are_refused_before_any_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(probe, "Session", FakeSession)
    monkeypatch.setattr(FakeSession, "made", [])
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    run = recorded(tmp_path / "one.jsonl")
    result = check("--run", run, "--replica", "http://127.0.0.1:9", "--replica", "http://127.0.0.1:10")
    assert (result.exit_code, FakeSession.made) == (3, [])
    assert "2 of 2 replicas cannot be read, and no load was sent. 127.0.0.1:9 " in result.stderr
    unnamed = check("--run", run)
    assert (unnamed.exit_code, FakeSession.made) == (2, [])
    assert "give --replica URL for each" in unnamed.stderr


@pytest.mark.parametrize(
    ("steps", "outcome", "code"),
    [
        ((step(4.8, "pass", repeat("pass"), phase="list"),), "bracket", 0),
        ((step(4.8, "fail", repeat("fail"), phase="list"),), "below", 1),
        ((step(4.8, "pass", repeat("pass"), phase="list"),), "void", 3),
        ((step(4.8, "pass", repeat("pass"), phase="list"),), "interrupted", 130),
        ((), "refused", 3),
        ((), "infeasible", 1),
    ],
)
def test_exit_codes(tmp_path: Path, steps: tuple[StepResult, ...], outcome: Outcome, code: int) -> None:
    from core.run.state import State

    state = State()
    state.apply(RunStarted(t=0.0, started_utc="2026-01-01T00:00:00Z", config=asked(tmp_path), client=CLIENT, command=""))
    for each in steps:
        state.apply(StepJudged(t=1.0, result=each))
    state.apply(RunEnded(t=2.0, answer=Answer(outcome=outcome, message="As told.", knee=Knee(pass_rps=4.8))))
    assert code_of(state.view(3.0)) == code


def test_the_result_is_one_of_a_fleet(tmp_path: Path) -> None:
    result = check("--run", recorded(tmp_path / "one.jsonl"), *REPLICAS, "--json", "-", "--quiet")
    data: dict[str, Any] = json.loads(result.stdout)
    assert (data["kind"], data["schema"]) == ("fleet_check", 2)
    found = data["fleet_check"]
    assert (found["replicas"], found["pass_rps_one"], found["planned_rps"], found["full_rps"]) == (2, 4.0, 4.8, 8.0)
    assert result.exit_code == 3, "nothing was judged"


@pytest.mark.parametrize(("late", "there", "looks"), [(0, True, 1), (1, True, 2), (9, True, 3), (9, False, 1)])
async def test_a_replica_that_misses_one_reading_is_read_again(
    monkeypatch: pytest.MonkeyPatch, late: int, there: bool, looks: int
) -> None:
    """Beside other work one reading may take a second; one that is gone is not waited for."""

    class Scraper:
        asked = 0

        async def look(self) -> ReplicasRead:
            self.asked += 1
            return ReplicasRead((), (ReplicaUnread("a:1", "does not answer in time", there),) if self.asked <= late else ())

    monkeypatch.setattr(fleet_check, "AGAIN_S", 0.0)
    scraper = Scraper()
    seen = await fleet_check._look(scraper)  # type: ignore[arg-type]
    assert (scraper.asked, bool(seen.unread)) == (looks, late >= looks)

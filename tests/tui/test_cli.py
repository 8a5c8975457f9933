"""Commands end to end inside this process, over a session that reaches no server: exit codes, and what goes where."""

import asyncio
import errno
import json
import tempfile
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from core import __version__, history, report
from core.errors import UserError
from core.facts import fact
from core.records import Check, RepeatOrder
from core.replica import process
from core.replica.catalog import CATALOG
from core.replica.routers import ROUTERS
from core.run.ends import NoAnswer
from core.run.events import RepeatStarted, encode
from core.workloads import Gateway
from tests.tui.cli_fakes import FakeSession, fake_json, fake_text
from tui.cli import probe
from tui.cli.commands import cli

URL = "http://127.0.0.1:8000"


@pytest.fixture(autouse=True)
def fakes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(probe, "Session", FakeSession)
    monkeypatch.setattr(report, "to_text", fake_text)
    monkeypatch.setattr(report, "to_json", fake_json)
    monkeypatch.setattr("tui.cli.commands.interrupt_on_terminate", lambda: None)
    monkeypatch.setattr(FakeSession, "made", [])
    monkeypatch.setattr(FakeSession, "how", "bracket")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("KNEESCOPE_API_KEY", raising=False)


def kneescope(*args: str) -> Result:
    return CliRunner().invoke(cli, args)


def state_files(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "state").rglob("*.jsonl"))


def test_alone_shows_the_commands() -> None:
    result = kneescope()
    assert result.exit_code == 0
    for command in ("probe", "demo", "replica", "preflight", "open", "report", "fleet"):
        assert f"\n  {command} " in result.stdout


def test_version() -> None:
    result = kneescope("--version")
    assert (result.exit_code, result.stdout) == (0, f"kneescope {__version__}\n")


@pytest.mark.parametrize(
    "args", [["prob", URL], ["probe"], ["open"], ["report"], ["replica"], ["preflight"], ["probe", URL, "--json"]]
)
def test_wrong_calls(args: list[str]) -> None:
    result = kneescope(*args)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Error: " in result.stderr


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ("bracket", 0),
        ("at_least", 0),
        ("below", 0),
        ("infeasible", 0),
        ("held", 0),
        ("void", 3),
        ("refused", 3),
        ("interrupted", 130),
    ],
)
def test_exit_code_says_how_it_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, how: str, code: int) -> None:
    monkeypatch.setattr(FakeSession, "how", how)
    result = kneescope("probe", URL)
    assert result.exit_code == code
    (path,) = state_files(tmp_path)
    assert result.stdout == f"VERDICT {how}\nlog {path}\n"
    assert f"run file  {path}" in result.stderr


def test_without_a_terminal_one_line_says_so_and_the_lines_follow() -> None:
    lines = kneescope("probe", URL).stderr.splitlines()
    assert lines[0] == "No screen, because stdin is not a terminal; the run prints lines instead."
    assert any(line.endswith("reachable: The server answers.") for line in lines)
    assert not any("No screen" in line for line in kneescope("probe", URL, "--headless").stderr.splitlines())


def test_quiet_leaves_the_result_alone() -> None:
    result = kneescope("probe", URL, "--quiet")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("VERDICT bracket\n")


def test_json_on_stdout_is_alone_there() -> None:
    result = kneescope("probe", URL, "--json", "-")
    assert json.loads(result.stdout) == {"outcome": "bracket"}
    assert "VERDICT bracket" in result.stderr


def test_json_file_beside_the_verdict(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text("something older and longer than the result")
    result = kneescope("probe", URL, "--json", str(path))
    assert result.stdout.startswith("VERDICT bracket\n")
    assert json.loads(path.read_text()) == {"outcome": "bracket"}


@pytest.mark.parametrize("where", ["", "missing/result.json", "x" * 300])
def test_json_place_is_checked_before_the_run(tmp_path: Path, where: str) -> None:
    result = kneescope("probe", URL, "--json", str(tmp_path / where))
    assert (result.exit_code, result.stdout, FakeSession.made) == (2, "", [])
    assert result.stderr.startswith("Error: --json: ")


def test_out_names_the_run_file_and_is_checked_before_the_run(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    assert kneescope("probe", URL, "--out", str(path)).stdout.endswith(f"log {path}\n")
    assert "run_ended" in path.read_text()
    FakeSession.made.clear()
    result = kneescope("probe", URL, "--out", str(path), "--json", str(tmp_path / "r.json"))
    assert (result.exit_code, result.stdout, FakeSession.made) == (2, "", [])
    assert not (tmp_path / "r.json").exists()


def test_a_run_that_breaks_off_keeps_what_it_had(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(FakeSession, "how", "breaks")
    result = kneescope("probe", URL, "--json", str(tmp_path / "r.json"))
    assert result.exit_code == 3
    assert result.stdout.startswith("VERDICT none\n")
    assert result.stderr.splitlines()[-1] == "Error: The generator could not be started."
    assert (tmp_path / "r.json").read_text() == '{"outcome": "None"}\n'


def test_a_fault_of_our_own_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def break_down(job: probe.Job) -> int:
        raise RuntimeError("a fault")

    monkeypatch.setattr(probe, "run", break_down)
    result = kneescope("probe", URL)
    assert (result.exit_code, result.stdout) == (3, "")
    assert "RuntimeError: a fault" in result.stderr


def test_escape_codes_in_an_error_do_not_reach_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(job: probe.Job) -> int:
        raise UserError("the server said \x1b[2J\nnothing", 3)

    monkeypatch.setattr(probe, "run", refuse)
    result = CliRunner().invoke(cli, ["probe", URL], color=True)
    assert result.stderr == "Error: the server said  [2J nothing\n"


def test_key_goes_to_the_session_and_into_no_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KNEESCOPE_API_KEY", "sk-TESTSECRET")
    result = kneescope("probe", URL)
    assert FakeSession.made[0].access.api_key == "sk-TESTSECRET"
    assert "sk-TESTSECRET" not in result.output + "".join(path.read_text() for path in state_files(tmp_path))


def test_the_command_between_repeats_goes_to_the_session_and_into_no_file(tmp_path: Path) -> None:
    result = kneescope("probe", URL, "--between", "restart TESTSECRET")
    assert FakeSession.made[0].between == "restart TESTSECRET"
    assert "TESTSECRET" not in result.output + "".join(path.read_text() for path in state_files(tmp_path))


def test_what_a_failing_command_printed_is_for_the_terminal_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(FakeSession, "prints", "no such\x1b[31m\ncontainer")
    result = kneescope("probe", URL, "--between", "restart")
    assert result.stderr.endswith("not recorded):\n  no such [31m\n  container\n")
    assert "container" not in result.stdout + "".join(path.read_text() for path in state_files(tmp_path))


@pytest.mark.parametrize(
    ("how", "met", "code"),
    [
        ("bracket", False, 1),
        ("bracket", True, 0),
        ("at_least", None, 0),
        ("held", False, 1),
        ("held", None, 0),
        ("void", False, 3),
        ("infeasible", False, 1),
    ],
)
def test_a_required_rate_that_does_not_pass_is_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, how: str, met: bool | None, code: int
) -> None:
    monkeypatch.setattr(FakeSession, "how", how)
    monkeypatch.setattr(FakeSession, "required_met", met)
    assert kneescope("probe", URL).exit_code == code


def test_preflight_without_a_place_for_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(**_: str) -> None:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "TemporaryDirectory", nowhere)
    result = kneescope("preflight", URL)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "TMPDIR" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(("how", "code", "ok"), [("bracket", 0, True), ("refused", 3, False)])
def test_preflight(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, how: str, code: int, ok: bool) -> None:
    monkeypatch.setattr(FakeSession, "how", how)
    result = kneescope("preflight", URL)
    assert (result.exit_code, result.stdout.count("\n"), state_files(tmp_path)) == (code, 1, [])
    assert " reachable: " in result.stdout
    as_json = kneescope("preflight", URL, "--json", "-")
    assert as_json.exit_code == code
    told = json.loads(as_json.stdout)
    assert told["ok"] is ok
    assert told["preflight"][0].keys() == {"check", "status", "message", "message_fact"}


def test_checks_that_break_off_say_why_and_are_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    async def stuck(self: FakeSession) -> list[Check]:
        raise NoAnswer(fact("client_stuck", within_s=5.0))

    monkeypatch.setattr(FakeSession, "preflight", stuck)
    result = kneescope("preflight", URL)
    assert (result.exit_code, result.stdout) == (3, "")
    assert "The load generator did not stop within 5 s and was killed; run again." in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr


class FakeReplica:
    url = "http://127.0.0.1:4711"
    stopped = 0

    async def stop(self) -> None:
        type(self).stopped += 1


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the replicas that were started; none of them serves."""
    names: list[str] = []

    async def start(name: str) -> FakeReplica:
        names.append(name)
        await asyncio.sleep(0)
        return FakeReplica()

    monkeypatch.setattr(process, "start", start)
    monkeypatch.setattr(FakeReplica, "stopped", 0)
    return names


def test_demo_probes_a_replica_with_its_own_lengths_and_limits(started: list[str]) -> None:
    assert kneescope("demo", "slot").exit_code == 0
    assert (started, FakeReplica.stopped) == (["slot"], 1)
    session, slot = FakeSession.made[0], CATALOG["slot"]
    assert session.config.target.url == FakeReplica.url
    assert (session.config.slo.ttft_s, session.config.slo.tpot_s, session.config.slo.e2e_s) == (
        slot.ttft_s,
        slot.tpot_s,
        slot.e2e_s,
    )
    assert (session.config.slo.target, session.config.slo.default) == (slot.target, False)
    lengths = session.config.workload.output_tokens
    assert (lengths.median, lengths.sigma, lengths.maximum) == (120, 0.7, 1024)
    assert session.config.workload.input_tokens.minimum == slot.input_tokens.minimum
    assert session.truth_rps == slot.truth_rps


def test_demo_without_a_name_is_the_demo(started: list[str]) -> None:
    assert kneescope("demo").exit_code == 0
    assert started == ["demo"]


@pytest.mark.parametrize("options", [["--ttft", "1s"], ["--output-tokens", "64"], ["--target", "99%"], ["--tpot", "none"]])
def test_the_long_run_knee_is_not_shown_for_another_question(started: list[str], options: list[str]) -> None:
    assert kneescope("demo", *options).exit_code == 0
    assert FakeSession.made[0].truth_rps is None


def test_demo_options_override_the_replica(started: list[str]) -> None:
    assert kneescope("demo", "rag", "--tpot", "80ms", "--input-tokens", "64", "--max-error-rate", "2%").exit_code == 0
    config = FakeSession.made[0].config
    assert (config.slo.ttft_s, config.slo.tpot_s, config.slo.max_error_rate) == (None, 0.08, 0.02)
    assert (config.workload.input_tokens.median, config.workload.output_tokens.median) == (64, 100)


@pytest.mark.parametrize("args", [["nosuch"], ["slot", "--seed", "-1"], ["slot", "--ttft", "none", "--tpot", "none"]])
def test_demo_refuses_before_it_starts_anything(started: list[str], args: list[str]) -> None:
    result = kneescope("demo", *args)
    assert (result.exit_code, result.stdout, started) == (2, "", [])


def test_demo_stops_the_replica_when_the_run_breaks(monkeypatch: pytest.MonkeyPatch, started: list[str], tmp_path: Path) -> None:
    monkeypatch.setattr(FakeSession, "how", "breaks")
    assert kneescope("demo").exit_code == 3
    assert kneescope("demo", "--out", str(tmp_path)).exit_code == 2
    assert FakeReplica.stopped == 2


def test_replica_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[tuple[str, str, int, process.Fleet | None]] = []

    def serve(name: str, host: str, port: int, say: object, fleet: process.Fleet | None) -> None:
        served.append((name, host, port, fleet))

    monkeypatch.setattr(process, "serve", serve)
    assert kneescope("replica", "kvlim").exit_code == 0
    assert kneescope("replica", "chat", "--host", "0.0.0.0", "--port", "0").exit_code == 0
    assert served == [("kvlim", "127.0.0.1", 8000, None), ("chat", "0.0.0.0", 0, None)]
    assert kneescope("replica", "chat", "--port", "70000").exit_code == 2
    assert kneescope("replica", "nosuch", "--port", "x").exit_code == 2


def test_replica_serves_a_fleet_behind_a_gateway(monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[process.Fleet] = []
    monkeypatch.setattr(process, "serve", lambda name, host, port, say, fleet: served.append(fleet))
    assert kneescope("replica", "chat", "--replicas", "4", "--router", "random").exit_code == 0
    assert kneescope("replica", "chat", "--replicas", "2").exit_code == 0
    assert served == [process.Fleet(replicas=4, router="random"), process.Fleet(replicas=2, router="round-robin")]
    for refused in (("--replicas", "0"), ("--replicas", "65"), ("--replicas", "2", "--router", "best")):
        assert kneescope("replica", "chat", *refused).exit_code == 2
    alone = kneescope("replica", "chat", "--router", "random")
    assert (alone.exit_code, "--router chooses among replicas; give --replicas as well." in alone.stderr) == (2, True)


def test_the_routers_and_the_most_replicas_are_those_of_the_gateway() -> None:
    """They stand twice: the help must not load the server."""
    options = {option.name: option.type for option in cli.commands["replica"].params}
    assert tuple(options["router"].choices) == ROUTERS  # type: ignore[attr-defined]
    assert options["replicas"].max == process.MOST_REPLICAS  # type: ignore[attr-defined]


def test_report_of_a_run_whole_or_torn(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    kneescope("probe", URL, "--out", str(path))
    result = kneescope("report", str(path))
    assert (result.exit_code, result.stdout, result.stderr) == (0, f"VERDICT bracket\nlog {path}\n", "")
    assert json.loads(kneescope("report", str(path), "--json", "-").stdout) == {"outcome": "bracket"}
    kneescope("report", str(path), "--json", str(tmp_path / "r.json"))
    assert json.loads((tmp_path / "r.json").read_text()) == {"outcome": "bracket"}
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0] + b'{"type":"che')
    assert kneescope("report", str(path)).stdout.startswith("VERDICT none\n")


def test_report_of_the_last_run(tmp_path: Path) -> None:
    assert kneescope("report", "last").exit_code == 2
    kneescope("probe", URL)
    assert kneescope("report", "last").stdout.endswith(f"log {history.resolve('last')}\n")


def test_open_and_report_refuse_what_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("")
    for run in ("nosuch", "empty"):
        result = kneescope("report", str(tmp_path / run))
        assert (result.exit_code, result.stdout) == (2, "")


def test_a_run_file_that_was_changed_is_refused_with_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    kneescope("probe", URL, "--out", str(path))
    order = RepeatOrder(order=1, phase="search", step=1, repeat=0, seed=1, offsets_s=(2.0, 1.0), start_at=0.0)
    path.write_bytes(path.read_bytes() + encode(RepeatStarted(t=1.0, order=order)))
    result = kneescope("report", str(path))
    assert (result.exit_code, result.stdout) == (2, "")
    assert "the file was changed or damaged" in result.stderr
    assert "Traceback" not in result.stderr


def test_open_needs_a_terminal() -> None:
    result = kneescope("open", "last")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        "Error: open needs a terminal, but stdin is not a terminal; `kneescope report last` prints the run as text.\n"
    )


def test_the_command_line_is_kept_as_it_was_typed() -> None:
    kneescope("probe", URL, "--model", "a b")
    assert FakeSession.made[0].command == f"kneescope probe {URL} --model 'a b'"


def test_every_command_has_a_help_text() -> None:
    assert isinstance(cli, click.Group)
    for name, command in cli.commands.items():
        assert command.help, name
        for param in command.params:
            assert not isinstance(param, click.Option) or param.help, f"{name} {param.name}"


def test_the_demo_of_the_queue_judges_its_own_rates_and_a_closed_loop(started: list[str]) -> None:
    assert kneescope("demo", "queue").exit_code == 0
    method = FakeSession.made[-1].config.method
    assert (method.rates_rps, method.repeats, method.closed_loop) == ((4.0, 6.0), 2, True)
    assert kneescope("demo", "queue", "--rates", "5").exit_code == 0
    method = FakeSession.made[-1].config.method
    assert (method.rates_rps, method.repeats, method.measure_s, method.closed_loop) == ((5.0,), None, None, True)
    assert kneescope("demo", "queue", "--mode", "standard").exit_code == 0
    method = FakeSession.made[-1].config.method
    assert (method.mode, method.rates_rps, method.closed_loop) == ("standard", (), True)
    assert kneescope("demo", "queue", "--gateway-limit", "3,queue=2", "--retry-after").exit_code == 0
    config = FakeSession.made[-1].config
    assert (config.method.closed_loop, config.workload.gateway) == (False, Gateway(limit=3, queue=2))
    assert config.workload.retry_after
    assert kneescope("demo", "queue", "--closed-loop", "--gateway-limit", "3").exit_code == 2
    assert kneescope("demo", "queue", "--hold", "3").exit_code == 0
    assert not FakeSession.made[-1].config.method.closed_loop


def test_a_closed_loop_is_measured_only_where_it_is_asked_for(started: list[str]) -> None:
    assert kneescope("demo").exit_code == 0
    assert kneescope("demo", "--closed-loop").exit_code == 0
    assert [session.config.method.closed_loop for session in FakeSession.made] == [False, True]
    refused = kneescope("demo", "--closed-loop", "--hold", "3")
    assert refused.exit_code == 2
    assert "--closed-loop has no effect with --hold" in refused.stderr

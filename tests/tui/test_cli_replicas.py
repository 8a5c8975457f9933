"""The replicas behind a gateway, from the command line: which are named, what lets us in, and what is refused."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from core.access import Access
from core.server import Places
from tests.tui.cli_fakes import FakeSession
from tui.cli import probe as command
from tui.cli.commands import cli
from tui.cli.places import discovery_of, places_of, replica_access
from tui.connect.fields import read
from tui.connect.preflight_run import PreflightRun

URL = "http://gw:8000"
SECRET = "sk-TESTSECRET"


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> type[FakeSession]:
    monkeypatch.setattr(command, "Session", FakeSession)
    monkeypatch.setattr("tui.cli.commands.interrupt_on_terminate", lambda: None)
    monkeypatch.setattr(FakeSession, "made", [])
    monkeypatch.setattr(FakeSession, "how", "bracket")
    return FakeSession


def probe(*options: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(cli, ["probe", URL, *options])
    return result.exit_code, result.stdout, result.stderr


def test_all_sources_are_named_as_for_watch(jobs: list[command.Job], tmp_path: Path) -> None:
    file = tmp_path / "r"
    file.write_text("10.0.0.9:8000\n")
    said = ("--replica", "10.0.0.7:8000", "--replica", "http://10.0.0.8:8000/metrics", "--replicas-file", str(file))
    assert probe(*said, "--dns", "vllm.svc:8000", "--prometheus", "http://p:9090", "--query", "up") == (0, "", "")
    options = jobs[0].options
    urls = ("http://10.0.0.7:8000", "http://10.0.0.8:8000")
    assert places_of(options["replica"], options) == Places(urls, file, ("vllm.svc", 8000), "http://p:9090", "up")


def test_the_replicas_get_their_own_secrets_and_none_of_the_gateways(jobs: list[command.Job], tmp_path: Path) -> None:
    (tmp_path / "gateway").write_text("sk-GATEWAY")
    (tmp_path / "replicas").write_text(SECRET)
    to_gateway = ("--api-key-file", str(tmp_path / "gateway"), "--header", "X-Team: a", "--proxy", "http://proxy:3128")
    assert probe("--replica", "http://r:1", *to_gateway)[0] == 0
    job = jobs[0]
    assert replica_access(job.options, job.access) == Access(proxy="http://proxy:3128")
    own = ("--replica-key-file", str(tmp_path / "replicas"), "--replica-header", f"X-R: {SECRET}")
    assert probe("--replica", "http://r:1", *to_gateway, *own)[0] == 0
    job = jobs[1]
    assert replica_access(job.options, job.access).request_headers == {"Authorization": f"Bearer {SECRET}", "X-R": SECRET}
    assert job.access.api_key == "sk-GATEWAY"
    assert SECRET not in job.command + repr(job) + repr(job.options)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (("--replica", "http://u:p@r:1"), "--replica: this is no address of a replica"),
        (("--replica", "http://r:1", "--query", "up"), "--prometheus and --query belong together"),
        (("--replica-key-file", "/k"), "--replica-key-file is about the replicas behind a gateway; name them with --replica"),
        (("--replica-header", f"X: {SECRET}"), "--replica-header is about the replicas"),
    ],
)
def test_what_does_not_go_together_is_refused(jobs: list[command.Job], said: tuple[str, ...], words: str) -> None:
    code, out, err = probe(*said)
    assert (code, out, jobs) == (2, "", [])
    assert words in err
    assert SECRET not in err


async def test_no_name_means_no_discovery(jobs: list[command.Job]) -> None:
    assert probe() == (0, "", "")
    async with discovery_of(jobs[0].options, Access(), insecure=False) as replicas:
        assert replicas is None
    assert probe("--replica", "r:1") == (0, "", "")
    async with discovery_of(jobs[1].options, Access(), insecure=False) as replicas:
        assert replicas is not None
        assert (await replicas.find()).urls == ("http://r:1",)


def test_a_run_is_given_the_replicas_and_what_lets_us_in_there(session: type[FakeSession], tmp_path: Path) -> None:
    (tmp_path / "replicas").write_text(SECRET)
    code, _, _ = probe(
        "--replica", "r:1", "--replica-key-file", str(tmp_path / "replicas"), "--quiet", "--out", str(tmp_path / "x")
    )
    assert code == 0
    made = session.made[-1]
    assert made.replicas is not None
    assert made.replica_access.api_key == SECRET


async def test_checks_by_themselves_read_them_too(session: type[FakeSession], tmp_path: Path) -> None:
    """Those of the Connect screen as well, which a run then need not make again."""
    (tmp_path / "replicas").write_text(SECRET)
    request = read({"url": URL, "more": f"--replica r:1 --replica-key-file {tmp_path / 'replicas'}"}, "", {})
    preflight = PreflightRun(request)
    await preflight.run()
    assert preflight.stage == "ready", preflight.failure
    (made,) = session.made
    assert made.replicas is not None
    assert made.replica_access.api_key == SECRET


def test_a_file_of_a_key_that_is_missing_is_said_before_anything_is_sent(session: type[FakeSession]) -> None:
    code, _, err = probe("--replica", "r:1", "--replica-key-file", f"/no/{SECRET}", "--quiet")
    assert code == 2
    assert "--replica-key-file: the file cannot be read" in err
    assert SECRET not in err

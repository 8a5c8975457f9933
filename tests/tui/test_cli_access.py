"""What opens a server, and what spares it, from the command line: where it goes, and that no secret is ever shown."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from core.config import Safety
from tests.core.tls import CA, TLS
from tests.tui.cli_fakes import FakeSession
from tui.cli import probe as command
from tui.cli.commands import cli

URL = "https://gw.example"
SECRET = "h-TESTSECRET"


def probe(*options: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(cli, ["probe", URL, *options])
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.parametrize("way", ["literal", "env", "file", "equals"])
def test_a_header_reaches_the_run_and_is_written_nowhere(
    jobs: list[command.Job], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, way: str
) -> None:
    monkeypatch.setenv("GATEWAY", f" {SECRET} ")
    (tmp_path / "gateway").write_text(f"{SECRET}\n")
    value = {"env": "env:GATEWAY", "file": f"file:{tmp_path / 'gateway'}"}.get(way, SECRET)
    header = f"X-Gateway: {value}"
    options = [f"--header={header}"] if way == "equals" else ["--header", header]
    assert probe(*options, "--header", "X-Team: a", "--model", "m") == (0, "", "")
    job = jobs[0]
    assert job.access.headers == (("X-Gateway", SECRET), ("X-Team", "a"))
    assert job.command == f"kneescope probe {URL} --header '...' --header '...' --model m"
    assert SECRET not in repr(job) + repr(job.config)


@pytest.mark.parametrize(
    "header",
    [
        "",
        SECRET,
        f": {SECRET}",
        f"X Y: {SECRET}",
        "X:",
        f"X: env:{SECRET}",
        f"X: file:/{SECRET}",
        f"Content-Type: {SECRET}",
        f"X: {SECRET}é",
        f"X: {SECRET}\nY: z",
    ],
)
def test_what_is_no_header_is_refused_without_repeating_it(jobs: list[command.Job], header: str) -> None:
    code, out, err = probe("--header", header)
    assert (code, out, jobs) == (2, "", [])
    assert "--header: " in err
    assert SECRET not in err


def test_a_proxy_with_a_password_comes_from_a_variable_alone(jobs: list[command.Job], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPANY_PROXY", f"http://user:{SECRET}@proxy:3128/")
    assert probe("--proxy", "env:COMPANY_PROXY") == (0, "", "")
    assert jobs[0].access.proxy == f"http://user:{SECRET}@proxy:3128"
    assert jobs[0].config.target.proxy == "http://proxy:3128"
    assert SECRET not in repr(jobs) + repr(jobs[0].options)
    assert probe("--proxy", "proxy:3128") == (0, "", "")
    assert jobs[1].access.proxy == "http://proxy:3128"
    code, _, err = probe("--proxy", f"http://user:{SECRET}@proxy:3128")
    assert (code, len(jobs)) == (2, 2)
    assert "env:NAME" in err
    assert SECRET not in err


@pytest.mark.parametrize("proxy", ["", "socks5://p:1", "http://", "http://p:x", "env:NOT_SET_HERE", "http://a b", "env:BAD"])
def test_what_is_no_proxy(jobs: list[command.Job], monkeypatch: pytest.MonkeyPatch, proxy: str) -> None:
    monkeypatch.setenv("BAD", f"ftp://{SECRET}")
    code, _, err = probe("--proxy", proxy)
    assert (code, jobs) == (2, [])
    assert "--proxy: " in err
    assert SECRET not in err


def test_certificates(jobs: list[command.Job]) -> None:
    cert, key = str(TLS / "client.crt"), str(TLS / "client.key")
    assert probe("--ca-file", CA, "--client-cert", cert, "--client-key", key) == (0, "", "")
    access = jobs[0].access
    assert (access.ca_file, access.client_cert, access.client_key) == (CA, cert, key)
    assert not jobs[0].config.target.insecure
    assert probe("--insecure")[0] == 0
    assert jobs[1].config.target.insecure


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--ca-file", "/nowhere"], "--ca-file: the file cannot be read"),
        (["--ca-file", CA, "--insecure"], "--ca-file has no effect"),
        (["--client-key", "/nowhere"], "--client-cert"),
        (["--client-cert", CA], "--client-cert: the file cannot be used"),
        (["--max-in-flight", "0"], "--max-in-flight"),
        (["--max-duration", "10"], "--max-duration"),
        (["--max-waiting", "-1", "--with-others"], "--max-waiting"),
        (["--max-waiting", "4"], "--with-others"),
        (["--with-others", "--reset-cache"], "disturb the other users"),
        (["--with-others", "--between", "true"], "disturb the other users"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_sent(jobs: list[command.Job], options: list[str], words: str) -> None:
    code, out, err = probe(*options)
    assert (code, out, jobs) == (2, "", [])
    assert words in err


def test_safety(jobs: list[command.Job]) -> None:
    options = ("--max-rps", "9", "--max-in-flight", "500", "--max-duration", "30m", "--with-others", "--max-waiting", "0", "--yes")
    assert probe(*options)[0] == 0
    assert jobs[0].config.safety == Safety(
        max_rps=9, max_in_flight=500, max_duration_s=1800, with_others=True, max_waiting=0, public_ok=True
    )


@pytest.mark.parametrize("name", ["probe", "preflight"])
def test_a_fault_of_its_own_shows_no_secret(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str) -> None:
    def broken(*_: object, **__: object) -> FakeSession:
        raise RuntimeError(f"header {SECRET} and key sk-TESTSECRET")

    monkeypatch.setattr(command, "Session", broken)
    monkeypatch.setattr("tui.cli.commands.interrupt_on_terminate", lambda: None)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("KNEESCOPE_API_KEY", "sk-TESTSECRET")
    result = CliRunner().invoke(cli, [name, URL, "--header", f"X-A: {SECRET}"])
    assert result.exit_code == 3
    assert "header *** and key ***" in result.stderr
    assert "Traceback" in result.stderr
    assert "TESTSECRET" not in result.stderr + result.stdout

"""`kneescope watch` as a command: what it refuses, one reading with its exit code, lines and JSON, and how it ends."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from click.testing import CliRunner

from core.watch import Load, Row, Table, Watched
from tests.core.server.fakes import capture
from tui.cli.commands import cli
from tui.cli.watch import verdict

ROOT = Path(__file__).parents[2]
RUN = ROOT / "screenshots" / "demo.jsonl"
LIMIT_S = 60.0


class Replica(BaseHTTPRequestHandler):
    """A server with a recorded /metrics; keeps what it was asked."""

    asked: ClassVar[list[str]] = []
    page = capture("0.32.0-preempting")
    protocol_version = "HTTP/1.1"

    def answer(self) -> None:
        self.asked.append(f"{self.command} {self.path}")
        body = self.page.encode()
        self.send_response(200)
        self.send_header("content-type", "text/plain; version=0.0.4")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = answer  # as the library names them

    def log_message(self, format: str, *args: Any) -> None:
        """Nowhere."""


@pytest.fixture
def url() -> Iterator[str]:
    Replica.asked.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Replica)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


def watch(*args: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(cli, ["watch", *args])
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((), "No replica is named"),
        (("--prometheus", "http://p:9090"), "--prometheus and --query belong together"),
        (("http://h:1", "--query", "up"), "--prometheus and --query belong together"),
        (("http://h:1", "--max-load", "80%"), "--max-load belongs to --once"),
        (("http://h:1", "--once", "--max-load", "80"), "--max-load"),
        (("http://h:1", "http://i:1", "--metrics-url", "http://h:2/metrics"), "--metrics-url is one address"),
        (("--dns", "h"), "is not NAME:PORT"),
        (("--dns", "h:99999"), "is not NAME:PORT"),
        (("--replicas-file", "/no/such/file"), "cannot be read"),
        (("http://u:sk-TESTSECRET@h:1",), "--api-key-file"),
        (("http://h:1", "--every", "5"), "not a duration"),
        (("http://h:1", "--run", "/no/such/run"), "There is no run"),
    ],
)
def test_what_is_refused(args: tuple[str, ...], words: str) -> None:
    code, out, err = watch(*args)
    assert (code, out) == (2, "")
    assert words in err
    assert "TESTSECRET" not in err


def test_once_prints_a_table_and_asks_for_metrics_alone(url: str) -> None:
    code, out, err = watch(url, "--once", "--every", "50ms")
    assert (code, err) == (0, "")
    assert url.removeprefix("http://") in out
    assert "1 of 1 replica read" in out
    assert Replica.asked == ["GET /metrics"] * 2


def test_once_as_json_is_one_object(url: str, tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    assert watch(url, "--once", "--every", "50ms", "--json", str(file))[0] == 0
    told = json.loads(file.read_text())
    assert (told["schema"], told["kind"], told["run"], told["total"]["read"]) == (2, "watch", None, 1)
    row = told["replicas"][0]
    assert (row["url"], row["state"], row["tpot_of"], row["errors_per_s"], row["ttft_p95"]) == (url, "ok", "request", 0.0, None)
    code, out, _ = watch(url, "--once", "--every", "50ms", "--json", "-")
    assert code == 0
    assert json.loads(out)["replicas"][0].keys() == row.keys()


def test_every_key_stands_in_the_page(url: str) -> None:
    _, out, _ = watch(url, "--once", "--every", "50ms", "--run", str(RUN), "--json", "-")
    told = json.loads(out)
    page = (ROOT / "docs" / "watch.md").read_text()
    keys = [*told, *told["run"], *(f"replicas[].{key}" for key in told["replicas"][0])]
    assert [key for key in keys if not key.endswith("_fact") and f"`{key}`" not in page and key != "replicas"] == []
    assert "total" in told


def test_against_a_run_load_is_a_share_of_its_knee(url: str) -> None:
    code, out, _ = watch(url, "--once", "--every", "50ms", "--run", str(RUN), "--json", "-", "--max-load", "50%")
    assert code == 0
    told = json.loads(out)
    assert told["run"]["pass_rps"] > 0
    assert told["replicas"][0]["load"] == {"frac": 0.0, "by": "knee"}
    assert told["replicas"][0]["growth"]["state"] == "unknown"


def test_the_exit_code_says_whether_a_load_is_above(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = 'vllm:kv_cache_usage_perc{engine="0",model_name="tiny"}'
    page = "\n".join(f"{usage} 0.85" if line.startswith(usage) else line for line in Replica.page.split("\n"))
    page = page.replace('waiting{engine="0",model_name="tiny"}', 'waiting_once{engine="0",model_name="tiny"}')
    monkeypatch.setattr(Replica, "page", page)
    code, _, err = watch(url, "--once", "--every", "50ms", "--max-load", "80%")
    assert (code, err) == (1, "1 of 1 replica is above 80 %.\n")
    assert watch(url, "--once", "--every", "50ms", "--max-load", "90%")[0] == 0


def test_nobody_to_read_is_no_answer() -> None:
    code, out, err = watch("http://127.0.0.1:9", "--once", "--every", "10ms", "--max-load", "80%")
    assert code == 3
    assert "not read for" in out
    assert err == "The replica could not be read.\n"


def test_a_replica_that_could_not_be_read_is_told_of_beside_others(url: str) -> None:
    code, _, err = watch(url, "http://127.0.0.1:9", "--once", "--every", "10ms", "--run", str(RUN), "--max-load", "80%")
    assert (code, err) == (0, "1 of 2 replicas could not be read.\n")


def test_a_source_without_replicas_is_no_answer() -> None:
    code, out, err = watch("--prometheus", "http://127.0.0.1:9", "--query", "up")
    assert (code, out) == (3, "")
    assert "No replica was found. --prometheus http://127.0.0.1:9: it cannot be reached" in err


def test_a_load_that_nobody_tells_is_not_below() -> None:
    empty = Watched().table(0.0)

    def table(*loads: Load | None) -> Table:
        rows = tuple(Row(url=str(n), state="ok", since_s=0.0, load=load) for n, load in enumerate(loads))
        return replace(empty, rows=rows, total=replace(empty.total, replicas=len(rows), read=len(rows)))

    assert verdict(table(None), 0.8) == 3
    assert verdict(table(None), None) == 0
    assert verdict(table(None, Load(0.8, "kv")), 0.8) == 0
    assert verdict(table(None, Load(0.81, "kv")), 0.8) == 1
    assert verdict(table(Load(1.0, "waiting")), 1.0) == 1


def started(*args: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tui", "watch", *args]
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(
        command, cwd=ROOT, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_with_0_after_json_lines(url: str, number: signal.Signals) -> None:
    with started(url, "--every", "100ms", "--json", "-") as process:
        assert process.stdout is not None
        lines = [json.loads(process.stdout.readline())]
        while lines[-1]["replicas"][0]["finished_rps"] is None:  # until it has been read twice
            lines.append(json.loads(process.stdout.readline()))
        process.send_signal(number)
        out, err = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, err) == (0, "")
    assert {line["kind"] for line in [*lines, *map(json.loads, out.splitlines())]} == {"watch"}
    assert lines[-1]["replicas"][0]["finished_rps"] == 0.0
    assert set(Replica.asked) == {"GET /metrics"}


def test_without_a_terminal_the_table_is_printed_at_each_reading(url: str, tmp_path: Path) -> None:
    file = tmp_path / "lines.jsonl"
    with started(url, "--every", "100ms", "--json", str(file)) as process:
        assert process.stdout is not None
        heads = 0
        while heads < 2:
            heads += "replica" in process.stdout.readline()
        process.stdout.close()  # nobody reads on, as of `| head`
        process.wait(LIMIT_S)
        assert process.stderr is not None
        assert (process.returncode, process.stderr.read()) == (0, "")
    assert all(json.loads(line)["kind"] == "watch" for line in file.read_text().splitlines())

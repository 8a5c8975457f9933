"""`kneescope fleet` and `kneescope report --format`: figures in, a fleet or a sentence out; nothing is sent to anybody."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from core import RESULT_SCHEMA
from core.config import FleetAsk
from tui.again import Left
from tui.cli import fleet as command
from tui.cli.commands import cli
from tui.terminal import display

DEMO = str(Path(__file__).parents[2] / "screenshots/demo.jsonl")
"""A recorded demo run: 17.5 requests/s held, 24.7 failed in the ramp; asked for a peak of 100."""


def kneescope(*args: str) -> Result:
    return CliRunner().invoke(cli, args)


def data_of(*args: str, code: int = 0) -> dict[str, Any]:
    result = kneescope("fleet", *args, "--json", "-")
    assert result.exit_code == code, result.stderr
    data: dict[str, Any] = json.loads(result.stdout)
    return data


def text_of(*args: str, code: int = 0) -> str:
    result = kneescope("fleet", *args)
    assert (result.exit_code, result.stderr) == (code, "")
    assert max(len(line) for line in result.stdout.splitlines()) <= 100
    return " ".join(result.stdout.split())


def test_the_worked_example() -> None:
    args = ("--peak-rps", "50", "--replica-rps", "7.8125", "--headroom", "0.7", "--tp", "1")
    data = data_of(*args)
    assert (data["replicas"], data["gpus"], data["gpus_per_endpoint"]) == (10, 10, 1)
    assert data["at_pass"]["load_frac"] == pytest.approx(0.64)
    assert "7.81 requests/s (holds) 10 10 5.00 requests/s, 64 %" in text_of(*args)


def test_a_rate_from_output_tokens_and_half_as_long_answers_half_the_fleet() -> None:
    whole = data_of("--peak-rps", "50", "--output-tps", "2000", "--output-tokens", "256")
    half = data_of("--peak-rps", "50", "--output-tps", "2000", "--output-tokens", "128")
    assert (whole["knee"]["pass_rps"], whole["replicas"]) == (7.8125, 10)
    assert (half["knee"]["pass_rps"], half["replicas"]) == (15.625, 5)
    said = text_of("--peak-rps", "50", "--output-tps", "2000", "--output-tokens", "256")
    assert said.startswith("Fleet for a peak of 50.0 requests/s")
    assert "One replica: 2,000 output tokens/s / 256 tokens an answer = 7.81 requests/s." in said


def test_an_interval_in_an_interval_out() -> None:
    data = data_of("--peak-rps", "50", "--replica-rps", "11.3", "--replica-fails-rps", "13.6", "--tp", "2")
    assert [(data[end]["replicas"], data[end]["gpus"]) for end in ("at_pass", "at_fail")] == [(7, 14), (6, 12)]


def test_the_p90_of_a_mean_length_is_given_beside_it() -> None:
    data = data_of("--peak-rps", "50", "--output-tps", "2000", "--output-tokens", "256", "--output-p90", "512")
    assert (data["at_p90_output"]["replica_rps"], data["at_p90_output"]["replicas"]) == (3.90625, 19)
    mixed = data_of("--peak-rps", "50", "--replica-rps", "8", "--output-tokens", "lognormal:180,0.7,1024")
    assert mixed["at_p90_output"]["replicas"] > mixed["replicas"]


@pytest.mark.parametrize(
    ("weights_gb", "limit", "floor_ms", "code"),
    [("15.2", "50ms", 21.5, 0), ("15.2", "15ms", 21.5, 3), ("5.5", "50ms", 7.8, 0), ("5.5", "15ms", 7.8, 0)],
)
def test_two_weights_at_two_limits(weights_gb: str, limit: str, floor_ms: float, code: int) -> None:
    args = ("--weights-gb", weights_gb, "--gpu-bandwidth", "1008", "--eta", "0.7", "--tpot", limit)
    data = data_of(*args, code=code)
    assert round(1000 * data["speed"]["floor_s"], 1) == floor_ms
    assert (data["refused"], data["speed"]["feasible"]) == (code == 3, code == 0)
    assert ("What would help" in text_of(*args, code=code)) is (code == 3)


def test_no_fleet_is_sized_for_a_limit_that_no_fleet_meets() -> None:
    args = ("--peak-rps", "50", "--replica-rps", "8", "--weights-gb", "15.2", "--gpu", "4090", "--tpot", "15ms")
    data = data_of(*args, code=3)
    assert (data["replicas"], data["at_pass"], data["peak_rps"]) == (None, None, None)
    assert "No fleet size: no number of replicas can meet that TPOT limit." in text_of(*args, code=3)
    assert data_of(*args, "--tp", "2")["gpus"] == 18


def test_the_memory_gate_from_figures() -> None:
    args = ("--peak-rps", "50", "--replica-rps", "10", "--input-tokens", "512", "--output-tokens", "128", "--kv-tokens", "64000")
    assert (data_of(*args)["memory"]["fits_mean"], data_of(*args)["binds"]) == (100, None)
    for e2e, binds in (("4s", "speed"), ("12s", "memory")):
        assert data_of(*args, "--mean-e2e", e2e)["binds"] == binds


def test_marks_and_cost() -> None:
    args = ("--peak-rps", "50", "--replica-rps", "11.3", "--growth", "10%", "--scale-out", "4m", "--rollout", "1")
    data = data_of(*args, "--cost", "2.5", "--mean-rps", "20", "--burstiness", "0.25", "--mean-e2e", "6s")
    assert {mark["name"]: mark["replicas"] for mark in data["marks"]} == {
        "peak": 5, "lost": 6, "rollout": 6, "growth": 7, "burstiness": 6,
    }  # fmt: skip
    assert [mark["name"] for mark in data["marks"] if mark["binds"]] == ["growth"]
    assert (data["cost"]["per_hour"], data["cost"]["saved_per_hour"]) == (17.5, 10.0)


def test_what_one_request_weighs() -> None:
    said = text_of("--input-tokens", "2048", "--output-tokens", "128", "--peak-rps", "9", "--replica-rps", "2")
    assert "2,098,176 in the prefill, 268,224 while decoding" in said


def test_a_recorded_run_and_what_is_changed_of_it() -> None:
    as_it_was = data_of("--run", DEMO)
    assert (as_it_was["peak_rps"], as_it_was["replicas"], as_it_was["run_log"]) == (100, 9, DEMO)
    assert as_it_was["binds"] == "memory"
    assert as_it_was["marks"][0]["why"].endswith("the measured floor is 99.1 %")
    changed = data_of("--run", DEMO, "--peak-rps", "50", "--headroom", "0.5", "--tp", "4")
    assert (changed["replicas"], changed["gpus"]) == (6, 24)
    own = data_of("--run", DEMO, "--replica-rps", "20")  # nothing was measured there
    assert (own["knee"], own["at_pass"]["floor"], own["binds"]) == ({"pass_rps": 20, "fail_rps": None}, None, None)
    paper = data_of("--run", DEMO, "--weights-gb", "15.2", "--gpu", "4090")["speed"]
    assert paper["limit_s"] == 0.05
    assert paper["measured_s"] == pytest.approx(0.0149, abs=0.002)
    assert paper["eta_reached"] > 0.7
    assert "guessed too low" in paper["contradiction"] or "not as entered" in paper["contradiction"]


def test_the_json_goes_to_a_file_beside_the_text(tmp_path: Path) -> None:
    path = tmp_path / "fleet.json"
    assert "Fleet for a peak" in text_of("--peak-rps", "50", "--replica-rps", "8", "--json", str(path))
    assert json.loads(path.read_text())["schema"] == RESULT_SCHEMA


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((), "give --peak-rps"),
        (("--replica-rps", "8"), "give --peak-rps"),
        (("--peak-rps", "50"), "--replica-rps (or --output-tps"),
        (("--peak-rps", "50", "--output-tps", "2000"), "--output-tps needs --output-tokens"),
        (("--peak-rps", "50", "--output-tps", "2000", "--output-tokens", "9", "--replica-rps", "8"), "give one of them"),
        (("--peak-rps", "50", "--replica-rps", "8", "--replica-fails-rps", "8"), "--replica-fails-rps is the upper end"),
        (("--peak-rps", "50", "--replica-fails-rps", "8"), "--replica-fails-rps is the upper end"),
        (("--input-tokens", "9"), "--input-tokens needs --output-tokens"),
        (("--output-p90", "9"), "--output-p90 needs --output-tokens"),
        (("--output-tokens", "99", "--output-p90", "9"), "--output-p90 needs --output-tokens"),
        (("--mean-e2e", "4s"), "give that rate too"),
        (("--peak-rps", "50", "--mean-rps", "51"), "--mean-rps 51 is above"),
        (("--peak-rps", "fast"), "--peak-rps"),
        (("--gpu", "H100"), "could be one of several"),
        (("--run", "nosuch.jsonl"), "nosuch.jsonl"),
        (("extra",), "extra"),
    ],
)
def test_what_makes_no_fleet_is_a_sentence(args: tuple[str, ...], words: str) -> None:
    result = kneescope("fleet", *args)
    assert (result.exit_code, result.stdout) == (2, "")
    assert words in result.stderr
    assert "Traceback" not in result.stderr


def test_a_refused_call_leaves_no_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "fleet.json"
    assert kneescope("fleet", "--json", str(path)).exit_code == 2
    assert not path.exists()


def test_help_has_the_examples_and_headings() -> None:
    said = kneescope("fleet", "--help").stdout
    assert "kneescope fleet --peak-rps 50 --replica-rps 7.8125 --load-at-peak 70% --tp 1\n" in said
    for heading in ("One replica:", "Fleet:", "Hardware on paper:", "Output:"):
        assert f"\n{heading}\n" in said


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ("keda", ['threshold: "12.22"', "maxReplicaCount: 9"]),  # 0.7 of 17.46; the fleet for its peak
        ("hpa", ['averageValue: "12221m"', "maxReplicas: 9"]),
        ("rules", ["> 17.45", "> 12.22"]),
    ],
)
def test_a_run_gives_what_autoscalers_need(form: str, words: list[str]) -> None:
    result = kneescope("report", DEMO, "--format", form)
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0].startswith(f"# From the kneescope run {DEMO} of ")
    assert "held 17.5 requests/s, failed at 24.7 requests/s" in lines[1]
    assert "# This was a simulated replica" in result.stdout
    assert all(each in result.stdout for each in words)


def test_a_scaler_and_json_do_not_share_stdout(tmp_path: Path) -> None:
    result = kneescope("report", DEMO, "--format", "keda", "--json", "-")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "both write to stdout" in result.stderr
    path = tmp_path / "r.json"
    assert kneescope("report", DEMO, "--format", "keda", "--json", str(path)).stdout.startswith("# From")
    assert json.loads(path.read_text())["outcome"] == "bracket"
    assert kneescope("report", DEMO, "--format", "xml").exit_code == 2


def test_a_run_in_which_nothing_held_scales_nothing(tmp_path: Path) -> None:
    path = tmp_path / "torn.jsonl"
    path.write_bytes(b"".join(Path(DEMO).read_bytes().splitlines(keepends=True)[:5]))
    result = kneescope("report", str(path), "--format", "keda")
    assert (result.exit_code, result.stdout) == (3, "")
    assert "No rate was seen to hold" in result.stderr
    assert kneescope("fleet", "--run", str(path), "--peak-rps", "9").exit_code == 3


def test_a_run_without_a_peak_says_which_option_is_missing() -> None:
    result = kneescope("fleet", "--run", "tests/data/pictures/kvlim-inverted.jsonl")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Give --peak-rps for tests/data/pictures/kvlim-inverted.jsonl" in result.stderr


def test_a_run_begins_with_the_fleet() -> None:
    assert text_of("--run", DEMO).startswith("Fleet for a peak of 100 requests/s, load at peak 70 % of what holds (30 % spare)")


class Seen:
    """A fleet screen that is left with this ask."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, left: FleetAsk | None) -> None:
        self.asks: list[FleetAsk | None] = []
        self.on: list[str] = []

        async def show(*_: object, ask: FleetAsk | None, on: str, **__: object) -> Left:
            self.asks.append(ask)
            self.on.append(on)
            return Left(ask=left)

        monkeypatch.setattr(display, "show", show)
        monkeypatch.setattr(command, "_has_screen", lambda options: not options["headless"])


def test_at_a_terminal_a_run_opens_on_its_fleet_screen_where_the_peak_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run = shutil.copy("tests/data/pictures/kvlim-inverted.jsonl", tmp_path / "run.jsonl")
    seen = Seen(monkeypatch, FleetAsk(peak_rps=50.0))
    assert kneescope("fleet", "--run", str(run)).stdout.startswith("Fleet for a peak of 50.0 requests/s")
    assert ([ask and ask.peak_rps for ask in seen.asks], seen.on) == ([None], ["fleet"])
    assert data_of("--run", str(run), "--headless")["peak_rps"] == 50, "it was kept beside the run"


def test_left_without_a_peak_there_is_nothing_to_print(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run = shutil.copy("tests/data/pictures/kvlim-inverted.jsonl", tmp_path / "run.jsonl")
    Seen(monkeypatch, FleetAsk())
    result = kneescope("fleet", "--run", str(run))
    assert (result.exit_code, result.stdout) == (0, "")

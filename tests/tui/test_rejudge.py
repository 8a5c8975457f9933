"""`kneescope rejudge`: limits read as probe reads them, text and JSON of one answer, and the exit code."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tui.cli.commands import cli

DEMO = str(Path(__file__).parents[2] / "screenshots/demo.jsonl")
HOLD = str(Path(__file__).parents[1] / "data/runs/vllm-0.32.0-hold.jsonl")


def rejudge(*args: str) -> Result:
    return CliRunner().invoke(cli, ("rejudge", *args))


def test_json_has_both_limits_each_rate_and_what_is_undecided() -> None:
    result = rejudge(DEMO, "--ttft", "3s", "--tpot", "none", "--json", "-")
    assert result.exit_code == 0, result.stderr
    data = json.loads(result.stdout)
    assert (data["kind"], data["outcome"], data["undecided_rps"]) == ("rejudge", "at_least", [])
    assert (data["slo_then"]["ttft_s"], data["slo"]["ttft_s"], data["slo"]["tpot_s"]) == (0.8, 3.0, None)
    assert (data["knee_then"]["fail_rps"] is None, data["knee"]["fail_rps"]) == (False, None)
    assert [(rate["phase"], rate["then"]["verdict"], rate["now"]["verdict"]) for rate in data["rates"]] == [
        ("ramp", "fail", "undecided"),
        ("search", "pass", "pass"),
    ]
    assert data["rates"][0]["now"]["reason_fact"]["code"] == "again_ramp_undecided"
    assert data["message_fact"]["code"] == "again_bracket"


def test_text_has_a_row_for_each_rate_then_and_now() -> None:
    lines = rejudge(DEMO, "--target", "99.9%").stdout.splitlines()
    assert lines[0].endswith("95 % of requests")
    assert lines[1].endswith("99.9 % of requests")
    row = next(line.split() for line in lines if line.startswith("  17.5"))
    assert row[2:5] == ["search", "pass", "fail"]


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        ((HOLD, "--ttft", "100ms"), 3, ""),  # its client was later than such a limit allows
        ((HOLD,), 0, ""),
        ((DEMO, "--ttft", "500"), 2, "--ttft"),
        ((DEMO, "--ttft", "none", "--tpot", "none"), 2, "no limit"),
        ((DEMO, "--target", "0"), 2, "--target"),
        ((DEMO, "--max-error-rate", "100%"), 2, "--max-error-rate"),
        ((__file__,), 2, "not a run file"),
        (("nowhere",), 2, "There is no run"),
    ],
)
def test_exit_codes(args: tuple[str, ...], code: int, said: str) -> None:
    result = rejudge(*args)
    assert result.exit_code == code, result.stderr
    assert said in result.stderr
    assert (result.stdout == "") == (code == 2)

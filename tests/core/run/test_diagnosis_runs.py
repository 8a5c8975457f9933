"""Replicas whose binding cause is known, probed whole in virtual time: the cause that was built in is the one that is named."""

from pathlib import Path

import pytest

from core import report
from core.config import Method
from core.replica.catalog import load
from core.results import Answer
from tests.core.run.bench import final_view
from tests.core.run.simulated import probe_in_virtual_time

REPLICAS = Path(__file__).resolve().parents[2] / "data/replicas"


def probed(name: str, path: Path, rates_rps: tuple[float, float], *, late_s: float = 0.0, metrics: bool = True) -> Answer:
    method = Method(rates_rps=rates_rps, measure_s=15.0)
    return probe_in_virtual_time(load(str(REPLICAS / f"{name}.json")), path, method=method, late_s=late_s, metrics=metrics)


@pytest.mark.parametrize(
    ("name", "rates_rps", "setting"),
    [
        ("slots", (4.0, 12.0), "--max-num-seqs"),
        ("kv", (5.0, 14.0), "--gpu-memory-utilization"),
        ("prefill", (1.5, 5.0), "--max-num-batched-tokens"),
        ("decode", (2.0, 7.0), "--max-num-seqs"),
    ],
)
def test_the_cause_that_was_built_in_is_named(name: str, rates_rps: tuple[float, float], setting: str, tmp_path: Path) -> None:
    answer = probed(name, tmp_path / "run.jsonl", rates_rps)
    found = answer.diagnosis
    assert answer.outcome == "bracket"
    assert found is not None
    assert (found.cause, found.also, found.sure, found.setting) == (name, None, True, setting)
    assert found.at_rps == rates_rps[1]


def test_a_late_client_is_named_where_a_run_is_void(tmp_path: Path) -> None:
    answer = probed("slots", tmp_path / "run.jsonl", (4.0, 12.0), late_s=0.3)
    assert answer.outcome == "void"
    assert answer.diagnosis is not None
    assert (answer.diagnosis.cause, answer.diagnosis.sure) == ("client", True)


def test_a_known_prefix_is_named_where_a_run_is_void(tmp_path: Path) -> None:
    answer = probed("prefix", tmp_path / "run.jsonl", (4.0, 12.0))
    assert answer.outcome == "void"
    assert answer.diagnosis is not None
    assert (answer.diagnosis.cause, answer.diagnosis.sure) == ("prefix", True)


def test_without_metrics_nothing_is_claimed_about_the_server(tmp_path: Path) -> None:
    found = probed("slots", tmp_path / "run.jsonl", (4.0, 12.0), metrics=False).diagnosis
    assert found is not None
    assert (found.cause, found.sure) == ("unknown", False)


def test_it_is_in_the_run_file_the_text_and_the_result(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    answer = probed("slots", path, (4.0, 12.0))
    view = final_view(path)
    assert view.answer == answer
    text = report.to_text(view, None)
    assert "  WHY   waiting requests" in text
    assert "-> At 12.0 requests/s the number of sequences binds, not memory" in text
    assert "  NOT   the client: late p99" in text
    assert max(map(len, text.splitlines())) <= report.WIDTH
    diagnosis = report.result(view, None)["diagnosis"]
    assert (diagnosis["cause"], diagnosis["at_rps"]) == ("slots", 12.0)
    assert [step["place"] for step in diagnosis["steps"]] == ["client", "workload", "queue", "stages", "resources"]
    assert diagnosis["steps"][4]["figures"]["plateau"] == 8

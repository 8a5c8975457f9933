"""Snippets for autoscalers and alerts: their numbers, and that they are what YAML and PromQL can read."""

import json
import re

import pytest

from core.report.scalers import Form, Scaling, snippet, waiting_target

FORMS: tuple[Form, ...] = ("keda", "hpa", "rules")


def scaling(model: str | None = "Qwen/Qwen2.5-7B", **changes: object) -> Scaling:
    facts: dict[str, object] = {"source": ("From a run.",), "safe_rps": 11.3137085, "target_rps": 7.91959595, "headroom": 0.7}
    return Scaling(model=model, waiting=4, **{**facts, **changes})  # type: ignore[arg-type]


def quoted(text: str, key: str) -> list[str]:
    """The double-quoted values of a key, unquoted as YAML does it."""
    return [json.loads(found) for found in re.findall(rf"^ *(?:- )?{key}: (\".*\")$", text, re.M)]


def test_keda_scales_by_the_rate_and_by_what_waits() -> None:
    text = snippet("keda", scaling(most=9, least=3))
    assert "kind: ScaledObject" in text
    assert "  name: qwen-qwen2-5-7b-kneescope\n" in text
    assert ("minReplicaCount: 3" in text, "maxReplicaCount: 9" in text) == (True, True)
    assert quoted(text, "query") == [
        'sum(rate(vllm:request_success_total{model_name="Qwen/Qwen2.5-7B"}[1m]))',
        'sum(vllm:num_requests_waiting{model_name="Qwen/Qwen2.5-7B"})',
    ]
    assert quoted(text, "threshold") == ["7.919", "4"]  # cut off, so that the target is not passed
    assert text.count("metricType: AverageValue") == 2


def test_hpa_needs_an_adapter_and_says_which_queries() -> None:
    text = snippet("hpa", scaling(most=9))
    assert "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler" in text
    assert quoted(text, "averageValue") == ["7919m", "4"]
    assert '#   vllm_requests_per_second: sum(rate(vllm:request_success_total{model_name="Qwen/Qwen2.5-7B"}[1m])) by (pod)' in text
    assert "maxReplicas: 9" in text


def test_rules_alert_above_the_safe_rate() -> None:
    text = snippet("rules", scaling())
    assert re.findall(r"alert: (\w+)", text) == ["ReplicaAboveSafeRate", "ReplicaAboveTargetRate", "ReplicaQueueGrows"]
    finished = 'sum by (instance) (rate(vllm:request_success_total{model_name="Qwen/Qwen2.5-7B"}[2m]))'
    assert quoted(text, "expr") == [
        f"{finished} > 11.31",
        f"{finished} > 7.919",
        'sum by (instance) (vllm:num_requests_waiting{model_name="Qwen/Qwen2.5-7B"}) > 4',
    ]
    assert all("{{ $labels.instance }}" in summary and "{{ $value | humanize }}" in summary for summary in quoted(text, "summary"))


@pytest.mark.parametrize("form", FORMS)
def test_where_it_comes_from_stands_in_comments_at_the_top(form: Form) -> None:
    source = ("From the run a.jsonl: model\nkind: Evil", "TTFT at most 800 ms")
    lines = snippet(form, scaling(source=source)).splitlines()
    assert lines[:2] == ["# From the run a.jsonl: model kind: Evil", "# TTFT at most 800 ms"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("model", ['a"b\\c', "line\nbreak: x", "modèle 七", "///", "", "x" * 300])
def test_any_model_name_stays_inside_its_quotes(form: Form, model: str) -> None:
    text = snippet(form, scaling(model))
    names = re.findall(r"^ *(?:- )?name: ([^ \n]+)", text, re.M)
    assert re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", names[0])
    assert len(names[0]) <= 63
    for line in text.splitlines():
        assert re.fullmatch(r"#.*| *(- )?[A-Za-z]+:( .*)?", line), line
    for query in (*quoted(text, "query"), *quoted(text, "expr")):
        label = re.search(r"model_name=(\"(?:[^\"\\]|\\.)*\")", query)
        assert label is not None
        assert json.loads(label[1]) == "".join(char if char.isprintable() else " " for char in model)


def test_without_a_model_every_one_counts_and_without_a_peak_the_most_is_yours() -> None:
    text = snippet("keda", scaling(None))
    assert quoted(text, "query")[1] == "sum(vllm:num_requests_waiting)"
    assert "No peak was given" in text
    assert "name: vllm-kneescope" in text


@pytest.mark.parametrize(
    ("safe_rps", "ttft_s", "seen", "target"),
    [
        (11.3, 0.8, 5.0, 5),
        (11.3, 0.8, 40.0, 9),
        (11.3, None, 40.0, 40),
        (11.3, 0.8, 0.0, 4),
        (11.3, 0.8, None, 4),
        (0.1, 0.8, None, 1),
        (11.3, None, None, 1),
    ],
)
def test_as_many_may_wait_as_did_or_as_the_limit_allows(
    safe_rps: float, ttft_s: float | None, seen: float | None, target: int
) -> None:
    assert waiting_target(safe_rps, ttft_s, seen) == target


@pytest.mark.parametrize(
    ("target_rps", "shown"), [(0.012345, "0.01234"), (1.0, "1"), (9.9999, "9.999"), (123.456, "123.4"), (45678.9, "45670")]
)
def test_numbers_are_cut_off_after_four_digits(target_rps: float, shown: str) -> None:
    assert quoted(snippet("keda", scaling(target_rps=target_rps)), "threshold")[0] == shown

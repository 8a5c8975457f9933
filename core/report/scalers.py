"""What autoscalers and alerts need of a knee, as YAML to start from: KEDA, HorizontalPodAutoscaler, Prometheus rules. Pure.

vLLM counts no arrivals, so the rate is that of finished requests; it cannot rise above what a replica serves, which is why
the number of waiting requests always stands beside it.
"""

import json
import math
import re
from typing import Literal

import msgspec

from core import prose
from core.units import plain, rate_text

Form = Literal["keda", "hpa", "rules"]

_MODEL_LABEL = "model_name"
_NO_PEAK_REPLICAS = 10
_NAME_CHARS = 40


class Scaling(msgspec.Struct, frozen=True, kw_only=True):
    """What a snippet says. `source` are its comment lines: the run, the knee, the limits. `target_rps` is the safe rate times the
    load at peak (`headroom`), `waiting` how many requests may wait at one replica; `least` and `most` replicas, None: not known."""

    source: tuple[str, ...]
    model: str | None
    safe_rps: float
    target_rps: float
    headroom: float
    waiting: int
    least: int = 1
    most: int | None = None


def waiting_target(safe_rps: float, ttft_limit_s: float | None, waiting_seen: float | None) -> int:
    """How many requests may wait at a replica: as many as did while the rate held, which its denser warm-up may have raised, so at
    most those that the TTFT limit serves at the safe rate (Little's law); else half of these, else one; at least 1."""
    served = None if ttft_limit_s is None else safe_rps * ttft_limit_s
    if waiting_seen is not None and waiting_seen >= 1:
        return int(waiting_seen) if served is None else max(1, math.floor(min(waiting_seen, served)))
    return 1 if served is None else max(1, math.floor(served / 2))


def snippet(form: Form, scaling: Scaling) -> str:
    """The YAML of one form, with where its numbers come from in a comment."""
    body = {"keda": _keda, "hpa": _hpa, "rules": _rules}[form](scaling)
    head = [*scaling.source, *(["For each replica, which is one scrape target."] if form == "rules" else _targets(scaling))]
    return "\n".join([*(f"# {_printable(line)}" for line in head), *body]) + "\n"


def _targets(scaling: Scaling) -> list[str]:
    return [
        f"Target per replica: {rate_text(scaling.target_rps)}, {prose.load_brief(scaling.headroom)} of the "
        f"{rate_text(scaling.safe_rps)} that hold; and {scaling.waiting} waiting.",
        "The rate is of finished requests and cannot rise above what is served; the waiting ones show what is beyond that.",
        *([] if scaling.most is not None else ["No peak was given: set the highest number of replicas yourself."]),
    ]


def _keda(scaling: Scaling) -> list[str]:
    rate, waiting = f"sum({_finished(scaling, '1m')})", f"sum({_waiting(scaling)})"
    return [
        "apiVersion: keda.sh/v1alpha1",
        "kind: ScaledObject",
        "metadata:",
        f"  name: {_name(scaling)}",
        "spec:",
        "  scaleTargetRef:",
        "    name: vllm  # your Deployment",
        f"  minReplicaCount: {scaling.least}",
        f"  maxReplicaCount: {scaling.most or _NO_PEAK_REPLICAS}",
        "  triggers:",
        *_trigger(rate, _number(scaling.target_rps)),
        *_trigger(waiting, str(scaling.waiting)),
    ]


def _trigger(query: str, threshold: str) -> list[str]:
    return [
        "    - type: prometheus",
        "      metricType: AverageValue  # the query's value divided by the replicas",
        "      metadata:",
        "        serverAddress: http://prometheus.monitoring:9090  # yours",
        f"        query: {json.dumps(query)}",
        f"        threshold: {json.dumps(threshold)}",
    ]


def _hpa(scaling: Scaling) -> list[str]:
    rate, waiting = f"sum({_finished(scaling, '1m')}) by (pod)", f"sum({_waiting(scaling)}) by (pod)"
    return [
        "# prometheus-adapter must serve the two metrics of a pod:",
        f"#   vllm_requests_per_second: {rate}",
        f"#   vllm_requests_waiting:    {waiting}",
        "apiVersion: autoscaling/v2",
        "kind: HorizontalPodAutoscaler",
        "metadata:",
        f"  name: {_name(scaling)}",
        "spec:",
        "  scaleTargetRef:",
        "    apiVersion: apps/v1",
        "    kind: Deployment",
        "    name: vllm  # yours",
        f"  minReplicas: {scaling.least}",
        f"  maxReplicas: {scaling.most or _NO_PEAK_REPLICAS}",
        "  metrics:",
        *_pod_metric("vllm_requests_per_second", f"{max(1, math.floor(1000 * scaling.target_rps))}m"),
        *_pod_metric("vllm_requests_waiting", str(scaling.waiting)),
    ]


def _pod_metric(name: str, value: str) -> list[str]:
    return [
        "    - type: Pods",
        "      pods:",
        "        metric:",
        f"          name: {name}",
        "        target:",
        "          type: AverageValue",
        f"          averageValue: {json.dumps(value)}",
    ]


def _rules(scaling: Scaling) -> list[str]:
    rate, waiting = f"sum by (instance) ({_finished(scaling, '2m')})", f"sum by (instance) ({_waiting(scaling)})"
    safe, target, spare = rate_text(scaling.safe_rps), rate_text(scaling.target_rps), plain(1 - scaling.headroom)
    who, value = "{{ $labels.instance }}", "{{ $value | humanize }}"
    return [
        "groups:",
        f"  - name: {_name(scaling)}",
        "    rules:",
        *_alert(
            "ReplicaAboveSafeRate",
            f"{rate} > {_number(scaling.safe_rps)}",
            "2m",
            "critical",
            f"{who} serves {value} requests/s; above {safe} it is not known to meet its limits.",
        ),
        *_alert(
            "ReplicaAboveTargetRate",
            f"{rate} > {_number(scaling.target_rps)}",
            "10m",
            "warning",
            f"{who} serves {value} requests/s, more than {target}, which leaves {spare} spare for a burst or a lost replica.",
        ),
        *_alert(
            "ReplicaQueueGrows",
            f"{waiting} > {scaling.waiting}",
            "1m",
            "critical",
            f"{value} requests wait at {who}, more than the {scaling.waiting} that go with the limits.",
        ),
    ]


def _alert(name: str, expr: str, lasting: str, severity: str, summary: str) -> list[str]:
    return [
        f"      - alert: {name}",
        f"        expr: {json.dumps(expr)}",
        f"        for: {lasting}",
        "        labels:",
        f"          severity: {severity}",
        "        annotations:",
        f"          summary: {json.dumps(summary)}",
    ]


def _finished(scaling: Scaling, window: str) -> str:
    return f"rate(vllm:request_success_total{_selector(scaling)}[{window}])"


def _waiting(scaling: Scaling) -> str:
    return f"vllm:num_requests_waiting{_selector(scaling)}"


def _selector(scaling: Scaling) -> str:
    """PromQL quotes label values as Go does, which JSON is a part of."""
    return "" if scaling.model is None else f"{{{_MODEL_LABEL}={json.dumps(_printable(scaling.model), ensure_ascii=False)}}}"


def _name(scaling: Scaling) -> str:
    """A name that Kubernetes takes: lower case letters, digits and hyphens."""
    plain = re.sub(r"[^a-z0-9]+", "-", (scaling.model or "vllm").lower()).strip("-")[:_NAME_CHARS].strip("-")
    return f"{plain or 'vllm'}-kneescope"


def _number(value: float) -> str:
    """Four significant digits, cut off: a bound is never made larger."""
    digits = 3 - math.floor(math.log10(value))
    return f"{math.floor(value * 10.0**digits + 1e-9) / 10.0**digits:.12g}"


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text)

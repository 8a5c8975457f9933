"""Which names vLLM gave its metrics over the versions, and what a version can do; data only.

Read from the sources of the releases 0.6.0 to 0.33.0 (`v1/metrics/loggers.py`, before that `engine/metrics.py`).
"""

import re
from dataclasses import dataclass
from typing import Literal

Kind = Literal["gauge", "counter", "histogram"]


@dataclass(frozen=True, slots=True)
class MetricNames:
    """One quantity: its names, newest first, of which the first that is exposed counts. Counters stand without `_total`.

    Rows of several engines are summed; only the KV usage, a fraction, is not (`core.server.exposition`).
    """

    kind: Kind
    names: tuple[str, ...]


SAMPLE_METRICS: dict[str, MetricNames] = {
    "running": MetricNames("gauge", ("vllm:num_requests_running",)),
    "waiting": MetricNames("gauge", ("vllm:num_requests_waiting",)),
    "preemptions_total": MetricNames("counter", ("vllm:num_preemptions",)),
    "prompt_tokens_total": MetricNames("counter", ("vllm:prompt_tokens",)),
    "generation_tokens_total": MetricNames("counter", ("vllm:generation_tokens",)),
    "requests_success_total": MetricNames("counter", ("vllm:request_success",)),
    # in tokens; the old names counted blocks before 0.9
    "prefix_queries_total": MetricNames("counter", ("vllm:prefix_cache_queries", "vllm:gpu_prefix_cache_queries")),
    "prefix_hits_total": MetricNames("counter", ("vllm:prefix_cache_hits", "vllm:gpu_prefix_cache_hits")),
    "ttft_s": MetricNames("histogram", ("vllm:time_to_first_token_seconds",)),
    "queue_time_s": MetricNames("histogram", ("vllm:request_queue_time_seconds", "vllm:time_in_queue_requests")),
    "prefill_time_s": MetricNames("histogram", ("vllm:request_prefill_time_seconds",)),
    "decode_time_s": MetricNames("histogram", ("vllm:request_decode_time_seconds",)),
}
"""Field of `ServerSample` -> names."""

KV_USAGE = MetricNames("gauge", ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"))
"""A fraction in spite of its name: mean over engines for load, maximum for saturation, never a sum."""

CACHE_CONFIG = "vllm:cache_config_info"
PROCESS_START = "process_start_time_seconds"

NULL_LABELS = ("", "None")
"""How a label of `vllm:cache_config_info` says that it has no value."""

Feature = Literal[
    "unknown_fields_rejected",
    "cache_salt_chat",
    "cache_salt_completions",
    "prefix_counters_in_tokens",
    "max_tokens_clamped",
    "system_fingerprint",
]

_SINCE: dict[Feature, tuple[int, int, int]] = {
    "cache_salt_chat": (0, 9, 0),
    "cache_salt_completions": (0, 10, 0),
    "prefix_counters_in_tokens": (0, 9, 0),
    "max_tokens_clamped": (0, 32, 0),
    "system_fingerprint": (0, 21, 0),
}
_UNTIL: dict[Feature, tuple[int, int, int]] = {"unknown_fields_rejected": (0, 6, 4)}

_VERSION = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?")


def has_feature(feature: Feature, version: str | None) -> bool | None:
    """Whether a version of vLLM behaves so; None when the version is not known or is not a number.

    Suffixes are left aside: `0.6.4.post1` counts as 0.6.4, `0.32.0+cpu` as 0.32.0.
    """
    match = _VERSION.match(version or "")
    if match is None:
        return None
    number = (int(match[1]), int(match[2]), int(match[3] or 0))
    return number <= _UNTIL[feature] if feature in _UNTIL else number >= _SINCE[feature]

"""The text of /metrics, of any vLLM version and under Ray Serve -> values. What a server does not expose is None, never 0.

Values are looked up by the exact name of their sample, so a suffix never decides what a metric is:
`vllm:iteration_tokens_total` is a histogram, and `vllm:prompt_tokens_created` a time. The names are those of the releases 0.6.0 to
0.33.0 (`v1/metrics/loggers.py`, before that `engine/metrics.py`), for Ray Serve those of `v1/metrics/ray_wrappers.py` and Ray's
`metrics_agent.py`.
"""

import math
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from core.records import EngineSample, ServerSample
from core.units import count

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

WAITING_BY_REASON = "vllm:num_requests_waiting_by_reason"
"""A gauge from vLLM 0.20 on, with the label `reason`: `deferred` (KV transfer, LoRA budget) or `capacity`."""

CACHE_CONFIG = "vllm:cache_config_info"
PROCESS_START = "process_start_time_seconds"

OTHER_PREFIX = re.compile(r"(?:ray_)?vllm[:_]")
"""What stands before the same names elsewhere: `ray_vllm:` with Ray Serve, later `ray_vllm_`, and `vllm_` where no colon may be."""

ENGINE, MODEL, REPLICA, WORKER = "engine", "model_name", "ReplicaId", "WorkerId"
"""Labels of an engine's rows: its number behind one frontend, the first name that its model is served by, and with Ray Serve the
replica and the process."""

SERVER = "server"
"""The label by which a router (vLLM production-stack) names the engine that a row is about. Its rows have vLLM's names with other
contents: its running requests are those under way, queued ones among them, and its waiting ones are never set."""

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


Row = tuple[dict[str, str], float]
Rows = dict[str, list[Row]]
"""Name of a sample -> its rows (labels, value)."""

_SUFFIXES: dict[Kind, tuple[str, ...]] = {
    "gauge": ("",),
    "counter": ("_total", "", "_created"),
    "histogram": ("_sum", "_count"),
}
_MAX_CAUSE = 200
_MAX_DIGITS = 18
_NAMED = 8
MAX_KEPT = 2 * 1024 * 1024
"""Characters in the lines that are read of one exposition. 600 engines have 1.6 million; a million rows would take the parser half
a minute."""
_EMPTY = "the answer is empty: no vLLM metrics here."
_NO_METRICS = (
    "there are no vLLM metrics in the answer (a server started with --disable-log-stats exposes none, and other servers have none)."
)


class ScrapeError(Exception):
    """A reading that failed; the text is a sentence for the event line."""


class RouterPage(ScrapeError):
    """A page that shows what a router counts of its `servers` and nothing of an engine."""

    def __init__(self, servers: int) -> None:
        super().__init__(f"there are only a router's figures over {count(servers, 'server')} in the answer, none of an engine.")
        self.servers = servers


@dataclass(frozen=True, slots=True)
class Page:
    """Whose rows a page has: the models that engines name, in its order, and how many servers a router tells of."""

    models: tuple[str, ...] = ()
    servers: int = 0


_MAPPED = (*SAMPLE_METRICS.values(), KV_USAGE)
SAMPLES = frozenset({PROCESS_START, WAITING_BY_REASON}).union(
    name + suffix for mapped in _MAPPED for name in mapped.names for suffix in _SUFFIXES[mapped.kind]
)
"""What a `ServerSample` is made of."""
_CACHE_SAMPLES = frozenset({CACHE_CONFIG})


def parse(text: str, content_type: str, t: float, took_s: float, models: Collection[str] = ()) -> ServerSample:
    """Read one exposition (Prometheus text or OpenMetrics). `models`: only rows of these count, and those that name none; empty:
    all. Raises ScrapeError when there is no vLLM metric of them in it, RouterPage where a router shows some."""
    if not text.strip():
        raise ScrapeError(_EMPTY)
    return sample_of(rows_of(text, content_type, SAMPLES), t, took_s, models)


def sample_of(read: Rows, t: float, took_s: float, models: Collection[str] = ()) -> ServerSample:
    """The values in rows of which `SAMPLES` were wanted. Raises as `parse` does."""
    shown, servers = _of_engines(read)
    rows = _of_models(shown, models)
    named = _named(rows)
    values = {field: _value(rows, mapped, named) for field, mapped in SAMPLE_METRICS.items()}
    usage = _kv_usage(rows)
    if not usage and all(value is None for value in values.values()):
        if models and (others := _page(shown, servers).models):
            raise ScrapeError(f"there is nothing of {_listed(models)} in it, only of {_listed(others)}.")
        raise RouterPage(servers) if servers else ScrapeError(_NO_METRICS)
    return ServerSample(
        t=t,
        took_s=took_s,
        engines=_engines(rows, named),
        kv_usage_frac=sum(usage) / len(usage) if usage else None,
        kv_usage_max_frac=max(usage) if usage else None,
        waiting_deferred=_waiting_for(rows, "deferred"),
        waiting_capacity=_waiting_for(rows, "capacity"),
        epoch=_epoch(rows, named),
        by_engine=_by_engine(rows, named),
        **values,  # type: ignore[arg-type]  # which fields are pairs and which are numbers is data (SAMPLE_METRICS)
    )


def page(text: str, content_type: str) -> Page:
    """Whose rows there are. Raises ScrapeError for text that cannot be read."""
    return _page(*_of_engines(rows_of(text, content_type, SAMPLES)))


def cache_config(text: str, content_type: str, models: Collection[str] = ()) -> dict[str, str]:
    """The labels of `vllm:cache_config_info` that have a value, merged over the engines of `models` (empty: all); empty when it is
    not exposed, or no reader could read it.

    `num_gpu_blocks` repeats the sum over the engines of one frontend on every row of those, so the largest counts, and of several
    frontends their sum; of differing `kv_cache_size_tokens` (one engine's own) the smallest, which no engine falls short of.
    """
    try:
        rows = _of_models(_of_engines(rows_of(text, content_type, SAMPLES | _CACHE_SAMPLES))[0], models)
    except ScrapeError:
        return {}
    named = _named(rows)
    frontends: dict[_Key, dict[str, str]] = {}
    for labels, _ in _theirs(rows.get(CACHE_CONFIG, []), named):
        key = tuple(labels.get(name, "") for name in named.labels if name not in (ENGINE, MODEL))
        told = {name: value for name, value in labels.items() if name != ENGINE and name not in named.labels}
        _merge(frontends.setdefault(key, {}), told)
    merged: dict[str, str] = {}
    for each in frontends.values():
        _merge(merged, each)
    blocks = [n for each in frontends.values() if (n := _whole(each, "num_gpu_blocks")) is not None]
    if len(blocks) == len(frontends) > 1:
        merged["num_gpu_blocks"] = str(sum(blocks))
    return merged


def _merge(merged: dict[str, str], labels: Mapping[str, str]) -> None:
    for name, value in labels.items():
        if value in NULL_LABELS:
            continue
        known = merged.get(name)
        if known is None or _replaces(name, value, known):
            merged[name] = value


def kv_capacity_tokens(labels: Mapping[str, str], engines: int) -> int | None:
    """Tokens that the KV caches of all engines hold, from `cache_config`; None when the labels do not tell.

    `kv_cache_size_tokens` (vLLM 0.24 on) is exact for every model. Before, blocks times block size is right for plain
    full attention only, with one block per engine kept back as the null block (`v1/core/block_pool.py`).
    """
    per_engine = _whole(labels, "kv_cache_size_tokens")
    if per_engine is not None:
        return per_engine * engines
    blocks, block_size = _whole(labels, "num_gpu_blocks"), _whole(labels, "block_size")
    override = _whole(labels, "num_gpu_blocks_override")
    if blocks is None and override is not None:  # vLLM 0.7 to 0.8 (V1) say "None" for the blocks of an engine, but what was set
        blocks = override * engines
    plain = "sliding_window" not in labels and "mamba_block_size" not in labels and labels.get("is_attention_free") != "True"
    if blocks is None or block_size is None or not plain or blocks <= engines:
        return None
    return (blocks // engines - 1) * block_size * engines


def _replaces(name: str, value: str, known: str) -> bool:
    try:
        if name in ("num_gpu_blocks", "block_size"):
            return int(value) > int(known)
        return name == "kv_cache_size_tokens" and int(value) < int(known)
    except ValueError:
        return False


def _whole(labels: Mapping[str, str], name: str) -> int | None:
    text = labels.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS and int(text) > 0 else None


def rows_of(text: str, content_type: str, wanted: frozenset[str]) -> Rows:
    """The rows of the wanted samples, by vLLM's own names. Raises ScrapeError for text that cannot be read."""
    kept = _keep(text, wanted)
    if len(kept) > MAX_KEPT:
        raise ScrapeError(f"there are more than {MAX_KEPT >> 20} MiB of vLLM's values in it, which are not read.")
    openmetrics = "openmetrics" in content_type
    rows = None if openmetrics else _plain_rows(kept)
    if rows is None:
        rows = _parsed_rows(kept, openmetrics)
    by_own: dict[str, list[list[Row]]] = {}
    for name, part in rows.items():
        by_own.setdefault(_own_name(name), []).append(part)
    return {name: _once(*forms) for name, forms in by_own.items()}


def _parsed_rows(kept: str, openmetrics: bool) -> Rows:
    rows: Rows = {}
    try:
        for family in _families(kept, openmetrics):
            for sample in family.samples:
                rows.setdefault(sample.name, []).append((sample.labels, float(sample.value)))
    except (ValueError, KeyError, IndexError) as error:
        raise ScrapeError(f"the metrics cannot be read: {str(error)[:_MAX_CAUSE] or 'a line is malformed'}.") from error
    return rows


_PLAIN_LINE = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{([^{}\\]*)\})? ([0-9eE.+-]+|NaN|[+-]Inf)", re.A)
_PLAIN_LABELS = re.compile(r'(?:[a-zA-Z_]\w*="[^"\\]*"(?:,|$))*', re.A)
_PLAIN_LABEL = re.compile(r'(\w+)="([^"\\]*)"', re.A)


def _plain_rows(kept: str) -> Rows | None:
    """The rows of lines in the form that every client library writes, a tenth of the parser's time; None where a line has another
    form (escapes, timestamps, blanks elsewhere), which the parser knows. Labels repeat from scrape to scrape, and are kept."""
    rows: Rows = {}
    for line in kept.split("\n"):
        if not line or line.startswith("#"):
            continue
        match = _PLAIN_LINE.fullmatch(line)
        labels = None if match is None else _plain_labels(match[2] or "")
        if match is None or labels is None:
            return None
        try:
            rows.setdefault(match[1], []).append((labels, float(match[3])))
        except ValueError:
            return None
    return rows


@lru_cache(maxsize=8192)
def _plain_labels(text: str) -> dict[str, str] | None:
    """Shared by all rows that have them, so nobody changes them."""
    return dict(_PLAIN_LABEL.findall(text)) if _PLAIN_LABELS.fullmatch(text) else None


def _own_name(name: str) -> str:
    """vLLM's own name of what stands under another prefix (`OTHER_PREFIX`)."""
    return OTHER_PREFIX.sub("vllm:", name, count=1) if name.startswith(("ray_vllm", "vllm_")) else name


def _once(first: list[Row], *others: list[Row]) -> list[Row]:
    """The rows of one sample that stands under several names: what is shown under two of them counts once."""
    if not others:
        return first
    rows: dict[frozenset[tuple[str, str]], Row] = {}
    for row in (row for part in (first, *others) for row in part):
        rows.setdefault(frozenset(row[0].items()), row)
    return list(rows.values())


def _of_engines(rows: Rows) -> tuple[Rows, int]:
    """The rows without a router's own, and the number of servers that those are about."""
    kept: Rows = {}
    servers: set[str] = set()
    for name, part in rows.items():
        vllms = name.startswith("vllm:") and name != CACHE_CONFIG
        if vllms and any(SERVER in labels for labels, _ in part):
            servers.update(labels[SERVER] for labels, _ in part if _is_routers(labels))
            part = [row for row in part if not _is_routers(row[0])]
        if part:
            kept[name] = part
    return kept, len(servers)


def _is_routers(labels: Mapping[str, str]) -> bool:
    return SERVER in labels and not labels.keys() & {ENGINE, MODEL, REPLICA}


def _of_models(rows: Rows, models: Collection[str]) -> Rows:
    """The rows of these models and those that name none; all where `models` is empty."""
    if not models:
        return rows
    ours = {name: [row for row in part if row[0].get(MODEL) is None or row[0][MODEL] in models] for name, part in rows.items()}
    return {name: part for name, part in ours.items() if part}


def _page(rows: Rows, servers: int) -> Page:
    return Page(tuple(dict.fromkeys(labels[MODEL] for part in rows.values() for labels, _ in part if MODEL in labels)), servers)


def _listed(names: Collection[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(name[:_MAX_CAUSE] for name in list(names)[:_NAMED]) + more


def _keep(text: str, wanted: frozenset[str]) -> str:
    """Only the lines that matter: most of an exposition is buckets and other families, and the parser is slow
    (8 ms for the 52 KB of an idle vLLM 0.32; 1 ms so).

    Histograms lose their `# TYPE` with their buckets, which OpenMetrics would miss; counters keep it, because it allows
    them exemplars there. Never `splitlines`: labels may hold U+2028.
    """
    lines = []
    same, keep = _NONE, False  # most lines are of the metric of the line before
    for line in text.split("\n"):
        if line.startswith("#"):
            same = _NONE
            keep = line.endswith(" counter") and line.startswith("# TYPE ") and _types_wanted(line, wanted)
            keep = keep or line.startswith("# EOF")
        elif not line.startswith(same):
            name, brace, _ = line.partition("{")
            same = f"{name}{{" if brace else _NONE
            name = name.split(" ", 1)[0].rstrip()
            keep = name in wanted or _own_name(name) in wanted
        if keep:
            lines.append(line)
    return "\n".join((*lines, ""))


_NONE = "\n"
"""What no line begins with."""


def _types_wanted(line: str, wanted: frozenset[str]) -> bool:
    """Whether a TYPE line is that of a wanted counter, named with `_total` (text) or without (OpenMetrics)."""
    name = _own_name(line.split(" ", 3)[2])
    return name in wanted or f"{name}_total" in wanted


def _families(text: str, openmetrics: bool) -> Iterable[Metric]:
    if openmetrics:
        try:
            return list(parse_openmetrics(text))  # type: ignore[no-untyped-call]
        except ValueError:
            # strict: a NaN or a counter without `_total` would cost the whole reading, so the lax parser gets a try
            return list(parse_text(text))
    return parse_text(text)


def _exposed(rows: Rows, mapped: MetricNames) -> list[list[Row]] | None:
    """Rows of the first name that is there: one list, or for a histogram two (sums, counts)."""
    for name in mapped.names:
        if mapped.kind == "histogram":
            if name + "_sum" in rows and name + "_count" in rows:
                return [rows[name + "_sum"], rows[name + "_count"]]
            continue
        for exposed in (name + "_total", name) if mapped.kind == "counter" else (name,):
            if exposed in rows:
                return [rows[exposed]]
    return None


def _value(rows: Rows, mapped: MetricNames, named: "_Named") -> float | tuple[float, float] | None:
    """The sum over the rows. Ray shows a counter from its first increase on, so one that is missing beside its engine's gauges is
    known to be 0: cold prompts, for instance, have no hits."""
    parts = _exposed(rows, mapped)
    if parts is None:
        return 0.0 if mapped.kind == "counter" and REPLICA in named.labels else None
    sums = [sum(value for _, value in part) for part in parts]
    if not all(math.isfinite(value) for value in sums):
        return None
    return (sums[0], sums[1]) if mapped.kind == "histogram" else sums[0]


def _kv_usage(rows: Rows) -> list[float]:
    """Each engine's KV usage; empty when not exposed or not a number."""
    parts = _exposed(rows, KV_USAGE)
    values = [value for _, value in parts[0]] if parts else []
    return values if all(math.isfinite(value) for value in values) else []


def _waiting_for(rows: Rows, reason: str) -> float | None:
    """How many requests wait for one reason; None where the server does not tell."""
    values = [value for labels, value in rows.get(WAITING_BY_REASON, []) if labels.get("reason") == reason]
    return sum(values) if values and math.isfinite(sum(values)) else None


_Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Named:
    """The engines or backends on the page: the names of the labels of their state gauges, and of each its values of those."""

    labels: tuple[str, ...]
    keys: tuple[_Key, ...]

    def key(self, labels: Mapping[str, str]) -> _Key:
        """Whose row this is, whatever other labels it has."""
        return tuple(labels.get(name, "") for name in self.labels)

    def name(self, key: _Key) -> str:
        """The values in which this engine differs from others, the model's name last; the same in readings with the same rows."""
        at = [n for n, values in enumerate(zip(*self.keys, strict=True)) if len(set(values)) > 1]
        short = [n for n in at if self.labels[n] != WORKER or REPLICA not in self.labels]  # a replica is one process
        if len({tuple(each[n] for n in short) for each in self.keys}) == len(self.keys):
            at = short
        return "/".join(key[n] for n in sorted(at, key=lambda n: self.labels[n] == MODEL))


def _named(rows: Rows) -> _Named:
    """Each label set of the gauges of running and waiting requests and of the KV usage is an engine: they have no other labels."""
    gauges = (SAMPLE_METRICS["running"], SAMPLE_METRICS["waiting"], KV_USAGE)
    found = [labels for mapped in gauges for part in _exposed(rows, mapped) or () for labels, _ in part]
    names = _Named(tuple(sorted({name for labels in found for name in labels})), ())
    return _Named(names.labels, tuple(dict.fromkeys(names.key(labels) for labels in found)))


def _engines(rows: Rows, named: _Named) -> int:
    """How many engines are behind the page. Another model's name alone makes no other engine."""
    names = {labels[ENGINE] for part in rows.values() for labels, _ in part if ENGINE in labels}
    at = [n for n, name in enumerate(named.labels) if name != MODEL]
    return max(1, len(names), len({tuple(key[n] for n in at) for key in named.keys}))


def _by_engine(rows: Rows, named: _Named) -> tuple[EngineSample, ...] | None:
    """The rows of each engine, in the order of the page; None where there is one."""
    if len(named.keys) < 2:
        return None
    fields = ("running", "waiting", "requests_success_total", "prompt_tokens_total", "generation_tokens_total")
    values = {field: _each(rows, SAMPLE_METRICS[field], named) for field in fields}
    usage, started = _each(rows, KV_USAGE, named), _started(rows, named)
    return tuple(
        EngineSample(
            name=named.name(key),
            model=key[named.labels.index(MODEL)] if MODEL in named.labels else None,
            kv_usage_frac=usage.get(key),
            started=started.get(key),
            **{field: each.get(key) for field, each in values.items()},
        )
        for key in named.keys
    )


def _each(rows: Rows, mapped: MetricNames, named: _Named) -> dict[_Key, float]:
    """A gauge or counter by engine, without what is no number."""
    parts = _exposed(rows, mapped)
    sums: dict[_Key, float] = {}
    for labels, value in parts[0] if parts else ():
        key = named.key(labels)
        sums[key] = sums.get(key, 0.0) + value
    return {key: value for key, value in sums.items() if math.isfinite(value)}


def _theirs(part: list[Row], named: _Named) -> list[Row]:
    """The rows of these engines, by the labels that all of `part` have in common with them; all where none is theirs."""
    shared = [n for n, name in enumerate(named.labels) if all(name in labels for labels, _ in part)]
    keys = {tuple(key[n] for n in shared) for key in named.keys}
    return [row for row in part if tuple(row[0][named.labels[n]] for n in shared) in keys] or part


def _started(rows: Rows, named: _Named) -> dict[_Key, float]:
    """When each engine's process or counters began, where several such times stand on the page."""
    times = _starts(rows, named)
    if len(times) < 2:
        return {}
    shared = [n for n, name in enumerate(named.labels) if all(name in labels for labels, _ in times)]
    newest: dict[_Key, float] = {}
    for labels, value in times:
        key = tuple(named.key(labels)[n] for n in shared)
        newest[key] = max(value, newest.get(key, value))
    found = {key: newest.get(tuple(key[n] for n in shared)) for key in named.keys}
    return {key: value for key, value in found.items() if value is not None}


def _starts(rows: Rows, named: _Named) -> list[Row]:
    """The rows that tell when the server process of these engines began, else when their counters did (unix seconds)."""
    created = [name + "_created" for mapped in SAMPLE_METRICS.values() if mapped.kind == "counter" for name in mapped.names]
    for name in (PROCESS_START, *created):
        times = [(labels, value) for labels, value in rows.get(name, []) if math.isfinite(value)]
        if times:
            return _theirs(times, named)
    return []


def _epoch(rows: Rows, named: _Named) -> float | None:
    """When the server process began, else when its counters did (unix seconds); None when it does not say."""
    return max((value for _, value in _starts(rows, named)), default=None)

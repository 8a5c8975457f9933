"""The core of vLLM 0.32's /metrics: same names, types, labels and buckets (vLLM 0.32, v1/metrics/loggers.py)."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

from core.engine import BLOCK_TOKENS, EngineSpec
from core.replica.scheduler import Sequence, Step

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
FINISHED_REASONS = ("stop", "length", "abort", "error", "repetition")

_TTFT_BUCKETS = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
    *(20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
_ITL_BUCKETS = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5),
    *(5.0, 7.5, 10.0, 20.0, 40.0, 80.0),
)
_LATENCY_BUCKETS = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0),
    *(120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0),
)


def _token_buckets(maximum: int) -> tuple[int, ...]:
    """1, 2, 5, 10, 20, 50, ... up to `maximum`."""
    powers = (10**exponent for exponent in range(len(str(maximum))))
    return tuple(digit * power for power in powers for digit in (1, 2, 5) if digit * power <= maximum)


class EngineMetrics:
    """The families in a registry of their own; the engine reports to it, `text` is what /metrics answers."""

    def __init__(self, model_name: str, spec: EngineSpec, max_model_len: int) -> None:
        self._registry = CollectorRegistry()
        self._labels = {"engine": "0", "model_name": model_name}
        ProcessCollector(registry=self._registry)
        self._running = self._gauge("num_requests_running", "Number of requests in model execution batches.")
        self._waiting = self._gauge("num_requests_waiting", "Number of requests waiting to be processed.")
        self._kv_usage = self._gauge("kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.")
        self._preemptions = self._counter("num_preemptions", "Cumulative number of preemption from the engine.")
        self._prompt = self._counter("prompt_tokens", "Number of prefill tokens processed.")
        self._generated = self._counter("generation_tokens", "Number of generation tokens processed.")
        self._queries = self._counter("prefix_cache_queries", "Prefix cache queries, in terms of number of queried tokens.")
        self._hits = self._counter("prefix_cache_hits", "Prefix cache hits, in terms of number of cached tokens.")
        self._success = self._success_counters()
        self._ttft = self._histogram("time_to_first_token_seconds", "Histogram of time to first token in seconds.", _TTFT_BUCKETS)
        self._itl = self._histogram("inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", _ITL_BUCKETS)
        self._e2e = self._latency("e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.")
        self._queue = self._latency("request_queue_time_seconds", "Histogram of time spent in WAITING phase for request.")
        self._prefill = self._latency("request_prefill_time_seconds", "Histogram of time spent in PREFILL phase for request.")
        self._decode = self._latency("request_decode_time_seconds", "Histogram of time spent in DECODE phase for request.")
        tokens = _token_buckets(max_model_len)
        self._request_prompt = self._histogram("request_prompt_tokens", "Number of prefill tokens processed.", tokens)
        self._request_generated = self._histogram("request_generation_tokens", "Number of generation tokens processed.", tokens)
        self._kv_blocks = spec.kv_blocks
        self._cache_config(spec, max_model_len)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"vllm:{name}", text, list(self._labels), registry=self._registry).labels(**self._labels)

    def _counter(self, name: str, text: str) -> Counter:
        return Counter(f"vllm:{name}", text, list(self._labels), registry=self._registry).labels(**self._labels)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
        family = Histogram(f"vllm:{name}", text, list(self._labels), registry=self._registry, buckets=buckets)
        return family.labels(**self._labels)

    def _latency(self, name: str, text: str) -> Histogram:
        return self._histogram(name, text, _LATENCY_BUCKETS)

    def _success_counters(self) -> dict[str, Counter]:
        names = [*self._labels, "finished_reason"]
        text = "Count of successfully processed requests."
        family = Counter("vllm:request_success", text, names, registry=self._registry)
        return {reason: family.labels(**self._labels, finished_reason=reason) for reason in FINISHED_REASONS}

    def _cache_config(self, spec: EngineSpec, max_model_len: int) -> None:
        """vLLM counts one unused "null" block in `num_gpu_blocks`; usage is a fraction of the others."""
        labels = {
            "block_size": str(BLOCK_TOKENS),
            "cache_dtype": "auto",
            "enable_prefix_caching": "True",
            "engine": "0",
            "kv_cache_max_concurrency": str(spec.kv_tokens / max_model_len),
            "kv_cache_size_tokens": str(spec.kv_tokens),
            "num_gpu_blocks": str(spec.kv_blocks + 1),
        }
        text = "Information of the LLMEngine CacheConfig"
        Gauge("vllm:cache_config_info", text, list(labels), registry=self._registry).labels(**labels).set(1)

    def step(self, step: Step) -> None:
        """Account for one engine step, at its end."""
        self._running.set(step.running)
        self._waiting.set(step.waiting)
        self._kv_usage.set(step.used_blocks / self._kv_blocks)
        self._preemptions.inc(step.preempted)
        self._generated.inc(len(step.emitted))
        for sequence in step.admitted:
            self._queries.inc(sequence.prompt_tokens)
            self._hits.inc(sequence.cached_tokens)

    def first_token(self, sequence: Sequence, now: float) -> None:
        """A request's first token went out at `now`."""
        self._prompt.inc(sequence.prompt_tokens)
        self._ttft.observe(now - sequence.arrival_s)

    def further_token(self, gap_s: float) -> None:
        """Another token went out, `gap_s` after the one before."""
        self._itl.observe(gap_s)

    def finished(
        self, sequence: Sequence, first_token_s: float, last_token_s: float, now: float, finish_reason: str = "length"
    ) -> None:
        """A request ended by this reason; the engine's own times of its tokens, and `now` when the last went out."""
        scheduled_s = sequence.arrival_s if sequence.scheduled_s is None else sequence.scheduled_s
        self._success[finish_reason].inc()
        self._e2e.observe(now - sequence.arrival_s)
        self._queue.observe(scheduled_s - sequence.arrival_s)
        self._prefill.observe(first_token_s - scheduled_s)
        self._decode.observe(last_token_s - first_token_s)
        self._request_prompt.observe(sequence.prompt_tokens)
        self._request_generated.observe(sequence.generated)

    def text(self) -> bytes:
        """The exposition, as /metrics sends it."""
        return generate_latest(self._registry)

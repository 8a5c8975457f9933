"""A run as Prometheus metrics: of one that is over, for a push, and of one that goes on, for a scrape. Both share their names.

What is not known has no sample. Rates, times and shares are in requests a second, seconds and fractions.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Literal, get_args

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from core import __version__, fleet
from core.history import label_of
from core.records import Phase
from core.report.json import answer_of, evidence_of
from core.report.text import largest
from core.results import Percentiles, RepeatVerdict, StepResult, StepVerdict
from core.units import as_set
from core.view import RunView, StepView

_AT_STEP = ("step", "phase", "rate_rps")
_QUANTILES = (("0.5", "p50"), ("0.95", "p95"), ("0.99", "p99"))
_ENDS = ("at_least", "at_most")
_LATENCIES: tuple[tuple[Literal["ttft_s", "tpot_s", "e2e_s"], str], ...] = (
    ("ttft_s", "Time to first token"),
    ("tpot_s", "Time per output token after the first"),
    ("e2e_s", "Time to the last token"),
)


def to_exposition(view: RunView) -> str:
    """The figures of a run that is over, in the text format, as a Pushgateway takes it."""
    return _text([*_run(view), *_steps(view), *_fleet(view)])


def live_exposition(view: RunView) -> str:
    """The figures of a run that goes on, as a scrape takes them: those that are known by now, and the present."""
    return _text([*_run(view), *_steps(view), *_fleet(view), *_now(view)])


class _Families(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = [family for family in families if family.samples]

    def collect(self) -> Iterable[Metric]:
        return self._families


def _text(families: Iterable[Metric]) -> str:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(families))
    return generate_latest(registry).decode()


def _gauge(name: str, about: str, value: float | None) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"kneescope_{name}", about, value=value)


def _labelled(name: str, about: str, labels: tuple[str, ...], rows: Iterable[tuple[tuple[str, ...], float | None]]) -> Metric:
    """One sample for each row whose value is known."""
    family = GaugeMetricFamily(f"kneescope_{name}", about, labels=labels)
    for values, value in rows:
        if value is not None:
            family.add_metric(values, value)
    return family


# --- the run ------------------------------------------------------------------------------------------------------


def _run(view: RunView) -> Iterator[Metric]:
    config, server, knee = view.config, view.server, answer_of(view).knee
    known = view.known_answer
    info = {
        "version": __version__,
        "label": label_of(view),
        "outcome": "" if known is None else known.outcome,
        "mode": config.method.mode if config else "",
        "model": (server.model if server else None) or (config.target.model if config else None) or "",
        "server": server.url if server else config.target.address if config else "",
        "server_version": (server.version if server else None) or "",
    }
    yield _labelled("run_info", "What ran: always 1", tuple(info), [(tuple(info.values()), 1.0)])
    yield _gauge("run_start_timestamp_seconds", "When the run began, in Unix time", _began(view))
    took_s = view.duration_s if view.duration_s is not None else view.now_s
    yield _gauge("run_duration_seconds", "How long the run has taken", took_s)
    if config is not None:
        yield _gauge("target", "Share of requests that must meet every limit", config.slo.target)
        limits = [((name.removesuffix("_s"),), getattr(config.slo, name)) for name, _ in _LATENCIES]
        yield _labelled("limit_seconds", "Limit on a latency", ("latency",), limits)
    yield _gauge("pass_rps", "Highest rate that holds", knee.pass_rps)
    yield _gauge("fail_rps", "Upper end of the bracket: the rate that fails", knee.fail_rps)
    yield _gauge("first_fail_rps", "Lowest rate with a failing repeat", knee.first_fail_rps)
    yield _gauge("clear_fail_rps", "Lowest rate that clearly fails", knee.clear_fail_rps)
    if known is not None and known.required_met is not None:
        yield _gauge("required_met", "Whether the required rate passed", float(known.required_met))


def _began(view: RunView) -> float | None:
    try:
        return None if view.started_utc is None else datetime.fromisoformat(view.started_utc).timestamp()
    except ValueError:
        return None


# --- its steps ----------------------------------------------------------------------------------------------------


def _steps(view: RunView) -> Iterator[Metric]:
    steps = [step for step in view.steps if not step.set_aside]
    yield _labelled(
        "step_verdict",
        "Verdict of each rate that was judged: 1",
        (*_AT_STEP, "verdict"),
        [((*_where(step), step.verdict), 1.0) for step in steps],
    )
    yield _by_verdict("steps", "Rates that were judged, by verdict", get_args(StepVerdict), [step.verdict for step in steps])
    judged = [step for step in steps if step.phase != "ramp"]  # a ramp is no repeat, and its plan no window
    verdicts = [repeat.verdict for step in judged for repeat in step.repeats]
    yield _by_verdict("repeats", "Repeats that were judged, by verdict", get_args(RepeatVerdict), verdicts)
    yield _labelled(
        "floor",
        "Lowest attainment of the repeats of a rate: at least and at most",
        (*_AT_STEP, "bound"),
        [((*_where(step), end), value) for step in steps if step.floor for end, value in zip(_ENDS, step.floor, strict=True)],
    )
    yield _labelled(
        "attainment",
        "Share of a repeat's planned requests that met every limit: at least and at most",
        (*_AT_STEP, "repeat", "verdict", "bound"),
        [
            ((*_where(step), str(place), repeat.verdict, end), value)
            for step in judged
            for place, repeat in enumerate(step.repeats)  # one that is done again has the index of the void one
            for end, value in zip(_ENDS, repeat.attainment_interval, strict=True)
        ],
    )
    for name, about in _LATENCIES:
        told = f"{about}, of a rate's repeats the highest"
        rows = [row for step in judged for row in _quantiles(step, [getattr(repeat, name) for repeat in step.repeats])]
        yield _labelled(f"{name.removesuffix('_s')}_seconds", told, (*_AT_STEP, "quantile"), rows)
    late = [row for step in judged for row in _quantiles(step, [repeat.lateness_s for repeat in step.repeats])]
    yield _labelled("lateness_seconds", "How late requests were sent, the highest", (*_AT_STEP, "quantile"), late)


def _where(step: StepResult) -> tuple[str, str, str]:
    return str(step.step), step.phase, _rate(step.rate_rps)


def _rate(rate_rps: float) -> str:
    """A rate as a label: the same digits wherever it stands."""
    return as_set(rate_rps, 6).replace(",", "")


def _by_verdict(name: str, about: str, all_verdicts: tuple[str, ...], seen: Sequence[str]) -> Metric:
    return _labelled(name, about, ("verdict",), [((verdict,), float(seen.count(verdict))) for verdict in all_verdicts])


def _quantiles(step: StepResult, each: list[Percentiles]) -> list[tuple[tuple[str, ...], float | None]]:
    return [((*_where(step), q), largest(getattr(values, name) for values in each)) for q, name in _QUANTILES]


# --- its fleet ----------------------------------------------------------------------------------------------------


def _fleet(view: RunView) -> Iterator[Metric]:
    if view.config is None:
        return
    ask = view.config.fleet
    yield _gauge("peak_rps", "Peak rate that the fleet must carry", ask.peak_rps)
    plan = fleet.plan(answer_of(view).knee, ask, view.server, evidence_of(view))
    if plan is None:
        return
    yield _gauge("load_at_peak", "Share of a replica's safe rate that is used at peak", plan.headroom)
    sizes = [("pass", plan.at_pass), ("fail", plan.at_fail), ("p90", plan.at_p90_output)]
    known = [((end,), size) for end, size in sizes if size is not None]
    about = "for the peak, if one replica carries the rate that holds, the one that fails, or is sized for long answers"
    yield _labelled("fleet_replicas", f"Replicas {about}", ("at",), [(end, float(size.replicas)) for end, size in known])
    yield _labelled("fleet_gpus", f"GPUs {about}", ("at",), [(end, float(size.gpus)) for end, size in known])


# --- the present --------------------------------------------------------------------------------------------------


def _now(view: RunView) -> Iterator[Metric]:
    current = view.current if view.answer is None else None
    yield _gauge("answered", "Whether the answer is known", float(view.known_answer is not None))
    yield _gauge("rate_rps", "Rate at which requests are sent now", 0.0 if current is None else current.rate_rps)
    phases = [((phase,), float(current is not None and current.phase == phase)) for phase in get_args(Phase)]
    yield _labelled("phase", "What the load is for now: 1", ("phase",), phases)
    yield from _repeat_now(current)
    live = None if current is None else current.live
    in_flight = 0 if live is None else live.in_flight
    yield _gauge("in_flight", "Requests in flight", float(view.closed_in_flight or in_flight))
    yield _gauge("left_seconds", "Expected time to the answer", view.left_s if view.answer is None else 0.0)
    for name, about in (("good", "met every limit"), ("missed", "missed a limit")):
        n = sum(getattr(each, name) for each in view.outcomes)
        yield CounterMetricFamily(f"kneescope_requests_{name}", f"Requests of the run that {about}", value=n)
    sent = sum(each.good + each.missed + each.open for each in view.outcomes)
    yield CounterMetricFamily("kneescope_requests_sent", "Requests of the run that were sent", value=sent)
    sample = view.sample
    if sample is not None:
        yield _gauge("server_running", "Requests that the server runs", sample.running)
        yield _gauge("server_waiting", "Requests that wait in the server", sample.waiting)
        yield _gauge("server_kv_usage", "Share of the server's KV cache in use", sample.kv_usage_frac)


def _repeat_now(current: StepView | None) -> Iterator[Metric]:
    """The step and the repeat that run."""
    live = None if current is None else current.live
    floor = None if current is None else current.floor
    bounds = [] if floor is None else [((end,), value) for end, value in zip(_ENDS, floor, strict=True)]
    yield _labelled("current_floor", "Attainment floor of the rate that is judged now, so far", ("bound",), bounds)
    if live is None:
        return
    late = [(("0.99",), live.lateness_p99_s)]
    yield _labelled("current_lateness_seconds", "How late requests of this repeat were sent", ("quantile",), late)
    of = live.bounds
    states = (("planned", of.planned), ("sent", of.sent), ("good", of.good), ("missed", of.bad), ("open", of.open))
    told = "Requests in the window of the repeat that runs, by what is known of them"
    yield _labelled("current_requests", told, ("state",), [((state,), float(n)) for state, n in states])

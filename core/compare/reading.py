"""A run, from its file or from the JSON of its result, as one side of a comparison."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from core import RESULT_SCHEMA, fleet
from core.compare.side import FleetOf, Repeat, Request, Side, Step
from core.config import Method, ProbeConfig, Slo, Workload
from core.errors import UserError
from core.facts import Figure
from core.history import called
from core.judge import Bracket
from core.records import Phase, RepeatOrder, RequestRecord
from core.results import Knee, Outcome, Percentiles, RepeatResult, RepeatSteps, RepeatVerdict, StepVerdict
from core.run import Recording, is_going, read_recording, whole_file
from core.schedule import fresh_draw
from core.slo import e2e_s, good, margin, tpot_s, ttft_s
from core.units import as_set, typed
from core.workloads import MOST_PARTS, Gateway, MixPart, Source, TraceUse

_HEAD_BYTES = 200
_DUST_S = 1e-6


def read_side(path: Path) -> Side:
    """The run of a file. Raises UserError for what is neither a run file nor a result of probe."""
    try:
        with whole_file(path):
            with path.open("rb") as file:
                head = file.read(_HEAD_BYTES)
            if b'"run_started"' in head.partition(b"\n")[0]:
                going = is_going(path)
                return side_of(read_recording(path), path, going=going)
            return _side_of_result(path.read_bytes(), path)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}. Give a run file, or the --json result of a run.") from None


# --- from a run file ----------------------------------------------------------------------------------------------


def side_of(run: Recording, path: Path, *, going: bool = False) -> Side:
    """A recorded run, with its requests."""
    config, info = run.config, run.server
    outcome: Outcome = "interrupted" if run.answer is None else run.answer.outcome
    knee = run.knee if run.answer is not None else Bracket.of(config.method, run.steps, target=config.slo.target).knee()
    unit = fleet.unit_of(config.fleet, info)
    told = _Told() if info is None else msgspec.convert(info, _Told, from_attributes=True)
    return Side(
        label=called(run.label, info.model if info else config.target.model, run.started_utc, run.utc_offset_s),
        path=str(path),
        outcome=outcome,
        required_met=None if run.answer is None else run.answer.required_met,
        held_rps=config.method.hold_rps,
        asked=_asked(config.slo, config.target.api, _workload(config.workload), config.method),
        server=_server(told, unit.gpus if unit.known else None),
        knee=knee,
        gpus=unit.gpus if unit.known else None,
        fleet=_fleet(fleet.plan(knee, config.fleet, info)),
        steps=_steps(run),
        started_utc=run.started_utc,
        duration_s=run.duration_s,
        going=going,
    )


def _steps(run: Recording) -> tuple[Step, ...]:
    orders = {order.order: order for order in run.orders}
    records: defaultdict[int, list[RequestRecord]] = defaultdict(list)
    for record in run.records:
        records[record.order].append(record)
    return tuple(
        Step(
            rate_rps=step.rate_rps,
            phase=step.phase,
            verdict=step.verdict,
            floor=step.floor,
            repeats=tuple(
                _recorded(repeat, orders.get(repeat.order), records[repeat.order], run.config) for repeat in step.repeats
            ),
        )
        for step in run.steps
        if not step.set_aside
    )


def _recorded(repeat: RepeatResult, order: RepeatOrder | None, records: list[RequestRecord], config: ProbeConfig) -> Repeat:
    return Repeat(
        verdict=repeat.verdict,
        attainment=repeat.attainment_interval,
        planned=repeat.planned,
        succeeded=repeat.succeeded,
        ttft_s=repeat.ttft_s,
        tpot_s=repeat.tpot_s,
        e2e_s=repeat.e2e_s,
        draw=None if order is None else _draw(order),
        drift_frac=None if repeat.step_model is None else repeat.step_model.drift_frac,
        requests=() if order is None or order.phase == "ramp" else tuple(_requests(order, records, config.limits)),
    )


def _draw(order: RepeatOrder) -> tuple[int | str | None, ...]:
    """What the plan of an order was drawn by, beside seeds, workload and rate."""
    given = None if order.offsets_s is None else hash((order.offsets_s, order.parts))
    return (order.phase, order.draw, order.repeat, given)


def _requests(order: RepeatOrder, records: Iterable[RequestRecord], limits: Slo) -> Iterable[Request]:
    """Those of the window up to the first that did not end by itself: the ones after a cut are there by their luck."""
    begin_s, from_s, to_s = 0.0, math.inf, -math.inf
    for segment in order.segments:
        if segment.role == "measured":
            from_s, to_s = min(from_s, begin_s), begin_s + segment.duration_s
        begin_s += segment.duration_s
    before = None
    for record in sorted(records, key=lambda record: record.index):
        due_s = record.t_sched - order.start_at
        if not from_s - _DUST_S <= due_s < to_s - _DUST_S:
            continue
        if record.ending == "aborted" or (before is not None and record.index != before + 1):
            return
        before = record.index
        far = math.inf if record.ending != "ok" else margin(record, limits) or 0.0
        yield Request(record.index, due_s, good(record, limits), far, ttft_s(record), tpot_s(record), e2e_s(record))


def _fleet(plan: fleet.Fleet | None) -> FleetOf | None:
    if plan is None or plan.at_pass is None:
        return None
    fails = plan.at_fail
    return FleetOf(
        peak_rps=plan.peak_rps,
        load_at_peak=plan.headroom,
        replicas=plan.at_pass.replicas,
        gpus=plan.at_pass.gpus,
        replicas_at_fail=None if fails is None else fails.replicas,
        gpus_at_fail=None if fails is None else fails.gpus,
    )


# --- what was asked, and of whom: alike from both kinds of file ------------------------------------------------------


def _asked(slo: Slo, api: str, workload: Mapping[str, Figure], method: Method) -> dict[str, Figure]:
    return {
        **{name: getattr(slo, name) for name in ("ttft_s", "tpot_s", "e2e_s", "target", "max_error_rate")},
        "api": api,
        **workload,
        **{name: getattr(method, name) for name in ("mode", "careful", "repeats", "measure_s", "budget_s")},
        "rates": ", ".join(map(as_set, method.rates_rps)) or None,
        **{name: getattr(method, name) for name in ("require_rps", "reset_cache", "between")},
        "arrival_seed": method.seed_of_arrivals,
        "workload_seed": method.seed_of_requests,
    }


def _workload(work: Workload) -> dict[str, Figure]:
    few = 0 < len(work.mix) <= MOST_PARTS
    return {
        "input_tokens": None if work.mix else str(work.input_tokens),
        "output_tokens": None if work.mix else str(work.output_tokens),
        "length_correlation": work.length_correlation,
        "mix": " ".join(map(str, work.mix)) if few else None,
        "source": _source(work.source),
        "trace": _trace(work.trace),
        "arrival_cv": work.arrival_cv,
        "prefix": str(work.prefix),
        "temperature": work.temperature,
        "stop": work.stop,
        "gateway": None if work.gateway is None else str(work.gateway),
        "retry_after": work.retry_after,
        "think_s": work.think_s,
    }


def _source(source: Source | None) -> str | None:
    """A mix that was typed is known by its kinds."""
    return None if source is None or source.file is None else f"{source.file} ({source.kind}, {source.rows} rows)"


def _trace(trace: TraceUse | None) -> str | None:
    if trace is None:
        return None
    spread = ", spread" if trace.spread else ""
    return f"{trace.file} ({trace.rows} rows, {typed(trace.window_s)} s from {typed(trace.from_s)} s on{spread})"


class _Told(msgspec.Struct, frozen=True):
    """What a server told of itself, by the names of `ServerInfo` and of a result."""

    model: str | None = None
    version: str | None = None
    max_model_len: int | None = None
    kv_cache_tokens: int | None = None
    engines: int | None = None
    tp: int | None = None
    pp: int | None = None
    dp: int | None = None
    fingerprint: str | None = None
    simulated: bool | None = None
    config: dict[str, str] = {}


def _server(told: _Told, gpus: int | None) -> dict[str, Figure]:
    figures = msgspec.structs.asdict(told)
    flags = {f"config.{name}": value for name, value in sorted(figures.pop("config").items())}
    return {**figures, "gpus": gpus, **flags}


# --- from the JSON of a result ------------------------------------------------------------------------------------


class _Part(msgspec.Struct, frozen=True):
    input: int
    output: int
    weight: float
    limits: dict[str, float | None] = {}

    def mixed(self) -> MixPart:
        limits = {name.removesuffix("_s"): limit for name, limit in self.limits.items()}
        return MixPart(input_tokens=self.input, output_tokens=self.output, weight=self.weight, limits_s=limits)


class _Sampling(msgspec.Struct, frozen=True):
    temperature: float | None = 0.0


class _Asked(msgspec.Struct, frozen=True):
    """The defaults are what older results, which lack the key, mean."""

    api: str
    input_tokens: int | str | None
    output_tokens: int | str | None
    prefix: str = "cold"
    sampling: _Sampling = _Sampling()
    arrival_cv: float = 1.0
    gateway: Gateway | None = None
    retry_after: bool = False
    think_s: float | None = None
    length_correlation: float = 0.0
    mix: tuple[_Part, ...] | None = None
    source: Source | None = None
    stop: str = "exact"
    trace: TraceUse | None = None

    def figures(self) -> dict[str, Figure]:
        lengths = (None if length is None else str(length) for length in (self.input_tokens, self.output_tokens))
        return {
            **dict(zip(("input_tokens", "output_tokens"), lengths, strict=True)),
            "length_correlation": self.length_correlation,
            "mix": " ".join(str(part.mixed()) for part in self.mix) if self.mix else None,
            "source": _source(self.source),
            "trace": _trace(self.trace),
            "arrival_cv": self.arrival_cv,
            "prefix": self.prefix,
            "temperature": self.sampling.temperature,
            "stop": self.stop,
            "gateway": None if self.gateway is None else str(self.gateway),
            "retry_after": self.retry_after,
            "think_s": self.think_s,
        }


class _Repeat(msgspec.Struct, frozen=True):
    index: int
    verdict: RepeatVerdict
    attainment_interval: tuple[float, float]
    planned: int
    succeeded: int
    ttft_s: Percentiles
    tpot_s: Percentiles
    e2e_s: Percentiles
    step_model: RepeatSteps | None = None


class _Step(msgspec.Struct, frozen=True):
    rate_rps: float
    phase: Phase
    verdict: StepVerdict
    repeats: tuple[_Repeat, ...]
    floor_interval: tuple[float, float] | None = None
    set_aside: bool = False

    def judged(self) -> Step:
        return Step(
            rate_rps=self.rate_rps,
            phase=self.phase,
            verdict=self.verdict,
            floor=self.floor_interval,
            repeats=tuple(self._repeat(each) for each in self.repeats),
        )

    def _repeat(self, each: _Repeat) -> Repeat:
        """Its draw is known where all rates have one; the number of a step of a search is not in a result."""
        return Repeat(
            verdict=each.verdict,
            attainment=each.attainment_interval,
            planned=each.planned,
            succeeded=each.succeeded,
            ttft_s=each.ttft_s,
            tpot_s=each.tpot_s,
            e2e_s=each.e2e_s,
            draw=(self.phase, None, each.index, None) if fresh_draw(self.phase, 0) is None else None,
            drift_frac=None if each.step_model is None else each.step_model.drift_frac,
        )


class _Size(msgspec.Struct, frozen=True):
    replicas: int
    gpus: int


class _Unit(msgspec.Struct, frozen=True):
    gpus: int
    known: bool = False


class _Fleet(msgspec.Struct, frozen=True):
    peak_rps: float | None = None
    headroom: float | None = None
    at_pass: _Size | None = None
    at_fail: _Size | None = None
    unit: _Unit | None = None

    def sized(self) -> FleetOf | None:
        if self.peak_rps is None or self.headroom is None or self.at_pass is None:
            return None
        return FleetOf(
            peak_rps=self.peak_rps,
            load_at_peak=self.headroom,
            replicas=self.at_pass.replicas,
            gpus=self.at_pass.gpus,
            replicas_at_fail=None if self.at_fail is None else self.at_fail.replicas,
            gpus_at_fail=None if self.at_fail is None else self.at_fail.gpus,
        )


class _Required(msgspec.Struct, frozen=True):
    met: bool | None = None


class _Result(msgspec.Struct, frozen=True):
    """What a comparison needs of a result; other keys are left unread."""

    schema: int
    outcome: Outcome
    knee: Knee
    slo: Slo
    workload: _Asked
    method: Method
    steps: tuple[_Step, ...]
    server: _Told = _Told()
    fleet: _Fleet = _Fleet()
    required: _Required | None = None
    kind: str = "probe"
    label: str | None = None
    started_at: str | None = None
    duration_s: float | None = None


def _side_of_result(text: bytes, path: Path) -> Side:
    try:
        head = msgspec.json.decode(text, type=dict[str, Any])
        if isinstance(schema := head.get("schema"), int) and schema > RESULT_SCHEMA:
            raise UserError(f"{path} was written by a newer kneescope (schema {schema}); update to read it.")
        found = msgspec.convert(head, _Result)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UserError(
            f"{path} is neither a run file nor the result of a run ({error}). Give a run file, or what --json wrote of a run."
        ) from None
    if found.kind != "probe":
        kind = found.kind.replace("_", "-")
        raise UserError(f"{path} is the result of {kind}, not of a run; give a run file, or what --json wrote of a run.")
    unit = found.fleet.unit
    gpus = unit.gpus if unit is not None and unit.known else None
    return Side(
        label=called(found.label, found.server.model, found.started_at),
        path=str(path),
        outcome=found.outcome,
        required_met=None if found.required is None else found.required.met,
        held_rps=found.method.hold_rps,
        asked=_asked(found.slo, found.workload.api, found.workload.figures(), found.method),
        server=_server(found.server, gpus),
        knee=found.knee,
        gpus=gpus,
        fleet=found.fleet.sized(),
        steps=tuple(step.judged() for step in found.steps if not step.set_aside),
        started_utc=found.started_at,
        duration_s=found.duration_s,
    )

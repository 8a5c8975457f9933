"""Events made by hand: a run of one step whose plan is known."""

import numpy as np
from numpy.typing import NDArray

from core.config import Lengths, ProbeConfig, Slo, Target, Workload
from core.records import Ending, Phase, RepeatOrder, RequestEnded, RequestFirst, RequestSent, Segment, ServerSample
from core.results import ClientInfo
from core.run.events import Event, RepeatStarted, RunStarted, StepStarted
from core.schedule import draw

START = 500.0
CONFIG = ProbeConfig(
    target=Target(url="http://127.0.0.1:8000"),
    slo=Slo(ttft_s=0.5, tpot_s=0.05),
    workload=Workload(input_tokens=Lengths(median=32), output_tokens=Lengths(median=11)),
)
SEGMENTS = (
    Segment(rate_rps=6.0, duration_s=2.0, role="warmup"),
    Segment(rate_rps=4.0, duration_s=2.0, role="warmup"),
    Segment(rate_rps=4.0, duration_s=10.0, role="measured"),
    Segment(rate_rps=4.0, duration_s=30.0, role="tail"),
)


def started(config: ProbeConfig = CONFIG, t: float = START) -> RunStarted:
    client = ClientInfo(version="0", python="3.11", platform="Linux", hostname_hash="ab", cores=2, transport="")
    return RunStarted(t=t, started_utc="2026-01-01T00:00:00Z", config=config, client=client, command="kneescope probe")


def order(
    number: int = 1,
    *,
    phase: Phase = "search",
    repeat: int = 0,
    start_at: float = START + 1,
    segments: tuple[Segment, ...] = SEGMENTS,
) -> RepeatOrder:
    return RepeatOrder(order=number, phase=phase, step=1, repeat=repeat, seed=11, segments=segments, start_at=start_at)


def opening(plan: RepeatOrder, config: ProbeConfig = CONFIG) -> list[Event]:
    """A run whose first step has just begun."""
    rate_rps = plan.segments[0].rate_rps if plan.phase == "ramp" else 4.0
    return [
        started(config),
        StepStarted(t=START + 0.5, step=1, phase=plan.phase, rate_rps=rate_rps, repeats=1, left_s=100.0),
        RepeatStarted(t=START + 0.75, order=plan),
    ]


def due(plan: RepeatOrder, config: ProbeConfig = CONFIG) -> NDArray[np.float64]:
    return plan.start_at + draw(plan, config.workload).offsets_s


def sent(index: int, t: float, late_s: float = 0.0, number: int = 1) -> RequestSent:
    return RequestSent(order=number, index=index, t_sched=t, t_sent=t + late_s)


def first(index: int, t: float, number: int = 1) -> RequestFirst:
    return RequestFirst(order=number, index=index, t_first=t, first_tokens=1)


def ended(
    index: int,
    t_sched: float,
    t_end: float,
    *,
    ttft_s: float | None = 0.1,
    ending: Ending = "ok",
    was_sent: bool = True,
    number: int = 1,
) -> RequestEnded:
    got = ttft_s is not None
    return RequestEnded(
        order=number,
        index=index,
        t_sched=t_sched,
        t_sent=t_sched if was_sent else None,
        t_first=t_sched + ttft_s if ttft_s is not None else None,
        t_last=t_end if got else None,
        t_end=t_end,
        first_tokens=1 if got else 0,
        output_tokens=11 if got else 0,
        asked_input=32,
        asked_output=11,
        ending=ending,
    )


def request(index: int, t: float, ttft_s: float = 0.1, e2e_s: float = 0.3) -> list[Event]:
    """A request that went well, from its send to its end."""
    return [sent(index, t), first(index, t + ttft_s), ended(index, t, t + e2e_s, ttft_s=ttft_s)]


def sample(
    t: float, *, preemptions: float | None = None, epoch: float = 1.0, tokens: float | None = None, **gauges: float
) -> ServerSample:
    return ServerSample(
        t=t,
        took_s=0.01,
        preemptions_total=preemptions,
        epoch=epoch,
        generation_tokens_total=tokens,
        **gauges,  # type: ignore[arg-type]
    )

"""The end of a standard run with everything that the knee and the fleet draw: three zones, void and curtailed repeats, lengths."""

from msgspec.structs import replace

from core.engine import Limits, StepModel
from core.facts import fact
from core.records import Phase
from core.results import (
    ClosedLoop,
    ClosedRung,
    Diagnosis,
    DiagnosisStep,
    KneeEstimate,
    Percentiles,
    RepeatResult,
    RepeatVerdict,
    SloMargin,
    StepResult,
    StepVerdict,
    TwinReading,
    TwinShift,
    WorstBlock,
)
from core.view import RunView
from tests import builders
from tests.tui import mode_samples, samples


def latencies(p50: float, n: int = 400) -> Percentiles:
    """Percentiles in fixed proportions."""
    return Percentiles(p50=p50, p95=2 * p50, p99=4 * p50, mean=1.2 * p50, max=5 * p50, n=n)


def repeat(
    verdict: RepeatVerdict, interval: tuple[float, float], rate: float, index: int = 0, n: int = 400, reason: str = ""
) -> RepeatResult:
    """A repeat at a rate; the server finishes at most 13 requests a second, and its margins grow around 12.4."""
    return samples.repeat(
        verdict,
        interval,
        index=index,
        reason=reason,
        offered_rps=rate,
        served_rps=min(rate, 13.0),
        goodput_rps=min(rate, 13.0) * interval[1],
        sent=n,
        succeeded=n,
        ttft_s=latencies(0.08 + 0.01 * index, n),
        tpot_s=latencies(0.012, n),
        e2e_s=latencies(0.9, n),
        itl_s=latencies(0.011, n),
        worst_block=WorstBlock(from_s=12.0, to_s=30.0, attainment=interval[0] - 0.06),
        slo_margin=SloMargin(at_target=(1.1 if verdict == "fail" else 0.95) * (rate / 12.4) ** 3, p50=0.3),
    )


def step(number: int, rate: float, phase: Phase, verdict: StepVerdict, reason: str, *repeats: RepeatResult) -> StepResult:
    """A step whose floor is that of its repeats that count."""
    ends = [each.attainment_interval for each in repeats if each.verdict != "void"]
    floor = (min(low for low, _ in ends), min(high for _, high in ends))
    return builders.step(rate, verdict, *repeats, number=number, phase=phase, reason=reason, floor=floor)


STEPS = (
    *samples.RAMP_STEPS,
    step(4, 8.0, "search", "pass", "attainment 98.9 %", repeat("pass", (0.989, 0.989), 8.0, n=80)),
    step(
        5,
        11.3,
        "confirm",
        "pass",
        "all 3 repeats passed",
        repeat("pass", (0.96, 0.96), 11.3),
        repeat("void", (0.5, 0.97), 11.3, 1),
        repeat("pass", (0.981, 0.981), 11.3, 1),
        repeat("pass", (0.975, 1.0), 11.3, 2),
    ),
    step(
        6,
        12.4,
        "confirm",
        "mixed",
        "1 of 3 repeats failed: attainment 93.0 %",
        repeat("pass", (0.965, 0.965), 12.4),
        repeat("fail", (0.7, 0.93), 12.4, 1),
        repeat("pass", (0.955, 0.955), 12.4, 2),
    ),
    step(
        7,
        13.6,
        "tighten",
        "fail",
        "2 of 2 repeats failed: at most 87 %",
        repeat("fail", (0.52, 0.88), 13.6, reason="at most 88 % can still meet the limits"),
        repeat("fail", (0.5, 0.87), 13.6, 1, reason="the queue rises by 4.1 requests a second"),
    ),
)


def finished(peak_rps: float | None = 50.0) -> RunView:
    """Three zones: holds at 11.3, mixed from 12.4, clearly fails at 13.6."""
    view = mode_samples.standard_finished()
    assert view.config is not None
    config = replace(view.config, fleet=replace(view.config.fleet, peak_rps=peak_rps))
    return replace(view, steps=STEPS, config=config)


def running() -> RunView:
    """The third repeat of the tightening, after a pass, a mixed rate and a failing ramp."""
    return replace(mode_samples.standard(), steps=STEPS[:-1])


DIAGNOSIS = Diagnosis(
    cause="slots",
    at_rps=12.4,
    setting="--max-num-seqs",
    sentence="At 12.4 requests/s the number of sequences binds, not memory, most likely (only one repeat failed): the setting to"
    " change is --max-num-seqs",
    advice="Try --max-num-seqs above 16: TPOT has room for more (p95 24 ms of 30 ms).",
    steps=(
        DiagnosisStep(place="client", verdict="clear", text="the client: sends late by 0.9 ms (p99)"),
        DiagnosisStep(place="workload", verdict="clear", text="the prompts: 0 % prefix hits, 64/32 tokens as asked"),
        DiagnosisStep(place="queue", verdict="bound", text="6.0 requests wait on average, 0.2 at 11.3 requests/s"),
        DiagnosisStep(place="stages", verdict="bound", text="TTFT of 500 ms is 78 % queue, 15 % prefill"),
        DiagnosisStep(place="resources", verdict="open", text="the GPU: no exporter was named"),
    ),
    ruled_out=("the client: sends late by 0.9 ms (p99)", "memory: KV peak 41 %"),
)


TWIN = TwinReading(
    knee_rps=12.6,
    se_frac=0.01,
    shifts=(
        *(TwinShift(step=step, repeat=repeat, shift=0.03 - 0.01 * repeat) for step in (5, 6) for repeat in (0, 1, 2)),
        TwinShift(step=7, repeat=0, shift=0.1, cut=True),
    ),
    pass_curve=tuple((at, 0.5 - at) for at in (-0.5, -0.2, 0.0, 0.2, 0.5)),
    measure_s=60.0,
    median_shift=0.02,
    steps=StepModel(a_s=0.014, b_s=4e-4, c_s=1e-7, p_s=6e-5, error_frac=0.02),
    limits=Limits(max_seqs=16, max_batched_tokens=2048, kv_tokens=64_000, seqs_from="told", kv_from="told"),
)
"""A model that explains the windows to 3 %."""


CLOSED = ClosedLoop(
    rungs=(
        ClosedRung(in_flight=8, duration_s=20.1, sent=540, completed=540, good=540, met=True),
        ClosedRung(in_flight=16, duration_s=20.2, sent=620, completed=620, good=610, met=True),
        ClosedRung(in_flight=32, duration_s=20.5, sent=640, completed=630, good=410, met=False),
    ),
    ended=fact("closed_missed", in_flight=32, rate_rps=30.7, attainment=0.64, target=0.95),
)
"""A closed loop that says two to three times what holds."""


def diagnosed(low_rps: float = 11.4, high_rps: float = 13.1) -> RunView:
    """The same with what bound it, and an interval for its knee."""
    view = finished()
    assert view.answer is not None
    knee = replace(view.answer.knee, estimate=KneeEstimate(low_rps=low_rps, high_rps=high_rps, nominal=0.9))
    return replace(view, answer=replace(view.answer, knee=knee, diagnosis=DIAGNOSIS))

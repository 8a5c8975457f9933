"""Views of a run at its moments, built from the view types alone: what the screens have to show without any run behind."""

import asyncio
import math
from typing import Any

from msgspec.structs import replace

from core import prose
from core.config import Lengths, ProbeConfig, Slo, Target, Workload
from core.facts import fact
from core.records import Check, Phase, ServerInfo, ServerSample
from core.results import Answer, Bounds, FailCount, Knee, Percentiles, RepeatResult, RepeatVerdict, StepResult, StepVerdict
from core.view import Line, Part, RepeatView, RunView, SeriesPoint, StepView
from tests import builders
from tests.tui import margin_samples as margins
from tui.frame import Playback

CONFIG = ProbeConfig(
    target=Target(url="http://127.0.0.1:8000", model="tiny"),
    slo=Slo(ttft_s=0.5, tpot_s=0.03, target=0.95),
    workload=Workload(input_tokens=Lengths(median=64), output_tokens=Lengths(median=32)),
)
SERVER = ServerInfo(url="http://127.0.0.1:8000", version="0.32.0", model="tiny", max_model_len=4096, tp=1, pp=1, dp=1)
CHECKS = (
    Check(check="reachable", status="pass", message="http://127.0.0.1:8000 answers in 3 ms."),
    Check(check="version", status="pass", message="vLLM 0.32.0."),
    Check(check="model", status="pass", message="tiny, up to 4,096 tokens."),
    Check(check="streaming", status="pass", message="One request streamed 32 tokens, the first after 41 ms."),
    Check(check="usage", status="pass", message="Token counts come with each event."),
    Check(check="prompt length", status="pass", message="64 tokens asked, 64 counted."),
    Check(check="metrics", status="pass", message="/metrics gives all that is needed."),
    Check(check="KV capacity", status="warn", message="The cache holds 2,048 tokens: about 21 requests of this length at once."),
    Check(check="isolation", status="pass", message="A second prompt hit 0 of 64 tokens of the prefix cache."),
    Check(check="layout", status="pass", message="1 GPU (TP 1, PP 1, DP 1)."),
    Check(check="other traffic", status="pass", message="No request of others within 2 s."),
    Check(check="file descriptors", status="pass", message="1,048,576 may be open."),
    Check(check="limits", status="pass", message="A single request takes 41 ms to the first token, 6.1 ms per token after it."),
)


def _point(t: int, step: int, load: float, *, metrics: bool = True, floor: float | None = None) -> SeriesPoint:
    """One second under `load` (1: at the knee); a smooth wave in place of noise."""
    wave = 1 + 0.25 * math.sin(t / 3) + 0.15 * math.sin(t / 1.3)
    queue = max(0.0, load - 0.9) * 12 * wave
    ttft = 0.045 * wave + 0.05 * queue
    tpot = (0.008 + 0.015 * load) * (1 + 0.1 * (wave - 1))
    return SeriesPoint(
        t_s=float(t),
        step=step,
        ttft_p50_s=ttft,
        ttft_p95_s=ttft * 2.6,
        ttft_p99_s=ttft * 4.2,
        tpot_p50_s=tpot,
        tpot_p95_s=tpot * 1.25,
        tpot_p99_s=tpot * 1.4,
        in_flight=14 * load * wave + queue,
        no_first_token=queue,
        waiting=queue if metrics else None,
        running=min(16.0, 14 * load * wave) if metrics else None,
        kv_usage_frac=min(0.99, 0.55 * load * wave) if metrics else None,
        preemptions_per_s=(2.0 if load > 1.2 and t % 7 == 0 else 0.0) if metrics else None,
        offered_rps=12 * load,
        served_rps=12 * min(load, 1.0),
        floor_lo=None if floor is None else max(0.0, floor - 0.03),
        floor_hi=floor,
    )


def series_of(plan: list[tuple[int, int, float]], *, metrics: bool = True, floor: float = 0.97) -> tuple[SeriesPoint, ...]:
    """Seconds of (step, length, load); the last step carries a running floor that starts after a fifth of it."""
    points: list[SeriesPoint] = []
    for step, length, load in plan:
        for at in range(length):
            live = step == plan[-1][0] and at >= length // 5
            points.append(
                _point(
                    len(points), step, load, metrics=metrics, floor=floor - 0.02 * abs(math.sin(at / 9)) * load if live else None
                )
            )
    return tuple(points)


def _sample(t: float, waiting: float = 1, running: float = 13) -> ServerSample:
    return ServerSample(t=t, took_s=0.004, waiting=waiting, running=running, kv_usage_frac=0.34, preemptions_total=0)


def repeat(verdict: RepeatVerdict, interval: tuple[float, float], **given: Any) -> RepeatResult:
    """A repeat of 480 requests at 12/s, which ended early if its attainment is not one number."""
    planned = 480
    misses = round((1 - interval[1]) * planned)
    facts: dict[str, Any] = {
        "reason": "",
        **dict.fromkeys(("planned", "sent"), planned),
        **dict.fromkeys(("succeeded", "good"), planned - misses),
        "misses": misses,
        "endings": {"ok": planned},
        "lateness_s": Percentiles(p50=0.0002, p95=0.0006, p99=0.0008, mean=0.0003, max=0.001, n=planned),
        "offered_rps": 12.0,
        "served_rps": 11.9,
        "goodput_rps": 11.5,
        "output_tps": 380.0,
        "total_tps": 1140.0,
        "loop_lag_max_s": 0.0041,
        "client_cpu_frac": 0.12,
        "client_memory_peak_bytes": 61_400_000,
        "curtailed": interval[0] < interval[1],
        "duration_s": 6.0 if interval[0] < interval[1] else 58.0,
    }
    return builders.repeat(verdict, interval, **(facts | given))


def judged_step(
    step: int,
    rate: float,
    phase: Phase,
    verdict: StepVerdict,
    floor: tuple[float, float] | None,
    reason: str,
    repeats: tuple[RepeatVerdict, ...],
) -> StepResult:
    results = [repeat(one, floor) if floor else repeat(one, (0.0, 1.0), curtailed=False, duration_s=58.0) for one in repeats]
    return builders.step(rate, verdict, *results, number=step, phase=phase, reason=reason, floor=floor)


RAMP_STEPS = (
    judged_step(1, 4.0, "ramp", "pass", (1.0, 1.0), "all 24 of the segment are within the limits", ("pass",)),
    judged_step(2, 8.0, "ramp", "pass", (0.989, 0.989), "attainment 98.9 %, target 95 %", ("pass",)),
    judged_step(3, 16.0, "ramp", "fail", (0.12, 0.41), "at most 41 % can still meet the limits", ("fail",)),
)
STEPS = (*RAMP_STEPS, judged_step(4, 11.3, "search", "pass", (0.96, 0.96), "attainment 96.0 %, target 95 %, queue flat", ("pass",)))


def _live(
    part: Part,
    elapsed_s: float,
    length_s: float,
    bounds: Bounds,
    *,
    in_flight: int = 52,
    no_first: int = 2,
    decided: str | None = None,
) -> RepeatView:
    return RepeatView(
        index=0,
        bounds=bounds,
        part=part,
        elapsed_s=elapsed_s,
        length_s=length_s,
        sent=1190,
        in_flight=in_flight,
        no_first_token=no_first,
        errors=0,
        lateness_p99_s=0.0008,
        client_cpu_frac=0.118,
        loop_lag_max_s=0.0012,
        decided=decided,
    )


def _base(version: int, now_s: float) -> RunView:
    return RunView(
        version=version,
        now_s=now_s,
        bin_s=1.0,
        started_utc="2026-03-01T14:28:55Z",
        config=CONFIG,
        server=SERVER,
        checks=CHECKS,
        lines=(Line(t_s=max(0.0, now_s - 2), level="info", text="step 4 passed: attainment 96.0 %, target 95 %"),),
    )


def nothing_yet() -> RunView:
    """Before the first event."""
    return RunView(version=0, now_s=0.0, bin_s=1.0)


def preflight(checks: int = 6) -> RunView:
    """In the middle of the checks."""
    line = Line(t_s=1.0, level="info", text="checking the server before any load")
    return replace(_base(checks, 1.5), checks=CHECKS[:checks], lines=(line,))


def ramp() -> RunView:
    """The ramp's third segment."""
    live = _live("measuring", 14.0, 60.0, Bounds(planned=400, good=110, bad=3, open=41))
    current = StepView(step=1, phase="ramp", rate_rps=16.0, repeats_planned=1, finished=(), live=live)
    series = series_of([(0, 3, 0.1), (1, 16, 0.8)])
    return replace(
        _base(30, 19.0),
        load="loading",
        current=current,
        series=series,
        margins=(*margins.RAMP, margins.BEYOND),
        sample=_sample(19),
        sample_age_s=0.3,
        left_s=130.0,
    )


def warm_up() -> RunView:
    """A step whose measured part has not begun."""
    live = _live("warm-up", 3.0, 8.0, Bounds(planned=496, good=0, bad=0, open=0))
    current = StepView(step=5, phase="search", rate_rps=12.4, repeats_planned=1, finished=(), live=live)
    series = (*series_of([(1, 30, 0.7), (3, 8, 1.5), (4, 60, 0.9)]), *(_point(t, 5, 1.0) for t in (98, 99, 100)))
    return replace(
        _base(99, 101.0),
        load="loading",
        current=current,
        steps=STEPS,
        series=series,
        margins=(*margins.RAMP, margins.HOLDS, margins.BEYOND),
        sample=_sample(101),
        sample_age_s=0.2,
        left_s=75.0,
    )


def mid_step(in_flight: int = 52) -> RunView:
    """A step in its measured part, the second of three repeats, with requests open."""
    bounds = Bounds(planned=496, good=232, bad=10, open=12)
    live = replace(_live("measuring", 24.0, 40.0, bounds, in_flight=in_flight), index=1)
    current = StepView(step=5, phase="search", rate_rps=12.4, repeats_planned=3, finished=((0.96, 0.96),), live=live)
    series = series_of([(1, 30, 0.7), (3, 8, 1.5), (4, 60, 0.9), (5, 38, 1.0)])
    return replace(
        _base(140, 136.0),
        load="loading",
        current=current,
        steps=STEPS,
        series=series,
        margins=(*margins.STANDARD[:4], margins.BEYOND),
        sample=_sample(136),
        sample_age_s=0.3,
        left_s=370.0,
    )


def failing() -> RunView:
    """A step that can no longer reach the target, draining."""
    bounds = Bounds(planned=640, good=101, bad=210, open=96)
    live = _live("decided", 21.0, 40.0, bounds, in_flight=131, no_first=88, decided="at most 67 % can still meet the limits")
    current = StepView(step=5, phase="search", rate_rps=16.0, repeats_planned=1, finished=(), live=live)
    series = series_of([(1, 30, 0.7), (4, 60, 0.9), (5, 24, 1.6)], floor=0.5)
    line = Line(t_s=112.0, level="warn", text="step 5 failed early: at most 67 % can still meet the limits (21 s)")
    return replace(
        _base(120, 114.0),
        load="draining",
        current=current,
        steps=STEPS,
        series=series,
        margins=(*margins.RAMP, margins.HOLDS, margins.BEYOND),
        sample=_sample(114, waiting=81, running=16),
        sample_age_s=0.3,
        left_s=41.0,
        lines=(line,),
    )


def no_metrics() -> RunView:
    """Mid-step on a server without metrics."""
    view = mid_step()
    series = series_of([(1, 30, 0.7), (4, 60, 0.9), (5, 38, 1.0)], metrics=False)
    return replace(view, series=series, sample=None, sample_age_s=None, metrics_error="http://127.0.0.1:8000/metrics answers 404")


FAILED = judged_step(5, 13.6, "search", "fail", (0.52, 0.88), "at most 88 % can still meet the limits", ("fail",))
KNEE = Knee(
    pass_rps=11.3,
    pass_repeats=1,
    first_fail_rps=13.6,
    first_fail=FailCount(failed=1, run=1),
    notes=(fact("one_failing_step"), fact("one_repeat")),
)


def finished(peak_rps: float | None = None) -> RunView:
    """The end of a run with a bracket."""
    answer = Answer(outcome="bracket", message="holds at 11.3 requests/s, fails at 13.6 requests/s", knee=KNEE)
    config = replace(CONFIG, fleet=replace(CONFIG.fleet, peak_rps=peak_rps))
    series = series_of([(1, 30, 0.7), (3, 8, 1.5), (4, 60, 0.9), (5, 38, 1.15)])
    return replace(
        _base(170, 152.0),
        config=config,
        steps=(*STEPS, FAILED),
        series=series,
        margins=(*margins.RAMP, margins.HOLDS, margins.FAILS, margins.BEYOND),
        sample=_sample(152, 0, 0),
        sample_age_s=0.4,
        answer=answer,
        duration_s=152.0,
        lines=(Line(t_s=152.0, level="info", text="done: holds at 11.3 requests/s, fails at 13.6 requests/s"),),
    )


def demo_finished() -> RunView:
    """The end of a demo: a simulated replica whose long-run knee is known."""
    view = finished()
    slo = replace(CONFIG.slo, default=True)
    return replace(view, config=replace(CONFIG, slo=slo), server=replace(SERVER, simulated=True), truth_rps=12.1)


def void() -> RunView:
    """A run that ended without an answer."""
    step = judged_step(5, 12.4, "search", "void", None, "the client sent late: p99 212 ms, allowed 25 ms", ("void",))
    answer = Answer(
        outcome="void", message="step 5 was void twice: the client sent late (p99 212 ms, allowed 25 ms)", knee=Knee(pass_rps=11.3)
    )
    view = replace(mid_step(), steps=(*STEPS, step), current=None, load="idle", answer=answer, left_s=None, duration_s=140.0)
    return replace(view, lines=(Line(t_s=140.0, level="error", text=answer.message),))


def refused() -> RunView:
    """Refused before any load."""
    check = Check(
        check="limits",
        status="refuse",
        message="A single request misses TPOT 30 ms (it takes 41 ms): no load can meet it; raise --tpot.",
    )
    answer = Answer(outcome="refused", message=prose.sentence(check.message))
    return replace(_base(20, 4.0), checks=(*CHECKS[:-1], check), answer=answer, lines=())


def hostile() -> RunView:
    """Texts from a server that look like markup or escape codes."""
    view = mid_step()
    line = Line(t_s=135.0, level="error", text="boom [/red] [bold]x[/bold] \x1b[31mred\x1b[0m \x1b]0;title\x07 end")
    return replace(view, server=replace(SERVER, model="[/evil]\x1b[2Jmodel", version="[red]9"), lines=(line,))


ALL = {
    "nothing": nothing_yet,
    "preflight": preflight,
    "ramp": ramp,
    "warm-up": warm_up,
    "mid-step": mid_step,
    "failing": failing,
    "no-metrics": no_metrics,
    "finished": finished,
    "demo": demo_finished,
    "void": void,
    "refused": refused,
    "hostile": hostile,
}


class StandingStill:
    """A recorded run at its end, that does not move."""

    playback = Playback(at_s=60.0, length_s=60.0, speed=1.0, playing=False)

    @property
    def whole(self) -> RunView:
        return mid_step()

    def view(self) -> RunView:
        return mid_step()

    def play(self) -> None: ...

    def hold(self) -> None: ...

    def seek(self, at_s: float) -> None: ...

    def faster(self, factor: float) -> None: ...


async def never() -> Answer:
    """A run that does not end."""
    forever: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
    return await forever

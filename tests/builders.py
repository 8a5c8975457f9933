"""Builders for tests: each makes a whole thing, of which a test says what it is about. A room presets its own by `partial`."""

from typing import Any

from msgspec.structs import replace

from core.config import FleetAsk, Method, ProbeConfig, Safety, Slo, Target, Workload
from core.facts import Code, Fact, Said, parts
from core.judge.search.actions import Step
from core.records import Phase, Segment
from core.results import Percentiles, RepeatResult, RepeatVerdict, StepResult, StepVerdict
from core.workloads import TraceUse

HERE = "http://127.0.0.1:8000"
NONE = Percentiles()
_PARTS: dict[str, type[Any]] = {
    "target": Target,
    "slo": Slo,
    "workload": Workload,
    "method": Method,
    "safety": Safety,
    "fleet": FleetAsk,
}


def config(target: Target | str = HERE, **given: Any) -> ProbeConfig:
    """A probe with nothing said but this: parts of it (`slo=Slo(...)`), and fields of a part (`max_rps=4.0`), which win."""
    parts: dict[str, Any] = {"target": Target(url=target) if isinstance(target, str) else target}
    parts |= {name: given.pop(name) for name in _PARTS.keys() & given.keys()}
    for name, part in _PARTS.items():
        if fields := {field: given.pop(field) for field in part.__struct_fields__ if field in given}:
            parts[name] = replace(parts[name], **fields) if name in parts else part(**fields)
    if given:
        raise TypeError(f"a probe has no {', '.join(given)}")
    return ProbeConfig(**parts)


def repeat(verdict: RepeatVerdict, interval: tuple[float, float] | None = None, **given: Any) -> RepeatResult:
    """A judged repeat of 100 requests, of which nothing else is known. `interval` is its attainment, one number unless given."""
    if interval is None:
        sure = {"pass": 0.99, "fail": 0.5}.get(verdict)
        interval = (0.0, 1.0) if sure is None else (sure, sure)
    facts: dict[str, Any] = {
        "index": 0,
        "order": 1,
        "reason": "made by hand",
        "attainment": interval[0] if interval[0] == interval[1] else None,
        **dict.fromkeys(("planned", "sent", "succeeded"), 100),
        **dict.fromkeys(("good", "misses", "errors"), 0),
        **dict.fromkeys(("error_rate", "offered_rps", "served_rps", "goodput_rps", "output_tps", "total_tps"), 0.0),
        "endings": {},
        "queue": "flat",
        **dict.fromkeys(("lateness_s", "ttft_s", "tpot_s", "e2e_s", "itl_s"), NONE),
    }
    return RepeatResult(verdict=verdict, attainment_interval=interval, **(facts | given))


def step(rate_rps: float, verdict: StepVerdict, *repeats: RepeatResult, number: int = 1, **given: Any) -> StepResult:
    """A judged step with these repeats."""
    facts: dict[str, Any] = {"phase": "search", "reason": "made by hand", "floor": None}
    return StepResult(step=number, rate_rps=rate_rps, verdict=verdict, repeats=repeats, **(facts | given))


def asked_step(rate_rps: float, repeats: int, phase: Phase = "confirm", warmup_s: float = 4.0, **given: Any) -> Step:
    """A step that a search asks for: half of the warm-up above the rate, then half a minute that is measured."""
    segments = (
        Segment(rate_rps=1.5 * rate_rps, duration_s=warmup_s / 2, role="warmup"),
        Segment(rate_rps=rate_rps, duration_s=warmup_s / 2, role="warmup"),
        Segment(rate_rps=rate_rps, duration_s=30.0, role="measured"),
        Segment(rate_rps=rate_rps, duration_s=120.0, role="tail"),
    )
    return Step(phase=phase, rate_rps=rate_rps, repeats=repeats, segments=segments, curtail_pass=False, **given)


def told(said: Said, code: Code) -> Fact:
    """The one fact of this code that stands in what was said."""
    (found,) = (each for each in parts(said) if isinstance(each, Fact) and each.code == code)
    return found


TRACE = TraceUse(
    file="t.csv",
    form="azure",
    unit="date",
    rows=1500,
    from_s=60.0,
    window_s=600.0,
    span_s=3600.0,
    mean_rps=2.5,
    gap_cv=1.5,
)

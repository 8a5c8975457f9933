"""Results made by hand, to feed a search with."""

from collections.abc import Callable

import msgspec

from core.config import Method, ProbeConfig, Safety, Slo, Target
from core.judge.rate_verdicts import step_over, step_verdict
from core.judge.search.actions import Done, Hold, Ramp, Step
from core.judge.search.search import Search
from core.records import Ending, Phase, RequestRecord, Segment
from core.results import Answer, Percentiles, RepeatResult, RepeatVerdict, StepResult, StepVerdict


def config(
    *,
    start_rps: float | None = None,
    max_rps: float | None = None,
    slo: Slo | None = None,
    drain_s: float = 120.0,
    method: Method | None = None,
) -> ProbeConfig:
    return ProbeConfig(
        target=Target(url="http://127.0.0.1:8000"),
        slo=slo or Slo(ttft_s=0.8, tpot_s=None, e2e_s=20.0),
        method=method or Method(start_rps=start_rps, drain_s=drain_s),
        safety=Safety(max_rps=max_rps),
    )


def single(
    e2e_s: float = 1.0, *, ttft_s: float = 0.1, ending: Ending = "ok", error: str | None = None, output_tokens: int = 11
) -> RequestRecord:
    """A single request sent at 1000 s whose first event carries one token."""
    ok = ending == "ok"
    return RequestRecord(
        order=0,
        index=0,
        t_sched=1000.0,
        t_sent=1000.0,
        t_first=1000.0 + ttft_s if ok else None,
        t_last=1000.0 + e2e_s if ok else None,
        t_end=1000.0 + e2e_s,
        first_tokens=1 if ok else 0,
        output_tokens=output_tokens if ok else 0,
        asked_input=512,
        asked_output=output_tokens,
        ending=ending,
        error=error,
    )


def repeat(verdict: RepeatVerdict, index: int = 0) -> RepeatResult:
    attainment = {"pass": 0.99, "fail": 0.5}.get(verdict)
    return RepeatResult(
        index=index,
        order=1,
        verdict=verdict,
        reason="made by hand",
        attainment=attainment,
        attainment_interval=(0.0, 1.0) if attainment is None else (attainment, attainment),
        planned=100,
        sent=100,
        succeeded=100,
        good=0,
        misses=0,
        errors=0,
        error_rate=0.0,
        endings={},
        lateness_s=Percentiles(),
        queue="flat",
        offered_rps=0.0,
        served_rps=0.0,
        goodput_rps=0.0,
        output_tps=0.0,
        total_tps=0.0,
        ttft_s=Percentiles(),
        tpot_s=Percentiles(),
        e2e_s=Percentiles(),
        itl_s=Percentiles(),
    )


def step_result(rate_rps: float, verdict: StepVerdict, *repeats: RepeatVerdict, phase: Phase = "search") -> StepResult:
    """A judged step; its repeats are one of the step's own verdict unless given."""
    verdicts: tuple[RepeatVerdict, ...] = repeats or (("fail" if verdict == "mixed" else verdict),)
    return StepResult(
        step=1,
        rate_rps=rate_rps,
        phase=phase,
        verdict=verdict,
        reason="made by hand",
        floor=None,
        repeats=tuple(repeat(v, i) for i, v in enumerate(verdicts)),
    )


def started(probe: ProbeConfig | None = None, idle_s: float = 1.0) -> Search:
    """A search that has seen three good singles of `idle_s` each."""
    search = Search(probe or config())
    search.observe_singles([single(idle_s, ttft_s=min(0.1, idle_s / 2))] * 3)
    return search


def ramp_of(search: Search, elapsed_s: float = 0.0) -> tuple[Segment, ...]:
    action = search.next(elapsed_s)
    assert isinstance(action, Ramp)
    return action.segments


def step_of(search: Search, elapsed_s: float = 0.0) -> Step:
    action = search.next(elapsed_s)
    assert isinstance(action, Step)
    return action


def answer_of(search: Search, elapsed_s: float = 0.0) -> Answer:
    action = search.next(elapsed_s)
    assert isinstance(action, Done)
    return action.answer


def after_fails(fails: Callable[[float], StepResult]) -> tuple[Answer, list[float]]:
    """The answer of a quick search whose ramp failed at 8/s and whose steps all fail like this, and the rates that these had."""
    search = started()
    ramp_of(search)
    search.observe_ramp(None, 8.0)
    rates_rps = []
    while isinstance(action := search.next(0.0), Step):
        rates_rps.append(action.rate_rps)
        search.observe_step(fails(action.rate_rps), None)
    return answer_of(search), rates_rps


def judged(step: Step, *verdicts: RepeatVerdict) -> StepResult:
    """The result of a step that was asked for, from the verdicts of its repeats."""
    repeats = tuple(repeat(verdict, i) for i, verdict in enumerate(verdicts))
    return step_result(step.rate_rps, step_verdict(repeats)[0], *verdicts, phase=step.phase)


def repeats_of(step: Step, holds: Callable[[float], bool]) -> list[RepeatVerdict]:
    """The verdicts of a step's repeats until they decide it; `holds` is asked for each."""
    results: list[RepeatResult] = []
    while len(results) < step.repeats and not step_over(results, step.stop, step.repeats):
        results.append(repeat("pass" if holds(step.rate_rps) else "fail", len(results)))
    return [result.verdict for result in results]


class Course(msgspec.Struct):
    """A whole search against a server that holds a rate or not: what was run, how long it took, what came out."""

    answer: Answer
    ramp: tuple[Segment, ...]
    steps: list[Step]
    elapsed_s: float
    left_s: list[float]


def run(search: Search, holds: Callable[[float], bool], e2e_s: float, fail_share: float = 0.4) -> Course:
    """Drive a started search to its end; a failing step is cut after `fail_share` of its measured part."""
    elapsed_s, ramp, steps, left_s = 0.0, (), [], []  # type: float, tuple[Segment, ...], list[Step], list[float]
    for _ in range(200):
        action = search.next(elapsed_s)
        left = search.left_s(elapsed_s)
        assert left is not None
        left_s.append(left)
        match action:
            case Done(answer=answer):
                return Course(answer=answer, ramp=ramp, steps=steps, elapsed_s=elapsed_s, left_s=left_s)
            case Ramp(segments=ramp):
                passed_rps = failed_rps = None
                for segment in ramp:
                    elapsed_s += segment.duration_s
                    if not holds(segment.rate_rps):
                        failed_rps = segment.rate_rps
                        break
                    passed_rps = segment.rate_rps
                search.observe_ramp(passed_rps, failed_rps)
            case Step():
                steps.append(action)
                verdicts = repeats_of(action, holds)
                for good in (verdict == "pass" for verdict in verdicts):
                    for segment in action.segments[:-1]:
                        elapsed_s += segment.duration_s * (1 if good or segment.role == "warmup" else fail_share)
                    elapsed_s += e2e_s
                search.observe_step(judged(action, *verdicts), e2e_s if "pass" in verdicts else None)
            case Hold():
                raise AssertionError("nobody asked to hold a rate")
    raise AssertionError("the search does not end")

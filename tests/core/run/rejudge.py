"""Judges a recorded run again, from its logged requests and readings alone, and keeps what it says in golden files.

python -m tests.core.run.rejudge          # compare
python -m tests.core.run.rejudge --write  # after a change of the rules that is meant
"""

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from core import prose
from core.config import ProbeConfig
from core.facts import Said, as_data
from core.judge.diagnosis.diagnosis import diagnose
from core.judge.idle import idle_e2e_s, idle_speed
from core.judge.rate_verdicts import floor_of, held_verdict, rechecked, set_aside, step_verdict
from core.judge.search.bracket import Bracket
from core.judge.verdict import Decision, decide_ramp, decide_step, judge_repeat
from core.judge.window import token_costs
from core.records import (
    LoadDone,
    LoadTick,
    RepeatOrder,
    RequestEnded,
    RequestFirst,
    RequestHeld,
    RequestSent,
    ServerInfo,
    ServerSample,
)
from core.report.why import diagnosis_data
from core.results import Answer, JudgeRules, Knee, RepeatResult, StepResult
from core.run import log as runs
from core.run.conductor import CHECK_S, OrderRun
from core.run.events import (
    Event,
    RepeatJudged,
    RepeatStarted,
    RunStarted,
    SearchRestarted,
    ServerKnown,
    ServerSampled,
    StepJudged,
    WorkloadKnown,
    time_of,
)
from core.run.hold import HeldOrder
from core.run.liveness import Liveness
from core.run.state import State

ROOT = Path(__file__).resolve().parents[3]
RUNS = sorted([*(ROOT / "tests/data/runs").glob("*.jsonl"), ROOT / "screenshots/demo.jsonl"])
GOLDEN = ROOT / "tests/data/runs"

_KEPT = ("index", "verdict", "reason", "attainment_interval", "planned", "sent", "succeeded", "good", "misses", "errors", "queue")
_ALSO = (
    "offered_rps",
    "served_rps",
    "goodput_rps",
    "output_tps",
    "ttft_s",
    "tpot_s",
    "e2e_s",
    "itl_s",
    "margin",
    "worst_block",
    "warnings",
)


@dataclass
class _Repeat:
    """The repeat that is being replayed. It is decided as the session does: ten times a second, from what is known then."""

    order: RepeatOrder
    rules: JudgeRules
    drain_s: float
    idle_e2e_s: float
    held: HeldOrder | None = None
    next_look: float = 0.0
    decision: Decision | None = None
    decided_at: float | None = None
    done: LoadDone | None = None
    segments: list[RepeatResult] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.run = OrderRun(self.order, Liveness(self.idle_e2e_s))

    def look(self, state: State, now: float) -> None:
        if self.decision is not None or now < self.next_look or state.tally is None:
            return
        self.next_look = now + CHECK_S
        if self.held is not None:
            while (result := self.held.judge(self.run, state.tally, now)) is not None:
                self.segments.append(result)
            return
        decide = decide_ramp if self.order.phase == "ramp" else decide_step
        self.decision = decide(state.tally, now, self.rules, self.drain_s)
        self.decided_at = now


class Rejudge:
    """Feed it all events of a run; `golden()` is what the judge makes of them."""

    def __init__(self) -> None:
        self._state = State()
        self._config: ProbeConfig | None = None
        self._server = ServerInfo(url="")
        self._samples: list[ServerSample] = []
        self._repeat: _Repeat | None = None
        self._results: list[RepeatResult] = []
        self._steps: list[StepResult] = []
        self._decision: Decision | None = None
        self._now = 0.0
        self._singles: list[RequestEnded] = []
        self._single_orders: set[int] = set()

    def feed(self, event: Event) -> None:
        self._now = max(self._now, time_of(event))
        match event:
            case RepeatJudged() if self._repeat is not None and self._repeat.held is None:
                self._judge(event, self._repeat)
            case StepJudged(result=result):
                self._close(result)
            case SearchRestarted():
                self._steps = [set_aside(step) for step in self._steps]
            case _:
                pass
        self._state.apply(event)
        match event:
            case RunStarted(config=config):
                self._config = config
            case WorkloadKnown() if self._config is not None:
                self._config = event.known(self._config)
            case ServerKnown(info=info):
                self._server = info
            case ServerSampled(sample=sample):
                self._samples.append(sample)
                if self._repeat:
                    self._repeat.run.liveness.sample(sample)
            case RepeatStarted(order=order):
                self._start(order)
            case RequestEnded(order=number) if number in self._single_orders:
                self._singles.append(event)
            case LoadTick() if self._repeat:
                self._repeat.run.ticks.append(event)
            case LoadDone() if self._repeat:
                self._repeat.done = event
            case RequestHeld() | RequestSent() | RequestFirst() | RequestEnded() if self._repeat and self._repeat.held:
                self._repeat.run.liveness.message(event)
                self._repeat.held.hear(event)
            case _:
                pass
        if self._repeat is not None:
            self._repeat.look(self._state, self._now)

    def golden(self) -> dict[str, Any]:
        assert self._config is not None, "a run begins with its configuration"
        knee = Bracket.of(self._config.method, self._steps, target=self._config.slo.target).knee()
        answer = Answer(outcome="bracket", message="", knee=knee)
        diagnosis = diagnose(self._config.slo, answer, self._steps, self._server, idle_speed(self._singles))
        return {
            "knee": _rounded(_knee(knee)),
            "diagnosis": _rounded(diagnosis_data(diagnosis)),
            "steps": [_step(step) for step in self._steps],
        }

    def _start(self, order: RepeatOrder) -> None:
        if order.phase == "single" and order.repeat > 0:  # the first one is not judged
            self._single_orders.add(order.order)
        if self._config is None or order.phase in ("preflight", "single"):
            return
        del self._samples[:-1]
        method = self._config.method
        rules = JudgeRules(
            slo=self._config.slo,
            curtail_pass=order.phase in ("ramp", "search"),
            reads_whole=order.phase in ("confirm", "tighten") and order.draw is not None,
            costs=token_costs(self._config.workload, idle_speed(self._singles)),
            strict=method.mode == "acceptance",
            stop=self._config.workload.stop,
            gateway=self._config.workload.gateway,
            estimated=self._config.workload.estimated,
        )
        held = None
        if order.phase == "hold":
            held = HeldOrder(order, rules, method.drain_s, self._since, self._server)
        self._repeat = _Repeat(order, rules, method.drain_s, idle_e2e_s(self._singles) or 0.0, held)

    def _since(self, t: float) -> list[ServerSample]:
        older = sum(sample.t <= t for sample in self._samples)
        return self._samples[max(older - 1, 0) :]

    def _judge(self, event: RepeatJudged, repeat: _Repeat) -> None:
        tally = self._state.tally
        assert tally is not None
        at = self._now if repeat.decided_at is None else repeat.decided_at
        result = judge_repeat(tally, repeat.decision, at, repeat.rules, self._samples, repeat.run.ticks, repeat.done, self._server)
        again = event.result.verdict == "unjudged" and repeat.order.phase != "ramp"
        self._results.append(rechecked(result) if again else result)
        self._repeat, self._decision = None, repeat.decision

    def _close(self, logged: StepResult) -> None:
        if self._repeat is not None and self._repeat.held is not None:
            assert self._state.tally is not None
            self._results = [*self._repeat.segments, *self._repeat.held.cut(self._repeat.run, self._state.tally, self._now)]
            self._repeat = None
        verdict, reason = (held_verdict if logged.phase == "hold" else step_verdict)(self._results)
        if logged.phase == "ramp" and self._decision is not None:  # its repeat is unjudged by rule
            verdict = "fail" if self._decision.kind == "fail" else "pass"
            reason = self._decision.reason
        self._steps.append(
            msgspec.structs.replace(
                logged, verdict=verdict, reason=reason, floor=floor_of(self._results), repeats=tuple(self._results)
            )
        )
        self._results = []


def _knee(knee: Knee) -> dict[str, Any]:
    told = {"notes": [prose.text(note) for note in knee.notes], "notes_fact": [as_data(note) for note in knee.notes]}
    return {**msgspec.to_builtins(knee), **told}


def _step(step: StepResult) -> dict[str, Any]:
    fields = msgspec.to_builtins(step)
    return {
        **_rounded({name: fields[name] for name in ("rate_rps", "phase", "verdict", "reason", "floor")}),
        **_rounded(_told(step.reason)),
        "repeats": [
            _rounded({**{name: fields[name] for name in (*_KEPT, *_ALSO)}, **_told(repeat.reason), **_warned(repeat.warnings)})
            for fields, repeat in zip(fields["repeats"], step.repeats, strict=True)
        ],
    }


def _warned(warnings: tuple[Said, ...]) -> dict[str, Any]:
    return {"warnings": [prose.text(each) for each in warnings], "warnings_fact": [as_data(each) for each in warnings]}


def _told(reason: Said) -> dict[str, Any]:
    return {"reason": prose.text(reason), "reason_fact": as_data(reason)}


def _rounded(value: Any) -> Any:
    """Six significant digits: sums may differ in the last bit from machine to machine."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(each) for each in value]
    return value


def golden_path(run: Path) -> Path:
    return GOLDEN / f"{run.stem}.golden.json"


def judged_again(run: Path) -> dict[str, Any]:
    """What the judge of today says about a recorded run."""
    again = Rejudge()
    for event in runs.read_run(run):
        again.feed(event)
    return again.golden()


def main(*, write: bool) -> int:
    differing = 0
    for run in RUNS:
        text = json.dumps(judged_again(run), indent=1, ensure_ascii=False) + "\n"
        path = golden_path(run)
        same = path.exists() and path.read_text() == text
        differing += not same
        print(f"{run.name}: {'as before' if same else 'rewritten' if write else 'differs'}")
        if write and not same:
            path.write_text(text)
    return 0 if write or not differing else 1


if __name__ == "__main__":
    sys.exit(main(write="--write" in sys.argv[1:]))

"""Events that are taken in together make the same view as one by one."""

import random
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.config import ProbeConfig, Slo, Workload
from core.errors import UserError
from core.records import (
    Ending,
    EngineSample,
    LoadTick,
    RepeatOrder,
    RequestEnded,
    RequestFirst,
    RequestHeld,
    RequestSent,
    Segment,
    ServerSample,
    WorkerInfo,
    WorkerTick,
)
from core.results import RepeatVerdict
from core.run import log as runs
from core.run.events import (
    Event,
    Note,
    RepeatJudged,
    RepeatStarted,
    SearchRestarted,
    ServerSampled,
    StepJudged,
    StepStarted,
    WorkersKnown,
    time_of,
)
from core.run.state import State
from core.schedule import Plan, draw
from core.workloads import Gateway, MixPart
from tests import builders
from tests.core.run.both_ways import same
from tests.core.run.events import CONFIG, SEGMENTS, START, order, sample, started

RUNS = [
    *sorted(Path("tests/data/runs").glob("*.jsonl")),
    *sorted(Path("tests/data").glob("schema_*/run.jsonl")),
    *sorted(Path("tests/data/pictures").glob("*.jsonl")),
    Path("screenshots/demo.jsonl"),
]
SLOS = (
    CONFIG.slo,
    Slo(ttft_s=None, tpot_s=0.03),
    Slo(ttft_s=None, tpot_s=None, e2e_s=0.4),
)
FATES = {"ok": 12, "open": 1, "begun": 1, "aborted": 2, "http": 1, "never": 1, "held": 1, "rejected": 1, "empty": 1}
AT_GATEWAY = FATES | {"held": 15, "rejected": 5, "queue_timeout": 2, "waits": 1, "cut": 2}
"""The same behind a gateway's limit that holds most of them back."""
WORKERS = tuple(WorkerInfo(name=name, python="3.11", version="0") for name in ("east", "west", "north"))
MIX = (MixPart(input_tokens=32, output_tokens=11, limits_s={"ttft": 0.2, "tpot": 0.02}), MixPart(input_tokens=64, output_tokens=20))
TALKS = (
    MixPart(input_tokens=32, output_tokens=11, row=0),
    MixPart(input_tokens=48, output_tokens=5, row=0, turn=1, think_s=0.3, limits_s={"ttft": 0.2}),
    MixPart(input_tokens=64, output_tokens=20, row=0, turn=2, think_s=2.0),
    MixPart(input_tokens=24, output_tokens=11, row=1),
    MixPart(input_tokens=40, output_tokens=11, row=2),
    MixPart(input_tokens=56, output_tokens=11, row=2, turn=1),
)
HELD = (
    Segment(rate_rps=4.0, duration_s=2.0, role="warmup"),
    *(Segment(rate_rps=4.0, duration_s=3.0, role="measured") for _ in range(3)),
)


@pytest.mark.parametrize("path", RUNS, ids=lambda path: f"{path.parent.name}-{path.stem}")
@pytest.mark.parametrize("pieces", [1, 7])
def test_recorded_runs(path: Path, pieces: int) -> None:
    same(list(runs.read_run(path)), pieces)


@pytest.mark.parametrize("path", RUNS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_what_is_read_in_short_makes_the_same_view(path: Path) -> None:
    whole, short = State(), State(keeps_records=False)
    whole.apply_all(runs.read_run(path))
    short.apply_all(runs.Reread(path))
    assert short.view(whole.newest_t) == whole.view(whole.newest_t)


def made_request(
    draws: random.Random, index: int, due: float, number: int, asked: tuple[int, int], fates: dict[str, int] = FATES
) -> list[Event]:
    """Whatever may become of a request: some never come, some stay open, some are cut off, and some wait at a gateway."""
    (fate,) = draws.choices(list(fates), list(fates.values()))
    if fate == "never":
        return []
    t_sent = due + draws.choice([0.0, 0.001, -0.0005, 0.3])
    t_first, t_end = t_sent + draws.expovariate(5.0), 0.0
    t_last = t_first + draws.expovariate(3.0)
    t_end = t_last + draws.choice([0.0, 0.01, 0.4])
    wait_s = 0.1 if fate == "held" else 0.0
    connect_s = draws.choice([0.0, 0.0002])
    sent = RequestSent(order=number, index=index, t_sched=due, t_sent=t_sent, connect_s=connect_s, gateway_wait_s=wait_s)
    first = RequestFirst(order=number, index=index, t_first=t_first, first_tokens=draws.choice([1, 2, asked[1]]))
    held = RequestHeld(order=number, index=index, t_sched=due, t=max(due, t_sent - 0.1))
    left = fate not in ("rejected", "queue_timeout", "cut")
    begun = left and fate != "http" and not (fate == "aborted" and draws.random() < 0.5)
    ending: Ending = {"held": "ok", "begun": "ok", "open": "ok", "waits": "ok", "cut": "aborted"}.get(fate, fate)  # type: ignore[assignment]
    ended = RequestEnded(
        order=number,
        index=index,
        t_sched=due,
        t_sent=t_sent if left else None,
        t_first=t_first if begun else None,
        t_last=t_last if begun and fate != "empty" else None,
        t_end=t_end,
        first_tokens=first.first_tokens if begun else 0,
        output_tokens=draws.choice([asked[1], 5]) if begun else 0,
        asked_input=asked[0],
        asked_output=asked[1],
        ending=ending,
        counted_by=draws.choice([None, "usage", "events"]),
    )
    match fate:
        case "open":
            return [sent]
        case "begun":
            return [sent, first]
        case "held":
            return [held, sent, first, ended]
        case "waits":
            return [held]
        case "rejected" | "queue_timeout" | "cut":
            return [held, ended]
        case _:
            return [sent, *([first] if begun and draws.random() < 0.9 else []), ended]


def due_after(before: list[Event], think_s: float) -> tuple[float | None, float | None]:
    """When the turn after these events of the one before it is due, else when it is known that it never will be."""
    end = before[-1] if before else None
    if not isinstance(end, RequestEnded) or end.ending == "aborted":
        return None, None
    return (end.t_end + think_s, None) if end.ending == "ok" else (None, end.t_end)


def made_load(draws: random.Random, plan: RepeatOrder, drawn: Plan, fates: dict[str, int]) -> list[Event]:
    """All requests of an order, later turns of conversations when the answer before them has come."""
    events: list[Event] = []
    before: list[Event] = []
    for index, offset_s in enumerate(drawn.offsets_s.tolist()):
        asked = int(drawn.input_tokens[index]), int(drawn.output_tokens[index])
        due, given_up_at = plan.start_at + offset_s, None
        if drawn.after is not None and drawn.think_s is not None and drawn.after[index] >= 0:
            due, given_up_at = due_after(before, float(drawn.think_s[index]))
        if due is not None:
            before = made_request(draws, index, due, plan.order, asked, fates)
        elif given_up_at is not None:
            before = [never_sent(index, given_up_at, plan.order, asked)]
        else:
            before = []
        events += before
    return events


def never_sent(index: int, t: float, number: int, asked: tuple[int, int]) -> RequestEnded:
    """The turn before it failed."""
    return RequestEnded(
        order=number,
        index=index,
        t_sched=t,
        t_end=t,
        asked_input=asked[0],
        asked_output=asked[1],
        ending="previous_failed",
    )


def made_tick(draws: random.Random, number: int, t: float, workers: int) -> LoadTick:
    told = draws.choice([workers, workers, workers, 0])  # now and then a report does not tell them apart
    own = tuple(
        WorkerTick(in_flight=draws.randint(0, 9), loop_lag_max_s=draws.choice([0.001, 0.2]), cpu_frac=draws.random())
        for _ in range(told)
    )
    return LoadTick(order=number, t=t, in_flight=1, loop_lag_max_s=0.001, cpu_frac=0.1, workers=own)


def made_sample(draws: random.Random, at: int, t: float, replicas: int) -> ServerSample:
    """`at`: how many there were before. Of replicas one fails to answer now and then, and the first one gets most."""
    read = sample(t, waiting=float(at % 3), preemptions=float(at))
    if not replicas:
        return read
    rows = tuple(
        EngineSample(name=f"10.0.0.{each}:8000", requests_success_total=3.0 * at / (1 + each), waiting=float(at % 2), started=1.0)
        for each in range(replicas)
    )
    unread = (rows[-1].name,) if draws.random() < 0.1 else ()
    return msgspec.structs.replace(read, by_engine=rows[: replicas - len(unread)], by_replica=True, unread=unread)


def made_order(
    draws: random.Random,
    config: ProbeConfig,
    plan: RepeatOrder,
    verdicts: list[RepeatVerdict],
    workers: int = 0,
    replicas: int = 0,
) -> list[Event]:
    fates = FATES if config.workload.gateway is None else AT_GATEWAY
    events = made_load(draws, plan, draw(plan, config.workload), fates)
    length_s = sum(segment.duration_s for segment in plan.segments)
    for half_s in range(int(2 * length_s)):
        t = plan.start_at + half_s / 2
        events.append(made_tick(draws, plan.order, t, workers))
        events.append(ServerSampled(t=t, sample=made_sample(draws, half_s, t, replicas)))
    for at, verdict in enumerate(verdicts):
        t = plan.start_at + length_s * (at + 1) / len(verdicts)
        result = builders.repeat(verdict, (0.9, 0.9), index=at if plan.phase == "hold" else plan.repeat)
        events.append(RepeatJudged(t=t, step=plan.step, result=result))
    return sorted(events, key=time_of)  # stable: the events of one request stay in their order


def made_run(draws: random.Random) -> list[Event]:
    mix, gateway = draws.choice([(), MIX, TALKS]), draws.choice([None, Gateway(limit=3)])
    workload: Workload = msgspec.structs.replace(CONFIG.workload, mix=mix, gateway=gateway)
    config = msgspec.structs.replace(CONFIG, slo=draws.choice(SLOS), workload=workload)
    workers, replicas = draws.choice([0, 2, 3]), draws.choice([0, 2, 3])
    events: list[Event] = [started(config)]
    t = START
    if workers:
        events.append(WorkersKnown(t=t, workers=WORKERS[:workers]))
    for number in range(1, draws.randint(2, 4)):
        phase = draws.choice(["search", "ramp", "hold"])
        verdicts: list[RepeatVerdict] = [draws.choice(["pass", "fail", "void"]) for _ in range(3 if phase == "hold" else 1)]
        plan = order(number, phase=phase, start_at=t + 1, segments=HELD if phase == "hold" else SEGMENTS)  # type: ignore[arg-type]
        load = made_order(draws, config, plan, verdicts, workers, replicas)
        events += [StepStarted(t=t + 0.5, step=1, phase=plan.phase, rate_rps=4.0, repeats=1), RepeatStarted(t=t + 0.75, order=plan)]
        cut = draws.choice([len(load), len(load) * 2 // 3])  # what comes later is told after its step
        events += load[:cut]
        t = max(map(time_of, events))
        if draws.random() < 0.8:
            events.append(StepJudged(t=t, result=builders.step(4.0, "pass", builders.repeat("pass", (0.9, 0.9)))))
        if draws.random() < 0.2:
            events.append(SearchRestarted(t=t, since=t - 1))
        events += [Note(t=t, text="between"), *load[cut:]]
        t = max(map(time_of, events)) + draws.choice([0.0, 400.0])  # so that bins are merged, sooner or later
    return events


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), pieces=st.integers(1, 6))
def test_made_runs(seed: int, pieces: int) -> None:
    same(made_run(random.Random(seed)), pieces)


def test_a_request_that_ends_twice_is_refused_as_one_by_one() -> None:
    plan = order()
    again = made_order(random.Random(1), CONFIG, plan, [])
    twice = next(event for event in again if isinstance(event, RequestEnded) and event.ending == "ok")
    state = State(keeps_records=False)
    opening: list[Event] = [
        started(),
        StepStarted(t=START, step=1, phase="search", rate_rps=4.0, repeats=1),
        RepeatStarted(t=START, order=plan),
    ]
    with pytest.raises(ValueError, match="ended twice"):
        state.apply_all([*opening, *again, twice])


def test_a_damaged_line_is_named_by_its_number(tmp_path: Path) -> None:
    lines = RUNS[0].read_bytes().splitlines(keepends=True)
    path = tmp_path / "run.jsonl"
    path.write_bytes(b"".join([*lines[:700], b"{}\n", *lines[700:]]))
    with pytest.raises(UserError, match="line 701 is broken"):
        list(runs.Reread(path))
    path.write_bytes(b"".join(lines)[:-5])
    assert len(list(runs.Reread(path))) == len(lines) - 1


def test_the_file_may_be_removed_after_it_was_opened(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(RUNS[0].read_bytes())
    events = runs.Reread(path)
    n = len(list(events))
    path.unlink()
    assert len(list(events)) == n > 0

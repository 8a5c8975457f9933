"""What a recorded run holds for a model of its server: what was asked, which orders were sent, and what became of each request."""

from collections.abc import Iterable
from pathlib import Path

import msgspec

from core.config import ProbeConfig
from core.records import RepeatOrder, RequestEnded, RequestRecord, ServerInfo, ServerSample
from core.results import Answer, Knee, StepResult
from core.run.events import (
    AnswerFound,
    Event,
    RepeatStarted,
    RunEnded,
    RunStarted,
    SearchRestarted,
    ServerKnown,
    ServerSampled,
    StepJudged,
    WorkloadKnown,
    time_of,
)
from core.run.log import read_run, whole_file


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """`steps` are those that are part of the answer; `orders` and `records` are those since the server was last away. `server`
    None: the run was over before it was known; `ended` False: it was still going, or broke off, and `answer` is None unless it was
    found before that. `duration_s`: to the last thing that was seen of it."""

    config: ProbeConfig
    server: ServerInfo | None
    orders: tuple[RepeatOrder, ...]
    records: tuple[RequestRecord, ...]
    samples: tuple[ServerSample, ...]
    steps: tuple[StepResult, ...]
    knee: Knee
    ended: bool
    answer: Answer | None = None
    label: str | None = None
    started_utc: str | None = None
    utc_offset_s: int | None = None
    duration_s: float = 0.0


def read_recording(path: Path) -> Recording:
    """The run of a file, finished or not. Raises UserError for what is no run file."""
    with whole_file(path):
        return recording(read_run(path))


def recording(events: Iterable[Event]) -> Recording:
    """The events of a run file, put together. Raises ValueError where they do not begin with the start of a run."""
    config, server, knee, ended, open_loop = None, None, Knee(), False, True
    answered: Answer | None = None
    start: RunStarted | None = None
    last = 0.0
    orders: list[RepeatOrder] = []
    records: list[RequestRecord] = []
    samples: list[ServerSample] = []
    steps: list[StepResult] = []
    for event in events:
        last = max(last, time_of(event))
        match event:
            case RunStarted():
                config, start = event.config, event
            case WorkloadKnown() if config is not None:
                config = event.known(config)
            case ServerKnown():
                server = event.info
            case RepeatStarted():
                orders.append(event.order)
            case AnswerFound(answer=answer):
                answered, knee, open_loop = answer, answer.knee, False  # nothing from then on is of a repeat
            case RequestEnded() if open_loop:
                records.append(event)
            case ServerSampled() if open_loop:
                samples.append(event.sample)
            case StepJudged():
                steps.append(event.result)
            case SearchRestarted():
                for each in (orders, records, samples, steps):
                    each.clear()
            case RunEnded():
                answered, knee, ended = event.answer, event.answer.knee, True
            case _:
                pass
    if config is None or start is None:
        raise ValueError("no run begins here")
    return Recording(
        config=config,
        server=server,
        orders=tuple(orders),
        records=tuple(records),
        samples=tuple(samples),
        steps=tuple(steps),
        knee=knee,
        ended=ended,
        answer=answered,
        label=start.label,
        started_utc=start.started_utc,
        utc_offset_s=start.utc_offset_s,
        duration_s=max(last - start.t, 0.0),
    )

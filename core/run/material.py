"""What a recorded run holds for a model of its server: what was asked, which orders were sent, and what became of each request."""

from collections.abc import Iterable

import msgspec

from core.config import ProbeConfig
from core.records import RepeatOrder, RequestEnded, RequestRecord, ServerInfo, ServerSample
from core.results import Knee, StepResult
from core.run.events import (
    Event,
    RepeatStarted,
    RunEnded,
    RunStarted,
    SearchRestarted,
    ServerKnown,
    ServerSampled,
    StepJudged,
)


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """`steps` are those that are part of the answer; `orders` and `records` are those since the server was last away. `server`
    None: the run was over before it was known; `ended` False: it was still going, or broke off."""

    config: ProbeConfig
    server: ServerInfo | None
    orders: tuple[RepeatOrder, ...]
    records: tuple[RequestRecord, ...]
    samples: tuple[ServerSample, ...]
    steps: tuple[StepResult, ...]
    knee: Knee
    ended: bool


def recording(events: Iterable[Event]) -> Recording:
    """The events of a run file, put together. Raises ValueError where they do not begin with the start of a run."""
    config, server, knee, ended = None, None, Knee(), False
    orders: list[RepeatOrder] = []
    records: list[RequestRecord] = []
    samples: list[ServerSample] = []
    steps: list[StepResult] = []
    for event in events:
        match event:
            case RunStarted():
                config = event.config
            case ServerKnown():
                server = event.info
            case RepeatStarted():
                orders.append(event.order)
            case RequestEnded():
                records.append(event)
            case ServerSampled():
                samples.append(event.sample)
            case StepJudged():
                steps.append(event.result)
            case SearchRestarted():
                for each in (orders, records, samples, steps):
                    each.clear()
            case RunEnded():
                knee, ended = event.answer.knee, True
            case _:
                pass
    if config is None:
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
    )

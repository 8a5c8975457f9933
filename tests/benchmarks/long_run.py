"""What a run of hours keeps in memory: 180,000 requests of 256 tokens, told as the load generator tells them.

python -m tests.benchmarks.long_run hold|repeat [REQUESTS]     (about two minutes; Linux)

`hold` keeps one rate, `repeat` is one window of an hour. Everything that the run's own process keeps of a request is in it: its
state, the account of its segments, the conductor's record of the order. Nothing is sent, so it says nothing about the process
that sends.
"""

import argparse
import gc
import os
from collections.abc import Iterator

from core.config import Lengths, Method, ProbeConfig, Slo, Target, Workload
from core.modes import hold_segments, step_segments
from core.records import ChildMessage, GapSummary, LoadTick, RepeatOrder, RequestEnded, RequestFirst, RequestSent, ServerInfo
from core.results import ClientInfo, JudgeRules
from core.run.conductor import OrderRun
from core.run.events import Event, RepeatJudged, RepeatStarted, RunStarted, StepStarted, decode, encode
from core.run.hold import HeldOrder
from core.run.liveness import Liveness
from core.run.state import State
from core.schedule import draw

REQUESTS = 180_000
RATE_RPS = 50.0
TOKENS = 256
TTFT_S, TPOT_S, CLOSE_S = 0.08, 0.02, 0.001
LOOKS = 6
BINS = tuple((bin_, 8) for bin_ in range(300, 332))
"""The gaps of one answer fall into about so many bins."""


def told(order: RepeatOrder, workload: Workload, requests: int) -> Iterator[ChildMessage]:
    """Every message about the order, in order of time; each answer takes 5.2 s, so that 260 are open at once."""
    due = (order.start_at + draw(order, workload).offsets_s[:requests]).tolist()
    e2e_s = TTFT_S + TPOT_S * (TOKENS - 1)
    messages = [(t, 0, i) for i, t in enumerate(due)]
    messages += [(t + TTFT_S, 1, i) for i, t in enumerate(due)] + [(t + e2e_s, 2, i) for i, t in enumerate(due)]
    for t, kind, i in sorted(messages):
        if kind == 0:
            yield RequestSent(order=order.order, index=i, t_sched=t, t_sent=t + 1e-4)
        elif kind == 1:
            yield RequestFirst(order=order.order, index=i, t_first=t, first_tokens=1)
        else:
            yield ended(order.order, i, due[i], t)
            if i % 25 == 0:
                yield LoadTick(order=order.order, t=t, in_flight=260, loop_lag_max_s=1e-4, cpu_frac=0.1)


def ended(order: int, index: int, t_sched: float, t_last: float) -> RequestEnded:
    return RequestEnded(
        order=order,
        index=index,
        t_sched=t_sched,
        t_sent=t_sched + 1e-4,
        t_first=t_sched + TTFT_S,
        t_last=t_last,
        t_end=t_last + CLOSE_S,
        first_tokens=1,
        output_tokens=TOKENS,
        prompt_tokens=512,
        asked_input=512,
        asked_output=TOKENS,
        ending="ok",
        finish_reason="length",
        status=200,
        fingerprint="vllm-0.32.0-9666ce4b",
        gaps=GapSummary(n=TOKENS - 1, sum_s=TPOT_S * (TOKENS - 1), max_s=TPOT_S, bins=BINS),
    )


class LongRun:
    """The pieces of a session that hear of each request, wired as a session wires them."""

    def __init__(self, *, hold: bool) -> None:
        slo, workload = Slo(), Workload(output_tokens=Lengths(median=TOKENS))
        config = ProbeConfig(target=Target(url="http://127.0.0.1:1"), slo=slo, workload=workload, method=Method(hold_rps=RATE_RPS))
        held = hold_segments(40.0, slo, config.safety, RATE_RPS, 5.2, 10.4)
        segments = held if hold else step_segments(3600.0, slo, config.safety, 120.0, RATE_RPS, 5.2, 10.4)
        self.order = RepeatOrder(
            order=1, phase="hold" if hold else "list", step=1, repeat=0, seed=11, segments=segments, start_at=100.0
        )
        self.workload, self.state, self.bytes = workload, State(), 0
        self._run = OrderRun(self.order, Liveness(5.2))
        held_order = HeldOrder(self.order, JudgeRules(slo=slo), 120.0, lambda t: (), ServerInfo(url=""))
        self._held = held_order if hold else None
        client = ClientInfo(version="0", python="3", platform="", hostname_hash="", cores=2, transport="")
        self._apply(RunStarted(t=99.0, started_utc="2026-01-01T00:00:00Z", config=config, client=client, command=""))
        self._apply(StepStarted(t=99.5, step=1, phase=self.order.phase, rate_rps=RATE_RPS, repeats=0))
        self._apply(RepeatStarted(t=99.5, order=self.order))

    def hear(self, message: ChildMessage) -> None:
        """One message, as it comes out of the pipe."""
        fresh = self._apply(message)
        self._run.liveness.message(fresh)
        if isinstance(fresh, LoadTick):
            self._run.ticks.append(fresh)
        if self._held is not None:
            self._held.hear(fresh)
            if isinstance(fresh, RequestEnded):
                self._judge(self._held, fresh.t_end)

    def _judge(self, held: HeldOrder, now: float) -> None:
        tally = self.state.tally
        while tally is not None and (result := held.judge(self._run, tally, now)) is not None:
            self._apply(RepeatJudged(t=now, step=1, result=result))

    def _apply(self, event: Event) -> "ChildMessage":
        line = encode(event)
        self.bytes += len(line)
        fresh = decode(line)
        self.state.apply(fresh)
        return fresh  # type: ignore[return-value]


def rss_mb() -> float:
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=["hold", "repeat"], nargs="?", default="hold")
    parser.add_argument("requests", type=int, nargs="?", default=REQUESTS)
    given = parser.parse_args()
    requests, run = given.requests, LongRun(hold=given.kind == "hold")
    messages = told(run.order, run.workload, requests)
    heard, looks = 0, []
    for message in messages:
        run.hear(message)
        if isinstance(message, RequestEnded):
            heard += 1
            if heard % max(requests // LOOKS, 1) == 0:
                looks.append((heard, rss_mb(), run.bytes))
                print(f"{heard:>8,} requests   {looks[-1][1]:7.1f} MB   run file {run.bytes / 2**20:7.1f} MB", flush=True)
    (n0, mb0, b0), (n1, mb1, b1) = looks[0], looks[-1]
    memory_kb, file_kb = 1024 * (mb1 - mb0) / (n1 - n0), (b1 - b0) / (n1 - n0) / 1024
    print(f"a request more: {memory_kb:.3f} KB of memory, {file_kb:.2f} KB of the run file")


if __name__ == "__main__":
    main()

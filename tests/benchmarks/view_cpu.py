"""CPU of a look at a run's view while many requests are open: a screen takes four a second.

python -m tests.benchmarks.view_cpu [OPEN]     (a few seconds)

A step of 400 requests/s behind ten minutes of others, of which the newest OPEN requests are open, half of them with a first
token. The best of some rounds, each look after another request has come; the window's own account (vectorised) is in it.
"""

import argparse
import time

from core.config import Slo
from core.records import RepeatOrder, RequestFirst, RequestSent, Segment
from core.run.events import RepeatStarted, RunStarted, StepStarted
from core.run.state import State
from core.schedule import draw
from tests.benchmarks.long_run import ended
from tests.builders import config
from tests.core.run.events import started

OPEN, ROUNDS, LOOKS = 2_000, 5, 20
LOOKS_PER_S = 4
RATE_RPS = 400.0
STEP_S, AFTER_S = 60.0, 600.0


def loaded(requests: int) -> tuple[State, float]:
    """A state with so many open requests, and its moment; what was sent before them has ended."""
    begun: RunStarted = started(config(slo=Slo(ttft_s=60.0, tpot_s=0.5, e2e_s=600.0)), t=0.0)
    segments = (
        Segment(rate_rps=1.5 * RATE_RPS, duration_s=5.0, role="warmup"),
        Segment(rate_rps=RATE_RPS, duration_s=5.0, role="warmup"),
        Segment(rate_rps=RATE_RPS, duration_s=STEP_S, role="measured"),
    )
    order = RepeatOrder(order=1, phase="list", step=1, repeat=0, seed=11, segments=segments, start_at=AFTER_S)
    state = State()
    for event in (begun, StepStarted(t=AFTER_S, step=1, phase="list", rate_rps=RATE_RPS, repeats=1)):
        state.apply(event)
    state.apply(RepeatStarted(t=AFTER_S, order=order))
    due = (order.start_at + draw(order, begun.config.workload).offsets_s).tolist()
    for index, t in enumerate(due):
        state.apply(RequestSent(order=1, index=index, t_sched=t, t_sent=t))
        if index < len(due) - requests:
            state.apply(ended(1, index, t, t))
        elif index % 2:
            state.apply(RequestFirst(order=1, index=index, t_first=t, first_tokens=1))
    return state, due[-1] + 1.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("open", type=int, nargs="?", default=OPEN)
    requests = parser.parse_args().open
    state, now = loaded(requests)
    best = float("inf")
    for _ in range(ROUNDS):
        began = time.process_time()
        for look in range(LOOKS):
            state.view(now + look / LOOKS_PER_S)
        best = min(best, (time.process_time() - began) / LOOKS)
    print(f"{requests} open: {1000 * best:.2f} ms a look, {best * LOOKS_PER_S:.1%} of a core at {LOOKS_PER_S} a second")


if __name__ == "__main__":
    main()

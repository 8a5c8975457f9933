"""The replica `queue` is the queue that everything can be checked against, and its demo shows what that says."""

import numpy as np
import pytest

from core import modes
from core.config import Safety
from core.records import ClosedOrder, RepeatOrder
from core.replica.catalog import CATALOG
from core.replica.scheduler import Sequence
from core.schedule import draw, draw_closed
from core.slo import needed_good
from tests.core.judge.queue_model import LIMIT_S, LONG_S, MEAN_S, SHORT_S, SHORT_SHARE, TARGET, starts_and_finishes
from tests.core.replica.timeline import play
from tui.cli.demo import own

QUEUE = CATALOG["queue"]
BASE = own(QUEUE)
IDLE_WARMUP_S = 2.0


def services(prompts: list[int]) -> list[float]:
    return [QUEUE.engine.step_s + QUEUE.extra_s(prompt) for prompt in prompts]


def order(rate_rps: float, repeat: int, seed: int, measure_s: float) -> RepeatOrder:
    segments = modes.step_segments(measure_s, BASE.slo, Safety(), 5.0, rate_rps, MEAN_S, IDLE_WARMUP_S)
    return RepeatOrder(order=1, phase="list", step=1, repeat=repeat, seed=seed, segments=segments, start_at=0.0)


def passes(rate_rps: float, repeat: int, seed: int, measure_s: float) -> bool:
    """One window by Lindley's recursion, with 2 ms for the way."""
    asked = order(rate_rps, repeat, seed, measure_s)
    plan = draw(asked, BASE.workload)
    _, finishes = starts_and_finishes(plan.offsets_s.tolist(), services(plan.input_tokens.tolist()))
    role = [asked.segments[at].role == "measured" for at in plan.segment.tolist()]
    e2e_s = (np.array(finishes) - plan.offsets_s)[role]
    return int(np.count_nonzero(e2e_s + 0.002 <= LIMIT_S)) >= needed_good(e2e_s.size, TARGET)


def test_it_is_that_queue() -> None:
    assert (BASE.slo.e2e_s, BASE.slo.target, QUEUE.engine.max_seqs) == (LIMIT_S, TARGET, 1)
    plan = draw_closed(ClosedOrder(order=1, in_flight=1, duration_s=20.0, seed=5, start_at=0.0), BASE.workload)
    drawn = services(plan.input_tokens.tolist())
    assert {round(service, 9) for service in drawn} == {SHORT_S, LONG_S}
    assert np.mean(np.isclose(drawn, SHORT_S)) == pytest.approx(SHORT_SHARE, abs=0.005)


def test_it_serves_one_at_a_time_first_come_first_served() -> None:
    plan = draw(order(12.0, 0, 3, 30.0), BASE.workload)
    arrivals, prompts = plan.offsets_s.tolist(), plan.input_tokens.tolist()
    served = play(QUEUE.engine, [Sequence(at, n, 1, (), QUEUE.extra_s(n)) for at, n in zip(arrivals, prompts, strict=True)])
    _, finishes = starts_and_finishes(arrivals, services(prompts))
    assert served.finish_s == pytest.approx(finishes)


def test_its_demo_shows_a_pass_at_4_a_fail_at_6_and_19_by_a_closed_loop() -> None:
    shown = QUEUE.shown
    assert shown is not None
    assert shown.closed_loop
    assert shown.rates_rps == (4.0, 6.0)
    results = {rate: [passes(rate, n, shown.seed, shown.measure_s) for n in range(shown.repeats)] for rate in shown.rates_rps}
    assert all(results[4.0])
    assert not any(results[6.0])
    plan = draw_closed(ClosedOrder(order=1, in_flight=1, duration_s=20.0, seed=shown.seed, start_at=0.0), BASE.workload)
    done = int(np.searchsorted(np.cumsum(services(plan.input_tokens[:1000].tolist())), 20.0))
    assert done / 20 == pytest.approx(1 / MEAN_S, rel=0.08)


def test_near_the_knee_a_window_passes_about_every_second_time() -> None:
    passed = np.mean([passes(6.0, repeat, seed, 60.0) for seed in range(200, 240) for repeat in range(3)])
    assert 0.4 < passed < 0.65

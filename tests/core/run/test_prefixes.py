"""Shared prefixes are in the server's cache before anything is judged, and again whenever they may be gone."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from core.config import Lengths, ProbeConfig, Workload
from core.facts import Fact, fact, says
from core.records import RepeatOrder, ServerSample
from core.run.conductor import PREFIXES_AT_ONCE
from core.run.session import Session
from core.run.twin import TwinSide
from core.workloads import COLD, Gateway, Prefix
from tests.core.run.bench import Bench, on_bench, to_the_end
from tests.core.run.fakes import TOKENS, config
from tests.core.run.virtual import now

GROUPS = 20
SHARED = Workload(
    input_tokens=Lengths(median=32), output_tokens=Lengths(median=TOKENS), prefix=Prefix(kind="shared", tokens=16, groups=GROUPS)
)


def probe(**given: Any) -> ProbeConfig:
    return config(**{"workload": SHARED, "rates_rps": (2.0, 3.0), "repeats": 1, "measure_s": 20.0, **given})


def shown(bench: Bench, hit_frac: float) -> None:
    """Let the server's counters show that share of the prompts' tokens as hits, but for the prefixes themselves."""
    plain: Callable[[], ServerSample] = bench.server.sample

    def sample() -> ServerSample:
        seen = plain()
        asked = 32 * (seen.requests_success_total or 0.0)
        return msgspec.structs.replace(seen, prefix_queries_total=asked, prefix_hits_total=hit_frac * asked)

    bench.server.sample = sample  # type: ignore[method-assign]


def phases(bench: Bench) -> list[str]:
    """Those of the orders that were sent, one where several of a kind follow each other."""
    found = [order.phase for order in bench.generator.orders]
    return [phase for at, phase in enumerate(found) if at == 0 or found[at - 1] != phase]


def prefix_orders(bench: Bench) -> list[RepeatOrder]:
    return [order for order in bench.generator.orders if order.phase == "prefix"]


def notes(bench: Bench) -> list[Fact]:
    return [line.text for line in bench.session.state.view(0.0).lines if isinstance(line.text, Fact)]


def test_each_prefix_is_sent_once_before_the_first_rate(path: Path) -> None:
    bench, answer = on_bench(path, to_the_end, probe=probe(), set_up=lambda bench: shown(bench, 0.5))
    assert phases(bench) == ["single", "prefix", "list"]
    orders = prefix_orders(bench)
    assert [group for order in orders for group in order.groups or ()] == list(range(GROUPS))
    assert max(len(order.groups or ()) for order in orders) == PREFIXES_AT_ONCE
    assert answer.outcome == "at_least", answer
    assert notes(bench).count(fact("prefixes_sent", tokens=16, groups=GROUPS)) == 1
    steps = bench.session.state.view(0.0).steps
    assert [step.repeats[0].prefix_hit_frac for step in steps] == pytest.approx([0.5, 0.5])
    assert not any(says(warning, "hits_unseen") for step in steps for warning in step.repeats[0].warnings)


def test_cold_prompts_need_none(path: Path) -> None:
    cold = msgspec.structs.replace(SHARED, prefix=COLD)
    bench, _ = on_bench(path, to_the_end, probe=probe(workload=cold))
    assert phases(bench) == ["single", "list"]


def test_prefixes_keep_to_the_limits_on_the_load(path: Path) -> None:
    bench, answer = on_bench(
        path, to_the_end, probe=probe(rates_rps=(3.0,), max_in_flight=8, max_rps=4.0), set_up=lambda bench: shown(bench, 0.5)
    )
    starts = [order.start_at for order in prefix_orders(bench)]
    assert [len(order.groups or ()) for order in prefix_orders(bench)] == [1] * GROUPS
    assert min(later - earlier for earlier, later in pairwise(starts)) >= 0.25
    assert answer.outcome == "at_least"


def test_no_more_prefixes_are_open_than_may_be(path: Path) -> None:
    bench, _ = on_bench(path, to_the_end, probe=probe(max_in_flight=6), set_up=lambda bench: shown(bench, 0.5))
    assert [len(order.groups or ()) for order in prefix_orders(bench)] == [6, 6, 6, 2]


def test_a_gateway_has_a_place_for_each_prefix(path: Path) -> None:
    """Else it would turn them away, and the first window would find them cold."""
    narrow = msgspec.structs.replace(SHARED, gateway=Gateway(limit=3, queue=0))
    bench, _ = on_bench(path, to_the_end, probe=probe(workload=narrow), set_up=lambda bench: shown(bench, 0.5))
    assert {len(order.groups or ()) for order in prefix_orders(bench)} == {2, 3}
    assert [group for order in prefix_orders(bench) for group in order.groups or ()] == list(range(GROUPS))


def test_a_cache_that_was_emptied_gets_them_again(path: Path) -> None:
    def set_up(bench: Bench) -> None:
        shown(bench, 0.5)
        bench.resets += [httpx.Response(200, json={"success": True}) for _ in range(2)]

    bench, _ = on_bench(path, to_the_end, probe=probe(reset_cache=True), set_up=set_up)
    assert phases(bench) == ["single", "prefix", "list", "prefix", "list"]


def test_a_repeat_without_the_planned_hits_is_done_again_with_prefixes_sent_anew(path: Path) -> None:
    bench, answer = on_bench(path, to_the_end, probe=probe(rates_rps=(2.0,)), set_up=lambda bench: shown(bench, 0.3))
    assert phases(bench) == ["single", "prefix", "list", "prefix", "list"]
    assert answer.outcome == "void"
    assert answer.message is not None
    assert says(answer.message, "hits_off")


def test_a_held_rate_has_them_too(path: Path) -> None:
    bench, _ = on_bench(
        path, to_the_end, probe=config(workload=SHARED, hold_rps=2.0, max_duration_s=120.0), set_up=lambda b: shown(b, 0.5)
    )
    assert phases(bench) == ["single", "prefix", "hold"]


def test_the_twin_is_left_out_and_that_is_said(path: Path) -> None:
    async def start() -> TwinSide | None:
        raise AssertionError("no twin is asked about prefixes")

    def set_up(bench: Bench) -> None:
        shown(bench, 0.5)
        bench.session = Session(
            bench.probe,
            bench.log,
            twin=start,
            start_load=bench._start,
            preflight=bench._preflight,
            scraper=bench._scrape,
            http=lambda: httpx.AsyncClient(transport=httpx.MockTransport(bench._answer), trust_env=False),
            clock=now,
        )

    bench, _ = on_bench(path, to_the_end, probe=config(workload=SHARED, mode="standard", budget_s=300.0), set_up=set_up)
    assert fact("twin_unasked", fact("twin_lacks_hits")) in notes(bench)

"""Which share of prompt tokens should be prefix hits, and which share a server shows."""

import numpy as np
import pytest

from core.config import Lengths, Workload
from core.prefixes import block_tokens, hit_frac, planned_hit_frac, shown_hit_frac
from core.records import RepeatOrder, Segment, ServerInfo, ServerSample
from core.schedule import draw
from core.workloads import COLD, MixPart, Prefix


def shared(tokens: int, groups: int = 4) -> Prefix:
    return Prefix(kind="shared", tokens=tokens, groups=groups)


def server(block: str | None = None) -> ServerInfo:
    return ServerInfo(url="http://x", config={} if block is None else {"block_size": block})


@pytest.mark.parametrize(
    ("tokens", "length", "frac"),
    [
        (256, 512, 0.5),
        (255, 512, 240 / 512),  # the rest of a block is none
        (15, 512, 0.0),
        (512, 512, 496 / 512),  # the last token is always computed
        (512, 513, 512 / 513),
        (512, 100, 96 / 100),
    ],
)
def test_whole_blocks_of_the_prefix_are_hits(tokens: int, length: int, frac: float) -> None:
    assert hit_frac(shared(tokens), [length], 16) == pytest.approx(frac)


def test_long_prompts_weigh_more() -> None:
    assert hit_frac(shared(160), [320, 1280], 16) == pytest.approx(320 / 1600)


def test_nothing_is_planned_of_cold_prompts_or_of_none() -> None:
    assert hit_frac(COLD, [512], 16) is None
    assert hit_frac(shared(160), [], 16) is None
    assert planned_hit_frac(Workload(), server()) is None


@pytest.mark.parametrize(("block", "tokens"), [(None, 16), ("128", 128), ("None", 16), ("0", 16)])
def test_blocks_are_as_the_server_says(block: str | None, tokens: int) -> None:
    assert block_tokens(server(block)) == tokens
    assert block_tokens(None) == 16


def test_the_plan_of_a_fixed_length_by_the_blocks_of_the_server() -> None:
    workload = Workload(input_tokens=Lengths(median=1000), prefix=shared(500))
    assert planned_hit_frac(workload, None) == pytest.approx(0.496)
    assert planned_hit_frac(workload, server("128")) == pytest.approx(0.384)


def test_the_plan_of_a_mix_is_by_weight() -> None:
    mix = (MixPart(input_tokens=400, output_tokens=1, weight=3.0), MixPart(input_tokens=1600, output_tokens=1))
    assert planned_hit_frac(Workload(mix=mix, prefix=shared(160)), None) == pytest.approx(4 * 160 / (3 * 400 + 1600))


def test_the_plan_of_drawn_lengths_is_that_of_what_is_drawn() -> None:
    workload = Workload(input_tokens=Lengths(median=500, sigma=0.9, maximum=4096, minimum=8), prefix=shared(512))
    segment = Segment(rate_rps=100.0, duration_s=2000.0, role="measured")
    plan = draw(RepeatOrder(order=1, phase="list", step=1, repeat=0, seed=3, segments=(segment,), start_at=0.0), workload)
    assert planned_hit_frac(workload, None) == pytest.approx(hit_frac(workload.prefix, plan.input_tokens.tolist(), 16), abs=0.003)
    assert np.mean(plan.input_tokens) > 600


def reading(queries: float | None, hits: float | None, epoch: float = 1.0) -> ServerSample:
    return ServerSample(t=1.0, took_s=0.0, prefix_queries_total=queries, prefix_hits_total=hits, epoch=epoch)


def test_what_two_readings_show() -> None:
    before = reading(1000, 100)
    assert shown_hit_frac(before, reading(2000, 700)) == pytest.approx(0.6)
    for after in (None, before, reading(None, None), reading(2000, 50), reading(2000, 700, epoch=2.0)):
        assert shown_hit_frac(before, after) is None
    assert shown_hit_frac(None, before) is None

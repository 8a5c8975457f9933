"""What the load generator says of itself, and what the ramp tried, on the ramp screen."""

import re
from typing import Any

import pytest
from msgspec.structs import replace

from core.results import Bounds, Percentiles
from core.view import RampSegment, RunView
from tests.tui import samples
from tests.tui.screen import rendered, settle, shown, text_of
from tui.widgets import client_panel
from tui.widgets.client_panel import late_piece


@pytest.mark.parametrize(
    ("p99_s", "text", "role"), [(0.039, "late p99 39.0 ms", "plain"), (0.0551, "▲ late p99 55.1 ms, limit 160 ms", "strong")]
)
def test_lateness_is_told_and_then_warned_of(p99_s: float, text: str, role: str) -> None:
    piece = late_piece(p99_s, 0.8)
    assert (piece.text, piece.role) == (text, role)


@pytest.mark.parametrize("ttft_limit_s", [0.8, None])
def test_lateness_that_makes_a_repeat_void_is_an_alarm(ttft_limit_s: float | None) -> None:
    piece = late_piece(0.514, ttft_limit_s)
    assert piece.text == f"✘ late p99 514 ms, limit {160 if ttft_limit_s else 100} ms → void"
    assert (piece.role, piece.rank) == ("breaks", 0)
    assert late_piece(None, ttft_limit_s).role == "plain"


@pytest.mark.parametrize("size", [(60, 16), (80, 24), (120, 36), (200, 60)])
async def test_how_the_client_does_is_always_on_the_screen(size: tuple[int, int]) -> None:
    text = await rendered(samples.mid_step(), size)
    for fact in ("client CPU 12 %", "lag 1.20 ms", "late p99 0.800 ms", "12.4 req/s"):
        assert fact in text


@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
async def test_what_the_client_says_of_itself_stands_together(size: tuple[int, int]) -> None:
    text = await rendered(samples.mid_step(), size)
    assert re.search(r"^ client CPU 12 % +lag 1\.20 ms +late p99 0\.800 ms +left ~6 min", text, re.MULTILINE)


async def test_a_client_that_tells_nothing_of_itself_is_not_made_to() -> None:
    text = await rendered(with_client(client_cpu_frac=None, loop_lag_max_s=None), (120, 36))
    assert "client CPU" not in text
    assert "lag" not in text


@pytest.mark.parametrize(
    ("facts", "told", "role"),
    [
        ({"client_cpu_frac": 0.899}, "client CPU 90 %", "plain"),
        ({"client_cpu_frac": 0.92}, "▲ client CPU 92 %", "strong"),
        ({"loop_lag_max_s": 0.1}, "lag 100 ms", "plain"),
        ({"loop_lag_max_s": 0.11}, "▲ lag 110 ms, limit 100 ms", "strong"),
        ({"loop_lag_max_s": 0.11, "stalled": True}, "✘ lag 110 ms and again, limit 100 ms → void if it goes on", "breaks"),
    ],
)
def test_a_client_near_its_limits_is_told(facts: dict[str, Any], told: str, role: str) -> None:
    step = with_client(**facts).current
    assert step is not None
    assert step.live is not None
    assert (told, role) in [(piece.text, piece.role) for piece in client_panel.live(step.live, samples.CONFIG.slo.ttft_s)]


async def test_what_the_client_did_gives_way_to_the_reasons() -> None:
    head = re.compile("verdict +CPU +lag +late +reason")
    row = re.compile(r"11\.3 +✔ +96\.0 % +✔ PASS +12 % +4\.1 ms +0\.8 ms +attainment 96\.0")
    assert head.search(await rendered(samples.mid_step(), (200, 60)))
    assert row.search(await rendered(samples.mid_step(), (200, 60)))
    async with shown(samples.mid_step(), (120, 36)) as (app, pilot, _):
        assert not head.search(text_of(app))
        await pilot.press("8")
        await settle(app, pilot)
        assert row.search(text_of(app))


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        ({"client_cpu_frac": 0.95}, "▲ 95 % 4.1 ms 0.8 ms"),
        ({"loop_lag_max_s": 0.2}, "▲ 12 % 200 ms 0.8 ms"),
        ({"lateness_s": Percentiles(p99=0.2, max=0.3)}, "✘ 12 % 4.1 ms 200 ms"),
    ],
)
async def test_a_finished_step_whose_client_was_near_its_limits_is_marked(facts: dict[str, Any], told: str) -> None:
    step = samples.STEPS[-1]
    bad = replace(step, repeats=(replace(step.repeats[0], **facts),))
    text = await rendered(replace(samples.mid_step(), steps=(*samples.STEPS[:-1], bad)), (200, 60))
    assert told in text


def with_ramp(*rates: tuple[float, bool]) -> RunView:
    bounds = Bounds(planned=40, good=40, bad=0, open=0)
    ramp = tuple(RampSegment(rate_rps=rate, bounds=bounds, held=held) for rate, held in rates)
    return replace(samples.mid_step(), steps=samples.STEPS[2:], ramp=ramp)


async def test_every_rate_of_the_ramp_has_a_row() -> None:
    view = with_ramp((4.0, True), (8.0, True), (16.0, False), (32.0, False))
    for size in ((160, 50), (200, 60)):
        text = await rendered(view, size)
        assert re.search(r"32\.0 +ramp +100 % +· UNJUDGED", text)
        assert re.search(r"8\.00 +ramp +100 % +✔ PASS", text)
        assert len(re.findall(r"16\.0 +ramp", text)) == 1, "the one that ended the ramp has its verdict already"


async def test_the_rates_of_the_ramp_push_out_no_step() -> None:
    view = with_ramp(*((20.0 + at, False) for at in range(20)))
    for size in ((120, 36), (100, 30)):
        text = await rendered(view, size)
        for rate in ("16.0", "12.4", "11.3"):
            assert re.search(rf"[✔✘…]{rate}\b", text), size


def with_client(**facts: Any) -> RunView:
    step = samples.mid_step().current
    assert step is not None
    assert step.live is not None
    return replace(samples.mid_step(), current=replace(step, live=replace(step.live, **facts)))

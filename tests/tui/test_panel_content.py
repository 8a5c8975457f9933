"""What the plot panels show of a view: titles that answer by themselves, axes that do not jump."""

import re

import pytest
from msgspec.structs import replace

from core.records import EngineSample, ServerSample
from core.results import Bounds
from core.view import Outcomes, RunView, SeriesPoint
from tests.tui import samples
from tests.tui.screen import rendered, settle, shown, text_of
from tui.draw.plots import Plot
from tui.widgets import panel_content
from tui.widgets.plot_view import PanelContent


def title(content: PanelContent) -> str:
    return "  ".join(piece.text for piece in content.title)


def body(content: PanelContent) -> Plot:
    assert isinstance(content.body, Plot)
    return content.body


def with_series(*points: SeriesPoint, now_s: float = 100.0) -> RunView:
    return replace(samples.mid_step(), series=points, now_s=now_s)


def test_latency_title_has_percentiles_and_limit() -> None:
    view = with_series(SeriesPoint(t_s=98, step=1, ttft_p50_s=0.061, ttft_p95_s=0.31, ttft_p99_s=0.54))
    content = panel_content.ttft(view)
    assert title(content) == "3 TTFT  last 1 s p95 310 ms  p99 540 ms  p50 61.0 ms  limit 500 ms"
    roles = {piece.text.split()[-3]: piece.role for piece in content.title if "p9" in piece.text}
    assert roles == {"p95": "plain", "p99": "breaks"}
    lines = {curve.name: curve.shade for curve in body(content).curves}
    assert lines == {"p95": "first", "p99": "second", "p50": "third"}
    assert body(content).curves[-1].name == "p95", "what is judged lies over the others"


def test_a_value_from_long_ago_is_not_shown_as_current() -> None:
    view = with_series(SeriesPoint(t_s=80, step=1, tpot_p95_s=0.01), SeriesPoint(t_s=98, step=1))
    assert "none for 19 s" in title(panel_content.tpot(view))
    assert "19 s ago p95 10.0 ms" in title(panel_content.tpot(replace(view, load="idle")))


def test_where_most_requests_have_not_ended_that_leads_the_percentiles_of_those_that_have() -> None:
    drowning = with_series(
        SeriesPoint(t_s=98, step=1, no_first_token=40),
        SeriesPoint(t_s=99, step=1, no_first_token=48, offered_rps=12, served_rps=2, ttft_p95_s=0.2, tpot_p95_s=0.01),
    )
    assert "3 TTFT  48 wait for a first token  last 1 s p95 200 ms" in title(panel_content.ttft(drowning))
    assert drowning.current is not None
    assert drowning.current.live is not None
    live = replace(drowning.current.live, bounds=Bounds(planned=500, good=10, bad=30, open=20, overdue=30))
    late = replace(drowning, current=replace(drowning.current, live=live))
    assert "4 TPOT  30 late and not ended  last 1 s p95 10.0 ms" in title(panel_content.tpot(late))
    assert "wait" not in title(panel_content.ttft(samples.mid_step()))


def test_the_limit_is_a_rule_inside_the_axis_and_the_axis_stands_still() -> None:
    slow = with_series(SeriesPoint(t_s=1, step=1, ttft_p95_s=0.05))
    slower = with_series(SeriesPoint(t_s=1, step=1, ttft_p95_s=0.06))
    assert body(panel_content.ttft(slow)).rule == 0.5
    assert body(panel_content.ttft(slow)).y_range == body(panel_content.ttft(slower)).y_range == (0.0, 0.75)
    huge = body(panel_content.ttft(with_series(SeriesPoint(t_s=1, step=1, ttft_p95_s=60.0))))
    assert huge.y_range == (0.0, 2.0)
    assert (2.0, "> 2 s") in huge.y_labels


def test_the_open_bin_waits_for_its_end() -> None:
    points = (SeriesPoint(t_s=98, step=1, kv_usage_frac=0.3), SeriesPoint(t_s=99, step=1, kv_usage_frac=0.9))
    half = replace(with_series(*points), now_s=99.5)
    assert len(body(panel_content.kv(half)).curves[0].points) == 1
    assert len(body(panel_content.kv(replace(half, now_s=100.0))).curves[0].points) == 2
    assert len(body(panel_content.kv(replace(half, answer=samples.finished().answer))).curves[0].points) == 2


@pytest.mark.parametrize(("now_s", "end"), [(3, 60), (61, 90), (181, 240), (241, 360), (301, 360), (8000, 10800)])
def test_the_time_axis_grows_in_steps(now_s: float, end: float) -> None:
    assert panel_content.time_range(replace(samples.nothing_yet(), now_s=now_s)) == (0.0, end)


def test_the_time_axis_fits_a_run_that_has_ended() -> None:
    assert panel_content.time_range(samples.finished()) == (0.0, 152.0)


def test_every_second_step_is_shaded() -> None:
    series = [SeriesPoint(t_s=float(t), step=step) for t, step in enumerate((1, 1, 3, 3, 4))]
    assert panel_content.bands(series, 1.0) == ((2.0, 4.0),)
    assert panel_content.bands([], 1.0) == ()


def test_the_bands_are_named_by_their_rates_and_a_pause_belongs_to_what_was_before_it() -> None:
    sent = [(1, 2.0), (1, 4.0), (1, None), (2, 3.0), (2, 3.0)]
    outcomes = tuple(Outcomes(t_s=float(t), step=step, rate_rps=rate) for t, (step, rate) in enumerate(sent))
    view = replace(with_series(), outcomes=outcomes)
    assert panel_content.heads(view) == (
        ((0.0, 1.0, "2.00"), (1.0, 3.0, "4.00"), (3.0, 5.0, "3.00")),
        ((0.0, 3.0, "2.00–4.00"), (3.0, 5.0, "3.00")),  # noqa: RUF001
    )
    assert panel_content.heads(with_series()) == ((), ())


def test_an_axis_never_goes_back_when_a_peak_is_over() -> None:
    peak = SeriesPoint(t_s=1, step=1, in_flight=130, ttft_p95_s=0.9, offered_rps=40)
    calm = tuple(SeriesPoint(t_s=float(t), step=1, in_flight=4, ttft_p95_s=0.05, offered_rps=4) for t in range(2, 90))
    for content_of in (panel_content.queue, panel_content.ttft, panel_content.rate):
        assert body(content_of(with_series(peak))).y_range == body(content_of(with_series(peak, *calm))).y_range


@pytest.mark.parametrize("number", ["3", "4", "5", "6", "7"])
async def test_alone_a_plot_has_four_labels_on_each_axis(number: str) -> None:
    async with shown(samples.mid_step(), (120, 36)) as (app, pilot, _):
        await pilot.press(number)
        await settle(app, pilot)
        rows = text_of(app).splitlines()
        inside = [row.strip("│ ")[:8] for row in rows[7:-4]]
        assert sum(any(char.isdigit() for char in label) for label in inside) >= 4
        assert len(re.findall(r"\d:\d\d", rows[-4])) >= 4, rows[-4]


def test_without_metrics_nothing_of_the_server_is_zero() -> None:
    view = samples.no_metrics()
    assert "not available" in title(panel_content.kv(view))
    assert panel_content.kv(view).body == "server metrics not available: http://127.0.0.1:8000/metrics answers 404"
    assert "server waiting not available" in title(panel_content.queue(view))
    assert [curve.name for curve in body(panel_content.queue(view)).curves if any(y is not None for _, y in curve.points)] == [
        "in flight",
        "no token",
    ]


def test_what_waits_at_a_gateway_leads_the_queue_where_there_is_one() -> None:
    view = samples.mid_step()
    assert view.current is not None
    assert view.current.live is not None
    held = replace(view, current=replace(view.current, live=replace(view.current.live, at_gateway=17)))
    assert "5 queue  waiting at the gateway 17  no token yet" in title(panel_content.queue(held))
    assert "gateway" not in title(panel_content.queue(view))


def test_preemptions_are_marks_and_stand_in_the_title() -> None:
    view = with_series(SeriesPoint(t_s=97, step=1, kv_usage_frac=1.0, preemptions_per_s=2.0), now_s=98.0)
    content = panel_content.kv(view)
    assert title(content) == "6 KV cache  100 %  preemptions 2.00/s"
    assert body(content).marks == (97.0,)


def test_an_old_reading_is_called_old() -> None:
    view = replace(samples.mid_step(), sample_age_s=12.0)
    assert "reading 12 s old" in title(panel_content.kv(view))
    assert "old" not in title(panel_content.kv(samples.mid_step()))


def test_a_silent_server_is_said_everywhere_its_numbers_are() -> None:
    silent = replace(samples.mid_step(), sample_age_s=12.0)
    assert "reading 12 s old" in title(panel_content.kv(silent))
    assert "reading 12 s old" in title(panel_content.queue(silent))
    assert panel_content.age_text(replace(silent, sample_age_s=1.0)) is None
    assert panel_content.age_text(replace(silent, answer=samples.finished().answer)) is None, "the end is not stale"


async def test_panels_of_a_silent_server_step_back_and_come_forward_again() -> None:
    silent = replace(samples.mid_step(), sample_age_s=12.0)
    async with shown(silent) as (app, pilot, held):
        opacity = {name: app.screen.query_one(f"#{name}").styles.opacity for name in ("ttft", "queue", "kv")}
        assert opacity["queue"] == opacity["kv"] < opacity["ttft"] == 1
        held.now = replace(samples.mid_step(), version=silent.version + 1)
        await settle(app, pilot)
        assert app.screen.query_one("#kv").styles.opacity == 1
    assert "KV 12 s old" in await rendered(silent, (80, 24))


@pytest.mark.parametrize(("size", "seen"), [((120, 36), False), ((200, 60), True)])
async def test_the_rate_panel_is_there_where_it_is_wide_and_when_it_is_asked_for(size: tuple[int, int], seen: bool) -> None:
    async with shown(samples.mid_step(), size) as (app, pilot, _):
        assert ("7 rate" in text_of(app)) is seen
        await pilot.press("7")
        await settle(app, pilot)
        assert "7 rate  last 1 s due 12.0 req/s  finished 12.0 req/s" in text_of(app)
        assert "5 queue" not in text_of(app)


def fleet(*rows: EngineSample, unread: tuple[str, ...] = ()) -> ServerSample:
    return ServerSample(
        t=1.0,
        took_s=0.01,
        running=sum(row.running or 0.0 for row in rows),
        waiting=sum(row.waiting or 0.0 for row in rows),
        kv_usage_max_frac=0.9,
        by_engine=rows,
        by_replica=True,
        unread=unread,
    )


ROWS = tuple(
    EngineSample(name=f"r{n}:8000", running=running, waiting=waiting, kv_usage_frac=kv)
    for n, (running, waiting, kv) in enumerate(((4.0, 0.0, 0.1), (12.0, 9.0, 0.9), (7.0, 3.0, 0.4), (7.0, 1.0, 0.2)))
)


def test_the_panels_of_a_fleet_are_sums_and_how_they_are_spread() -> None:
    view = replace(with_series(SeriesPoint(t_s=98, step=1, kv_usage_frac=0.4)), sample=fleet(*ROWS))
    assert view.current is not None
    assert view.current.live is not None
    live = replace(view.current.live, busiest_share=1.312)
    view = replace(view, current=replace(view.current, live=live))
    queue = title(panel_content.queue(view))
    assert "waiting 13 (0 / 2 / 9 of 4 replicas)  running 30 (4 / 7 / 12)  busiest 1.3x its share" in queue
    assert "6 KV cache  40.0 % (10 / 30 / 90 %)" in title(panel_content.kv(view))
    ranks = {piece.text.split()[0]: piece.rank for piece in panel_content.queue(view).title}
    assert ranks["waiting"] < ranks["running"] < ranks["busiest"] < ranks["no"]


def test_replicas_that_are_late_are_counted_beside_the_others() -> None:
    view = replace(samples.mid_step(), sample=fleet(*ROWS[:3], unread=("r3:8000",)))
    assert "of 3 replicas, 1 late)" in title(panel_content.queue(view))


def test_engines_of_one_server_are_not_spread() -> None:
    view = replace(samples.mid_step(), sample=replace(fleet(*ROWS), by_replica=False))
    assert "(" not in title(panel_content.queue(view))
    assert "server waiting 13" in title(panel_content.queue(view))

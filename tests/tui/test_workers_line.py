"""The machines that send, on the screen: each in its place while all have room, and else the worst first."""

import re

import pytest
from msgspec.structs import replace

from core.view import RunView
from tests.tui import samples, worker_samples
from tests.tui.screen import rendered, settle, shown, text_of
from tui.app import Name
from tui.widgets.workers_line import WorkersLine, lines_of

SIZES = [(60, 16), (80, 24), (120, 36), (200, 60)]


def told(view: RunView, width: int, rows: int = 1) -> list[str]:
    """Every machine, and what else stands in the line."""
    return [piece.text for line in lines_of(view, width, rows) for piece in line]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("on", ["ramp", "knee", "fleet"])
async def test_nothing_is_shown_where_this_machine_alone_sends(size: tuple[int, int], on: Name) -> None:
    async with shown(samples.mid_step(), size, on=on) as (app, _, _):
        assert not app.screen.query_one(WorkersLine).display
        assert "machine" not in text_of(app)


@pytest.mark.parametrize("size", SIZES)
async def test_a_machine_that_is_too_late_is_an_alarm_at_every_size(size: tuple[int, int]) -> None:
    text = await rendered(worker_samples.mid_step(12), size)
    assert re.search(r"^ 12 machines.*✘ node-2 .*212 ms.*→ void", text, re.MULTILINE)


async def test_it_goes_with_the_end_of_the_run() -> None:
    async with shown(worker_samples.mid_step(), (120, 36)) as (app, pilot, held):
        assert app.screen.query_one(WorkersLine).display
        held.now = replace(samples.finished(), workers=worker_samples.machines(3))
        await settle(app, pilot)
        assert not app.screen.query_one(WorkersLine).display


def test_each_stands_in_its_place_while_all_have_room() -> None:
    assert told(worker_samples.mid_step(), 200) == [
        "3 machines",
        "node-1 sent 397, late p99 0.800 ms, CPU 12 %",
        "✘ node-2 sent 396, late p99 212 ms, CPU 13 %, limit 100 ms → void",
        "node-3 sent 397, late p99 1.00 ms, CPU 14 %",
    ]


def test_fewer_words_before_fewer_machines() -> None:
    assert told(worker_samples.mid_step(3, {}), 112) == [
        "3 machines: sent, late, CPU",
        "node-1 397 0.800 ms 12 %",
        "node-2 396 0.900 ms 13 %",
        "node-3 397 1.00 ms 14 %",
    ]


@pytest.mark.parametrize(("width", "rows"), [(58, 1), (78, 1), (118, 1), (198, 2)])
def test_of_many_the_worst_come_first_and_the_rest_are_counted(width: int, rows: int) -> None:
    view = worker_samples.mid_step(50, {30: 0.25, 7: 0.06})
    head, *names, more = told(view, width, rows)
    assert head.startswith("50 machines")
    assert names[0].startswith("✘ node-31 ")
    assert [name.startswith("▲ node-8 ") for name in names[1:2]] == [True] * (len(names) > 1)
    assert more == f"+{50 - len(names)} more"
    assert all(sum(map(len, (p.text for p in line))) + 3 * (len(line) - 1) <= width for line in lines_of(view, width, rows))


def test_one_that_stalls_or_has_no_processor_left_is_marked() -> None:
    view = worker_samples.mid_step(2, {})
    assert view.current is not None
    assert view.current.live is not None
    first, second = view.current.live.workers
    live = replace(view.current.live, workers=(replace(first, client_cpu_frac=0.95), replace(second, stalled=True)))
    _, one, two = told(replace(view, current=replace(view.current, live=live)), 200)
    assert one == "▲ node-1 sent 397, late p99 0.800 ms, CPU 95 %"
    assert two == "✘ node-2 sent 396, late p99 0.900 ms, CPU 13 %, stalls → void"


def test_before_the_load_it_tells_what_they_are_and_how_well_their_clocks_are_known() -> None:
    assert told(worker_samples.checking(2), 198) == [
        "2 machines",
        "node-1 8 cores, clock within 0.100 ms",
        "node-2 8 cores, clock within 0.200 ms",
    ]


def test_a_name_from_outside_is_cleaned_and_cut_at_its_beginning() -> None:
    view = worker_samples.checking(1)
    strange = replace(view.workers[0], name="ray-\x1b[31mworker-of-the-cluster-7")
    (_, name) = told(replace(view, workers=(strange,)), 40)
    assert "\x1b" not in name
    assert name.startswith("…")
    assert "-of-the-cluster-7" in name

"""The lines at the top: what is probed with which workload, and how far the run is."""

import pytest
from msgspec.structs import replace

from core.config import Lengths, Workload
from core.facts import fact
from core.view import Progress, RunView
from tests.tui import samples
from tests.tui.screen import rendered
from tui.app import Name
from tui.widgets import status
from tui.widgets.pieces import keep_end

SIZES = [(60, 16), (80, 24), (100, 30), (120, 36), (200, 60)]


def with_model(name: str) -> RunView:
    return replace(samples.mid_step(), server=replace(samples.SERVER, model=name))


@pytest.mark.parametrize("on", ["ramp", "knee", "fleet"])
@pytest.mark.parametrize("size", SIZES)
async def test_the_workload_is_in_the_header_of_every_screen(size: tuple[int, int], on: Name) -> None:
    for view in (samples.mid_step(), samples.demo_finished()):
        header = (await rendered(view, size, on)).splitlines()[0]
        assert "64 → 32 tokens, cold" in header or "64→32 cold" in header
        assert "127.0.0.1:8000" in header


async def test_seed_and_mode_give_way_before_anything_else() -> None:
    view = with_model("some-organisation/a-name-of-some-length")
    for size in SIZES:
        header = (await rendered(view, size)).splitlines()[0]
        assert "64" in header
        assert ("seed" not in header) or ("quick" in header)
        assert ("quick" not in header) or ("a-name-of-some-length" in header)


@pytest.mark.parametrize("size", [(80, 24), (100, 30), (120, 36)])
async def test_a_name_that_is_too_long_keeps_its_end(size: tuple[int, int]) -> None:
    header = (await rendered(with_model("org/" + "a-very-long-name-" * 4 + "70B-Instruct"), size)).splitlines()[0]
    assert "70B-Instruct" in header or "…" in header
    assert "Instruct ·" in header


def test_a_name_is_cut_at_its_beginning() -> None:
    assert keep_end("Model-70B-Instruct", 18) == "Model-70B-Instruct"
    assert keep_end("Model-70B-Instruct", 13) == "…70B-Instruct"
    assert keep_end("模型模型", 4) == "…型"
    assert keep_end("abc", 1) == "…"


def test_lengths_that_vary_are_told_by_their_median() -> None:
    mixed = Workload(input_tokens=Lengths(median=512, sigma=0.5, maximum=4096), output_tokens=Lengths(median=128))
    assert status.workload_text(mixed) == "~512 → 128 tokens, cold"
    assert status.workload_text(mixed, short=True) == "~512→128 cold"


def expecting(**facts: object) -> RunView:
    progress = Progress(elapsed_s=49.0, expected_s=148.0, **facts)  # type: ignore[arg-type]
    return replace(samples.mid_step(), progress=progress, started_utc="2026-11-30T17:20:00Z")


@pytest.mark.parametrize("size", [(80, 24), (100, 30), (120, 36), (200, 60)])
async def test_the_expected_end_stands_in_the_status_and_hides_nothing(size: tuple[int, int]) -> None:
    text = "\n".join((await rendered(expecting(), size)).splitlines()[1:3])
    for words in ("0:49 of ~2:30", "client CPU 12 %", "late p99 0.800 ms"):
        assert words in text
    assert "left ~" not in text
    if size[0] >= 120:
        assert "▰▰▰▱▱▱▱▱▱▱ 0:49 of ~2:30, ends ~17:22 UTC" in text


async def test_without_an_estimate_there_is_no_bar() -> None:
    text = await rendered(samples.mid_step(), (120, 36))
    assert "▰" not in text
    assert "▱" not in text


@pytest.mark.parametrize("size", [(120, 36), (200, 60)])
async def test_a_changed_estimate_says_why_for_a_moment(size: tuple[int, int]) -> None:
    why = fact("time_longer", total_s=190.0)
    new = await rendered(expecting(changed=why, changed_t_s=45.0, by_s=40.0), size)
    assert "+40 s: This takes longer" in new
    old = await rendered(expecting(changed=why, changed_t_s=30.0, by_s=40.0), size)
    assert "+40 s" not in old
    assert "0:49 of ~2:30" in old


def test_the_bar_never_says_more_than_all() -> None:
    late = replace(samples.mid_step(), progress=Progress(elapsed_s=200.0, expected_s=148.0), started_utc="not a time")
    assert status.progress_texts(late)[0] == "▰▰▰▰▰▰▰▰▰▰ 3:20 of ~3:20"


def test_at_the_end_nothing_is_expected_any_more() -> None:
    assert status.progress_texts(replace(samples.finished(), progress=Progress(elapsed_s=1.0, expected_s=2.0))) == ()

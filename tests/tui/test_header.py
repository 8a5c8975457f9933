"""The lines at the top: what is probed with which workload, and how far the run is."""

import pytest
from msgspec.structs import replace

from core import prose
from core.config import FleetPlan, Lengths, Slo, Workload
from core.facts import fact
from core.records import Phase
from core.view import Progress, RunView
from core.workloads import Gateway, MixPart, Prefix, Source, parse_mix, parse_prefix
from tests import builders
from tests.tui import samples
from tests.tui.screen import rendered
from tui.app import Name
from tui.frame import Frame
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


def test_arrivals_that_are_not_poisson_are_in_the_header() -> None:
    bursty = Workload(arrival_cv=2.0)
    assert status.workload_text(bursty) == "512 → 128 tokens, cold, gaps of CV 2"
    assert status.workload_text(bursty, short=True) == "512→128 cold, CV 2"


def test_recorded_arrivals_are_in_the_header() -> None:
    recorded = Workload(trace=builders.TRACE)
    assert status.workload_text(recorded).endswith(" tokens, cold, arrivals as recorded")
    assert status.workload_text(recorded, short=True).endswith(" cold, recorded")


def test_the_scale_stands_beside_the_rate() -> None:
    view = samples.mid_step()
    assert view.config is not None
    assert view.current is not None
    recorded = replace(view, config=replace(view.config, workload=Workload(trace=builders.TRACE)))
    texts = [piece.text for piece in status.status(Frame(view=recorded, live=recorded))]
    assert f"{view.current.rate_rps / 2.5:.2g} times the recording" in texts


async def test_a_check_of_a_fleet_is_told_in_the_header_and_which_of_its_loads_runs() -> None:
    """At 3 a.m. none of the figures may be taken for those of one replica."""
    plan = FleetPlan(replicas=3, one_rps=4.0, lost=1)

    def of(rate_rps: float, phase: Phase = "list") -> RunView:
        view = samples.mid_step()
        assert view.config is not None
        assert view.current is not None
        method, step = replace(view.config.method, fleet=plan), replace(view.current, phase=phase, rate_rps=rate_rps)
        return replace(view, config=replace(view.config, method=method), current=step)

    def said(view: RunView) -> list[str]:
        return [piece.text for piece in status.status(Frame(view=view, live=view))]

    assert "3 times one replica's" in said(of(plan.full_rps))
    assert "planned load" in said(of(plan.planned_rps))
    assert "planned load, 1 lost" in said(of(plan.planned_rps, "lost"))
    for size in ((80, 24), (120, 36), (200, 60)):
        assert "fleet of 3" in (await rendered(of(plan.planned_rps), size)).splitlines()[0]


def test_a_mix_is_told_by_its_kinds_or_by_its_file() -> None:
    mix = Workload(mix=parse_mix("1024:128=3,4096:64=1"))
    assert status.workload_text(mix) == "mix of 2: 1,024:128 ×3, 4,096:64 ×1, cold"  # noqa: RUF001
    assert status.workload_text(mix, short=True) == "mix of 2: 1,024:128 ×3 and 1 more, cold"  # noqa: RUF001
    file = replace(mix, source=Source(kind="lengths", file="pairs.csv", form="plain", rows=9))
    assert status.workload_text(file, short=True) == "2 pairs of lengths from pairs.csv, cold"
    natural = replace(file, stop="natural")
    assert status.workload_text(natural) == "2 pairs of lengths from pairs.csv, natural stop, cold"
    assert status.workload_text(natural, short=True) == "2 pairs of lengths from pairs.csv, natural, cold"


def test_a_dataset_is_named_before_its_rows_are_known() -> None:
    before = Workload(source=Source(kind="dataset", file="chats.jsonl"))
    assert status.workload_text(before, short=True) == "prompts from chats.jsonl, cold"
    assert prose.requests(before) == "prompts from chats.jsonl"
    assert prose.requests(replace(before, mix=parse_mix("9:8,7:6"))) == "2 prompts from chats.jsonl"


def test_conversations_are_named_as_such_with_the_think_time_that_was_asked_for() -> None:
    turns = tuple(MixPart(input_tokens=9, output_tokens=8, row=0, turn=turn) for turn in range(3))
    single = MixPart(input_tokens=9, output_tokens=8, row=1)
    talks = Workload(mix=(*turns, single), source=Source(kind="dataset", file="chats.jsonl", rows=2), prefix=Prefix(kind="turns"))
    assert status.workload_text(talks) == "4 turns of 2 conversations from chats.jsonl, earlier turns cached"
    assert status.workload_text(talks, short=True) == "4 turns of 2 conversations from chats.jsonl, turns cached"
    assert prose.requests(replace(talks, think_s=5.0)) == "4 turns of 2 conversations from chats.jsonl (think time 5 s)"


async def test_in_a_narrow_terminal_a_file_is_named_where_its_whole_phrase_has_no_room() -> None:
    view = samples.mid_step()
    assert view.config is not None
    source = Source(kind="lengths", file="production-lengths.csv", form="plain", rows=9)
    workload = Workload(mix=parse_mix("1024:128=3,4096:64=1"), source=source, stop="natural", gateway=Gateway(limit=64))
    head = (await rendered(replace(view, config=replace(view.config, workload=workload)), (80, 24))).splitlines()[0]
    assert "on-lengths.csv, natural, gateway 64" in head


def test_a_recording_hides_no_gateway() -> None:
    capped = Workload(trace=builders.TRACE, gateway=Gateway(limit=64))
    assert status.workload_text(capped, short=True) == "512→128 cold, recorded, gateway 64"


def test_limits_of_kinds_are_told_from_the_least_to_the_widest() -> None:
    slo = Slo(ttft_s=0.8, tpot_s=0.05)
    limits = Workload(mix=parse_mix("1024:128=3,4096:64=1@ttft=2s@tpot=none")).limits(slo)
    assert status.limits_text(limits) == "TTFT ≤ 800 ms to 2 s, TPOT ≤ 50 ms or none for 95 %"
    assert status.limits_text(limits, "least") == "TTFT 800 ms to 2 s, TPOT 50 ms or none"
    assert status.limits_text(slo, "short") == "TTFT 800 ms, TPOT 50 ms, 95 %"


def test_answers_that_may_stop_by_themselves_are_in_the_header() -> None:
    natural = Workload(stop="natural")
    assert status.workload_text(natural) == "512 in, ≤ 128 out, natural stop, cold"
    assert status.workload_text(natural, short=True) == "512→≤ 128, natural, cold"
    drawn = replace(natural, output_tokens=Lengths(median=180, sigma=0.7, maximum=1024), arrival_cv=2.0)
    assert status.workload_text(drawn) == "512 in, ≤ ~180 out, natural stop, cold, gaps of CV 2"


def test_a_gateways_limit_is_in_the_header_and_what_it_holds_back_in_the_status() -> None:
    capped = Workload(gateway=Gateway(limit=64))
    assert status.workload_text(capped) == "512 → 128 tokens, cold, gateway limit 64"
    assert status.workload_text(capped, short=True) == "512→128 cold, gateway 64"


def test_what_goes_together_is_all_in_the_header() -> None:
    mix = Workload(mix=parse_mix("1024:128=3,4096:64=1"), stop="natural", arrival_cv=2.0, gateway=Gateway(limit=64))
    assert status.workload_text(mix).endswith("4,096:64 ×1, natural stop, cold, gaps of CV 2, gateway limit 64")  # noqa: RUF001
    assert status.workload_text(mix, short=True).endswith(" and 1 more, natural, cold, CV 2, gateway 64")
    recorded = replace(mix, arrival_cv=1.0, trace=builders.TRACE, prefix=parse_prefix("shared:512/8"), stop="exact")
    assert status.workload_text(recorded, short=True).endswith(" and 1 more, shared:512/8, recorded, gateway 64")


@pytest.mark.parametrize("size", SIZES)
async def test_what_waits_at_a_gateway_is_told_where_there_is_one(size: tuple[int, int]) -> None:
    view = samples.mid_step()
    assert view.current is not None
    assert view.current.live is not None
    live = replace(view.current.live, at_gateway=17)
    held = replace(view, current=replace(view.current, live=live))
    assert "gateway" not in await rendered(view, size)
    assert ("at the gateway 17" in await rendered(held, size)) or size[0] < 100


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

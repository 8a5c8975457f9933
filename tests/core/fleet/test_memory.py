"""The memory gate: streams that fit and streams that are needed, what was seen beside what was reckoned."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.config import FleetAsk, Lengths, Workload
from core.facts import Fact, fact
from core.fleet import End, Evidence, Gates, MemoryGate, Unit, gates, tokens_of
from core.fleet.memory import FULL_FRAC, memory_gate, paper_tokens
from core.hardware import Hardware
from core.records import ServerInfo

TOKENS = tokens_of(Workload(input_tokens=Lengths(median=512), output_tokens=Lengths(median=128)))
LLAMA_8B = Hardware(weights_gb=16, gpu="A100 80 GB SXM", kv_bytes_per_token=131072)


def server(kv_tokens: int | None = 64_000, **changes: object) -> ServerInfo:
    return ServerInfo(url="http://x", kv_cache_tokens=kv_tokens, **changes)  # type: ignore[arg-type]


def end(rate_rps: float = 10.0, e2e_s: float | None = 4.0, usage: float | None = None, preemptions: float | None = None) -> End:
    return End(rate_rps=rate_rps, e2e_mean_s=e2e_s, kv_usage_max=usage, preemptions=preemptions)


def at(held: End | None, failed: End | None = None, told: ServerInfo | None = None, ask: FleetAsk | None = None) -> Gates:
    evidence = Evidence(tokens=TOKENS, at_pass=held, at_fail=failed)
    return gates(ask or FleetAsk(), Unit(), server() if told is None else told, evidence)


def memory(found: Gates) -> MemoryGate:
    assert found.memory is not None
    return found.memory


def test_streams_that_fit_and_streams_that_the_knee_needs() -> None:
    found = memory(at(end()))
    assert (found.fits_mean, found.fits_p90, found.needed, found.used_frac) == (100, 100, 40, 0.4)
    assert found.source == "server"


def test_the_p90_of_the_lengths_holds_fewer() -> None:
    mixed = tokens_of(Workload(input_tokens=Lengths(median=500, sigma=0.9, maximum=4096), output_tokens=Lengths(median=180)))
    found = memory_gate(FleetAsk(), Unit(), server(), Evidence(tokens=mixed, at_pass=end()))
    assert found is not None
    assert found.fits_mean == pytest.approx(64_000 / (mixed.mean_total or 1))
    assert found.fits_p90 == pytest.approx(64_000 / (mixed.p90_total or 1))
    assert (found.fits_p90 or 0) < (found.fits_mean or 0) / 1.5


@pytest.mark.parametrize(
    ("e2e_s", "binds", "margin"), [(4.0, "speed", 2.5), (9.9, "speed", 1 / 0.99), (10.0, "memory", 1.0), (20.0, "memory", 0.5)]
)
def test_by_arithmetic_alone_memory_binds_when_more_is_needed_than_fits(e2e_s: float, binds: str, margin: float) -> None:
    found = at(end(e2e_s=e2e_s))
    assert found.binds == binds
    assert found.margin == pytest.approx(margin)


@pytest.mark.parametrize(
    ("held", "failed", "binds"),
    [
        (end(usage=0.99, preemptions=0), None, "memory"),
        (end(usage=0.30, preemptions=3), None, "memory"),
        (end(usage=0.49, preemptions=0), end(14.0, usage=0.81, preemptions=0), "speed"),  # decode slows down first
        (end(usage=0.49, preemptions=0), end(14.0, usage=1.0, preemptions=50), "speed"),  # full because it was slow
        (end(usage=0.70, preemptions=0), end(14.0, usage=1.0, preemptions=50), "memory"),  # full before that
        (end(usage=0.03, preemptions=0), end(14.0, usage=0.04, preemptions=0), "speed"),  # slots
        (end(e2e_s=20.0, usage=0.40, preemptions=0), end(14.0, usage=0.5, preemptions=0), "speed"),  # seen outranks reckoned
    ],
)
def test_what_was_seen_decides(held: End, failed: End | None, binds: str) -> None:
    found = at(held, failed)
    assert found.binds == binds
    assert found.message is not None
    assert (found.message.code, found.message.figures["rate_rps"]) == (f"{binds}_binds", 10.0)


def test_memory_is_said_to_bind_by_the_end_where_it_was_full() -> None:
    """65 % without a preemption at the passing end are no reason: what the same cache is at the failing end is."""
    found = at(end(usage=0.65, preemptions=0), end(14.0, usage=0.99, preemptions=9))
    figures = {"kv_usage_max_frac": 0.65, "fail_rps": 14.0, "fail_kv_usage_max_frac": 0.99, "fail_preemptions": 9}
    assert found.message == fact("memory_binds", fact("fleet_kv_fills", **figures), rate_rps=10.0)
    full = at(end(usage=0.97, preemptions=0), end(14.0, usage=0.99, preemptions=9))
    assert full.message == fact("memory_binds", fact("fleet_kv_seen", kv_usage_max_frac=0.97, preemptions=0), rate_rps=10.0)
    assert at(end(e2e_s=20.0, preemptions=0)).message == fact("memory_binds", rate_rps=10.0), "reckoned: none seen is no reason"


USAGE = st.none() | st.floats(0, 1)
COUNT = st.none() | st.integers(0, 3).map(float)


@given(st.floats(0.1, 40), USAGE, COUNT, st.booleans(), st.floats(10.1, 30), USAGE, COUNT)
def test_memory_never_binds_beside_figures_that_say_it_was_free(
    e2e_s: float,
    usage: float | None,
    preempted: float | None,
    fails: bool,
    rate_rps: float,
    later: float | None,
    gave: float | None,
) -> None:
    found = at(end(10.0, e2e_s, usage, preempted), end(rate_rps, usage=later, preemptions=gave) if fails else None)
    if found.binds != "memory" or found.message is None or not found.message.of:
        return
    (why,) = found.message.of
    assert isinstance(why, Fact)
    shares = [why.figures.get(name) for name in ("kv_usage_max_frac", "fail_kv_usage_max_frac")]
    counts = [why.figures.get(name) for name in ("preemptions", "fail_preemptions")]
    assert any(isinstance(n, float) and n >= FULL_FRAC for n in shares) or any(isinstance(n, float) and n > 0 for n in counts)


def test_where_nothing_failed_nothing_was_seen_to_bind() -> None:
    found = at(end(usage=0.4, preemptions=0))
    assert found.binds is None
    assert found.margin == pytest.approx(2.5)
    seen = fact("fleet_kv_seen", kv_usage_max_frac=0.4, preemptions=0)
    assert found.message == fact("neither_binds", seen, rate_rps=10.0)


def test_a_reckoning_that_was_not_seen_is_explained() -> None:
    found = memory(at(end(e2e_s=20.0, usage=0.4, preemptions=0), end(14.0, usage=0.5, preemptions=0)))
    assert (found.used_frac, found.binds) == (2.0, False)
    assert found.notes == (fact("kv_not_full_length"),)


def test_the_share_of_the_cache_that_was_used_is_the_margin() -> None:
    found = at(end(usage=0.4, preemptions=0), end(14.0, usage=0.5, preemptions=0))
    assert found.margin == pytest.approx(2.5)
    assert found.message is not None
    assert found.message.figures["margin"] == pytest.approx(2.5)


def test_a_server_that_tells_only_its_usage_is_judged_by_that() -> None:
    found = at(end(usage=0.99, preemptions=2), told=server(None))
    assert (memory(found).source, memory(found).capacity_tokens, found.binds) == (None, None, "memory")


def test_nothing_known_no_gate() -> None:
    assert at(end(), told=server(None)).memory is None
    assert at(None, told=server(None)) == Gates()
    assert memory(at(None)).needed is None


def test_on_paper_memory_less_weights_and_activations_over_the_bytes_of_a_token() -> None:
    ask = FleetAsk(hardware=LLAMA_8B)
    assert paper_tokens(ask, Unit(), None) == int((0.9 * 80e9 - 2e9 - 16e9) / 131072)
    assert paper_tokens(ask, Unit(tp=2), None) == int((2 * (0.9 * 80e9 - 2e9) - 16e9) / 131072)
    assert paper_tokens(ask, Unit(dp=3), None) == 3 * (paper_tokens(ask, Unit(), None) or 0)
    assert paper_tokens(ask, Unit(), server(config={"gpu_memory_utilization": "0.5"})) == int((0.5 * 80e9 - 18e9) / 131072)
    assert paper_tokens(ask, Unit(), server(config={"gpu_memory_utilization": "None"})) == paper_tokens(ask, Unit(), None)
    too_large = FleetAsk(hardware=Hardware(weights_gb=200, gpu="L4", kv_bytes_per_token=1))
    assert paper_tokens(too_large, Unit(), None) == 0
    assert paper_tokens(FleetAsk(), Unit(), None) is None


def test_paper_speaks_only_where_the_server_tells_nothing() -> None:
    ask = FleetAsk(hardware=LLAMA_8B)
    paper = memory(at(end(), told=server(None), ask=ask))
    assert (paper.source, paper.capacity_tokens) == ("paper", paper_tokens(ask, Unit(), None))
    assert [note.code for note in paper.notes] == ["kv_on_paper"]
    assert paper.notes[0].figures == {
        "paper_tokens": paper.paper_tokens,
        "utilization_frac": 0.9,
        "activations_bytes": 2e9,
    }
    told = memory(at(end(), told=server(64_000), ask=ask))
    assert (told.source, told.capacity_tokens) == ("server", 64_000)
    assert told.notes == (fact("kv_told", told_tokens=64_000, paper_tokens=told.paper_tokens),)
    near = server((paper_tokens(ask, Unit(), None) or 0) - 1000)
    assert memory(at(end(), told=near, ask=ask)).notes == ()


def test_a_paper_capacity_of_nothing_divides_nothing() -> None:
    ask = FleetAsk(hardware=Hardware(weights_gb=200, gpu="L4", kv_bytes_per_token=1))
    found = at(end(), told=server(None), ask=ask)
    assert (memory(found).fits_mean, memory(found).used_frac, found.binds) == (0, None, None)

"""The catalog and files of its shape."""

from pathlib import Path

import msgspec
import pytest

from core.engine import blocks_for
from core.errors import UserError
from core.replica.catalog import CATALOG, Replica, TokenLengths, load
from tests.benchmarks.demo_knee import WARMUP_S, run


def test_the_names() -> None:
    assert list(CATALOG) == ["demo", "chat", "rag", "kvlim", "slot", "queue"]
    assert load("rag") is CATALOG["rag"]


@pytest.mark.parametrize("replica", CATALOG.values(), ids=str)
def test_every_replica_can_serve_its_own_longest_request(replica: Replica) -> None:
    longest = replica.input_tokens.largest + replica.output_tokens.largest
    assert longest < replica.max_model_len <= replica.engine.kv_tokens
    assert blocks_for(longest) <= replica.engine.kv_blocks
    assert replica.truth_rps is not None
    assert replica.ttft_s is not None or replica.e2e_s is not None


def test_context_lengths_are_powers_of_two_that_the_cache_can_hold() -> None:
    assert {name: replica.max_model_len for name, replica in CATALOG.items()} == {
        "demo": 2048,
        "chat": 8192,
        "rag": 16384,
        "kvlim": 8192,
        "slot": 8192,
        "queue": 2048,
    }


def test_a_file_of_that_shape_is_read_back_equal(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_bytes(msgspec.json.encode(CATALOG["kvlim"]))
    assert load(str(path)) == CATALOG["kvlim"]


def test_an_unknown_name_lists_what_there_is() -> None:
    with pytest.raises(UserError, match="'chta'; use one of demo, chat, rag, kvlim, slot, queue, or a JSON file"):
        load("chta")


@pytest.mark.parametrize(
    ("field", "value", "complaint"),
    [
        ("engine", {"step_s": 0.01}, "missing required field"),
        ("target", 1.5, "target in"),
        ("ttft_s", -1, "above zero"),
        ("name", "my replica", "letters, digits and hyphens"),
        ("output_tokens", {"median": 10, "sigma": 1.0, "maximum": 5}, "maximum not below"),
        ("input_tokens", {"median": 60000}, "does not fit into a KV cache of 44800 tokens"),
        ("input_tokens", {"median": 60.5}, "whole number"),
        ("input_tokens", {"median": 0}, "at least 1"),
        ("speed", 3, "unknown field `speed`"),
    ],
)
def test_a_wrong_file_is_refused_with_the_place(tmp_path: Path, field: str, value: object, complaint: str) -> None:
    path = tmp_path / "mine.json"
    path.write_bytes(msgspec.json.encode({**msgspec.to_builtins(CATALOG["kvlim"]), field: value}))
    with pytest.raises(UserError, match=complaint) as caught:
        load(str(path))
    assert str(path) in str(caught.value)


def test_a_file_that_is_no_json_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text("step_s = 3")
    with pytest.raises(UserError, match="does not describe a simulated replica"):
        load(str(path))


def test_fixed_lengths() -> None:
    assert TokenLengths(median=64).largest == 64
    assert TokenLengths(median=64, sigma=0.5, maximum=100).largest == 100


def test_the_demo_holds_below_its_knee_and_preempts_past_it() -> None:
    demo = CATALOG["demo"]
    assert demo.truth_rps is not None
    below = run(demo, 0.75 * demo.truth_rps, WARMUP_S + 200, seed=1)
    past = run(demo, 1.15 * demo.truth_rps, WARMUP_S + 200, seed=1)
    assert below.attainment > 0.99
    assert past.attainment < 0.5
    assert past.preemptions > 10 * below.preemptions
    assert past.full_s / past.busy_until_s > 0.4 > 0.1 > below.full_s / below.busy_until_s

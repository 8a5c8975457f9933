"""Where the limits of a twin are from."""

import pytest

from core.engine import Limits
from core.records import ServerInfo, ServerSample
from core.twin import limits_of

SILENT = ServerInfo(url="http://x")


def readings(*rows: tuple[float, float], kv: float | None = 0.4) -> list[ServerSample]:
    """Of (running, waiting)."""
    return [
        ServerSample(t=float(t), took_s=0.01, running=running, waiting=waiting, kv_usage_frac=kv)
        for t, (running, waiting) in enumerate(rows)
    ]


def test_a_silent_server_has_the_usual_limits() -> None:
    limits = limits_of(SILENT)
    assert limits == Limits(max_seqs=256, max_batched_tokens=2048)
    assert limits.source == "assumed"


def test_more_than_the_usual_was_seen_running() -> None:
    assert limits_of(SILENT, readings((300, 0), (280, 0))).max_seqs == 512


def test_the_server_tells() -> None:
    server = ServerInfo(url="http://x", kv_cache_tokens=40_000, config={"max_num_seqs": "64", "max_num_batched_tokens": "8192"})
    limits = limits_of(server, readings(*[(64, 3)] * 20))
    assert limits == Limits(
        max_seqs=64, max_batched_tokens=8192, kv_tokens=40_000, seqs_from="told", batched_from="told", kv_from="told"
    )
    assert limits.source == "told"


def test_a_plateau_while_requests_wait_is_the_limit() -> None:
    """One or two are just done in some readings."""
    limits = limits_of(SILENT, readings((12, 0), (40, 0), *[(64, 5), (64, 9), (63, 8)] * 4, (50, 0)))
    assert (limits.max_seqs, limits.seqs_from, limits.source) == (64, "inferred", "assumed")


def test_of_few_places_one_is_often_just_free() -> None:
    limits = limits_of(SILENT, readings(*[(2, 3), (1, 4), (2, 5), (1, 1)] * 5, (0, 0)))
    assert (limits.max_seqs, limits.seqs_from) == (2, "inferred")


@pytest.mark.parametrize(
    ("rows", "kv"),
    [
        ([(64, 5)] * 5, 0.4),  # too few readings
        ([(64, 0)] * 20, 0.4),  # nobody waits
        ([(64, 5)] * 20, 0.97),  # the cache keeps them out
        ([(40 + 2 * i, 5) for i in range(20)], 0.4),  # it does not stand
        ([(1, 5)] * 18 + [(2, 5)] * 2, 0.4),  # the highest is rare
    ],
)
def test_what_is_no_plateau(rows: list[tuple[float, float]], kv: float) -> None:
    assert limits_of(SILENT, readings(*rows, kv=kv)).seqs_from == "assumed"


def test_a_step_has_a_token_for_each_sequence() -> None:
    """Whatever is assumed of it."""
    server = ServerInfo(url="http://x", config={"max_num_seqs": "4096"})
    assert limits_of(server).max_batched_tokens == 4096


def test_what_is_no_number_is_not_told() -> None:
    server = ServerInfo(url="http://x", config={"max_num_seqs": "None", "max_num_batched_tokens": "0"})
    assert limits_of(server) == Limits(max_seqs=256, max_batched_tokens=2048)

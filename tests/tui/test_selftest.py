"""What `kneescope selftest` prints."""

import pytest

from core.load.selftest import Findings, Rung
from core.records import LoadReady
from tui.cli.selftest import conclusion, line

READY = LoadReady(t=0.0, python="3.11.7", loop="uvloop 0.23.0", transport="own", fd_limit=20000)


def rung(**given: float) -> Rung:
    figures = dict.fromkeys(Rung.__struct_fields__, 0) | {"rate_rps": 100.0, "chunks_per_s": 200.0, "sent": 300} | given
    return Rung(**figures)  # type: ignore[arg-type]


def test_a_line_for_each_rate() -> None:
    figures = {
        "lateness_p50_s": 0.0002,
        "lateness_p99_s": 0.00123,
        "ttft_error_p99_s": 0.0005,
        "cpu_frac": 0.25,
        "server_cpu_frac": 0.1,
    }
    assert line(rung(**figures)).split() == ["100", "200", "0.20", "/", "1.23", "0.00", "/", "0.50", "25", "%", "10", "%"]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"lateness_p99_s": 0.005}, "late by more than 5 ms"),
        ({"failed": 2}, "2 failed, 0 not sent"),
        ({"unsent": 1}, "0 failed, 1 not"),
    ],
)
def test_a_rate_that_does_not_hold_says_why(given: dict[str, float], why: str) -> None:
    assert "does not hold" in line(rung(**given))
    assert why in line(rung(**given))


def test_what_it_comes_to() -> None:
    findings = Findings(
        ready=READY, cores=2, children=1, requests_per_s=2000.0, chunks_per_s=50_000.0, server_was_full=False, was_disturbed=False
    )
    text = conclusion(findings)
    assert "With one process this machine carries 2,000 new requests/s and 50,000 chunks/s" in text
    assert "limit" not in text
    assert "others" not in text
    several = Findings(
        ready=READY, cores=4, children=3, requests_per_s=1.0, chunks_per_s=1.0, server_was_full=True, was_disturbed=True
    )
    assert "With 3 processes" in conclusion(several)
    assert "server was at its limit" in conclusion(several)
    assert "something else uses this machine's CPU" in conclusion(several)
    none = Findings(
        ready=READY, cores=2, children=1, requests_per_s=None, chunks_per_s=1.0, server_was_full=False, was_disturbed=False
    )
    assert "Even the lowest rate did not hold" in conclusion(none)

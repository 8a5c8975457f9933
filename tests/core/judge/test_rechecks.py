"""What a finished step says about how it was run."""

import msgspec
import pytest

from core.judge.rechecks import spread_note, too_short_warmup
from core.results import Percentiles, RepeatResult, RepeatVerdict
from tests.core.judge.feed import repeat


def warmed(warmup_s: float, e2e: float | None, verdict: RepeatVerdict = "pass") -> RepeatResult:
    e2e_s = Percentiles() if e2e is None else Percentiles(p50=e2e, p95=e2e, p99=e2e, mean=e2e, max=e2e, n=100)
    return msgspec.structs.replace(repeat(verdict), warmup_s=warmup_s, e2e_s=e2e_s)


@pytest.mark.parametrize(
    ("warmup_s", "e2e", "wanted"),
    [
        (8.0, 4.0, None),
        (8.0, 4.2, None),
        (8.0, 4.22, 4.22),
        (2.0, 8.0, 8.0),
        (30.0, 20.0, None),
        (28.6, 20.0, None),
        (28.0, 20.0, 20.0),
        (0.0, None, None),
    ],
)
def test_a_pass_whose_warm_up_was_short_is_done_again(warmup_s: float, e2e: float | None, wanted: float | None) -> None:
    assert too_short_warmup(warmed(warmup_s, e2e)) == wanted


@pytest.mark.parametrize("verdict", ["fail", "void", "unjudged"])
def test_nothing_but_a_pass_is_doubted(verdict: RepeatVerdict) -> None:
    assert too_short_warmup(warmed(2.0, 8.0, verdict)) is None


def attained(*shares: float | None) -> list[RepeatResult]:
    return [msgspec.structs.replace(repeat("pass", i), attainment=share) for i, share in enumerate(shares)]


def test_a_wide_spread_is_called_normal() -> None:
    assert spread_note(attained(0.99, 0.93, 0.96)) is None, "three points exactly"
    assert spread_note(attained(0.99, 0.92, 0.96)) == (
        "attainment varies by 3.5 points (standard deviation) over 3 repeats: more than 3 points are normal near the knee"
    )


def test_one_repeat_has_no_spread() -> None:
    assert spread_note([]) is None
    assert spread_note(attained(0.9)) is None
    assert spread_note(attained(0.9, None, None)) is None
    assert spread_note([*attained(0.9), msgspec.structs.replace(repeat("void"), attainment=0.1)]) is None

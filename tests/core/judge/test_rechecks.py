"""What a finished step says about how it was run."""

import msgspec
import pytest

from core.judge.rate_verdicts import spread_note, too_short_warmup
from core.results import RepeatResult, RepeatVerdict
from tests.core.judge.feed import repeat


def warmed(warmup_s: float, needed_s: float | None, verdict: RepeatVerdict = "pass") -> RepeatResult:
    return msgspec.structs.replace(repeat(verdict), warmup_s=warmup_s, warmup_needed_s=needed_s)


@pytest.mark.parametrize(
    ("warmup_s", "needed_s", "wanted"),
    [
        (8.0, 8.0, None),
        (8.0, 8.4, None),
        (8.0, 8.44, 8.44),
        (2.0, 16.0, 16.0),
        (30.0, 71.6, 71.6),  # no length is long enough by itself
        (0.0, None, None),
    ],
)
def test_a_pass_whose_warm_up_was_short_is_done_again(warmup_s: float, needed_s: float | None, wanted: float | None) -> None:
    assert too_short_warmup(warmed(warmup_s, needed_s)) == wanted


@pytest.mark.parametrize("verdict", ["fail", "void", "unjudged"])
def test_nothing_but_a_pass_is_doubted(verdict: RepeatVerdict) -> None:
    assert too_short_warmup(warmed(2.0, 8.0, verdict)) is None


def attained(*shares: float | None) -> list[RepeatResult]:
    return [msgspec.structs.replace(repeat("pass", i), attainment=share) for i, share in enumerate(shares)]


def test_a_wide_spread_is_called_normal() -> None:
    assert spread_note(attained(0.99, 0.93, 0.96)) is None, "three points exactly"
    found = spread_note(attained(0.99, 0.92, 0.96))
    assert found is not None
    assert (found.code, found.figures) == ("repeats_scatter", {"deviation_frac": pytest.approx(0.0351, abs=1e-4), "repeats": 3})


def test_one_repeat_has_no_spread() -> None:
    assert spread_note([]) is None
    assert spread_note(attained(0.9)) is None
    assert spread_note(attained(0.9, None, None)) is None
    assert spread_note([*attained(0.9), msgspec.structs.replace(repeat("void"), attainment=0.1)]) is None

"""Rates above the knee of replicas with long or heavy-tailed answers, in virtual time, and the warm-ups that they need."""

from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest

from core.config import Method
from core.judge.rate_verdicts import too_short_warmup
from core.judge.verdict import warmup_needed
from core.records import Ending, RequestRecord
from tests.benchmarks.knee_search import replicas_of
from tests.core.judge.virtual import VirtualRun, batching, probe_of

LONG = replicas_of(Path(__file__).parents[2] / "data" / "replicas" / "long.json")


def lasted(e2e_s: float, ending: Ending = "ok") -> RequestRecord:
    return RequestRecord(
        order=1,
        index=0,
        t_sched=5.0,
        t_first=5.1,
        t_last=5.0 + e2e_s if ending == "ok" else 5.2,
        t_end=5.0 + e2e_s,
        asked_input=8,
        asked_output=8,
        output_tokens=8,
        first_tokens=1,
        ending=ending,
    )


def test_the_warm_up_that_is_needed_follows_the_longest_requests() -> None:
    assert warmup_needed([lasted(2.0)] * 10) == 4.0
    assert warmup_needed([lasted(1.0)] * 19 + [lasted(100.0)]) == pytest.approx(1.5 * 10_019 / 119)
    assert warmup_needed([]) is None
    assert warmup_needed([lasted(3.0, "aborted"), lasted(0.1, "http")]) is None, "none ended well"


def test_requests_that_were_cut_off_count_as_far_as_they_came() -> None:
    ended = [lasted(1.0)] * 19
    assert warmup_needed([*ended, lasted(100.0, "aborted")]) == pytest.approx(1.5 * 10_019 / 119)
    assert warmup_needed([*ended, lasted(0.5, "aborted")]) == 2.0, "one that had just begun says nothing"


@pytest.mark.parametrize(("name", "seeds"), [("tail", range(40_000, 40_006)), ("long", (40_003, 40_004, 40_009, 40_010, 40_012))])
def test_a_rate_above_the_knee_does_not_pass_because_its_long_answers_are_still_to_come(name: str, seeds: Iterable[int]) -> None:
    """With two mean E2E of warm-up, and at most 30 s, all of these passed."""
    replica = LONG[name]
    assert replica.truth_rps is not None
    method = Method(mode="standard", rates_rps=(1.05 * replica.truth_rps,))
    answers = [VirtualRun(probe_of(replica, seed, method), batching(replica)).answer() for seed in seeds]
    assert sum(answer.knee.pass_rps is not None for answer in answers) <= 1


def test_a_pass_is_doubted_by_what_its_own_requests_need() -> None:
    replica = LONG["tail"]
    assert replica.truth_rps is not None
    probe = probe_of(replica, 3, Method(mode="standard", rates_rps=(0.9 * replica.truth_rps,), repeats=1))
    run = VirtualRun(probe, batching(replica))
    run.answer()
    (result,) = run.results[-1].repeats
    assert result.verdict == "pass"
    assert result.warmup_needed_s is not None
    assert result.warmup_needed_s > 3 * (result.e2e_s.mean or 0.0), "two means would be too few"
    assert too_short_warmup(msgspec.structs.replace(result, warmup_s=30.0)) == result.warmup_needed_s

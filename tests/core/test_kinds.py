"""Kinds of request with limits of their own: each is judged by these wherever requests are judged."""

import numpy as np
import pytest

from core import prose
from core.config import ProbeConfig, Safety, Slo, SloByKind, Target, Workload
from core.errors import UserError
from core.judge.evidence import missed
from core.judge.validity import tpot_undecidable
from core.judge.window import slo_margin
from core.modes import step_segments
from core.results import Missed
from core.singles import judged
from core.slo import by_limits, good, limits_of, margin
from core.workloads import parse_mix
from tests.core.judge.play import START, Play, Request, measured, record, tail

SLO = Slo(ttft_s=0.8, tpot_s=0.05)
CHAT, RAG = "1024:128=3", "4096:64=1@ttft=2s"


def run(mix: str, ttft_s: float | None = 0.8, tpot_s: float | None = 0.05, e2e_s: float | None = None) -> ProbeConfig:
    limits = Slo(ttft_s=ttft_s, tpot_s=tpot_s, e2e_s=e2e_s)
    return ProbeConfig(target=Target(url="http://h"), slo=limits, workload=Workload(mix=parse_mix(mix)))


def request(asked_input: int, first: float, tokens: int = 21) -> Request:
    return Request(asked_input=asked_input, prompt=asked_input, first=first, last=first + 0.2, asked=tokens, output=tokens)


MIXED = run("512:21=3,4096:21=1@ttft=2s").limits


def test_a_run_has_the_limits_of_its_kinds() -> None:
    limits = run(f"{CHAT},{RAG}").limits
    assert limits.of(1024, 128) is limits
    assert limits.of(4096, 64) == Slo(ttft_s=2.0, tpot_s=0.05)
    assert limits.of(4096, 63) is limits
    assert (limits.shortest_ttft_s, limits.shortest_tpot_s, limits.common("ttft_s"), limits.common("tpot_s")) == (
        0.8,
        0.05,
        None,
        0.05,
    )
    assert run(CHAT).limits == SLO, "no kind has its own"


def test_the_limits_of_a_run_that_no_kind_is_judged_by_are_none_of_them() -> None:
    limits = run(RAG).limits
    assert limits.each == (Slo(ttft_s=2.0, tpot_s=0.05),)
    assert (limits.shortest_ttft_s, limits.common("ttft_s")) == (2.0, 2.0)


def test_a_kind_without_a_limit_of_its_own_has_none() -> None:
    limits = run("8:8=1@tpot=none,9:9=1").limits
    assert limits.of(8, 8) == Slo(ttft_s=0.8, tpot_s=None)
    assert (limits.longest_tpot_s, limits.shortest_tpot_s) == (None, 0.05)
    assert run("8:8=1@tpot=80ms,9:9=1").limits.longest_tpot_s == 0.08


@pytest.mark.parametrize(
    ("mix", "slo", "said"),
    [
        ("8:8=1@ttft=none@tpot=none", {}, "is left without a limit"),
        ("8:8=1@e2e=none,9:9=1", {"ttft_s": None, "tpot_s": None, "e2e_s": 2.0}, "is left without a limit"),
        ("8:1=1,8:8=1", {"ttft_s": None}, "The only limit of '8:1=1' is TPOT"),
        ("8:1=1@ttft=none,8:8=1", {}, "The only limit of '8:1=1@ttft=none' is TPOT"),
    ],
)
def test_a_kind_that_nothing_could_judge_is_refused(mix: str, slo: dict[str, float | None], said: str) -> None:
    with pytest.raises(UserError, match=said):
        run(mix, **slo)


def test_one_token_may_be_asked_for_where_another_limit_judges_it() -> None:
    assert run("8:1=1@ttft=1s,8:8=1", ttft_s=None).limits.of(8, 1).ttft_s == 1.0


# --- the judgement of a request -----------------------------------------------------------------------------------


def test_each_request_is_good_by_the_limits_of_its_kind() -> None:
    short, long = (record(request(tokens, 1.2)) for tokens in (512, 4096))
    assert (good(short, MIXED), good(long, MIXED)) == (False, True)
    assert [margin(short, MIXED), margin(long, MIXED)] == pytest.approx([1.5, 0.6])
    assert limits_of(long, MIXED).ttft_s == 2.0
    assert missed([short, long], MIXED) == Missed(ttft=1)


def test_a_repeat_counts_each_kind_by_its_limits() -> None:
    hanging = (Request(asked_input=tokens, first=None, last=None) for tokens in (512, 4096))
    play = Play((measured(4.0), tail()), ((request(512, 1.2), request(4096, 1.2), *hanging), ()))
    tally = play.played(slo=MIXED)
    before, after = tally.bounds(START + 4.9), tally.bounds(START + 5.1)
    assert (before.good, before.bad, before.open) == (1, 2, 1), "the last, due at 3 s, has until 5 s"
    assert (after.good, after.bad, after.open) == (1, 3, 0)
    found = slo_margin(tally, 2, drained=False)
    assert found is not None
    assert found.at_target == pytest.approx(1.5)


def test_single_requests_meet_the_limits_of_their_kinds() -> None:
    records = [record(request(tokens, 1.2)) for tokens in (4096, 4096, 4096)]
    assert judged(records, MIXED).code == "singles_meet"
    found = judged([record(request(512, 1.2)), *records[:2]], MIXED)
    assert (found.code, found.figures["missed"], found.figures["ttft_limit_s"]) == ("some_singles_miss", 1, 0.8)


def test_answers_without_a_tpot_are_judged_where_another_limit_is() -> None:
    one = [record(request(tokens, 0.1, tokens=1)) for tokens in (512, 4096)]
    only_tpot = Slo(ttft_s=None, tpot_s=0.05)
    assert tpot_undecidable(one, only_tpot) is not None
    with_ttft = SloByKind(ttft_s=None, tpot_s=0.05, kinds={(4096, 1): Slo(ttft_s=2.0, tpot_s=0.05)})
    assert tpot_undecidable(one, with_ttft) is None


def test_many_are_parted_as_each_is() -> None:
    rng = np.random.default_rng(1)
    inputs, outputs = rng.choice([512, 4096], 100), rng.choice([21, 64], 100)
    of = {at: own for own, whose in by_limits(MIXED, inputs, outputs) for at in np.flatnonzero(whose).tolist()}
    assert [of[at] for at in range(100)] == [MIXED.of(int(i), int(o)) for i, o in zip(inputs, outputs, strict=True)]
    assert [(own, bool(whose.all())) for own, whose in by_limits(SLO, inputs, outputs)] == [(SLO, True)]


def test_a_step_waits_for_the_kind_with_the_longest_limit() -> None:
    *_, rest = step_segments(40.0, MIXED, Safety(), 10.0, 2.0, 1.0, 10.0)
    assert rest.duration_s == 12.0


# --- words --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mix", "said"),
    [
        (CHAT, "TTFT at most 800 ms and TPOT at most 50 ms for 95 % of requests"),
        (f"{CHAT},{RAG}", "TTFT at most 800 ms (2 s for 4,096:64) and TPOT at most 50 ms for 95 % of requests"),
        (
            f"{RAG},8:8=1@ttft=1s",
            "TTFT at most 2 s (4,096:64) or 1 s (8:8) and TPOT at most 50 ms for 95 % of requests",
        ),
        (
            f"{CHAT},8:8@tpot=none@e2e=5s",
            "TTFT at most 800 ms and TPOT at most 50 ms (none for 8:8) and E2E at most 5 s (8:8) for 95 % of requests",
        ),
        (
            f"{CHAT},{','.join(f'{n}:8@ttft=2s' for n in range(1, 5))}",
            "TTFT at most 800 ms (2 s for 1:8, 2:8 and 2 more) and TPOT at most 50 ms for 95 % of requests",
        ),
    ],
)
def test_limits_of_kinds_are_told(mix: str, said: str) -> None:
    assert prose.limits(run(mix).limits) == said

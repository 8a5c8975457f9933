"""What the drawn lengths ask of the idle server."""

import msgspec
import numpy as np
import pytest

from core.config import Lengths, Method, ProbeConfig, Slo, Target, Workload
from core.facts import Code, Fact
from core.judge.idle import IdleServer, idle_e2es_s, lengths_check, mean_tokens
from core.modes import warmup_needed_s
from core.records import Check, CheckStatus, RequestRecord
from core.workloads import parse_mix

TPOT_S, PREFILL_S = 0.01, 1e-4
DRAWN = Workload(input_tokens=Lengths(median=500), output_tokens=Lengths(median=180, sigma=0.7, maximum=1024))


def answered(prompt: int, output: int, slower: float = 1.0) -> RequestRecord:
    first_s = TPOT_S + PREFILL_S * prompt
    return RequestRecord(
        order=1,
        index=0,
        t_sched=0.0,
        t_first=first_s,
        t_last=slower * (first_s + TPOT_S * (output - 1)),
        t_end=9.0,
        first_tokens=1,
        output_tokens=output,
        prompt_tokens=prompt,
        asked_input=prompt,
        asked_output=output,
        ending="ok",
    )


def one_of(check: Check) -> Fact:
    assert isinstance(check.message, Fact)
    return check.message


SINGLES = [answered(500, 60), answered(500, 180), answered(500, 400)]


def drawn_e2e_s(n: int = 200_000) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The same by drawing."""
    rng = np.random.default_rng(3)
    outputs = np.floor(np.clip(np.exp(rng.normal(np.log(180), 0.7, n)), 1, 1024))
    return np.asarray(PREFILL_S * 500 + TPOT_S * outputs)


def test_the_idle_server_makes_of_the_lengths_what_drawing_them_makes() -> None:
    told, drawn = idle_e2es_s(SINGLES, DRAWN, 1.0), drawn_e2e_s()
    assert told.mean() == pytest.approx(drawn.mean(), rel=0.01)
    assert warmup_needed_s(told) == pytest.approx(warmup_needed_s(drawn), rel=0.01)
    for limit_s in (2.0, 4.0, 5.8):
        server = IdleServer.of(SINGLES, DRAWN)
        assert server is not None
        assert server.misses(Slo(ttft_s=None, tpot_s=None, e2e_s=limit_s)) == pytest.approx((drawn > limit_s).mean(), abs=0.004)


def test_each_limit_counts() -> None:
    long_prompts = msgspec.structs.replace(DRAWN, input_tokens=Lengths(median=1000, sigma=1.0, maximum=16_000))
    server = IdleServer.of(SINGLES, long_prompts)
    assert server is not None
    assert server.misses(Slo(ttft_s=TPOT_S + PREFILL_S * 1000, tpot_s=None)) == pytest.approx(0.5, abs=0.01)
    assert server.misses(Slo(ttft_s=None, tpot_s=0.009)) == 0.0, "no TPOT is longer for a longer answer"
    both = Slo(ttft_s=TPOT_S + PREFILL_S * 1000, tpot_s=None, e2e_s=2.0)
    assert server.misses(both) > server.misses(Slo(ttft_s=None, tpot_s=None, e2e_s=2.0)) > 0.4


def test_where_lengths_tell_nothing_the_single_requests_speak() -> None:
    fixed = Workload(input_tokens=Lengths(median=500), output_tokens=Lengths(median=180))
    assert IdleServer.of(SINGLES, fixed) is None
    assert idle_e2es_s(SINGLES, fixed, 1.7).tolist() == [1.7]
    assert IdleServer.of([answered(500, 1)], DRAWN) is None, "no answer has a TPOT"
    odd = [answered(500, 60), answered(500, 180, slower=2.0), answered(500, 400)]
    assert IdleServer.of(odd, DRAWN) is None, "something else than lengths makes them long"


@pytest.mark.parametrize(
    ("e2e_s", "target", "found"),
    [
        (9.0, 0.95, None),
        (8.0, 0.95, None),  # 1.7 %
        (5.9, 0.95, ("warn", "lengths_near")),  # 4.5 %, and 5 % may
        (5.2, 0.95, ("warn", "lengths_near")),  # 6.5 %, but 5 % on a server a tenth faster
        (4.0, 0.95, ("refuse", "lengths_miss")),  # 13 %
        (5.9, 0.99, ("refuse", "lengths_miss")),
        (5.9, 0.9, None),
    ],
)
def test_requests_that_miss_idle_are_said_before_the_load(
    e2e_s: float, target: float, found: tuple[CheckStatus, Code] | None
) -> None:
    slo = Slo(ttft_s=None, tpot_s=None, e2e_s=e2e_s, target=target)
    check = lengths_check(ProbeConfig(target=Target(url="http://127.0.0.1:8000"), slo=slo, workload=DRAWN), SINGLES)
    assert (None if check is None else (check.status, one_of(check).code)) == found


@pytest.mark.parametrize("method", [Method(rates_rps=(2.0,)), Method(hold_rps=2.0)])
def test_rates_that_were_named_are_judged_all_the_same(method: Method) -> None:
    slo = Slo(ttft_s=None, tpot_s=None, e2e_s=4.0)
    probe = ProbeConfig(target=Target(url="http://127.0.0.1:8000"), slo=slo, workload=DRAWN, method=method)
    check = lengths_check(probe, SINGLES)
    assert check is not None
    assert (check.status, one_of(check).code, one_of(check).figures["searches"]) == ("warn", "lengths_miss", False)


def test_the_check_says_how_many_and_what_the_target_allows() -> None:
    slo = Slo(ttft_s=None, tpot_s=None, e2e_s=5.9)
    config = ProbeConfig(target=Target(url="http://127.0.0.1:8000"), slo=slo, workload=DRAWN)
    check = lengths_check(config, SINGLES)
    assert check is not None
    found = one_of(check)
    assert (found.code, found.figures["target"]) == ("lengths_near", 0.95)
    assert found.figures["missed_frac"] == pytest.approx(0.045, abs=0.001)
    assert found.figures["allowed_frac"] == pytest.approx(0.05)
    assert lengths_check(config, [answered(500, 900)]) is None, "the single requests missed themselves, which is said by another"


MIX = Workload(mix=parse_mix("500:60=6,500:400=3,8000:60=1"))


def test_the_idle_server_serves_each_kind_of_a_mix_as_often_as_it_comes() -> None:
    server = IdleServer.of(SINGLES, MIX)
    assert server is not None
    assert server.misses(Slo(ttft_s=0.5, tpot_s=None)) == pytest.approx(0.1)
    assert server.misses(Slo(ttft_s=None, tpot_s=None, e2e_s=2.0)) == pytest.approx(0.3)
    assert server.misses(Slo(ttft_s=0.5, tpot_s=None, e2e_s=2.0)) == pytest.approx(0.4)
    kind_with_its_own = Workload(mix=parse_mix("500:60=6,500:400=3@e2e=5s,8000:60=1@ttft=1s"))
    assert server.misses(kind_with_its_own.limits(Slo(ttft_s=0.5, tpot_s=None, e2e_s=2.0))) == 0.0
    too_fast = Workload(mix=parse_mix("500:60=6,500:400=3@tpot=9ms,500:1=1@tpot=9ms"))
    of_it = IdleServer.of(SINGLES, too_fast)
    assert of_it is not None
    assert of_it.misses(too_fast.limits(Slo(ttft_s=9.0, tpot_s=0.05))) == pytest.approx(0.3), "whatever kinds were sent alone"
    told = idle_e2es_s(SINGLES, MIX, 1.0)
    assert np.mean(told > 2.0) == pytest.approx(0.3, abs=0.001)
    assert list(mean_tokens(MIX)) == pytest.approx([1250.0, 162.0])
    assert mean_tokens(DRAWN)[0] == 500
    assert idle_e2es_s(SINGLES, Workload(mix=parse_mix("500:60")), 1.7).tolist() == [1.7], "one kind is one length"


@pytest.mark.parametrize("r", [-0.9, 0.9])
def test_lengths_that_go_together_meet_the_idle_server_together(r: float) -> None:
    both = Workload(
        input_tokens=Lengths(median=20_000, sigma=0.8, maximum=200_000),
        output_tokens=Lengths(median=180, sigma=0.7, maximum=4000),
        length_correlation=r,
    )
    rng = np.random.default_rng(3)
    z, own = rng.standard_normal((2, 200_000))
    prompts = np.clip(20_000 * np.exp(0.8 * z), 1, 200_000)
    outputs = np.clip(180 * np.exp(0.7 * (r * z + np.sqrt(1 - r**2) * own)), 1, 4000)
    late = (PREFILL_S * prompts + TPOT_S * outputs > 6.0).mean()
    server = IdleServer.of(SINGLES, both)
    assert server is not None
    assert server.misses(Slo(ttft_s=None, tpot_s=None, e2e_s=6.0)) == pytest.approx(late, abs=0.006)


def test_answers_that_may_stop_by_themselves_are_not_held_to_be_long() -> None:
    natural = msgspec.structs.replace(DRAWN, stop="natural", input_tokens=Lengths(median=1000, sigma=1.0, maximum=16_000))

    def check(slo: Slo) -> Check | None:
        return lengths_check(ProbeConfig(target=Target(url="http://127.0.0.1:8000"), slo=slo, workload=natural), SINGLES)

    assert check(Slo(ttft_s=None, tpot_s=None, e2e_s=4.5)) is None
    prompts = check(Slo(ttft_s=TPOT_S + PREFILL_S * 1000, tpot_s=None))
    assert prompts is not None
    assert one_of(prompts).code == "lengths_miss"

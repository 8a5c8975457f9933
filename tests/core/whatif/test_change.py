"""What may be asked for of a run whose requests are a mix."""

import pytest

from core.config import Lengths, Slo, Workload
from core.engine import Limits
from core.errors import UserError
from core.whatif import Change, Setting, changed, longer
from core.whatif.knobs import steps_of
from core.workloads import parse_mix

MIX = Workload(mix=parse_mix("1024:128=3,4096:64=1@ttft=2s"))
SETTING = Setting(slo=Slo(), workload=MIX, limits=Limits(max_seqs=64, max_batched_tokens=2048, kv_tokens=16_384))
APART = Workload(
    input_tokens=Lengths(median=500, sigma=0.5, maximum=4000),
    output_tokens=Lengths(median=100, sigma=0.5, maximum=400),
    length_correlation=0.5,
)


def test_all_kinds_of_a_mix_become_longer_and_keep_weights_and_limits() -> None:
    found = changed(SETTING, longer(MIX, prompts=2.0, answers=0.5))
    assert found.workload.mix == parse_mix("2048:64=3,8192:32=1@ttft=2s")
    assert changed(SETTING, Change(ttft_s=0.5)).workload == MIX
    assert longer(MIX, answers=2.0).given == {"output_scale": 2.0}
    assert longer(APART, answers=2.0).output_tokens == Lengths(median=200, sigma=0.5, maximum=800, minimum=2)


def test_kinds_with_other_limits_never_become_one() -> None:
    near = Setting(slo=Slo(), workload=Workload(mix=parse_mix("8:8,9:8@ttft=2s,10:8")), limits=SETTING.limits)
    mix = changed(near, longer(near.workload, prompts=0.1)).workload.mix
    assert [(part.input_tokens, part.limits_s) for part in mix] == [(1, {}), (2, {"ttft": 2.0}), (1, {})]


def test_one_length_for_a_mix_is_refused_and_so_is_what_does_not_fit() -> None:
    with pytest.raises(UserError, match="--input-tokens: the requests of this run are a mix"):
        changed(SETTING, Change(input_tokens=Lengths(median=9)))
    with pytest.raises(UserError, match="the longest request has 16,448 tokens"):
        changed(SETTING, longer(MIX, prompts=4.0))
    with pytest.raises(UserError, match="The only limit of '1024:1=3' is TPOT"):
        changed(SETTING, Change(ttft_s="none", e2e_s="none", output_scale=0.001))


def test_the_table_has_answers_of_half_and_twice_the_length() -> None:
    names = [name for change in steps_of(SETTING) for name in change.given]
    assert names[-2:] == ["output_scale", "output_scale"]


def test_a_fixed_length_follows_no_other() -> None:
    setting = Setting(slo=Slo(), workload=APART, limits=SETTING.limits)
    assert changed(setting, Change(output_tokens=Lengths(median=9))).workload.length_correlation == 0.0
    assert changed(setting, longer(APART, prompts=2.0)).workload.length_correlation == 0.5

"""The fuzzer's targets hold for what is right and for what is near it; no fuzzer is needed here."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.targets import HEAD_BYTES, TARGETS, seeds


@pytest.mark.parametrize("name", TARGETS)
def test_every_seed_passes_whole_and_cut(name: str) -> None:
    for seed in seeds(name):
        for at in (HEAD_BYTES[name], len(seed) // 3, len(seed) // 2, len(seed)):
            TARGETS[name](seed[:at])


@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_a_seed_with_a_wrong_place_passes(name: str, data: st.DataObject) -> None:
    seed = data.draw(st.sampled_from(sorted(seeds(name), key=len)))[:4000]
    at = data.draw(st.integers(0, len(seed)))
    TARGETS[name](seed[:at] + data.draw(st.binary(max_size=8)) + seed[at + data.draw(st.integers(0, 20)) :])

"""What a configuration refuses by itself, whoever makes it."""

from typing import Any

import msgspec
import pytest

from core.config import FleetAsk, Lengths, Method, ProbeConfig, Target, Workload
from core.errors import UserError
from core.workloads import MOST_TOKENS, Gateway, MixPart, Prefix, Source


@pytest.mark.parametrize(
    "url", ["http://u:p-SECRET@host:8000", "http://host/?token=p-SECRET", "http://host#p-SECRET", "ftp://host", "host"]
)
@pytest.mark.parametrize("field", ["url", "metrics_url", "gpu_metrics_url"])
def test_an_address_that_could_hold_a_secret_is_refused_without_being_shown(field: str, url: str) -> None:
    with pytest.raises(UserError) as caught:
        msgspec.structs.replace(Target(url="http://host:8000"), **{field: url})
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize("url", ["http://host", "HTTPS://host:8000/base/v2", "http://[::1]:8000/a@b"])
def test_any_other_address_will_do(url: str) -> None:
    assert Target(url=url, metrics_url=url).url == url


@pytest.mark.parametrize("growth", [0.0, -0.1, 1.5, float("nan"), float("inf")])
def test_a_growth_that_no_load_has_is_refused(growth: float) -> None:
    with pytest.raises(UserError, match="--growth"):
        FleetAsk(growth_per_min=growth, scale_out_s=3600.0)


@pytest.mark.parametrize("text", ["10000001", "9" * 400, "lognormal:500,1,10000001", "lognormal:1e300,1,500"])
def test_more_tokens_than_any_model_takes_are_refused_before_the_generator_meets_them(text: str) -> None:
    with pytest.raises(UserError, match="length"):
        Lengths.parse(text, "--input-tokens")


@pytest.mark.parametrize("text", ["1", "1234567", f"{MOST_TOKENS}", f"lognormal:500,0.5,{MOST_TOKENS}"])
def test_a_length_reads_as_it_is_written(text: str) -> None:
    assert str(Lengths.parse(text, "--input-tokens")) == text


def test_a_closed_loop_and_a_gateways_limit_exclude_each_other() -> None:
    with pytest.raises(UserError, match="--closed-loop sends its own number of requests"):
        ProbeConfig(
            target=Target(url="http://replica"), method=Method(closed_loop=True), workload=Workload(gateway=Gateway(limit=8))
        )


MIX = (MixPart(input_tokens=600, output_tokens=8), MixPart(input_tokens=300, output_tokens=8))


@pytest.mark.parametrize(
    ("workload", "tokens"),
    [
        ({}, 512),
        ({"mix": MIX}, 300),
        ({"mix": MIX, "source": Source(kind="lengths", file="pairs.csv")}, 600),
        ({"input_tokens": Lengths(median=100, sigma=1.0, maximum=400)}, 400),
    ],
    ids=["fixed", "mix", "recorded", "lognormal"],
)
def test_a_prefix_leaves_something_unique_in_a_prompt(workload: dict[str, Any], tokens: int) -> None:
    """In the shortest kind of a mix; where lengths are drawn or recorded, in the longest, since shorter prompts share less."""
    Workload(**workload, prefix=Prefix(kind="shared", tokens=tokens - 1, groups=2))
    with pytest.raises(UserError, match=f"share at most {tokens - 1}"):
        Workload(**workload, prefix=Prefix(kind="shared", tokens=tokens, groups=2))


def test_where_nothing_can_be_shared_none_is_offered() -> None:
    with pytest.raises(UserError, match="in a prompt of 1; ask for longer prompts"):
        Workload(input_tokens=Lengths(median=1), prefix=Prefix(kind="shared", tokens=1, groups=2))

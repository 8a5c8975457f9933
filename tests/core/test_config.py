"""What a configuration refuses by itself, whoever makes it."""

import msgspec
import pytest

from core.config import MOST_TOKENS, FleetAsk, Lengths, Target
from core.errors import UserError


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

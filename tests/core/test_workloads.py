"""A mix of kinds of request and a window of a trace, as they are typed."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.config import Workload
from core.errors import UserError
from core.workloads import (
    COLD,
    MOST_OPEN,
    MOST_PARTS,
    Gateway,
    MixPart,
    Prefix,
    Source,
    TraceWindow,
    parse_gateway,
    parse_mix,
    parse_prefix,
    parse_think_s,
    parse_window,
)


def test_a_mix_has_weights_and_limits_of_its_own() -> None:
    chat, rag = parse_mix("1024:128=3, 4096:64@ttft=2s@tpot=none")
    assert chat == MixPart(input_tokens=1024, output_tokens=128, weight=3.0)
    assert rag == MixPart(input_tokens=4096, output_tokens=64, weight=1.0, limits_s={"ttft": 2.0, "tpot": None})


def test_a_kind_that_stands_there_twice_has_both_weights() -> None:
    assert parse_mix("8:8=.1@e2e=1m,9:8,8:8=.2@e2e=60s") == (
        MixPart(input_tokens=8, output_tokens=8, weight=0.3, limits_s={"e2e": 60.0}),
        MixPart(input_tokens=9, output_tokens=8),
    )


def test_two_kinds_of_the_same_lengths_must_not_differ_in_their_limits() -> None:
    mix = parse_mix("8:8=1@e2e=1m,8:8=1")
    assert [part.limits_s for part in mix] == [{"e2e": 60.0}, {}], "for what takes the mix to refuse"
    with pytest.raises(UserError, match="the same lengths and different limits"):
        Workload(mix=mix)


parts = st.builds(
    MixPart,
    input_tokens=st.integers(1, 10_000_000),
    output_tokens=st.integers(1, 10_000_000),
    weight=st.integers(1, 10**9).map(lambda n: n / 1000),
    limits_s=st.dictionaries(
        st.sampled_from(["ttft", "tpot", "e2e"]), st.none() | st.integers(1, 99_999).map(lambda ms: float(f"{ms / 1000:g}"))
    ),
)


@given(st.lists(parts, min_size=1, max_size=5, unique_by=lambda part: (part.input_tokens, part.output_tokens)))
def test_what_a_mix_says_of_itself_reads_back(mix: list[MixPart]) -> None:
    assert parse_mix(",".join(map(str, mix))) == tuple(mix)


@given(st.text(alphabet="0123456789:=@,.tfpoe2nms x", max_size=40))
def test_any_text_is_a_mix_or_refused_by_a_sentence(text: str) -> None:
    with suppress(UserError):
        assert parse_mix(",".join(map(str, parse_mix(text)))) == parse_mix(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is no kind of request"),
        ("1024", "is no kind of request"),
        ("1024:128,", "is no kind of request"),
        ("1024:128=0", "weight"),
        ("1024:128=1e3", "is no kind of request"),
        ("0:128", "a length that no request has"),
        ("1024:99999999999999999999999", "a length that no request has"),
        ("1024:128@p99=2s", "is no limit of a request"),
        ("1024:128@ttft=2", "is not a duration above zero"),
        ("1024:128@ttft=0s", "is not a duration above zero"),
        ("1024:128@ttft=2s@ttft=3s", "two limits for ttft"),
        (",".join(["8:8"] * (MOST_PARTS + 1)), "too many"),
    ],
)
def test_what_is_no_mix_is_refused_by_a_sentence(text: str, said: str) -> None:
    with pytest.raises(UserError, match=said) as refused:
        parse_mix(text)
    assert str(refused.value).startswith("--mix: ")
    assert str(refused.value).endswith(".")


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("10m@2h", TraceWindow(duration_s=600.0, at_s=7200.0)),
        ("90s@0s", TraceWindow(duration_s=90.0, at_s=0.0)),
        ("10m", TraceWindow(duration_s=600.0, at_s=0.0)),
        (" 1.5h @ Busiest ", TraceWindow(duration_s=5400.0, at_s=None)),
    ],
)
def test_a_window_by_time_or_where_most_requests_are(text: str, window: TraceWindow) -> None:
    assert parse_window(text) == window


@pytest.mark.parametrize("text", ["", "@2h", "10m@", "10@2h", "0s@1h", "10m@soon", "10m@-1h", "99999h", "10m@2h@3h"])
def test_what_is_no_window_is_refused_by_a_sentence(text: str) -> None:
    with pytest.raises(UserError, match=r"^--trace-window: .*\.$"):
        parse_window(text)


def test_a_gateways_limit_has_a_queue_and_a_timeout_where_they_are_given() -> None:
    assert parse_gateway("64") == Gateway(limit=64)
    assert parse_gateway(" 64, timeout=500ms ,queue=0") == Gateway(limit=64, queue=0, timeout_s=0.5)


@given(
    st.builds(
        Gateway,
        limit=st.integers(1, MOST_OPEN),
        queue=st.none() | st.integers(0, MOST_OPEN),
        timeout_s=st.none() | st.integers(1, 99_999).map(lambda ms: ms / 1000),
    )
)
def test_what_a_gateways_limit_says_of_itself_reads_back(gateway: Gateway) -> None:
    assert parse_gateway(str(gateway)) == gateway


@given(st.text(alphabet="0123456789=,.quetimosx ", max_size=40))
def test_any_text_is_a_gateways_limit_or_refused_by_a_sentence(text: str) -> None:
    with suppress(UserError):
        assert parse_gateway(str(parse_gateway(text))) == parse_gateway(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is no limit of a gateway"),
        ("many", "is no limit of a gateway"),
        ("-1", "is no limit of a gateway"),
        ("8.5", "is no limit of a gateway"),
        ("0", "from 1 to 1,000,000"),
        ("99999999999", "from 1 to 1,000,000"),
        ("8,queue=1000001", "from 0 to 1,000,000"),
        ("8,queue=", "is no part of a gateway's limit"),
        ("8,wait=5s", "is no part of a gateway's limit"),
        ("8,", "is no part of a gateway's limit"),
        ("8,queue=1,queue=2", "queue twice"),
        ("8,timeout=5", "is not a duration above zero"),
        ("8,timeout=0s", "is not a duration above zero"),
    ],
)
def test_what_is_no_limit_of_a_gateway_is_refused(text: str, said: str) -> None:
    with pytest.raises(UserError, match="--gateway-limit") as refused:
        parse_gateway(text)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("text", "prefix"),
    [
        ("cold", COLD),
        (" Trace", Prefix(kind="trace")),
        ("shared:512/8", Prefix(kind="shared", tokens=512, groups=8)),
        (" Shared: 1 / 10000 ", Prefix(kind="shared", tokens=1, groups=10_000)),
    ],
)
def test_what_prompts_share_as_it_is_typed(text: str, prefix: Prefix) -> None:
    assert parse_prefix(text) == prefix
    assert parse_prefix(str(prefix)) == prefix


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "is no prefix"),
        ("warm", "is no prefix"),
        ("shared:512", "is no prefix"),
        ("shared:-1/8", "is no prefix"),
        ("shared:0/8", "0 tokens cannot be shared"),
        ("shared:1000001/8", "give 1 to 1,000,000"),
        ("shared:512/0", "0 groups cannot be sent"),
        ("shared:512/10001", "give 1 to 10,000"),
    ],
)
def test_other_prefixes_are_refused_by_a_sentence(text: str, word: str) -> None:
    with pytest.raises(UserError, match=word) as refused:
        parse_prefix(text)
    assert str(refused.value).startswith("--prefix: ")


def test_a_workload_of_rows_can_be_a_key_as_any_other() -> None:
    """The fleet keeps what it has worked out of one."""
    rows = [Workload(mix=(MixPart(input_tokens=5, output_tokens=3, row=row, limits_s={"ttft": 1.0}),)) for row in (1, 1, 2)]
    assert len(set(rows)) == 2


@pytest.mark.parametrize(("text", "think_s"), [("0s", 0.0), ("500ms", 0.5), ("10m", 600.0)])
def test_a_think_time_may_be_none_at_all(text: str, think_s: float) -> None:
    assert parse_think_s(text) == think_s


@pytest.mark.parametrize("text", ["5", "", "11m", "-1s"])
def test_a_think_time_has_its_unit_and_is_not_of_hours(text: str) -> None:
    with pytest.raises(UserError, match=r"^--think-time: "):
        parse_think_s(text)


def test_turns_are_those_of_a_dataset() -> None:
    dataset = Source(kind="dataset", file="talks.json")
    assert Workload(prefix=parse_prefix("turns"), think_s=0.0, source=dataset).think_s == 0.0
    for alone in ({"prefix": parse_prefix("turns")}, {"think_s": 1.0}):
        with pytest.raises(UserError, match="give --dataset"):
            Workload(**alone)

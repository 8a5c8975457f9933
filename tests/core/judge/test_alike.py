"""What failures have in common: a limit of time, tokens or size, one backend, one moment; and that chance hardly ever looks so."""

import random
from collections.abc import Iterable

import pytest

from core.facts import Fact, Figure
from core.judge.evidence import alike, failures_alike
from core.records import Ending, RequestRecord

ASKED = 64


def one(
    sent: float,
    age: float,
    ending: Ending = "truncated",
    *,
    tokens: int | None = None,
    first: float | None = 0.1,
    prompt: int = 100,
    backend: str | None = None,
    left: bool = True,
) -> RequestRecord:
    """A request that was sent then and ended at that age; `first`: the age at which its first token came. Not `left`: its
    connection was refused."""
    whole = ASKED if ending == "ok" else 0
    return RequestRecord(
        order=1,
        index=0,
        t_sched=sent,
        t_sent=sent if left else None,
        t_first=None if first is None else sent + first,
        t_end=sent + age,
        first_tokens=0 if first is None else 1,
        output_tokens=whole if tokens is None else tokens,
        asked_input=prompt,
        asked_output=ASKED,
        ending=ending,
        backend=backend,
    )


def http(sent: float, age: float, **given: int | str) -> RequestRecord:
    return one(sent, age, "http", first=None, **given)  # type: ignore[arg-type]


def answers(n: int, longest: float = 0.9, **given: int | str) -> list[RequestRecord]:
    """Good ones of up to this age, one after another."""
    return [one(float(i), longest * (0.7 + 0.3 * i / n), "ok", **given) for i in range(n)]  # type: ignore[arg-type]


def figures(found: Fact | None) -> dict[str, Figure]:
    """Those that are known."""
    assert found is not None
    assert found.code == "failures_alike"
    return {name: value for name, value in found.figures.items() if value is not None}


# --- one age ---------------------------------------------------------------------------------------------------------

STREAMS = [one(3.0 * i, 1.0 + 0.004 * i, tokens=40 + 3 * i) for i in range(5)]
BEFORE_ANY_BYTE = [http(3.0 * i, 2.0 + 0.01 * i) for i in range(5)]
BURST = [one(10.197, 1.0076, tokens=63), one(10.209, 1.0166, tokens=63)]
"""Sent 12 ms apart and cut 21 ms apart, beside others that went on."""


@pytest.mark.parametrize(
    ("failed", "others", "n", "age_s", "until_first"),
    [
        (STREAMS, answers(40), 5, 1.008, False),
        ([*STREAMS, http(20.0, 1.02), one(50.0, 1.01, "empty", first=None)], answers(40), 7, 1.01, False),
        (BURST, [*answers(40), one(10.19, 1.04, "aborted")], 2, 1.0166, False),
        (BEFORE_ANY_BYTE, answers(40, 8.0), 5, 2.02, True),
        ([one(16.0 * i, 15.0 + 0.1 * (i % 3), tokens=9 + i) for i in range(20)] + [one(9.0, 3.0)], answers(5), 20, 15.1, False),
        ([*STREAMS, *(http(2.0 * i, 0.004) for i in range(9))], answers(40), 5, 1.008, False),
    ],
    ids=["streams", "with a 504 and an end without a token", "a burst", "no byte by then", "one other", "beside refusals"],
)
def test_a_cut_at_one_age(
    failed: list[RequestRecord], others: list[RequestRecord], n: int, age_s: float, until_first: bool
) -> None:
    found = figures(alike(failed, others))
    assert found == {"errors": len(failed), "n": n, "age_s": pytest.approx(age_s), "until_first": until_first}


@pytest.mark.parametrize(
    ("failed", "others"),
    [
        (STREAMS, [*answers(40), one(7.0, 1.4, "ok")]),
        (STREAMS, [*answers(40), one(7.0, 1.4, "aborted")]),
        (BEFORE_ANY_BYTE, [*answers(40), one(9.0, 2.6, "ok", first=2.5)]),
        ([http(2.0 * i, 0.004 + 0.0001 * i) for i in range(9)], []),
        ([one(2.0 * i, 1.0, tokens=ASKED) for i in range(9)], answers(40)),
        ([STREAMS[0], one(3.0, 1.04)], answers(3)),
        (BURST, answers(5)),
    ],
    ids=[
        "one answer older",
        "cut off when older",
        "a later first token",
        "refused at once",
        "whole",
        "two, with three others",
        "all that was",
    ],
)
def test_ages_that_are_no_limit(failed: list[RequestRecord], others: list[RequestRecord]) -> None:
    found = alike(failed, others)
    assert found is None or found.figures["age_s"] is None


# --- one moment ------------------------------------------------------------------------------------------------------

CRASH = [
    one(sent, 9.0 + apart - sent, tokens=tokens)
    for sent, apart, tokens in ((8.1, 0.0, 30), (8.3, 0.004, 24), (8.6, 0.003, 11), (8.8, 0.01, 4))
]


@pytest.mark.parametrize(
    "after",
    [
        [],
        [http(9.1 + 0.2 * i, 0.003) for i in range(12)],
        [one(9.1 + 0.2 * i, 0.001, "connection", first=None, left=False) for i in range(12)],
    ],
    ids=["alone", "then a gateway answers", "then connections are refused"],
)
def test_a_crash_breaks_all_at_one_moment_and_at_no_age(after: list[RequestRecord]) -> None:
    found = figures(alike([*CRASH, *after], answers(8)))
    assert found == {"errors": 4 + len(after), "n": 4, "moment_s": pytest.approx(0.01)}


def test_what_is_refused_as_it_comes_is_no_moment() -> None:
    assert alike([http(5.0 + 0.05 * i, 0.004) for i in range(6)], []) is None


# --- one number of tokens --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("failed", "others"),
    [
        ([one(2.0 * i, 0.3 + 0.1 * i, tokens=20) for i in range(4)], answers(30)),
        ([one(2.0 * i, 0.3 + 0.1 * i, "stream", tokens=20) for i in range(4)], []),
        ([*(one(2.0 * i, 0.3 + 0.05 * i, tokens=20) for i in range(12)), one(1.0, 0.5, tokens=3)], answers(30)),
    ],
    ids=["some", "all", "all but one"],
)
def test_a_cut_after_one_number_of_tokens(failed: list[RequestRecord], others: list[RequestRecord]) -> None:
    n = sum(r.output_tokens == 20 for r in failed)
    assert figures(alike(failed, others)) == {"errors": len(failed), "n": n, "tokens": 20}


def test_one_token_that_came_at_once_is_no_number_to_stop_at() -> None:
    assert alike([one(2.0 * i, 0.3 + 0.1 * i, tokens=1) for i in range(6)], []) is None


def test_where_answers_have_one_speed_it_is_the_age_and_not_the_tokens() -> None:
    found = figures(alike([one(3.0 * i, 1.0 + 0.004 * i, tokens=63) for i in range(5)], answers(40)))
    assert found["age_s"] == pytest.approx(1.008)
    assert "tokens" not in found


# --- long prompts ----------------------------------------------------------------------------------------------------

SHORT = [one(float(i), 0.7 + 0.02 * (i % 10), "ok", prompt=100 + 40 * i) for i in range(30)]


@pytest.mark.parametrize(
    "failed",
    [
        [http(3.0 * i, 0.003 + 0.002 * i, prompt=1300 + 50 * i) for i in range(4)],
        [one(3.0 * i, 0.2 + 0.11 * i, "stream", first=None, prompt=1270 + i) for i in range(3)],
        [*(http(3.0 * i, 0.003 * i, prompt=1300 + 50 * i) for i in range(6)), one(4.0, 0.4, tokens=7, prompt=300)],
    ],
    ids=["refused", "broken", "beside another break"],
)
def test_only_long_prompts(failed: list[RequestRecord]) -> None:
    n = sum(r.asked_input > 1260 for r in failed)
    assert figures(alike(failed, SHORT)) == {"errors": len(failed), "n": n, "prompt_over_tokens": 1260}


def test_prompts_of_one_length_say_nothing() -> None:
    assert alike([http(3.0 * i, 0.003 * i) for i in range(9)], answers(30)) is None
    assert alike([http(3.0 * i, 0.003 * i, prompt=2000) for i in range(2)], SHORT[:4]) is None, "two of six may be so by chance"


# --- one backend -----------------------------------------------------------------------------------------------------


def spread(over: str, n: int = 30) -> list[RequestRecord]:
    return [one(float(i), 0.7 + 0.02 * (i % 10), "ok", backend=over[i % len(over)]) for i in range(n)]


@pytest.mark.parametrize(
    ("failed", "others", "ok_frac"),
    [
        ([one(3.0 * i, 0.2 + 0.11 * i, tokens=4 + i, backend="b") for i in range(8)], spread("abc"), 1 / 3),
        ([http(3.0 * i, 0.003 * i, backend="b") for i in range(9)], spread("ac"), 0.0),
        ([*(http(3.0 * i, 0.003 * i, backend="b") for i in range(18)), http(4.0, 0.002), http(5.0, 0.003)], spread("ab"), 0.5),
    ],
    ids=["one of three", "dead", "some answers name none"],
)
def test_one_backend(failed: list[RequestRecord], others: list[RequestRecord], ok_frac: float) -> None:
    n = sum(r.backend == "b" for r in failed)
    expected = {"errors": len(failed), "n": n, "backend": "b", "backend_ok_frac": pytest.approx(ok_frac)}
    assert figures(alike(failed, others)) == expected


@pytest.mark.parametrize(
    ("failed", "others"),
    [
        ([http(3.0 * i, 0.003 * i, backend="b") for i in range(9)], spread("b")),
        ([http(3.0 * i, 0.003 * i, backend="b") for i in range(4)], spread("ab")),
        ([http(3.0 * i, 0.003 * i, backend="ab"[i % 2]) for i in range(20)], spread("ab")),
        ([http(3.0 * i, 0.003 * i, backend="b") for i in range(90)], [*spread("b", 200), *spread("a", 100)]),
        ([http(3.0 * i, 0.003 * i, backend="b") for i in range(9)], []),
    ],
    ids=["there is one", "four of two", "both", "it has most", "nothing was answered"],
)
def test_a_backend_that_is_no_reason(failed: list[RequestRecord], others: list[RequestRecord]) -> None:
    assert alike(failed, others) is None


# --- all of a repeat, and chance --------------------------------------------------------------------------------------


def test_several_likenesses_are_all_said() -> None:
    failed = [http(3.0 * i, 1.5 + 0.004 * i, prompt=1300 + i, backend="b") for i in range(8)]
    others = [one(float(i), 0.9, "ok", prompt=100 + i, backend="abc"[i % 3]) for i in range(30)]
    found = figures(failures_alike([*failed, *others]))
    assert found.keys() >= {"age_s", "prompt_over_tokens", "backend"}


def test_our_own_failures_and_what_we_cut_off_are_none() -> None:
    own = [one(3.0 * i, 1.0, "client", first=None) for i in range(5)]
    cut = [one(3.0 * i, 1.0, "aborted") for i in range(5)]
    assert failures_alike([*own, *cut, *answers(30)]) is None
    assert failures_alike([]) is None


def at_random(chance: random.Random) -> Iterable[RequestRecord]:
    """A repeat some of whose requests fail for no common reason: at any point of their life, or refused at once."""
    rate_rps, over_s = chance.choice([1.0, 3.0, 10.0]), chance.choice([2.0, 10.0, 40.0])
    mean_s, scatter = chance.choice([0.5, 2.0, 10.0]), chance.choice([0.0, 0.05, 0.5])
    share, how = chance.choice([0.02, 0.1, 0.5, 1.0]), chance.choice(["cut", "refused", "either"])
    drawn, backends = chance.random() < 0.5, chance.choice([1, 2, 4])
    t = 0.0
    while (t := t + chance.expovariate(rate_rps)) < over_s:
        life_s = mean_s * chance.lognormvariate(0, scatter)
        prompt, backend = (chance.randrange(50, 2000) if drawn else 100), f"b{chance.randrange(backends)}"
        if chance.random() >= share:
            yield one(t, life_s, "ok", first=0.1 * life_s, prompt=prompt, backend=backend)
        elif how == "refused" or (how == "either" and chance.random() < 0.5):
            yield one(t, chance.uniform(0.002, 0.3), "http", first=None, prompt=prompt, backend=backend)
        else:
            part = chance.random()
            first, tokens = (0.1 * life_s, 1 + int(part * (ASKED - 1))) if part > 0.1 else (None, 0)
            yield one(t, part * life_s, first=first, tokens=tokens, prompt=prompt, backend=backend)


def test_failures_at_random_are_hardly_ever_alike() -> None:
    chance = random.Random(8)
    repeats = [list(at_random(chance)) for _ in range(3000)]
    failing = [records for records in repeats if sum(r.ending != "ok" for r in records) > 1]
    found = [each for records in failing if (each := failures_alike(records)) is not None]
    assert len(failing) > 2000
    assert len(found) < 0.01 * len(failing), found

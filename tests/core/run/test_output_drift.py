"""Answers that stop by themselves and get longer or shorter during a run: told once, and never by chance."""

import random
from pathlib import Path

import msgspec
import pytest

from core.config import Stop
from core.facts import Fact, fact, says
from core.judge.evidence import output_tokens
from core.results import OutputTokens
from core.run.events import Note, RepeatJudged
from core.run.output_drift import OutputDrift
from tests.builders import asked_step
from tests.core.judge.play import Request, record
from tests.core.run.bench import Bench, events_of, on_bench, scripted
from tests.core.run.fakes import TOKENS, config


def answers(mean: float, sd: float = 30.0, n: int = 100) -> OutputTokens:
    return OutputTokens(mean=mean, sd=sd, p50=mean, p90=mean, p95=mean, n=n)


def heard(*seen: OutputTokens | None) -> list[Fact | None]:
    """At 1, 2, 3 ... requests/s."""
    drift = OutputDrift()
    return [drift.judged(each, float(at)) for at, each in enumerate(seen, start=1)]


def test_means_that_differ_are_told_with_the_rates_of_both() -> None:
    assert heard(answers(100.0), answers(104.0), answers(120.0)) == [
        None,
        None,
        fact("output_drifts", from_tokens=100.0, to_tokens=120.0, before_rps=1.0, rate_rps=3.0),
    ]


def test_shorter_answers_are_a_drift_too_and_it_is_told_once() -> None:
    told = heard(answers(100.0), answers(60.0), answers(100.0), answers(300.0))
    assert [each is not None for each in told] == [False, True, False, False]


@pytest.mark.parametrize(
    ("sd", "n", "to", "drifts"),
    [
        (1.0, 100, 109.9, False),
        (1.0, 100, 110.1, True),
        (1.0, 100, 90.8, True),
        (60.0, 100, 125.0, False),
        (60.0, 100, 126.0, True),
        (60.0, 400, 113.0, True),
    ],
    ids=["under 10 %", "over 10 %", "of the smaller one", "under 3 standard errors", "over 3", "over 3 of more answers"],
)
def test_the_difference_must_be_large_and_no_chance(sd: float, n: int, to: float, drifts: bool) -> None:
    assert (heard(answers(100.0, sd, n), answers(to, sd, n))[1] is not None) == drifts


def test_answers_of_unknown_length_and_single_ones_tell_nothing() -> None:
    assert heard(None, answers(100.0), None, answers(900.0, 0.0, 1)) == [None] * 4


def test_repeats_of_one_kind_hardly_ever_differ() -> None:
    """Ten repeats of 60 answers each, whose lengths scatter as those of chats do."""
    rng = random.Random(5)

    def repeat() -> OutputTokens | None:
        drawn = [min(1024, round(rng.lognormvariate(5.0, 0.8))) for _ in range(60)]
        return output_tokens([record(Request(output=n, asked=1024)) for n in drawn])

    alarms = sum(any(heard(*(repeat() for _ in range(10)))) for _ in range(100))
    assert alarms <= 10


# --- in a run ---------------------------------------------------------------------------------------------------------


SHORT = TOKENS - 3
"""With a TPOT that is still within its limit."""


@pytest.mark.parametrize("stop", ["natural", "exact"])
def test_a_run_says_it_once_live_and_beside_its_answer(path: Path, stop: Stop) -> None:
    steps = [asked_step(rate_rps, 2, stop="majority") for rate_rps in (5.0, 5.5)]

    def set_up(bench: Bench) -> None:
        bench.server.answer_tokens = lambda order: SHORT if order.step == 1 else TOKENS
        scripted(*steps)(bench)

    probe = config(workload=msgspec.structs.replace(config().workload, stop=stop))
    _, answer = on_bench(path, lambda bench: bench.session.run(), probe=probe, set_up=set_up)
    repeats = [event.result for event in events_of(path, RepeatJudged)]
    notes = [event for event in events_of(path, Note) if says(event.text, "output_drifts")]
    if stop == "exact":
        assert [repeat.verdict for repeat in repeats] == ["void", "void"], "answers shorter than asked"
        assert notes == []
        return
    assert [repeat.verdict for repeat in repeats] == ["pass"] * 4
    assert [event.level for event in notes] == ["warn"]
    assert [note for note in answer.knee.notes if says(note, "output_drifts")] == [notes[0].text]
    assert notes[0].text == fact("output_drifts", from_tokens=SHORT, to_tokens=TOKENS, before_rps=5.0, rate_rps=5.5)
    assert [repeat.stopped_frac for repeat in repeats] == [1.0, 1.0, 0.0, 0.0]

"""Replicas behind a gateway over a repeat: which changes make it void, what each did, and how even the split was."""

from collections.abc import Sequence

import pytest
from msgspec import structs

from core.facts import Fact, Said, fact, says
from core.judge import Readings, busiest_share, replica_uses, replicas_change
from core.judge.evidence import gauges
from core.judge.replicas import changed, uneven, unseen, unused
from core.records import EngineSample, RequestRecord, ServerSample
from tests.core.judge.judging import judge
from tests.core.judge.play import GOOD, START, step

GOOD_RECORD = RequestRecord(
    order=1, index=0, t_sched=0.0, t_sent=0.0, t_first=0.01, t_last=0.04, t_end=0.05, asked_input=8, asked_output=4, ending="ok"
)
A, B, C = "10.0.0.1:8000", "10.0.0.2:8000", "10.0.0.3:8000"


def row(name: str, success: float = 0.0, *, started: float | None = 1.0, running: float = 1.0, **fields: float) -> EngineSample:
    plain = EngineSample(name=name, running=running, waiting=0.0, requests_success_total=success, started=started)
    return structs.replace(plain, **fields)


def sample(t: float, *rows: EngineSample, unread: Sequence[str] = ()) -> ServerSample:
    return ServerSample(
        t=t,
        took_s=0.01,
        running=sum(each.running or 0.0 for each in rows),
        waiting=0.0,
        requests_success_total=sum(each.requests_success_total or 0.0 for each in rows),
        by_engine=tuple(rows),
        by_replica=True,
        unread=tuple(unread),
    )


def over(there: Sequence[str], unread: Sequence[str] = ()) -> list[ServerSample]:
    """A reading for each word: the letters of the replicas that it shows; `unread` those that were late."""
    named = {"a": A, "b": B, "c": C}
    late = unread or [""] * len(there)
    return [
        sample(float(t), *(row(named[each], 10.0 * t) for each in seen), unread=[named[each] for each in slow])
        for t, (seen, slow) in enumerate(zip(there, late, strict=True))
    ]


def figures(found: Fact | None) -> tuple[tuple[Said, ...], object, object, object]:
    assert found is not None
    return found.of, found.figures["before"], found.figures["after"], found.figures["restarted"]


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        (["ab", "ab", "ab", "a", "a", "a"], ((B,), 2, 1, 0)),
        (["a", "a", "a", "ab", "ab", "ab"], ((B,), 1, 2, 0)),
        (["ab", "a", "a", "a", "ab", "ab"], ((B,), 2, 2, 0)),  # taken out and put in again: others carried its part
        (["ab", "ab", "ab", "ac", "ac", "ac"], ((B, C), 2, 2, 0)),
    ],
)
def test_a_replica_that_comes_or_goes_makes_a_repeat_void(there: list[str], expected: object) -> None:
    assert figures(changed(over(there))) == expected


@pytest.mark.parametrize(
    "there", [["ab"] * 5, ["ab", "a", "ab", "a", "a", "ab"], ["ab", "ab", "ab", "a", "a"], ["a", "ab", "ab"], [], ["ab"]]
)
def test_readings_that_are_missing_now_and_then_are_no_change(there: list[str]) -> None:
    assert changed(over(there)) is None


def test_one_that_is_late_is_there() -> None:
    assert changed(over(["ab", "a", "a", "a", "a"], ["", "b", "b", "b", "b"])) is None


def test_a_restart_is_a_change_and_named() -> None:
    readings = [sample(float(t), row(A, t), row(B, 10 + t if t < 3 else t, started=1.0 if t < 3 else 9.0)) for t in range(6)]
    assert figures(changed(readings)) == ((B,), 2, 2, 1)
    without_start = [sample(float(t), row(A, t, started=None), row(B, 10 + t if t < 3 else t, started=None)) for t in range(6)]
    assert figures(changed(without_start)) == ((B,), 2, 2, 1)


def test_a_restart_in_a_gap_of_readings_is_seen() -> None:
    readings = [sample(0.0, row(A), row(B, 50)), sample(1.0, row(A)), sample(2.0, row(A), row(B, 0, started=7.0))]
    assert figures(changed(readings)) == ((B,), 2, 2, 1)


def test_an_address_with_several_processes_behind_it_is_no_restart() -> None:
    turns = [sample(float(t), row(A), row(B, t, started=float(5 + t % 2))) for t in range(6)]
    assert changed(turns) is None
    assert Readings(turns).mixed


def test_readings_of_one_server_are_not_looked_at() -> None:
    one = [ServerSample(t=float(t), took_s=0.0, epoch=float(t)) for t in range(8)]
    assert replicas_change(one) is None
    assert replica_uses(one, 0.0, 9.0) == ()


def test_a_sum_over_fewer_replicas_is_neither_a_restart_nor_less_work() -> None:
    readings = over(["ab", "ab", "a", "ab", "a", "ab"])
    assert Readings(readings).breaks == 0
    assert Readings(readings).delta("requests_success_total") == 100
    found = gauges(readings, 0.0, 5.0, None)
    assert found is not None
    assert (found.readings, found.running_mean) == (4, 2.0)


def test_what_each_replica_did_in_the_window() -> None:
    readings = [
        sample(
            float(t),
            row(A, 30.0 * t, running=3.0, kv_usage_frac=0.1 * t, preemptions_total=t),
            row(B, 10.0 * t, prefix_queries_total=100.0 * t, prefix_hits_total=25.0 * t),
        )
        for t in range(7)
    ]
    first, second = replica_uses(readings, 1.5, 5.0)
    assert (first.name, first.requests, first.share, first.running_mean) == (A, 120, 1.5, 3.0)
    assert first.kv_usage_max == pytest.approx(0.5)
    assert (first.preemptions, first.prefix_hit_frac) == (4, None)
    assert (second.requests, second.share, second.prefix_hit_frac) == (40, 0.5, 0.25)
    assert busiest_share((first, second)) == 1.5
    assert uneven((first, second)) == fact("replicas_uneven", name=A, share=1.5, replicas=2)


def test_one_whose_count_is_not_known_leaves_no_share() -> None:
    readings = [sample(0.0, row(A, 0), row(B, 0)), sample(1.0, row(A, 100), row(B, 0, started=5.0))]
    uses = replica_uses(readings, 0.0, 1.0)
    assert [each.share for each in uses] == [None, None]
    assert busiest_share(uses) is None


def test_few_requests_show_no_split() -> None:
    few = replica_uses([sample(0.0, row(A), row(B)), sample(1.0, row(A, 12), row(B, 6))], 0.0, 1.0)
    assert uneven(few) is None
    even = replica_uses([sample(0.0, row(A), row(B)), sample(1.0, row(A, 120), row(B, 100))], 0.0, 1.0)
    assert busiest_share(even) == pytest.approx(12 / 11)
    assert uneven(even) is None
    alone = replica_uses([sample(0.0, row(A)), sample(1.0, row(A, 120))], 0.0, 1.0)
    assert uneven(alone) is None


def at_start(readings: list[ServerSample]) -> list[ServerSample]:
    return [structs.replace(each, t=START + each.t) for each in readings]


def test_a_repeat_has_its_replicas_and_is_void_when_they_change() -> None:
    play = step(*[GOOD] * 20)
    same = judge(play.played(), samples=at_start(over(["ab"] * 12)))
    assert not says(same.reason, "replicas_changed")
    assert [each.name for each in same.replicas] == [A, B]
    gone = judge(play.played(), samples=at_start(over(["ab"] * 6 + ["a"] * 6)))
    assert (gone.verdict, says(gone.reason, "replicas_changed")) == ("void", True)
    split = [sample(float(t), row(A, 30.0 * t), row(B, 10.0 * t)) for t in range(12)]
    assert any(says(each, "replicas_uneven") for each in judge(play.played(), samples=at_start(split)).warnings)
    turns = [sample(float(t), row(A), row(B, t, started=float(5 + t % 2))) for t in range(12)]
    assert any(says(each, "several_processes") for each in judge(play.played(), samples=at_start(turns)).warnings)


# --- whether they are those behind the gateway ---


def ok(n: int, every_s: float = 0.1) -> list[RequestRecord]:
    return [
        structs.replace(GOOD_RECORD, index=i, t_sched=i * every_s, t_sent=i * every_s, t_end=i * every_s + 0.05) for i in range(n)
    ]


def test_requests_that_no_replica_of_the_readings_finished_are_said() -> None:
    """100 requests in 10 s, of which the two that were named finished 60."""
    readings = [sample(float(t), row(A, 3.0 * t), row(B, 3.0 * t)) for t in range(12)]
    found = unseen(readings, ok(100))
    assert found is not None
    assert (found.figures["counted"], found.figures["requests"]) == (66, 100)
    assert unseen([sample(float(t), row(A, 5.0 * t), row(B, 5.0 * t)) for t in range(12)], ok(100)) is None
    assert unseen(readings, [structs.replace(each, ending="http") for each in ok(100)]) is None, "errors are counted nowhere"


def test_what_a_replica_that_was_not_read_finished_is_not_missed() -> None:
    late = [sample(float(t), row(A, 3.0 * t), unread=[B]) for t in range(12)]
    assert unseen(late, ok(100)) is None
    assert unseen([], ok(100)) is None


def test_a_replica_that_got_nothing_is_named() -> None:
    uses = replica_uses([sample(float(t), row(A, 10.0 * t), row(B, 10.0 * t), row(C, 7.0)) for t in range(6)], 0.0, 5.0)
    found = unused(uses)
    assert found is not None
    assert (found.of, found.figures["requests"]) == ((C,), 100)
    few = replica_uses([sample(float(t), row(A, float(t)), row(B, 0.0)) for t in range(6)], 0.0, 5.0)
    assert unused(few) is None, "of few requests it is chance"

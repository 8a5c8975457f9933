"""A server that changes is told at once, with the factor; a steady one never, whatever load it is under."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from core.engine import EngineSpec
from core.facts import Fact, fact, says
from core.judge import Decision
from core.records import RepeatOrder, RequestRecord, Segment
from core.replica.catalog import CATALOG, Replica
from core.results import Answer, Knee
from core.run.drift import LEAST_REQUESTS, Drift, Speed
from core.run.events import Note, RepeatJudged
from core.twin import fast_engine
from tests.builders import asked_step
from tests.core.judge.virtual import Play, probe_of
from tests.core.run.bench import Bench, events_of, on_bench, scripted
from tests.core.run.fakes import SERVICE_S, config

CHAT, SMALL, SLOTS = CATALOG["chat"], CATALOG["kvlim"], CATALOG["slot"]


def slowed(engine: EngineSpec, factor: float) -> EngineSpec:
    costs = ("step_s", "per_sequence_s", "per_kv_token_s", "per_prefill_token_s")
    return msgspec.structs.replace(engine, **{cost: factor * getattr(engine, cost) for cost in costs})


def played(replica: Replica, share: float, number: int = 1, factor: float = 1.0, requests: int = 400) -> list[RequestRecord]:
    """A repeat at this share of the knee; those that are open at its end are cut off. It begins at 1000 * number s."""
    assert replica.truth_rps is not None
    rate_rps = share * replica.truth_rps
    segments = (Segment(rate_rps=rate_rps, duration_s=requests / rate_rps, role="measured"),)
    order = RepeatOrder(order=number, phase="list", step=1, repeat=number, seed=number, segments=segments, start_at=0.0)
    play = Play(order, probe_of(replica, number), lambda plan: fast_engine(slowed(replica.engine, factor), plan))
    play.until(lambda now: None if now < requests / rate_rps else _over())
    play.abort(requests / rate_rps)
    times = ("t_sched", "t_sent", "t_first", "t_last", "t_end")
    later = 1000.0 * number
    return [
        msgspec.structs.replace(r, **{name: t + later for name in times if (t := getattr(r, name)) is not None})
        for r in play.tally.records
    ]


def _over() -> Decision:
    return Decision(kind="complete", reason=fact("all_decided"))


def hear(replica: Replica, *repeats: tuple[float, float], requests: int = 400) -> list[Speed]:
    """What is said of repeats at these (share of the knee, factor)."""
    drift = Drift()
    return [
        drift.judged(played(replica, share, at, factor, requests), share) for at, (share, factor) in enumerate(repeats, start=1)
    ]


def drift_of(speed: Speed) -> float:
    assert speed.steps is not None
    assert speed.steps.drift_frac is not None
    return speed.steps.drift_frac


@pytest.mark.parametrize("replica", [CHAT, SMALL, SLOTS, CATALOG["rag"], CATALOG["demo"]], ids=lambda replica: replica.name)
def test_a_steady_server_raises_no_alarm_from_far_below_its_knee_to_preemptions(replica: Replica) -> None:
    heard = hear(replica, *((share, 1.0) for share in (0.4, 1.3, 0.9, 2.0, 0.7, 1.0)))

    assert [speed.change for speed in heard] == [None] * 6
    assert max(abs(drift_of(speed)) for speed in heard) < 0.06


@pytest.mark.parametrize("replica", [CHAT, SMALL, CATALOG["rag"]], ids=lambda replica: replica.name)
def test_a_slower_server_is_told_in_the_first_repeat_that_shows_it(replica: Replica) -> None:
    heard = hear(replica, (0.7, 1.0), (0.8, 1.0), (0.7, 1.4), (0.6, 1.4), (0.9, 1.0))

    slower, faster = heard[2].change, heard[4].change
    assert slower is not None
    assert faster is not None
    assert [speed.change for speed in heard] == [None, None, slower, None, faster]
    assert (slower.code, faster.code) == ("server_slower", "server_faster")
    assert slower.figures["factor"] == pytest.approx(1.4, abs=0.03)
    assert faster.figures["factor"] == pytest.approx(1 / 1.4, abs=0.03)
    assert (slower.figures["before_rps"], slower.figures["rate_rps"]) == (0.8, 0.7)
    assert [drift_of(speed) for speed in heard] == pytest.approx([0.0, 0.0, 0.4, 0.4, 0.0], abs=0.05)


def test_constants_of_a_repeat_are_its_own() -> None:
    (speed,) = hear(CHAT, (0.8, 1.4))

    assert speed.steps is not None
    assert speed.steps.a_s == pytest.approx(1.4 * CHAT.engine.step_s, rel=0.02)
    assert speed.steps.p_s == pytest.approx(1.4 * CHAT.engine.per_prefill_token_s, rel=0.02)
    assert speed.steps.error_frac is not None
    assert speed.steps.drift_frac == 0


def test_the_times_are_those_between_the_middles_of_both_repeats_since_the_run_began() -> None:
    drift = Drift(began_s=500.0, began_utc_s=1_800_000_000.0)
    first = [drift.judged(played(CHAT, 0.7, at, 1.0), 9.2) for at in (1, 2)]
    change = drift.judged(played(CHAT, 0.7, 3, 1.4), 9.2).change

    assert [speed.change for speed in first] == [None, None]
    assert change is not None
    from_s, to_s = change.figures["from_s"], change.figures["to_s"]
    assert isinstance(from_s, float)
    assert isinstance(to_s, float)
    assert 1500 < from_s < 1545
    assert 2500 < to_s < 2545
    assert change.figures["from_utc_s"] == 1_800_000_000 + from_s


def test_a_slow_drift_is_told_as_soon_as_it_adds_up() -> None:
    heard = hear(CHAT, *((0.7, 1.04**at) for at in range(8)))

    first = next(at for at, speed in enumerate(heard) if speed.change is not None)
    assert first == 3, "1.04 ** 3 is the first above 1.1"


def test_repeats_of_few_requests_are_told_by_those_of_the_first_together() -> None:
    heard = hear(SLOTS, (0.6, 1.0), (0.7, 1.0), (0.6, 1.0), (0.6, 1.4), (0.6, 1.4), (0.6, 1.0), requests=70)

    assert [speed.change.code if speed.change else None for speed in heard] == [
        None, None, None, "server_slower", None, "server_faster",
    ]  # fmt: skip
    assert heard[0].steps is None, "nothing yet to compare with"
    assert drift_of(heard[3]) == pytest.approx(0.4, abs=0.03)
    assert heard[3].steps is not None
    assert heard[3].steps.a_s is None


def test_nothing_is_said_of_a_handful() -> None:
    drift = Drift()
    drift.judged(played(CHAT, 0.7), 9.2)

    assert drift.judged(played(CHAT, 0.7, 2, 1.4, requests=LEAST_REQUESTS - 1), 9.2) == Speed(None)


def test_one_order_of_a_held_rate_can_be_many_repeats() -> None:
    drift, records = Drift(), played(SLOTS, 0.7, requests=300)
    heard = [drift.judged(records[at : at + 75], 2.2) for at in range(0, 240, 60)]

    assert [speed.change for speed in heard] == [None] * 4
    assert max(abs(drift_of(speed)) for speed in heard[2:]) < 0.05


def test_a_bracket_of_two_speeds_names_the_speed_of_each_end() -> None:
    drift = Drift()
    for at, (rate_rps, factor) in enumerate([(9.0, 1.0), (9.5, 1.4), (9.0, 1.4)], start=1):
        drift.judged(played(CHAT, 0.7, at, factor), rate_rps)

    assert drift.apart(Knee()) is None
    assert drift.apart(Knee(pass_rps=8.0, upper_rps=9.5)) is None, "of one end nothing is known, the other has one speed"
    said = drift.apart(Knee(pass_rps=9.0, upper_rps=9.5))
    assert said is not None
    assert (said.figures["low_rps"], said.figures["high_rps"]) == (9.0, 9.5)
    assert said.figures["low_frac"] == pytest.approx([0.0, 0.4], abs=0.03)
    assert said.figures["high_frac"] == pytest.approx([0.4, 0.4], abs=0.03)
    alone = drift.apart(Knee(pass_rps=9.0))
    assert alone is not None
    assert alone.figures["high_rps"] is None


def test_a_bracket_of_one_speed_is_not_doubted() -> None:
    drift = Drift()
    for at, (rate_rps, factor) in enumerate([(5.0, 1.0), (9.0, 1.4), (9.5, 1.4)], start=1):
        drift.judged(played(CHAT, 0.7, at, factor), rate_rps)

    assert drift.apart(Knee(pass_rps=9.0, upper_rps=9.5)) is None


def changing_at(bench: Bench, seconds: float, factor: float) -> Bench:
    def change() -> None:
        bench.server.service_s = SERVICE_S * factor

    asyncio.get_running_loop().call_later(seconds, change)
    return bench


def test_a_run_says_it_at_once_beside_its_answer_and_in_each_repeat(path: Path) -> None:
    async def work(bench: Bench) -> Answer:
        return await changing_at(bench, 75.0, 1.2).session.run()

    steps = [asked_step(rate_rps, 2, stop="majority") for rate_rps in (5.0, 5.5)]
    _, answer = on_bench(path, work, set_up=scripted(*steps))

    repeats = [event.result for event in events_of(path, RepeatJudged)]
    drifts = [repeat.step_model.drift_frac for repeat in repeats if repeat.step_model is not None]
    assert len(drifts) == len(repeats)
    assert drifts[0] == 0
    assert drifts[-1] == pytest.approx(0.21, abs=0.03), "decoding takes 1.21 times as long: a first token stays as quick"
    warned = [event for event in events_of(path, Note) if says(event.text, "server_slower")]
    assert [event.level for event in warned] == ["warn"]
    assert [note for note in answer.knee.notes if says(note, "server_slower")] == [warned[0].text]


def test_a_run_on_a_steady_server_says_nothing(path: Path) -> None:
    steps = [asked_step(rate_rps, 2, stop="majority") for rate_rps in (5.0, 20.0)]
    _, answer = on_bench(path, lambda bench: bench.session.run(), set_up=scripted(*steps))

    assert not [note for note in answer.knee.notes if says(note, "server_slower", "server_faster", "ends_apart_in_speed")]


def test_the_answer_doubts_ends_of_two_speeds(path: Path) -> None:
    async def work(bench: Bench) -> Answer:
        return await changing_at(bench, 30.0, 1.2).session.run()

    _, answer = on_bench(path, work, probe=config(rates_rps=(7.5, 12.0)))

    assert answer.outcome == "bracket"
    (doubt,) = (note for note in answer.knee.notes if isinstance(note, Fact) and note.code == "ends_apart_in_speed")
    assert (doubt.figures["low_rps"], doubt.figures["high_rps"]) == (7.5, 12.0)
    assert doubt.figures["low_frac"] == [0, 0]
    assert doubt.figures["high_frac"] == pytest.approx([0.21, 0.21], abs=0.03)


@pytest.mark.parametrize("share", [0.15, 0.3])
def test_repeats_too_short_for_constants_are_not_put_together_across_a_change(share: float) -> None:
    heard = hear(CHAT, (share, 1.0), (share, 1.0), (share, 6.0), (share, 6.0), requests=90)

    assert heard[2].change is not None
    assert "slower" in heard[2].change.code
    assert min(drift_of(speed) for speed in heard[2:]) > 2

"""What a repeat keeps for the diagnosis."""

import msgspec
import pytest

from core.config import Slo
from core.facts import fact
from core.judge import evidence
from core.judge.server_readings import Readings
from core.records import EngineSample, LoadDone, LoadTick, MachineSample, RequestEnded, ServerSample
from core.results import EngineUse, Gauges, MeanLengths, Missed, OutputTokens, Stages

SLO = Slo(ttft_s=1.0, tpot_s=0.1, e2e_s=3.0)


def record(first: float | None, end: float, *, ending: str = "ok", output: int = 11, t_sched: float = 0.0) -> RequestEnded:
    return RequestEnded(
        order=1,
        index=0,
        t_sched=t_sched,
        t_sent=t_sched,
        t_first=first,
        t_last=end if first is not None else None,
        t_end=end,
        first_tokens=0 if first is None else 1,
        output_tokens=output if first is not None else 0,
        prompt_tokens=40,
        asked_input=32,
        asked_output=11,
        ending=ending,  # type: ignore[arg-type]
        finish_reason="length" if ending == "ok" else None,
    )


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (record(0.5, 1.4), Missed()),
        (record(1.1, 1.9), Missed(ttft=1)),
        (record(0.5, 1.6), Missed(tpot=1)),
        (record(1.2, 3.1), Missed(ttft=1, tpot=1, e2e=1)),
        (record(0.5, 0.9, ending="http"), Missed(failed=1)),
        (record(None, 0.9, ending="aborted"), Missed()),
        (record(None, 1.1, ending="aborted"), Missed(ttft=1)),
        (record(0.5, 1.4, ending="aborted"), Missed()),
        (record(0.5, 1.6, ending="aborted"), Missed(tpot=1)),
    ],
)
def test_misses_by_limit(one: RequestEnded, expected: Missed) -> None:
    """An aborted one counts by the time that it had had: 10 tokens to come by 0.1 s each."""
    assert evidence.missed([one], SLO) == expected


def test_a_limit_that_is_not_set_is_not_missed() -> None:
    assert evidence.missed([record(9.0, 99.0)], Slo(ttft_s=None, tpot_s=None, e2e_s=100.0)) == Missed()


def test_errors_come_first_where_they_are_half_of_all_that_missed() -> None:
    """However many limits the others missed."""
    failed = [record(None, 0.2, ending="http")] * 4
    late, slow = [record(1.1, 1.9)] * 3, [record(0.5, 1.6)] * 3
    assert evidence.errors_first([*failed, *late], SLO) == fact(
        "ended_in_errors", errors=4, ended=7, said=None, endings={"http": 4}
    )
    assert evidence.errors_first([*failed, *late, *slow], SLO) is None


def test_lengths_as_they_came_and_as_asked() -> None:
    assert evidence.lengths([record(0.5, 1.0), record(0.5, 1.0, output=7)]) == MeanLengths(
        input=40, input_asked=32, output=9, output_asked=11, finish_reasons={"length": 2}
    )
    assert evidence.lengths([]) is None


def sample(t: float, **fields: object) -> ServerSample:
    return ServerSample(t=t, took_s=0.0, **fields)  # type: ignore[arg-type]


def test_stages_are_differences_of_histograms_and_ours_of_the_same_requests() -> None:
    readings = Readings(
        [
            sample(0.0, queue_time_s=(10.0, 5), prefill_time_s=(1.0, 5), decode_time_s=None),
            sample(9.0, queue_time_s=(14.0, 7), prefill_time_s=(1.5, 7), decode_time_s=None),
        ]
    )
    before, ours = record(-2.0, -1.0, t_sched=-9.0), record(4.5, 6.5, t_sched=2.0)
    assert evidence.stages(readings, [before, ours]) == Stages(
        finished=2, queue_s=2.0, prefill_s=0.25, decode_s=None, ttft_s=2.5, tpot_s=0.2
    )
    assert evidence.stages(Readings(readings.samples[:1]), [ours]) is None


def test_gauges_say_what_was_full_while_requests_waited() -> None:
    samples = [
        sample(0.5, running=9, waiting=9, kv_usage_frac=0.9),  # before the window
        sample(1.0, running=2, waiting=0, kv_usage_frac=0.25),
        sample(1.5, running=4, waiting=1, kv_usage_frac=0.5),
        sample(2.0, running=3, waiting=2, kv_usage_frac=0.75),
        sample(9.0, running=9, waiting=9, kv_usage_frac=0.9),  # after the load
    ]
    assert evidence.gauges(samples, 1.0, 3.0, 32.0) == Gauges(
        readings=3,
        waiting_mean=1.0,
        running_mean=3.0,
        kv_usage_mean=0.5,
        queued=2,
        queued_running_mean=3.5,
        queued_kv_usage_mean=0.625,
        plateau=1,
    )
    assert evidence.gauges(samples, 20.0, 30.0, 32.0) is None


def row(name: str, running: float, waiting: float, kv: float | None = None) -> EngineSample:
    return EngineSample(name=name, running=running, waiting=waiting, kv_usage_frac=kv)


def test_each_engine_has_its_own_means_and_a_missing_row_is_no_idle_engine() -> None:
    samples = [
        sample(1.0, running=9, waiting=4, by_engine=(row("0", 8, 4, 0.75), row("1", 1, 0, 0.25))),
        sample(1.5, running=6, waiting=2, by_engine=(row("0", 6, 2, 0.25),)),
        sample(2.0, running=9, waiting=3, by_engine=(row("0", 7, 3, 0.5), row("1", 2, 0, 0.75))),
    ]
    found = evidence.gauges(samples, 0.0, 9.0, None)
    assert found is not None
    assert found.engines == (
        EngineUse(name="0", running_mean=7.0, waiting_mean=3.0, kv_usage_mean=0.5),
        EngineUse(name="1", running_mean=1.5, waiting_mean=0.0, kv_usage_mean=0.5),
    )


def test_those_that_wait_for_a_transfer_are_counted_apart() -> None:
    samples = [sample(1.0, running=1, waiting=4, waiting_deferred=3.0), sample(1.5, running=1, waiting=2, waiting_deferred=2.0)]
    found = evidence.gauges(samples, 0.0, 9.0, None)
    assert found is not None
    assert (found.waiting_mean, found.waiting_deferred_mean) == (3.0, 2.5)
    untold = evidence.gauges([sample(1.0, running=1, waiting=4)], 0.0, 9.0, None)
    assert untold is not None
    assert untold.waiting_deferred_mean is None


def test_short_answers_leave_more_gaps_in_a_plateau() -> None:
    """With 4 places and answers of 8 tokens a step ends a sequence every other time: 3 running is a full house too."""
    samples = [sample(float(t), running=running, waiting=2) for t, running in enumerate((4, 3, 3, 2))]
    found = evidence.gauges(samples, 0.0, 9.0, 8.0)
    assert found is not None
    assert found.plateau == 3


def test_the_client_and_the_machine() -> None:
    tick = LoadTick(order=1, t=1.0, in_flight=1, loop_lag_max_s=0.0, cpu_frac=0.7)
    done = LoadDone(order=1, t=2.0, sent=1, unsent=0, cpu_frac=0.4, loop_lag_max_s=0.0)
    assert evidence.client_cpu([tick], done) == 0.7
    assert evidence.client_cpu([], None) is None
    readings = [
        MachineSample(t=0.0, took_s=0.0, gpus=2, gpu_frac=0.1),
        MachineSample(t=1.0, took_s=0.0, gpus=2, gpu_frac=0.8, gpu_memory_frac=0.9, cpu_s=(100.0, 400.0)),
        MachineSample(t=2.0, took_s=0.0, gpus=2, gpu_frac=0.9, gpu_memory_frac=0.8, cpu_s=(103.0, 408.0)),
    ]
    use = evidence.machine(readings, 1.0, 5.0)
    assert use is not None
    assert (use.gpus, use.gpu_memory_frac, use.cpu_frac) == (2, 0.9, 0.375)
    assert use.gpu_frac == pytest.approx(0.85)
    assert (use.dram_frac, use.memory_frac) == (None, None)
    assert evidence.machine(readings, 7.0, 8.0) is None


# --- how long answers are ---------------------------------------------------------------------------------------------


def answer(index: int, tokens: int = 11, ending: str = "ok", finish: str | None = "stop") -> RequestEnded:
    return msgspec.structs.replace(record(0.5, 1.0, ending=ending, output=tokens), index=index, finish_reason=finish)


def test_only_the_beginning_of_a_window_in_which_all_had_ended_tells_how_long_answers_are() -> None:
    """At the cut the sixth was open: those sent after it that had ended are the short ones among many."""
    records = [answer(5), answer(7, ending="http"), answer(6), answer(9, ending="aborted"), answer(8), answer(10), answer(4)]
    assert [each.index for each in evidence.answered(records, range(5, 20))] == [5, 6, 8]
    assert [each.index for each in evidence.answered(records, [*range(4, 9), 10])] == [4, 5, 6, 8, 10]
    assert evidence.answered([answer(6)], range(5, 20)) == []


def test_how_long_answers_are() -> None:
    found = evidence.output_tokens([answer(at, tokens=1 + at) for at in range(10)])
    assert found is not None
    assert found.sd == pytest.approx(3.02765)
    assert msgspec.structs.replace(found, sd=3.0) == OutputTokens(mean=5.5, sd=3.0, p50=5.0, p90=9.0, p95=10.0, n=10)
    assert evidence.output_tokens([answer(0, tokens=3)]) == OutputTokens(mean=3.0, sd=0.0, p50=3.0, p90=3.0, p95=3.0, n=1)
    assert evidence.output_tokens([]) is None


def test_one_answer_that_nobody_counts_leaves_all_lengths_unknown() -> None:
    """Of such answers only long ones would be known."""
    by_events = msgspec.structs.replace(answer(1, tokens=4), usage=False, counted_by="events")
    assert evidence.output_tokens([answer(0), by_events]) is None
    assert evidence.stopped_frac([answer(0), by_events]) == 1.0


def test_the_share_of_answers_that_a_stop_condition_ended() -> None:
    """One without a finish reason is whole by its count: it has all the tokens that were asked for."""
    reasons = ("stop", "length", None, "tool_calls")
    assert evidence.stopped_frac([answer(at, finish=reason) for at, reason in enumerate(reasons)]) == 0.5
    assert evidence.stopped_frac([]) is None

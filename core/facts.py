"""What was found of a repeat, a step or a knee, as codes with figures: what a program reads, and every sentence is made of.

The sentences stand in `core.prose`, and nothing reads one back. The result file holds these beside them.
"""

from collections.abc import Iterator
from typing import Literal

import msgspec

Code = Literal[
    # why a repeat need not go on, and what it was
    "nothing_to_judge",
    "all_decided",
    "segment_decided",
    "segments_judged",
    "out_of_reach",
    "within_reach",
    "too_many_errors",
    "every_request_failed",
    "ended_in_errors",
    "overloaded_in_warmup",
    "still_open",
    "load_ended_early",
    "attainment",
    "queue_rising",
    "warmup_short",
    "undecided",
    # a ramp
    "ramp_hint",
    "rate_fails",
    "ramp_failed",
    "no_rate_failed",
    "not_keeping_up",
    # what the repeats of a rate amount to
    "none_judged",
    "all_passed",
    "some_failed",
    "no_segment_judged",
    "segment_cut_off",
    "cut_off",
    "ramp_held",
    "held",
    "held_rate",
    "user_ended",
    "stopped",
    "broken_off",
    "set_aside",
    # for the sake of others
    "backed_off",
    "others_wait",
    "others_preempted",
    "errors_in_a_row",
    # void: the client
    "client_late",
    "client_late_once",
    "client_stalled",
    "client_unsent",
    "client_failed",
    # void: the workload, the server, somebody else
    "too_few_requests",
    "refusals",
    "warm_prompts",
    "short_answers",
    "long_answers",
    "answer_outran",
    "prompt_length_off",
    "server_restarted",
    "others_took_part",
    "tokens_in_clumps",
    "tpot_undecidable",
    "nothing_planned",
    "server_frozen",
    "server_lost",
    "server_away",
    # worth a word beside a verdict
    "no_miss_allowed",
    "few_requests",
    "window_short",
    "by_one_request",
    "left_open",
    "sends_late",
    "loop_stalled",
    "few_values",
    "no_success",
    "queue_undecided",
    "lengthened",
    "token_rate_off",
    "no_tpot",
    "no_usage",
    "no_finish_reason",
    "tpot_unknown",
    "errors_said",
    "failures_alike",
    "resent",
    "several_processes",
    "end_unread",
    "metrics_unread",
    "repeats_scatter",
    # about a knee
    "one_repeat",
    "two_repeats",
    "flips_early",
    "not_monotone",
    "open_above",
    "one_failing_step",
    "from_ramp",
    "nothing_between",
    "time_up_ends_apart",
    "time_up_no_clear_fail",
    "time_up_no_pass",
    "time_up_not_confirmed",
    "time_up_too_few",
    "time_up_limit",
    "misses_not_of_load",
    "steps_ended",
    "restarted_between_repeats",
    "restarted_between_steps",
    "was_away",
    # what a check before the load found
    # the answer of a run, and what ended it
    # what happens meanwhile
    "done_again",
    # why a rate fails
    "looked_at",
    "lateness_seen",
    "loop_stall_seen",
    "failed_here",
    "not_sent",
    "client_cpu_seen",
    "errors_seen",
    "prefix_hits_seen",
    "lengths_seen",
    "waiting_seen",
    "deferred_seen",
    "queue_time_seen",
    "queue_not_shown",
    "ttft_split",
    "ttft_not_split",
    "late_not_ended",
    "tpot_seen",
    "prompts_take",
    "no_latency",
    "running_limit",
    "running_seen",
    "running_not_shown",
    "engines_seen",
    "kv_seen",
    "preemptions_seen",
    "machine_seen",
    "limit_missed_not_known",
    "in_ramp_alone",
    "gpu_hardly_busy",
    "stage_times_not_known",
    "late_token_unexplained",
    "slow_answer_unexplained",
    "running_not_known",
    "kv_not_known",
    "places_full_too",
    "gave_way",
    "kv_never_full",
    "prefill_dominates",
    "tpot_without_room",
    "few_queued_readings",
    "few_readings",
    "prompt_cost_not_known",
    "prefill_hardly_seen",
    "nothing_full",
    "idle_not_known",
    "prompts_part_of_tpot",
    "deferred_part",
    "waits_in_server",
    "binds",
    "two_causes",
    "deferred_binds",
    "uneven_binds",
    "errors_bind",
    "not_certain",
    "none_failed",
    "not_measured",
    "more_sequences",
    "more_kv_memory",
    "more_kv_blocks",
    "prompt_budget",
    "fewer_sequences",
    "nearer_client",
    "stronger_client",
    "find_prefix",
    "lengths_given",
    "errors_first",
    "common_cause",
    "kv_transfer",
    "even_split",
    "memory_free",
    "places_free",
    "prefill_light",
    # what a fleet rests on
    # several of them at once
    "several",
]
"""What can be said. A code never changes its meaning or loses a figure without a new schema of the run file."""

Figure = float | int | str | bool | list[float] | dict[str, int] | None


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was found: its code and its figures, in SI units by their names. `of`: what it is about or rests on, or for
    `several` the facts that stand beside each other."""

    code: Code
    figures: dict[str, Figure] = {}
    of: tuple["Said", ...] = ()


Said = Fact | str
"""A fact, or a sentence: one that a file of schema 1 has stored, or the words of somebody else."""


def fact(code: Code, *of: Said, **figures: Figure) -> Fact:
    """A fact with its figures, and with what it is about."""
    return Fact(code=code, figures=figures, of=of)


def several(*said: Said) -> Said:
    """The facts that hold at once, as one. Raises ValueError where there is none."""
    if not said:
        raise ValueError("nothing was found")
    flat = tuple(each for one in said for each in (one.of if isinstance(one, Fact) and one.code == "several" else (one,)))
    return flat[0] if len(flat) == 1 else Fact(code="several", of=flat)


def parts(said: Said) -> Iterator[Said]:
    """What was said, and all that stands in it."""
    yield said
    if isinstance(said, Fact):
        for each in said.of:
            yield from parts(each)


def says(said: Said, *codes: Code) -> bool:
    """Whether one of these facts is among what was said; never of a mere sentence."""
    return any(isinstance(each, Fact) and each.code in codes for each in parts(said))


def as_data(said: Said) -> dict[str, object] | None:
    """Code and figures for a result file; None for a mere sentence."""
    return msgspec.to_builtins(said) if isinstance(said, Fact) else None

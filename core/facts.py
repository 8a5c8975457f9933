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
    "errors_said",
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
    # what a fleet rests on
    "mark_peak",
    "mark_lost",
    "mark_rollout",
    "mark_growth",
    "mark_burst",
    "mark_burst_unknown",
    "poisson_arrivals",
    "even_split",
    "same_lengths",
    "fleet_open_above",
    "p90_answers",
    "each_gets",
    "fleet_cost",
    "mean_rate",
    "stream_floor",
    "stream_floor_allows",
    "stream_floor_forbids",
    "stream_floor_doubted",
    "prefill_bound",
    "stream_beats_bandwidth",
    "stream_beats_floor",
    "stream_measured",
    "help_weights",
    "help_tp",
    "help_device",
    "help_limit",
    "kv_streams",
    "kv_needed",
    "kv_seen",
    "kv_on_paper",
    "kv_told",
    "kv_not_full_length",
    "memory_binds",
    "speed_binds",
    "neither_binds",
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

"""What was found of a server, a repeat, a step or a knee, as codes with figures: what a program reads and sentences are made of.

The sentences stand in `core.prose`, and nothing reads one back. The result file holds these beside them.
"""

from collections.abc import Callable, Iterator
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
    "server_answers",
    "server_unreachable",
    "server_not_up",
    "route_slow",
    "health_unsure",
    "is_it_the_api",
    "call_failed",
    "call_refused",
    "certificate_unchecked",
    "through_proxy",
    "proxy_not_used",
    "proxies_not_obeyed",
    "server_far",
    "server_place_unknown",
    "version_unknown",
    "version_known",
    "simulated_replica",
    "fields_rejected",
    "salt_ignored",
    "models_unread",
    "no_model_list",
    "key_missing",
    "key_not_accepted",
    "no_model_listed",
    "model_not_chosen",
    "model_not_listed",
    "model_unnamed",
    "model_taken_as_given",
    "model_found",
    "context_unknown",
    "context_fits",
    "context_too_short",
    "files_unlimited",
    "files_few",
    "files_enough",
    "metrics_found",
    "metrics_missing",
    "metrics_unreachable",
    "metrics_unreadable",
    "metrics_of_router",
    "router_left_out",
    "models_left_out",
    "model_not_in_metrics",
    "kv_capacity",
    "kv_capacity_unknown",
    "layout_seen",
    "layout_differs",
    "servers_behind",
    "traffic_unknown",
    "no_traffic",
    "server_busy",
    "server_shared",
    "no_request_sent",
    "request_answered",
    "request_failed",
    "request_given_up",
    "request_broken_off",
    "takes_no_salt",
    "takes_max_tokens",
    "takes_text",
    "takes_usage_at_end",
    "takes_no_usage",
    "fields_left_out",
    "usage_seen",
    "ended_without_reason",
    "counted_by_ids",
    "length_counts",
    "usage_missing",
    "usage_implausible",
    "prompt_length_unknown",
    "prompt_as_asked",
    "prompt_miscounted",
    "no_prefix_cache",
    "prompts_cold",
    "prompts_cold_by_usage",
    "prompts_not_cold",
    "prompts_not_cold_by_usage",
    "cold_unproven_still",
    "cold_unproven_others",
    "cold_unproven_uncounted",
    "answers_unmeasured",
    "answers_end_by_length",
    "answers_uncounted",
    "answers_as_asked",
    "answers_short",
    "answers_long",
    "stream_held_back",
    "singles_missing",
    "singles_spoilt",
    "singles_meet",
    "some_singles_miss",
    "all_singles_miss",
    "all_singles_fail",
    "lengths_near",
    "lengths_miss",
    "tpot_floor",
    "limit_under_floor",
    "floor_contradicted",
    "bandwidth_reached",
    "limit_helps",
    # a gauge that nobody refreshes, or that is not there
    "traffic_at_rest",
    "server_working",
    "gauges_refreshed",
    "gauges_unproven",
    "idle_unknown",
    "work_unknown",
    # a server that is away, of a held rate and with another model
    "back_without_model",
    "was_away_held",
    # the answer of a run, and what ended it
    "bracket",
    "at_least",
    "below",
    "not_known_below",
    "no_rate_judged",
    "errors_at",
    "nothing_served",
    "on_top",
    "held_a_day",
    "segments_void",
    "held_void",
    "held_in_vain",
    "refused",
    "checks_incomplete",
    "stopped_before_answer",
    "limit_reached",
    "max_in_flight",
    "max_duration",
    "backed_off_held",
    "server_unusable",
    "void_twice",
    "away_again",
    "away_for_good",
    "client_mute",
    "client_stuck",
    "client_gone",
    "between_failed",
    "between_not_ready",
    "own_error",
    "unfinished",
    "still_going",
    # what happens meanwhile
    "step_judged",
    "at_rate",
    "check_said",
    "rows_missing",
    "done_again",
    "warmup_again",
    "rate_next",
    "rate_stays",
    "time_announced",
    "time_expected",
    "time_longer",
    "until_stopped",
    "time_unknown",
    "window_too_few",
    "window_for_requests",
    "window_for_durations",
    "warmup_long",
    "first_token_awaited",
    "end_awaited",
    "readings_slow",
    "readings_stopped",
    "not_settled",
    "asked_again",
    "away_awaited",
    "still_away",
    "back_already",
    "back_after",
    "no_diagnosis",
    "cache_unreached",
    "cache_not_offered",
    "cache_not_allowed",
    "cache_not_reset",
    "cache_held",
    "cache_unchecked",
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
    "mark_peak",
    "mark_lost",
    "mark_rollout",
    "mark_growth",
    "mark_burst",
    "mark_burst_unknown",
    "poisson_arrivals",
    "fleet_even_split",
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
    "fleet_kv_seen",
    "kv_on_paper",
    "kv_told",
    "kv_not_full_length",
    "memory_binds",
    "speed_binds",
    "neither_binds",
    # several of them at once, or one after the other
    "several",
    "in_turn",
]
"""What can be said. A code never changes its meaning or loses a figure without a new schema of the run file."""

Figure = float | int | str | bool | list[float] | dict[str, int] | None


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was found: its code and its figures, in SI units by their names. `of`: what it is about or rests on, or for
    `several` the facts that stand beside each other, for `in_turn` those that are said as sentences of their own."""

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


def in_turn(*said: Said) -> Said:
    """The same of facts that are sentences of their own, such as what was found and what would help."""
    flat = tuple(each for one in said for each in (one.of if isinstance(one, Fact) and one.code == "in_turn" else (one,)))
    return Fact(code="in_turn", of=flat) if len(flat) > 1 else several(*flat)


def parts(said: Said) -> Iterator[Said]:
    """What was said, and all that stands in it."""
    yield said
    if isinstance(said, Fact):
        for each in said.of:
            yield from parts(each)


def says(said: Said, *codes: Code) -> bool:
    """Whether one of these facts is among what was said; never of a mere sentence."""
    return any(isinstance(each, Fact) and each.code in codes for each in parts(said))


def reworded(said: Said, change: Callable[[str], str]) -> Said:
    """The same with all its words changed: sentences, texts among the figures, and names that something is counted by."""
    if not isinstance(said, Fact):
        return change(said)
    figures = {name: _changed(figure, change) for name, figure in said.figures.items()}
    return Fact(code=said.code, figures=figures, of=tuple(reworded(each, change) for each in said.of))


def _changed(figure: Figure, change: Callable[[str], str]) -> Figure:
    if isinstance(figure, str):
        return change(figure)
    return {change(name): n for name, n in figure.items()} if isinstance(figure, dict) else figure


def as_data(said: Said) -> dict[str, object] | None:
    """Code and figures for a result file; None for a mere sentence."""
    return msgspec.to_builtins(said) if isinstance(said, Fact) else None

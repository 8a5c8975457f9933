"""Every code has its sentence, and no sentence is needed to know what was found."""

from types import ModuleType
from typing import get_args

import msgspec
import pytest
from msgspec.structs import replace

from core import prose
from core.facts import Code, Fact, Figure, Said, as_data, fact, in_turn, parts, reworded, says, several
from core.results import KneeEstimate
from core.workloads import COLD, Prefix
from tests.core.compare.sentences import COMPARED
from tests.core.fleet_check.sentences import CHECKED

REACH = fact("out_of_reach", at_most_frac=0.403, target=0.95)
ERRORS: dict[str, Figure] = {"errors": 2, "planned": 100, "ended": 60, "max_error_frac": 0.01, "endings": {"http": 2}}
LENGTHS: dict[str, Figure] = {"input_tokens": 100.0, "input_asked_tokens": 100.0, "output_asked_tokens": 40.0}
SPLIT: dict[str, Figure] = {
    "rate_rps": 12.4,
    "busiest": "0",
    "running_mean": 7.9,
    "waiting_mean": 5.2,
    "idle_running_mean": 1.1,
}
ALIKE: dict[str, Figure] = {
    **dict.fromkeys(("age_s", "until_first", "moment_s", "tokens", "prompt_over_tokens", "backend", "backend_ok_frac"))
}
AGED = fact("failures_alike", errors=2, n=2, **(ALIKE | {"age_s": 1.012, "until_first": False}))
CHANGED: dict[str, Figure] = {"from_s": 30.0, "to_s": 180.0, "before_rps": 11.3, "rate_rps": 12.4}
CUT = fact("cut_off", sent=20, good=17, misses=1, open=2)
OVER: dict[str, Figure] = {
    "ttft_s": 0.91,
    "ttft_limit_s": 0.8,
    "tpot_s": None,
    "tpot_limit_s": None,
    "e2e_s": 21.0,
    "e2e_limit_s": 20.0,
}
GONE: dict[str, Figure] = {"said": "HTTP 502", "endings": {"http": 12}}
CHECK = "Check the server, then run again; finished steps are kept"
BROKEN = fact("ended_in_errors", errors=32, ended=52, said=None, endings={"truncated": 30, "http": 2})
MAX_DURATION = fact("max_duration", limit_s=60.0)
DROP: dict[str, Figure] = {"old_pass_rps": 10.0, "least_rps": 9.0, "max_drop_frac": 0.1}
LONGER = {"measure_s": 310.0, "asked_s": 40.0}
WATCHED: list[tuple[Fact, str]] = [
    (
        fact("replicas_not_told", source="--dns vllm:8000", said="the name has no address", kept=3),
        "--dns vllm:8000: the name has no address; the 3 replicas found before stay",
    ),
    (fact("replicas_not_told", source="--dns vllm:8000", said="no", kept=0), "--dns vllm:8000: no"),
    (fact("replicas_none"), "No replica was found"),
    (fact("watch_unread"), "not read yet"),
    (fact("watch_failing", since_s=12.4, said="answers 404 (not found)"), "not read for 12 s: answers 404 (not found)"),
    (fact("watch_gone", since_s=90.0), "gone for 1 min 30 s: no source lists it any more"),
    (fact("watch_late", age_s=7.0), "no answer for 7 s; these are its last figures"),
    (fact("watch_several"), "several servers answer at this address in turn; give each replica's own address"),
    (fact("watch_restarted", ago_s=9.0), "restarted 9 s ago"),
    (fact("watch_joined", ago_s=9.0), "first listed 9 s ago"),
    (fact("watch_stalled", stalled_s=41.3), "requests are stuck: no token for 41 s"),
    (
        fact("watch_queue", wait_s=12.0),
        "requests queue for about 12 s, so they miss the run's limits, although the rate is below its knee",
    ),
    (fact("watch_stuck", "http://a:1"), "1 replica is stuck: http://a:1"),
    (fact("watch_stuck", "http://a:1", "http://b:1"), "2 replicas are stuck: http://a:1, http://b:1"),
    (fact("watch_other_model", model="large", run_model="small"), "serves large, and the run was of small"),
    (fact("watch_growth_unknown", least_s=120.0), "growth is known after 2 min"),
    (fact("watch_rising", eta_s=727.0), "reaches its knee in about 12 min at this growth"),
    (fact("watch_rising", eta_s=None), "requests are getting more, but the knee is more than an hour away"),
    (fact("watch_above_knee"), "at or above its knee"),
    (fact("watch_falling"), "requests are getting fewer"),
    (fact("watch_steady"), "steady"),
    (fact("watch_load", load_frac=0.62, by="knee"), "62.0 % of the rate that a replica was measured to hold"),
    (fact("watch_load", load_frac=0.62, by="kv"), "62.0 % of its KV cache in use"),
    (fact("watch_load", load_frac=1.0, by="waiting"), "requests are waiting"),
    (
        fact("watch_imbalance", url="http://a:1", ratio=1.8, by="in_flight"),
        "the busiest replica, http://a:1, had 1.80 times an even share of the requests in flight over the window",
    ),
    (
        fact("watch_imbalance", url="http://a:1", ratio=1.8, by="finished"),
        "the busiest replica, http://a:1, had 1.80 times an even share of the finished requests over the window",
    ),
    (fact("watch_none_read", replicas=1), "The replica could not be read"),
    (fact("watch_some_unread", unread=1, replicas=3), "1 of 3 replicas could not be read"),
    (fact("watch_none_read", replicas=2), "None of 2 replicas could be read"),
    (fact("watch_over", over=1, read=2, most_frac=0.8), "1 of 2 replicas is above 80 %"),
    (
        fact("watch_load_unknown"),
        "The load of no replica is known: none tells its KV use or how many requests it finished",
    ),
]
QUICK: dict[str, Figure] = {"mode": "quick", "careful": False, "rates": 0, "budget_s": 180.0}
FOR_REQUESTS = fact("window_for_requests", requests=100.0, target=0.95, rate_rps=0.32, **LONGER)

ANSWERS: list[tuple[Fact, str]] = [
    (
        fact("bracket", pass_rps=11.3, first_fail_rps=16.0, fail_rps=16.0, clearly=False),
        "holds at 11.3 requests/s, fails at 16.0 requests/s",
    ),
    (
        fact("bracket", pass_rps=11.3, first_fail_rps=12.4, fail_rps=16.0, clearly=True),
        "holds at 11.3 requests/s, mixed from 12.4, clearly fails at 16.0 requests/s",
    ),
    (
        fact("bracket", pass_rps=11.3, first_fail_rps=12.4, fail_rps=16.0, clearly=False),
        "holds at 11.3 requests/s, mixed from 12.4, fails at 16.0 requests/s",
    ),
    (
        fact("bracket", pass_rps=11.3, first_fail_rps=12.4, fail_rps=None, clearly=False),
        "holds at 11.3 requests/s, mixed from 12.4 requests/s, open above: the knee may be higher than what failed",
    ),
    (fact("at_least", pass_rps=40.0, all_tried=True), "holds at 40.0 requests/s, the highest rate tried"),
    (fact("at_least", pass_rps=40.0, all_tried=False), "holds at 40.0 requests/s, the highest rate judged"),
    (fact("below", fail_rps=0.5, short_rps=None, all_tried=True), "fails at 0.500 requests/s, the lowest rate tried"),
    (fact("below", fail_rps=0.5, short_rps=None, all_tried=False), "fails at 0.500 requests/s, the lowest rate judged"),
    (
        fact("below", fail_rps=12.4, short_rps=11.3, all_tried=True),
        "fails at 12.4 requests/s, the lowest rate judged by all repeats; 11.3 requests/s passed one short step, no more",
    ),
    (
        fact("not_known_below", fail_rps=2.0, short_rps=None),
        "fails at 2.00 requests/s; whether a lower rate holds is not known",
    ),
    (
        fact("not_known_below", fail_rps=12.4, short_rps=11.3),
        "fails at 12.4 requests/s; whether a lower rate holds is not known; 11.3 requests/s passed one short step, no more",
    ),
    (fact("no_rate_judged", short_rps=None), "no rate was judged"),
    (
        fact("no_rate_judged", short_rps=11.3),
        "no rate was judged by all repeats; 11.3 requests/s passed one short step, no more",
    ),
    (fact("errors_at", BROKEN, rate_rps=4.0), "at 4.00 requests/s, 32 of 52 requests ended in errors (truncated 30, http 2)"),
    (
        fact("nothing_served", BROKEN, rate_rps=0.03125),
        "No answer: already at 0.0312 requests/s, 32 of 52 requests ended in errors (truncated 30, http 2). Check "
        "the server, then run again",
    ),
    (fact("on_top", "holds at 4 requests/s", others_rps=3.02), "holds at 4 requests/s, on top of 3.02 requests/s from others"),
    (
        fact("on_top", "holds at 4 requests/s", others_rps=None),
        "holds at 4 requests/s, on top of other traffic, which the server does not report",
    ),
    (fact("no_single_sent"), "no single request was sent"),
    (fact("infeasible", fact("no_single_sent")), "infeasible at any rate: no single request was sent"),
    (
        fact(
            "singles_over_limits",
            missed=3,
            ttft_s=0.91,
            ttft_limit_s=0.8,
            tpot_s=None,
            tpot_limit_s=None,
            e2e_s=21.0,
            e2e_limit_s=20.0,
        ),
        "even single requests miss the limits, 3 of 3 (TTFT 910 ms, limit 800 ms, E2E 21.0 s, limit 20 s)",
    ),
    (
        fact("singles_in_errors", requests=3, answered=True, said="HTTP 500"),
        "the server answers errors to all 3 single requests (HTTP 500), so no rate can be right",
    ),
    (
        fact("singles_in_errors", requests=3, answered=False, said="timeout"),
        "the server breaks off all 3 single requests (timeout), so no rate can be right",
    ),
    (fact("held_a_day"), "the rate was held for a day"),
    (
        fact("segments_void", fact("server_restarted"), void=1),
        "no segment counted, 1 was void: the server restarted during the repeat",
    ),
    (
        fact("held", fact("held_void", fact("segments_void", fact("server_restarted"), void=5), rate_rps=4.0)),
        "held 4.00 requests/s (no segment counted, 5 were void: the server restarted during the repeat)",
    ),
    (fact("held_void", "all void", rate_rps=4.0), "4.00 requests/s (all void)"),
    (fact("held_in_vain", "held 4 requests/s"), "No answer: held 4 requests/s. Fix that, then run again"),
    (fact("refused", "The model is not there."), "The model is not there"),
    (fact("refused", "The model is not there.", "Two are"), "The model is not there. Two are"),
    (
        fact("checks_incomplete", MAX_DURATION),
        "The checks are not complete: stopped: --max-duration of 1 min is over",
    ),
    (fact("checks_kept", age_s=20.0), "These settings were checked 20 s before this run; the checks are not made again"),
    (fact("stopped_before_answer"), "Stopped before the answer; what was finished is kept"),
    (fact("limit_reached", MAX_DURATION), "No answer, stopped: --max-duration of 1 min is over; finished steps are kept"),
    (
        fact("max_in_flight", in_flight=13, limit=12),
        "stopped: 13 requests in flight, --max-in-flight allows 12",
    ),
    (MAX_DURATION, "stopped: --max-duration of 1 min is over"),
    (
        fact("backed_off_held", fact("others_preempted")),
        "backed off to spare other users: the server keeps preempting requests",
    ),
    (fact("server_unusable", fact("server_lost")), f"No answer: {prose.text(fact('server_lost'))}. {CHECK}"),
    (
        fact("void_twice", fact("server_restarted"), rate_rps=4.0),
        "No answer: two repeats in a row at 4.00 requests/s did not count: the server restarted during the repeat. "
        "Fix that, then run again; finished steps are kept",
    ),
    (
        fact("recording_unfit", fact("recorded_lull", planned=12, measure_s=40.0, rate_rps=4.0, expected=160.0), rate_rps=4.0),
        "No answer: at 4.00 requests/s the recording has a lull here, 12 requests in a window (40 s at 4.00 requests/s) that "
        "stands for 160: take a busier part of it, such as --trace-window 10m@busiest; finished steps are kept",
    ),
    (
        fact("back_without_model", rate_rps=4.0, model="tiny", said="HTTP 404: no tiny", endings={"http": 1}),
        "No answer: the server was away at 4.00 requests/s, and what answers there now does not serve the model tiny "
        f"(HTTP 404: no tiny). {CHECK}",
    ),
    (
        fact("away_again", rate_rps=4.0, **GONE),
        f"No answer: the server was away a second time, at 4.00 requests/s (HTTP 502). {CHECK}",
    ),
    (
        fact("away_for_good", rate_rps=4.0, within_s=300.0, **GONE),
        f"No answer: the server was away at 4.00 requests/s (HTTP 502) and did not come back within 5 min. {CHECK}",
    ),
    (
        fact("client_mute", silent_s=20.0),
        "The load generator was silent for 20 s (stopped, or starved of CPU?) and was killed; run again",
    ),
    (fact("client_stuck", within_s=5.0), "The load generator did not stop within 5 s and was killed; run again"),
    (fact("client_gone"), "The load generator exited before the run was over, so nothing is sent any more; run again"),
    (
        fact("between_failed", exit_code=7, within_s=600.0),
        "The command given with --between ended with exit code 7; fix that, then run again",
    ),
    (
        fact("between_failed", exit_code=None, within_s=600.0),
        "The command given with --between did not end within 10 min; fix that, then run again",
    ),
    (
        fact("between_not_ready", within_s=600.0, missing="health"),
        "The server is not ready 10 min after the command given with --between: it does not answer",
    ),
    (
        fact("between_not_ready", within_s=600.0, missing="metrics"),
        "The server is not ready 10 min after the command given with --between: its metrics give no reading",
    ),
    (
        fact("own_error", what="KeyError: 'x'"),
        "The run broke off because of an error in kneescope itself: KeyError: 'x'",
    ),
    (
        fact("unfinished"),
        "The run ended without an answer and without a reason: the program was killed, or the machine went down",
    ),
    (fact("still_going"), "The run is still going; this is its state so far"),
]

MEANWHILE: list[tuple[Fact, str]] = [
    (
        fact("step_judged", "all fine", step=3, phase="search", verdict="pass", rate_rps=4.0),
        "step 3: pass at 4.00 requests/s: all fine",
    ),
    (
        fact("step_judged", REACH, step=1, phase="ramp", verdict="fail", rate_rps=24.69),
        "ramp: fail at 24.7 requests/s: at most 41 % can still meet the limits (target 95 %)",
    ),
    (fact("at_rate", fact("by_one_request"), rate_rps=4.0), "4.00 requests/s: passed by one request"),
    (fact("check_said", "the prompts are warm", check="isolation"), "isolation: the prompts are warm"),
    (
        fact("done_again", fact("server_restarted"), rate_rps=12.4),
        "A repeat at 12.4 requests/s does not count and is run again: the server restarted during the repeat",
    ),
    (
        fact("warmup_again", fact("warmup_short", warmup_s=1.0, needed_s=3.4), rate_rps=4.0),
        "A repeat at 4.00 requests/s is run again with a longer warm-up: the warm-up of 1 s was too short: "
        "requests as long as these need 3.4 s",
    ),
    (fact("rate_next", rate_rps=5.0, at_limit=False), "5.00 requests/s next, as soon as the open requests have ended"),
    (fact("rate_next", rate_rps=6.0, at_limit=True), "6.00 requests/s next, the highest that --max-rps allows"),
    (fact("rate_stays", rate_rps=6.0, at_limit=True), "The rate stays at 6.00 requests/s, the highest that --max-rps allows"),
    (
        fact("rate_stays", rate_rps=5.0, at_limit=False),
        "The rate stays at 5.00 requests/s, as soon as the open requests have ended",
    ),
    (fact("time_announced", fact("until_stopped")), "Expected time: until it is stopped"),
    (
        fact("time_announced", fact("time_expected", total_s=140.0, **QUICK)),
        "Expected time: about 2 min 20 s in quick mode",
    ),
    (fact("time_expected", total_s=140.0, **QUICK | {"careful": True}), "about 2 min 20 s in quick mode, careful"),
    (
        fact("time_expected", total_s=1500.0, **QUICK),
        "about 25 min in quick mode. That is longer than the 3 min set for it",
    ),
    (
        fact("time_expected", FOR_REQUESTS, fact("warmup_long", warmup_s=70.0), total_s=1500.0, **QUICK),
        "about 25 min in quick mode. That is longer than the 3 min set for it: each repeat measures 5 min 10 s instead of 40 s, "
        "because 100 requests are needed at a target of 95 %, at 0.320 a second; "
        "each repeat warms up for 1 min 10 s, because a server with long answers takes that long to settle",
    ),
    (
        fact("time_expected", total_s=100.0, **QUICK | {"rates": 2, "budget_s": None}),
        "about 1 min 40 s for a list of rates",
    ),
    (
        fact("time_expected", fact("window_for_durations", e2e_s=20.0, **LONGER), total_s=510.0, **QUICK | {"rates": 1}),
        "about 8 min 30 s for one rate. Each repeat measures 5 min 10 s instead of 40 s, "
        "because it must hold five mean request durations of 20 s",
    ),
    (
        fact("stays_wide", factor=1.62, wanted_factor=1.14),
        "The bracket will stay wide: about a factor of 1.62 when the time is up, not 1.14; a longer --budget narrows it",
    ),
    (
        fact("time_longer", total_s=900.0),
        "This takes longer than announced: about 15 min in all, for enough requests",
    ),
    (fact("left_ramp_higher", rates=5), "the ramp goes beyond the 5 rates that were assumed"),
    (fact("left_ramp_over", rate_rps=24.2, failed=True), "the ramp ended with a fail at 24.2 requests/s"),
    (fact("left_ramp_over", rate_rps=24.2, failed=False), "the ramp ended at 24.2 requests/s"),
    (fact("left_failed", rate_rps=17.1), "the step at 17.1 requests/s failed early"),
    (fact("left_passed", rate_rps=12.1), "the step at 12.1 requests/s passed, and less is left to try"),
    (fact("left_ended", rate_rps=12.1), "the step at 12.1 requests/s was ended before its verdict"),
    (fact("left_again", rate_rps=12.1), "a repeat at 12.1 requests/s does not count and is run again"),
    (fact("left_warmup_again", rate_rps=12.1), "a repeat at 12.1 requests/s is run again with a longer warm-up"),
    (fact("left_repeat_over", rate_rps=12.1), "a repeat at 12.1 requests/s ended earlier or later than assumed"),
    (fact("left_disagree", rate_rps=12.1), "the repeats at 12.1 requests/s disagree, so one more is run"),
    (fact("left_slower", e2e_s=4.2, assumed_s=2.9), "requests take 4.2 s on average, where 2.9 s were assumed"),
    (fact("left_more_steps", rate_rps=12.1), "after the step at 12.1 requests/s more is left to try"),
    (fact("left_requests"), "windows must be longer to hold enough requests"),
    (fact("left_waiting"), "the last requests of the window take longer than assumed"),
    (fact("left_queue"), "the window goes on because its queue is undecided"),
    (fact("left_overdue", over_s=42.3), "the run is 42 s past its expected end"),
    (fact("left_anew"), "the server was away, and the search starts again"),
    (fact("left_closed_loop"), "a closed loop is measured beside the answer"),
    (
        fact("closed_begins", fact("bracket", pass_rps=4.0, first_fail_rps=6.0, fail_rps=6.0, clearly=False), each_s=20.0),
        "The answer stands: holds at 4.00 requests/s, fails at 6.00 requests/s. A closed loop is measured beside it, 20 s for each "
        "number in flight",
    ),
    (
        fact("closed_rung", in_flight=2, rate_rps=19.2, attainment=0.96, target=0.95),
        "closed loop, 2 in flight: 19.2 requests/s completed, 96.0 % within the limits",
    ),
    (
        fact("closed_missed", in_flight=4, rate_rps=19.2, attainment=0.82, target=0.95),
        "with 4 in flight only 82.0 % are within the limits",
    ),
    (fact("closed_in_flight", limit=8, own=False), "--max-in-flight allows 8 in flight"),
    (fact("closed_in_flight", limit=1024, own=True), "no more than 1,024 in flight are tried"),
    (fact("closed_max_rps", limit_rps=14.0), "more might exceed --max-rps 14"),
    (fact("closed_no_time"), "--max-duration leaves no time for more"),
    (fact("closed_stopped"), "it was stopped"),
    (
        fact("closed_broken", fact("others_took_part", others=50.0, ours=380)),
        "it was broken off: others used the server: at least 50 requests besides our 380",
    ),
    (
        fact("closed_loop", rate_rps=6.8, in_flight=16, times=2.6, to_the_end=True),
        "a closed loop says 6.80, 2.6 times what holds: it waits for the server",
    ),
    (
        fact("closed_loop", rate_rps=6.8, in_flight=16, times=0.85, to_the_end=True),
        "a closed loop says 6.80, 0.85 times what holds",
    ),
    (
        fact("closed_loop", rate_rps=6.8, in_flight=16, times=None, to_the_end=False),
        "a closed loop says at least 6.80, where no rate held: it waits for the server",
    ),
    (
        fact("closed_none", in_flight=1, attainment=0.8, target=0.95),
        "a closed loop says nothing: already with 1 in flight only 80.0 % are within the limits",
    ),
    (
        fact("closed_unmeasured", fact("closed_no_time")),
        "a closed loop was not measured: --max-duration leaves no time for more",
    ),
    (fact("until_stopped"), "until it is stopped"),
    (fact("time_unknown"), "not known"),
    (
        fact("window_too_few", requests=145.0, needed=500.0, target=0.99),
        "the time that was set allows about 145 requests per repeat, and a target of 99 % needs 500",
    ),
    (
        FOR_REQUESTS,
        "each repeat measures 5 min 10 s instead of 40 s, because 100 requests are needed at a target of 95 %, at 0.320 a second",
    ),
    (
        fact("window_for_durations", e2e_s=20.0, **LONGER),
        "each repeat measures 5 min 10 s instead of 40 s, because it must hold five mean request durations of 20 s",
    ),
    (
        fact("warmup_long", warmup_s=70.0),
        "each repeat warms up for 1 min 10 s, because a server with long answers takes that long to settle",
    ),
    (
        fact("first_token_awaited", within_s=30.0),
        "Waiting for the first token of a single request (at most 30 s): a server may still be warming up",
    ),
    (fact("end_awaited", within_s=120.0), "Waiting for the end of a single request (at most 2 min, --drain)"),
    (
        fact("readings_slow", took_s=1.0, every_s=5.0),
        "Reading the server's metrics takes 1 s: they are read only every 5 s, so that this adds no load",
    ),
    (
        fact("readings_stopped", within_s=3.0),
        "The server's metrics gave no new reading within 3 s, so whether it is idle again is not known",
    ),
    (
        fact("idle_unknown", e2e_s=3.2, idle_e2e_s=0.612, said=None, endings={"ok": 1}),
        "Whether the server is idle again is not known: its metrics do not show it, and a single request took 3.20 s (idle 612 ms)",
    ),
    (
        fact("idle_unknown", e2e_s=None, idle_e2e_s=0.6, said="HTTP 503", endings={"http": 1}),
        "Whether the server is idle again is not known: its metrics do not show it, and a single request failed (HTTP 503)",
    ),
    (
        fact("idle_unknown", e2e_s=None, idle_e2e_s=0.6, said=None, endings={}),
        "Whether the server is idle again is not known: its metrics do not show it, and a single request was not answered",
    ),
    (
        fact("work_unknown", after_s=120),
        "The server's counters still rise 2 min after our requests ended, and it does not report how many requests it has: "
        "the next repeat starts on top of them",
    ),
    (
        fact("not_settled", requests=3.0, after_s=15.0),
        "The server still has 3 requests 15 s after ours ended: the next repeat starts on top of them",
    ),
    (
        fact("not_settled", requests=1.0, after_s=15.0),
        "The server still has 1 request 15 s after ours ended: the next repeat starts on top of them",
    ),
    (fact("asked_again", **GONE), "A single request without load failed too (HTTP 502); asking again"),
    (fact("away_awaited", within_s=300.0, **GONE), "The server is away: HTTP 502. Waiting for it, at most 5 min"),
    (
        fact("away_awaited", within_s=300.0, said=None, endings={"connection": 9, "timeout": 2}),
        "The server is away: connection 9, timeout 2. Waiting for it, at most 5 min",
    ),
    (
        fact("still_away", left_s=42.4, said=None, endings={}),
        "The server is still away: a single request was not answered. Waiting for it, at most 42 s more",
    ),
    (
        fact("back_already", seen="restarted", **GONE),
        "The server is back: it was away (HTTP 502; it restarted meanwhile)",
    ),
    (fact("back_after", away_s=52.0), "The server is back after 52 s"),
    (
        fact("no_diagnosis", what="KeyError: 'x'"),
        "There is no diagnosis because of an error in kneescope itself (KeyError: 'x'); the answer stands",
    ),
    (
        fact("cache_unreached", said="cannot be reached"),
        "The prefix cache could not be reset: the server cannot be reached",
    ),
    (
        fact("cache_not_offered", said="answers 404"),
        "The server offers no reset of its prefix cache (POST /reset_prefix_cache answers 404; vLLM offers it when started with "
        "VLLM_SERVER_DEV_MODE=1). The run goes on without: prompts are cold anyway",
    ),
    (
        fact("cache_not_allowed", said="answers 403"),
        "The server does not allow a reset of its prefix cache (POST /reset_prefix_cache answers 403)",
    ),
    (
        fact("cache_not_reset", said="answers 500"),
        "The prefix cache could not be reset: POST /reset_prefix_cache answers 500",
    ),
    (fact("cache_held"), "The server says that its prefix cache was not reset: some request still holds a part of it"),
    (
        fact("cache_unchecked"),
        "The server was asked to reset its prefix cache and does not say whether it did (vLLM does since 0.26)",
    ),
]

CALL = fact("call_refused", status=401, said="no")
LIMITS: dict[str, Figure] = {"ttft_limit_s": None, "tpot_limit_s": None, "e2e_limit_s": None}
TOOK: dict[str, Figure] = {"ttft_s": [0.04, 0.05], "tpot_s": [], "e2e_s": [1.31, 12.345], "slow_first_s": None}
ASKED: dict[str, Figure] = {"prompt_tokens": 512, "output_tokens": 128}
CAME: dict[str, Figure] = {"came_frac": 4.0, "asked_tokens": 384, "requests": 3, "by_usage": True}
HITS: dict[str, Figure] = {"hits": 1024.0, "looked_up": 2560.0, "unit": "tokens"}
DRAWN: dict[str, Figure] = {"missed_frac": 0.0449, "allowed_frac": 1 - 0.95, "target": 0.95}
BROKEN = fact("request_broken_off", ending="http", status=404, said="The model `x` does not exist")

CHECKS: list[tuple[Fact, str]] = [
    (fact("server_answers", url="http://gw", path="/health", status=200), "http://gw answers (GET /health: 200)"),
    (
        fact("call_failed", why="refused", said="cannot be reached: nothing listens there (connection refused)"),
        "cannot be reached: nothing listens there (connection refused)",
    ),
    (CALL, "answers 401 (unauthorised: no)"),
    (fact("call_refused", status=500, said=None), "answers 500"),
    (
        fact("server_unreachable", fact("call_failed", why="name", said="cannot be reached"), url="http://gw"),
        "http://gw cannot be reached",
    ),
    (
        fact("server_not_up", fact("call_refused", status=503, said=None), url="http://gw", path="/health"),
        "http://gw is there, but GET /health answers 503; the server is not up, or the address is not that of its API",
    ),
    (fact("route_slow", within_s=2.0), "does not answer within 2 s"),
    (
        fact("health_unsure", fact("route_slow", within_s=2.0), url=None, path="/health"),
        "GET /health does not answer within 2 s, so a streamed request decides whether it serves",
    ),
    (
        fact("health_unsure", fact("call_refused", status=503, said=None), url="http://gw", path="/health"),
        "http://gw is there, but GET /health answers 503, so a streamed request decides whether it serves",
    ),
    (fact("is_it_the_api", url="http://gw/v1"), "Is http://gw/v1 the address of the API?"),
    (
        fact("certificate_unchecked"),
        "Its certificate is not checked (--insecure): whoever answers gets the requests, and the key",
    ),
    (
        fact("through_proxy", proxy="http://proxy:3128"),
        "Everything goes through the proxy http://proxy:3128, and its delay is measured as the server's",
    ),
    (
        fact("proxy_not_used", proxy="http://proxy:3128"),
        "The proxy http://proxy:3128 is not used: the server is on this machine",
    ),
    (
        fact("proxies_not_obeyed", "HTTP_PROXY (http://a:1)", "ALL_PROXY (http://b:1)", variable="HTTP_PROXY"),
        "Not used: HTTP_PROXY (http://a:1) and ALL_PROXY (http://b:1); --proxy env:HTTP_PROXY uses it",
    ),
    (
        fact("server_far", url="http://gw"),
        "http://gw is neither on this machine nor in a private network: load only what you are allowed to. --yes "
        "says that you are; no load was sent",
    ),
    (
        fact("server_place_unknown", url="http://gw"),
        "http://gw cannot be resolved from here: load only what you are allowed to. --yes says that you are; no load was sent",
    ),
    (
        fact("version_unknown"),
        "The server does not tell its version (GET /version); what it can do is found out by trying",
    ),
    (fact("version_known", version="0.32.0"), "Version 0.32.0"),
    (
        fact("simulated_replica", version="0.32.0+simulated"),
        "A simulated replica, version 0.32.0+simulated: no real model stands behind its numbers",
    ),
    (
        fact("fields_rejected", version="0.6.4"),
        "vLLM 0.6.4 rejects fields it does not know (before 0.6.5), cache_salt among them",
    ),
    (
        fact("salt_ignored", version="0.8.5"),
        "vLLM 0.8.5 ignores cache_salt here; only their first tokens keep prompts apart",
    ),
    (fact("models_unread", CALL, path="/v3/models"), "The list of models (GET /v3/models) answers 401 (unauthorised: no)"),
    (fact("models_unread", CALL), "The list of models (GET /v1/models) answers 401 (unauthorised: no)"),
    (fact("no_model_list", path="/v3/models"), "GET /v3/models does not return a list of models; is this the address of the API?"),
    (fact("no_model_list"), "GET /v1/models does not return a list of models; is this the address of the API?"),
    (
        fact("key_missing", fact("models_unread", CALL)),
        "The list of models (GET /v1/models) answers 401 (unauthorised: no); give --api-key-file or KNEESCOPE_API_KEY",
    ),
    (
        fact("key_not_accepted", fact("models_unread", CALL)),
        "The list of models (GET /v1/models) answers 401 (unauthorised: no); the server does not accept the API key",
    ),
    (fact("no_model_listed"), "The server lists no model (GET /v1/models)"),
    (
        fact("model_not_chosen", "a", "b", models=5000),
        "The server has 5000 models; choose one with --model: a, b and 4998 more",
    ),
    (fact("model_not_listed", "a", models=1, asked="b"), "The server lists no model b; it lists: a"),
    (fact("model_unnamed"), "Name the model with --model to go on without the list"),
    (fact("model_taken_as_given", model="tiny"), "Model tiny is taken as given, and its context is not known"),
    (fact("model_found", model="tiny", context_tokens=2048), "tiny, context of 2,048 tokens"),
    (fact("model_found", model="tiny", context_tokens=None), "tiny, context length not known"),
    (
        fact("context_unknown", **ASKED, context_tokens=None),
        "The server does not tell its context length; 512 prompt + 128 output tokens may be too long",
    ),
    (
        fact("context_fits", **ASKED, context_tokens=2048),
        "The longest request, 512 prompt + 128 output tokens, fits into 2,048",
    ),
    (
        fact("context_too_short", **ASKED, context_tokens=600, shortened=True),
        "The longest request, 512 prompt + 128 output tokens, does not fit into 600: the server would cut its "
        "answer short silently. Ask for fewer tokens",
    ),
    (
        fact("context_too_short", **ASKED, context_tokens=600, shortened=False),
        "The longest request, 512 prompt + 128 output tokens, does not fit into 600: the server would answer it with an error. "
        "Ask for fewer tokens",
    ),
    (
        fact("context_too_short", **ASKED, context_tokens=600, shortened=False, file="pairs.csv", longer_frac=0.02),
        "The longest request, 512 prompt + 128 output tokens, does not fit into 600: the server would answer it with an error. "
        "Take the longer rows out of pairs.csv: 2.0 % of all",
    ),
    (fact("files_unlimited"), "The number of open files is not limited"),
    (
        fact("files_few", files=256, before=None),
        "Only 256 files may be open; each request in flight needs one. Raise the hard limit (ulimit -Hn)",
    ),
    (fact("files_enough", files=20000, before=1024), "20,000 files may be open, raised from 1,024"),
    (
        fact("metrics_found", url="http://gw/metrics", engines=1, took_s=0.0123),
        "Metrics at http://gw/metrics, 1 engine, read in 12.3 ms",
    ),
    (
        fact("replicas_read", read=4, replicas=4, engines=4, took_s=0.0123),
        "Metrics of all 4 replicas, read in 12.3 ms",
    ),
    (
        fact("replicas_read", read=3, replicas=4, engines=6, took_s=0.0123),
        "Metrics of 3 of 4 replicas (6 engines), read in 12.3 ms",
    ),
    (fact("replica_unread", name="10.0.0.7:8000", said="answers 401"), "10.0.0.7:8000 answers 401"),
    (fact("more_unread", replicas=3), "3 more replicas cannot be read"),
    (
        fact("replica_twice", "127.0.0.1:8000", "localhost:8000"),
        "127.0.0.1:8000 and localhost:8000 are one replica under two names: same start, same counters. Name each replica once",
    ),
    (
        fact("replicas_behind", requests=5, replicas=3),
        "The 5 requests that the gateway answered came from the 3 replicas named",
    ),
    (
        fact("replicas_elsewhere", counted=3, requests=5, replicas=2),
        "Of 5 requests that the gateway answered, the 2 replicas named finished 3: others stand behind it, too. Name all that do, "
        "and no others",
    ),
    (
        fact("router_tells_other", servers=5, replicas=4),
        "The router in front tells of 5 servers, not of 4; what the others do is not seen",
    ),
    (
        fact("replicas_unreadable", said="No replica is known"),
        "No replica is known. Give the replicas' own addresses, and --replica-key-file or --replica-header if they ask for a key",
    ),
    (fact("metrics_unreachable", CALL, url="http://gw/metrics"), "http://gw/metrics answers 401 (unauthorised: no)"),
    (fact("metrics_unreadable", url="http://gw/metrics", said="the answer is empty"), "http://gw/metrics: the answer is empty"),
    (
        fact("metrics_missing", "a answers 404", "b answers 404", address_given=False),
        "Metrics are not available, the run goes on without: a answers 404; b answers 404; "
        "--metrics-url names another place (with Ray Serve, the metrics port of a node)",
    ),
    (
        fact("metrics_missing", fact("metrics_of_router", url="http://gw/m", servers=2), address_given=True, servers=2),
        "Metrics are not available, the run goes on without: http://gw/m shows a router's figures over 2 servers, none of an "
        "engine; --metrics-url names an engine's own",
    ),
    (
        fact("metrics_of_router", url="http://gw/m", servers=1),
        "http://gw/m shows a router's figures over 1 server, none of an engine",
    ),
    (fact("router_left_out", servers=3), "A router's own figures over 3 servers are left out"),
    (fact("models_left_out", "n", "o", models=2, model="m"), "Only the rows of m count, not those of n, o"),
    (
        fact("model_not_in_metrics", "n", "o", models=3, model="m"),
        "They name no model m, only n, o and 1 more: all of their rows count as ours",
    ),
    (fact("servers_behind", servers=2), "A router spreads requests over 2 servers behind this address"),
    (
        fact("metrics_missing", "a answers 404", address_given=True),
        "Metrics are not available, the run goes on without: a answers 404",
    ),
    (
        fact("kv_capacity", tokens=64000, engines=2, blocks=2000, block_tokens=16),
        "The KV cache holds 64,000 tokens over 2 engines, 2,000 blocks of 16",
    ),
    (fact("kv_capacity", tokens=64000, engines=1, blocks=None, block_tokens=16), "The KV cache holds 64,000 tokens"),
    (
        fact("kv_capacity_unknown", has_metrics=True),
        "The size of the KV cache is not known: its metrics do not say, or the model does not use plain full attention",
    ),
    (fact("kv_capacity_unknown", has_metrics=False), "The size of the KV cache is not known: there are no metrics"),
    (fact("layout_seen", tp=2, pp=1, dp=None, no_fingerprint=False), "TP 2, PP 1, DP 1 or hidden"),
    (
        fact("layout_seen", tp=None, pp=None, dp=4, no_fingerprint=True),
        "TP 1 or hidden, PP 1 or hidden, DP 4 (no system_fingerprint, which vLLM has from 0.21)",
    ),
    (
        fact("layout_differs", tp=2, pp=1, dp=1, told_dp=8),
        "The fingerprint says DP 8, but 1 engine shows behind this address, which is what counts here: TP 2, PP 1, DP 1",
    ),
    (
        fact("traffic_unknown"),
        "Whether others use the server is not known: it does not report how many requests it has",
    ),
    (fact("no_traffic"), "No requests from others: 0 running, 0 waiting"),
    (
        fact("server_busy", others=5.0, running=3.0, waiting=2.0),
        "The server is serving others: it has 5 requests now (3 running, 2 waiting). Load would slow them down, "
        "and they would spoil the answer: wait until it is idle, or give --with-others",
    ),
    (
        fact("server_shared", others=5.0, running=3.0, waiting=2.0),
        "The server is serving others: it has 5 requests now (3 running, 2 waiting). The answer is what fits on top of them",
    ),
    (
        fact("server_busy", others=5.0, running=3.0, waiting=2.0, still=True),
        "The server is serving others: it has 5 requests now (3 running, 2 waiting); its counters stand still, but a single "
        "request was answered and they are still shown. Load would slow them down, and they would spoil the answer: wait until it "
        "is idle, or give --with-others",
    ),
    (
        fact("traffic_at_rest"),
        "Its counters stand still, so the server is serving nobody now; it does not report how many requests it has",
    ),
    (
        fact("server_working"),
        "The server is serving others: its counters rise, and it does not report how many requests it has. Load would slow them "
        "down, and they would spoil the answer: wait until it is idle, or give --with-others",
    ),
    (
        fact("gauges_refreshed", others=121.0, running=106.0, waiting=15.0),
        "No requests from others: the metrics still showed 121 requests (106 running, 15 waiting) of an earlier load, until a "
        "single request was answered",
    ),
    (
        fact("gauges_unproven", others=121.0, running=106.0, waiting=15.0),
        "Whether others use the server is not known: it shows 121 requests (106 running, 15 waiting), but its counters stand "
        "still, and a single request was not answered",
    ),
    (fact("no_request_sent"), "No request was sent"),
    (
        fact("request_answered", **ASKED, ttft_s=0.04, tpot_s=None, e2e_s=1.31),
        "A streamed request of 512 + 128 tokens was answered: TTFT 40.0 ms, E2E 1.31 s",
    ),
    (
        fact("request_failed", BROKEN, **ASKED),
        "A streamed request of 512 + 128 tokens failed: http with status 404, The model `x` does not exist",
    ),
    (
        fact("request_failed", BROKEN, **ASKED, text_refused=False),
        "A streamed request of 512 + 128 tokens failed: http with status 404, The model `x` does not exist",
    ),
    (
        fact("request_failed", BROKEN, **ASKED, text_refused=True),
        "A streamed request of 512 + 128 tokens failed: http with status 404, The model `x` does not exist; "
        "does it serve only chats? Try --api chat",
    ),
    (fact("takes_text"), "It does not accept prompts of token ids, so text is sent instead"),
    (fact("takes_usage_at_end"), "It does not accept continuous_usage_stats, so usage is requested at the end of each answer"),
    (fact("takes_no_usage"), "It does not accept stream_options, so no usage is requested"),
    (fact("fields_left_out", "ignore_eos"), "It does not accept ignore_eos, so it is left out"),
    (fact("fields_left_out", "top_p", "ignore_eos"), "It accepts neither top_p nor ignore_eos, so they are left out"),
    (BROKEN, "http with status 404, The model `x` does not exist"),
    (fact("request_broken_off", ending="truncated", status=None, said=None), "truncated"),
    (
        fact("request_given_up", after_s=120.0, first_token=False, tokens_too_many=None),
        "it was given up after 2 min without a token",
    ),
    (
        fact("request_given_up", after_s=120.0, first_token=True, tokens_too_many=4000),
        "it was given up after 2 min without an end, 4,000 tokens long by then",
    ),
    (fact("takes_no_salt"), "It does not accept cache_salt, so only their first tokens keep prompts apart"),
    (
        fact("takes_max_tokens"),
        "It does not accept max_completion_tokens, so max_tokens is sent instead",
    ),
    (
        fact("usage_seen", output_tokens=128, asked=128, events=32),
        "Usage in the stream: 128 output tokens of 128 asked, in 32 events",
    ),
    (
        fact("ended_without_reason", output_tokens=128),
        "It ended normally but without a finish_reason; all 128 tokens had come",
    ),
    (
        fact("counted_by_ids", output_tokens=128, asked=128),
        "No usage in the stream: tokens are counted by their ids (128 of 128 asked)",
    ),
    (
        fact("length_counts", events=32, asked=128, usage_in_stream=False),
        "No usage in the stream (32 events for 128 tokens asked): the server keeps to the length asked for, so "
        "answers that end at it count as that long",
    ),
    (
        fact("answers_end_by_length", requests=3),
        "3 requests ended at the length asked for, which the server keeps to; it does not count their tokens",
    ),
    (
        fact("answers_uncounted", requests=3, asked_tokens=384, came_frac=0.25, by_usage=False),
        "How long answers get is not known: 3 requests for 384 tokens came in 25 % as many events, and the server "
        "does not say how many tokens an event holds. TPOT would look too slow",
    ),
    (
        fact("usage_missing", events=128, asked=128),
        "No usage in the stream: tokens are counted one per event (128 of 128 asked), an estimate",
    ),
    (
        fact("usage_implausible", events=128, asked=128),
        "Usage in the stream counts single chunks, or stops midway: tokens are counted one per event (128 of 128 "
        "asked), an estimate",
    ),
    (fact("prompt_length_unknown", asked=512), "The server does not say how long the prompt was (512 tokens asked)"),
    (fact("prompt_as_asked", prompt_tokens=512, asked=512), "The server counts 512 prompt tokens for 512 asked"),
    (
        fact("prompt_miscounted", prompt_tokens=530, asked=512, off_frac=0.0352, allowed_frac=0.02),
        "The server counts 530 prompt tokens for 512 asked: 3.52 % too many, 2 % is allowed",
    ),
    (fact("no_prefix_cache"), "The server caches no prefixes, so every prompt is cold"),
    (
        fact("prompts_cold", hits=0.0, looked_up=160.0, unit="blocks", prompts=5),
        "Our 5 prompts were cold: 0 of 160 blocks looked up were hits",
    ),
    (
        fact("prompts_cold_by_usage", cached_tokens=0, prompt_tokens=1024, prompts=2),
        "Our 2 prompts were cold: usage says 0 of 1,024 tokens cached",
    ),
    (
        fact("prompts_not_cold", **HITS, hit_frac=0.4),
        "Prompts are not cold: 1,024 of 2,560 tokens looked up were hits (40 %); every latency would look too good",
    ),
    (
        fact("prompts_not_cold_by_usage", cached_tokens=400, prompt_tokens=1024, prompts=2),
        "Prompts are not cold: 400 of 1,024 prompt tokens came from the prefix cache",
    ),
    (fact("cold_unproven_still"), "Cold prompts cannot be proven: the prefix cache counters did not move"),
    (
        fact("cold_unproven_others", **HITS, ours_tokens=512),
        "Cold prompts cannot be proven: 1,024 of 2,560 tokens looked up were hits, but only 512 were ours, so others took part",
    ),
    (fact("cold_unproven_uncounted"), "Cold prompts cannot be proven: the server shows no prefix cache counters"),
    (fact("answers_unmeasured"), "No single request was answered, so its length is not known"),
    (
        fact("answers_as_asked", **{**CAME, "came_frac": 1.0}),
        "Answers are as long as asked: 100 % of the 384 output tokens asked of 3 requests came",
    ),
    (
        fact("answers_short", **{**CAME, "came_frac": 0.3125}, finish_reasons={"stop": 2, "none": 1}),
        "Answers end early: 31.2 % of the 384 output tokens asked of 3 requests came (finish reason: none, stop); "
        "does the server ignore ignore_eos?",
    ),
    (
        fact("answers_long", "max_completion_tokens", "max_tokens", **{**CAME, "by_usage": False}),
        "Answers are longer than asked: 400 % of the 384 output tokens asked of 3 requests came, counted one per "
        "event; does the server ignore max_completion_tokens and max_tokens?",
    ),
    (
        fact("stream_held_back", answers=2, e2e_s=[1.4, 0.8], e2e_alone=True),
        "Something on the way buffers the stream, or the server itself does: 2 of 2 answers arrived all at once, "
        "after 1.40 s, 800 ms. E2E can be judged, TTFT and TPOT cannot be seen",
    ),
    (
        fact("stream_held_back", answers=1, e2e_s=[1.4], e2e_alone=False),
        "Something on the way buffers the stream, or the server itself does: 1 of 1 answers arrived all at once, "
        "after 1.40 s, so that neither TTFT nor TPOT can be seen. Turn the buffering off, go straight to the "
        "server, or judge by E2E alone (--e2e without the other limits)",
    ),
    (fact("singles_missing", sent=1, wanted=3), "Only 1 of 3 single requests were sent"),
    (
        fact("singles_spoilt", fact("request_broken_off", ending="client", status=None, said=None), judged=3),
        "The limits cannot be judged from 3 single requests: client",
    ),
    (
        fact("singles_meet", judged=2, **TOOK),
        "2 single requests meet their limits: TTFT 40.0 ms, 50.0 ms; TPOT none; E2E 1.31 s, 12.3 s",
    ),
    (
        fact("singles_meet", judged=2, **{**TOOK, "slow_first_s": 60.0}),
        "2 single requests meet their limits: TTFT 40.0 ms, 50.0 ms; TPOT none; E2E 1.31 s, 12.3 s; the first "
        "request took 60.0 s and is not judged",
    ),
    (
        fact("some_singles_miss", BROKEN, judged=3, missed=2, **TOOK, **{**LIMITS, "e2e_limit_s": 5.0}),
        "2 of 3 single requests miss: E2E over 5 s and http with status 404, The model `x` does not exist (TTFT "
        "40.0 ms, 50.0 ms; TPOT none; E2E 1.31 s, 12.3 s)",
    ),
    (
        fact("all_singles_miss", judged=2, missed=2, **TOOK, **{**LIMITS, "ttft_limit_s": 0.01, "e2e_limit_s": 1.0}),
        "Infeasible at any rate: all 2 single requests miss: TTFT over 10 ms and E2E over 1 s (TTFT 40.0 ms, 50.0 "
        "ms; TPOT none; E2E 1.31 s, 12.3 s)",
    ),
    (
        fact("all_singles_fail", BROKEN, judged=3, endings={"http": 3}),
        "None of 3 single requests succeeded: http with status 404, The model `x` does not exist",
    ),
    (
        fact("lengths_near", **DRAWN),
        "On the idle server about 4.5 % of requests miss a limit because of their lengths alone, and the target of "
        "95 % allows 5 %: load can add little before it fails, and where that is shows only in long windows",
    ),
    (
        fact("lengths_miss", **{**DRAWN, "missed_frac": 0.134}, searches=True),
        "On the idle server about 13 % of requests miss a limit because of their lengths alone, and the target of "
        "95 % allows 5 %: no rate can pass; ask for shorter requests, a longer limit or a lower target",
    ),
    (
        fact("lengths_miss", **{**DRAWN, "missed_frac": 0.134}, searches=False),
        "On the idle server about 13 % of requests miss a limit because of their lengths alone, and the target of "
        "95 % allows 5 %: no rate can pass",
    ),
    (fact("tpot_floor", "the floor is 21.5 ms", floor_s=0.0215, limit_s=None, eta_frac=0.7), "The floor is 21.5 ms"),
    (
        fact("limit_under_floor", "the floor is 21.5 ms: too much", floor_s=0.0215, limit_s=0.015, eta_frac=0.7),
        "The floor is 21.5 ms: too much",
    ),
    (
        fact("floor_contradicted", "a single stream has a TPOT of 18 ms", measured_s=0.018, eta_reached_frac=0.84),
        "A single stream has a TPOT of 18 ms",
    ),
    (
        fact("bandwidth_reached", measured_s=0.025, eta_reached_frac=0.603),
        "A single stream shows that 60 % of the bandwidth is reached",
    ),
    (fact("limit_helps", "TP 2", "a smaller model"), "What would help, each by itself: TP 2; a smaller model"),
]
STREAM = fact(
    "stream_floor",
    floor_s=0.02154,
    read_bytes=15.2e9,
    eta_frac=0.7,
    eta_assumed=True,
    bandwidth_bytes_per_s=1.008e12,
    tp=1,
)
FLOOR = (
    "the TPOT floor is 21.5 ms, about 46.4 tokens/s for one stream "
    "(15.2 GB read for each token at 70 % of 1,008 GB/s, a guess; TP 1)"
)
LOW_LOAD = {"load_frac": 0.3, "usual_frac": 0.7, "replicas": 24, "usual_replicas": 11, "gpus": 48, "usual_gpus": 22}
LOSS: dict[str, Figure] = {"rate_rps": 8.33, "load_frac": 0.737, "holds": True}
SEEN = fact("fleet_kv_seen", kv_usage_max_frac=0.4, preemptions=0.0)
FILLS = fact("fleet_kv_fills", kv_usage_max_frac=0.65, fail_rps=17.1, fail_kv_usage_max_frac=0.99, fail_preemptions=9.0)

WHAT_IF: list[tuple[Fact, str]] = [
    (
        fact("twin_explains", off_frac=0.0033, windows=3, knee_rps=19.41, low_rps=18.02, high_rps=20.9),
        "the model of this run is off by 0.3 % in the median of 3 windows: by so much its requests would have to come faster or "
        "slower to be as late as measured; it has the knee at 19.4 requests/s (18.0 to 20.9 by its own error)",
    ),
    (
        fact("twin_few_windows", windows=1, least=2, requests=40, held=False),
        "there is no model of this run: 1 of its windows had 40 requests that ended by themselves, and it takes 2 such windows; "
        "measure longer, with --mode standard or --measure",
    ),
    (
        fact("twin_few_windows", windows=0, least=2, requests=40, held=True),
        "there is no model of a held rate: it takes a search, or a list of rates, each on a server that starts empty",
    ),
    (
        fact("twin_not_fitted", requests=120),
        "there is no model of this run: the times of its 120 requests do not tell how long a step of the server takes",
    ),
    (
        fact("twin_too_small", kv_tokens=3584),
        "there is no model of this run: its longest request would not fit into the 3,584 tokens of KV cache that the "
        "server tells of",
    ),
    (
        fact("twin_off", fact("twin_lacks_unknown"), off_frac=0.44, most_frac=0.1618, faster=True, windows=2),
        "the model of this run does not explain it: over 2 windows it is off by 44 % in the median, mostly faster than the "
        "server; from 16 % on it is not asked; what it lacks does not show in its figures",
    ),
    (
        fact("twin_lacks_straight_line", step_error_frac=0.283),
        "half of the decode times differ by 28 % or more from any constant cost of a step, a sequence and a token, so the time of "
        "a step does not grow with the batch in a straight line, or other work shares the machine",
    ),
    (
        fact("twin_lacks_limit", per_doubling_frac=0.42),
        "it is faster by 42 % more for each doubling of the rate: under load the server has a limit or a cost that the model lacks",
    ),
    (
        fact("twin_lacks_steadiness", apart_frac=0.31),
        "windows of one rate are 31 % apart, so the server was not equally fast all the time",
    ),
    (fact("twin_lacks_unknown"), "what it lacks does not show in its figures"),
    (
        fact("twin_one_repeat"),
        "one repeat alone was long enough to hold the model against, so its error is hardly known",
    ),
    (
        fact("twin_places", max_num_seqs=256, assumed=True),
        "the server does not tell --max-num-seqs and its readings show no limit: 256 is assumed, so what fewer places change is "
        "more certain than what more of them do",
    ),
    (
        fact("twin_places", max_num_seqs=16, assumed=False),
        "--max-num-seqs is taken to be 16: so many requests ran at most while others waited",
    ),
    (
        fact("twin_batch", max_batched_tokens=2048, assumed=True),
        "a step takes at most 2,048 tokens (--max-num-batched-tokens): assumed, as the server does not tell it",
    ),
    (fact("twin_kv_unknown"), "the server does not tell the size of its KV cache, so the model never runs out of it"),
    (
        fact("what_if", knee_rps=13.16, low_rps=11.64, high_rps=14.89, ratio=0.676, by_queue=False),
        "the model of this run says: the knee would be at 13.2 requests/s (11.6 to 14.9 by its own error), 32 % lower",
    ),
    (
        fact("what_if", knee_rps=8.4, low_rps=7.77, high_rps=9.07, ratio=1.001, by_queue=True),
        "the model of this run says: the knee would be at 8.40 requests/s (7.77 to 9.07 by its own error), as now; above it "
        "requests pile up, whatever the limits allow",
    ),
    (fact("what_if_none", below=True, rate_rps=104.0), "the model of this run says: no rate would meet these limits, however low"),
    (
        fact("what_if_none", below=False, rate_rps=104.0),
        "the model of this run says: the knee would be above 104 requests/s, further away than it can tell",
    ),
]

TRAFFIC: list[tuple[Fact, str]] = [
    (
        fact("dataset_found", file="a.jsonl", form="openai_chat", rows=12000, unit="line"),
        "a.jsonl: OpenAI chat messages, 12,000 lines",
    ),
    (fact("dataset_found", file="a.json", form="sharegpt", rows=1, unit="entry"), "a.json: ShareGPT conversations, 1 entry"),
    (
        fact("lengths_found", file="a.csv", rows=2000, input_tokens=1155.4, output_tokens=211.0),
        "a.csv: 2,000 pairs of lengths, 1,155 tokens in and 211 tokens out on average",
    ),
    (
        fact("lengths_sampled", rows=4096, of_rows=100_000),
        "4,096 of its 100,000 rows make up the mix, drawn at random by the workload seed",
    ),
    (
        fact(
            "trace_found",
            file="a.csv",
            form="azure",
            unit="date",
            rows=19366,
            span_s=3502.0,
            rate_rps=5.53,
            input_tokens=1155.0,
            output_tokens=211.0,
        ),
        (
            "a.csv: Azure trace, 19,366 requests in 58 min 22 s (timestamps as dates), so 5.53 requests/s; 1,155 "
            "tokens in and 211 tokens out on average"
        ),
    ),
    (
        fact(
            "trace_found",
            file="a.jsonl",
            form="mooncake",
            unit="ms",
            rows=1,
            span_s=0.0,
            rate_rps=None,
            input_tokens=6758.0,
            output_tokens=500.0,
        ),
        ("a.jsonl: Mooncake trace, 1 request in 0 s (timestamps in milliseconds); 6,758 tokens in and 500 tokens out on average"),
    ),
    (
        fact("trace_tick", tick_s=3.0, most_at_once=28, shared_frac=0.9951),
        (
            "timestamps are cut to 3 s, so up to 28 requests come at one instant (99.5 % of all share theirs): "
            "bursts of the recording, not of users"
        ),
    ),
    (fact("trace_tick", tick_s=1.0, most_at_once=1, shared_frac=0.0), "timestamps are cut to 1 s, but no two requests share one"),
    (fact("trace_spread", tick_s=3.0), "the requests of each 3 s of the recording are spread over it at random"),
    (fact("trace_blocks", block_tokens=512), "prompts share prefixes as recorded, in blocks of 512 tokens"),
    (fact("trace_no_blocks"), "the size of its blocks is not known, so no prefix is shared as in the recording"),
    (
        fact("trace_parts", form="ragpulse"),
        "its hash ids name parts of unknown lengths, not blocks, so no prefix is shared as in the recording",
    ),
    (
        fact("trace_parts", form="shared_prefix"),
        "the prefixes that it names are not shared as in the recording: prompts have its lengths alone",
    ),
    (
        fact("trace_failed", rows=17, rows_frac=0.0425),
        "17 rows (4.2 %) without input or output tokens left out: requests that failed",
    ),
    (
        fact("trace_unfit", rows=120, rows_frac=0.01, tokens_frac=0.0712, context_tokens=32768),
        "120 requests (1.0 %, with 7.1 % of all tokens) left out: longer than the model's 32,768 tokens",
    ),
    (fact("trace_unordered", rows=1), "1 row out of order in time, and sorted"),
    (fact("trace_images", rows=3), "3 requests had images, which are not sent"),
    (
        fact("trace_window", from_s=7200.0, duration_s=600.0, busiest=False, rows=3318, rate_rps=5.53, whole_rate_rps=4.0),
        "the 10 min from 2:00:00 on: 3,318 requests, 5.53 requests/s; the whole trace has 4.00 requests/s",
    ),
    (
        fact("trace_window", from_s=75.0, duration_s=600.0, busiest=True, rows=3318, rate_rps=None, whole_rate_rps=None),
        "the busiest 10 min from 1:15 on: 3,318 requests",
    ),
    (
        fact("trace_played", mean_rps=5.53, gap_cv=1.0912),
        "requests come as recorded (on average 5.53 requests/s, gaps of CV 1.1; Poisson: 1), scaled to each rate; the ramp has "
        "Poisson arrivals",
    ),
    (
        fact("trace_played", mean_rps=5.53, gap_cv=1.0912, ramp=False),
        "requests come as recorded (on average 5.53 requests/s, gaps of CV 1.1; Poisson: 1), scaled to each rate",
    ),
    (fact("trace_cold"), "the prefixes that its requests shared are not shared here: prompts have its lengths alone"),
    (
        fact("trace_too_few", rows=60, repeats=1, needed=100),
        "the recording has 60 requests, too few for any rate: each repeat needs 100 of its own, and a rate has 1 repeat; give a "
        "longer trace or window, or one --trace-scale",
    ),
    (
        fact("trace_short", rate_rps=9.0, scale=9.0, repeats=2, needed_s=1020.0, window_s=599.0),
        "9.00 requests/s is 9 times the recording, so 2 repeats take 17 min of it, and it has 9 min 59 s; "
        "measure for a shorter time, repeat less often or give a longer trace",
    ),
    (
        fact("trace_ends", rate_rps=5.0, scale=2.5, window_s=600.0),
        "none above 5.00 requests/s was tried: for more than 2.5 times the recording its 10 min are too short; give a longer trace "
        "to look higher",
    ),
    (
        fact("trace_scales", rates_rps=[6.0, 8.5], mean_rps=2.5),
        "6.00 requests/s is 2.4 times the recording and 8.50 requests/s is 3.4 times the recording, which has 2.50 requests/s on "
        "average",
    ),
    (
        fact("rows_bad", fact("row_bad", fact("row_not_json"), at=17, unit="line"), bad=1, drawn=400),
        "left out because they cannot be used: 1 of 400 rows; line 17: not JSON",
    ),
    (
        fact("rows_refused", fact("row_bad", fact("row_not_json"), at=17, unit="line"), file="a.jsonl", bad=12, drawn=300),
        "a.jsonl: 12 of 300 rows drawn cannot be used, more than the 1 % allowed; line 17: not JSON",
    ),
    (
        fact("rows_again", rows=100, unit="line", drawn=250),
        ("the file has 100 lines and the run draws 250: rows come again, and their prompts may hit the prefix cache"),
    ),
    (fact("row_bad", fact("row_not_json"), at=17, unit="line"), "line 17: not JSON"),
    (fact("dataset_progress", file="a.jsonl", read_frac=0.3, bytes=2_000_000_000), "a.jsonl: 30 % of 2.00 GB looked through"),
    (fact("rows_counting", rows=2000), "the server counts the tokens of 2,000 rows"),
    (
        fact("rows_drawn", rows=2000, input_tokens=310.4, output_tokens=180.2, longest_tokens=4000, estimated=0),
        "the run draws from 2,000 rows: 310 tokens in and 180 tokens out on average, 4,000 tokens at most together; counted by the "
        "server",
    ),
    (
        fact("rows_drawn", rows=2, input_tokens=310.4, output_tokens=180.2, longest_tokens=4000, estimated=2),
        "the run draws from 2 rows: 310 tokens in and 180 tokens out on average, 4,000 tokens at most together; the lengths of 2 "
        "prompts are estimated, because the server has no /tokenize",
    ),
    (
        fact("rows_pieces", rows=300, drawn=2300),
        "300 of 2,300 rows left out: pieces of conversations without a question and its answer",
    ),
    (fact("rows_none_fit"), "no row is short enough for the context of the model, so there is nothing to send"),
    (
        fact("rows_unfit", rows=120, rows_frac=0.06, context_tokens=2048),
        "120 rows (6.0 %) left out: prompt and answer are longer than the model's 2,048 tokens",
    ),
    (
        fact("rows_turns", rows=1500, turns=6200, cut=1),
        "1,500 conversations with several turns: 6,200 turns in all, each sent after the answer before it; 1 later turn left out "
        "as too many or too long for the context",
    ),
    (
        fact("rows_recounted", answers=5, factor=1.12, dropped=3),
        "by the first 5 answers, prompts are 1.1 times as long as estimated; 3 rows too long for the context left out",
    ),
    (fact("row_untokenized"), "the server's /tokenize refuses it"),
    (fact("row_not_json"), "not JSON"),
    (fact("row_not_utf8"), "not UTF-8"),
    (fact("row_too_long", most_bytes=16777216), "longer than 16.8 MB"),
    (fact("row_lacks", field="prompt"), "prompt is missing"),
    (fact("row_kind", field="prompt"), "prompt has the wrong type"),
    (fact("row_number", field="output_tokens"), "output_tokens is not a usable number"),
    (fact("row_empty", field="value"), "value is empty"),
    (fact("row_few_turns", turns=1), "1 turn: too few for a question and an answer"),
    (fact("row_begins_with_answer"), "begins with an answer, a piece of a longer conversation"),
    (fact("row_endpoint", url="/v1/embeddings"), "asks for /v1/embeddings, which generates no text"),
    (fact("row_columns", columns=4, expected=6), "4 columns in place of 6"),
    (fact("row_time", field="timestamp"), "timestamp is not a time in the unit of the file"),
    (fact("row_no_tokens", field="response tokens"), "response tokens is 0"),
    (
        fact("row_blocks", ids=14, input_tokens=6000, block_tokens=512),
        "14 hash ids do not fit a prompt of 6,000 tokens in blocks of 512",
    ),
]

NATURAL: list[tuple[Fact, str]] = [
    (
        fact("answers_natural", requests=3, mean_tokens=62.67, most_tokens=128, finish_reasons={"stop": 2, "length": 1}),
        "Answers stop by themselves: 3 answers had 62.67 tokens on average where at most 128 tokens were asked for "
        "(finish reasons: stop 2, length 1)",
    ),
    (
        fact("answers_natural", requests=3, mean_tokens=None, most_tokens=128, finish_reasons={"stop": 3}),
        "How long answers get is not known: the server does not count their tokens (where at most 128 tokens were asked for; "
        "finish reasons: stop 3)",
    ),
    (
        fact("output_drifts", from_tokens=100.0, to_tokens=120.4, before_rps=2.0, rate_rps=4.0),
        "answers became longer between the repeats at 2.00 and 4.00 requests/s: 100 and then 120.4 tokens on average, more than "
        "by chance, so these rates were not judged with the same work",
    ),
    (
        fact("output_drifts", from_tokens=100.0, to_tokens=80.0, before_rps=4.0, rate_rps=4.0),
        "answers became shorter between two repeats at 4.00 requests/s: 100 and then 80 tokens on average, more than by "
        "chance, so these rates were not judged with the same work",
    ),
    (
        fact("twin_unasked", fact("twin_lacks_lengths")),
        "No model of the server helps to choose rates: answers stop by themselves (--stop natural), and a model would have to know "
        "beforehand how long each is",
    ),
    (
        fact("twin_none", fact("twin_lacks_gateway", limit=8)),
        "there is no model of this run: a gateway lets only 8 requests through at once, and a model knows no such limit",
    ),
    (
        fact("twin_none", fact("twin_lacks_hits")),
        "there is no model of this run: prompts share prefixes, and a model knows no prefix cache",
    ),
    (
        fact("twin_none", fact("twin_lacks_recording")),
        "there is no model of this run: requests come as they were recorded (--trace), and a model knows drawn arrivals alone",
    ),
    (
        fact("twin_lacks_lengths"),
        "answers stop by themselves (--stop natural), and a model would have to know beforehand how long each is",
    ),
    (fact("twin_lacks_gateway", limit=1), "a gateway lets only 1 request through at once, and a model knows no such limit"),
    (fact("twin_lacks_hits"), "prompts share prefixes, and a model knows no prefix cache"),
    (
        fact("twin_lacks_turns"),
        "turns of conversations follow the answers before them, and a model knows requests that follow nothing",
    ),
    (fact("twin_lacks_recording"), "requests come as they were recorded (--trace), and a model knows drawn arrivals alone"),
    (
        fact("answers_as_they_came", mean_tokens=130.2, p90_tokens=260.0),
        "answers as long as those that came (130.2 tokens on average, p90 260)",
    ),
    (
        fact("answer_lengths_unknown"),
        "answers that stop as they did while it was measured, at lengths that are not known: nothing is said of long answers, of "
        "memory, or of the cost of a token",
    ),
    (
        fact("lengths_seen", **LENGTHS, output_tokens=20.0, finish_reasons={"stop": 9}, natural=True),
        "100/20 tokens where 100/at most 40 were asked for (ended by stop 9)",
    ),
]

GATEWAY: list[tuple[Fact, str]] = [
    (
        fact("gateway_limit", limit=64, queue=None, timeout_s=None),
        "a gateway is modelled: at most 64 requests are open at the server, others wait, and their wait counts in TTFT and E2E",
    ),
    (
        fact("gateway_limit", limit=64, queue=100, timeout_s=5.0),
        "a gateway is modelled: at most 64 requests are open at the server, up to 100 others wait for at most 5 s, and their wait "
        "counts in TTFT and E2E",
    ),
    (
        fact("gateway_limit", limit=1, queue=0, timeout_s=None),
        "a gateway is modelled: at most 1 request is open at the server, others are rejected",
    ),
    (
        fact("gateway_turned_away", rejected=12, timed_out=3),
        "the gateway's limit turned away 12 requests at its full queue and 3 requests after too long a wait: misses, and no errors "
        "of the server",
    ),
    (
        fact("gateway_turned_away", rejected=0, timed_out=1),
        "the gateway's limit turned away 1 request after too long a wait: misses, and no errors of the server",
    ),
    (
        fact("gateway_queue_rising", fact("attainment", attained_frac=1.0, planned=200, target=0.95)),
        "queue rising: requests waited longer and longer at the gateway, although attainment 100 % of 200, target 95 %",
    ),
    (
        fact("gateway_not_keeping_up", begun_rps=10.04, waiting=1200),
        "with the gateway's limit the server began 10.0 requests/s at most, with 1,200 requests waiting, most of them at the "
        "gateway",
    ),
    (
        fact("gateway_waits_seen", limit=8, held=40, planned=100, wait_p95_s=1.2, rejected=12, timed_out=3),
        "40 of 100 requests waited at the gateway (1.2 s at p95), which lets 8 through at once, 12 rejected there, 3 timed out "
        "there",
    ),
    (
        fact("gateway_waits_seen", limit=8, held=0, planned=100, wait_p95_s=0.0, rejected=0, timed_out=0),
        "0 of 100 requests waited at the gateway, which lets 8 through at once",
    ),
    (
        fact("gateway_binds", rate_rps=4.0, limit=8),
        "At 4.00 requests/s the gateway's limit of 8 open requests binds, not the server: requests wait before it",
    ),
    (
        fact("gateway_binds", fact("in_ramp_alone"), rate_rps=4.0, limit=1),
        "At 4.00 requests/s the gateway's limit of 1 open request binds, not the server, most likely (seen in the ramp alone): "
        "requests wait before it",
    ),
    (
        fact("gateway_higher", limit=8, tpot_p95_s=0.02, tpot_limit_s=0.05, room=True),
        "Raise the gateway's limit above 8, and run again with it: TPOT has room for more at once (p95 20 ms of 50 ms).",
    ),
    (
        fact("gateway_higher", limit=8, tpot_p95_s=0.045, tpot_limit_s=0.05, room=False),
        "Raise the gateway's limit above 8, and run again with it: TPOT has hardly any room for more at once (p95 45 ms of 50 ms).",
    ),
    (
        fact("gateway_higher", limit=8, tpot_p95_s=None, tpot_limit_s=0.05, room=None),
        "Raise the gateway's limit above 8, and run again with it; each token gets slower with more requests at once.",
    ),
    (
        fact("retried", requests=7, answered=5),
        "7 requests went out again because the server said when (429 with Retry-After); 5 of them succeeded in the end",
    ),
    (
        fact("ttft_split", queue_s=0.1, prefill_s=0.1, outside_s=0.0, gateway_s=0.8),
        "TTFT splits into 80 % waiting at the gateway, 10 % queue, 10 % prefill, 0 % outside the engine",
    ),
]

GROUPS: dict[str, Figure] = {"tokens": 512, "groups": 8}
OFF: dict[str, Figure] = {
    "hit_frac": 0.12,
    "planned_frac": 0.62,
    "counted": True,
    "shared_tokens": 40_960,
    "kv_tokens": 36_000,
}

RECORDED_OFF: dict[str, Figure] = {"hit_frac": 0.12, "planned_frac": 0.62, "counted": True, "kv_tokens": 36_000}

PREFIXES: list[tuple[Fact, str]] = [
    (
        Fact(code="hits_off", figures=OFF),
        "the server's counters show 12 % of prompt tokens from the prefix cache, 62 % were planned; prefixes were probably "
        "evicted: the prefixes take 40,960 of the 36,000 tokens that the KV cache holds",
    ),
    (
        Fact(code="hits_off", figures=OFF | {"kv_tokens": None, "counted": False}),
        "the server's answers tell 12 % of prompt tokens from the prefix cache, 62 % were planned; the KV cache is probably too "
        "small to keep the prefixes",
    ),
    (
        Fact(code="hits_off", figures=OFF | {"hit_frac": 0.8}),
        "the server's counters show 80 % of prompt tokens from the prefix cache, 62 % were planned; prompts have more in common "
        "than was asked for (a system prompt of the server's?)",
    ),
    (
        fact("hits_unseen"),
        "prompts share prefixes, and whether they were hits is not known: neither the server's counters nor its answers tell it",
    ),
    (
        fact("shared_as_planned", **GROUPS, hit_frac=0.61, planned_frac=0.62),
        "Each of 8 groups shares 512 prompt tokens: 61 % of our prompt tokens came from the prefix cache, 62 % were planned",
    ),
    (
        fact("shared_off_plan", tokens=512, groups=1, hit_frac=0.1, planned_frac=0.62),
        "One group shares 512 prompt tokens, but 10 % of our prompt tokens came from the prefix cache, 62 % were planned; a repeat "
        "that is so far off does not count",
    ),
    (
        fact("shared_unproven", **GROUPS, planned_frac=0.62),
        "Each of 8 groups shares 512 prompt tokens; whether prompts hit the prefix cache (62 % of their tokens planned) is not "
        "known: neither the server's counters nor its answers tell it",
    ),
    (
        fact("shared_unproven", **GROUPS, planned_frac=None),
        "Each of 8 groups shares 512 prompt tokens; whether prompts hit the prefix cache is not known: neither the server's "
        "counters nor its answers tell it",
    ),
    (
        fact("shared_uncached"),
        "The server caches no prefixes (enable_prefix_caching is off), so shared ones save it nothing; turn it on, or use "
        "--prefix cold",
    ),
    (
        fact("prefixes_sent", **GROUPS),
        "Sending the 8 shared prefixes of 512 tokens once, so that the prefix cache has them before the load",
    ),
    (
        fact("prefixes_sent", tokens=512, groups=1),
        "Sending the shared prefix of 512 tokens once, so that the prefix cache has it before the load",
    ),
    (
        fact("trace_shared", block_tokens=512, whole_frac=0.412),
        "prompts share prefixes as recorded, in blocks of 512 tokens: 41 % of all prompt tokens were in a prompt before; each "
        "repeat begins without any, so that its share is its own",
    ),
    (
        Fact(code="trace_hits_off", figures=RECORDED_OFF),
        "the server's counters show 12 % of prompt tokens from the prefix cache, and a cache that forgets nothing would have had "
        "62 %; the KV cache (it holds 36,000 tokens) was probably too small to keep the blocks until they came again, or in the "
        "sped-up recording they came again before they were computed",
    ),
    (
        Fact(code="trace_hits_off", figures=RECORDED_OFF | {"kv_tokens": None, "counted": False, "hit_frac": 0.8}),
        "the server's answers tell 80 % of prompt tokens from the prefix cache, and a cache that forgets nothing would have had 62 "
        "%; prompts have more in common than the trace names (a system prompt of the server's?)",
    ),
    (
        fact("turns_hits_off", hit_frac=0.54, planned_frac=0.72, counted=True),
        "the server's counters show 54 % of prompt tokens from the prefix cache, 72 % were planned: earlier turns were evicted "
        "before the next one came, or the chat template writes answers in another way",
    ),
    (
        fact("turns_hits_off", hit_frac=0.81, planned_frac=0.72, counted=False),
        "the server's answers tell 81 % of prompt tokens from the prefix cache, 72 % were planned; conversations have more in "
        "common than their own turns (a system prompt?)",
    ),
]

BEST: dict[str, Figure] = {"best": "n=16", "pass_rps": 4.0, "fail_rps": 5.68, "gpus": 1, "settings": 3, "answered": 3}
TUNED: list[tuple[Fact, str]] = [
    (
        fact("beaten", fail_rps=4.0, best_rps=5.68),
        "dropped: it fails at 4.00 requests/s, and the best so far holds 5.68",
    ),
    (
        fact("tune_planned", settings=3, low_s=462.0, high_s=663.0),
        "expected time: 7 min 40 s to 11 min for 3 settings, and the time that each server takes to start; a setting that is "
        "dropped early takes less",
    ),
    (
        fact("tune_planned", settings=1, low_s=154.0, high_s=221.0),
        "expected time: 2 min 30 s to 3 min 40 s for 1 setting, and the time that each server takes to start",
    ),
    (
        Fact(code="tune_best", figures=BEST | {"answered": 2}),
        "n=16 is the best: it holds 4.00 requests/s and fails at 5.68; every other setting that has an answer fails at a rate "
        "that it holds",
    ),
    (
        Fact(code="tune_best", figures=BEST),
        "n=16 is the best: it holds 4.00 requests/s and fails at 5.68; every other setting fails at a rate that it holds",
    ),
    (
        Fact(code="tune_best", figures=BEST | {"fail_rps": None, "gpus": 2}, of=("n=8", "n=32")),
        "n=16 is the best: it holds 4.00 requests/s, open above, on 2 GPUs; not told apart from it: n=8; n=32",
    ),
    (
        Fact(code="tune_best", figures=BEST | {"answered": 1}),
        "n=16 is the best: it holds 4.00 requests/s and fails at 5.68; no other setting has an answer",
    ),
    (
        Fact(code="tune_best", figures=BEST | {"answered": 1, "settings": 1}),
        "n=16 is the best: it holds 4.00 requests/s and fails at 5.68",
    ),
    (fact("tune_none", settings=3, answered=0), "none of 3 settings has an answer"),
    (fact("tune_none", settings=1, answered=0), "the setting has no answer"),
    (
        fact("serve_ended", exit_code=0),
        "the command of --serve ended with exit code 0 before its server answered; it must stay in the foreground as long as its "
        "server runs",
    ),
    (fact("tune_none", settings=3, answered=2), "no setting has a rate that holds"),
    (fact("serve_ended", exit_code=7), "the command of --serve ended with exit code 7 before its server answered"),
    (fact("serve_ended", exit_code=-9), "the command of --serve ended by signal 9 before its server answered"),
    (fact("serve_ended", exit_code=None), "the command of --serve ended before its server answered"),
    (
        fact("serve_not_ready", within_s=600.0),
        "the server did not answer within 10 min; give it longer with --start-timeout",
    ),
    (fact("serve_lost", exit_code=1), "the command of --serve ended with exit code 1 while its server was being measured"),
    (fact("tune_not_run"), "not run: the tune was interrupted before"),
]

SENTENCES: list[tuple[Fact, str]] = [
    *TUNED,
    *PREFIXES,
    *WHAT_IF,
    *GATEWAY,
    *TRAFFIC,
    *NATURAL,
    *COMPARED,
    *CHECKED,
    (fact("nothing_to_judge"), "no request was planned in the window"),
    (fact("all_decided"), "every measured request is decided"),
    (fact("segment_decided"), "every request is decided"),
    (fact("segments_judged"), "every segment is judged"),
    (REACH, "at most 41 % can still meet the limits (target 95 %)"),
    (
        fact("within_reach", at_least_frac=0.99, planned=100, target=0.95),
        "at least 99.0 % of 100 met the limits, target 95 %",
    ),
    (fact("too_many_errors", **ERRORS, said=None), "2 of 100 requests ended in errors (2.00 %, at most 1 %): http 2"),
    (
        fact("too_many_errors", **ERRORS, said="HTTP 503: no"),
        "2 of 100 requests ended in errors (2.00 %, at most 1 %): http 2 (HTTP 503: no)",
    ),
    (
        fact("every_request_failed", **ERRORS, said="HTTP 503: no"),
        "every request failed: HTTP 503: no (60 of 60 that ended, 2 of the window's 100 so far; at most 1 % may fail)",
    ),
    (
        fact("every_request_failed", **ERRORS, said=None),
        "every request failed: http 2 (60 of 60 that ended, 2 of the window's 100 so far; at most 1 % may fail)",
    ),
    (fact("ended_in_errors", errors=4, ended=7, said=None, endings={"http": 4}), "4 of 7 requests ended in errors (http 4)"),
    (
        fact("ended_in_errors", errors=1, ended=1, said="HTTP 503: no", endings={"http": 1}),
        "1 of 1 request ended in errors (HTTP 503: no)",
    ),
    (
        fact("overloaded_in_warmup", misses=22, planned=42),
        "already overloaded in the warm-up: 22 of the 42 requests of its second half can no longer meet the limits",
    ),
    (fact("still_open", open=1, drain_s=120.0, after="window"), "1 request still open 2 min after the window"),
    (fact("still_open", open=3, drain_s=120.0, after="ramp"), "3 requests still open 2 min after the ramp"),
    (fact("still_open", open=3, drain_s=30.0, after="segment"), "3 requests still open 30 s after the segment"),
    (fact("load_ended_early"), "the load ended before every request was decided"),
    (fact("attainment", attained_frac=0.9496, planned=1000, target=0.95), "attainment 94.96 % of 1,000, target 95 %"),
    (
        fact("attainment", fact("still_open", open=10, drain_s=68.0, after="window"), attained_frac=0.9, planned=100, target=0.95),
        "attainment 90.0 % of 100, target 95 % (10 requests still open 1 min 8 s after the window, counted as missed)",
    ),
    (
        fact("queue_rising", fact("attainment", attained_frac=1.0, planned=200, target=0.95)),
        "queue rising: requests waited longer and longer, although attainment 100 % of 200, target 95 %",
    ),
    (
        fact("warmup_short", warmup_s=1.0, needed_s=3.42),
        "the warm-up of 1 s was too short: requests as long as these need 3.4 s",
    ),
    (fact("undecided"), "stopped before it was decided"),
    (
        fact("ramp_hint", fact("rate_fails", REACH, rate_rps=2.0)),
        "a ramp only says where to look; 2.00 requests/s: at most 41 % can still meet the limits (target 95 %)",
    ),
    (fact("rate_fails", REACH, rate_rps=24.69), "24.7 requests/s: at most 41 % can still meet the limits (target 95 %)"),
    (fact("ramp_failed", REACH, rate_rps=24.69), "at 24.7 requests/s, at most 41 % can still meet the limits (target 95 %)"),
    (fact("no_rate_failed"), "no rate of the ramp failed"),
    (
        fact("not_keeping_up", begun_rps=10.04, waiting=1200),
        "the server does not keep up: it began 10.0 requests/s at most, with 1,200 requests waiting",
    ),
    (fact("none_judged"), "no repeat was judged"),
    (fact("all_passed", repeats=3), "all 3 repeats passed"),
    (
        fact("some_failed", REACH, failed=2, repeats=3),
        "2 of 3 repeats failed: at most 41 % can still meet the limits (target 95 %)",
    ),
    (fact("no_segment_judged"), "no segment was judged"),
    (CUT, "20 sent, 17 good, 1 missed, 2 open"),
    (fact("cut_off", sent=20, good=19, misses=1, open=0), "20 sent, 19 good, 1 missed"),
    (fact("segment_cut_off", CUT), "the last segment was cut off: 20 sent, 17 good, 1 missed, 2 open"),
    (fact("ramp_held", rates_rps=[2.5, 5.0, 12.34]), "held 2.50, 5.00, 12.3"),
    (fact("held_rate", rate_rps=4.0, segments=0), "4.00 requests/s (no segment was judged)"),
    (
        fact("held", fact("held_rate", CUT, rate_rps=4.0, segments=2, passed=1, low_frac=0.9, high_frac=0.97)),
        "held 4.00 requests/s (1 of 2 segments passed, the lowest attainment at most 97.0 %; "
        "the next was cut off: 20 sent, 17 good, 1 missed, 2 open)",
    ),
    (fact("user_ended"), "ended by the user"),
    (fact("stopped"), "stopped"),
    (fact("stopped", CUT), "stopped: 20 sent, 17 good, 1 missed, 2 open"),
    (fact("broken_off", fact("no_segment_judged")), "broken off: no segment was judged"),
    (
        fact("set_aside", "all fine", verdict="pass"),
        "measured before the server was away, not part of the answer (pass: all fine)",
    ),
    (
        fact("backed_off", fact("others_preempted"), rate_rps=4.0),
        "backed off from 4.00 requests/s to spare other users: the server keeps preempting requests",
    ),
    (fact("others_wait", waiting=1, limit=4), "1 request waiting at the server; --max-waiting allows 4"),
    (fact("others_preempted"), "the server keeps preempting requests"),
    (fact("errors_in_a_row", errors=3, within_s=60.0), "3 requests ended in errors within 1 min"),
    (
        fact("client_late", late_p99_s=0.39, limit_s=0.16),
        "the client, not the server: one send in a hundred was late by 390 ms or more, the limit is 160 ms; give "
        "the client more CPU",
    ),
    (
        fact("client_late_once", late_max_s=1.5, ttft_limit_s=0.8),
        "the client, not the server: a send was late by 1.50 s, more than the TTFT limit itself; give the client more CPU",
    ),
    (
        fact("client_stalled", limit_s=0.16, over=20, reports=40, worst_s=0.3),
        "the client, not the server: it stalled for more than 160 ms in 20 of 40 reports (300 ms at worst); "
        "give the client more CPU",
    ),
    (
        fact("workers_gathering", "local:2"),
        "Starting the machines that send (--workers local:2); with Ray this can take a minute",
    ),
    (
        fact("workers_known", "node-a", "node-b", clock_error_s=0.0003),
        "The load comes from 2 machines: node-a, node-b; their clocks are known to within 0.300 ms",
    ),
    (
        fact("workers_known", *(f"node-{i}" for i in range(12)), clock_error_s=None),
        "The load comes from 12 machines: node-0, node-1, node-2, node-3 and 8 more",
    ),
    (
        fact("worker_late", worker="node-b", others=0, late_p99_s=0.39, limit_s=0.16),
        "the client, not the server: node-b sent one request in a hundred late by 390 ms or more, the limit is 160 ms; give that "
        "machine more CPU, or leave it out",
    ),
    (
        fact("worker_late_once", worker="node-b", others=1, late_max_s=1.5, ttft_limit_s=0.8),
        "the client, not the server: node-b sent a request late by 1.50 s, more than the TTFT limit itself, and 1 more machine "
        "sent late, too; give that machine more CPU, or leave it out",
    ),
    (
        fact("worker_stalled", worker="node-b", others=2, limit_s=0.16, over=20, reports=40, worst_s=0.3),
        "the client, not the server: node-b stalled for more than 160 ms in 20 of 40 reports (300 ms at worst), and 2 more "
        "machines stalled, too; give that machine more CPU, or leave it out",
    ),
    (
        fact("worker_unsent", worker="node-b", requests=7, others=0),
        "the client, not the server: node-b could not send 7 planned requests; give that machine more CPU, or leave it out",
    ),
    (fact("client_unsent", requests=1), "the client, not the server: 1 planned request could not be sent"),
    (fact("client_failed", requests=2, said=None), "the client, not the server: 2 requests failed on this machine"),
    (
        fact("client_failed", requests=1, said="Too many open files"),
        "the client, not the server: 1 request failed on this machine (Too many open files)",
    ),
    (
        fact("too_few_requests", planned=12, target=0.95),
        "no miss is allowed: the window has only 12 requests, and a target of 95 % allows one miss in 20; measure longer",
    ),
    (
        fact("refusals", requests=2, said="HTTP 401 Unauthorized: no"),
        "2 requests were refused for a reason other than load (HTTP 401 Unauthorized: no)",
    ),
    (
        fact("warm_prompts", hit_frac=0.125, limit_frac=0.01),
        "prompts were not cold: 12.5 % of their tokens came from the prefix cache, the limit is 1 %",
    ),
    (
        fact("short_answers", tokens_mean=40.0, asked_mean=256.0, finish_reasons={"stop": 2, "length": 1}),
        "answers averaged 40 tokens where 256 were asked for; shorter ones flatter the server (finish reasons: stop 2, length 1)",
    ),
    (
        fact("long_answers", tokens_mean=269.0, asked_mean=256.0),
        "answers averaged 269 tokens where 256 were asked for; longer ones make the server look slow",
    ),
    (
        fact("answer_outran", tokens=300, asked=21),
        "answers ran longer than asked: one had 300 tokens when it was cut off, where 21 were asked for; longer "
        "ones make the server look slow",
    ),
    (
        fact("prompt_length_off", tokens_mean=600.0, asked_mean=512.0),
        "prompts averaged 600 tokens where 512 were asked for",
    ),
    (fact("server_restarted"), "the server restarted during the repeat"),
    (
        fact("server_restarted", unbroken=True),
        "the server restarted during the repeat; since no request broke, its metrics may be of one of several replicas behind a "
        "gateway: name those with --replica",
    ),
    (
        fact("replicas_changed", "10.0.0.7:8000", before=4, after=3, restarted=0),
        "replicas came or went during the repeat: 4 at its begin, 3 at its end (10.0.0.7:8000)",
    ),
    (
        fact("replicas_changed", "10.0.0.7:8000", before=4, after=4, restarted=1),
        "10.0.0.7:8000 restarted during the repeat, of 4 replicas behind the gateway",
    ),
    (
        fact("replicas_changed", "a:1", "b:1", "c:1", "d:1", before=4, after=4, restarted=1),
        "not all of 4 replicas were there during the whole repeat (a:1, b:1, c:1 and 1 more)",
    ),
    (fact("others_took_part", others=19.6, ours=100), "others used the server: at least 20 requests besides our 100"),
    (
        fact("tokens_in_clumps", clumped=5, answers=5),
        "tokens arrive in clumps (5 of 5 answers), so TPOT cannot be judged: a proxy or a busy API process holds them back",
    ),
    (fact("tpot_undecidable"), "TPOT is the only limit, and no answer has a TPOT to judge"),
    (
        fact("nothing_planned", measure_s=40.0, rate_rps=0.01),
        "no request was planned in the window (40 s at 0.0100 requests/s): measure longer or at a higher rate",
    ),
    (
        fact("recorded_lull", planned=12, measure_s=40.0, rate_rps=4.0, expected=160.0),
        "the recording has a lull here, 12 requests in a window (40 s at 4.00 requests/s) that stands for 160: take a busier "
        "part of it, such as --trace-window 10m@busiest",
    ),
    (
        fact("server_frozen", silent_s=10.0),
        "the server accepts requests but has produced nothing for 10 s; it is frozen or its engine is dead, which "
        "is not a capacity limit",
    ),
    (fact("server_lost"), "the server was lost: connections break, and it does not answer a plain GET either"),
    (
        fact("server_away", AGED, said="HTTP 502", seen="lost"),
        "the server was away: HTTP 502; both came 1.01 s after the request, and no answer took longer; it does not answer a "
        "plain GET either",
    ),
    (fact("server_away", said="HTTP 502", seen="lost"), "the server was away: HTTP 502; it does not answer a plain GET either"),
    (fact("no_miss_allowed", planned=1), "no miss is allowed: one slow request of 1 fails this step"),
    (
        fact("few_requests", planned=20, target=0.95, needed=100),
        "this step saw only 20 requests: attainment moves in steps of 5.0 %; plan at least 100 for a target of 95 %",
    ),
    (
        fact("window_lucky", less_frac=0.124),
        "a lucky window: by chance it brought 12 % less work than its rate lets expect",
    ),
    (
        fact("window_unlucky", more_frac=0.2),
        "an unlucky window: by chance it brought 20 % more work than its rate lets expect",
    ),
    (
        fact("window_lucky", less_frac=0.58, recorded=True),
        "a quiet stretch of the recording: 58 % less work than the recording has on average at this rate",
    ),
    (
        fact("window_unlucky", more_frac=0.2, recorded=True),
        "a busy stretch of the recording: 20 % more work than the recording has on average at this rate",
    ),
    (
        fact("window_short", measure_s=4.0, e2e_mean_s=1.0, durations=5),
        "the step (4 s) is shorter than 5 mean request durations (1.00 s each): repeats will scatter, and a pass is optimistic",
    ),
    (fact("by_one_request", good=95, planned=100), "passed by one request"),
    (
        fact("left_open", open=2, planned=101),
        "2 of 101 requests had not ended when the pass was certain: p95 and p99 leave them out",
    ),
    (
        fact("sends_late", late_p99_s=0.09, worker="node-b"),
        "sends of node-b were late by 90.0 ms (p99): latencies include that much of the client's own delay",
    ),
    (
        fact("sends_late", late_p99_s=0.09),
        "sends were late by 90.0 ms (p99): latencies include that much of the client's own delay",
    ),
    (
        fact("loop_stalled", lag_max_s=0.3),
        "the client stalled for 300 ms: what arrived then looks that much slower than it was",
    ),
    (fact("few_values", answers=20, latency=None), "p99 rests on only 20 answers: little more than the slowest"),
    (
        fact("few_values", answers=5, latency="TPOT"),
        "TPOT: p95 and p99 rest on only 5 answers: little more than the slowest",
    ),
    (fact("no_success", planned=40), "none of 40 requests succeeded, so there are no latencies"),
    (fact("queue_undecided"), "queue: undecided"),
    (
        fact("lengthened", by_s=5.0),
        "lengthened by 5 s because the queue was undecided; only the queue is judged over the longer time",
    ),
    (
        fact("token_rate_off", by_tokens_rps=7.812, counted_rps=7.4),
        "token rate and request rate disagree: by its output tokens the server finished 7.81 requests/s, by count "
        "7.40; the requests that finished in the window had other lengths than those sent in it",
    ),
    (fact("no_tpot", without=1, answers=2), "1 of 2 answers had no token after the first event: judged without a TPOT"),
    (
        fact("no_usage", without=1, answers=2),
        "the server sent no usage with 1 of 2 answers: their tokens are counted one per event",
    ),
    (
        fact("no_usage", without=1, answers=2, counted_by={"length": 1}),
        "the server sent no usage with 1 of 2 answers: their tokens are counted by the length asked for",
    ),
    (
        fact("no_usage", without=3, answers=4, counted_by={"events": 1, "token_ids": 2}),
        "the server sent no usage with 3 of 4 answers: their tokens are counted one per event (1), by their token ids (2)",
    ),
    (
        fact("no_finish_reason", without=3, answers=4),
        "3 of 4 answers ended without a finish_reason: all the tokens asked for had come, so they count as complete",
    ),
    (
        fact("tpot_unknown", without=3, answers=4),
        "3 of 4 answers came in fewer events than the tokens asked for, and the server does not say how many an event holds: "
        "their TPOT is not known, and only one that is over its limit even at the full length counts as a miss",
    ),
    (fact("errors_said", times=1, errors=1, said="It broke", other_sentences=0), "1 of 1 error: It broke"),
    (
        fact("errors_said", times=3, errors=5, said="It broke", other_sentences=2),
        "3 of 5 errors: It broke; 2 other messages besides",
    ),
    (
        fact("errors_said", AGED, times=2, errors=2, said="It broke after 63 tokens", other_sentences=0),
        "2 of 2 errors: It broke after 63 tokens; both came 1.01 s after the request, and no answer took longer",
    ),
    (AGED, "both came 1.01 s after the request, and no answer took longer"),
    (
        fact("failures_alike", errors=40, n=38, **(ALIKE | {"age_s": 60.0, "until_first": True})),
        "38 of 40 errors came 60.0 s after the request, before any token, and no first token took longer",
    ),
    (
        fact("failures_alike", errors=20, n=8, **(ALIKE | {"moment_s": 0.012})),
        "8 of 20 errors came at one moment, within 12.0 ms",
    ),
    (
        fact("failures_alike", errors=5, n=5, **(ALIKE | {"tokens": 20, "prompt_over_tokens": 1260})),
        "all 5 came after 20 tokens; they had prompts above 1,260 tokens, and none that long was answered",
    ),
    (
        fact("failures_alike", errors=9, n=9, **(ALIKE | {"backend": "10.0.0.7:8000", "backend_ok_frac": 0.33})),
        "all 9 came from backend 10.0.0.7:8000, which gave 33.0 % of the answers",
    ),
    (
        fact("resent", requests=1),
        "1 request went out a second time, on a fresh connection: the server was closing the kept-alive one",
    ),
    (
        fact("several_processes"),
        "the server's counters jump back and forth: several processes answer there, so no differences are shown; replicas "
        "behind a gateway are read one by one when they are named with --replica",
    ),
    (
        fact("replicas_uneven", name="10.0.0.7:8000", share=1.31, replicas=4),
        "the busiest of 4 replicas, 10.0.0.7:8000, got 1.3 times its share of the requests",
    ),
    (
        fact("replicas_unused", "10.0.0.7:8000", requests=90),
        "10.0.0.7:8000 finished none of 90 requests: the gateway sends it nothing, or it is not behind the gateway",
    ),
    (
        fact("replicas_unseen", counted=60, requests=90),
        "of 90 requests that the gateway answered, the replicas named finished 60; what the others do is not seen",
    ),
    (
        fact("end_unread"),
        "the server was not read after the load ended: requests of others or a restart near the end would have gone unseen",
    ),
    (
        fact("metrics_unread"),
        "the server's metrics could not be read during the repeat: a restart, prefix hits or other traffic would have gone unseen",
    ),
    (
        fact("repeats_scatter", deviation_frac=0.0351, repeats=3),
        "attainment varies by 3.51 points (standard deviation) over 3 repeats: more than 3 points is normal near the knee",
    ),
    (
        fact("one_repeat"),
        "lower end rests on one repeat, which is no evidence by itself: in simulated quick searches it was above "
        "the true knee in 8 % and the bracket held the knee in 86 %; measure longer before you sign off on it",
    ),
    (
        fact("two_repeats"),
        "lower end rests on two repeats, which must both pass: in simulated quick searches it was above the true knee in 5 % and "
        "the bracket held the knee in 89 %",
    ),
    (
        fact("flips_early", repeats=10),
        "all of 10 repeats must pass, a rule declared beforehand: in simulation the min over 10 repeats flips 4 to "
        "11 % below the long-run knee, so the first failing rate is usually below it",
    ),
    (
        fact("min_of_windows", repeats=2),
        "all of 2 windows must pass, a rule declared beforehand: in simulation one fails by chance below the long-run knee in 4 of "
        "10 searches, so the first failing rate may be below it; the ends of the bracket rest on all windows together",
    ),
    (
        fact("not_monotone_pass", pass_rps=8.0, fail_rps=7.0),
        "not monotone: 7.00 requests/s failed, below the pass at 8.00 requests/s; by all windows together the higher rate holds, "
        "and the lower one was unlucky",
    ),
    (
        fact("thin_margin", pass_rps=8.0),
        "thin margin: all windows at 8.00 requests/s passed, but by all of them together the knee may be just below",
    ),
    (
        fact("not_monotone", pass_rps=8.0),
        "not monotone: a pass at 8.00 requests/s, above a failing rate; the lower one is the answer",
    ),
    (
        fact("open_above"),
        "open above: rates failed, but too few of their repeats did to say that the knee is below; measure longer for an upper end",
    ),
    (fact("one_failing_step"), "upper end rests on one failing step"),
    (fact("from_ramp"), "upper end comes from the ramp, a short segment"),
    (
        fact("nothing_between"),
        "no rate between the ends is likely enough to pass all repeats or to fail clearly, so none was tried",
    ),
    (
        fact("time_up_ends_apart", factor=2.0, wanted_factor=1.42),
        "time ran out: the ends are a factor of 2.00 apart, not 1.42",
    ),
    (fact("time_up_no_clear_fail"), "time ran out before a rate failed for sure"),
    (fact("time_up_no_pass"), "time ran out before a rate passed"),
    (fact("time_up_not_confirmed", repeats=1), "time ran out before a rate passed its repeat"),
    (fact("time_up_not_confirmed", repeats=3), "time ran out before a rate passed all 3 repeats"),
    (fact("time_up_too_few"), "this run is too short for the requests that a lower rate needs; give a longer --budget"),
    (fact("time_up_limit"), "--max-duration left too little time for the next step"),
    (
        fact("misses_not_of_load", low_rps=2.0, low_frac=0.07, high_rps=4.0, high_frac=0.068),
        "misses do not fall with the rate: 6.8 % at 4.00 requests/s, 7.0 % at 2.00 requests/s; load does not cause "
        "them, so no lower rate was tried",
    ),
    (fact("steps_ended", rates_rps=[8.0]), "the step at 8.00 requests/s was ended by the user"),
    (
        fact("steps_ended", rates_rps=[11.3137, 8.0, 4.0]),
        "the steps at 11.3, 8.00 and 4.00 requests/s were ended by the user",
    ),
    (fact("restarted_between_repeats", rate_rps=4.0), "the server restarted between two repeats at 4.00 requests/s"),
    (
        fact("restarted_between_steps", before_rps=2.0, rate_rps=4.0),
        "the server restarted between the steps at 2.00 requests/s and 4.00 requests/s",
    ),
    (
        fact("replicas_changed_between", "10.0.0.7:8000", before_rps=2.0, rate_rps=4.0, before=4, after=3),
        "replicas came, went or restarted between the repeats at 2.00 requests/s and 4.00 requests/s: 4 before, 3 after "
        "(10.0.0.7:8000)",
    ),
    (
        fact("server_slower", factor=1.384, from_utc_s=1_800_000_000.0, to_utc_s=1_800_000_150.0, **CHANGED),
        "the server became slower between 08:00:00 and 08:02:30 UTC: a step takes 38 % longer at the same batch (measured at 11.3 "
        "and then at 12.4 requests/s)",
    ),
    (
        fact("server_faster", factor=0.72, from_utc_s=None, to_utc_s=None, **(CHANGED | {"rate_rps": 11.3})),
        "the server became faster between 0:30 and 3:00 of the run: a step takes 28 % less time at the same batch (measured at "
        "11.3 requests/s both times)",
    ),
    (
        fact("server_slower_unlike", before_step_s=0.032, step_s=0.145, from_utc_s=None, to_utc_s=None, **CHANGED),
        "the server became slower between 0:30 and 3:00 of the run: a step took 32.0 ms at 11.3 requests/s and then 145 ms at 12.4 "
        "requests/s, and no rate explains that",
    ),
    (
        fact("server_faster_unlike", before_step_s=0.145, step_s=0.032, from_utc_s=None, to_utc_s=None, **CHANGED),
        "the server became faster between 0:30 and 3:00 of the run: a step took 145 ms at 11.3 requests/s and then 32.0 ms at 12.4 "
        "requests/s, and no rate explains that",
    ),
    (
        fact("ends_apart_in_speed", low_rps=11.3, low_frac=[0.0, 0.384], high_rps=12.4, high_frac=[0.384, 0.384]),
        "the ends of the bracket were not measured at one speed of the server (step time at equal batch, against the first repeat: "
        "from +0 % to +38 % at 11.3 requests/s, +38 % at 12.4 requests/s); measure again: --rates 11.3,12.4 (v on the screen)",
    ),
    (
        fact("ends_apart_in_speed", low_rps=11.3, low_frac=[0.0, 0.384], high_rps=None, high_frac=[]),
        "this rate was not measured at one speed of the server (step time at equal batch, against the first repeat: from +0 % to "
        "+38 % at 11.3 requests/s); measure again: --rates 11.3 (v on the screen)",
    ),
    (
        fact("was_away_held", away_s=20.0, said="HTTP 502"),
        "the server was away for 20 s (HTTP 502): no segment of that time counts, and the rate was held again from a new warm-up "
        "on",
    ),
    (
        fact("was_away", away_s=20.0, said="HTTP 502"),
        "the server was away for 20 s (HTTP 502): the search started over, and nothing measured before is part of the answer",
    ),
    (
        fact("rows_missing", after_s=15.0),
        "15 s after ours ended the server's metrics still lack an engine that they showed before, so whether it is idle again is "
        "not known",
    ),
    *CHECKS,
    *ANSWERS,
    *MEANWHILE,
    (
        Fact(code="in_turn", of=(fact("takes_max_tokens"), "Is that so?", "And more.")),
        "It does not accept max_completion_tokens, so max_tokens is sent instead. Is that so? And more",
    ),
    (fact("mark_peak", rate_rps=11.3, floor_frac=None, target=0.95), "each replica gets at most 11.3 requests/s at peak"),
    (
        fact("mark_peak", rate_rps=11.3, floor_frac=0.9608, target=0.95),
        "each replica gets at most 11.3 requests/s at peak, where the measured floor is 96.0 %",
    ),
    (
        fact("mark_lost", replicas=1, rate_rps=11.3),
        "with 1 replica lost at peak the others still get at most 11.3 requests/s each",
    ),
    (
        fact("mark_rollout", replicas=2, rate_rps=11.3),
        "with 2 replicas out for a rollout at peak the others still get at most 11.3 requests/s each",
    ),
    (
        fact("mark_growth", growth_per_min_frac=0.1, scale_out_s=90.0, times=1.1537, rate_rps=11.3),
        "a peak that grows by 10 % a minute over 1 min 30 s, until new replicas are up, ends 1.15 times as high; "
        "each still gets at most 11.3 requests/s",
    ),
    (
        fact("mark_burst", burstiness=0.25, bursty_rps=9.6, rate_rps=11.3, e2e_mean_s=6.0, rough=False),
        "with gamma gaps of shape 0.25 (Poisson: 1) 9.60 requests/s bring as many requests at once as 11.3 requests/s did, "
        "at a mean E2E of 6.00 s; an estimate",
    ),
    (
        fact("mark_burst", burstiness=0.1, bursty_rps=7.0, rate_rps=11.3, e2e_mean_s=6.0, rough=True),
        "with gamma gaps of shape 0.1 (Poisson: 1) 7.00 requests/s bring as many requests at once as 11.3 requests/s did, "
        "at a mean E2E of 6.00 s; a rough estimate, which may be too high: measure it",
    ),
    (fact("mark_burst_unknown", burstiness=0.25), "it needs the mean E2E latency at the safe rate"),
    (
        fact(
            "bucket_fails",
            rate_rps=11.3,
            input_tokens=[2048.0, 4095.0],
            output_tokens=[128.0, 128.0],
            others=False,
            attained_frac=0.821,
            at_most=False,
            target=0.95,
            n=1240,
        ),
        "requests with prompts of 2,048 to 4,095 tokens and answers of 128 tokens miss the target at 11.3 requests/s: 82.1 % of "
        "1,240 met every limit, not 95 %; all requests together pass",
    ),
    (
        fact(
            "bucket_fails",
            rate_rps=11.3,
            input_tokens=[1.0, 1.0],
            output_tokens=[1.0, 4095.0],
            others=True,
            attained_frac=0.9,
            at_most=True,
            target=0.95,
            n=40,
        ),
        "requests with the rarest lengths (prompts of 1 token and answers of 1 to 4,095 tokens) miss the target at 11.3 "
        "requests/s: at most 90 % of 40 met every limit, not 95 %; all requests together pass",
    ),
    (
        fact("bursty_arrivals", arrival_cv=2.0),
        "arrivals came in bursts (gamma gaps of CV 2): a window tells less than with Poisson arrivals, for which the accuracy of "
        "each mode was counted; use a longer --measure or mode",
    ),
    (
        fact("mark_burst_measured", burstiness=0.25, arrival_cv=2.0),
        "off: it is an estimate for Poisson arrivals, and this run had gamma gaps of CV 2 (shape 0.25), "
        "whose cost is measured: it is in the rate that holds",
    ),
    (
        fact("mark_burst_recorded", burstiness=0.25),
        "off: it is an estimate for Poisson arrivals, and this run had those of a recording, whose bursts are in its rates",
    ),
    (fact("recorded_arrivals"), "arrivals at each replica as in the recording, scaled to its rate"),
    (fact("poisson_arrivals"), "Poisson arrivals"),
    (fact("gamma_arrivals", arrival_cv=2.0), "gaps between the arrivals at each replica of CV 2, as measured"),
    (fact("fleet_even_split", random_cost_frac=0.01), "an even split (a random one costs at most 1 %)"),
    (fact("same_lengths"), "this mix of lengths"),
    (
        fact("fleet_open_above"),
        "The bracket is open above: the knee may be higher than every rate that failed, so fewer replicas might do",
    ),
    (
        fact("p90_answers", mean_output_tokens=228.2, p90_output_tokens=441.0),
        "p90 is an estimate, not measured: the rate that holds times 228/441, "
        "as if every answer were as long as the 90th percentile",
    ),
    (
        fact("each_gets", lost=0, **LOSS, floor_frac=None, floor_rps=None),
        "With all replicas each gets 8.33 requests/s at peak, 74 % of what holds",
    ),
    (
        fact("each_gets", lost=1, **LOSS, floor_frac=0.9889, floor_rps=11.3),
        "With 1 lost each gets 8.33 requests/s at peak, 74 % of what holds; measured at 11.3 requests/s: floor 98.8 %",
    ),
    (
        fact("each_gets", lost=1, rate_rps=12.5, load_frac=1.106, holds=False, floor_frac=None, floor_rps=None),
        "With 1 lost each gets 12.5 requests/s at peak, 111 % of what holds: too much",
    ),
    (
        fact("low_load_at_peak", **LOW_LOAD, per_hour=None, usual_per_hour=None),
        "At 30 % of what holds (70 % spare) you run 24 replicas instead of 11 at 70 %, 48 GPUs instead of 22",
    ),
    (
        fact("low_load_at_peak", **LOW_LOAD, per_hour=120.0, usual_per_hour=55.0),
        "At 30 % of what holds (70 % spare) you run 24 replicas instead of 11 at 70 %, 120.00 an hour instead of 55.00",
    ),
    (
        fact("low_load_no_peak", load_frac=0.3, usual_frac=0.7, times=0.7 / 0.3),
        "load at peak 30 % (70 % spare) takes about 2.33 times the replicas and the money of 70 %, the default",
    ),
    (fact("fleet_cost", per_hour=35.0, per_million_at_peak=None, per_million_at_mean=None), "Cost: 35.00 an hour"),
    (
        fact("fleet_cost", per_hour=35.0, per_million_at_peak=0.852, per_million_at_mean=2.13),
        "Cost: 35.00 an hour, 0.852 per million output tokens while the peak lasts, 2.13 at the mean rate",
    ),
    (
        fact("mean_rate", mean_rps=20.0, replicas=3, saved_gpus=8, saved_frac=0.571, saved_per_hour=20.0),
        "The mean rate of 20.0 requests/s needs 3 replicas: scaling to it would save 8 GPUs on average at most "
        "(57 %, 20.00 an hour)",
    ),
    (
        fact("mean_rate", mean_rps=20.0, replicas=1, saved_gpus=1, saved_frac=0.5, saved_per_hour=None),
        "The mean rate of 20.0 requests/s needs 1 replica: scaling to it would save 1 GPU on average at most (50 %)",
    ),
    (STREAM, FLOOR),
    (fact("stream_floor_allows", STREAM, limit_s=0.05), f"{FLOOR}: a TPOT limit of 50 ms is possible"),
    (
        fact("stream_floor_forbids", STREAM, limit_s=0.015),
        f"{FLOOR}: a TPOT limit of 15 ms is not possible, and no number of replicas changes that",
    ),
    (
        fact("stream_floor_doubted", STREAM, limit_s=0.015),
        f"{FLOOR}: at that share a TPOT limit of 15 ms would not be possible",
    ),
    (fact("prefill_bound"), "long prompts with short answers are bound by prefill, about which this floor says nothing"),
    (
        fact("stream_beats_bandwidth", measured_s=0.01, floor_s=0.02154, fastest_s=0.01508),
        "a single stream has a TPOT of 10.0 ms, less than the floor of 21.5 ms and than the full bandwidth allows (15.1 ms): the "
        "weights, the device or TP are not as entered, or a step makes several tokens; correct them or leave them out",
    ),
    (
        fact("stream_beats_floor", measured_s=0.018, floor_s=0.02154, eta_reached_frac=0.838, eta_frac=0.7, eta_assumed=True),
        "a single stream has a TPOT of 18.0 ms, less than the floor of 21.5 ms: eta was guessed too low, it is 84 % and not 70 %",
    ),
    (
        fact("stream_beats_floor", measured_s=0.018, floor_s=0.02513, eta_reached_frac=0.838, eta_frac=0.6, eta_assumed=False),
        "a single stream has a TPOT of 18.0 ms, less than the floor of 25.1 ms: eta was entered too low, it is 84 % and not 60 %",
    ),
    (fact("stream_measured", measured_s=0.025, eta_reached_frac=0.603), "a single stream has a TPOT of 25.0 ms: eta is 60 %"),
    (
        fact("help_weights", most_bytes=10.588e9, weights_bytes=15.2e9, weight_bits=16, fitting_bits=8.0),
        "weights of at most 10.5 GB in place of 15.2 GB (8 bits a weight in place of 16)",
    ),
    (
        fact("help_weights", most_bytes=1e9, weights_bytes=15.2e9, weight_bits=16, fitting_bits=None),
        "weights of at most 1.00 GB in place of 15.2 GB (a smaller model)",
    ),
    (
        fact("help_weights", most_bytes=999.6e6, weights_bytes=15.2e9, weight_bits=None, fitting_bits=None),
        "weights of at most 999 MB in place of 15.2 GB (fewer bits a weight, or a smaller model)",
    ),
    (fact("help_tp", tp=2, floor_s=0.01077), "TP 2 (at best 10.8 ms; each layer's all-reduce adds to that)"),
    (
        fact("help_device", least_bytes_per_s=1.4473e12, devices_bytes_per_s={"A100": 1_555 * 10**9, "H100": 3_350 * 10**9}),
        "a device with at least 1,448 GB/s (A100 has 1,555, H100 has 3,350)",
    ),
    (fact("help_device", least_bytes_per_s=9e13, devices_bytes_per_s={}), "a device with at least 90,000 GB/s"),
    (fact("help_limit", floor_s=0.02154), "a TPOT limit of at least 21.6 ms"),
    (
        fact("kv_streams", capacity_tokens=64_000, fits_mean=86.4, mean_tokens=740.6, fits_p90=65.2, p90_tokens=982.0),
        "64,000 KV tokens hold 86.4 streams of 741 tokens (mean), 65.2 of 982 (p90)",
    ),
    (fact("kv_needed", streams=67.8, used_frac=0.785), "the rate that holds needs 67.8 at a time, 78 % of the former"),
    (fact("kv_needed", streams=67.8, used_frac=None), "the rate that holds needs 67.8 at a time"),
    (SEEN, "KV usage rose to 40 %, no preemptions"),
    (fact("fleet_kv_seen", kv_usage_max_frac=None, preemptions=1.0), "1 preemption"),
    (
        fact("fleet_kv_seen", kv_usage_max_frac=0.65, preemptions=0.0, rate_rps=12.1),
        "at 12.1 requests/s KV usage rose to 65 %, no preemptions",
    ),
    (fact("fleet_kv_seen", kv_usage_max_frac=0.004, preemptions=None), "KV usage rose to 0.4 %"),
    (
        fact("kv_on_paper", paper_tokens=411_987, utilization_frac=0.9, activations_bytes=2e9),
        "The server does not say how much its KV cache holds; on paper it is 411,987 tokens (90 % of the memory "
        "less weights and 2.00 GB a device), and fewer for a mixture of experts, which keeps all experts in memory "
        "though a token reads only some",
    ),
    (
        fact("kv_told", told_tokens=64_000, paper_tokens=411_987),
        "The server's own figure of 64,000 KV tokens counts; on paper it would be 411,987",
    ),
    (
        fact("kv_not_full_length"),
        "More streams than fit at full length are in the server at once: most are not at full length yet, or wait",
    ),
    (
        fact("memory_binds", fact("fleet_kv_seen", kv_usage_max_frac=0.99, preemptions=3.0), rate_rps=11.3),
        "At 11.3 requests/s memory binds: KV usage rose to 99 %, 3 preemptions",
    ),
    (
        fact("memory_binds", FILLS, rate_rps=12.1),
        "At 12.1 requests/s memory binds: KV usage of 65 % there rises to 99 % and makes sequences give way (9 preemptions) "
        "at 17.1 requests/s",
    ),
    (
        replace(FILLS, figures={**FILLS.figures, "fail_preemptions": 0.0}),
        "KV usage of 65 % there rises to 99 % at 17.1 requests/s",
    ),
    (
        replace(FILLS, figures={**FILLS.figures, "fail_kv_usage_max_frac": None}),
        "KV usage of 65 % there makes sequences give way (9 preemptions) at 17.1 requests/s",
    ),
    (fact("memory_binds", rate_rps=11.3), "At 11.3 requests/s memory binds: more streams are needed than fit"),
    (
        fact("speed_binds", SEEN, rate_rps=11.3, margin=2.5),
        "At 11.3 requests/s speed binds and not memory, which holds 2.5 times as much (KV usage rose to 40 %, no preemptions)",
    ),
    (fact("speed_binds", rate_rps=11.3, margin=None), "At 11.3 requests/s speed binds and not memory"),
    (
        fact("neither_binds", SEEN, rate_rps=11.3),
        "At 11.3 requests/s neither memory nor speed was seen to bind (KV usage rose to 40 %, no preemptions): no rate failed",
    ),
    (
        Fact(code="several", of=(REACH, "and more")),
        "at most 41 % can still meet the limits (target 95 %); and more",
    ),
    # why a rate fails
    (
        fact("looked_at", fact("lateness_seen", p99_s=0.0009), fact("loop_stall_seen", max_s=0.004), place="client"),
        "the client: late p99 0.9 ms, its loop stalled 4 ms at most",
    ),
    (fact("looked_at", fact("errors_seen", endings={}, said=None), place="workload"), "the prompts: no errors"),
    (fact("looked_at", fact("preemptions_seen", preemptions=0.0), place="resources"), "no preemptions"),
    (fact("lateness_seen", p99_s=0.0009), "late p99 0.9 ms"),
    (fact("lateness_seen", p99_s=None), "lateness not known"),
    (fact("loop_stall_seen", max_s=0.004), "its loop stalled 4 ms at most"),
    (fact("failed_here", requests=3), "3 requests failed on its own side"),
    (fact("not_sent", requests=50), "50 planned requests not sent"),
    (fact("client_cpu_seen", core_frac=0.42), "42 % of a core"),
    (fact("errors_seen", endings={}, said=None), "no errors"),
    (fact("errors_seen", endings={"http": 20}, said="HTTP 503: Overloaded"), "errors: http 20 (HTTP 503: Overloaded)"),
    (
        fact("errors_seen", AGED, endings={"truncated": 2}, said="It broke"),
        "errors: truncated 2 (It broke; both came 1.01 s after the request, and no answer took longer)",
    ),
    (
        fact("errors_seen", AGED, endings={"truncated": 2}, said=None),
        "errors: truncated 2 (both came 1.01 s after the request, and no answer took longer)",
    ),
    (fact("prefix_hits_seen", hit_frac=0.0), "0 % prefix hits"),
    (fact("prefix_hits_seen", hit_frac=None), "prefix hits not known"),
    (fact("lengths_seen", **LENGTHS, output_tokens=40.0, finish_reasons={"length": 9}), "100/40 tokens as asked"),
    (
        fact("lengths_seen", **LENGTHS, output_tokens=20.0, finish_reasons={"stop": 9}),
        "100/20 tokens where 100/40 were asked for (ended by stop 9)",
    ),
    (fact("lengths_seen", **LENGTHS, output_tokens=None, finish_reasons={}), "no answer succeeded"),
    (
        fact("waiting_seen", mean=6.0, before_mean=0.02, rate_rps=12.4, passing_rps=11.3),
        "waiting requests 0.0200 -> 6.00 on average from 11.3 to 12.4 requests/s",
    ),
    (
        fact("waiting_seen", mean=6.0, before_mean=None, rate_rps=12.4, passing_rps=None),
        "waiting requests 6.00 on average at 12.4 requests/s",
    ),
    (fact("deferred_seen", mean=5.9), "5.90 of them for a KV transfer or a LoRA (deferred)"),
    (fact("queue_time_seen", mean_s=0.4, before_s=0.004), "queue time 4 ms -> 400 ms"),
    (fact("queue_time_seen", mean_s=0.4, before_s=None), "queue time 400 ms"),
    (fact("queue_time_seen", mean_s=None, before_s=None), "queue time not known"),
    (fact("queue_not_shown"), "the queue: the server shows no running and waiting requests"),
    (
        fact("ttft_split", queue_s=0.4, prefill_s=0.08, outside_s=0.02),
        "TTFT splits into 80 % queue, 16 % prefill, 4.0 % outside the engine",
    ),
    (fact("ttft_not_split", mean_s=0.5), "TTFT 500 ms on average, which the server does not split"),
    (
        fact("late_not_ended", requests=30),
        "30 requests past their TTFT limit had not ended, so the server does not split their time",
    ),
    (fact("tpot_seen", mean_s=0.06, before_s=0.015), "TPOT 15 ms -> 60 ms on average"),
    (fact("tpot_seen", mean_s=0.06, before_s=None), "TPOT 60 ms on average"),
    (fact("prompts_take", at_most_frac=0.744), "prompts take up to 74 % of the engine's time"),
    (fact("prompts_take", at_most_frac=1.9), "prompts take up to 100 % of the engine's time"),
    (fact("no_latency"), "no latency was measured"),
    (
        fact("running_limit", sequences=16, engines=1),
        "running stays at 16 while requests wait (max_num_seqs, as far as seen)",
    ),
    (
        fact("running_limit", sequences=32, engines=4),
        "running stays at 32 over 4 engines while requests wait (max_num_seqs 8 each, as far as seen)",
    ),
    (fact("running_seen", mean=14.2, max=20.0, engines=1), "running 14.2 on average, 20 at most"),
    (fact("running_seen", mean=14.2, max=None, engines=2), "running 14.2 on average over 2 engines"),
    (fact("running_not_shown"), "running sequences and KV cache are not known"),
    (
        fact("engines_seen", running_mean=[7.9, 1.1, 1.0], waiting_mean=[5.2, 0.0, 0.0]),
        "by engine 7.90 / 1.10 / 1.00 running, 5.20 / 0 / 0 waiting",
    ),
    (
        fact("engines_seen", running_mean=[7.9, 1.1], waiting_mean=[5.2, 0.0], of_replicas=True),
        "by replica 7.90 / 1.10 running, 5.20 / 0 waiting",
    ),
    (
        fact("engines_seen", running_mean=[8.0, *[1.0] * 8], waiting_mean=[5.0, *[0.0] * 8]),
        "by engine 1.00 to 8.00 running, 0 to 5.00 waiting",
    ),
    (fact("kv_seen", mean_frac=0.95, max_frac=0.98, engines=1), "KV cache at 95 %, 98 % at most"),
    (fact("kv_seen", mean_frac=0.95, max_frac=0.98, engines=2), "KV cache of the fullest engine at 95 %, 98 % at most"),
    (fact("kv_seen", mean_frac=None, max_frac=None, engines=1), "KV usage not known"),
    (
        fact("kv_seen", mean_frac=0.65, max_frac=0.84, engines=1, queued_frac=0.81, full_frac=0.78),
        "KV cache at 65 % (81 % while requests wait), 84 % at most, without room for another prompt from 78 % on",
    ),
    (
        fact("kv_seen", mean_frac=0.3, max_frac=0.4, engines=1, queued_frac=0.3, full_frac=None),
        "KV cache at 30 %, 40 % at most",
    ),
    (fact("preemptions_seen", preemptions=0.0), "no preemptions"),
    (fact("preemptions_seen", preemptions=1.0), "1 preemption"),
    (fact("preemptions_seen", preemptions=None), "preemptions not known"),
    (
        fact(
            "machine_seen",
            gpu_frac=0.97,
            dram_frac=0.8,
            tensor_frac=None,
            gpu_memory_frac=None,
            cpu_frac=0.1,
            memory_frac=None,
        ),
        "GPU busy 97 %, its memory bandwidth 80 %, host processors 10 %",
    ),
    (fact("limit_missed_not_known"), "which limit was missed is not known"),
    (fact("in_ramp_alone"), "seen in the ramp alone"),
    (fact("gpu_hardly_busy", busy_frac=0.3), "the GPU was busy only 30 % of the time: look at the host's processor"),
    (fact("stage_times_not_known"), "the server's queue and prefill times are not known"),
    (
        fact("late_token_unexplained"),
        "the server shows no queue and prefill times, so a late first token cannot be traced",
    ),
    (
        fact("slow_answer_unexplained"),
        "the server shows no queue, prefill and decode times, so a slow answer cannot be traced",
    ),
    (fact("running_not_known"), "running and waiting requests are not known"),
    (fact("kv_not_known"), "the KV usage is not known"),
    (
        fact("places_full_too", sequences=16, preemptions=0.0),
        "the running sequences stood at 16 as well, and none had to give way",
    ),
    (
        fact("places_full_too", sequences=16, preemptions=1.0),
        "the running sequences stood at 16 as well, and only 1 had to give way",
    ),
    (fact("places_full_too", sequences=16, preemptions=None), "the running sequences stood at 16 as well"),
    (fact("gave_way", preemptions=2.0), "memory was short at times: 2 preemptions"),
    (fact("kv_never_full", max_frac=0.41), "no reading shows more than 41 % of the KV cache in use"),
    (fact("places_never_full", max=16.0), "the running sequences stood at no limit (16 at most)"),
    (fact("places_never_full", max=None), "the running sequences stood at no limit"),
    (fact("prompts_light", at_most_frac=0.04), "prompts take at most 4.0 % of the engine's time"),
    (
        fact("tpot_not_grown", mean_s=0.0104, idle_s=0.01),
        "TPOT is hardly slower on average than on the idle server (10.4 ms, 10 ms idle)",
    ),
    (fact("no_stage_grew"), "neither queue, prefill nor decode time is longer than at the rate that held"),
    (fact("prefill_dominates"), "prompts spend less time waiting than being computed"),
    (fact("tpot_without_room"), "with more of them TPOT would miss its limit, which it nearly does already"),
    (fact("few_queued_readings", readings=3, shows_limit=True), "requests waited in only 3 readings"),
    (
        fact("few_queued_readings", readings=3, shows_limit=False),
        "requests waited in only 3 readings, too few to say for what",
    ),
    (fact("few_readings", readings=5), "seen in only 5 readings"),
    (fact("prompt_cost_not_known"), "what a prompt costs on the idle server is not known"),
    (fact("prefill_hardly_seen", prefill_frac=0.02), "by the server's own times prompts are only 2.0 % of TTFT"),
    (
        fact("nothing_full", at_most_frac=0.12, kv_known=True),
        "prompts take at most 12 % of the engine's time, and neither its slots nor its KV cache were full",
    ),
    (
        fact("nothing_full", at_most_frac=0.12, kv_known=False),
        "prompts take at most 12 % of the engine's time, and its slots were not full",
    ),
    (
        fact("idle_not_known"),
        "the idle server's TPOT or prompt time is not known, so the two cannot be told apart",
    ),
    (
        fact("prompts_part_of_tpot", prompts_frac=0.55),
        "55 % of the growth of TPOT comes from prompts computed in between, the rest from slower steps",
    ),
    (fact("deferred_part", deferred_frac=0.55), "55 % of those that wait are deferred (KV transfer or LoRA)"),
    (fact("waits_in_server", mean=6.0), "but 6.00 requests wait in the server on average"),
    (
        fact("binds", rate_rps=12.4, cause="slots", setting="--max-num-seqs", memory_free=True),
        "At 12.4 requests/s the number of sequences binds, not memory: the setting to change is --max-num-seqs",
    ),
    (
        fact("binds", fact("in_ramp_alone"), fact("kv_not_known"), rate_rps=12.4, cause="kv", setting=None, memory_free=False),
        "At 12.4 requests/s the KV cache binds, most likely (seen in the ramp alone; the KV usage is not known)",
    ),
    (
        fact("two_causes", fact("kv_not_known"), rate_rps=12.4, cause="slots", also="kv", setting="--max-num-seqs"),
        "At 12.4 requests/s two causes fit, the number of sequences first and the KV cache (the KV usage is not known): "
        "the setting to change is --max-num-seqs",
    ),
    (
        fact("deferred_binds", rate_rps=12.4, deferred_frac=0.98),
        "At 12.4 requests/s requests wait for a KV transfer or a LoRA, not for the scheduler: 98 % of those that wait are deferred",
    ),
    (
        fact("uneven_binds", **SPLIT, engines=4, idle=3),
        "At 12.4 requests/s the load is split unevenly among 4 engines: engine 0 runs 7.90 requests on average "
        "with 5.20 waiting, while the other 3 run 1.10",
    ),
    (
        fact("uneven_binds", fact("in_ramp_alone"), **SPLIT, engines=4, idle=2),
        "At 12.4 requests/s the load is split unevenly among 4 engines, most likely (seen in the ramp alone): "
        "engine 0 runs 7.90 requests on average with 5.20 waiting, while 2 of them run 1.10",
    ),
    (
        fact("uneven_binds", **SPLIT, engines=2, idle=1),
        "At 12.4 requests/s the load is split unevenly among 2 engines: engine 0 runs 7.90 requests on average "
        "with 5.20 waiting, while the other runs 1.10",
    ),
    (
        fact("uneven_binds", **SPLIT | {"busiest": "10.0.0.7:8000"}, engines=2, idle=1, of_replicas=True),
        "At 12.4 requests/s the load is split unevenly among 2 replicas: replica 10.0.0.7:8000 runs 7.90 requests on average "
        "with 5.20 waiting, while the other runs 1.10",
    ),
    (
        fact("errors_bind", rate_rps=12.4, said="HTTP 503: Overloaded"),
        "At 12.4 requests/s most of what missed ended in errors (HTTP 503: Overloaded), which is not a latency limit",
    ),
    (
        fact("errors_bind", rate_rps=12.4, said=None),
        "At 12.4 requests/s most of what missed ended in errors, which is not a latency limit",
    ),
    (
        fact("errors_bind", AGED, rate_rps=12.4, said="The connection broke"),
        "At 12.4 requests/s most of what missed ended in errors (The connection broke; both came 1.01 s after the "
        "request, and no answer took longer), which is not a latency limit",
    ),
    (
        fact("not_certain", fact("running_not_known"), rate_rps=12.4, also=None),
        "What binds at 12.4 requests/s is not certain (running and waiting requests are not known)",
    ),
    (
        fact("not_certain", fact("running_not_known"), rate_rps=12.4, also="prefill"),
        "What binds at 12.4 requests/s is not certain (the time that prompts take (prefill) perhaps, "
        "running and waiting requests are not known)",
    ),
    (
        fact("none_failed", rate_rps=12.4),
        "No rate that was tried failed (up to 12.4 requests/s), so what binds first was not seen",
    ),
    (
        fact("not_measured", rate_rps=12.4, cause="client"),
        "The run has no answer because of the client, at 12.4 requests/s; what binds was not seen",
    ),
    (
        fact("not_measured", fact("server_restarted"), rate_rps=12.4, cause="unknown"),
        "The run has no answer, because at 12.4 requests/s the server restarted during the repeat; what binds was not seen",
    ),
    (
        fact("more_sequences", sequences=16.0, engines=1, tpot_p95_s=0.02, tpot_limit_s=0.05, room=True),
        "Try --max-num-seqs above 16: TPOT has room for more (p95 20 ms of 50 ms).",
    ),
    (
        fact("more_sequences", sequences=16.0, engines=1, tpot_p95_s=0.045, tpot_limit_s=0.05, room=False),
        "Try --max-num-seqs above 16: TPOT has hardly any room for more (p95 45 ms of 50 ms).",
    ),
    (
        fact("more_sequences", sequences=8.0, engines=4, tpot_p95_s=None, tpot_limit_s=None, room=None),
        "Try --max-num-seqs above 8 for each of the 4 engines; each token gets slower with more sequences.",
    ),
    (
        fact("more_kv_memory", utilization="0.9"),
        "Raise it above 0.9, try --kv-cache-dtype fp8, or spread the model over more GPUs.",
    ),
    (
        fact("more_kv_memory", utilization=None),
        "Raise it, try --kv-cache-dtype fp8, or spread the model over more GPUs.",
    ),
    (
        fact("more_kv_blocks", blocks="24"),
        "The server was started with only 24 KV blocks: raise that or leave it out.",
    ),
    (
        fact("prompt_budget", smaller=False),
        "A larger budget per step lets prompts in sooner, and TPOT pays for it; shorter or shared prompts help both.",
    ),
    (
        fact("prompt_budget", smaller=True),
        "Smaller chunks of prompt between the tokens help TPOT, and TTFT pays for it; shorter or shared prompts help both.",
    ),
    (
        fact("fewer_sequences", running_mean=26.4, engines=1),
        "Set it below the 26.4 that run on average here to keep each token fast; requests then queue instead. "
        "--tensor-parallel-size and quantised weights make steps faster.",
    ),
    (
        fact("fewer_sequences", running_mean=26.4, engines=2),
        "Set it below the 26.4 that run on average here in each engine to keep each token fast; requests then "
        "queue instead. --tensor-parallel-size and quantised weights make steps faster.",
    ),
    (
        fact("fewer_sequences", running_mean=None, engines=1),
        "Set it to keep each token fast; requests then queue instead. --tensor-parallel-size and quantised weights "
        "make steps faster.",
    ),
    (fact("nearer_client"), "Add API processes, or move the client nearer to the server, then run again."),
    (fact("stronger_client"), "Give the client more CPU, or a machine of its own, then run again."),
    (
        fact("find_prefix"),
        "Find out what makes prompts known to the server (its own system prompt?), then run again.",
    ),
    (fact("lengths_given"), "Ask for lengths that the server gives, then run again."),
    (fact("errors_first"), "Fix the errors first: no scheduler setting helps against them."),
    (
        fact("common_cause", errors=2, n=2, **(ALIKE | {"age_s": 1.0, "until_first": False})),
        "Look for a time limit of 1.00 s for a whole answer on the way (route, request or read timeout of a "
        "gateway or balancer); no scheduler setting helps against that.",
    ),
    (
        fact("common_cause", errors=2, n=2, **(ALIKE | {"age_s": 60.0, "until_first": True, "backend": "b"})),
        "Look for a time limit of 60.0 s for a wait for the first byte on the way (route, request or read timeout "
        "of a gateway or balancer), and at backend b, its log and its settings; no scheduler setting helps against "
        "that.",
    ),
    (
        fact("common_cause", errors=8, n=8, **(ALIKE | {"moment_s": 0.012})),
        "Look in the logs of server and gateway for that moment (a process that ended, out of memory, a restart); "
        "no scheduler setting helps against that.",
    ),
    (
        fact("common_cause", errors=8, n=8, **(ALIKE | {"tokens": 20, "prompt_over_tokens": 1260})),
        "Look for what ends an answer after 20 tokens (a limit of size or tokens on the way), and for a limit on "
        "prompts above 1,260 tokens (size of a request at a gateway, the server's context); no scheduler setting "
        "helps against that.",
    ),
    (
        fact("kv_transfer"),
        "Look at what hands the KV cache over (connector, network, the prefill side), or with LoRAs at "
        "--max-loras; more slots or a larger budget per step help with neither.",
    ),
    (
        fact("even_split"),
        "Look at what spreads requests over the engines (balancer, sessions, prefix affinity): evenly spread, the same engines "
        "take more. Then run again.",
    ),
    (
        fact("even_split", of_replicas=True),
        "Look at what spreads requests over the replicas (balancer, sessions, prefix affinity): evenly spread, the same replicas "
        "take more. Then run again.",
    ),
    (fact("memory_free", max_frac=0.41), "memory: KV peak 41 %"),
    (fact("places_free"), "the number of sequences: requests hardly wait for a slot"),
    (fact("prefill_light", at_most_frac=0.04), "the prompts' prefill: up to 4.0 % of the engine's time"),
    *WATCHED,
    (fact("check_no_answer", of_old=True, outcome="void"), "The old run has no valid answer: its evidence does not count"),
    (fact("check_no_answer", of_old=False, outcome="held"), "The new run has no valid answer: a held rate has no knee"),
    (
        fact("check_differs", what="ttft_s", new=None, old=0.8),
        "The runs cannot be compared: TTFT limit differs (800 ms in the old run, none in the new one)",
    ),
    (
        fact("check_differs", what="mode", new="quick", old="standard"),
        "The runs cannot be compared: mode differs (standard in the old run, quick in the new one)",
    ),
    (
        fact("check_differs", what="target", new=0.99, old=0.95),
        "The runs cannot be compared: target differs (95 % in the old run, 99 % in the new one)",
    ),
    (
        fact("check_differs", what="prefix", new="cold", old="share=0.5"),
        "The runs cannot be compared: prefix differs (share=0.5 in the old run, cold in the new one)",
    ),
    (
        fact("check_drop_met", pass_rps=9.5, **DROP),
        "The new run holds at 9.50 requests/s; it had to hold 9.00 requests/s (10.0 in the old run, of which 10 % may be lost)",
    ),
    (
        fact("check_drop_not_met", fail_rps=8.0, **DROP),
        "The new run fails at 8.00 requests/s; it had to hold 9.00 requests/s (10.0 in the old run, of which 10 % may be lost)",
    ),
    (
        fact("check_drop_not_met", fail_rps=0.0, **DROP),
        "Single requests miss the limits in the new run; it had to hold 9.00 requests/s (10.0 in the old run, of which 10 % may "
        "be lost)",
    ),
    (
        fact("check_drop_not_known", pass_rps=None, fail_rps=None, **DROP),
        "No rate held and no rate failed for sure, so it is not known whether it holds 9.00 requests/s (10.0 in the old run, of "
        "which 10 % may be lost); measure that rate with probe --require-rps",
    ),
    (
        fact("check_old_failed", pass_rps=9.5, old_fail_rps=8.0),
        "The new run holds at 9.50 requests/s; the old run held no rate and failed at 8.00 requests/s",
    ),
    (fact("check_old_failed", pass_rps=9.5, old_fail_rps=0.0), "The new run holds at 9.50 requests/s; the old run held no rate"),
    (
        fact("check_old_holds_none", old_fail_rps=8.0),
        "No rate held in the old run (it failed at 8.00 requests/s), so there is nothing to compare with",
    ),
    (fact("check_rate_met", rate_rps=9.0, pass_rps=9.5), "The new run holds at 9.50 requests/s; 9.00 requests/s is required"),
    (fact("check_rate_not_met", rate_rps=9.0, fail_rps=8.0), "The new run fails at 8.00 requests/s; 9.00 requests/s is required"),
    (
        fact("check_rate_not_known", rate_rps=9.0, pass_rps=8.0, fail_rps=12.0),
        "The new run holds at 8.00 requests/s and fails at 12.0 requests/s, so it is not known whether it holds the required 9.00 "
        "requests/s; measure that rate with probe --require-rps",
    ),
    (
        fact("again_undecided", low_frac=0.4, high_frac=0.97, target=0.95, sent=120, planned=300),
        "attainment 40.0 % to 97.0 %: its load was stopped when 120 of 300 requests were sent",
    ),
    (
        fact("again_undecided", low_frac=0.4, high_frac=0.97, target=0.95, sent=300, planned=300),
        "attainment 40.0 % to 97.0 %: its load was stopped before all requests had ended",
    ),
    (fact("again_void", fact("undecided")), "would not count by these limits: stopped before it was decided"),
    (fact("again_few_repeats", judged=1, planned=2), "1 of 2 repeats was run, which was enough by the old limits"),
    (fact("again_ramp_undecided"), "the ramp was stopped by the old limits before a rate failed by these"),
    (
        fact("again_bracket", pass_rps=8.0, first_fail_rps=12.0, fail_rps=12.0, clearly=True),
        "by these limits it holds at 8.00 requests/s and clearly fails at 12.0 requests/s",
    ),
    (
        fact("again_bracket", pass_rps=8.0, first_fail_rps=12.0, fail_rps=None, clearly=False),
        "by these limits it holds at 8.00 requests/s, and 12.0 requests/s failed, but not for sure: how much more it holds was not "
        "measured",
    ),
    (
        fact("again_bracket", pass_rps=8.0, first_fail_rps=None, fail_rps=None, clearly=False),
        "by these limits it holds at 8.00 requests/s, and no measured rate fails: how much more it holds was not measured",
    ),
    (
        fact("again_bracket", pass_rps=None, first_fail_rps=12.0, fail_rps=12.0, clearly=False),
        "by these limits no measured rate holds: the knee is below 12.0 requests/s, and how far below was not measured",
    ),
    (fact("again_infeasible", "single requests miss"), "by these limits no rate holds: single requests miss"),
    (fact("again_nothing"), "the stored requests decide nothing by these limits; measure with kneescope probe"),
    (fact("again_not_decided", rates_rps=[8.0]), "Not decided: 8.00 requests/s, as load there was cut short"),
    (fact("again_not_decided", rates_rps=[8.0, 9.0]), "Not decided: 8.00 and 9.00 requests/s, as load there was cut short"),
]


@pytest.mark.parametrize(("found", "sentence"), SENTENCES, ids=[f"{n}-{found.code}" for n, (found, _) in enumerate(SENTENCES)])
def test_a_fact_in_words(found: Fact, sentence: str) -> None:
    assert prose.text(found) == sentence


def test_every_code_has_its_sentence_and_its_test() -> None:
    assert set(prose.SENTENCES) == set(get_args(Code)) == {found.code for found, _ in SENTENCES}


def test_no_code_is_said_in_two_places() -> None:
    places = [module for module in vars(prose).values() if isinstance(module, ModuleType) and hasattr(module, "SENTENCES")]
    assert sum(len(module.SENTENCES) for module in places) == len(prose.SENTENCES)


@pytest.mark.parametrize("found", [found for found, _ in SENTENCES], ids=lambda found: found.code)
def test_a_fact_comes_back_from_a_file_as_it_was(found: Fact) -> None:
    line = msgspec.json.encode(found)
    assert msgspec.json.decode(line, type=Said) == found
    assert msgspec.json.decode(line) == msgspec.json.decode(msgspec.json.encode(as_data(found)))


@pytest.mark.parametrize(
    ("said", "alone"),
    [
        ("holds at 4.00 requests/s", "Holds at 4.00 requests/s."),
        ("4.00 requests/s next", "4.00 requests/s next."),
        ("what is ***?", "What is ***?"),
        ("Mend it.", "Mend it."),
        ("step 3: shortened …", "Step 3: shortened …"),
        (fact("stopped_before_answer"), "Stopped before the answer; what was finished is kept."),
    ],
)
def test_what_stands_alone_begins_and_ends_as_a_sentence(said: Said, alone: str) -> None:
    assert prose.sentence(said) == alone


def test_no_answer_and_no_line_has_its_full_stop_yet() -> None:
    assert not [sentence for _, sentence in (*ANSWERS, *MEANWHILE) if sentence.endswith(".")]


def test_a_sentence_is_said_as_it_is_and_has_no_code() -> None:
    assert prose.text("the client, not the server: 1 request") == "the client, not the server: 1 request"
    assert as_data("anything") is None
    assert not says("the client, not the server: 1 request", *get_args(Code))


@pytest.mark.parametrize("found", [found for found, _ in SENTENCES if found.figures], ids=lambda found: found.code)
def test_a_fact_without_its_figures_breaks_nothing(found: Fact) -> None:
    damaged: dict[str, str] = dict.fromkeys(found.figures, "gone")
    assert prose.text(Fact(code=found.code))
    assert prose.text(msgspec.structs.replace(found, figures=damaged))


def test_whole_sentences_end_with_a_full_stop() -> None:
    assert prose.sentence(fact("undecided")) == "Stopped before it was decided."
    assert prose.sentence("somebody said so.") == "Somebody said so."
    assert prose.sentence("vLLM said so") == "vLLM said so."
    assert prose.sentence(in_turn(fact("undecided"), fact("server_lost"))).count(".") == 2


def test_the_marks_of_the_load_at_peak_have_short_names() -> None:
    names = {found.code: prose.mark_label(found) for found, _ in SENTENCES if found.code.startswith("mark_")}
    assert names == {
        "mark_peak": "peak",
        "mark_lost": "1 lost",
        "mark_rollout": "2 out",
        "mark_growth": "growth 10 %/min, 1 min 30 s",
        "mark_burst": "burstiness 0.1",
        "mark_burst_unknown": "burstiness 0.25",
        "mark_burst_measured": "burstiness 0.25",
        "mark_burst_recorded": "burstiness 0.25",
    }


def test_a_fitted_interval_is_said_where_it_is_narrow() -> None:
    assert prose.estimate(KneeEstimate(low_rps=10, high_rps=12.34, nominal=0.95)) == (
        "A curve fitted over all repeats puts the knee between 10.0 and 12.3 requests/s, meant to be right 9.5 times in 10; "
        "not a measured rate."
    )
    assert prose.estimate(KneeEstimate(low_rps=10, high_rps=20, nominal=0.95)) == ""
    assert prose.estimate(None) == ""


def test_what_prompts_share_in_words() -> None:
    shared, alone = Prefix(kind="shared", tokens=512, groups=8), Prefix(kind="shared", tokens=512, groups=1)
    assert [prose.prefix(each) for each in (COLD, shared, alone)] == [
        "cold prompts",
        "512 tokens shared within each of 8 groups",
        "512 tokens shared within one group",
    ]
    assert [prose.prefix_brief(each) for each in (COLD, shared, alone)] == [
        "cold",
        "512 shared by 8 groups",
        "512 shared by 1 group",
    ]


def test_prefix_hits_stand_beside_their_plan() -> None:
    assert prose.hits(0.61, 0.62) == "prefix hits 61 % (planned 62 %)"
    assert prose.hits(None, 0.62) == "prefix hits not known (planned 62 %)"
    assert prose.hits(0.03, None) == "prefix hits 3.0 %"


def test_several_facts_stand_beside_each_other() -> None:
    one, two, three = fact("undecided"), fact("server_lost"), fact("no_rate_failed")
    assert several(one) == one
    assert several(several(one, two), three) == Fact(code="several", of=(one, two, three))
    assert says(several(one, two), "server_lost")
    assert list(parts(fact("stopped", several(one, two))))[2:] == [one, two]
    with pytest.raises(ValueError, match="nothing"):
        several()


def test_what_a_check_found_is_said_in_whole_sentences() -> None:
    assert prose.sentence(fact("no_traffic")) == "No requests from others: 0 running, 0 waiting."
    assert prose.sentence(fact("no_model_list")).endswith("is this the address of the API?")
    both = in_turn(fact("version_known", version="1"), in_turn(fact("files_unlimited"), "As somebody said."))
    assert prose.sentence(both) == "Version 1. The number of open files is not limited. As somebody said."
    assert prose.sentence("A sentence of an old file.") == "A sentence of an old file."


def test_secrets_are_taken_out_of_all_that_was_said() -> None:
    said = several(
        fact("model_not_chosen", "of sk-1", models=2), fact("answers_short", **CAME, finish_reasons={"sk-1": 2}), "sk-1 is no key"
    )
    clean = reworded(
        fact("key_missing", said, said="what is sk-1?", why=None, took_s=[0.1]), lambda text: text.replace("sk-1", "***")
    )
    assert "sk-1" not in str(clean)
    assert reworded(clean, lambda text: text) == clean
    assert isinstance(clean, Fact)
    assert clean.figures == {"said": "what is ***?", "why": None, "took_s": [0.1]}

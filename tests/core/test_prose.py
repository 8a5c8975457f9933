"""Every code has its sentence, and no sentence is needed to know what was found."""

from typing import get_args

import msgspec
import pytest

from core import prose
from core.facts import Code, Fact, Figure, Said, as_data, fact, parts, says, several

REACH = fact("out_of_reach", at_most_frac=0.403, target=0.95)
ERRORS: dict[str, Figure] = {"errors": 2, "planned": 100, "ended": 60, "max_error_frac": 0.01, "endings": {"http": 2}}
CUT = fact("cut_off", sent=20, good=17, misses=1, open=2)
GONE: dict[str, Figure] = {"said": "HTTP 502", "endings": {"http": 12}}
CHECK = "Check the server, then run again; finished steps are kept"
BROKEN = fact("ended_in_errors", errors=32, ended=52, said=None, endings={"truncated": 30, "http": 2})
MAX_DURATION = fact("max_duration", limit_s=60.0)
LONGER = {"measure_s": 310.0, "asked_s": 40.0}
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
        "fails at 2.00 requests/s, whether a lower rate holds is not known",
    ),
    (
        fact("not_known_below", fail_rps=12.4, short_rps=11.3),
        "fails at 12.4 requests/s, whether a lower rate holds is not known; 11.3 requests/s passed one short step, no more",
    ),
    (fact("no_rate_judged", short_rps=None), "no rate was judged"),
    (
        fact("no_rate_judged", short_rps=11.3),
        "no rate was judged by all repeats; 11.3 requests/s passed one short step, no more",
    ),
    (fact("errors_at", BROKEN, rate_rps=4.0), "at 4.00 requests/s 32 of 52 requests ended in errors (truncated 30, http 2)"),
    (
        fact("nothing_served", BROKEN, rate_rps=0.03125),
        "No answer: already at 0.0312 requests/s 32 of 52 requests ended in errors (truncated 30, http 2). "
        "Check the server, then run again",
    ),
    (fact("on_top", "holds at 4 requests/s", others_rps=3.02), "holds at 4 requests/s, on top of 3.02 requests/s of others"),
    (
        fact("on_top", "holds at 4 requests/s", others_rps=None),
        "holds at 4 requests/s, on top of what others ask for, which the server does not tell",
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
        "The checks are not complete: stopped: --max-duration 60 s is over",
    ),
    (fact("stopped_before_answer"), "Stopped before the answer; what was finished is kept"),
    (fact("limit_reached", MAX_DURATION), "No answer, stopped: --max-duration 60 s is over; finished steps are kept"),
    (
        fact("max_in_flight", in_flight=13, limit=12),
        "stopped: 13 requests in flight, --max-in-flight allows 12",
    ),
    (MAX_DURATION, "stopped: --max-duration 60 s is over"),
    (
        fact("backed_off_held", fact("others_preempted")),
        "backed off for the sake of others: the server preempts requests again and again",
    ),
    (fact("server_unusable", fact("server_lost")), f"No answer: {prose.text(fact('server_lost'))}. {CHECK}"),
    (
        fact("void_twice", fact("server_restarted"), rate_rps=4.0),
        "No answer: a repeat at 4.00 requests/s did not count twice in a row: the server restarted during the repeat. "
        "Fix that, then run again; finished steps are kept",
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
        "The load generator has said nothing for 20 s (stopped, or starved of CPU?) and was ended; run again",
    ),
    (fact("client_stuck", within_s=5.0), "The load generator did not stop within 5 s and was ended; run again"),
    (fact("client_gone"), "The load generator ended before the run did, so nothing is being sent any more; run again"),
    (
        fact("between_failed", exit_code=7, within_s=600.0),
        "The command given with --between ended with exit code 7; see to it and run again",
    ),
    (
        fact("between_failed", exit_code=None, within_s=600.0),
        "The command given with --between did not end within 600 s; see to it and run again",
    ),
    (
        fact("between_not_ready", within_s=600.0, missing="health"),
        "The server is not ready 600 s after the command given with --between: its /health does not answer",
    ),
    (
        fact("between_not_ready", within_s=600.0, missing="metrics"),
        "The server is not ready 600 s after the command given with --between: its metrics give no reading",
    ),
    (
        fact("own_error", what="KeyError: 'x'"),
        "The run broke off through an error of kneescope itself: KeyError: 'x'",
    ),
    (
        fact("unfinished"),
        "The run ended before its answer, and without a word: the program or the machine was ended",
    ),
    (fact("still_going"), "The run is still going: this is how it stands so far"),
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
        "A repeat at 12.4 requests/s does not count and is done again: the server restarted during the repeat",
    ),
    (
        fact("warmup_again", fact("warmup_short", warmup_s=1.0, needed_s=3.4), rate_rps=4.0),
        "A repeat at 4.00 requests/s is done again with a longer warm-up: "
        "the warm-up of 1 s was too short: requests as long as these need 3.4 s",
    ),
    (fact("rate_next", rate_rps=5.0, at_limit=False), "5.00 requests/s next, as soon as what is open has ended"),
    (fact("rate_next", rate_rps=6.0, at_limit=True), "6.00 requests/s next, the highest that --max-rps allows"),
    (fact("rate_stays", rate_rps=6.0, at_limit=True), "The rate stays at 6.00 requests/s, the highest that --max-rps allows"),
    (fact("rate_stays", rate_rps=5.0, at_limit=False), "The rate stays at 5.00 requests/s, as soon as what is open has ended"),
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
        "because 100 requests are needed at a target of 95 %, at 0.32 a second; "
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
        fact("time_longer", total_s=900.0),
        "This takes longer than announced: about 15 min in all, for enough requests",
    ),
    (fact("until_stopped"), "until it is stopped"),
    (fact("time_unknown"), "not known"),
    (
        fact("window_too_few", requests=145.0, needed=500.0, target=0.99),
        "the time that was set holds about 145 requests a repeat, where a target of 99 % asks for 500",
    ),
    (
        FOR_REQUESTS,
        "each repeat measures 5 min 10 s instead of 40 s, because 100 requests are needed at a target of 95 %, at 0.32 a second",
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
    (fact("end_awaited", within_s=120.0), "Waiting for the end of a single request (at most 120 s, --drain)"),
    (
        fact("readings_slow", took_s=1.0, every_s=5.0),
        "A reading of the server's metrics takes 1 s: they are read only every 5 s, so as not to be a load of their own",
    ),
    (
        fact("readings_stopped", within_s=3.0),
        "The server's metrics gave no new reading within 3 s, so whether it is idle again is not known",
    ),
    (
        fact("not_settled", requests=3.0, after_s=15.0),
        "The server still has 3 requests 15 s after ours ended: the next repeat starts on that",
    ),
    (
        fact("not_settled", requests=1.0, after_s=15.0),
        "The server still has 1 request 15 s after ours ended: the next repeat starts on that",
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
        "There is no diagnosis, through an error of kneescope itself (KeyError: 'x'); the answer stands",
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
        "The server was asked to reset its prefix cache and does not tell whether it did (vLLM tells since 0.26)",
    ),
]

SENTENCES: list[tuple[Fact, str]] = [
    (fact("nothing_to_judge"), "no request was planned in the window"),
    (fact("all_decided"), "every measured request is decided"),
    (fact("segment_decided"), "every request is decided"),
    (fact("segments_judged"), "every segment is judged"),
    (REACH, "at most 41 % can still meet the limits (target 95 %)"),
    (
        fact("within_reach", at_least_frac=0.99, planned=100, target=0.95),
        "at least 99.0 % of 100 met the limits, target 95 %",
    ),
    (fact("too_many_errors", **ERRORS, said=None), "2 of 100 requests ended in errors (2 %, at most 1 %): http 2"),
    (
        fact("too_many_errors", **ERRORS, said="HTTP 503: no"),
        "2 of 100 requests ended in errors (2 %, at most 1 %): http 2 (HTTP 503: no)",
    ),
    (
        fact("every_request_failed", **ERRORS, said="HTTP 503: no"),
        "every request failed: HTTP 503: no (60 of 60 that ended, 2 of the window's 100 so far; at most 1 % may)",
    ),
    (
        fact("every_request_failed", **ERRORS, said=None),
        "every request failed: http 2 (60 of 60 that ended, 2 of the window's 100 so far; at most 1 % may)",
    ),
    (fact("ended_in_errors", errors=4, ended=7, said=None, endings={"http": 4}), "4 of 7 requests ended in errors (http 4)"),
    (
        fact("ended_in_errors", errors=1, ended=1, said="HTTP 503: no", endings={"http": 1}),
        "1 of 1 request ended in errors (HTTP 503: no)",
    ),
    (
        fact("overloaded_in_warmup", misses=22, planned=42),
        "overloaded already in the warm-up: 22 of the 42 requests of its second half can no longer meet the limits",
    ),
    (fact("still_open", open=1, drain_s=120.0, after="window"), "1 request still open 120 s after the window"),
    (fact("still_open", open=3, drain_s=120.0, after="ramp"), "3 requests still open 120 s after the ramp"),
    (fact("still_open", open=3, drain_s=30.0, after="segment"), "3 requests still open 30 s after the segment"),
    (fact("load_ended_early"), "the load ended before every request was decided"),
    (fact("attainment", attained_frac=0.9496, planned=1000, target=0.95), "attainment 94.96 % of 1000, target 95 %"),
    (
        fact("attainment", fact("still_open", open=10, drain_s=68.0, after="window"), attained_frac=0.9, planned=100, target=0.95),
        "attainment 90.0 % of 100, target 95 % (10 requests still open 68 s after the window, counted as missed)",
    ),
    (
        fact("queue_rising", fact("attainment", attained_frac=1.0, planned=200, target=0.95)),
        "queue rising: requests waited longer and longer, although attainment 100.0 % of 200, target 95 %",
    ),
    (
        fact("warmup_short", warmup_s=1.0, needed_s=3.42),
        "the warm-up of 1 s was too short: requests as long as these need 3.4 s",
    ),
    (fact("undecided"), "stopped before it was decided"),
    (
        fact("ramp_hint", fact("rate_fails", REACH, rate_rps=2.0)),
        "a ramp only says where to look; 2 requests/s: at most 41 % can still meet the limits (target 95 %)",
    ),
    (fact("rate_fails", REACH, rate_rps=24.69), "24.69 requests/s: at most 41 % can still meet the limits (target 95 %)"),
    (fact("ramp_failed", REACH, rate_rps=24.69), "at 24.7 requests/s at most 41 % can still meet the limits (target 95 %)"),
    (fact("no_rate_failed"), "no rate of the ramp failed"),
    (
        fact("not_keeping_up", begun_rps=10.04, waiting=1200),
        "the server does not keep up, it began 10 requests/s at most, and 1200 requests wait",
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
        "held 4.00 requests/s (1 of 2 segments passed, the lowest attainment at most 97 %; "
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
        "backed off from 4.00 requests/s for the sake of others: the server preempts requests again and again",
    ),
    (fact("others_wait", waiting=1, limit=4), "1 request waiting at the server, --max-waiting allows 4"),
    (fact("others_preempted"), "the server preempts requests again and again"),
    (fact("errors_in_a_row", errors=3, within_s=60.0), "3 requests ended in errors within 60 s"),
    (
        fact("client_late", late_p99_s=0.39, limit_s=0.16),
        "the client, not the server: one send in a hundred was late by 390 ms or more, 160 ms is the limit; "
        "give the client more CPU",
    ),
    (
        fact("client_late_once", late_max_s=1.5, ttft_limit_s=0.8),
        "the client, not the server: a send was late by 1.5 s, more than the TTFT limit itself; give the client more CPU",
    ),
    (
        fact("client_stalled", limit_s=0.16, over=20, reports=40, worst_s=0.3),
        "the client, not the server: it stalled for more than 160 ms in 20 of 40 reports (300 ms at worst); "
        "give the client more CPU",
    ),
    (fact("client_unsent", requests=1), "the client, not the server: 1 planned request could not be sent"),
    (fact("client_failed", requests=2, said=None), "the client, not the server: 2 requests failed on this machine"),
    (
        fact("client_failed", requests=1, said="Too many open files"),
        "the client, not the server: 1 request failed on this machine (Too many open files)",
    ),
    (
        fact("too_few_requests", planned=12, target=0.95),
        "no miss is allowed: the window has only 12 requests, and a target of 95 % lets one in 20 miss; measure longer",
    ),
    (
        fact("refusals", requests=2, said="HTTP 401 Unauthorized: no"),
        "2 requests ended in a refusal that no load causes (HTTP 401 Unauthorized: no)",
    ),
    (
        fact("warm_prompts", hit_frac=0.125, limit_frac=0.01),
        "prompts were not cold: 12.5 % of their tokens came from the prefix cache, 1 % is the limit",
    ),
    (
        fact("short_answers", tokens_mean=40.0, asked_mean=256.0, finish_reasons={"stop": 2, "length": 1}),
        "answers were 40 tokens long on average, 256 were asked for; shorter ones flatter the server "
        "(finish reasons: stop 2, length 1)",
    ),
    (
        fact("long_answers", tokens_mean=269.0, asked_mean=256.0),
        "answers were 269 tokens long on average, 256 were asked for; longer ones make the server look slow",
    ),
    (
        fact("answer_outran", tokens=300, asked=21),
        "answers got longer than asked: one had 300 tokens when it was cut off, 21 were asked for; "
        "longer ones make the server look slow",
    ),
    (
        fact("prompt_length_off", tokens_mean=600.0, asked_mean=512.0),
        "prompts were 600 tokens long on average, 512 were asked for",
    ),
    (fact("server_restarted"), "the server restarted during the repeat"),
    (fact("others_took_part", others=19.6, ours=100), "others used the server: at least 20 requests beside our 100"),
    (
        fact("tokens_in_clumps", clumped=5, answers=5),
        "tokens arrive in clumps (5 of 5 answers), so TPOT cannot be judged: a proxy or a busy API process holds them back",
    ),
    (fact("tpot_undecidable"), "TPOT is the only limit, and no answer had tokens after its first event to judge it by"),
    (
        fact("nothing_planned", measure_s=40.0, rate_rps=0.01),
        "no request was planned in the window (40 s at 0.01 requests/s): measure longer or faster",
    ),
    (
        fact("server_frozen", silent_s=10.0),
        "the server accepts requests but has produced nothing for 10 s; "
        "it is frozen or its engine is dead, which is no capacity limit",
    ),
    (fact("server_lost"), "the server was lost: connections break and /health does not answer"),
    (fact("server_away", said="HTTP 502", seen="lost"), "the server was away: HTTP 502; its /health does not answer either"),
    (fact("no_miss_allowed", planned=1), "no miss is allowed: of 1 request, one slow one fails this step"),
    (
        fact("few_requests", planned=20, target=0.95, needed=100),
        "this step saw only 20 requests; attainment moves in steps of 5 %, at a target of 95 % plan at least 100",
    ),
    (
        fact("window_short", measure_s=4.0, e2e_mean_s=1.0, durations=5),
        "the step (4 s) is shorter than 5 mean request durations (1 s each): repeats will scatter, a pass is optimistic",
    ),
    (fact("by_one_request", good=95, planned=100), "passed by one request"),
    (
        fact("left_open", open=2, planned=101),
        "2 of 101 requests had not ended when the pass was certain: p95 and p99 leave them out",
    ),
    (fact("sends_late", late_p99_s=0.09), "sends were late by 90 ms (p99): latencies hold that much of the client's own"),
    (
        fact("loop_stalled", lag_max_s=0.3),
        "the client stalled for 300 ms: what arrived meanwhile looks that much slower than it was",
    ),
    (fact("few_values", answers=20, latency=None), "p99 is over only 20 answers, so hardly more than the slowest"),
    (
        fact("few_values", answers=5, latency="TPOT"),
        "TPOT: p95 and p99 are over only 5 answers, so hardly more than the slowest",
    ),
    (fact("no_success", planned=40), "none of 40 requests ended well, so there are no latencies"),
    (fact("queue_undecided"), "queue: undecided"),
    (
        fact("lengthened", by_s=5.0),
        "lengthened by 5 s because the queue was undecided; only the queue is judged over the longer time",
    ),
    (
        fact("token_rate_off", by_tokens_rps=7.812, counted_rps=7.4),
        "token rate and request rate do not agree: by its output tokens the server finished 7.81 requests/s, "
        "counted were 7.4; what finished in the window had other lengths than what was sent in it",
    ),
    (fact("no_tpot", without=1, answers=2), "1 of 2 answers had no token after the first event: judged without a TPOT"),
    (
        fact("no_usage", without=1, answers=2),
        "the server sent no usage with 1 of 2 answers: their tokens are counted one per event",
    ),
    (fact("errors_said", times=1, errors=1, said="It broke", other_sentences=0), "1 of 1 error: It broke"),
    (
        fact("errors_said", times=3, errors=5, said="It broke", other_sentences=2),
        "3 of 5 errors: It broke; 2 other sentences beside it",
    ),
    (
        fact("resent", requests=1),
        "1 request went out a second time, on a fresh connection: the server was just closing the kept one",
    ),
    (
        fact("several_processes"),
        "the server's counters jump back and forth: several processes answer there, so their differences are withheld",
    ),
    (
        fact("end_unread"),
        "no reading of the server after the load's end: requests of others or a restart near it would have gone unseen",
    ),
    (
        fact("metrics_unread"),
        "the server's metrics could not be read meanwhile: a restart, prefix hits or other traffic would have gone unseen",
    ),
    (
        fact("repeats_scatter", deviation_frac=0.0351, repeats=3),
        "attainment varies by 3.5 points (standard deviation) over 3 repeats: more than 3 points are normal near the knee",
    ),
    (
        fact("one_repeat"),
        "lower end rests on one repeat, which is no evidence by itself: in simulated quick searches it was above the true knee "
        "in 13 % and the bracket held the knee in 81 %; measure longer before you sign",
    ),
    (
        fact("two_repeats"),
        "lower end rests on two repeats: in simulated quick searches it was above the true knee in 5 % and the bracket held the "
        "knee in 84 %",
    ),
    (
        fact("flips_early", repeats=10),
        "all of 10 repeats must pass, which is a rule declared beforehand: in simulation the min over 10 repeats flips 4 to 11 % "
        "below the long-run knee, so the first failing rate is usually below it",
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
        "the time was used up: the ends are a factor 2 apart, not 1.42",
    ),
    (fact("time_up_no_clear_fail"), "the time was used up before a rate failed for sure"),
    (fact("time_up_no_pass"), "the time was used up before a rate passed"),
    (fact("time_up_not_confirmed", repeats=1), "the time was used up before a rate passed its repeat"),
    (fact("time_up_not_confirmed", repeats=3), "the time was used up before a rate passed all 3 repeats"),
    (fact("time_up_too_few"), "the time of this run holds too few requests to judge a lower rate; a longer --budget does"),
    (fact("time_up_limit"), "the time was used up that --max-duration allows: the next step would not have ended in it"),
    (
        fact("misses_not_of_load", low_rps=2.0, low_frac=0.07, high_rps=4.0, high_frac=0.068),
        "misses do not fall with the rate: 7 % at 4.00 requests/s, 7 % at 2.00 requests/s; "
        "the load does not make them, so no lower rate was tried",
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
        fact("was_away", away_s=20.0, said="HTTP 502"),
        "the server was away for 20 s (HTTP 502): the search was started anew, and nothing that was measured before is part of "
        "the answer",
    ),
    *ANSWERS,
    *MEANWHILE,
    (
        Fact(code="several", of=(REACH, "and more")),
        "at most 41 % can still meet the limits (target 95 %); and more",
    ),
]


@pytest.mark.parametrize(("found", "sentence"), SENTENCES, ids=[f"{n}-{found.code}" for n, (found, _) in enumerate(SENTENCES)])
def test_a_fact_in_words(found: Fact, sentence: str) -> None:
    assert prose.text(found) == sentence


def test_every_code_has_its_sentence_and_its_test() -> None:
    assert set(prose.SENTENCES) == set(get_args(Code)) == {found.code for found, _ in SENTENCES}


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


def test_several_facts_stand_beside_each_other() -> None:
    one, two, three = fact("undecided"), fact("server_lost"), fact("no_rate_failed")
    assert several(one) == one
    assert several(several(one, two), three) == Fact(code="several", of=(one, two, three))
    assert says(several(one, two), "server_lost")
    assert list(parts(fact("stopped", several(one, two))))[2:] == [one, two]
    with pytest.raises(ValueError, match="nothing"):
        several()

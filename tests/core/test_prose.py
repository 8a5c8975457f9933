"""Every code has its sentence, and no sentence is needed to know what was found."""

from types import ModuleType
from typing import get_args

import msgspec
import pytest

from core import prose
from core.facts import Code, Fact, Figure, Said, as_data, fact, parts, says, several

REACH = fact("out_of_reach", at_most_frac=0.403, target=0.95)
ERRORS: dict[str, Figure] = {"errors": 2, "planned": 100, "ended": 60, "max_error_frac": 0.01, "endings": {"http": 2}}
CUT = fact("cut_off", sent=20, good=17, misses=1, open=2)
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
LOSS: dict[str, Figure] = {"rate_rps": 8.33, "load_frac": 0.737, "holds": True}
SEEN = fact("kv_seen", kv_usage_max_frac=0.4, preemptions=0.0)

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
    (fact("ramp_failed", REACH, rate_rps=24.69), "at 24.7 requests/s at most 41 % can still meet the limits (target 95 %)"),
    (fact("no_rate_failed"), "no rate of the ramp failed"),
    (
        fact("not_keeping_up", begun_rps=10.04, waiting=1200),
        "the server does not keep up, it began 10.0 requests/s at most, and 1,200 requests wait",
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
        "backed off from 4.00 requests/s for the sake of others: the server preempts requests again and again",
    ),
    (fact("others_wait", waiting=1, limit=4), "1 request waiting at the server, --max-waiting allows 4"),
    (fact("others_preempted"), "the server preempts requests again and again"),
    (fact("errors_in_a_row", errors=3, within_s=60.0), "3 requests ended in errors within 1 min"),
    (
        fact("client_late", late_p99_s=0.39, limit_s=0.16),
        "the client, not the server: one send in a hundred was late by 390 ms or more, 160 ms is the limit; "
        "give the client more CPU",
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
        "no request was planned in the window (40 s at 0.0100 requests/s): measure longer or faster",
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
        "the step (4 s) is shorter than 5 mean request durations (1.00 s each): repeats will scatter, a pass is optimistic",
    ),
    (fact("by_one_request", good=95, planned=100), "passed by one request"),
    (
        fact("left_open", open=2, planned=101),
        "2 of 101 requests had not ended when the pass was certain: p95 and p99 leave them out",
    ),
    (fact("sends_late", late_p99_s=0.09), "sends were late by 90.0 ms (p99): latencies hold that much of the client's own"),
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
        "counted were 7.40; what finished in the window had other lengths than what was sent in it",
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
        "attainment varies by 3.51 points (standard deviation) over 3 repeats: more than 3 points are normal near the knee",
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
        "the time was used up: the ends are a factor 2.00 apart, not 1.42",
    ),
    (fact("time_up_no_clear_fail"), "the time was used up before a rate failed for sure"),
    (fact("time_up_no_pass"), "the time was used up before a rate passed"),
    (fact("time_up_not_confirmed", repeats=1), "the time was used up before a rate passed its repeat"),
    (fact("time_up_not_confirmed", repeats=3), "the time was used up before a rate passed all 3 repeats"),
    (fact("time_up_too_few"), "the time of this run holds too few requests to judge a lower rate; a longer --budget does"),
    (fact("time_up_limit"), "the time was used up that --max-duration allows: the next step would not have ended in it"),
    (
        fact("misses_not_of_load", low_rps=2.0, low_frac=0.07, high_rps=4.0, high_frac=0.068),
        "misses do not fall with the rate: 6.8 % at 4.00 requests/s, 7.0 % at 2.00 requests/s; "
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
    (
        fact("done_again", fact("server_restarted"), rate_rps=12.4),
        "A repeat at 12.4 requests/s does not count and is done again: the server restarted during the repeat",
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
    (fact("poisson_arrivals"), "Poisson arrivals"),
    (fact("even_split"), "an even split over the replicas"),
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
    (fact("prefill_bound"), "long prompts with short answers are bound by prefill, of which this floor says nothing"),
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
    (fact("kv_needed", streams=67.8, used_frac=0.785), "the rate that holds has 67.8 in it at a time, 78 % of the first"),
    (fact("kv_needed", streams=67.8, used_frac=None), "the rate that holds has 67.8 in it at a time"),
    (SEEN, "KV usage rose to 40 %, no preemptions"),
    (fact("kv_seen", kv_usage_max_frac=None, preemptions=1.0), "1 preemption"),
    (fact("kv_seen", kv_usage_max_frac=0.004, preemptions=None), "KV usage rose to 0.4 %"),
    (
        fact("kv_on_paper", paper_tokens=411_987, utilization_frac=0.9, activations_bytes=2e9),
        "The server does not tell how much its KV cache holds; on paper it is 411,987 tokens (90 % of the memory less weights and "
        "2.00 GB a device), and fewer for a mixture of experts, of which all lie in memory though a token reads only some",
    ),
    (
        fact("kv_told", told_tokens=64_000, paper_tokens=411_987),
        "The server's own figure of 64,000 KV tokens counts; on paper it would be 411,987",
    ),
    (
        fact("kv_not_full_length"),
        "More streams than fit at full length are in the server at once: most are not at full length yet, or wait",
    ),
    (fact("memory_binds", SEEN, rate_rps=11.3), "At 11.3 requests/s memory binds: KV usage rose to 40 %, no preemptions"),
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
    assert prose.sentence(fact("undecided")) == "stopped before it was decided."
    assert prose.sentence("Somebody said so") == "Somebody said so"
    assert prose.sentence(several(fact("undecided"), fact("server_lost"))).count(".") == 2


def test_the_marks_of_the_headroom_have_short_names() -> None:
    names = {found.code: prose.mark_label(found) for found, _ in SENTENCES if found.code.startswith("mark_")}
    assert names == {
        "mark_peak": "peak",
        "mark_lost": "1 lost",
        "mark_rollout": "2 out",
        "mark_growth": "growth 10 %/min, 1 min 30 s",
        "mark_burst": "burstiness 0.1",
        "mark_burst_unknown": "burstiness 0.25",
    }


def test_several_facts_stand_beside_each_other() -> None:
    one, two, three = fact("undecided"), fact("server_lost"), fact("no_rate_failed")
    assert several(one) == one
    assert several(several(one, two), three) == Fact(code="several", of=(one, two, three))
    assert says(several(one, two), "server_lost")
    assert list(parts(fact("stopped", several(one, two))))[2:] == [one, two]
    with pytest.raises(ValueError, match="nothing"):
        several()

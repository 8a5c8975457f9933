"""What happens while a run goes on: the lines of its events."""

from core.facts import Code
from core.prose.figures import Figures, Sentence
from core.prose.voids import AWAY, words
from core.units import as_set, count, duration, latency, long_duration, number, plain, rate_number, rate_text

_RESET = "POST /reset_prefix_cache"


def _step_judged(f: Figures) -> str:
    what = "ramp" if f.word("phase") == "ramp" else f"step {f.n('step')}"
    return f"{what}: {f.word('verdict')} at {rate_text(f['rate_rps'])}: {f.of[0]}"


def _rate_next(f: Figures) -> str:
    return f"{rate_text(f['rate_rps'])} next, {_changed(f)}"


def _rate_stays(f: Figures) -> str:
    return f"The rate stays at {rate_text(f['rate_rps'])}, {_changed(f)}"


def _changed(f: Figures) -> str:
    return "the highest that --max-rps allows" if f["at_limit"] else "as soon as the open requests have ended"


def _time_expected(f: Figures) -> str:
    total_s, why = f["total_s"], "; ".join(f.of)
    if n := f.n("rates"):
        about = f"about {long_duration(total_s)} for {'a list of rates' if n > 1 else 'one rate'}"
        return f"{about}. {why[:1].upper()}{why[1:]}" if why else about
    about = f"about {long_duration(total_s)} in {f.word('mode')} mode{', careful' if f['careful'] else ''}"
    if total_s <= f["budget_s"]:
        return about
    return f"{about}. That is longer than the {long_duration(f['budget_s'])} set for it{f': {why}' if why else ''}"


def _ramp_over(f: Figures) -> str:
    return f"the ramp {'ended with a fail' if f['failed'] else 'ended'} at {rate_text(f['rate_rps'])}"


def _window_too_few(f: Figures) -> str:
    needed = f"a target of {plain(f['target'])} needs {count(round(f['needed']))}"
    return f"the time that was set allows about {count(round(f['requests']), 'request')} per repeat, and {needed}"


def _longer_window(f: Figures, cause: str) -> str:
    return f"each repeat measures {duration(f['measure_s'])} instead of {duration(f['asked_s'])}, because {cause}"


def _window_for_requests(f: Figures) -> str:
    needed = f"{count(round(f['requests']), 'request')} are needed at a target of {plain(f['target'])}"
    return _longer_window(f, f"{needed}, at {rate_number(f['rate_rps'])} a second")


def _cache_not_offered(f: Figures) -> str:
    how = "vLLM offers it when started with VLLM_SERVER_DEV_MODE=1"
    offers = f"The server offers no reset of its prefix cache ({_RESET} {f.word('said')}; {how})"
    return f"{offers}. The run goes on without: prompts are cold anyway"


def _idle_unknown(f: Figures) -> str:
    took_s = f.known("e2e_s")
    single = f"took {latency(took_s)} (idle {latency(f['idle_e2e_s'])})" if took_s is not None else "was not answered"
    if took_s is None and (f.word("said") or f.counts("endings")):
        single = f"failed ({words(f)})"
    return f"Whether the server is idle again is not known: its metrics do not show it, and a single request {single}"


SENTENCES: dict[Code, Sentence] = {
    "step_judged": _step_judged,
    "at_rate": lambda f: f"{rate_text(f['rate_rps'])}: {f.of[0]}",
    "check_said": lambda f: f"{f.word('check')}: {f.of[0]}",
    "checks_kept": lambda f: f"These settings were checked {duration(f['age_s'])} before this run; the checks are not made again",
    "done_again": lambda f: f"A repeat at {rate_text(f['rate_rps'])} does not count and is run again: {f.of[0]}",
    "warmup_again": lambda f: f"A repeat at {rate_text(f['rate_rps'])} is run again with a longer warm-up: {f.of[0]}",
    "rate_next": _rate_next,
    "rate_stays": _rate_stays,
    "time_announced": lambda f: f"Expected time: {f.of[0]}",
    "time_expected": _time_expected,
    "stays_wide": lambda f: (
        f"The bracket will stay wide: about a factor of {number(f['factor'])} when the time is up, not "
        f"{as_set(f['wanted_factor'])}; a longer --budget narrows it"
    ),
    "time_longer": lambda f: f"This takes longer than announced: about {long_duration(f['total_s'])} in all, for enough requests",
    "left_ramp_higher": lambda f: f"the ramp goes beyond the {count(f.n('rates'), 'rate')} that were assumed",
    "left_ramp_over": _ramp_over,
    "left_failed": lambda f: f"the step at {rate_text(f['rate_rps'])} failed early",
    "left_passed": lambda f: f"the step at {rate_text(f['rate_rps'])} passed, and less is left to try",
    "left_ended": lambda f: f"the step at {rate_text(f['rate_rps'])} was ended before its verdict",
    "left_again": lambda f: f"a repeat at {rate_text(f['rate_rps'])} does not count and is run again",
    "left_warmup_again": lambda f: f"a repeat at {rate_text(f['rate_rps'])} is run again with a longer warm-up",
    "left_repeat_over": lambda f: f"a repeat at {rate_text(f['rate_rps'])} ended earlier or later than assumed",
    "left_disagree": lambda f: f"the repeats at {rate_text(f['rate_rps'])} disagree, so one more is run",
    "left_slower": lambda f: f"requests take {duration(f['e2e_s'])} on average, where {duration(f['assumed_s'])} were assumed",
    "left_more_steps": lambda f: f"after the step at {rate_text(f['rate_rps'])} more is left to try",
    "left_requests": lambda f: "windows must be longer to hold enough requests",
    "left_waiting": lambda f: "the last requests of the window take longer than assumed",
    "left_queue": lambda f: "the window goes on because its queue is undecided",
    "left_overdue": lambda f: f"the run is {duration(round(f['over_s']))} past its expected end",
    "left_anew": lambda f: "the server was away, and the search starts again",
    "until_stopped": lambda f: "until it is stopped",
    "time_unknown": lambda f: "not known",
    "window_too_few": _window_too_few,
    "window_for_requests": _window_for_requests,
    "window_for_durations": lambda f: _longer_window(f, f"it must hold five mean request durations of {duration(f['e2e_s'])}"),
    "warmup_long": lambda f: (
        f"each repeat warms up for {long_duration(f['warmup_s'])}, because a server with long answers takes that long to settle"
    ),
    "first_token_awaited": lambda f: (
        f"Waiting for the first token of a single request (at most {duration(f['within_s'])}): a server may still be warming up"
    ),
    "end_awaited": lambda f: f"Waiting for the end of a single request (at most {duration(f['within_s'])}, --drain)",
    "readings_slow": lambda f: (
        f"Reading the server's metrics takes {duration(f['took_s'])}: they are read only every {duration(f['every_s'])}, "
        "so that this adds no load"
    ),
    "readings_stopped": lambda f: (
        f"The server's metrics gave no new reading within {duration(f['within_s'])}, so whether it is idle again is not known"
    ),
    "not_settled": lambda f: (
        f"The server still has {count(round(f['requests']), 'request')} {duration(f['after_s'])} after ours ended: "
        "the next repeat starts on top of them"
    ),
    "asked_again": lambda f: f"A single request without load failed too ({words(f)}); asking again",
    "away_awaited": lambda f: f"The server is away: {words(f)}. Waiting for it, at most {duration(f['within_s'])}",
    "still_away": lambda f: f"The server is still away: {words(f)}. Waiting for it, at most {duration(f['left_s'])} more",
    "back_already": lambda f: f"The server is back: it was away ({words(f)}; {AWAY[f.word('seen') or '']})",
    "back_after": lambda f: f"The server is back after {duration(f['away_s'])}",
    "no_diagnosis": lambda f: (
        f"There is no diagnosis because of an error in kneescope itself ({f.word('what')}); the answer stands"
    ),
    "cache_unreached": lambda f: f"The prefix cache could not be reset: the server {f.word('said')}",
    "cache_not_offered": _cache_not_offered,
    "cache_not_allowed": lambda f: f"The server does not allow a reset of its prefix cache ({_RESET} {f.word('said')})",
    "cache_not_reset": lambda f: f"The prefix cache could not be reset: {_RESET} {f.word('said')}",
    "cache_held": lambda f: "The server says that its prefix cache was not reset: some request still holds a part of it",
    "cache_unchecked": lambda f: (
        "The server was asked to reset its prefix cache and does not say whether it did (vLLM does since 0.26)"
    ),
    "idle_unknown": _idle_unknown,
    "work_unknown": lambda f: (
        f"The server's counters still rise {duration(f['after_s'])} after our requests ended, "
        "and it does not report how many requests it has: the next repeat starts on top of them"
    ),
    "rows_missing": lambda f: (
        f"{duration(f['after_s'])} after ours ended the server's metrics still lack an engine that they showed before, "
        "so whether it is idle again is not known"
    ),
}

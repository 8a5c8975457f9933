"""What is to be known about a knee."""

from core.facts import Code
from core.prose.figures import Figures, Sentence
from core.prose.voids import words
from core.units import as_set, change, clock, duration, number, percent, rate_number, rate_text, time_of_day

_ONE_REPEAT = (
    "lower end rests on one repeat, which is no evidence by itself: in simulated quick searches it was above the true knee "
    "in 13 % and the bracket held the knee in 81 %; measure longer before you sign off on it"
)
_TWO_REPEATS = (
    "lower end rests on two repeats: in simulated quick searches it was above the true knee in 5 % and the bracket held the "
    "knee in 84 %"
)
"""Both from `python -m tests.benchmarks.knee_search -n 60 --mode quick --mode quick-careful`: five replicas, 300 searches."""
_FLIPS_EARLY = (
    "repeats must pass, a rule declared beforehand: in simulation the min over 10 repeats flips 4 to 11 % "
    "below the long-run knee, so the first failing rate is usually below it"
)
_USED_UP = "time ran out"


def _not_confirmed(f: Figures) -> str:
    n = f.n("repeats")
    return f"{_USED_UP} before a rate passed {'its repeat' if n == 1 else f'all {n} repeats'}"


def _misses_not_of_load(f: Figures) -> str:
    high, low = (f"{percent(f[f'{end}_frac'], 2)} at {rate_text(f[f'{end}_rps'])}" for end in ("high", "low"))
    return f"misses do not fall with the rate: {high}, {low}; load does not cause them, so no lower rate was tried"


def _was_away(f: Figures) -> str:
    anew = "the search started over, and nothing measured before is part of the answer"
    return f"the server was away for {duration(f['away_s'])} ({words(f)}): {anew}"


def _steps_ended(f: Figures) -> str:
    *others, last = f.numbers("rates_rps")
    if not others:
        return f"the step at {rate_text(last)} was ended by the user"
    return f"the steps at {', '.join(map(rate_number, others))} and {rate_text(last)} were ended by the user"


def _changed(how: str, by: str, f: Figures) -> str:
    moments = f"{time_of_day(f['from_utc_s'])} and {time_of_day(f['to_utc_s'])} UTC" if f.known("from_utc_s") is not None else ""
    when = moments or f"{clock(f['from_s'])} and {clock(f['to_s'])} of the run"
    before, now = f["before_rps"], f["rate_rps"]
    at = f"at {rate_text(now)} both times" if before == now else f"at {rate_number(before)} and then at {rate_text(now)}"
    return f"the server became {how} between {when}: a step takes {by} at the same batch (measured {at})"


def _speed(fracs: list[float]) -> str:
    """How fast it was, in one phase of the run or in several."""
    low, high = fracs
    if round(100 * low) != round(100 * high):
        return f"from {change(low)} to {change(high)}"
    return change(low)


def _ends_apart(f: Figures) -> str:
    ends = [(f[f"{end}_rps"], f.numbers(f"{end}_frac")) for end in ("low", "high") if f.known(f"{end}_rps") is not None]
    told = ", ".join(f"{_speed(fracs)} at {rate_text(rate_rps)}" for rate_rps, fracs in ends)
    rates = ",".join(as_set(rate_rps, 6) for rate_rps, _ in ends)
    what = "the ends of the bracket were" if len(ends) > 1 else "this rate was"
    return (
        f"{what} not measured at one speed of the server (step time at equal batch, against the first repeat: {told}); "
        f"measure again: --rates {rates} (v on the screen)"
    )


SENTENCES: dict[Code, Sentence] = {
    "one_repeat": lambda f: _ONE_REPEAT,
    "two_repeats": lambda f: _TWO_REPEATS,
    "flips_early": lambda f: f"all of {f.n('repeats')} {_FLIPS_EARLY}",
    "not_monotone": lambda f: (
        f"not monotone: a pass at {rate_text(f['pass_rps'])}, above a failing rate; the lower one is the answer"
    ),
    "open_above": lambda f: (
        "open above: rates failed, but too few of their repeats did to say that the knee is below; measure longer for an upper end"
    ),
    "one_failing_step": lambda f: "upper end rests on one failing step",
    "from_ramp": lambda f: "upper end comes from the ramp, a short segment",
    "nothing_between": lambda f: (
        "no rate between the ends is likely enough to pass all repeats or to fail clearly, so none was tried"
    ),
    "time_up_ends_apart": lambda f: (
        f"{_USED_UP}: the ends are a factor of {number(f['factor'])} apart, not {as_set(f['wanted_factor'])}"
    ),
    "time_up_no_clear_fail": lambda f: f"{_USED_UP} before a rate failed for sure",
    "time_up_no_pass": lambda f: f"{_USED_UP} before a rate passed",
    "time_up_not_confirmed": _not_confirmed,
    "time_up_too_few": lambda f: "this run is too short for the requests that a lower rate needs; give a longer --budget",
    "time_up_limit": lambda f: "--max-duration left too little time for the next step",
    "misses_not_of_load": _misses_not_of_load,
    "steps_ended": _steps_ended,
    "restarted_between_repeats": lambda f: f"the server restarted between two repeats at {rate_text(f['rate_rps'])}",
    "restarted_between_steps": lambda f: (
        f"the server restarted between the steps at {rate_text(f['before_rps'])} and {rate_text(f['rate_rps'])}"
    ),
    "server_slower": lambda f: _changed("slower", f"{percent(f['factor'] - 1, 2)} longer", f),
    "server_faster": lambda f: _changed("faster", f"{percent(1 - f['factor'], 2)} less time", f),
    "ends_apart_in_speed": _ends_apart,
    "was_away": _was_away,
    "was_away_held": lambda f: (
        f"the server was away for {duration(f['away_s'])} ({words(f)}): no segment of that time counts, and the rate was held "
        "again from a new warm-up on"
    ),
}

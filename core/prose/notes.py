"""What is to be known about a knee."""

from core.facts import Code
from core.prose.figures import Figures, Sentence
from core.prose.voids import words
from core.units import as_set, duration, number, percent, rate_number, rate_text

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
_MIN_OF_WINDOWS = (
    "in simulation one fails by chance below the long-run knee in 4 of 10 searches, so the first failing rate may be below it; the "
    "ends of the bracket rest on all windows together"
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


SENTENCES: dict[Code, Sentence] = {
    "one_repeat": lambda f: _ONE_REPEAT,
    "two_repeats": lambda f: _TWO_REPEATS,
    "flips_early": lambda f: f"all of {f.n('repeats')} {_FLIPS_EARLY}",
    "min_of_windows": lambda f: f"all of {f.n('repeats')} windows must pass, a rule declared beforehand: {_MIN_OF_WINDOWS}",
    "not_monotone": lambda f: (
        f"not monotone: a pass at {rate_text(f['pass_rps'])}, above a failing rate; the lower one is the answer"
    ),
    "not_monotone_pass": lambda f: (
        f"not monotone: {rate_text(f['fail_rps'])} failed, below the pass at {rate_text(f['pass_rps'])}; by all windows together "
        "the higher rate holds, and the lower one was unlucky"
    ),
    "thin_margin": lambda f: (
        f"thin margin: all windows at {rate_text(f['pass_rps'])} passed, but by all of them together the knee may be just below"
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
    "was_away": _was_away,
    "was_away_held": lambda f: (
        f"the server was away for {duration(f['away_s'])} ({words(f)}): no segment of that time counts, and the rate was held "
        "again from a new warm-up on"
    ),
}

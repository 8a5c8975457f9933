"""What is to be known about a knee."""

from core.facts import Code
from core.prose.figures import Figures, Sentence
from core.prose.voids import replica_names, words
from core.units import (
    as_set,
    at_most,
    beside,
    change,
    clock,
    count,
    duration,
    latency,
    number,
    percent,
    plain,
    rate_number,
    rate_text,
    span,
    time_of_day,
)

_ONE_REPEAT = (
    "lower end rests on one repeat, which is no evidence by itself: in simulated quick searches it was above the true knee "
    "in 8 % and the bracket held the knee in 86 %; measure longer before you sign off on it"
)
_TWO_REPEATS = (
    "lower end rests on two repeats, which must both pass: in simulated quick searches it was above the true knee in 5 % and "
    "the bracket held the knee in 89 %"
)
"""Both from `python -m tests.benchmarks.knee_search --replicas tests/data/replicas/fresh.json -n 40`, with the two quick modes."""
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


def _when(f: Figures) -> str:
    if f.known("from_utc_s") is not None:
        return f"{time_of_day(f['from_utc_s'])} and {time_of_day(f['to_utc_s'])} UTC"
    return f"{clock(f['from_s'])} and {clock(f['to_s'])} of the run"


def _unlike(how: str, f: Figures) -> str:
    """No batch was of one size, so by how much is not known."""
    before, now = (
        f"{latency(f[step])} at {rate_text(f[rate])}" for step, rate in (("before_step_s", "before_rps"), ("step_s", "rate_rps"))
    )
    return f"the server became {how} between {_when(f)}: a step took {before} and then {now}, and no rate explains that"


def _changed(how: str, by: str, f: Figures) -> str:
    before, now = f["before_rps"], f["rate_rps"]
    at = f"at {rate_text(now)} both times" if before == now else f"at {rate_number(before)} and then at {rate_text(now)}"
    return f"the server became {how} between {_when(f)}: a step takes {by} at the same batch (measured {at})"


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


def _output_drifts(f: Figures) -> str:
    before, now = f["before_rps"], f["rate_rps"]
    where = f"two repeats at {rate_text(now)}" if before == now else f"the repeats at {rate_number(before)} and {rate_text(now)}"
    longer = "longer" if f["to_tokens"] > f["from_tokens"] else "shorter"
    return (
        f"answers became {longer} between {where}: {as_set(f['from_tokens'], 4)} and then {as_set(f['to_tokens'], 4)} tokens on "
        "average, more than by chance, so these rates were not judged with the same work"
    )


def _tokens(ends: list[float]) -> str:
    low, high = map(int, ends)
    return span(low, high, " to ", "token")


def _bucket_fails(f: Figures) -> str:
    prompts, answers = (_tokens(f.numbers(name)) for name in ("input_tokens", "output_tokens"))
    whose = f"prompts of {prompts} and answers of {answers}"
    whose = f"the rarest lengths ({whose})" if f["others"] else whose
    share = at_most(f["attained_frac"], f["target"]) if f["at_most"] else beside(f["attained_frac"], f["target"])
    return (
        f"requests with {whose} miss the target at {rate_text(f['rate_rps'])}: {share} of {count(f.n('n'))} met every limit, not "
        f"{plain(f['target'])}; all requests together pass"
    )


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
    "replicas_changed_between": lambda f: (
        f"replicas came, went or restarted between the repeats at {rate_text(f['before_rps'])} and {rate_text(f['rate_rps'])}: "
        f"{f.n('before')} before, {f.n('after')} after ({replica_names(f)})"
    ),
    "server_slower": lambda f: _changed("slower", f"{percent(f['factor'] - 1, 2)} longer", f),
    "server_faster": lambda f: _changed("faster", f"{percent(1 - f['factor'], 2)} less time", f),
    "server_slower_unlike": lambda f: _unlike("slower", f),
    "server_faster_unlike": lambda f: _unlike("faster", f),
    "ends_apart_in_speed": _ends_apart,
    "was_away": _was_away,
    "bursty_arrivals": lambda f: (
        f"arrivals came in bursts (gamma gaps of CV {as_set(f['arrival_cv'])}): a window tells less than with Poisson arrivals, "
        "for which the accuracy of each mode was counted; use a longer --measure or mode"
    ),
    "was_away_held": lambda f: (
        f"the server was away for {duration(f['away_s'])} ({words(f)}): no segment of that time counts, and the rate was held "
        "again from a new warm-up on"
    ),
    "output_drifts": _output_drifts,
    "bucket_fails": _bucket_fails,
}

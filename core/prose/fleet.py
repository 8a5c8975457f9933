"""What a fleet rests on: marks of the load at peak, assumptions, gates, and what is to be known beside its size."""

import math

from core.facts import Code
from core.prose.figures import Figures, Sentence
from core.units import (
    as_set,
    beside,
    count,
    data_size,
    duration,
    latency,
    length,
    limit,
    money,
    number,
    percent,
    plain,
    rate_text,
)

_GIGA = 1e9

# --- the marks ----------------------------------------------------------------------------------------------------

LABELS: dict[Code, Sentence] = {
    "mark_peak": lambda f: "peak",
    "mark_lost": lambda f: f"{f.n('replicas')} lost",
    "mark_rollout": lambda f: f"{f.n('replicas')} out",
    "mark_growth": lambda f: f"growth {plain(f['growth_per_min_frac'])}/min, {duration(f['scale_out_s'])}",
    "mark_burst": lambda f: f"burstiness {as_set(f['burstiness'])}",
    "mark_burst_unknown": lambda f: f"burstiness {as_set(f['burstiness'])}",
    "mark_burst_measured": lambda f: f"burstiness {as_set(f['burstiness'])}",
    "mark_burst_recorded": lambda f: f"burstiness {as_set(f['burstiness'])}",
}
"""A mark in two or three words, by the code of what it rests on."""


def _mark_peak(f: Figures) -> str:
    most, floor = f"each replica gets at most {rate_text(f['rate_rps'])} at peak", f.known("floor_frac")
    return most if floor is None else f"{most}, where the measured floor is {beside(floor, f['target'], rounded=math.floor)}"


def _without(f: Figures, how: str) -> str:
    return f"with {count(f.n('replicas'), 'replica')} {how} at peak the others still get at most {rate_text(f['rate_rps'])} each"


def _mark_growth(f: Figures) -> str:
    by = f"{plain(f['growth_per_min_frac'])} a minute over {duration(f['scale_out_s'])}, until new replicas are up"
    return f"a peak that grows by {by}, ends {number(f['times'])} times as high; each still gets at most {rate_text(f['rate_rps'])}"


def _mark_burst(f: Figures) -> str:
    how = "a rough estimate, which may be too high: measure it" if f["rough"] else "an estimate"
    return (
        f"with gamma gaps of shape {as_set(f['burstiness'])} (Poisson: 1) {rate_text(f['bursty_rps'])} bring as many requests at "
        f"once as {rate_text(f['rate_rps'])} did, at a mean E2E of {latency(f['e2e_mean_s'])}; {how}"
    )


def _mark_burst_measured(f: Figures) -> str:
    cv = f["arrival_cv"]
    return (
        f"off: it is an estimate for Poisson arrivals, and this run had gamma gaps of CV {as_set(cv)} (shape {as_set(cv**-2, 3)}), "
        "whose cost is measured: it is in the rate that holds"
    )


# --- beside the size ----------------------------------------------------------------------------------------------


def _p90_answers(f: Figures) -> str:
    times = f"{number(f['mean_output_tokens'])}/{number(f['p90_output_tokens'])}"
    how = f"the rate that holds times {times}, as if every answer were as long as the 90th percentile"
    return f"p90 is an estimate, not measured: {how}"


def _each_gets(f: Figures) -> str:
    """The measured floor is cut off rather than rounded, so that it stays true."""
    lost, floor = f.n("lost"), f.known("floor_frac")
    name = f"With {count(lost)} lost" if lost else "With all replicas"
    measured = ""
    if floor is not None:
        measured = f"; measured at {rate_text(f['floor_rps'])}: floor {percent(floor, rounded=math.floor)}"
    load = f"{percent(f['load_frac'], 2)} of what holds{'' if f['holds'] else ': too much'}"
    return f"{name} each gets {rate_text(f['rate_rps'])} at peak, {load}{measured}"


def load_at_peak(frac: float) -> str:
    """The load at peak that is set, and what it leaves: "load at peak 70 % of what holds (30 % spare)"."""
    return f"load at peak {plain(frac)} of what holds ({_spare(frac)})"


def load_brief(frac: float) -> str:
    """The same where there is little room, or where what holds was just named: "load at peak 70 % (30 % spare)"."""
    return f"load at peak {plain(frac)} ({_spare(frac)})"


def _spare(frac: float) -> str:
    return f"{plain(1 - frac)} spare" if frac < 1 else "nothing spare"


def _low_load(f: Figures) -> str:
    cost, usual = f.known("per_hour"), f.known("usual_per_hour")
    if cost is not None and usual is not None:
        money_words = f", {money(cost)} an hour instead of {money(usual)}"
    else:
        money_words = f", {count(f.n('gpus'), 'GPU')} instead of {count(f.n('usual_gpus'))}"
    runs = f"you run {count(f.n('replicas'), 'replica')} instead of {count(f.n('usual_replicas'))} at {plain(f['usual_frac'])}"
    return f"At {plain(f['load_frac'])} of what holds ({_spare(f['load_frac'])}) {runs}{money_words}"


def _low_load_no_peak(f: Figures) -> str:
    return (
        f"{load_brief(f['load_frac'])} takes about {number(f['times'])} times the replicas and the money of "
        f"{plain(f['usual_frac'])}, the default"
    )


def _fleet_cost(f: Figures) -> str:
    parts = [f"{money(f['per_hour'])} an hour"]
    if (peak := f.known("per_million_at_peak")) is not None:
        parts.append(f"{money(peak)} per million output tokens while the peak lasts")
    if (mean := f.known("per_million_at_mean")) is not None:
        parts.append(f"{money(mean)} at the mean rate")
    return f"Cost: {', '.join(parts)}"


def _mean_rate(f: Figures) -> str:
    per_hour = f.known("saved_per_hour")
    saved = "" if per_hour is None else f", {money(per_hour)} an hour"
    return (
        f"The mean rate of {rate_text(f['mean_rps'])} needs {count(f.n('replicas'), 'replica')}: scaling to it would save "
        f"{count(f.n('saved_gpus'), 'GPU')} on average at most ({percent(f['saved_frac'], 2)}{saved})"
    )


# --- what limits one replica: speed -------------------------------------------------------------------------------


def _stream_floor(f: Figures) -> str:
    guess = ", a guess" if f["eta_assumed"] else ""
    share = f"{plain(f['eta_frac'])} of {_bandwidth(f['bandwidth_bytes_per_s'])} GB/s{guess}"
    read = f"{data_size(f['read_bytes'])} read for each token at {share}; TP {f.n('tp')}"
    return f"the TPOT floor is {latency(f['floor_s'])}, about {number(1 / f['floor_s'])} tokens/s for one stream ({read})"


def _faster_than_floor(f: Figures) -> str:
    return f"a single stream has a TPOT of {latency(f['measured_s'])}, less than the floor of {latency(f['floor_s'])}"


def _beats_bandwidth(f: Figures) -> str:
    return (
        f"{_faster_than_floor(f)} and than the full bandwidth allows ({latency(f['fastest_s'])}): the weights, the device or TP "
        "are not as entered, or a step makes several tokens; correct them or leave them out"
    )


def _beats_floor(f: Figures) -> str:
    guessed = "guessed" if f["eta_assumed"] else "entered"
    eta = f"eta was {guessed} too low, it is {percent(f['eta_reached_frac'], 2)} and not {plain(f['eta_frac'])}"
    return f"{_faster_than_floor(f)}: {eta}"


def _lighter(f: Figures) -> str:
    """Fewer bytes to read: quantised weights. An upper bound is cut off."""
    text = f"weights of at most {data_size(f['most_bytes'], math.floor)} in place of {data_size(f['weights_bytes'])}"
    bits, fitting = f.known("weight_bits"), f.known("fitting_bits")
    if bits is None:
        return f"{text} (fewer bits a weight, or a smaller model)"
    if fitting is None:
        return f"{text} (a smaller model)"
    return f"{text} ({as_set(fitting)} bits a weight in place of {as_set(bits)})"


def _device(f: Figures) -> str:
    named = ", ".join(f"{name} has {_bandwidth(each)}" for name, each in f.counts("devices_bytes_per_s").items())
    return f"a device with at least {number(f['least_bytes_per_s'] / _GIGA, math.ceil)} GB/s{f' ({named})' if named else ''}"


def _bandwidth(bytes_per_s: float) -> str:
    return as_set(bytes_per_s / _GIGA)


# --- what limits one replica: memory ------------------------------------------------------------------------------


def _kv_streams(f: Figures) -> str:
    mean = f"{number(f['fits_mean'])} streams of {length(f['mean_tokens'])} (mean)"
    p90 = f"{number(f['fits_p90'])} of {count(round(f['p90_tokens']))} (p90)"
    return f"{count(f.n('capacity_tokens'))} KV tokens hold {mean}, {p90}"


def _kv_needed(f: Figures) -> str:
    used = f.known("used_frac")
    share = "" if used is None else f", {percent(used, 2)} of the former"
    return f"the rate that holds needs {number(f['streams'])} at a time{share}"


def _kv_seen(f: Figures) -> str:
    """At which end it was stands in front, where no sentence around it says that."""
    usage, preempted = f.known("kv_usage_max_frac"), f.known("preemptions")
    parts = [] if usage is None else [f"KV usage rose to {percent(usage, 2)}"]
    if preempted is not None:
        parts.append(count(round(preempted), "preemption") if preempted else "no preemptions")
    at = f"at {rate_text(f['rate_rps'])} " if "rate_rps" in f else ""
    return f"{at}{', '.join(parts)}"


def _kv_fills(f: Figures) -> str:
    """The usage at the passing end, which is not full, never without the failing one, which is."""
    usage, gave_way = f.known("fail_kv_usage_max_frac"), f.known("fail_preemptions")
    parts = [] if usage is None else [f"rises to {percent(usage, 2)}"]
    if gave_way:
        parts.append(f"makes sequences give way ({count(round(gave_way), 'preemption')})")
    there = " and ".join(parts) if parts else "is full"
    return f"KV usage of {percent(f['kv_usage_max_frac'], 2)} there {there} at {rate_text(f['fail_rps'])}"


def _on_paper(f: Figures) -> str:
    taken = f"weights and {data_size(f['activations_bytes'])} a device"
    return (
        f"The server does not say how much its KV cache holds; on paper it is {length(f['paper_tokens'])} "
        f"({plain(f['utilization_frac'])} of the memory less {taken}), and fewer for a mixture of experts, which keeps all experts "
        "in memory though a token reads only some"
    )


def _at(f: Figures) -> str:
    return f"At {rate_text(f['rate_rps'])}"


def _in_brackets(f: Figures) -> str:
    return f" ({f.of[0]})" if f.of else ""


def _speed_binds(f: Figures) -> str:
    times = f.known("margin")
    room = "" if times is None else f", which holds {as_set(times, 2)} times as much"
    return f"{_at(f)} speed binds and not memory{room}{_in_brackets(f)}"


SENTENCES: dict[Code, Sentence] = {
    "mark_peak": _mark_peak,
    "mark_lost": lambda f: _without(f, "lost"),
    "mark_rollout": lambda f: _without(f, "out for a rollout"),
    "mark_growth": _mark_growth,
    "mark_burst": _mark_burst,
    "mark_burst_unknown": lambda f: "it needs the mean E2E latency at the safe rate",
    "mark_burst_measured": _mark_burst_measured,
    "mark_burst_recorded": lambda f: (
        "off: it is an estimate for Poisson arrivals, and this run had those of a recording, whose bursts are in its rates"
    ),
    "poisson_arrivals": lambda f: "Poisson arrivals",
    "recorded_arrivals": lambda f: "arrivals at each replica as in the recording, scaled to its rate",
    "gamma_arrivals": lambda f: f"gaps between the arrivals at each replica of CV {as_set(f['arrival_cv'])}, as measured",
    "fleet_even_split": lambda f: f"an even split (a random one costs at most {percent(f['random_cost_frac'], 1)})",
    "same_lengths": lambda f: "this mix of lengths",
    "fleet_open_above": lambda f: (
        "The bracket is open above: the knee may be higher than every rate that failed, so fewer replicas might do"
    ),
    "p90_answers": _p90_answers,
    "each_gets": _each_gets,
    "fleet_cost": _fleet_cost,
    "low_load_at_peak": _low_load,
    "low_load_no_peak": _low_load_no_peak,
    "mean_rate": _mean_rate,
    "stream_floor": _stream_floor,
    "stream_floor_allows": lambda f: f"{f.of[0]}: a TPOT limit of {limit(f['limit_s'])} is possible",
    "stream_floor_forbids": lambda f: (
        f"{f.of[0]}: a TPOT limit of {limit(f['limit_s'])} is not possible, and no number of replicas changes that"
    ),
    "stream_floor_doubted": lambda f: f"{f.of[0]}: at that share a TPOT limit of {limit(f['limit_s'])} would not be possible",
    "prefill_bound": lambda f: "long prompts with short answers are bound by prefill, about which this floor says nothing",
    "stream_beats_bandwidth": _beats_bandwidth,
    "stream_beats_floor": _beats_floor,
    "stream_measured": lambda f: (
        f"a single stream has a TPOT of {latency(f['measured_s'])}: eta is {percent(f['eta_reached_frac'], 2)}"
    ),
    "help_weights": _lighter,
    "help_tp": lambda f: f"TP {f.n('tp')} (at best {latency(f['floor_s'])}; each layer's all-reduce adds to that)",
    "help_device": _device,
    "help_limit": lambda f: f"a TPOT limit of at least {latency(f['floor_s'], math.ceil)}",
    "kv_streams": _kv_streams,
    "kv_needed": _kv_needed,
    "fleet_kv_seen": _kv_seen,
    "fleet_kv_fills": _kv_fills,
    "kv_on_paper": _on_paper,
    "kv_told": lambda f: (
        f"The server's own figure of {count(f.n('told_tokens'))} KV tokens counts; "
        f"on paper it would be {count(f.n('paper_tokens'))}"
    ),
    "kv_not_full_length": lambda f: (
        "More streams than fit at full length are in the server at once: most are not at full length yet, or wait"
    ),
    "memory_binds": lambda f: f"{_at(f)} memory binds: {f.of[0] if f.of else 'more streams are needed than fit'}",
    "speed_binds": _speed_binds,
    "neither_binds": lambda f: f"{_at(f)} neither memory nor speed was seen to bind{_in_brackets(f)}: no rate failed",
    "answers_as_they_came": lambda f: (
        f"answers as long as those that came ({as_set(f['mean_tokens'], 4)} tokens on average, p90 {as_set(f['p90_tokens'], 4)})"
    ),
    "answer_lengths_unknown": lambda f: (
        "answers that stop as they did while it was measured, at lengths that are not known: nothing is said of long answers, of "
        "memory, or of the cost of a token"
    ),
}

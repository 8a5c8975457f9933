"""What a model of a run says, and why it says nothing."""

from core.facts import Code
from core.prose.figures import Figures, Sentence
from core.units import count, percent, rate_number, rate_text

SAYS = "the model of this run says"


def _interval(f: Figures) -> str:
    return f"{rate_number(f['low_rps'])} to {rate_number(f['high_rps'])} by its own error"


def _explains(f: Figures) -> str:
    return (
        f"the model of this run is off by {percent(f['off_frac'], 2)} in the median of {count(f.n('windows'), 'window')}: by so "
        "much its requests would have to come faster or slower to be as late as measured; it has the knee at "
        f"{rate_text(f['knee_rps'])} ({_interval(f)})"
    )


def _few_windows(f: Figures) -> str:
    if f["held"]:
        return "there is no model of a held rate: it takes a search, or a list of rates, each on a server that starts empty"
    found = f"{f.n('windows')} of its windows" if f.n("windows") else "none of its windows"
    return (
        f"there is no model of this run: {found} had {count(f.n('requests'), 'request')} that ended by themselves, and it takes "
        f"{f.n('least')} such windows; measure longer, with --mode standard or --measure"
    )


def _off(f: Figures) -> str:
    side, windows = "faster" if f["faster"] else "slower", count(f.n("windows"), "window")
    head = (
        f"the model of this run does not explain it: over {windows} it is off by {percent(f['off_frac'], 2)} in the median, mostly "
        f"{side} than the server; from {percent(f['most_frac'], 2)} on it is not asked"
    )
    return "; ".join([head, *f.of])


def _places(f: Figures) -> str:
    if f["assumed"]:
        return (
            f"the server does not tell --max-num-seqs and its readings show no limit: {count(f.n('max_num_seqs'))} is assumed, so "
            "what fewer places change is more certain than what more of them do"
        )
    return f"--max-num-seqs is taken to be {count(f.n('max_num_seqs'))}: so many requests ran at most while others waited"


def _batch(f: Figures) -> str:
    tokens = count(f.n("max_batched_tokens"), "token")
    how = "assumed, as the server does not tell it" if f["assumed"] else "inferred from the run"
    return f"a step takes at most {tokens} (--max-num-batched-tokens): {how}"


def _what_if(f: Figures) -> str:
    ratio = f["ratio"]
    apart = abs(ratio - 1)
    step = "as now" if apart < 0.005 else f"{percent(apart, 2)} {'higher' if ratio > 1 else 'lower'}"
    queue = "; above it requests pile up, whatever the limits allow" if f["by_queue"] else ""
    return f"{SAYS}: the knee would be at {rate_text(f['knee_rps'])} ({_interval(f)}), {step}{queue}"


def _none(f: Figures) -> str:
    if f["below"]:
        return f"{SAYS}: no rate would meet these limits, however low"
    return f"{SAYS}: the knee would be above {rate_text(f['rate_rps'])}, further away than it can tell"


SENTENCES: dict[Code, Sentence] = {
    "twin_explains": _explains,
    "twin_few_windows": _few_windows,
    "twin_not_fitted": lambda f: (
        f"there is no model of this run: the times of its {count(f.n('requests'), 'request')} do not tell how long a step of the "
        "server takes"
    ),
    "twin_too_small": lambda f: (
        f"there is no model of this run: its longest request would not fit into the {count(f.n('kv_tokens'), 'token')} of KV cache "
        "that the server tells of"
    ),
    "twin_off": _off,
    "twin_unasked": lambda f: f"No model of the server helps to choose rates: {f.of[0]}",
    "twin_none": lambda f: f"there is no model of this run: {f.of[0]}",
    "twin_lacks_lengths": lambda f: (
        "answers stop by themselves (--stop natural), and a model would have to know beforehand how long each is"
    ),
    "twin_lacks_gateway": lambda f: (
        f"a gateway lets only {count(f.n('limit'), 'request')} through at once, and a model knows no such limit"
    ),
    "twin_lacks_hits": lambda f: "prompts share prefixes, and a model knows no prefix cache",
    "twin_lacks_recording": lambda f: "requests come as they were recorded (--trace), and a model knows drawn arrivals alone",
    "twin_lacks_turns": lambda f: (
        "turns of conversations follow the answers before them, and a model knows requests that follow nothing"
    ),
    "twin_lacks_straight_line": lambda f: (
        f"half of the decode times differ by {percent(f['step_error_frac'], 2)} or more from any constant cost of a step, a "
        "sequence and a token, so the time of a step does not grow with the batch in a straight line, or other work shares the "
        "machine"
    ),
    "twin_lacks_limit": lambda f: (
        f"it is faster by {percent(f['per_doubling_frac'], 2)} more for each doubling of the rate: under load the server has a "
        "limit or a cost that the model lacks"
    ),
    "twin_lacks_steadiness": lambda f: (
        f"windows of one rate are {percent(f['apart_frac'], 2)} apart, so the server was not equally fast all the time"
    ),
    "twin_lacks_unknown": lambda f: "what it lacks does not show in its figures",
    "twin_one_repeat": lambda f: "one repeat alone was long enough to hold the model against, so its error is hardly known",
    "twin_places": _places,
    "twin_batch": _batch,
    "twin_kv_unknown": lambda f: "the server does not tell the size of its KV cache, so the model never runs out of it",
    "what_if": _what_if,
    "what_if_none": _none,
}

"""What runs beside each other show: which is better, what differs between them, and what would tell them apart."""

import math

from core.facts import Code, Fact, Figure
from core.prose.figures import Figures, Sentence
from core.units import as_set, change, count, duration, limit, percent, plain, points, rate_number, rate_text

_LABELS = {
    "ttft_s": "TTFT limit",
    "tpot_s": "TPOT limit",
    "e2e_s": "E2E limit",
    "target": "target",
    "max_error_rate": "error limit",
    "api": "API",
    "input_tokens": "prompt tokens",
    "output_tokens": "answer tokens",
    "length_correlation": "length correlation",
    "mix": "mix",
    "source": "lengths from",
    "trace": "trace",
    "arrival_cv": "CV of arrivals",
    "prefix": "prefix",
    "temperature": "temperature",
    "stop": "stop",
    "gateway": "gateway's limit",
    "retry_after": "429 sent again",
    "think_s": "think time",
    "mode": "mode",
    "careful": "careful",
    "repeats": "repeats",
    "measure_s": "window",
    "budget_s": "time budget",
    "rates": "rates",
    "require_rps": "required rate",
    "reset_cache": "cache reset",
    "between": "command between",
    "arrival_seed": "arrival seed",
    "workload_seed": "workload seed",
    "model": "model",
    "version": "server version",
    "max_model_len": "context",
    "kv_cache_tokens": "KV cache tokens",
    "engines": "engines",
    "tp": "TP",
    "pp": "PP",
    "dp": "DP",
    "fingerprint": "fingerprint",
    "simulated": "simulated",
    "gpus": "GPUs",
}
_OUTCOMES = {"void": "it ended void", "refused": "no load was sent", "interrupted": "it was ended before a rate was judged"}


def differing(found: Fact) -> tuple[str, str, str]:
    """What differs, and both values, as a table has them."""
    return asked(str(found.figures["what"]), found.figures["a"], found.figures["b"])


def asked(what: str, one: Figure, other: Figure) -> tuple[str, str, str]:
    """The name of a thing that was asked or told, and two values of it."""
    return _label(what), _value(what, one), _value(what, other)


def _label(what: str) -> str:
    return _LABELS.get(what) or _printable(what.removeprefix("config."))


def _value(what: str, value: Figure) -> str:
    match value:
        case None:
            return "none"
        case bool():
            return "yes" if value else "no"
        case int() | float() if what in ("target", "max_error_rate"):
            return plain(value)
        case int() | float() if what == "require_rps":
            return rate_text(value)
        case int() | float() if what in ("ttft_s", "tpot_s", "e2e_s"):
            return limit(value)
        case int() | float() if what.endswith("_s"):
            return duration(value)
        case int() | float():
            return as_set(value)
        case _:
            return _printable(str(value))


def _printable(text: str) -> str:
    """A file's words on one line of a terminal."""
    return "".join(char if char.isprintable() else " " for char in text)


def _differs(f: Figures) -> str:
    what = f.word("what") or ""
    a, b = (_value(what, f.value(name)) for name in "ab")
    return f"{_label(what)} {a} against {b}"


def _with_marks(head: str, f: Figures) -> str:
    return "; ".join([head, *f.of])


def _claim(better: bool) -> Sentence:
    def say(f: Figures) -> str:
        name, reference = f.word("name"), f.word("reference")
        holds, fails = (name, reference) if better else (reference, name)
        word, more = "better" if better else "worse", f.known("more_frac")
        failing = f", and {fails} meets the limits at no rate"
        if more is not None:
            failing = f", {percent(more, 2)} above the {rate_number(f['fail_rps'])} at which {fails} was measured to fail"
        return _with_marks(f"{name} is {word} than {reference}: {holds} holds at {rate_text(f['pass_rps'])}{failing}", f)

    return say


def _claim_at(better: bool) -> Sentence:
    def say(f: Figures) -> str:
        name, reference = f.word("name"), f.word("reference")
        holds, fails = (name, reference) if better else (reference, name)
        word = "better" if better else "worse"
        head = f"{name} is {word} than {reference}: with the same requests at {rate_text(f['rate_rps'])}"
        return _with_marks(
            f"{head} {holds} passed {count(f.n('passed'), 'repeat')}, and {fails} failed {f.n('failed')} of {f.n('run')}", f
        )

    return say


def _not_told(f: Figures) -> str:
    name, reference = f.word("name"), f.word("reference")
    ends = [_bracket(f.known(f"{side}_pass_rps"), f.known(f"{side}_fail_rps")) for side in "ab"]
    apart = f.known("apart_frac")
    middles = ""
    if apart is not None:
        higher, by = (name, apart) if apart > 0 else (reference, 1 / (1 + apart) - 1)
        middles = f"; the middle of {higher}'s is {percent(by, 2)} higher" if by >= 0.0005 else "; their middles are the same"
    return _with_marks(f"{name} is not told apart from {reference}: {reference} {ends[0]}, {name} {ends[1]}{middles}", f)


def _bracket(low: float | None, high: float | None) -> str:
    if high == 0:
        return "meets the limits at no rate"
    if low is None:
        return "holds at no rate judged" if high is None else f"fails at {rate_text(high)}, and nothing held"
    above = "and has no upper end" if high is None else f"and fails at {rate_number(high)}"
    return f"holds at {rate_text(low)} {above}"


def _longer(f: Figures) -> str:
    mode, time_s = f.word("mode"), f.known("time_s")
    head = f"the brackets are {percent(f['width_frac'], 2)} wide and their middles {percent(f['apart_frac'], 2)} apart"
    if time_s is None:
        return f"{head}: measure both longer, until they are narrower than that"
    how = f", as {mode} mode has" if mode else ", longer than any mode takes: judge the same --rates with the same --seed instead"
    return f"{head}; to be narrower than that they need about {duration(60 * math.ceil(time_s / 60))} each (an estimate){how}"


def _open(f: Figures) -> str:
    missing = "has no upper end: measure higher rates" if f.word("end") == "upper" else "has no rate that holds: measure lower ones"
    return f"{f.word('name')} {missing}"


def _repeats(f: Figures) -> str:
    return (
        f"about {count(f.n('repeats'), 'repeat')} at {rate_text(f['rate_rps'])} with the same requests would show whether the "
        f"{points(f['difference'])} of the first {f.n('had')} are by chance (an estimate)"
    )


def _drift(f: Figures) -> str:
    slow, fast = f["slowest_frac"], f["fastest_frac"]
    sides = [f"{change(slow)[1:]} slower"] * (slow >= 0.005) + [f"{change(fast)[1:]} faster"] * (fast <= -0.005)
    return f"the server of {f.word('name')} changed during its run (steps up to {' and '.join(sides)} than in its first repeat)"


SENTENCES: dict[Code, Sentence] = {
    "differs": _differs,
    "compare_better": _claim(True),
    "compare_worse": _claim(False),
    "compare_better_at": _claim_at(True),
    "compare_worse_at": _claim_at(False),
    "compare_not_told": _not_told,
    "compare_refused": lambda f: f"{f.word('name')} cannot be compared with {f.word('reference')}: {'; '.join(f.of)}",
    "compare_going": lambda f: f"{f.word('name')} is still going, so it has no answer yet",
    "compare_held": lambda f: f"{f.word('name')} kept one rate ({rate_text(f['rate_rps'])}, --hold), which has no verdict",
    "compare_no_answer": lambda f: (
        f"{f.word('name')} has no valid answer: {_OUTCOMES.get(f.word('outcome') or '', 'no rate was judged')}"
    ),
    "compare_other_limits": lambda f: f"other limits ({', '.join(f.of)})",
    "compare_other_work": lambda f: f"other requests ({', '.join(f.of)})",
    "compare_drift": _drift,
    "compare_unfinished": lambda f: f"{f.word('name')} was ended before its answer",
    "compare_unsteady": lambda f: (
        f"a step took {as_set(f['factor'], 3)} times as long in one repeat as in another of the same run, so only brackets further "
        "apart than that tell; measure both again, in turn, when the server is steady"
    ),
    "compare_open": _open,
    "compare_thin": lambda f: (
        "one holds where the other failed, but in a list of rates that rests on single repeats, which pass or fail by luck near "
        "the knee: give both the same --rates and --seed, with --repeats 3, or search"
    ),
    "compare_near": lambda f: (
        f"their middles are {percent(f['apart_frac'], 2)} apart, and brackets do not tell less than {percent(f['near_frac'], 2)}, "
        "however long they are measured"
    ),
    "compare_longer": _longer,
    "compare_repeats": _repeats,
    "compare_void": lambda f: f"{count(f.n('repeats'), 'repeat')} of {f.word('name')} came out void and do not count",
    "compare_by_repeats": lambda f: (
        "windows are paired as wholes, because too few of the same requests are known of both: a run file has them, a result not"
    ),
    "compare_unpaired": lambda f: (
        "no rate was measured by both with the same requests: give both the same --rates"
        + ("" if f["one_draw"] else " and the same --seed")
    ),
    "ghost_told": lambda f: "; ".join(
        [f"ghost {_printable(f.word('label') or '')}: {_bracket(f.known('pass_rps'), f.known('fail_rps'))}", *f.of]
    ),
    "ghost_compared": lambda f: f"ghost {_printable(f.word('label') or '')} (A), this run (B): {'; '.join(f.of)}",
    "ghost_other_limits": lambda f: f"other limits, so its floors are not drawn ({', '.join(f.of)})",
}

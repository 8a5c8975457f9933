"""What a repeat or a ramp was, and why it did not go on."""

from core.facts import Code
from core.prose.figures import Figures, Sentence
from core.units import as_set, at_least, at_most, beside, classes, count, duration, percent, plain, rate_text

_AFTER = {"window": "the window", "ramp": "the ramp", "segment": "the segment"}


def _within_reach(f: Figures) -> str:
    return f"{at_least(f['at_least_frac'], f['target'])} of {count(f.n('planned'))} met the limits, target {plain(f['target'])}"


def _attainment(f: Figures) -> str:
    missed = f" ({f.of[0]}, counted as missed)" if f.of else ""
    share = beside(f["attained_frac"], f["target"])
    return f"attainment {share} of {count(f.n('planned'))}, target {plain(f['target'])}{missed}"


def _too_many_errors(f: Figures) -> str:
    n, planned = f.n("errors"), f.n("planned")
    shares = f"{percent(n / planned)}, at most {plain(f['max_error_frac'])}"
    words = f" ({said})" if (said := f.word("said")) else ""
    return f"{count(n)} of {count(planned, 'request')} ended in errors ({shares}): {classes(f.counts('endings'))}{words}"


def _every_request_failed(f: Figures) -> str:
    what = f"every request failed: {f.word('said') or classes(f.counts('endings'))}"
    ended, of_window = f.n("ended"), f"{count(f.n('errors'))} of the window's {count(f.n('planned'))} so far"
    return f"{what} ({count(ended)} of {count(ended)} that ended, {of_window}; at most {plain(f['max_error_frac'])} may fail)"


def _ended_in_errors(f: Figures) -> str:
    what = f.word("said") or classes(f.counts("endings"))
    return f"{count(f.n('errors'))} of {count(f.n('ended'), 'request')} ended in errors ({what})"


def _overloaded(f: Figures) -> str:
    which = f"{count(f.n('misses'))} of the {count(f.n('planned'), 'request')} of its second half"
    return f"already overloaded in the warm-up: {which} can no longer meet the limits"


def in_turn(f: Figures) -> str:
    """Sentences one after another, the last without its full stop."""
    return " ".join(each if each.endswith((".", "?")) else f"{each}." for each in f.of).removesuffix(".")


SENTENCES: dict[Code, Sentence] = {
    "nothing_to_judge": lambda f: "no request was planned in the window",
    "all_decided": lambda f: "every measured request is decided",
    "segment_decided": lambda f: "every request is decided",
    "segments_judged": lambda f: "every segment is judged",
    "out_of_reach": lambda f: f"{at_most(f['at_most_frac'], f['target'])} can still meet the limits (target {plain(f['target'])})",
    "within_reach": _within_reach,
    "too_many_errors": _too_many_errors,
    "every_request_failed": _every_request_failed,
    "ended_in_errors": _ended_in_errors,
    "overloaded_in_warmup": _overloaded,
    "still_open": lambda f: (
        f"{count(f.n('open'), 'request')} still open {duration(f['drain_s'])} after {_AFTER[f.word('after') or '']}"
    ),
    "load_ended_early": lambda f: "the load ended before every request was decided",
    "attainment": _attainment,
    "queue_rising": lambda f: f"queue rising: requests waited longer and longer, although {f.of[0]}",
    "warmup_short": lambda f: (
        f"the warm-up of {duration(f['warmup_s'])} was too short: requests as long as these need {duration(f['needed_s'])}"
    ),
    "undecided": lambda f: "stopped before it was decided",
    "ramp_hint": lambda f: f"a ramp only says where to look; {f.of[0]}",
    "rate_fails": lambda f: f"{rate_text(f['rate_rps'])}: {f.of[0]}",
    "ramp_failed": lambda f: f"at {rate_text(f['rate_rps'])}, {f.of[0]}",
    "no_rate_failed": lambda f: "no rate of the ramp failed",
    "not_keeping_up": lambda f: (
        f"the server does not keep up: it began {rate_text(f['begun_rps'])} at most, "
        f"with {count(f.n('waiting'), 'request')} waiting"
    ),
    "backed_off": lambda f: f"backed off from {rate_text(f['rate_rps'])} to spare other users: {f.of[0]}",
    "others_wait": lambda f: f"{count(f.n('waiting'), 'request')} waiting at the server; --max-waiting allows {as_set(f['limit'])}",
    "others_preempted": lambda f: "the server keeps preempting requests",
    "errors_in_a_row": lambda f: f"{count(f.n('errors'), 'request')} ended in errors within {duration(f['within_s'])}",
    "several": lambda f: "; ".join(f.of),
    "in_turn": in_turn,
}

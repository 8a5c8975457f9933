"""The answer of a run, and what ended it otherwise than by its search."""

from core.facts import Code
from core.prose.figures import Figures, Sentence
from core.prose.repeats import in_turn
from core.prose.voids import words
from core.units import count, duration, latency, limit, rate_number, rate_text

_KEPT = "finished steps are kept"
_CHECK = f"Check the server, then run again; {_KEPT}"


def _bracket(f: Figures) -> str:
    holds, first_rps = f"holds at {rate_text(f['pass_rps'])}", f["first_fail_rps"]
    upper_rps = f.known("fail_rps")
    if upper_rps is None:
        return f"{holds}, mixed from {rate_text(first_rps)}, open above: the knee may be higher than what failed"
    if upper_rps > first_rps:
        clearly = "clearly " if f["clearly"] else ""
        return f"{holds}, mixed from {rate_number(first_rps)}, {clearly}fails at {rate_text(upper_rps)}"
    return f"{holds}, fails at {rate_text(first_rps)}"


def _tried(f: Figures) -> str:
    return "tried" if f["all_tried"] else "judged"


def _short(f: Figures) -> str | None:
    """What stands behind a rate that passed one short step of the search, where none passed more."""
    rate_rps = f.known("short_rps")
    return None if rate_rps is None else f"{rate_text(rate_rps)} passed one short step, no more"


def _below(f: Figures) -> str:
    fails = f"fails at {rate_text(f['fail_rps'])}"
    short = _short(f)
    return f"{fails}, the lowest rate {_tried(f)}" if short is None else f"{fails}, the lowest rate judged by all repeats; {short}"


def _not_known_below(f: Figures) -> str:
    short = _short(f)
    beside = "" if short is None else f"; {short}"
    return f"fails at {rate_text(f['fail_rps'])}; whether a lower rate holds is not known{beside}"


def _no_rate_judged(f: Figures) -> str:
    short = _short(f)
    return "no rate was judged" if short is None else f"no rate was judged by all repeats; {short}"


def _on_top(f: Figures) -> str:
    rate_rps = f.known("others_rps")
    others = "other traffic, which the server does not report" if rate_rps is None else f"{rate_text(rate_rps)} from others"
    return f"{f.of[0]}, on top of {others}"


def _segments_void(f: Figures) -> str:
    n = f.n("void")
    return f"no segment counted, {count(n)} {'was' if n == 1 else 'were'} void: {f.of[0]}"


def _between_failed(f: Figures) -> str:
    code = f.known("exit_code")
    how = f"did not end within {duration(f['within_s'])}" if code is None else f"ended with exit code {round(code)}"
    return f"The command given with --between {how}; fix that, then run again"


_NOT_READY = {"health": "it does not answer", "metrics": "its metrics give no reading"}


def _between_not_ready(f: Figures) -> str:
    what = _NOT_READY[f.word("missing") or ""]
    return f"The server is not ready {duration(f['within_s'])} after the command given with --between: {what}"


def _away_for_good(f: Figures) -> str:
    when = f"did not come back within {duration(f['within_s'])}"
    return f"No answer: the server was away at {rate_text(f['rate_rps'])} ({words(f)}) and {when}. {_CHECK}"


def _singles_over_limits(f: Figures) -> str:
    values = ((name, f.known(f"{name.lower()}_s"), f.known(f"{name.lower()}_limit_s")) for name in ("TTFT", "TPOT", "E2E"))
    over = (f"{name} {latency(value_s)}, limit {limit(limit_s)}" for name, value_s, limit_s in values if limit_s is not None)
    return f"even single requests miss the limits, {f.n('missed')} of {f.n('missed')} ({', '.join(over)})"


def _singles_in_errors(f: Figures) -> str:
    what = "the server answers errors to" if f["answered"] else "the server breaks off"
    return f"{what} all {f.n('requests')} single requests ({f.word('said')}), so no rate can be right"


SENTENCES: dict[Code, Sentence] = {
    "bracket": _bracket,
    "at_least": lambda f: f"holds at {rate_text(f['pass_rps'])}, the highest rate {_tried(f)}",
    "below": _below,
    "not_known_below": _not_known_below,
    "no_rate_judged": _no_rate_judged,
    "errors_at": lambda f: f"at {rate_text(f['rate_rps'])}, {f.of[0]}",
    "nothing_served": lambda f: f"No answer: already at {rate_text(f['rate_rps'])}, {f.of[0]}. Check the server, then run again",
    "on_top": _on_top,
    "infeasible": lambda f: f"infeasible at any rate: {f.of[0]}",
    "no_single_sent": lambda f: "no single request was sent",
    "singles_over_limits": _singles_over_limits,
    "singles_in_errors": _singles_in_errors,
    "held_a_day": lambda f: "the rate was held for a day",
    "segments_void": _segments_void,
    "held_void": lambda f: f"{rate_text(f['rate_rps'])} ({f.of[0]})",
    "held_in_vain": lambda f: f"No answer: {f.of[0]}. Fix that, then run again",
    "refused": in_turn,
    "checks_incomplete": lambda f: f"The checks are not complete: {f.of[0]}",
    "stopped_before_answer": lambda f: "Stopped before the answer; what was finished is kept",
    "limit_reached": lambda f: f"No answer, {f.of[0]}; {_KEPT}",
    "max_in_flight": lambda f: (
        f"stopped: {count(f.n('in_flight'), 'request')} in flight, --max-in-flight allows {count(f.n('limit'))}"
    ),
    "max_duration": lambda f: f"stopped: --max-duration of {duration(f['limit_s'])} is over",
    "backed_off_held": lambda f: f"backed off to spare other users: {f.of[0]}",
    "server_unusable": lambda f: f"No answer: {f.of[0]}. {_CHECK}",
    "void_twice": lambda f: (
        f"No answer: two repeats in a row at {rate_text(f['rate_rps'])} did not count: {f.of[0]}. Fix that, then run again; {_KEPT}"
    ),
    "recording_unfit": lambda f: f"No answer: at {rate_text(f['rate_rps'])} {f.of[0]}; {_KEPT}",
    "away_again": lambda f: f"No answer: the server was away a second time, at {rate_text(f['rate_rps'])} ({words(f)}). {_CHECK}",
    "away_for_good": _away_for_good,
    "back_without_model": lambda f: (
        f"No answer: the server was away at {rate_text(f['rate_rps'])}, and what answers there now does not serve the model "
        f"{f.word('model')} ({words(f)}). {_CHECK}"
    ),
    "client_mute": lambda f: (
        f"The load generator was silent for {duration(f['silent_s'])} (stopped, or starved of CPU?) and was killed; run again"
    ),
    "client_stuck": lambda f: f"The load generator did not stop within {duration(f['within_s'])} and was killed; run again",
    "client_gone": lambda f: "The load generator exited before the run was over, so nothing is sent any more; run again",
    "between_failed": _between_failed,
    "between_not_ready": _between_not_ready,
    "own_error": lambda f: f"The run broke off because of an error in kneescope itself: {f.word('what')}",
    "unfinished": lambda f: (
        "The run ended without an answer and without a reason: the program was killed, or the machine went down"
    ),
    "still_going": lambda f: "The run is still going; this is its state so far",
}

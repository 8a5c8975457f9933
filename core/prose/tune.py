"""What is said of settings of one server beside each other."""

from core.facts import Code
from core.prose.figures import Figures, Sentence
from core.units import count, long_duration, rate_number, rate_text


def _planned(f: Figures) -> str:
    n = f.n("settings")
    ends = f"{long_duration(f['low_s'])} to {long_duration(f['high_s'])}"
    drops = "; a setting that is dropped early takes less" if n > 1 else ""
    return f"expected time: {ends} for {count(n, 'setting')}, and the time that each server takes to start{drops}"


def _best(f: Figures) -> str:
    fail_rps = f.known("fail_rps")
    upper = ", open above" if fail_rps is None else f" and fails at {rate_number(fail_rps)}"
    head = f"{f.word('best')} is the best: it holds {rate_text(f['pass_rps'])}{upper}"
    if f.n("gpus") > 1:
        head += f", on {count(f.n('gpus'), 'GPU')}"
    if f.n("answered") == 1:
        return f"{head}; no other setting has an answer" if f.n("settings") > 1 else head
    if not f.of:
        which = "" if f.n("answered") == f.n("settings") else " that has an answer"
        return f"{head}; every other setting{which} fails at a rate that it holds"
    others = "; ".join(f.of)
    return f"{head}; not told apart from it: {others}"


def _none(f: Figures) -> str:
    if f.n("answered"):
        return "no setting has a rate that holds"
    return "the setting has no answer" if f.n("settings") == 1 else f"none of {count(f.n('settings'), 'setting')} has an answer"


def _how(f: Figures) -> str:
    code = f.known("exit_code")
    if code is None:
        return ""
    return f" by signal {-int(code)}" if code < 0 else f" with exit code {int(code)}"


def _foreground(f: Figures) -> str:
    """Who ends without an error has most likely left its server to itself."""
    return "; it must stay in the foreground as long as its server runs" if f.known("exit_code") == 0 else ""


SENTENCES: dict[Code, Sentence] = {
    "beaten": lambda f: f"dropped: it fails at {rate_text(f['fail_rps'])}, and the best so far holds {rate_number(f['best_rps'])}",
    "tune_planned": _planned,
    "tune_best": _best,
    "tune_none": _none,
    "serve_ended": lambda f: f"the command of --serve ended{_how(f)} before its server answered{_foreground(f)}",
    "serve_not_ready": lambda f: (
        f"the server did not answer within {long_duration(f['within_s'])}; give it longer with --start-timeout"
    ),
    "serve_lost": lambda f: f"the command of --serve ended{_how(f)} while its server was being measured",
    "tune_not_run": lambda f: "not run: the tune was interrupted before",
}

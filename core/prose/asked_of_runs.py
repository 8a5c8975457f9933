"""Whether a run meets what was asked of it, and why that cannot be told."""

from core.facts import Code
from core.prose.compare import asked
from core.prose.figures import Figures, Sentence
from core.units import plain, rate_number, rate_text

_ENDED = {
    "held": "a held rate has no knee",
    "void": "its evidence does not count",
    "refused": "a check before the load refused it",
    "interrupted": "it was ended before its answer",
}


def _no_answer(f: Figures) -> str:
    outcome = f.word("outcome") or ""
    return f"The {'old' if f['of_old'] else 'new'} run has no valid answer: {_ENDED.get(outcome, outcome)}"


def _differs(f: Figures) -> str:
    label, then, now = asked(f.word("what") or "", f.value("old"), f.value("new"))
    return f"The runs cannot be compared: {label} differs ({then} in the old run, {now} in the new one)"


def _allowed(f: Figures) -> str:
    """The rate that is still enough, and where it is from."""
    return (
        f"{rate_text(f['least_rps'])} ({rate_number(f['old_pass_rps'])} in the old run, of which {plain(f['max_drop_frac'])} may "
        "be lost)"
    )


def _ends(f: Figures) -> str:
    pass_rps, fail_rps = f.known("pass_rps"), f.known("fail_rps")
    holds = "No rate held" if pass_rps is None else f"The new run holds at {rate_text(pass_rps)}"
    return f"{holds} and {'no rate failed for sure' if fail_rps is None else f'fails at {rate_text(fail_rps)}'}"


def _fails(f: Figures) -> str:
    return f"The new run fails at {rate_text(f['fail_rps'])}" if f["fail_rps"] else "Single requests miss the limits in the new run"


def _old_holds_none(f: Figures) -> str:
    fail_rps = f.known("old_fail_rps")
    seen = "" if not fail_rps else f" (it failed at {rate_text(fail_rps)})"
    return f"No rate held in the old run{seen}, so there is nothing to compare with"


SENTENCES: dict[Code, Sentence] = {
    "check_no_answer": _no_answer,
    "check_differs": _differs,
    "check_drop_met": lambda f: f"The new run holds at {rate_text(f['pass_rps'])}; it had to hold {_allowed(f)}",
    "check_drop_not_met": lambda f: f"{_fails(f)}; it had to hold {_allowed(f)}",
    "check_drop_not_known": lambda f: (
        f"{_ends(f)}, so it is not known whether it holds {_allowed(f)}; measure that rate with probe --require-rps"
    ),
    "check_old_failed": lambda f: (
        f"The new run holds at {rate_text(f['pass_rps'])}; the old run held no rate"
        + (f" and failed at {rate_text(f['old_fail_rps'])}" if f["old_fail_rps"] else "")
    ),
    "check_old_holds_none": _old_holds_none,
    "check_rate_met": lambda f: f"The new run holds at {rate_text(f['pass_rps'])}; {rate_text(f['rate_rps'])} is required",
    "check_rate_not_met": lambda f: f"{_fails(f)}; {rate_text(f['rate_rps'])} is required",
    "check_rate_not_known": lambda f: (
        f"{_ends(f)}, so it is not known whether it holds the required {rate_text(f['rate_rps'])}; measure that rate with "
        "probe --require-rps"
    ),
}

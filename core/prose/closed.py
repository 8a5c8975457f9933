"""What a closed loop beside the answer says, with why it says too much where it does."""

from core.facts import Code
from core.prose.figures import Figures, Sentence
from core.units import as_set, beside, count, duration, rate_number, rate_text

_FLATTERS = "it waits for the server"


def _in_flight(f: Figures) -> str:
    return f"{count(f.n('in_flight'))} in flight"


def _share(f: Figures) -> str:
    return beside(f["attainment"], f["target"])


def _said(f: Figures) -> str:
    least = "" if f["to_the_end"] else "at least "
    says = f"a closed loop says {least}{rate_number(f['rate_rps'])}"
    times = f.known("times")
    if times is None:
        return f"{says}, where no rate held: {_FLATTERS}"
    told = f"{says}, {as_set(times, 2)} times what holds"
    return f"{told}: {_FLATTERS}" if round(times, 1) > 1 else told


def _most(f: Figures) -> str:
    limit = f.n("limit")
    return f"no more than {count(limit)} in flight are tried" if f["own"] else f"--max-in-flight allows {count(limit)} in flight"


SENTENCES: dict[Code, Sentence] = {
    "closed_begins": lambda f: (
        f"The answer stands: {f.of[0]}. A closed loop is measured beside it, {duration(f['each_s'])} for each number in flight"
    ),
    "closed_rung": lambda f: f"closed loop, {_in_flight(f)}: {rate_text(f['rate_rps'])} completed, {_share(f)} within the limits",
    "closed_missed": lambda f: f"with {_in_flight(f)} only {_share(f)} are within the limits",
    "closed_in_flight": _most,
    "closed_max_rps": lambda f: f"more might exceed --max-rps {as_set(f['limit_rps'])}",
    "closed_no_time": lambda f: "--max-duration leaves no time for more",
    "closed_stopped": lambda f: "it was stopped",
    "closed_broken": lambda f: f"it was broken off: {f.of[0]}",
    "closed_loop": _said,
    "closed_none": lambda f: f"a closed loop says nothing: already with {_in_flight(f)} only {_share(f)} are within the limits",
    "closed_unmeasured": lambda f: f"a closed loop was not measured: {f.of[0]}",
    "left_closed_loop": lambda f: "a closed loop is measured beside the answer",
}

"""What is said of several machines that send together: who they are, and which of them was not good enough."""

from collections.abc import Sequence

from core.facts import Code
from core.prose.figures import Figures, Sentence
from core.units import count, duration, latency

_NAMED = 4
"""More names than that say less than their number."""


def machines(names: Sequence[str]) -> str:
    """3 machines: node-a, node-b, node-c; of many the first ones by name."""
    more = f" and {count(len(names) - _NAMED)} more" if len(names) > _NAMED else ""
    return f"{count(len(names), 'machine')}: {', '.join(names[:_NAMED])}{more}"


def _known(f: Figures) -> str:
    error_s = f.known("clock_error_s")
    clocks = "" if error_s is None else f"; their clocks are known to within {latency(error_s)}"
    return f"The load comes from {machines(f.of)}{clocks}"


def _who(f: Figures) -> str:
    return f"the client, not the server: {f.word('worker')}"


def _others(f: Figures, what: str) -> str:
    """The way out, and how many more machines it is the same with."""
    n = f.n("others")
    also = f", and {count(n)} more {'machine' if n == 1 else 'machines'} {what}, too" if n else ""
    return f"{also}; give that machine more CPU, or leave it out"


def _late(f: Figures) -> str:
    late = f"sent one request in a hundred late by {latency(f['late_p99_s'])} or more"
    return f"{_who(f)} {late}, the limit is {duration(f['limit_s'])}{_others(f, 'sent late')}"


def _late_once(f: Figures) -> str:
    late = f"sent a request late by {latency(f['late_max_s'])}, more than the TTFT limit itself"
    return f"{_who(f)} {late}{_others(f, 'sent late')}"


def _stalled(f: Figures) -> str:
    how_often = f"{f.n('over')} of {f.n('reports')} reports ({latency(f['worst_s'])} at worst)"
    return f"{_who(f)} stalled for more than {duration(f['limit_s'])} in {how_often}{_others(f, 'stalled')}"


def _unsent(f: Figures) -> str:
    return f"{_who(f)} could not send {count(f.n('requests'), 'planned request')}{_others(f, 'left requests unsent')}"


SENTENCES: dict[Code, Sentence] = {
    "workers_gathering": lambda f: f"Starting the machines that send (--workers {f.of[0]}); with Ray this can take a minute",
    "workers_known": _known,
    "worker_late": _late,
    "worker_late_once": _late_once,
    "worker_stalled": _stalled,
    "worker_unsent": _unsent,
}

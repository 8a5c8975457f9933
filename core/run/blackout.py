"""The errors with which an order ended: since when nothing was served, and whether that looks like no server at all. Pure."""

from collections import Counter
from collections.abc import Sequence

import msgspec

from core.facts import Fact, Figure
from core.judge import alike, errors_said
from core.records import NEVER_SENT, NO_ERRORS, Ending, RequestRecord

DARK_ERRORS, LEAST_ERRORS = 10, 3
"""So many errors in a row, or all that there were if they are at least a few: one request may fail for reasons of its own."""
DARK_S, DARK_E2E = 3.0, 2.0
"""... and nothing served for so long, or for so many idle E2E latencies where that is longer. A server that sheds load goes on with
what it has taken, so something of that ends within this time."""
_SERVERS: frozenset[Ending] = frozenset({"http", "stream", "truncated", "empty", "timeout", "connection", "aborted"})


Words = dict[str, Figure]
"""How requests ended that nobody served, as figures of a fact: `said` is the most frequent of their errors in the server's words,
None without any, and `endings` how many ended in which way."""


class Unserved(msgspec.Struct, frozen=True, kw_only=True):
    """What came last of an order: errors of the server's (`words`, and `alike`: what they have in common) and nothing else since
    `since`, the last sign of life in it (where there was none, the time of its first request).

    `dark`: they are so many, and it was so long, that no load explains it.
    """

    since: float
    words: Words
    dark: bool
    alike: Fact | None = None


def unserved(records: Sequence[RequestRecord], idle_e2e_s: float) -> Unserved | None:
    """How an order ended, from its requests that have ended; None where the last thing that came was an answer or a token, or
    where errors of this machine or refusals that no load causes are among the last."""
    life = max((t for record in records if (t := _life(record)) is not None), default=None)
    last = [r for r in records if r.ending not in NO_ERRORS and (life is None or r.t_end > life)]
    if not last or not all(map(of_nobody, last)):
        return None
    since = min(r.t_sched for r in records) if life is None else life
    ended = sum(r.ending not in ("aborted", *NEVER_SENT) for r in records)
    many = len(last) >= DARK_ERRORS or LEAST_ERRORS <= len(last) == ended
    long = max(r.t_end for r in last) - since >= max(DARK_S, DARK_E2E * idle_e2e_s)
    words: Words = {"said": errors_said(last), "endings": dict(Counter(str(r.ending) for r in last))}
    common = alike(last, [r for r in records if r.ending in ("ok", "aborted")])
    return Unserved(since=since, words=words, dark=many and long, alike=common)


def _life(record: RequestRecord) -> float | None:
    """When the server last gave something to this request, as far as that is known."""
    known = (record.t_first, record.t_last, record.t_end if record.ending == "ok" else None)
    return max((t for t in known if t is not None), default=None)


def of_nobody(record: RequestRecord) -> bool:
    """Whether a request ended as it does where no server is, or was given up. An answer that says something of the request or of
    the client's rate is no such end: who gives it is there. Nor is a fault of this machine."""
    refused = record.status is not None and 300 <= record.status < 500
    return record.ending in _SERVERS and not refused


def words_of(record: RequestRecord | None) -> Words:
    """How a single request ended; neither words nor an ending where it was not answered."""
    if record is None or record.ending == "aborted":
        return {"said": None, "endings": {}}
    return {"said": (record.error or record.ending).rstrip("."), "endings": {record.ending: 1}}

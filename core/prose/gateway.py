"""What a gateway's limit does to requests, and what becomes of those that a 429 asks to come again."""

from core.facts import Code
from core.prose.figures import Figures, Sentence
from core.units import count, duration, rate_text


def _limit(f: Figures) -> str:
    queue, timeout_s = f.known("queue"), f.known("timeout_s")
    others = "others wait" if queue is None else f"up to {count(int(queue))} others wait"
    if queue == 0:
        others = "others are rejected"
    at_most = f" for at most {duration(timeout_s)}" if timeout_s is not None and queue != 0 else ""
    wait = "" if queue == 0 else ", and their wait counts in TTFT and E2E"
    limit = f"{count(f.n('limit'), 'request')} {'is' if f.n('limit') == 1 else 'are'}"
    return f"a gateway is modelled: at most {limit} open at the server, {others}{at_most}{wait}"


def _turned_away(f: Figures) -> str:
    rejected, timed_out = f.n("rejected"), f.n("timed_out")
    parts = [f"{count(rejected, 'request')} at its full queue"] if rejected else []
    parts += [f"{count(timed_out, 'request')} after too long a wait"] if timed_out else []
    return f"the gateway's limit turned away {' and '.join(parts)}: misses, and no errors of the server"


def _waits_seen(f: Figures) -> str:
    held, planned, limit = f.n("held"), f.n("planned"), f.n("limit")
    wait_s = f.known("wait_p95_s")
    long = f" ({duration(wait_s)} at p95)" if held and wait_s else ""
    parts = [f"{count(held)} of {count(planned, 'request')} waited at the gateway{long}, which lets {count(limit)} through at once"]
    parts += [f"{count(f.n('rejected'))} rejected there"] if f.n("rejected") else []
    parts += [f"{count(f.n('timed_out'))} timed out there"] if f.n("timed_out") else []
    return ", ".join(parts)


def _binds(f: Figures) -> str:
    doubts = f", most likely ({'; '.join(f.of)})" if f.of else ""
    limit = count(f.n("limit"), "open request")
    return f"At {rate_text(f['rate_rps'])} the gateway's limit of {limit} binds, not the server{doubts}: requests wait before it"


def _higher(f: Figures) -> str:
    limit, tpot_s, limit_s = f.known("limit"), f.known("tpot_p95_s"), f.known("tpot_limit_s")
    text = "Raise the gateway's limit" + ("" if limit is None else f" above {count(int(limit))}")
    if tpot_s is None or limit_s is None:
        return f"{text}, and run again with it; each token gets slower with more requests at once."
    room = "has room" if f["room"] else "has hardly any room"
    return f"{text}, and run again with it: TPOT {room} for more at once (p95 {duration(tpot_s)} of {duration(limit_s)})."


SENTENCES: dict[Code, Sentence] = {
    "gateway_limit": _limit,
    "gateway_turned_away": _turned_away,
    "gateway_queue_rising": lambda f: f"queue rising: requests waited longer and longer at the gateway, although {f.of[0]}",
    "gateway_not_keeping_up": lambda f: (
        f"with the gateway's limit the server began {rate_text(f['begun_rps'])} at most, "
        f"with {count(f.n('waiting'), 'request')} waiting, most of them at the gateway"
    ),
    "gateway_waits_seen": _waits_seen,
    "gateway_binds": _binds,
    "gateway_higher": _higher,
    "retried": lambda f: (
        f"{count(f.n('requests'), 'request')} went out again because the server said when (429 with Retry-After); "
        f"{count(f.n('answered'))} of them succeeded in the end"
    ),
}

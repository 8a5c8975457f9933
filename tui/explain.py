"""What each panel answers, and what each number in it is."""

from typing import NamedTuple


class Explained(NamedTuple):
    """A panel: its name, the question that it answers, and (what stands there, what it is) for each of its numbers."""

    name: str
    question: str
    rows: tuple[tuple[str, str], ...]


TOP_LINE = Explained(
    "top line",
    "is it the client that is slow?",
    (
        ("client CPU", "share of one core, the most that one of its processes used so far in this repeat; ▲ from 90 % on"),
        (
            "lag",
            "the longest that its loop stalled, and stamped that much late what came; ▲ over a fifth of the TTFT limit",
        ),
        ("late p99", "one send in a hundred left so much after it was due, or more; latencies are counted from when each was due"),
        ("✘ … → void", "over its limit: the repeat will not count, because the client was measured and not the server"),
    ),
)
"""What is said of the client on every screen of a run."""

PANELS: dict[str, Explained] = {
    "floor": Explained(
        "1 attainment floor",
        "does this rate still hold?",
        (
            ("so far", "share of the requests sent so far that met every limit: at least and at most, because some are still open"),
            ("target", "the share that must meet all limits in every repeat"),
            ("open", "share of the requests sent whose fate is not known yet"),
            ("r1 r2 …", "each repeat; ▒ is what it can still reach, from the lowest to the highest share"),
            ("FAIL early", "a repeat ends as soon as the target cannot be met any more"),
        ),
    ),
    "ladder": Explained(
        "2 steps",
        "which rates were tried, and how did they end?",
        (
            ("req/s", "requests offered per second, at random moments (Poisson), whether or not the server keeps up"),
            ("repeats", "✔ passed, ✘ failed, ⊘ void (does not count), … running, · not judged; ramp: only a hint of where to look"),
            ("floor", "the worst repeat's share; a bound of it where it was decided before its end"),
            ("verdict", "PASS: every repeat met the target. MIXED: some did. VOID: the evidence does not count"),
            ("CPU lag late", "the client's own, worst of the repeats, where there is room (2 gives it): see top line"),
            ("ramp", "each rate that the ramp tried has a row, where there is room; UNJUDGED: begun, but the ramp ended before"),
        ),
    ),
    "ttft": Explained(
        "3 TTFT",
        "how long until the first token?",
        (
            (
                "p50 p95 p99",
                "of requests whose first token came in that second, counted from when each was due",
            ),
            ("limit", "the dashed line; each request over it is a miss"),
            ("lines", "p95 solid, p50 dashed, p99 dotted; what lies over the limit has the colour of a miss"),
            ("bands", "every second step is shaded"),
        ),
    ),
    "tpot": Explained(
        "4 TPOT",
        "how fast do tokens come after the first?",
        (
            ("p50 p95 p99", "time per output token after the first, of requests that ended in that second"),
            ("limit", "the dashed line; each request over it is a miss"),
            ("lines", "p95 solid, p50 dashed, p99 dotted"),
        ),
    ),
    "queue": Explained(
        "5 queue",
        "does work pile up?",
        (
            ("no first token", "sent by us, no token yet: waiting or in prefill"),
            ("in flight", "sent by us, not ended"),
            ("server waiting", "the server's own count of requests that it has not begun"),
            ("running", "the server's own count in its batch; a flat top is its limit (max_num_seqs)"),
            ("reading … old", "the server's numbers are that old: it answers /metrics late or not at all"),
        ),
    ),
    "kv": Explained(
        "6 KV cache",
        "is memory the limit?",
        (
            ("%", "share of the cache in use"),
            ("preemptions", "requests thrown out of a full cache and begun again, per second; ▾ marks when"),
        ),
    ),
    "rate": Explained(
        "7 rate",
        "does the server keep up?",
        (
            ("offered", "requests due per second; the client sends each at its time or says how late"),
            ("served", "requests that ended well per second; below offered for long, work piles up"),
        ),
    ),
    "knee-curve": Explained(
        "1 attainment (knee)",
        "where does it break?",
        (
            (
                "✔ ✘",
                "each repeat of each step at the share that is certain: at least of one that passed, at most of one that failed",
            ),
            ("✗", "the segment of the ramp that failed: it only says where to look"),
            ("⊘", "a void repeat; it is no evidence, so it stands at the foot whatever it saw"),
            ("line", "through the floor of each step, its worst repeat; between two rates nothing was measured"),
            ("PASS", "up to the highest rate at which every repeat passed"),
            ("not known", "between that rate and the lowest with a failing repeat"),
            ("MIXED", "from the lowest rate with a failing repeat; FAIL from the lowest that fails for sure"),
            ("long-run knee", "of a simulated replica, known beforehand"),
        ),
    ),
    "knee-served": Explained(
        "2 goodput (knee)",
        "what did the server do with what was offered?",
        (
            ("● good", "requests a second inside all limits, one point a repeat; orange where the repeat failed"),
            ("○ served", "requests a second that ended in the window, where that is clearly more"),
            ("⠤", "as much as was offered: below it the server fell behind, or the repeat was cut short"),
        ),
    ),
    "knee-step": Explained(
        "3 chosen step (knee)",
        "how slow was it, and for whom?",
        (
            ("p50 p95 p99", "of requests that ended well, each the highest of the step's repeats; ✘ over the limit of one request"),
            ("*", "of fewer than 20 (p95) or 100 values (p99): hardly more than the slowest one"),
            ("limit", "what one request may take"),
            ("worst stretch", "the window's stretch with the lowest share; neighbouring requests share their fate"),
            ("tokens", "the same by length of prompt and answer, of the worst repeat"),
            ("inside", "share of those requests that met every limit"),
            (
                "client CPU …",
                "the client's own, worst of the repeats: see top line; memory: the most that one of its processes held",
            ),
            ("repeats", "each with its verdict, its share inside, requests/s offered, served and good, and whether its queue rose"),
            ("↑ ↓ tab", "another step"),
        ),
    ),
    "knee-why": Explained(
        "4 why (knee)",
        "what binds, and what can be done?",
        (
            (
                "WHY",
                "what binds at the lowest rate that fails, and the setting to change; or only why that rate failed",
            ),
            ("SEEN", "what it was seen by, held against the highest rate that held"),
            ("OPEN", "what could not be looked at"),
            ("NOT", "what was looked at and is not the reason: the client and the prompts first"),
            ("·", "what to know beside the answer"),
        ),
    ),
    "fleet": Explained(
        "fleet",
        "how many replicas, and what if?",
        (
            ("peak", "requests a second of all users together; figures typed anywhere go here"),
            ("cost", "of one GPU for an hour, if it is to be reckoned"),
            ("headroom", "the share of the safe rate that is used at peak: ← → by 0.01, home, end, mouse, or a number typed on it"),
            ("sized by …", "replicas at the rate that holds, and what they would be were the failing rate the true one"),
            ("each gets", "the peak over the replicas that are left; one lost: one of them is gone and the peak goes on"),
            ("of safe rate", "that as a share of the rate that holds"),
            ("GPUs", "replicas times the GPUs of one (tp x pp x dp); assumed: the server does not tell, and no option did"),
            ("as measured", "the next higher rate that passed; between the ends of the bracket nothing is claimed"),
        ),
    ),
    "fleet-curve": Explained(
        "load of each (fleet)",
        "where on the measured curve does each replica run?",
        (("at peak", "the load of each with all replicas there; one lost, two lost: with fewer of them"),),
    ),
}

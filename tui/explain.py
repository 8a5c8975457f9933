"""What each panel answers, and what each number in it is."""

from typing import NamedTuple


class Explained(NamedTuple):
    """A panel: its name, the question that it answers, and (what stands there, what it is) for each of its numbers."""

    name: str
    question: str
    rows: tuple[tuple[str, str], ...]


TOP_LINE = Explained(
    "top line",
    "is the client the slow one?",
    (
        ("client CPU", "the busiest client process in this repeat so far, as a share of one core; ▲ from 90 %"),
        (
            "lag",
            "longest stall of the client's event loop: what arrived meanwhile was stamped late; ▲ above a fifth of the TTFT limit",
        ),
        ("late p99", "1 % of the sends left at least this long after they were due; latencies count from the due time"),
        ("✘ … → void", "above the limit: the repeat will not count, because it measured the client and not the server"),
    ),
)
"""What is said of the client on every screen of a run."""

RIBBON = Explained(
    "ribbon",
    "what became of the requests of each moment?",
    (
        ("█ ━", "all good: they met every limit. Thick: inside the window that counts; thin: ramp, warm-up or after the window"),
        ("▁ to ▇ ╍", "some missed: the height is the share that was good; thin: ╍ whatever the share"),
        ("╳ ×", "none good: each that is decided missed a limit or failed"),  # noqa: RUF001
        ("▒ ╌", "none missed so far, and some are still open or were cut off"),
        ("names", "each rate with its verdict; of the ramp ✘ where it did not hold, which only shows where to look"),
        ("↑", "the cursor, and what was sent in that column; ← → and a click move it, and the panels show that moment"),
    ),
)
"""What stands under the top line of the screens that draw a run over time."""


def _cliff(screen: str = "") -> Explained:
    return Explained(
        f"1 cliff{screen}",
        "how close is each rate to its limits?",
        (
            ("columns", "one for each rate that was sent, requests/s to the right; the thicker, the more requests"),
            (
                "height",
                "how much of its limit a request used, of several limits that with the least left; the line is the limit",
            ),
            ("over the limit", "missed: what lies above the line, and what failed"),
            ("not ended", "open or cut off: drawn at the least that it can still use, so it may only go up"),
            (
                "95 % up to here",
                "as many as the target asks for lie below that mark; while it is below the line, the rate meets it",
            ),
            ("bright", "requests in the window of a repeat, which are judged; pale and (): only ramp and warm-up"),
        ),
    )


PANELS: dict[str, Explained] = {
    "cliff": _cliff(),
    "floor": Explained(
        "2 attainment floor",
        "does this rate still hold?",
        (
            ("so far", "share of the requests sent so far that met every limit; a range, because some are still open"),
            ("target", "the share of requests that must meet every limit, in every repeat"),
            ("open", "share of the requests sent that are not decided yet"),
            ("r1 r2 …", "the repeats; ▒ spans the lowest to the highest share that each can still reach"),
            ("FAIL early", "a repeat ends as soon as it can no longer meet the target"),
        ),
    ),
    "ttft": Explained(
        "3 TTFT",
        "how long until the first token?",
        (
            (
                "p50 p95 p99",
                "of requests whose first token came in the last second, from when each was due; after the end, of the rate named",
            ),
            ("limit", "the dashed line; a request above it is a miss"),
            ("lines", "p95 solid, p50 dashed, p99 dotted; above the limit in the colour of a miss"),
            ("bands", "every other step is shaded"),
        ),
    ),
    "tpot": Explained(
        "4 TPOT",
        "how fast do tokens come after the first?",
        (
            ("p50 p95 p99", "time per output token after the first, of requests that ended in the last second; or as in TTFT"),
            ("limit", "the dashed line; a request above it is a miss"),
            ("lines", "p95 solid, p50 dashed, p99 dotted"),
        ),
    ),
    "queue": Explained(
        "5 queue",
        "does work pile up?",
        (
            ("no first token", "sent, but no token yet: waiting or in prefill"),
            ("in flight", "sent and not finished"),
            ("server waiting", "the server's own count of requests that it has not started"),
            ("running", "the server's own count of requests in its batch; a flat top is its limit (max_num_seqs)"),
            ("reading … old", "the server's figures are that old, because it answers /metrics late or not at all"),
        ),
    ),
    "kv": Explained(
        "6 KV cache",
        "is memory the limit?",
        (
            ("%", "share of the cache in use"),
            ("preemptions", "requests evicted from a full cache and restarted, per second; ▾ marks when"),
        ),
    ),
    "rate": Explained(
        "7 rate",
        "does the server keep up?",
        (
            ("due", "requests due in that second (later in a longer bin); each is sent on time, or it is said how late"),
            ("finished", "requests that ended well in it; while it stays below due, work piles up"),
            ("offered served", "after the end: of the window at the rate named, planned and finished, over its length"),
        ),
    ),
    "steps": Explained(
        "8 steps",
        "which rates were tried, and with what result?",
        (
            ("req/s", "requests offered per second, at random times (Poisson), whether or not the server keeps up"),
            ("repeats", "✔ passed, ✘ failed, ⊘ void (does not count), … running, · not judged; ramp: only a hint of where to look"),
            ("floor", "share of the worst repeat; a bound if that repeat was decided early"),
            ("verdict", "PASS: every repeat met the target. MIXED: some did. VOID: the evidence does not count"),
            ("CPU lag late", "the client's figures, worst of the repeats, if there is room (8 makes room): see top line"),
            ("ramp", "the rates of the ramp have rows too, if there is room; UNJUDGED: the ramp ended before it was judged"),
        ),
    ),
    "knee-cliff": _cliff(" (knee)"),
    "knee-curve": Explained(
        "2 attainment (knee)",
        "where does it break?",
        (
            (
                "✔ ✘",
                "every repeat at its attainment; if decided early, the least it can be for a pass, the most for a fail",
            ),
            ("✗", "the ramp segment that failed; it only shows where to look"),
            ("⊘", "a void repeat; it is no evidence, so it is drawn at the bottom whatever it measured"),
            ("line", "joins the floor of each step, its worst repeat; nothing was measured between two rates"),
            ("PASS", "up to the highest rate at which every repeat passed"),
            ("not known", "between that rate and the lowest one with a failing repeat"),
            ("MIXED", "from the lowest rate with a failing repeat; FAIL from the lowest rate that clearly fails"),
            ("long-run knee", "the true knee of a simulated replica, known beforehand"),
        ),
    ),
    "knee-step": Explained(
        "3 chosen step (knee)",
        "how slow was it, and for whom?",
        (
            ("p50 p95 p99", "of requests that succeeded, the highest of the step's repeats; ✘ above the limit of one request"),
            ("*", "from fewer than 20 (p95) or 100 values (p99), so hardly more than the slowest one"),
            ("limit", "the longest that one request may take"),
            (
                "worst stretch",
                "the part of the window with the lowest share; neighbouring requests are not independent",
            ),
            ("tokens", "the same figures by length of prompt and answer, for the worst repeat"),
            ("inside", "share of those requests that met every limit"),
            (
                "client CPU …",
                "the client's figures, worst of the repeats: see top line; memory: the most that one of its processes used",
            ),
            ("repeats", "each with its verdict, share inside, requests/s offered, served and good, and whether its queue rose"),
            ("↑ ↓ tab", "choose another step"),
        ),
    ),
    "knee-why": Explained(
        "4 why (knee)",
        "what is the bottleneck, and what can be done?",
        (
            (
                "WHY",
                "the bottleneck at the lowest rate that fails, and the setting to change; or only why that rate failed",
            ),
            ("SEEN", "the evidence, compared with the highest rate that held"),
            ("OPEN", "what could not be checked"),
            ("NOT", "what was checked and is not the reason, the client and the prompts first"),
            ("·", "what else to know about the answer"),
        ),
    ),
    "knee-served": Explained(
        "5 goodput (knee)",
        "how much of the offered load did the server handle?",
        (
            ("● good", "requests per second that met every limit, one point per repeat; orange if the repeat failed"),
            ("○ served", "requests per second that finished in the window, if clearly more"),
            ("⠤", "the offered rate; below it the server fell behind, or the repeat was cut short"),
        ),
    ),
    "fleet": Explained(
        "fleet",
        "how many replicas, and what if?",
        (
            ("peak", "requests per second of all users together; digits typed anywhere go here"),
            ("cost", "price of one GPU-hour, if you want to see what the fleet costs"),
            (
                "load at peak",
                "share of the safe rate to use at peak; the rest is spare. ← → change it by 1 %; the mouse drags it; with tab on it"
                " also home, end, or type a number",
            ),
            ("sized by …", "replicas by the rate that holds, and how many if the failing rate were the true knee"),
            ("each gets", "the peak divided by the replicas in service; one lost: the same peak with one replica down"),
            ("of safe rate", "that as a share of the rate that holds"),
            ("GPUs", "replicas times the GPUs of one (tp x pp x dp); assumed: neither the server nor an option gave these"),
            ("as measured", "the next higher rate that passed; nothing is claimed between the ends of the bracket"),
        ),
    ),
    "what-if": Explained(
        "what if",
        "what would it have been with another setting?",
        (
            ("model", "a simulated engine with step times fitted from this run; its answers are no measurements and no verdicts"),
            (
                "off by",
                "by so much its requests must come faster or slower to be as late as measured, in the median of the windows",
            ),
            ("┴", "on a slider: the run's own value; backspace goes back to it, ↑ ↓ choose a slider, ← → and the mouse move it"),
            ("measured", "the bracket of this run, from the rate that holds to the one that fails"),
            ("model, as is", "where the model has the knee of this run, with an interval from its error"),
            ("model, what if", "where the knee would be with the sliders as they stand"),
            ("prompts answers", "all lengths times so much"),
            ("not explained", "where the model is off by 16 % or more it answers nothing; it says what it may lack"),
        ),
    ),
    "fleet-curve": Explained(
        "load of each (fleet)",
        "where on the measured curve will each replica run?",
        (("at peak", "load of each with all replicas in service; one lost, two lost: with that many down"),),
    ),
}

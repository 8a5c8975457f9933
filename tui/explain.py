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
        ("▁ to ▇ ╍", "some missed: the height is the share that was good; thin: ╍ whatever the share; in ASCII % and ~"),
        ("╳ ×", "none good: each that is decided missed a limit or failed; in ASCII X and x"),  # noqa: RUF001
        ("▒ ╌", "none missed so far, and some are still open or were cut off; in ASCII = and ."),
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
            ("░ ghost", "the bracket of the run of --ghost"),
        ),
    )


PANELS: dict[str, Explained] = {
    "cliff": _cliff(),
    "floor": Explained(
        "2 attainment floor",
        "does this rate still hold?",
        (
            ("█ good", "requests of the plan that met every limit"),
            (
                "\u2573 missed",
                "those that missed one or failed; still open: of these so many are in flight, past their limit already",
            ),
            ("▒ open", "sent and not decided yet; cut off: nothing is in flight any more, so they never will be"),
            ("· not sent", "planned and not due yet"),
            ("… more may miss", "before the target is out of reach; a line below says when it is, or when it is certain"),
            (
                "r1 r2 …",
                "the repeats as bars over their whole plan; in per cent the least and the most that each can still reach",
            ),
            ("┃ target", "the share of requests that must meet every limit, in every repeat"),
            ("warm-up", "the same of the warm-up at this rate, which counts for nothing; it shows early where this is going"),
            ("100 % to 0 %", "with room: the repeat over time; good rises from below, missed comes down, the rest can be either"),
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
            ("waiting at the gateway", "with --gateway-limit: due, held back by it and so not in flight; their TTFT goes on"),
            ("no token yet", "sent, but no token yet: waiting or in prefill"),
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
            ("prefix hits", "prompt tokens that the prefix cache had, beside those planned; five points off is void"),
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
            ("req/s", "requests offered per second, at random times, whether or not the server keeps up"),
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
                "every repeat that counts; decided early, from the least to the most that it can be, marked at the end by which it"
                " was judged",
            ),
            ("✓ ✗", "held or failed in the ramp or in a warm-up, which no window counts: it only shows where to look"),
            ("○", "the repeat or the segment that runs, so far"),
            ("⊘", "a void repeat; it is no evidence, so it is drawn at the bottom whatever it measured"),
            ("?", "nothing is known of it; between two rates nothing was measured, so no line joins them"),
            ("PASS", "up to the highest rate at which every repeat passed"),
            ("not known", "between that rate and the lowest one with a failing repeat"),
            ("MIXED", "from the lowest rate with a failing repeat; FAIL from the lowest rate that clearly fails"),
            ("long-run knee", "the true knee of a simulated replica, known beforehand"),
            ("░", "the run of --ghost: wide marks are its floors, by the least to the most that each can be, lines its bracket"),
        ),
    ),
    "knee-step": Explained(
        "3 chosen step (knee)",
        "how slow was it, and for whom?",
        (
            ("… of … ended", "the requests of the windows whose latencies are known; the others were open or cut off"),
            ("p50 p95 p99", "of all of them, the highest of the step's repeats; ✘ above the limit of one request"),
            ("≥", "at least that: those that had not ended count as later than all that had"),
            ("*", "from fewer than 20 (p95) or 100 values (p99), so hardly more than the slowest one"),
            ("limit", "the longest that one request may take"),
            (
                "worst stretch",
                "the part of the window with the lowest share; neighbouring requests are not independent",
            ),
            (
                "client CPU …",
                "the client's figures, worst of the repeats: see top line; memory: the most that one of its processes used",
            ),
            (
                "at … req/s",
                "all requests of that rate, those of ramp and warm-up too: what became of them, and how near their limits",
            ),
            (
                "repeats",
                "each with its verdict, share inside, requests/s offered by its plan, served and good, and whether its queue rose",
            ),
            (
                "step time at equal batch",
                "how much longer a step of the server took than in the run's first repeat; the line shows every repeat in turn",
            ),
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
            (
                "✔ ✘",
                "requests per second that met every limit, over the rate that was asked for: of each repeat the least to the most",
            ),
            ("○ served", "requests per second that finished in the window, if clearly more"),
            ("⠤", "as many as were asked for; below it some missed a limit, or it is not known"),
            ("not known at …", "rates whose repeats were given up before their windows were over"),
        ),
    ),
    "knee-lengths": Explained(
        "6 lengths (knee)",
        "do short and long requests all meet the limits?",
        (
            ("tokens in, out", "the lengths asked for; what is too rare for a row of its own is under others"),
            (
                "inside",
                "share of those requests that met every limit, of all that were planned; coloured as a fail below the target",
            ),
            ("p50 p95", "of the requests that ended, the highest of the step's repeats; * from fewer than 20 values"),
            ("… more", "rows without room, none with a lower share inside; the panel alone (6) has more"),
            (
                "in ↓ out →",
                "the whole run: requests by the tokens of prompt and answer that came, each from its number to the next",
            ),
            ("░ ▒ ▓ █", "a count by its share of the highest one, a quarter each; · is none"),
            ("↑ ↓ tab", "choose another step"),
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
            ("knee to", "how far its own knee may be off, by its error; each answer has an interval of its own"),
            (
                "windows off by",
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
        (
            ("at peak", "load of each with all replicas in service; one lost, two lost: with that many down"),
            ("✔ ✘ ✓ ✗", "the repeats and the ramp, as under 2 attainment of the knee: ? there explains them"),
        ),
    ),
}

OF_REPLICAS: dict[str, tuple[tuple[str, str], ...]] = {
    "queue": (
        ("( / / )", "the lowest, the median and the highest of the replicas behind the gateway"),
        ("busiest", "requests that the busiest replica has finished in this repeat, against an even share"),
    ),
    "kv": (("( / / )", "the lowest, the median and the highest of the replicas; the figure before it is their mean"),),
}
"""What stands in a panel besides, where replicas were named."""

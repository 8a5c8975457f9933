"""What a comparison found, in words: for the test of all sentences."""

from core.facts import Fact, Figure, fact

NAMES: dict[str, Figure] = {"name": "B", "reference": "A"}
TTFT = fact("differs", what="ttft_s", a=0.8, b=0.5)
DRIFT = fact("compare_drift", name="B", fastest_frac=0.0, slowest_frac=0.3)
HOLDS: dict[str, Figure] = {"pass_rps": 12.3, "fail_rps": 11.0, "more_frac": 0.118}
AT: dict[str, Figure] = {"rate_rps": 18.0, "passed": 3, "failed": 1, "run": 1}
ENDS: dict[str, Figure] = {"a_pass_rps": 10.0, "a_fail_rps": 14.0, "b_pass_rps": 9.0, "b_fail_rps": 13.0}
LONGER: dict[str, Figure] = {"apart_frac": 0.12, "width_frac": 0.4}

COMPARED: list[tuple[Fact, str]] = [
    (TTFT, "TTFT limit 800 ms against 500 ms"),
    (fact("differs", what="target", a=0.95, b=0.999), "target 95 % against 99.9 %"),
    (fact("differs", what="require_rps", a=None, b=12.0), "required rate none against 12.0 requests/s"),
    (fact("differs", what="measure_s", a=40.0, b=90.0), "window 40 s against 1 min 30 s"),
    (fact("differs", what="careful", a=False, b=True), "careful no against yes"),
    (fact("differs", what="config.max_num_seqs", a="16", b="3\x1b[2J2"), "max_num_seqs 16 against 3 [2J2"),
    (fact("differs", what="kv_cache_tokens", a=3584, b=44800), "KV cache tokens 3,584 against 44,800"),
    (
        fact("compare_better", **NAMES, **HOLDS),
        "B is better than A: B holds at 12.3 requests/s, 12 % above the 11.0 at which A was measured to fail",
    ),
    (
        fact("compare_worse", DRIFT, **NAMES, **HOLDS),
        "B is worse than A: A holds at 12.3 requests/s, 12 % above the 11.0 at which B was measured to fail; the server of B "
        "changed during its run (steps up to 30 % slower than in its first repeat)",
    ),
    (
        fact("compare_worse", **NAMES, pass_rps=12.3, fail_rps=0.0, more_frac=None),
        "B is worse than A: A holds at 12.3 requests/s, and B meets the limits at no rate",
    ),
    (
        fact("compare_better_at", **NAMES, **AT),
        "B is better than A: with the same requests at 18.0 requests/s B passed 3 repeats, and A failed 1 of 1",
    ),
    (
        fact("compare_worse_at", **NAMES, **AT),
        "B is worse than A: with the same requests at 18.0 requests/s A passed 3 repeats, and B failed 1 of 1",
    ),
    (
        fact("compare_not_told", **NAMES, **ENDS, apart_frac=-0.086),
        "B is not told apart from A: A holds at 10.0 requests/s and fails at 14.0, B holds at 9.00 requests/s and fails at 13.0; "
        "the middle of A's is 9.4 % higher",
    ),
    (
        fact("compare_not_told", **NAMES, **ENDS, apart_frac=0.0),
        "B is not told apart from A: A holds at 10.0 requests/s and fails at 14.0, B holds at 9.00 requests/s and fails at 13.0; "
        "their middles are the same",
    ),
    (
        fact("compare_not_told", **NAMES, **(ENDS | {"a_fail_rps": None, "b_pass_rps": None}), apart_frac=None),
        "B is not told apart from A: A holds at 10.0 requests/s and has no upper end, B fails at 13.0 requests/s, and nothing held",
    ),
    (
        fact("compare_refused", fact("compare_other_limits", TTFT), **NAMES),
        "B cannot be compared with A: other limits (TTFT limit 800 ms against 500 ms)",
    ),
    (fact("compare_other_limits", TTFT), "other limits (TTFT limit 800 ms against 500 ms)"),
    (fact("compare_other_work", fact("differs", what="api", a="chat", b="x")), "other requests (API chat against x)"),
    (fact("compare_going", name="B"), "B is still going, so it has no answer yet"),
    (fact("compare_held", name="B", rate_rps=4.0), "B kept one rate (4.00 requests/s, --hold), which has no verdict"),
    (fact("compare_no_answer", name="B", outcome="void"), "B has no valid answer: it ended void"),
    (fact("compare_no_answer", name="B", outcome="held"), "B has no valid answer: no rate was judged"),
    (DRIFT, "the server of B changed during its run (steps up to 30 % slower than in its first repeat)"),
    (
        fact("compare_drift", name="A", fastest_frac=-0.2, slowest_frac=0.1),
        "the server of A changed during its run (steps up to 10 % slower and 20 % faster than in its first repeat)",
    ),
    (fact("compare_unfinished", name="A"), "A was ended before its answer"),
    (
        fact("compare_unsteady", factor=1.3),
        "a step took 1.3 times as long in one repeat as in another of the same run, so only brackets further apart than that tell; "
        "measure both again, in turn, when the server is steady",
    ),
    (fact("compare_open", name="A", end="upper"), "A has no upper end: measure higher rates"),
    (fact("compare_open", name="B", end="lower"), "B has no rate that holds: measure lower ones"),
    (
        fact("compare_thin"),
        "one holds where the other failed, but in a list of rates that rests on single repeats, which pass or fail by luck near "
        "the knee: give both the same --rates and --seed, with --repeats 3, or search",
    ),
    (
        fact("compare_near", apart_frac=0.021, near_frac=0.05),
        "their middles are 2.1 % apart, and brackets do not tell less than 5.0 %, however long they are measured",
    ),
    (
        fact("compare_longer", **LONGER, time_s=900.0, mode="standard"),
        "the brackets are 40 % wide and their middles 12 % apart; to be narrower than that they need about 15 min each (an "
        "estimate), as standard mode has",
    ),
    (
        fact("compare_longer", **LONGER, time_s=9000.0, mode=None),
        "the brackets are 40 % wide and their middles 12 % apart; to be narrower than that they need about 2 h 30 min each (an "
        "estimate), longer than any mode takes: judge the same --rates with the same --seed instead",
    ),
    (
        fact("compare_longer", **LONGER, time_s=None, mode=None),
        "the brackets are 40 % wide and their middles 12 % apart: measure both longer, until they are narrower than that",
    ),
    (
        fact("compare_repeats", repeats=24, rate_rps=12.0, had=3, difference=-0.012),
        "about 24 repeats at 12.0 requests/s with the same requests would show whether the -1.2 points of the first 3 are by "
        "chance (an estimate)",
    ),
    (fact("compare_void", name="B", repeats=2), "2 repeats of B came out void and do not count"),
    (
        fact("compare_unpaired", one_draw=True),
        "no rate was measured by both with the same requests: give both the same --rates",
    ),
    (
        fact("compare_unpaired", one_draw=False),
        "no rate was measured by both with the same requests: give both the same --rates and the same --seed",
    ),
    (
        fact("compare_by_repeats"),
        "windows are paired as wholes, because too few of the same requests are known of both: a run file has them, a result not",
    ),
    (fact("ghost_other_limits", TTFT), "other limits, so its floors are not drawn (TTFT limit 800 ms against 500 ms)"),
    (
        fact("ghost_told", label="old.jsonl", pass_rps=10.0, fail_rps=14.0),
        "ghost old.jsonl: holds at 10.0 requests/s and fails at 14.0",
    ),
    (
        fact("ghost_told", fact("ghost_other_limits", TTFT), label="a\x1bb", pass_rps=None, fail_rps=0.0),
        "ghost a b: meets the limits at no rate; other limits, so its floors are not drawn (TTFT limit 800 ms against 500 ms)",
    ),
    (
        fact("ghost_compared", fact("compare_refused", TTFT, **NAMES), label="old.jsonl"),
        "ghost old.jsonl (A), this run (B): B cannot be compared with A: TTFT limit 800 ms against 500 ms",
    ),
]

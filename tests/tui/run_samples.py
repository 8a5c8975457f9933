"""Recorded runs as the list has them, made by hand."""

from core.history import Limits, Run

NOW_S = 1_767_225_600.0 + 40 * 86_400.0
"""The tenth of February 2026, 00:00 UTC."""
USUAL = Limits(ttft_s=0.8, tpot_s=0.05)


def listed() -> tuple[Run, ...]:
    """Every kind of row, the newest first; none of the files is there."""

    def run(number: int, day: int, label: str, model: str | None = "qwen2.5-0.5b", **facts: object) -> Run:
        began = f"2026-{1 + day // 31:02d}-{1 + day % 31:02d}T14:54:00Z"
        known = {"started_utc": began, "slo": USUAL, "mode": "quick", "outcome": "bracket", **facts}
        return Run(number=number, path=f"/nowhere/{number}.jsonl", size=1, label=label, model=model, **known)  # type: ignore[arg-type]

    return (
        run(12, 39, "chunked prefill, 16 places", pass_rps=17.46, fail_rps=24.69),
        run(11, 39, "qwen2.5-0.5b 2026-02-09 14:54", pass_rps=15.0, fail_rps=17.3),
        run(
            9,
            37,
            "before the update of the gateway that halved the tokens of each answer, as planned",
            pass_rps=120.0,
            outcome="at_least",
        ),
        run(
            7,
            30,
            "nightly",
            "Llama-3.3-70B-Instruct-AWQ-INT4",
            fail_rps=0.25,
            outcome="below",
            slo=Limits(e2e_s=10.0, target=0.999),
        ),
        run(6, 28, "nightly", "Llama-3.3-70B-Instruct-AWQ-INT4", outcome="infeasible"),
        run(5, 21, "soak", way="hold", outcome="held"),
        run(4, 21, "killed", outcome=None),
        run(
            3,
            20,
            "20260121T145400Z-tiny-1.jsonl",
            None,
            started_utc=None,
            mtime_ns=int((NOW_S - 20 * 86_400) * 1e9),
            slo=None,
            outcome=None,
            problem="foreign",
        ),
        run(2, 3, "tiny 2026-01-04 14:54", "tiny", outcome=None, problem="damaged"),
        run(1, 1, "first", "tiny", pass_rps=3.0, outcome="interrupted"),
    )

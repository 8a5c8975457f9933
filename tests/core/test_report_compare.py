"""A comparison as text, Markdown and JSON: the headline first, and all that stands behind it."""

import json
from typing import Any

from core.compare import Comparison, FleetOf, Side, compare
from core.report import brackets_table, compare_json, compare_markdown, compare_text
from core.results import FailCount, Knee, Percentiles
from core.units import DASH
from tests.core.compare.sides import asked, repeat, requests, side, step


def seen(p50_s: float, margin: float) -> Any:
    values = Percentiles(p50=p50_s, p95=3 * p50_s, n=121)
    return repeat(ttft_s=values, requests=requests(121, margin=margin))


FLEET = FleetOf(peak_rps=100.0, load_at_peak=0.7, replicas=18, gpus=36, replicas_at_fail=15, gpus_at_fail=30)
KNEE = Knee(pass_rps=8.0, first_fail_rps=10.0, clear_fail_rps=12.0, clear_fail=FailCount(failed=2, run=3), upper_rps=12.0)


def two() -> Comparison:
    """A run on two GPUs, and a better one on one."""
    a: Side = side(8.0, 12.0, label="a.jsonl", knee=KNEE, gpus=2, fleet=FLEET, server={"model": "m", "version": "0.15"})
    b = side(14.0, 16.0, label="b|.jsonl", gpus=1, server={"model": "m", "version": "0.16"}, asked=asked(mode="standard"))
    drawn = [step(2.0, "pass", *[seen(p50_s, margin)] * 3) for p50_s, margin in ((0.1, 0.5), (0.05, 0.25))]
    return compare([a := _with(a, drawn[0]), _with(b, drawn[1])])


def _with(one: Side, its: Any) -> Side:
    return side(None, None, **{name: getattr(one, name) for name in one.__struct_fields__} | {"steps": (its,)})


def test_the_brackets_stand_side_by_side_with_gpus_and_fleets() -> None:
    rows = {name: values for name, *values in brackets_table(two()).rows}
    assert rows == {
        "holds": ["8.00 req/s", "14.0 req/s"],
        "first fail": ["10.0 req/s", "16.0 req/s"],
        "clear fail": ["12.0 req/s", DASH],
        "upper end": ["12.0 req/s", "16.0 req/s"],
        "GPUs": ["2", "1"],
        "holds per GPU": ["4.00 req/s", "14.0 req/s"],
        "planned peak": ["100 req/s", DASH],
        "load at peak": ["70 %", DASH],
        "replicas at peak": ["18 (15 at the upper end)", DASH],
        "GPUs at peak": ["36 (30 at the upper end)", DASH],
    }


def test_a_bracket_without_an_end_says_so() -> None:
    none = side(None, None, outcome="infeasible", knee=Knee())
    rows = {name: values for name, *values in brackets_table(compare([side(8.0, None, outcome="at_least"), none])).rows}
    assert rows["upper end"] == ["open", "none holds"]
    assert "GPUs" not in rows, "no run tells of any"


def test_the_text_begins_with_the_headline_and_fits_a_terminal() -> None:
    lines = compare_text(two()).splitlines()
    assert lines[0] == "Compared"
    assert lines[2].startswith("B is better than A: B holds at 14.0 requests/s, 17 % above the 12.0 at which A")
    text = "\n".join(lines)
    for words in (
        "  server version  0.15   0.16",
        "  mode            quick  standard",
        "-50 % (-50 to -50)",
        "TTFT  100 ms  50.0 ms  -50 %",
    ):
        assert words in text
    assert max(map(len, lines)) <= 110


def test_the_text_says_what_would_tell_them_apart() -> None:
    text = " ".join(compare_text(compare([side(8.0, 12.0), side(9.6, 14.4)])).split())
    assert "To tell: the brackets are 50 % wide and their middles 20 % apart" in text
    assert "What differs: none." in text


def test_a_run_that_is_refused_has_no_rates() -> None:
    text = compare_text(compare([side(8.0, 10.0), side(8.0, 10.0, asked=asked(ttft_s=0.5)), side(8.0, 10.0)]))
    assert "B cannot be compared with A: other limits (TTFT limit 800 ms against 500 ms)." in " ".join(text.split())
    assert "B against A: what differs" in text
    assert "B against A: latencies" not in text
    assert "C against A: latencies" in text


def test_markdown_has_no_mark_up_of_others() -> None:
    text = compare_markdown(two())
    assert text.startswith("### kneescope: B is better than A")
    assert "| B | b\\|.jsonl | m | standard |" in text
    assert "**What differs**" in text
    assert "**Rates of both with the same requests**" in text


def test_a_terminal_gets_no_control_characters_of_a_file() -> None:
    evil = side(8.0, 10.0, label="a\x1b[2J", server={"model": "m\x07", "version": "1\x1b]0;x\x07"}, started_utc="\x9b1m")
    text = compare_text(compare([evil, side(8.0, 10.0, server={"model": "n", "version": "2"})]))
    assert all(char.isprintable() or char == "\n" for char in text)


def test_the_json_has_all_of_it() -> None:
    data = json.loads(compare_json(two()))
    assert (data["schema"], data["kind"], data["complete"]) == (2, "compare", True)
    reference, (told,) = data["reference"], data["against"]
    assert (reference["name"], reference["pass_rps"], reference["clear_fail_rps"], reference["gpus"]) == ("A", 8.0, 12.0, 2)
    assert (reference["pass_rps_per_gpu"], reference["fleet"]["replicas"]) == (4.0, 18)
    assert (told["verdict"], told["message_fact"]["code"]) == ("better", "compare_better")
    assert told["differs"] == {
        "asked": [{"what": "mode", "a": "quick", "b": "standard"}],
        "server": [{"what": "version", "a": "0.15", "b": "0.16"}],
    }
    (rate,) = told["rates"]
    assert (rate["repeats"], rate["requests"], rate["a"]["verdict"], rate["b"]["floor"]) == (3, 363, "pass", [0.99, 0.99])
    assert rate["margin"]["blocks"] == 36
    assert told["shifts"][0] == {
        **{"a_rps": 2.0, "b_rps": 2.0, "latency": "ttft_s", "percentile": "p50", "a_s": 0.1, "b_s": 0.05, "shift_frac": -0.5}
    }


def test_the_json_of_a_refusal_is_whole_and_says_so() -> None:
    found = compare([side(8.0, 10.0), side(8.0, 10.0, going=True)])
    data = json.loads(compare_json(found), parse_constant=lambda name: 1 / 0)
    assert (data["complete"], data["against"][0]["verdict"]) == (False, "refused")
    assert data["against"][0]["message"] == "B cannot be compared with A: B is still going, so it has no answer yet."

"""Whether a run meets what a pipeline asks: met, not met, or not known, never a guess between the ends of a bracket."""

from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest

from core.check import Asked, Verdict, check
from core.check import fail_rps as surely_fails
from core.compare import Side
from core.config import Mode
from core.errors import UserError
from core.facts import Fact, Figure, says
from core.report import CheckSides, check_json, check_junit, check_markdown, check_text
from core.results import FailCount, Knee, Outcome
from tests.core.compare.sides import asked, side


def run(
    pass_rps: float | None, fail_rps: float | None, outcome: Outcome = "bracket", *, mode: Mode = "standard", **given: Figure
) -> Side:
    """A run by its two ends; the upper one is a clear fail, or in quick mode the first."""
    clear_rps = None if mode == "quick" else fail_rps
    knee = Knee(pass_rps=pass_rps, first_fail_rps=fail_rps, clear_fail_rps=clear_rps)
    return side(pass_rps, fail_rps, outcome=outcome, knee=knee, asked=asked(mode=mode, **given))


OLD = run(10.0, 12.0)


@pytest.mark.parametrize(
    ("new", "verdict", "code"),
    [
        (run(9.0, 12.0), "met", "check_drop_met"),  # 0.9 * 10 is 9, whatever the last binary digit says
        (run(8.9, 9.0), "not_met", "check_drop_not_met"),
        (run(8.9, 9.1), "not_known", "check_drop_not_known"),
        (run(5.0, 9.5), "not_known", "check_drop_not_known"),
        (run(11.0, None, "at_least"), "met", "check_drop_met"),
        (run(5.0, None, "at_least"), "not_known", "check_drop_not_known"),
        (run(None, 3.0, "below"), "not_met", "check_drop_not_met"),
        (run(None, 9.5, "below"), "not_known", "check_drop_not_known"),
        (run(None, None, "infeasible"), "not_met", "check_drop_not_met"),
        (run(9.5, 12.0, "void"), "not_known", "check_no_answer"),
        (run(9.5, 12.0, "interrupted"), "not_known", "check_no_answer"),
        (run(None, None, "held"), "not_known", "check_no_answer"),
    ],
)
def test_against_an_older_run(new: Side, verdict: Verdict, code: Any) -> None:
    checked = check(new, old=OLD, max_drop_frac=0.1)
    assert checked.verdict == verdict
    assert says(checked.message, code)


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        (run(None, 4.0, "below"), run(4.0, 6.0), "met"),  # it holds what failed there
        (run(None, 4.0, "below"), run(3.0, 6.0), "not_known"),
        (run(None, 4.0, "below"), run(None, 4.0, "below"), "not_known"),
        (run(None, None, "infeasible"), run(1.0, 2.0), "met"),
        (run(None, None, "infeasible"), run(None, None, "infeasible"), "not_known"),
        (run(10.0, None, "at_least"), run(9.0, 12.0), "met"),
        (run(10.0, None, "refused"), run(10.0, 12.0), "not_known"),
    ],
)
def test_against_runs_without_one_of_the_ends(old: Side, new: Side, verdict: Verdict) -> None:
    assert check(new, old=old).verdict == verdict


@pytest.mark.parametrize(
    ("rate_rps", "verdict"), [(8.0, "met"), (10.0, "met"), (11.0, "not_known"), (12.0, "not_met"), (15.0, "not_met")]
)
def test_a_required_rate(rate_rps: float, verdict: Verdict) -> None:
    assert check(OLD, require_rps=rate_rps).verdict == verdict


@pytest.mark.parametrize(("met", "verdict"), [(True, "met"), (False, "not_met"), (None, "not_known")])
def test_a_rate_that_the_run_had_to_judge_has_the_verdict_of_its_own_repeats(met: bool | None, verdict: Verdict) -> None:
    judged = msgspec.structs.replace(OLD, asked=OLD.asked | {"require_rps": 11.0}, required_met=met)
    assert check(judged, require_rps=11.0).verdict == verdict
    assert check(judged, require_rps=11.5).verdict == "not_known"


def test_a_required_rate_fails_where_single_requests_do() -> None:
    assert check(run(None, None, "infeasible"), require_rps=0.1).verdict == "not_met"


@pytest.mark.parametrize(
    ("new", "rate_rps", "verdict"),
    [
        (run(10.0, 12.0), 12.0, "not_met"),
        (run(10.0, 12.0), 9.0, "met"),
        (run(5.0, 9.5), 5.0, "not_known"),
        (run(5.0, 9.5), 9.5, "not_met"),
    ],
)
def test_of_two_things_asked_the_worse_counts(new: Side, rate_rps: float, verdict: Verdict) -> None:
    assert check(new, old=OLD, require_rps=rate_rps).verdict == verdict


def test_in_quick_mode_the_first_fail_is_the_upper_end_unless_the_run_is_open_above() -> None:
    quick = run(5.0, 9.0, mode="quick")
    assert surely_fails(quick) == 9.0
    assert check(quick, old=run(10.0, 12.0, mode="quick")).verdict == "not_met"
    assert surely_fails(msgspec.structs.replace(quick, knee=msgspec.structs.replace(quick.knee, open_above=True))) is None


@pytest.mark.parametrize(("failed", "repeats", "clear"), [(1, 1, False), (1, 3, False), (2, 3, True), (2, 5, False)])
def test_of_a_list_the_first_fail_is_clear_by_its_count(failed: int, repeats: int, clear: bool) -> None:
    knee = Knee(pass_rps=8.0, first_fail_rps=10.0, first_fail=FailCount(failed=failed, run=repeats))
    assert surely_fails(side(8.0, 10.0, knee=knee, asked=asked(mode="standard"))) == (10.0 if clear else None)


@pytest.mark.parametrize(
    ("clear_rps", "upper_rps", "fail_rps"), [(14.0, 12.0, 12.0), (None, 12.0, 12.0), (12.0, None, 12.0), (None, None, None)]
)
def test_outside_quick_mode_a_rate_that_surely_fails_is_a_clear_fail_or_the_upper_end(
    clear_rps: float | None, upper_rps: float | None, fail_rps: float | None
) -> None:
    first = FailCount(failed=1, run=2)
    knee = Knee(pass_rps=8.0, first_fail_rps=10.0, first_fail=first, clear_fail_rps=clear_rps, upper_rps=upper_rps)
    assert surely_fails(side(8.0, 10.0, knee=knee, asked=asked(mode="standard"))) == fail_rps


@pytest.mark.parametrize(
    ("new", "what"),
    [
        (run(10.0, 12.0, ttft_s=0.5), ["ttft_s"]),
        (run(10.0, 12.0, target=0.99, e2e_s=9.0), ["e2e_s", "target"]),
        (run(10.0, 12.0, mode="quick"), ["mode"]),
        (run(10.0, 12.0, api="chat"), ["api"]),
        (run(10.0, 12.0, think_s=3.0), ["think_s"]),
        (run(10.0, 12.0, workload_seed=7, measure_s=30.0), []),  # measured otherwise, but the same is asked of the server
    ],
)
def test_runs_that_were_asked_something_else_are_not_compared(new: Side, what: list[str]) -> None:
    checked = check(new, old=OLD)
    assert isinstance(checked.message, Fact)
    facts = [each for each in (checked.message, *checked.message.of) if isinstance(each, Fact) and each.code == "check_differs"]
    assert [each.figures["what"] for each in facts] == what
    assert checked.verdict == ("not_known" if what else "met")


def test_careful_is_another_mode() -> None:
    assert check(run(10.0, 12.0, mode="quick", careful=True), old=run(10.0, 12.0, mode="quick")).verdict == "not_known"


def test_nonsense_is_refused() -> None:
    with pytest.raises(UserError, match="Nothing is asked"):
        check(OLD)
    with pytest.raises(UserError, match="--max-drop"):
        check(OLD, old=OLD, max_drop_frac=1.0)


# what is written of it

UGLY = 'a|b`<c>&"\x1b[31m\x00\ufffe\n.json'


def sides(new: Side, old: Side | None = OLD, require_rps: float | None = None) -> CheckSides:
    named = msgspec.structs.replace(new, path=UGLY)
    return CheckSides(new=named, old=old, require_rps=require_rps, max_drop_frac=0.1)


@pytest.mark.parametrize(
    ("new", "require_rps", "tags"),
    [
        (run(10.0, 12.0), 9.0, [None, None]),
        (run(8.0, 8.5), 9.0, ["failure", "failure"]),
        (run(8.0, 12.0), 8.0, ["error", None]),
        (run(10.0, 12.0, api=UGLY), None, ["error"]),
    ],
)
def test_junit_has_a_case_for_each_thing_asked(new: Side, require_rps: float | None, tags: list[str | None]) -> None:
    checked = check(new, old=OLD, require_rps=require_rps)
    suite = ElementTree.fromstring(check_junit(checked, sides(new, require_rps=require_rps)).encode())
    cases = suite.findall("testcase")
    assert [next((each.tag for each in case if each.tag != "system-out"), None) for case in cases] == tags
    assert (suite.get("tests"), suite.get("failures")) == (str(len(tags)), str(tags.count("failure")))
    assert suite.get("errors") == str(tags.count("error"))


def test_markdown_keeps_its_tables_whatever_a_file_is_called() -> None:
    text = check_markdown(check(OLD, old=OLD), sides(OLD))
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert text.startswith("### kneescope check: met\n")
    assert [line.replace("\\|", "").count("|") for line in rows] == [4, 4, 4, 5, 5, 5, 5]
    assert "\x1b" not in text
    assert "<c>" not in text.replace("\\<", "")


def test_text_names_the_verdict_first_and_no_control_characters() -> None:
    text = check_text(check(run(8.0, 8.5), old=OLD), sides(run(8.0, 8.5)))
    assert text.startswith("Check: not met\n")
    assert "\x1b" not in text


def test_json_has_every_key_and_no_infinity() -> None:
    new = run(None, None, "infeasible")
    data = msgspec.json.decode(check_json(check(new, require_rps=3.0), sides(new, None, 3.0)))
    assert set(data) == {
        *("schema", "kind", "verdict", "message", "message_fact", "require_rps", "max_drop_frac", "findings", "new", "old")
    }
    assert (data["kind"], data["verdict"], data["old"], data["max_drop_frac"]) == ("check", "not_met", None, None)
    found: list[Asked] = [each["asked"] for each in data["findings"]]
    assert found == ["require_rps"]
    assert data["new"]["fail_rps"] == 0

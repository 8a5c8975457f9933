"""What a check says of a run, as text, JSON, JUnit XML and Markdown."""

import json
from typing import Any
from xml.etree import ElementTree

import msgspec

from core import RESULT_SCHEMA, prose
from core.check import Checked, Finding, Verdict, answered, fail_rps
from core.compare import Side
from core.facts import Said
from core.report.json import finite
from core.report.markdown_parts import table
from core.report.told import told
from core.units import plain, rate_brief, rate_text

_VERDICTS: dict[Verdict, str] = {"met": "met", "not_met": "not met", "not_known": "not known"}


class CheckSides(msgspec.Struct, frozen=True, kw_only=True):
    """The runs of a check, and what was asked."""

    new: Side
    old: Side | None = None
    require_rps: float | None = None
    max_drop_frac: float


def check_text(checked: Checked, sides: CheckSides) -> str:
    """For people: the verdict, what was found, and both brackets."""
    lines = [f"Check: {_VERDICTS[checked.verdict]}", ""]
    for each in checked.findings:
        lines.append(f"{_asked(each, sides)}: {_VERDICTS[each.verdict]}")
        lines += [f"  {sentence}" for sentence in _sentences(each.why)]
    lines += ["", f"New: {_bracket(sides.new)} ({sides.new.path})"]
    if sides.old is not None:
        lines.append(f"Old: {_bracket(sides.old)} ({sides.old.path})")
    return "\n".join(_fit(line) for line in lines) + "\n"


def check_json(checked: Checked, sides: CheckSides) -> str:
    """As strict JSON, every key always there, null where not known."""
    data = {
        "schema": RESULT_SCHEMA,
        "kind": "check",
        "verdict": checked.verdict,
        **told("message", checked.message, prose.sentence),
        "require_rps": sides.require_rps,
        "max_drop_frac": None if sides.old is None else sides.max_drop_frac,
        "findings": [
            {"asked": each.asked, "verdict": each.verdict, **told("message", each.why, prose.sentence)} for each in checked.findings
        ],
        "new": _side(sides.new),
        "old": None if sides.old is None else _side(sides.old),
    }
    return json.dumps(finite(data), allow_nan=False, ensure_ascii=False, indent=2) + "\n"


def check_junit(checked: Checked, sides: CheckSides) -> str:
    """As JUnit XML: a test case for each thing asked; not met is a failure, not known an error."""
    verdicts = [each.verdict for each in checked.findings]
    suite = ElementTree.Element(
        "testsuite",
        name="kneescope check",
        tests=str(len(verdicts)),
        failures=str(verdicts.count("not_met")),
        errors=str(verdicts.count("not_known")),
        skipped="0",
    )
    for each in checked.findings:
        case = ElementTree.SubElement(suite, "testcase", classname="kneescope.check", name=_fit(_asked(each, sides)))
        sentences = " ".join(_sentences(each.why))
        if each.verdict != "met":
            kind = "failure" if each.verdict == "not_met" else "error"
            ElementTree.SubElement(case, kind, type=each.verdict, message=_fit(sentences))
        ElementTree.SubElement(case, "system-out").text = _fit(sentences)
    ElementTree.indent(suite)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(suite, encoding="unicode")}\n'


def check_markdown(checked: Checked, sides: CheckSides) -> str:
    """As Markdown, for the summary of a job."""
    rows = [(_asked(each, sides), _VERDICTS[each.verdict], " ".join(_sentences(each.why))) for each in checked.findings]
    runs = [("new", sides.new), *([("old", sides.old)] if sides.old else [])]
    return "\n".join(
        [
            f"### kneescope check: {_VERDICTS[checked.verdict]}",
            "",
            *table(("asked", "verdict", "found"), rows),
            "",
            *table(
                ("run", "holds", "fails", "file"),
                [(which, rate_brief(run.low_rps), rate_brief(fail_rps(run)), run.path) for which, run in runs],
            ),
            "",
        ]
    )


def _fit(text: str) -> str:
    """One line without control characters, which neither a terminal nor XML 1.0 has a place for."""
    return "".join(char if char.isprintable() else " " for char in text)


def _asked(finding: Finding, sides: CheckSides) -> str:
    if finding.asked == "require_rps" and sides.require_rps is not None:
        return f"Holds {rate_text(sides.require_rps)}"
    return f"Loses at most {plain(sides.max_drop_frac)} of the rate that held"


def _sentences(why: Said) -> list[str]:
    """One for each fact that stands by itself."""
    if not isinstance(why, str) and why.code == "in_turn":
        return [prose.sentence(each) for each in why.of]
    return [prose.sentence(why)]


def _bracket(run: Side) -> str:
    if not answered(run):
        return "no valid answer"
    if run.outcome == "infeasible":
        return "single requests miss the limits"
    holds, failing_rps = "no rate held" if run.low_rps is None else f"holds at {rate_text(run.low_rps)}", fail_rps(run)
    return f"{holds}, {'no rate failed for sure' if failing_rps is None else f'fails at {rate_text(failing_rps)}'}"


def _side(run: Side) -> dict[str, Any]:
    return {
        "file": run.path,
        "outcome": run.outcome,
        "pass_rps": run.low_rps,
        "first_fail_rps": run.knee.first_fail_rps,
        "clear_fail_rps": run.knee.clear_fail_rps,
        "fail_rps": fail_rps(run),
        "mode": run.asked["mode"],
    }

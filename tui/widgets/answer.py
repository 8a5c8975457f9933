"""The answer as text: what holds, what fails, how sure that is."""

import textwrap

from textual.content import Content

from core.records import Answer, FailCount, Knee, Outcome
from core.run.view import RunView
from tui.style import OUTCOMES, STYLES, Mark, Role, clean, rate
from tui.widgets import checks
from tui.widgets.ladder import floor_text
from tui.widgets.pieces import mark_part, styled

_SAID_BY_HEADLINE: tuple[Outcome, ...] = ("bracket", "at_least", "below")


def content(view: RunView, answer: Answer, width: int, height: int) -> Content:
    """Both ends with their evidence, then notes; for a simulated replica its own long-run knee. What has no room is counted."""
    texts: list[tuple[str, Role]] = []
    if answer.outcome not in _SAID_BY_HEADLINE:
        texts.append((clean(answer.message), "plain"))
    truth = _truth(view.truth_rps, answer.knee)
    if truth:
        texts.append((truth, "strong"))
    texts += [(f"· {clean(note)}", "muted") for note in answer.knee.notes]
    lines = _headlines(view, answer)
    for text, role in texts:
        hang = "  " if text.startswith("·") else ""
        lines += [Content.styled(line, STYLES[role]) for line in textwrap.wrap(text, max(20, width), subsequent_indent=hang)]
    if answer.outcome == "refused":
        lines += checks.important(view.checks, width)
    return clip(lines, height)


def clip(lines: list[Content], height: int) -> Content:
    """The lines that fit, and how many do not."""
    if len(lines) > height > 0:
        more = len(lines) - height + 1
        lines = [*lines[: height - 1], Content.styled(f"… {more} more line{'' if more == 1 else 's'}: press 1", STYLES["strong"])]
    return Content("\n").join(lines)


def _headlines(view: RunView, answer: Answer) -> list[Content]:
    """One line for each zone, as far as it is known: what holds, what is mixed, what fails."""
    knee = answer.knee
    clear = knee.clear_fail_rps is not None
    fail_rps, fails = (knee.clear_fail_rps, knee.clear_fail) if clear else (knee.first_fail_rps, knee.first_fail)
    lines = [] if answer.outcome == "bracket" else [Content.assemble(mark_part(_outcome(view, answer))).stylize("bold")]
    lines += _required(view, answer)
    if knee.pass_rps is not None:
        lines.append(_end(view, f"✔ HOLDS at {rate(knee.pass_rps)}", "holds", knee.pass_rps, _repeats(knee.pass_repeats)))
    if clear and knee.first_fail_rps is not None and fail_rps is not None and knee.first_fail_rps < fail_rps:
        failed = _counted(knee.first_fail)
        lines.append(_end(view, f"◐ MIXED from {rate(knee.first_fail_rps)}", "strong", knee.first_fail_rps, failed))
    if fail_rps is not None:
        word = "CLEARLY FAILS" if clear else "FAILS"
        lines.append(_end(view, f"✘ {word} at {rate(fail_rps)}", "breaks", fail_rps, _counted(fails)))
    return lines


def _outcome(view: RunView, answer: Answer) -> Mark:
    listed = answer.outcome == "held" and view.config is not None and bool(view.config.method.rates_rps)
    return Mark("■", "LIST FINISHED", "strong") if listed else OUTCOMES[answer.outcome]


def _required(view: RunView, answer: Answer) -> list[Content]:
    required_rps = view.config.method.require_rps if view.config else None
    met = answer.required_met
    if required_rps is None or met is None:
        return []
    mark = Mark("✔", "REQUIRED RATE HOLDS", "holds") if met else Mark("✘", "REQUIRED RATE DOES NOT HOLD", "breaks")
    return [Content.assemble(mark_part(mark), styled(f" {rate(required_rps)}", "plain")).stylize("bold")]


def _end(view: RunView, text: str, role: Role, rate_rps: float, repeats: str) -> Content:
    target = view.config.slo.target if view.config else None
    step = next((step for step in reversed(view.steps) if step.rate_rps == rate_rps and step.floor is not None), None)
    facts = (f"floor {floor_text(step, target)}" if step else "", "in the ramp" if step and step.phase == "ramp" else repeats)
    return Content.assemble(styled(f"{text:<27} ", role), styled(", ".join(fact for fact in facts if fact), "plain")).stylize(
        "bold", 0, len(text)
    )


def _repeats(n: int) -> str:
    return f"{n} repeat{'' if n == 1 else 's'}" if n else ""


def _counted(fails: FailCount | None) -> str:
    if fails is None:
        return ""
    return _repeats(fails.run) if fails.run == 1 else f"{fails.failed} of {fails.run} repeats failed"


def _truth(truth_rps: float | None, knee: Knee) -> str:
    """Where the known knee of a simulated replica lies; only the end of a demo may say it."""
    if truth_rps is None:
        return ""
    text = f"long-run knee of this simulated replica: {rate(truth_rps)}"
    fail_rps = knee.clear_fail_rps if knee.clear_fail_rps is not None else knee.first_fail_rps
    if knee.pass_rps is not None and truth_rps < knee.pass_rps:
        return f"{text}, below the rate that held here"
    if fail_rps is not None and truth_rps > fail_rps:
        return f"{text}, above the rate that failed here"
    return f"{text}, inside the bracket" if knee.pass_rps is not None and fail_rps is not None else text

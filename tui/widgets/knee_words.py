"""The knee in words: what holds and what fails, how sure that is, and why it stopped."""

import textwrap
from collections.abc import Sequence

from textual.content import Content

from core import prose
from core.facts import Said, parts
from core.report import Head, diagnosis_parts
from core.results import Answer, Diagnosis, StepResult
from core.units import rate_text
from core.view import RunView
from tui.draw.style import GHOST, VERDICTS, Role, clean
from tui.widgets import answer
from tui.widgets.curve import knee_of
from tui.widgets.pieces import styled

_HEAD = 6


def headlines(view: RunView, width: int) -> Content:
    """The answer; while the search is on, the bracket so far."""
    if (given := view.known_answer) is not None:
        return Content("\n").join([line for block in answer.headlines(view, given, width) for line in block])
    so_far = answer.zones(view, Answer(outcome="bracket", message="", knee=knee_of(view)), width)
    if so_far:
        return Content("\n").join([Content.assemble(styled("so far, the search goes on", "muted")), *so_far])
    if view.config is not None and view.config.method.hold_rps is not None:
        text = "a rate is held, no knee is looked for"
    else:
        text = "no rate is judged yet" if view.current else "the checks come first, then the ramp"
    return Content.assemble(styled(text, "muted"))


def ghost_lines(said: Said, width: int) -> list[Content]:
    """What is said of the run beside the ghost: in one line, in two where that is too narrow."""
    lines = textwrap.wrap(
        f"{GHOST.glyph} {clean(prose.text(said))}", max(20, width), max_lines=2, placeholder=" …", break_on_hyphens=False
    )
    return [Content.assemble(styled(line, "muted")) for line in lines]


def below(view: RunView, width: int, height: int, elsewhere: str) -> Content:
    """Why it breaks there, then the fitted interval and what to know beside the answer; what has no room is counted, with the
    word `elsewhere` for where it is to be found."""
    given = view.known_answer
    blocks = diagnosed(given.diagnosis, width, height) if given is not None and given.diagnosis is not None else []
    if not blocks and (why := why_lines(view, width)):
        blocks = [why]
    if given is not None:
        if text := prose.estimate(given.knee.estimate):
            blocks.append([Content.assemble(styled(line, "muted")) for line in textwrap.wrap(text, max(20, width))])
        blocks += answer.note_lines(view, given, width)
    return answer.clip(blocks, height, elsewhere)


def diagnosed(diagnosis: Diagnosis, width: int, height: int) -> list[list[Content]]:
    """The conclusion and what to do, then what it was seen by, what is open and what it is not."""
    said = {head: clean(text) for head, text in diagnosis_parts(diagnosis)}
    first = _hung("WHY", said["therefore"], width, strong=True, rows=height - 1)
    rest: tuple[tuple[str, Head], ...] = (("", "advice"), ("SEEN", "seen"), ("OPEN", "open"), ("NOT", "not"))
    return [first, *(_hung(word, said[head], width) for word, head in rest if head in said)]


def why_lines(view: RunView, width: int) -> list[Content]:
    """The reason why the search stopped where it did, in words of the judge; of the step that is the failing end."""
    step = _failing(view)
    if step is None:
        everything = view.known_answer is not None and view.known_answer.outcome == "at_least"
        return _hung("WHY", "no rate that was tried failed", width) if everything else []
    where = "a segment of the ramp, " if step.phase == "ramp" else ""
    told = list(parts(step.reason))
    failed = [repeat.reason for repeat in step.repeats if repeat.verdict == "fail"]
    others = [reason for reason in failed if reason and reason not in told]
    more = dict.fromkeys(f"{VERDICTS['fail'].glyph} {clean(prose.text(reason))}" for reason in others)
    texts = (f"{where}{rate_text(step.rate_rps)}: {clean(prose.text(step.reason))}", *more)
    return [line for at, text in enumerate(texts) for line in _hung("" if at else "WHY", text, width)]


def _failing(view: RunView) -> StepResult | None:
    """The step behind the failing end: the last full one at that rate, else the segment of the ramp."""
    failing_rps = knee_of(view).fail_rps
    steps = [step for step in view.steps if step.rate_rps == failing_rps and step.verdict in ("fail", "mixed")]
    return max(steps, key=lambda step: (step.phase != "ramp", step.step), default=None)


def _hung(head: str, text: str, width: int, *, strong: bool = False, rows: int | None = None) -> list[Content]:
    """A text behind its head; what is longer than `rows` ends in an ellipsis."""
    role: Role = "strong" if strong else "plain"
    most = None if rows is None else max(1, rows)
    first, *rest = textwrap.wrap(text, max(20, width - _HEAD), max_lines=most, placeholder=" …", break_on_hyphens=False) or [""]
    begin = Content.assemble(styled(f"{head:<{_HEAD}}", "strong"), styled(first, role))
    return [begin, *(Content.assemble(styled(" " * _HEAD + line, role)) for line in rest)]


def chosen_first(view: RunView) -> StepResult | None:
    """The step that is looked at before the user chooses: that which passed at the knee, else the last one judged."""
    passed = [step for step in view.steps if step.rate_rps == knee_of(view).pass_rps and step.verdict == "pass"]
    return passed[-1] if passed else view.steps[-1] if view.steps else None


def ordered(steps: Sequence[StepResult]) -> list[StepResult]:
    """Steps by rate, the highest first, as the table of steps has them."""
    return sorted(steps, key=lambda step: (step.rate_rps, step.step), reverse=True)

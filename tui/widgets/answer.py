"""The answer as text: what holds, what fails, how sure that is."""

import textwrap

from textual.content import Content

from core import prose, report
from core.facts import Code, says
from core.fleet_check import FleetCheck, Verdict
from core.judge import CLIENT
from core.results import Answer, FailCount, Knee, Outcome, StepResult
from core.slo import tells_nothing
from core.units import count, rate_brief, rate_text
from core.view import RunView
from tui.draw.style import OUTCOMES, STYLES, Mark, Role, clean
from tui.widgets import checks
from tui.widgets.pieces import Piece, fit, join, mark_part, styled
from tui.widgets.rate_known import failing
from tui.widgets.steps_table import floor_text

_SAID_BY_HEADLINE: tuple[Outcome, ...] = ("bracket", "at_least", "below")
_SERVER: tuple[Code, ...] = ("was_away", "restarted_between_repeats", "restarted_between_steps")
_COLD: tuple[Code, ...] = ("prompts_not_cold", "prompts_not_cold_by_usage", "prompts_cold")
_UNPROVEN: tuple[Code, ...] = ("cold_unproven_still", "cold_unproven_others", "cold_unproven_uncounted")
_IMPORTANT: tuple[tuple[Code, ...], ...] = (
    _SERVER,
    ("done_again",),
    ("sends_late", "loop_stalled", *CLIENT),
    ("warm_prompts", *_COLD, *_UNPROVEN, "hits_off", "trace_hits_off", "hits_unseen", "shared_off_plan", "shared_unproven"),
    ("bucket_fails",),
)
_FLEET: dict[Verdict, tuple[str, Role]] = {
    "holds": ("✔ holds", "holds"),
    "fails": ("✘ does not hold", "breaks"),
    "not_known": ("not judged", "muted"),
}
_NARROW = 50
_WIDE = 70
"""From here on there is room for the unit of a rate in full."""


def content(view: RunView, answer: Answer, width: int, height: int, elsewhere: str = "press 2") -> Content:
    """Both ends with their evidence, then what to know beside them, the most important first; for a simulated replica its
    own long-run knee. What has no room is counted, with the word `elsewhere` for where it is to be found."""
    return clip([*headlines(view, answer, width), *note_lines(view, answer, width)], height, elsewhere, skips=True)


def headlines(view: RunView, answer: Answer, width: int) -> list[list[Content]]:
    """The answer itself: each end with its evidence, or why there is none; for a simulated replica its own long-run knee."""
    blocks = [[line] for line in zones(view, answer, width)]
    if answer.outcome == "refused":
        blocks += [[line] for line in checks.important(view.checks, width)]
    if width < _NARROW and (check := report.fleet_check_of(view, answer)) is not None:
        blocks += [[line] for line in _fleet_brief(check)]
    elif (sentence := _sentence(view, answer)) is not None:
        blocks.append(_wrapped(sentence, "plain", width))
    truth = _truth(view.truth_rps, answer.knee)
    if truth:
        blocks.append(_wrapped(truth, "strong", width))
    if (closed := report.closed_fact(view, answer)) is not None:
        blocks.append(_wrapped(prose.sentence(closed), "muted", width))
    return blocks


def _fleet_brief(check: FleetCheck) -> list[Content]:
    """What a check of a fleet came to, where its sentence has no room and notes would stand in its place."""
    planned = [(f"planned load {rate_brief(check.planned_rps)}", check.planned)]
    lost = [] if check.after_loss is None else [(f"with {count(check.lost)} lost", check.after_loss)]
    return [
        Content.assemble(styled(f"{what}: ", "plain"), styled(_FLEET[verdict][0], _FLEET[verdict][1]))
        for what, verdict in (*planned, *lost)
    ]


def note_lines(view: RunView, answer: Answer, width: int) -> list[list[Content]]:
    """What to know beside the answer, the most important first."""
    return [_wrapped(f"· {clean(note)}", "muted", width) for note in notes(view, answer)]


def notes(view: RunView, answer: Answer) -> list[str]:
    """The notes of the report: what became of the server during the run first, then repeats that did not count, a late client,
    warm prompts and lengths that fail, what is so in every run last."""
    shown = [remark for remark in report.remarks(view) if remark.said != answer.message]
    if answer.outcome == "refused":  # its checks have rows of their own
        shown = [remark for remark in shown if remark.about != "check"]
    return [remark.text for remark in sorted(shown, key=_rank)]


def _rank(remark: report.Remark) -> int:
    found = (at for at, codes in enumerate(_IMPORTANT) if says(remark.said, *codes))
    return next(found, len(_IMPORTANT) + (remark.about == "knee"))


def _sentence(view: RunView, answer: Answer) -> str | None:
    """The answer in words, where neither the lines above nor the rows of the checks say the same."""
    if answer.outcome in _SAID_BY_HEADLINE and not says(answer.message, "fleet_holds", "fleet_holds_none"):
        return None
    if answer.outcome == "refused" and any(check.status == "refuse" for check in view.checks):
        return None
    return clean(prose.sentence(answer.alone or answer.message))


def _wrapped(text: str, role: Role, width: int) -> list[Content]:
    hang = "  " if text.startswith("·") else ""
    return [Content.styled(line, STYLES[role]) for line in textwrap.wrap(text, max(20, width), subsequent_indent=hang)]


def clip(blocks: list[list[Content]], height: int, elsewhere: str, *, skips: bool = False) -> Content:
    """The blocks that fit, none cut inside, and how many do not. `skips`: behind one that does not fit, shorter ones may."""
    lines, left = [line for block in blocks for line in block], 0
    if height > 0 and len(lines) > height:
        lines, left = [], len(blocks)
        for block in blocks:
            if len(lines) + len(block) > height - 1:
                if skips:
                    continue
                break
            lines, left = lines + block, left - 1
        lines.append(Content.styled(f"… {left} more: {elsewhere}", STYLES["strong"]))
    return Content("\n").join(lines)


def zones(view: RunView, answer: Answer, width: int) -> list[Content]:
    """One line for each zone, as far as it is known: what holds, what is mixed, what fails."""
    knee = answer.knee
    fail_rps, first_rps = knee.fail_rps, knee.first_fail_rps
    lines = [] if answer.outcome == "bracket" else [Content.assemble(mark_part(_outcome(view, answer))).stylize("bold")]
    lines += _required(view, answer)
    rate = rate_text if width >= _WIDE else rate_brief
    ends: list[tuple[str, Role, float, str]] = []
    if knee.pass_rps is not None:
        ends.append((f"✔ HOLDS at {rate(knee.pass_rps)}", "holds", knee.pass_rps, _repeats(knee.pass_repeats)))
    if first_rps is not None and (fail_rps is None or first_rps < fail_rps):
        ends.append((f"◐ MIXED from {rate(first_rps)}", "strong", first_rps, _counted(knee.first_fail)))
    if fail_rps is not None:
        word = "CLEARLY FAILS" if knee.clearly_fails else "FAILS"
        ends.append((f"✘ {word} at {rate(fail_rps)}", "breaks", fail_rps, _counted(knee.fails)))
    room = max((len(end[0]) for end in ends), default=0)
    told = [_end(view, *end, room, width) for end in ends]
    if knee.open_above:
        open_above = (styled("? OPEN ABOVE", "strong"), styled("  the knee may be higher than what failed", "muted"))
        told.insert(len(told) - (fail_rps is not None), [Content.assemble(*open_above)])
    return lines + [line for end in told for line in end]


def _outcome(view: RunView, answer: Answer) -> Mark:
    listed = answer.outcome == "held" and view.config is not None and bool(view.config.method.rates_rps)
    return Mark("■", "LIST FINISHED", "strong") if listed else OUTCOMES[answer.outcome]


def _required(view: RunView, answer: Answer) -> list[Content]:
    required_rps = view.config.method.require_rps if view.config else None
    met = answer.required_met
    if required_rps is None or met is None:
        return []
    mark = Mark("✔", "REQUIRED RATE HOLDS", "holds") if met else Mark("✘", "REQUIRED RATE DOES NOT HOLD", "breaks")
    return [Content.assemble(mark_part(mark), styled(f" {rate_text(required_rps)}", "plain")).stylize("bold")]


def _end(view: RunView, text: str, role: Role, rate_rps: float, repeats: str, room: int, width: int) -> list[Content]:
    """A line; where it is narrow the evidence has one of its own."""
    target = view.config.slo.target if view.config else None
    step = next((step for step in reversed(view.steps) if step.rate_rps == rate_rps and step.floor is not None), None)
    known: list[Piece] = []
    if step and step.floor and step.verdict == "fail" and tells_nothing(step.floor, target):
        known = failing(view, step)
    elif step:
        known = [Piece(f"floor {floor_text(step, target)}", "plain", 0), Piece(_margin(step), "plain", 2)]
    facts = [
        *known,
        Piece("in the ramp" if step and step.phase == "ramp" else repeats, "plain", 1),
    ]
    facts = [fact for fact in facts if fact.text]
    if width < _NARROW:
        return [Content.assemble(styled(text, role)).stylize("bold"), Content.assemble("  ", join(fit(facts, width - 2), ", "))]
    head = f"{text:<{room}}  "
    return [Content.assemble(styled(head, role), join(fit(facts, width - len(head)), ", ")).stylize("bold", 0, len(text))]


def _margin(step: StepResult) -> str:
    """How near a pass was that was decided early, and so has a bound for its floor: misses of its worst repeat."""
    early = [repeat for repeat in step.repeats if repeat.verdict == "pass" and repeat.curtailed]
    if step.verdict != "pass" or not early:
        return ""
    worst = max(early, key=lambda repeat: repeat.misses / max(repeat.planned, 1))
    return f"{count(worst.misses)} missed of {count(worst.planned)}"


def _repeats(n: int) -> str:
    return count(n, "repeat") if n else ""


def _counted(fails: FailCount | None) -> str:
    if fails is None:
        return ""
    return _repeats(fails.run) if fails.run == 1 else f"{fails.failed} of {fails.run} repeats failed"


def _truth(truth_rps: float | None, knee: Knee) -> str:
    """Where the known knee of a simulated replica lies; only the end of a demo may say it."""
    if truth_rps is None:
        return ""
    text = f"long-run knee of this simulated replica: {rate_text(truth_rps)}"
    fail_rps = knee.fail_rps
    if knee.pass_rps is not None and truth_rps < knee.pass_rps:
        return f"{text}, below the rate that held here"
    if fail_rps is not None and truth_rps > fail_rps:
        return f"{text}, above the rate that failed here"
    return f"{text}, inside the bracket" if knee.pass_rps is not None and fail_rps is not None else text

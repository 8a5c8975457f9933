"""The checks before load as text: glyph, word and sentence each, made to fit the room there is."""

import textwrap

from textual.content import Content

from core import prose
from core.records import Check
from core.units import clock
from core.view import RunView
from tui.draw.style import CHECKS, Role, clean, shorten
from tui.widgets.pieces import Part, Piece, styled


def title(view: RunView) -> tuple[Piece, ...]:
    """How many checks there are, and whether one of them stops the run."""
    pieces = [Piece("2 checks before load", "strong"), Piece(f"{len(view.checks)} done", "plain", 1)]
    for status, mark in CHECKS.items():
        n = sum(check.status == status for check in view.checks)
        if n and status != "pass":
            pieces.append(Piece(f"{mark.glyph} {n} {mark.word}", mark.role, 2))
    return tuple(pieces)


def ran_for(view: RunView) -> str:
    """How long the run took."""
    return clock(view.duration_s if view.duration_s is not None else view.now_s)


def content(view: RunView, width: int, height: int) -> Content:
    """All checks in full where they fit; else what passed in one line each, or in one paragraph, and only the others in full."""
    if not view.checks:
        url = view.config.target.url if view.config else "the server"
        return Content.assemble(styled(f"connecting to {clean(url)} …", "muted"))
    full = _rows(view.checks, width)
    if len(full) <= height or height <= 0:
        return Content("\n").join(full)
    passed_at = frozenset(at for at, check in enumerate(view.checks) if check.status == "pass")
    if len(_rows(view.checks, width, passed_at)) <= height:
        return Content("\n").join(_rows(view.checks, width, _most_whole(view.checks, width, height, passed_at)))
    passed = ", ".join(check.check for check in view.checks if check.status == "pass")
    lines = textwrap.wrap(f"{CHECKS['pass']}: {passed}", max(20, width))
    brief = [Content.assemble(styled(clean(line), CHECKS["pass"].role)) for line in lines]
    rest = important(view.checks, width)
    if len(brief) + len(rest) <= height:
        return Content("\n").join([*brief, *rest])
    worst = sorted(view.checks, key=lambda check: check.status != "refuse")  # what has no room below is not what stops the run
    left = max(0, height - len(rest))
    if left:
        lines = [*lines[: left - 1], shorten(" ".join(lines[left - 1 :]), width)]
        brief = [Content.assemble(styled(clean(line), CHECKS["pass"].role)) for line in lines]
    return Content("\n").join([*important(tuple(worst), width), *brief[:left]])


def important(checks: tuple[Check, ...], width: int) -> list[Content]:
    """Rows of the checks that warn or refuse."""
    return _rows(tuple(check for check in checks if check.status != "pass"), width)


def _most_whole(checks: tuple[Check, ...], width: int, height: int, brief: frozenset[int]) -> frozenset[int]:
    """Of those in one line each the ones that must stay so; the last checks, which say most, are whole first."""
    for at in sorted(brief, reverse=True):
        if len(_rows(checks, width, brief - {at})) <= height:
            brief -= {at}
    return brief


def _rows(checks: tuple[Check, ...], width: int, brief: frozenset[int] = frozenset()) -> list[Content]:
    """A row for each check and for each further line of its sentence; those at the places `brief` get no further lines."""
    name_width = max((len(check.check) for check in checks), default=0)
    indent = 10 + name_width + 2
    rows: list[Content] = []
    for at, check in enumerate(checks):
        mark = CHECKS[check.status]
        role: Role = "muted" if check.status == "pass" else "plain"
        message, room = clean(prose.sentence(check.message)), max(20, width - indent)
        lines = [shorten(message, room)] if at in brief else textwrap.wrap(message, room) or [""]
        head: list[Part] = [
            styled(f"{mark.glyph} {mark.word:<8}", mark.role),
            styled(f"{clean(check.check):<{name_width}}  ", "strong"),
            styled(lines[0], role),
        ]
        rows.append(Content.assemble(*head))
        rows.extend(Content.assemble(styled(" " * indent + line, role)) for line in lines[1:])
    return rows

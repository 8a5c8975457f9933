"""What decides the repeat that runs: good, missed and open apart, the band that it can still reach, and what does not count yet."""

import textwrap
from collections.abc import Sequence
from typing import NamedTuple

from textual.content import Content

from core import prose
from core.facts import Code, says
from core.results import Bounds
from core.slo import allowed_misses
from core.units import DASH, between, count, plain
from core.view import Outcomes, RepeatView, RunView, StepView
from tui.account import account, is_cut_off, is_whole_ramp, planned, reach
from tui.draw.style import Mark, Role, clean, shorten
from tui.widgets import band, repeat_bars
from tui.widgets.pieces import Piece, flow, join, styled
from tui.widgets.repeat_bars import UNSENT, Bar

_FAILED: tuple[Code, ...] = (
    "out_of_reach",
    "overloaded_in_warmup",
    "too_many_errors",
    "every_request_failed",
    "ended_in_errors",
    "ramp_failed",
)


_WIDE = 70
"""From here on an account has room on one line."""


class Block(NamedTuple):
    """Lines that belong together; those with the lowest rank have room first, and a block that has none is left out."""

    rank: int
    lines: list[Content]


def floor(view: RunView, step: StepView) -> tuple[float, float] | None:
    """The lowest of what the repeats of the step reached and what the running one can reach; None before anything counts."""
    now = reach(view, step)
    ends = [*step.finished, *([now] if now and not _among_finished(step) else [])]
    return (min(lo for lo, _ in ends), min(hi for _, hi in ends)) if ends else None


def state(view: RunView, step: StepView) -> Mark:
    """What nothing can change any more of the repeat that is seen, or that it is undecided."""
    target = _target(view)
    ended = _among_finished(step) or (step.live is None and len(step.finished) > 0)
    ends = step.finished[-1] if ended else reach(view, step)
    decided = step.live.decided if step.live else None
    if (ends and target is not None and ends[1] < target) or (decided is not None and says(decided, *_FAILED)):
        return Mark("✘", "below target" if ends and target is not None and ends[1] < target else "failed", "breaks")
    if ends and target is not None and ends[0] >= target:
        return Mark("✔", "target met", "holds")
    return Mark("…", "undecided", "strong")


def title(view: RunView, step: StepView, name: str) -> tuple[Piece, ...]:
    """What the panel says when only its border is seen."""
    now, target = reach(view, step), _target(view)
    aim = () if target is None else (Piece(f"target {plain(target)}", "muted", 2),)
    if now is None:
        warm = step.live is not None and step.live.warmup is not None
        told = "warm-up" if warm else "not judged yet"
        return (Piece(name, "strong"), Piece(told, "plain"), *((Piece("nothing counted yet", "muted", 1),) if warm else ()), *aim)
    mark, bounds = state(view, step), account(view, step)
    of = "of what was sent" if bounds is not None and is_whole_ramp(step, bounds) else "of the plan"
    which = _name(step) if step.repeats_planned > 1 else ""
    share = " ".join(word for word in (which, between(*now, target, DASH), of) if word)
    return (Piece(name, "strong"), Piece(share, mark.role, 1), Piece(str(mark), mark.role, 0), *aim)


class Drawn(NamedTuple):
    """What stands in the panel, and of an area over time the seconds that it spans."""

    content: Content
    span: tuple[float, float] | None = None


def draw(view: RunView, step: StepView, width: int, height: int) -> Drawn:
    """The lines that have room, the most telling first; what is left over shows the band over time."""
    blocks = _blocks(view, step, width)
    kept = _fitting(blocks, height)
    lines = [line for block in kept for line in block.lines]
    left = height - len(lines) - 1
    bounds = account(view, step)
    if step.live is None or bounds is None or left < band.LEAST_ROWS or step.phase == "ramp":
        return Drawn(Content("\n").join(lines[:height]))
    from_s = _begin_s(view, step.live)
    told = band.moments(_window(view, step, from_s), bounds)
    if not told:
        return Drawn(Content("\n").join(lines))
    span = told[0].t_s, max(from_s + step.live.length_s, told[-1].t_s + view.bin_s)
    return Drawn(Content("\n").join([*lines, Content(), band.content(told, span, _target(view), width, left)]), span)


def _window(view: RunView, step: StepView, from_s: float) -> Sequence[Outcomes]:
    """The bins of the running repeat whose requests count."""
    return [one for one in view.outcomes if one.step == step.step and one.counted and one.t_s + view.bin_s > from_s]


def _begin_s(view: RunView, live: RepeatView) -> float:
    """When the repeat that is seen began, with its warm-up.

    A repeat that did not count and is done again has the same place in the step: only the time tells them apart.
    """
    judged = [point.t_s for point in view.series if point.floor_hi is not None] if live.decided else []
    seen_s = judged[-1] + view.bin_s if judged else view.now_s
    return round(min(seen_s, view.now_s) - live.elapsed_s, 3)


def _blocks(view: RunView, step: StepView, width: int) -> list[Block]:
    """In the order in which they stand below each other."""
    live, bounds, target = step.live, account(view, step), _target(view)
    blocks: list[Block] = []
    begun = reach(view, step) is not None
    if live is not None and bounds is not None and begun:
        blocks += _counts(step, bounds, target, width)
    warm = [] if live is None or live.warmup is None else _warmup(step, live.warmup, width, begun=begun)
    blocks += [] if begun else warm
    bars = _bars(view, step)
    drawn = repeat_bars.rows([*(bar for _, bar in bars)], width)
    blocks += [Block(rank, [line]) for (rank, _), line in zip(bars, drawn, strict=True)]
    if target is not None and bars:
        blocks.append(Block(8, [repeat_bars.scale([bar for _, bar in bars], target, f"target {plain(target)}", width)]))
    if (said := _said(view, step)) is not None:
        blocks.append(Block(2, [Content.assemble(styled(line, said.role)) for line in textwrap.wrap(said.text, max(width, 20))]))
    blocks += warm if begun else []
    if not begun and live is not None and live.warmup is None:
        blocks.append(Block(4, [Content.assemble(styled(shorten("waiting for the first judged request", width), "muted"))]))
    elif not begun and bounds is not None:
        told = f"{count(bounds.planned)} planned, none due yet"
        blocks.append(Block(6, [Content.assemble(styled(shorten(told, width), "muted"))]))
    return blocks


def _counts(step: StepView, bounds: Bounds, target: float | None, width: int) -> list[Block]:
    plan = planned(step, bounds)
    first = repeat_bars.made_of(bounds, cut_off=is_cut_off(step, bounds))
    rest = [Piece(f"{UNSENT} not sent {count(plan - bounds.sent)}", "muted", 1)] if plan > bounds.sent else []
    rest.append(Piece(f"of {count(plan)} {'sent' if is_whole_ramp(step, bounds) else 'planned'}", "muted", 0))
    if bounds.overdue:
        rest.append(Piece(f"{count(bounds.overdue)} missed still open", "plain", 2))
    spare = allowed_misses(plan, target) - bounds.bad if target is not None else -1
    if spare >= 0 and plan > bounds.good + bounds.bad and not is_whole_ramp(step, bounds):
        rest.append(Piece(f"{count(spare)} more may miss", "plain", 3))
    lines = flow([*first, *rest], width, 2)
    return [Block(0 if at == 0 else 5, [join(line)]) for at, line in enumerate(lines)]


def _warmup(step: StepView, warmup: Bounds, width: int, *, begun: bool) -> list[Block]:
    """The account of the warm-up, which counts for nothing; what of it is late is known while nothing else is."""
    if not warmup.sent and begun:
        return []
    head = Piece(
        "warm-up, not counted:" if begun else "warm-up, not counted yet:", "strong" if not begun or warmup.bad else "muted"
    )
    good, missed, open_ = repeat_bars.made_of(warmup, cut_off=is_cut_off(step, warmup))
    pieces = [head, missed, good, open_, Piece(f"of {count(warmup.planned)}", "muted", 3)]
    if warmup.overdue:
        pieces.insert(2, Piece(f"({count(warmup.overdue)} still open)", "plain", 1))
    rank = 9 if begun and not warmup.bad else 3 if begun else 0
    return [Block(rank if at < 2 else 4, [join(line)]) for at, line in enumerate(flow(pieces, width, 3 if width < _WIDE else 1))]


def _bars(view: RunView, step: StepView) -> list[tuple[int, Bar]]:
    """With the rank of each: the running repeat, its warm-up, the lowest of the others (it sets the floor), the newest."""
    target, bounds, now = _target(view), account(view, step), reach(view, step)
    letter = _letter(step)
    bars: list[tuple[int, Bar]] = []
    newest = len(step.finished) - 1
    lowest = min(range(newest + 1), key=lambda at: step.finished[at], default=-1)
    for at, (lo, hi) in enumerate(step.finished):
        stands = at == newest and (step.live is None or _among_finished(step))  # it is the one that the counts are of
        rank = 1 if stands else 4 if at == lowest else 8 + newest - at
        bars.append((rank, Bar(f"{letter}{at + 1}", lo, hi - lo, 1 - hi, between(lo, hi, target, DASH), target or 1.0)))
    if step.live is None or bounds is None or _among_finished(step):
        return bars
    plan = bounds.sent if is_whole_ramp(step, bounds) else None
    text = between(*now, target, DASH) if now else "not yet"
    bars.append((1, repeat_bars.bar_of(_name(step), bounds, text, target or 1.0, plan)))
    warmup = step.live.warmup
    if warmup is not None and warmup.sent and (now is None or warmup.bad):
        bars.insert(
            0 if now is None else len(bars), (3 if now is None else 7, repeat_bars.bar_of("warm-up", warmup, "not counted"))
        )
    return bars


class _Said(NamedTuple):
    text: str
    role: Role


def _said(view: RunView, step: StepView) -> _Said | None:
    """Why the repeat is decided, or that nothing can change what it says of the target."""
    mark, target = state(view, step), _target(view)
    if step.live is not None and step.live.decided is not None:
        return _Said(f"{mark.glyph} {clean(prose.text(step.live.decided))}", mark.role)
    if target is None or mark.glyph == "…" or step.phase == "ramp":
        return None
    if mark.role == "breaks":
        return _Said(f"✘ nothing open or unsent can bring it to {plain(target)}", "breaks")
    return _Said(f"✔ {plain(target)} is certain; queue and errors are still judged", "holds")


def _fitting(blocks: Sequence[Block], height: int) -> list[Block]:
    """Those that fit, in their order; the last that has only a part of its room keeps what is whole of it."""
    kept: dict[int, Block] = {}
    left = height
    for at in sorted(range(len(blocks)), key=lambda at: (blocks[at].rank, at)):
        lines = blocks[at].lines[: max(left, 0)]
        if lines:
            kept[at] = Block(blocks[at].rank, lines)
            left -= len(lines)
    return [kept[at] for at in sorted(kept)]


def _among_finished(step: StepView) -> bool:
    """Whether the running repeat is judged: then it stands among those that ended."""
    return step.live is not None and step.live.index < len(step.finished)


def _letter(step: StepView) -> str:
    return "s" if step.phase == "hold" else "r"  # segments of a held rate are no repeats


def _name(step: StepView) -> str:
    return "ramp" if step.phase == "ramp" else f"{_letter(step)}{(step.live.index if step.live else len(step.finished)) + 1}"


def _target(view: RunView) -> float | None:
    return view.config.slo.target if view.config else None

"""The cliff: every request as a share of its limit, in the column of the rate at which it was sent."""

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, get_args

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from core.compare import Ghost
from core.config import Slo
from core.margins import AT_LIMIT, BINS, PER_DOUBLING
from core.results import Knee
from core.units import count, number, plain
from core.view import RateMargins, RunView
from tui.draw import density, symbols
from tui.draw.density import Cliff, Column, Ink, Run, Stretch
from tui.draw.style import GHOST, THEME_16, VERDICTS
from tui.draw.symbols import Symbols
from tui.phrases import limit_words
from tui.widgets.calm import CALM_S, Calm
from tui.widgets.curve import ghost_named, knee_of
from tui.widgets.pieces import Piece, fit
from tui.widgets.plot_view import Titled

NOTHING = "no request was sent yet; each rate gets a column"
_UPS, _DOWNS = (1, 2, 3, 5), (3, 4, 6, 8)
"""Doublings above and below the limit that are shown, at least: in steps, so that the axis seldom moves."""
_RAMP_DOUBLINGS = 4
"""A ramp doubles its rate: there is room from the start for so many, then for two more at a time."""
_LEAST_SPAN = 1.5
_CORNERS = 6
"""Of a border that holds a text, as of a title."""


Signs = tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class CliffContent:
    """A title that answers by itself, a picture or the sentence why there is none, and what its signs mean, in full and brief."""

    title: tuple[Piece, ...]
    body: Cliff | str
    legend: tuple[Signs, Signs] = ((), ())


class CliffPanel(Titled, can_focus=True):
    """The hero of Ramp and Knee; it grows through the run. Drawn again only when what is drawn changed, and for more requests of
    the rates that it shows once a second."""

    ALLOW_MAXIMIZE = True
    HELP = "each request as a share of its limit, at the rate at which it was sent"
    COMPONENT_CLASSES: ClassVar[set[str]] = {f"cliff--{name}" for name in (*get_args(Ink), "lane")}

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._calm = Calm[RunView](self, self._take, _is_same)
        self._ghost: Ghost | None = None
        self._body: Cliff | str = NOTHING
        self._legend: tuple[Signs, Signs] = ((), ())
        self._rows: list[Strip] = []
        self._drawn_for: tuple[Cliff | str, int, int] | None = None

    def show_view(self, view: RunView, ghost: Ghost | None = None) -> None:
        """Take a new view. `ghost`: the run whose bracket stands below that of this one, the same all along."""
        self._ghost = ghost
        self._calm.offer(view)

    def _take(self, view: RunView) -> None:
        content = content_of(view, ghost=self._ghost)
        self.set_title(content.title)
        if content.legend != self._legend:
            self._legend = content.legend
            self._fit_legend()
        if content.body != self._body:
            self._body = content.body
            self.refresh()

    def on_resize(self) -> None:
        """A new width may hold more or fewer words."""
        self._fit_title()
        self._fit_legend()

    def _fit_legend(self) -> None:
        long, short = self._legend
        room = self.outer_size.width - _CORNERS
        fits = fit(long, room) if fit(long, room) == long else fit(short, room)
        self.set_subtitle("  ".join(piece.text for piece in fits))

    def notify_style_update(self) -> None:
        """Another theme: the same rows in other colours."""
        self._drawn_for = None
        super().notify_style_update()

    def render_line(self, y: int) -> Strip:
        """One row, from the picture of this data at this size."""
        width, height = self.size
        wanted = (self._body, width, height)
        if self._drawn_for is None or self._drawn_for[1:] != wanted[1:] or self._drawn_for[0] is not self._body:
            self._rows = self._draw(width, height)
            self._drawn_for = wanted
        return self._rows[y] if y < len(self._rows) else Strip.blank(width, self.rich_style)

    def _draw(self, width: int, height: int) -> list[Strip]:
        if isinstance(self._body, str):
            lines = textwrap.wrap(self._body, max(1, width - 2))[:height]
            blank = Strip.blank(width, self.rich_style)
            style = self.get_component_rich_style("cliff--label")
            above = (height - len(lines)) // 2
            return [blank] * above + [Strip([Segment(line.center(width)[:width], style)], width) for line in lines]
        styles: dict[tuple[Ink | None, bool], Style] = {}
        rows = density.draw(self._body, width, height, symbols.in_use())
        return [Strip([self._segment(run, styles) for run in row], width) for row in rows]

    def _segment(self, run: Run, styles: dict[tuple[Ink | None, bool], Style]) -> Segment:
        lane = run.lane and self.app.theme != THEME_16.name  # 16 colours have no tint that leaves what is drawn readable
        key = (run.ink, lane)
        if key not in styles:
            style = self.get_component_rich_style(f"cliff--{run.ink}") if run.ink else self.rich_style
            under = Style(bgcolor=self.get_component_rich_style("cliff--lane").bgcolor) if lane else Style()
            styles[key] = style + under
        return Segment(run.text, styles[key])


def _is_same(before: RunView, now: RunView) -> bool:
    """Whether the same rates are shown a moment later."""
    return 0 <= now.now_s - before.now_s <= CALM_S and _shape(before) == _shape(now)


def _shape(view: RunView) -> tuple[object, ...]:
    """All that the panel shows but how many requests there are."""
    rates = [(rate.rate_rps, rate.judged > 0, rate.failed) for rate in view.margins]
    return rates, _now(view), len(view.steps), view.answer, view.config, len(view.ramp)


def content_of(view: RunView, written_in: Symbols | None = None, ghost: Ghost | None = None) -> CliffContent:
    """What the panel shows of a view. `written_in`: the characters that the legend explains, by default those in use. `ghost`: the
    run whose bracket stands below that of this one."""
    knee, slo = knee_of(view), view.config.limits if view.config else Slo()
    title = (Piece("1 cliff", "strong"), *_counts(view, knee), *_ends(knee))
    if not view.margins:
        return CliffContent(title, NOTHING)
    columns = tuple(_column(view, rate) for rate in _rates(view))
    cliff = Cliff(
        columns=columns,
        x_range=_x_range(view, columns),
        up=_up(columns),
        down=_down(columns),
        target=slo.target,
        stretches=_stretches(knee),
        first=tuple(at for at in (knee.pass_rps, knee.fail_rps, knee.first_fail_rps) if at is not None),
        going=view.answer is None,
        note=_note(view),
        limits=", ".join(limit_words(slo)),
        ghost=_ghost_stretches(ghost),
    )
    long, short = _legend(columns, slo, written_in or symbols.in_use())
    named = () if ghost is None else (Piece(ghost_named(ghost)),)
    return CliffContent(title, cliff, ((*named, *long), (*named, *short)))


# --- words --------------------------------------------------------------------------------------------------------


def _counts(view: RunView, knee: Knee) -> tuple[Piece, ...]:
    """What became of the requests at the rate that is sent; when none is, at the end of the bracket that fails, or holds."""
    now = _now(view)
    at_rps = now if now is not None else knee.pass_rps if knee.fail_rps is None else knee.fail_rps
    rate = next((rate for rate in _rates(view) if rate.rate_rps == at_rps), None)
    if rate is None:
        return ()
    at = f"{number(rate.rate_rps)} req/s{' now' if now is not None else ''}:"
    if not rate.sent:
        return (Piece(f"{at} nothing to count yet", "strong", 1),)
    over, undecided = rate.missed - rate.failed, rate.sent - rate.good - rate.missed
    return (
        Piece(f"{at} {count(over)} over the limit", "breaks" if over else "strong", 1),
        Piece(f"{count(rate.good)} good", "holds" if rate.good else "muted", 2),
        *([Piece(f"{count(rate.failed)} failed", "breaks", 1)] if rate.failed else []),
        *([Piece(f"{count(undecided)} undecided", "plain", 3)] if undecided else []),
        *([] if (part := _uncounted(view)) is None else [Piece(f"{part}, not counted", "strong", 1)]),
    )


def _uncounted(view: RunView) -> str | None:
    """Where the requests at the rate that is sent lie, while nothing of them counts; None once something does."""
    step = view.current if view.answer is None else None
    if step is None or step.live is None:
        return None
    if step.phase == "ramp":
        return "ramp"
    decided = step.live.bounds.good + step.live.bounds.bad
    return None if step.finished or decided else "warm-up"


def _ends(knee: Knee) -> tuple[Piece, ...]:
    pieces = []
    if knee.pass_rps is not None:
        pieces.append(Piece(f"{VERDICTS['pass'].glyph} holds {number(knee.pass_rps)}", "holds", 0))
    if knee.fail_rps is not None:
        word = "clearly fails at" if knee.clearly_fails else "fails at"
        pieces.append(Piece(f"{VERDICTS['fail'].glyph} {word} {number(knee.fail_rps)}", "breaks", 0))
    return tuple(pieces)


def _note(view: RunView) -> str:
    if view.current is not None and view.current.phase == "ramp":
        return "ramp: nothing judged yet"
    if "hold" in (view.current.phase if view.current else None, *(step.phase for step in view.steps)):
        return "one rate is held: no bracket is looked for"
    return "no rate is known to hold or to fail" if view.steps else "nothing judged yet"


def _legend(columns: Sequence[Column], slo: Slo, written_in: Symbols) -> tuple[Signs, Signs]:
    """What the signs mean, in full and in brief."""
    ended, open_, mark = density.ENDED[written_in], density.OPEN[written_in], plain(slo.target)
    signs = [(f"{ended} ended", f"{ended} ended", 2)]
    if any(any(column.open) for column in columns):
        signs.append((f"{open_} not ended: at least there", f"{open_} at least", 0))
    if any(low != high for low, high in filter(None, (density.quantile(column, slo.target) for column in columns))):
        here = f"{mark} of requests lie below {density.QUANTILE}, or below somewhere on {density.BETWEEN} (↑ or beyond)"
        signs.append((here, f"{mark} lie below {density.QUANTILE} {density.BETWEEN}", 0))
    else:
        signs.append((f"{mark} of requests lie below {density.QUANTILE}", f"{mark} lie below {density.QUANTILE}", 0))
    if any(not column.counted for column in columns):
        signs.append(("bright: judged windows, pale and (): only ramp and warm-up, not counted", "pale, (): not counted", 1))
    long, short = (tuple(Piece(sign[at], rank=sign[2]) for sign in signs) for at in (0, 1))  # type: ignore[arg-type]
    return long, short


# --- the picture --------------------------------------------------------------------------------------------------


def _now(view: RunView) -> float | None:
    """The rate that is sent, or that the server is being filled for."""
    current = view.current if view.answer is None else None
    return current.rate_rps if current is not None and current.rate_rps > 0 else None


def _rates(view: RunView) -> list[RateMargins]:
    """Those that were sent, and that which is to be sent next."""
    now, none = _now(view), (0,) * BINS
    rates = list(view.margins)
    if now is not None and all(rate.rate_rps != now for rate in rates):
        rates.append(RateMargins(rate_rps=now, ended=none, open=none))
    return sorted(rates, key=lambda rate: rate.rate_rps)


def _column(view: RunView, rate: RateMargins) -> Column:
    name = number(rate.rate_rps) if rate.judged else f"({number(rate.rate_rps)})"
    return Column(
        rate_rps=rate.rate_rps,
        names=tuple(dict.fromkeys((f"{_verdict(view, rate.rate_rps)}{name}", name))),
        ended=rate.ended,
        open=rate.open,
        failed=rate.failed,
        counted=rate.judged > 0,
        now=rate.rate_rps == _now(view),
    )


def _verdict(view: RunView, rate_rps: float) -> str:
    """The glyph of what was last said of a rate; a segment of the ramp that was held says nothing."""
    steps = [step for step in view.steps if step.rate_rps == rate_rps and not step.set_aside]
    said = [step.verdict for step in steps if step.phase != "ramp" or step.verdict == "fail"]
    return f"{VERDICTS[said[-1]].glyph} " if said else ""


def _x_range(view: RunView, columns: Sequence[Column]) -> tuple[float, float]:
    """All rates; while the ramp goes on, some of those that it has yet to reach."""
    low, high = columns[0].rate_rps, columns[-1].rate_rps
    if view.answer is None and not view.steps and view.current is not None and view.current.phase == "ramp":
        doublings = math.ceil(round(math.log2(high / low), 6) / 2) * 2
        return low, low * 2.0 ** max(_RAMP_DOUBLINGS, doublings)
    if low == high or high / low >= _LEAST_SPAN:
        return low, high
    room = math.sqrt(_LEAST_SPAN / (high / low))
    return low / room, high * room


def _up(columns: Sequence[Column]) -> int:
    highest = max((at for column in columns for at in range(AT_LIMIT, BINS) if column.ended[at] or column.open[at]), default=0)
    return next(up for up in _UPS if up * PER_DOUBLING > highest - AT_LIMIT)


def _down(columns: Sequence[Column]) -> int:
    """As far as what has ended: an open request begins at nothing, and rises."""
    lowest = min((at for column in columns for at in range(AT_LIMIT) if column.ended[at]), default=None)
    return _DOWNS[0] if lowest is None else next(down for down in _DOWNS if down * PER_DOUBLING >= AT_LIMIT - lowest)


def _stretches(knee: Knee) -> tuple[Stretch, ...]:
    """What the bracket says of each rate, as far as it is known."""
    passed, first, fail = knee.pass_rps, knee.first_fail_rps, knee.fail_rps
    stretches = []
    if passed is not None:
        at, glyph = number(passed), VERDICTS["pass"].glyph
        stretches.append(Stretch(None, passed, (f"{glyph} holds {at}", f"{glyph} {at}", glyph), "holds"))
    begins = fail if first is None else first if fail is None else min(first, fail)
    if passed is not None or begins is not None:
        stretches.append(Stretch(passed, begins, ("not known", "unknown", "?"), "unknown"))
    if first is not None and (fail is None or first < fail):
        glyph = VERDICTS["mixed"].glyph
        stretches.append(Stretch(first, fail, (f"{glyph} mixed from {number(first)}", f"{glyph} mixed", glyph), "mixed"))
    if fail is not None:
        at, glyph = number(fail), VERDICTS["fail"].glyph
        word = "clearly fails at" if knee.clearly_fails else "fails at"
        stretches.append(Stretch(fail, None, (f"{glyph} {word} {at}", f"{glyph} {at}", glyph), "fails"))
    return tuple(stretches)


def _ghost_stretches(ghost: Ghost | None) -> tuple[Stretch, ...]:
    """The bracket of another run; nothing where it has none. Its sign stands in each name, so that none is taken for this run's."""
    if ghost is None or (ghost.pass_rps is None and ghost.fail_rps is None):
        return ()
    sign, low, high = GHOST.glyph, ghost.pass_rps, ghost.fail_rps or None
    stretches: list[Stretch] = []
    if low is not None:
        holds = f"holds {number(low)}"
        names = (f"{sign} {GHOST.word} {holds}", f"{sign} {holds}", f"{sign} {number(low)}", sign)
        stretches.append(Stretch(None, low, names, "holds"))
    if high is not None:
        at, word = number(high), "clearly fails at" if ghost.clearly_fails else "fails at"
        fails = (f"{sign} {GHOST.word} {word} {at}", f"{sign} {word} {at}", f"{sign} fails {at}", f"{sign} {at}", sign)
        stretches.append(Stretch(high, None, fails, "fails"))
    if ghost.fail_rps == 0:
        stretches.append(Stretch(None, None, (f"{sign} {GHOST.word} meets its limits at no rate", sign), "fails"))
    return tuple(stretches)

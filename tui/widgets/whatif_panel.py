"""Sliders, and what a model of the run says of them, beside what was measured; "model" and its error stand in the title."""

import asyncio
import math
from contextlib import suppress
from contextvars import copy_context
from pathlib import Path

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from core import prose
from core.report import answer_fact, change_words
from core.results import Knee
from core.units import percent
from core.whatif import Change, Explained, Modelled, Refused
from tui.draw.style import Role
from tui.widgets.knob_slider import KnobSlider
from tui.widgets.pieces import Piece, styled
from tui.widgets.plot_view import Titled
from tui.widgets.rate_axis import axis, measured, modelled
from tui.widgets.whatif_knobs import change_of, knobs
from tui.widgets.whatif_work import Found, Work

HEAD = "what if: a model, not a measurement"
_SURE = 1.645


class WhatIfPanel(Titled, Vertical, can_focus=False):
    """Computes when it is first shown with the file of a run that is over, and again for every change of a slider."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._work: Work | None = None
        self._model: Explained | Refused | None = None
        self._knee = Knee()
        self._why = ""
        self._asked = Change()
        self._answers: dict[str, Modelled | str] = {}
        self._sliders, self._axis, self._words = Vertical(id="knobs"), Static(id="what-if-axis"), Static(id="what-if-words")
        self.settled = asyncio.Event()
        """Set while nothing is being computed."""

    def compose(self) -> ComposeResult:
        yield self._sliders
        yield self._axis
        yield self._words

    def begin(self, path: Path) -> None:
        """Make the model of this run, once."""
        if self._work is None:
            self.settled.clear()
            loop, context = asyncio.get_running_loop(), copy_context()

            def tell(found: Found) -> None:
                """In the thread of the work: hand it to the loop, unless the screen is gone by now."""
                with suppress(RuntimeError):
                    loop.call_soon_threadsafe(self._take, found, context=context)

            self._work = Work(path, tell)
            self._redraw()

    def wait(self, why: str) -> None:
        """There is nothing to make a model of yet."""
        if self._work is None and why != self._why:
            self._why = why
            self._redraw()

    def focus_next(self, steps: int) -> None:
        """To another slider, round and round."""
        sliders = list(self._sliders.query(KnobSlider))
        if sliders:
            at = next((at for at, slider in enumerate(sliders) if slider.has_focus), -1 if steps > 0 else 0)
            self.screen.set_focus(sliders[(at + steps) % len(sliders)])

    def on_resize(self) -> None:
        """Another width has other axes."""
        super().on_resize()
        self._redraw()

    def on_knob_slider_changed(self, event: KnobSlider.Changed) -> None:
        """Another change is asked for; one that was answered before needs no computing."""
        event.stop()
        if not isinstance(self._model, Explained) or self._work is None:
            return
        asked = {slider.knob: slider.asked for slider in self._sliders.query(KnobSlider)}
        self._asked = change_of(self._model.setting, asked)
        if self._asked.given and repr(self._asked) not in self._answers:
            self.settled.clear()
            self._work.want(self._asked)
        else:
            self.settled.set()
        self._redraw()

    def _take(self, found: Found) -> None:
        if not self.is_attached:
            return
        if isinstance(found, str):
            self._why = found
            self.settled.set()
        elif isinstance(found[0], Change):
            self._answers[repr(found[0])] = found[1]
            if found[0] == self._asked:
                self.settled.set()
        else:
            self._model, self._knee = found
            if isinstance(self._model, Explained):
                self._sliders.mount(*knobs(self._model.setting))
                self.call_after_refresh(self.focus_next, 1)
            self.settled.set()
        self._redraw()

    def _redraw(self) -> None:
        self.set_title(self._title_pieces())
        self._axis.update(self._axis_content())
        self._words.update(Content("\n").join(Content.assemble(styled(line, role)) for line, role in self._word_lines()))

    def _title_pieces(self) -> tuple[Piece, ...]:
        pieces = [Piece(HEAD, "strong")]
        if isinstance(self._model, Explained | Refused) and self._model.median_shift is not None:
            pieces.append(Piece(f"off by {percent(math.expm1(self._model.median_shift), 2)}", "strong", 0))
        if isinstance(self._model, Explained):
            pieces.append(Piece(f"in the median of {len(self._model.windows)} windows", "muted", 1))
        return tuple(pieces)

    def _axis_content(self) -> Content:
        if not isinstance(self._model, Explained):
            return Content("")
        error, knee = self._model.offset_se, self._model.as_modelled_rps
        ends = (knee * math.exp(-_SURE * error), knee * math.exp(_SURE * error))
        spans = [measured(self._knee.pass_rps, self._knee.fail_rps), modelled("model, as is", knee, *ends)]
        said = self._answers.get(repr(self._asked)) if self._asked.given else None
        if isinstance(said, Modelled) and said.knee_rps and said.low_rps and said.high_rps:
            spans.append(modelled("model, what if", said.knee_rps, said.low_rps, said.high_rps))
        return axis(tuple(spans), self._axis.content_size.width or self.content_size.width)

    def _word_lines(self) -> list[tuple[str, Role]]:
        if self._why:
            return [(self._why, "plain")]
        if self._model is None:
            return [("… computing the model of this run", "muted")]
        if isinstance(self._model, Refused):
            return [(prose.sentence(self._model.why), "breaks"), ("Measure the setting instead.", "muted")]
        if not self._asked.given:
            return [("↑ ↓ choose, ← → change, backspace: as in the run", "muted"), *self._notes(self._model)]
        said = self._answers.get(repr(self._asked))
        asked = ", ".join(change_words(self._asked))
        if said is None:
            return [(f"… computing: {asked}", "muted")]
        if isinstance(said, str):
            return [(said, "breaks")]
        return [(prose.sentence(answer_fact(self._model, said)), "strong"), (asked, "muted"), *self._notes(self._model)]

    def _notes(self, model: Explained) -> list[tuple[str, Role]]:
        return [(f"· {prose.sentence(note)}", "muted") for note in model.notes]

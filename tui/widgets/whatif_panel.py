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
from core.report import answer_fact, change_words, explained_fact, measured_words, window_lines
from core.results import Knee
from core.units import percent
from core.whatif import Change, Explained, Modelled, Refused, WindowShift, as_it_was
from tui.draw.style import Role
from tui.widgets.knob_slider import KnobSlider
from tui.widgets.pieces import Piece, styled
from tui.widgets.plot_view import Titled
from tui.widgets.rate_axis import axis, measured, modelled
from tui.widgets.whatif_knobs import change_of, knobs
from tui.widgets.whatif_work import Found, Work

HEAD = "what if: a model, not a measurement"
_MIDDLE, _TALL = 18, 28
"""Lines from which on there is room for the windows, without sliders and with them."""
_KEYS = "↑ ↓ choose, ← → change, backspace: as in the run"


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
        pieces, model = [Piece(HEAD, "strong")], self._model
        if isinstance(model, Explained):
            low_rps, high_rps = as_it_was(model)
            pieces.append(Piece(f"knee to {percent(math.sqrt(high_rps / low_rps) - 1, 2)}", "strong", 0))
        if model is not None and model.median_shift is not None:
            pieces.append(Piece(f"windows off by {percent(math.expm1(model.median_shift), 2)}", "plain", 1))
            pieces.append(Piece(f"in the median of {len(model.windows)}", "muted", 2))
        return tuple(pieces)

    def _axis_content(self) -> Content:
        if not isinstance(self._model, Explained):
            return Content("")
        knee_rps, ends = self._model.as_modelled_rps, as_it_was(self._model)
        spans = [measured(self._knee.pass_rps, self._knee.fail_rps), modelled("model, as is", knee_rps, *ends)]
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
            return self._refused(self._model)
        if not self._asked.given:
            return self._unasked(self._model)
        said = self._answers.get(repr(self._asked))
        asked = ", ".join(change_words(self._asked))
        if said is None:
            return [(f"… computing: {asked}", "muted")]
        if isinstance(said, str):
            return [(said, "breaks")]
        return [(prose.sentence(answer_fact(self._model, said)), "strong"), (f"Asked: {asked}", "muted"), *self._notes(self._model)]

    def _unasked(self, model: Explained) -> list[tuple[str, Role]]:
        """How far the model is off, and how to ask."""
        return [
            (prose.sentence(explained_fact(model)), "plain"),
            (_KEYS, "muted"),
            *self._notes(model),
            *self._windows(model.windows, _TALL),
        ]

    def _refused(self, model: Refused) -> list[tuple[str, Role]]:
        """Why there is no answer, beside what was measured."""
        return [
            (prose.sentence(model.why), "breaks"),
            ("", "plain"),
            (f"Measured: {measured_words(self._knee)}.", "plain"),
            ("No answer is given; measure the setting with kneescope probe.", "muted"),
            *self._windows(model.windows, _MIDDLE),
        ]

    def _windows(self, windows: tuple[WindowShift, ...], from_lines: int) -> list[tuple[str, Role]]:
        """The error by window, where there is room."""
        if not windows or self.size.height < from_lines:
            return []
        return [("", "plain"), ("Error by window:", "muted"), *((line, "muted") for line in window_lines(windows))]

    def _notes(self, model: Explained) -> list[tuple[str, Role]]:
        return [(f"· {prose.sentence(note)}", "muted") for note in model.notes]

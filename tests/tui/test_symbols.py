"""Stand-ins for characters that a terminal lacks."""

import pytest
from rich.cells import cell_len

from tests.tui import samples
from tests.tui.screen import rendered
from tui import symbols


def test_braille_changes_nothing() -> None:
    assert symbols.table("braille") == {}


@pytest.mark.parametrize("choice", ["block", "ascii"])
def test_every_stand_in_is_as_wide_as_what_it_stands_for(choice: symbols.Symbols) -> None:
    for code, sign in symbols.table(choice).items():
        assert cell_len(sign) == cell_len(chr(code)) == 1


@pytest.mark.parametrize("on", ["ramp", "knee", "fleet"])
async def test_in_ascii_nothing_else_is_left_on_any_screen(on: str) -> None:
    for view in (samples.preflight(), samples.mid_step(), samples.failing(), samples.finished(50.0)):
        text = (await rendered(view, (120, 36), on)).translate(symbols.table("ascii"))  # type: ignore[arg-type]
        assert sorted({char for char in text if not char.isascii()}) == []


@pytest.mark.parametrize(("dots", "block", "sign"), [("⠀", " ", " "), ("⠉", "▀", "'"), ("⣀", "▄", "."), ("⡇", "█", ":")])
def test_dots_become_what_has_ink_in_the_same_place(dots: str, block: str, sign: str) -> None:
    assert dots.translate(symbols.table("block")) == block
    assert dots.translate(symbols.table("ascii")) == sign

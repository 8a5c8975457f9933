"""Stand-ins for characters that a terminal lacks."""

import pytest
from rich.cells import cell_len

from tests.tui import knee_samples, samples
from tests.tui.screen import rendered
from tui.draw import symbols


def test_braille_changes_nothing() -> None:
    assert symbols.table("braille") == {}


@pytest.mark.parametrize("choice", ["block", "ascii"])
def test_every_stand_in_is_as_wide_as_what_it_stands_for(choice: symbols.Symbols) -> None:
    for code, sign in symbols.table(choice).items():
        assert cell_len(sign) == cell_len(chr(code)) == 1


@pytest.mark.parametrize("on", ["ramp", "knee", "fleet"])
async def test_in_ascii_nothing_else_is_left_on_any_screen(on: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(symbols, "_in_use", "ascii")
    for view in (samples.preflight(), samples.mid_step(), samples.failing(), samples.finished(50.0)):
        text = symbols.written(await rendered(view, (120, 36), on), "ascii")  # type: ignore[arg-type]
        assert sorted({char for char in text if not char.isascii()}) == []


async def test_in_ascii_a_bound_that_may_be_reached_is_not_told_as_one_that_may_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(symbols, "_in_use", "ascii")
    for size in ((80, 24), (120, 36), (200, 60)):
        for view, on in ((samples.failing(), "ramp"), (samples.finished(50.0), "knee"), (knee_samples.finished(), "ramp")):
            ours = await rendered(view, size, on)  # type: ignore[arg-type]
            text = symbols.written(ours, "ascii")
            assert ours.count("≤") == text.count("<=") > 0
            assert ours.count("≥") == text.count(">=")
            assert [len(row) for row in text.splitlines()] == [len(row) for row in ours.splitlines()]
            assert ("TTFT <=500 ms" in text) == ("TTFT ≤ 500 ms" in ours)
    assert symbols.written("TTFT ≤ 500 ms", "ascii") == "TTFT <=500 ms"


def test_in_braille_nothing_is_written_otherwise() -> None:
    assert symbols.written("≤ 5 ✔ ⣀", "braille") == "≤ 5 ✔ ⣀"
    assert symbols.written("≤ 5 ✔ ⣀", "block") == "≤ 5 ✔ ▄"


@pytest.mark.parametrize(("dots", "block", "sign"), [("⠀", " ", " "), ("⠉", "▀", "'"), ("⣀", "▄", "."), ("⡇", "█", ":")])
def test_dots_become_what_has_ink_in_the_same_place(dots: str, block: str, sign: str) -> None:
    assert dots.translate(symbols.table("block")) == block
    assert dots.translate(symbols.table("ascii")) == sign

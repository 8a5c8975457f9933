"""Stand-ins for characters that a terminal lacks."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.cells import cell_len

from tests.tui import knee_samples, samples
from tests.tui.screen import rendered
from tui.draw import density, symbols


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
    for size in ((200, 60), (160, 50)):
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


def texts(folder: str) -> Iterator[str]:
    """Every text that is written in the sources, but for what explains them."""
    for path in Path(folder).rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        explains = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in explains:
                yield node.value


def test_every_sign_of_the_sources_has_a_stand_in() -> None:
    ascii_table = symbols.table("ascii")
    used = {char for folder in ("tui", "core/prose") for text in texts(folder) for char in text if not char.isascii()}
    assert sorted(char for char in used if ord(char) not in ascii_table) == []


def test_in_ascii_one_sign_means_one_thing() -> None:
    """Signs that mean different things have different stand-ins; those that share one are named beside the table."""
    ours = defaultdict(set)
    for code, sign in symbols.table("ascii").items():
        if not 0x2800 <= code <= 0x28FF and f"{chr(code)} " not in symbols.PAIRS:
            ours[sign].add(chr(code))
    mixed = {sign: chars for sign, chars in ours.items() if len(chars) > 1 and not any(chars <= set(one) for one in symbols.SHARED)}
    assert mixed == {}


def test_what_requests_became_and_verdicts_and_the_load_are_told_apart() -> None:
    signs = "█▒·\u2573┃✔✘✗⊘◐…●○◑■▲▾▰▱╭─│▶‖"
    written = [symbols.written(f"{sign} ", "ascii") for sign in signs]
    shared = {"╭", "─", "│"}  # what frames
    apart = [text for sign, text in zip(signs, written, strict=True) if sign not in shared]
    assert len(set(apart)) == len(apart)
    assert not {text for sign, text in zip(signs, written, strict=True) if sign in shared} & set(apart)


def test_the_cliff_has_the_signs_of_the_bars_and_none_that_means_something_else() -> None:
    """What density draws as ASCII goes past the table: its signs are held against those of the table here."""
    same = {density.ENDED["ascii"]: "█", density.OPEN["ascii"]: "▒"}
    assert {sign: symbols.written(ours, "ascii") for sign, ours in same.items()} == {sign: sign for sign in same}
    table = {chr(code): sign for code, sign in symbols.table("ascii").items() if not 0x2800 <= code <= 0x28FF}
    lines = {density._ASCII_LINES[kind]: density._LINES[kind] for kind in density._LINES}
    for sign, meant in lines.items():
        assert {ours for ours, theirs in table.items() if theirs == sign} - set(symbols.LINES + "–—·") == set(), (sign, meant)  # noqa: RUF001
    drawn = [density.NOW, density.QUANTILE, density.BETWEEN, density.ABOVE, density.FAILED, *same]
    written = [symbols.written(sign, "ascii") for sign in drawn]
    assert len({*written, *lines}) == len(written) + len(lines)


def test_a_pair_takes_its_blank_wherever_it_is_written() -> None:
    """A sign whose stand-in needs two cells is followed by a blank in every text that ends behind it."""
    for text in (*texts("tui/widgets"), *texts("tui/screens")):
        for sign in "≤≥▶‖":
            assert text.count(sign) == text.count(f"{sign} "), text

"""Text in columns, by the cells that a terminal gives it."""

import pytest

from core.columns import cells, cut, padded


@pytest.mark.parametrize(
    ("text", "wide"), [("", 0), ("abc", 3), ("é", 1), ("e\u0301", 1), ("日本語", 6), ("😀x", 3), ("\uff41", 2)]
)
def test_a_text_takes_its_cells(text: str, wide: int) -> None:
    assert cells(text) == wide
    assert cells(padded(text, 10)) == 10


@pytest.mark.parametrize(
    ("text", "width", "left"),
    [
        ("abcdef", 6, "abcdef"),
        ("abcdef", 4, "abc…"),
        ("日本語", 6, "日本語"),
        ("日本語", 5, "日本…"),
        ("日本語", 4, "日…"),
        ("日本", 1, "…"),
    ],
)
def test_what_has_no_room_is_cut_between_characters(text: str, width: int, left: str) -> None:
    assert cut(text, width) == left
    assert cells(left) <= width

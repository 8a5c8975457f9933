"""Facts on a line are dropped whole, the least important first."""

from hypothesis import given
from hypothesis import strategies as st

from tui.widgets.pieces import Piece, fit, flow, join

PIECES = st.lists(
    st.builds(Piece, st.text(alphabet="ab1", min_size=1, max_size=12), st.just("plain"), st.integers(0, 5)), max_size=10
)


def test_the_most_important_stay_and_then_what_has_room() -> None:
    pieces = [Piece("aaaa", rank=1), Piece("bbbb", rank=0), Piece("cccc", rank=1), Piece("dddd", rank=2)]
    assert [piece.text for piece in fit(pieces, 22)] == ["aaaa", "bbbb", "cccc", "dddd"]
    assert [piece.text for piece in fit(pieces, 21)] == ["aaaa", "bbbb", "cccc"]
    assert [piece.text for piece in fit(pieces, 15)] == ["aaaa", "bbbb"]
    assert [piece.text for piece in fit(pieces, 4)] == ["bbbb"]
    assert [piece.text for piece in fit([Piece("long fact", rank=1), Piece("a"), Piece("b", rank=2)], 5)] == ["a", "b"]


def test_flow_fills_lines_before_it_drops() -> None:
    pieces = [Piece("aaaa"), Piece("bbbb"), Piece("cccc", rank=1)]
    assert [[piece.text for piece in line] for line in flow(pieces, 10, 2)] == [["aaaa", "bbbb"], ["cccc"]]
    assert [[piece.text for piece in line] for line in flow(pieces, 10, 1)] == [["aaaa", "bbbb"]]


@given(PIECES, st.integers(0, 60), st.integers(1, 3))
def test_what_is_kept_fits_and_stays_in_order(pieces: list[Piece], width: int, rows: int) -> None:
    lines = flow(pieces, width, rows)
    assert len(lines) <= rows
    assert all(join(line).cell_length <= width for line in lines)
    kept = [id(piece) for line in lines for piece in line]
    order = [id(piece) for piece in pieces]
    assert [at for at in order if at in kept] == kept
    assert join(fit(pieces, width)).cell_length <= width

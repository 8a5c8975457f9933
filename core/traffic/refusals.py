"""When rows that cannot be used are too many."""

from core.errors import UserError
from core.facts import Fact, fact
from core.units import count

MOST_BAD = 0.01
"""Of the rows that a run draws. More is another format or a broken file, and what is left of it is no fair sample."""

_NAMED = 5


def too_many_bad(bad: int, good: int) -> bool:
    """Whether so many bad rows beside so many good ones are more than 1 %."""
    return bad > MOST_BAD * (bad + good)


class BadRows(UserError):
    """More than 1 % of the rows drawn cannot be used, or none can. `found` is the whole as a fact, with the reason for each row."""

    def __init__(self, name: str, file: str, bad: tuple[Fact, ...], drawn: int, good: int) -> None:
        bad = tuple(sorted(bad, key=_at))
        self.found = fact("rows_refused", *bad[:_NAMED], file=file, bad=drawn - good, drawn=drawn)
        self.bad = bad
        rows = f"{count(drawn - good)} of the {count(drawn, 'row')} drawn cannot be used"
        limit = "no row is left" if not good else "more than 1 % is not allowed"
        where = ", ".join(f"{each.figures['unit']} {each.figures['at']}" for each in bad[:_NAMED])
        more = ", …" if drawn - good > _NAMED else ""
        super().__init__(f"{name}: {file}: {rows}, {limit}" + (f" ({where}{more})." if bad else "."))


def _at(bad: Fact) -> int:
    """Where a row stands: rows are drawn in a random order, and looked for from the beginning of a file."""
    at = bad.figures["at"]
    return at if isinstance(at, int) else 0

"""Runs beside one of them: each is compared with that, or it is said why it cannot be. Pure."""

from collections.abc import Iterator, Sequence
from string import ascii_uppercase

import msgspec

from core.compare.decision import Verdict, decide
from core.compare.pairs import PairedRate, one_draw, paired
from core.compare.shifts import Shift, shifts
from core.compare.side import ASKED, LIMITS, WORKLOAD, Side
from core.facts import Code, Fact, Figure, fact

MOST_SIDES = len(ascii_uppercase)
"""Each has a letter."""
_NO_ANSWER = ("void", "refused")
_MUST_AGREE: tuple[tuple[Code, Sequence[str]], ...] = (("compare_other_limits", LIMITS), ("compare_other_work", WORKLOAD))


class Against(msgspec.Struct, frozen=True, kw_only=True):
    """One run against the reference. `asked` and `server`: what differs, one fact each. `headline`: the verdict, or for "refused"
    why there is none; `tells`: what would tell them apart; `notes`: what else is to be known."""

    name: str
    side: Side
    verdict: Verdict
    headline: Fact
    tells: tuple[Fact, ...] = ()
    asked: tuple[Fact, ...] = ()
    server: tuple[Fact, ...] = ()
    notes: tuple[Fact, ...] = ()
    rates: tuple[PairedRate, ...] = ()
    shifts: tuple[Shift, ...] = ()


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """The reference, called `name`, and the others, each against it."""

    name: str
    reference: Side
    against: tuple[Against, ...]

    @property
    def sides(self) -> tuple[tuple[str, Side], ...]:
        """All runs with their letters."""
        return ((self.name, self.reference), *((each.name, each.side) for each in self.against))

    @property
    def complete(self) -> bool:
        """Whether every run could be compared."""
        return all(each.verdict != "refused" for each in self.against)


def compare(sides: Sequence[Side]) -> Comparison:
    """The first against each of the others. Raises ValueError for fewer than two, and for more than there are letters."""
    if not 2 <= len(sides) <= MOST_SIDES:
        raise ValueError(f"{len(sides)} runs cannot be compared")
    reference, *others = sides
    named = zip(ascii_uppercase[1:], others, strict=False)
    return Comparison(
        name=ascii_uppercase[0],
        reference=reference,
        against=tuple(_against(reference, side, name, ascii_uppercase[0]) for name, side in named),
    )


def _against(a: Side, b: Side, name: str, reference: str) -> Against:
    asked, server = tuple(_differences(a.asked, b.asked, ASKED)), tuple(_differences(a.server, b.server))
    why = tuple(_refusals(a, b, asked, name, reference))
    if why:
        headline = fact("compare_refused", *why, name=name, reference=reference)
        return Against(name=name, side=b, verdict="refused", headline=headline, asked=asked, server=server)
    rates = paired(a, b)
    verdict, headline, tells = decide(a, b, rates, name, reference)
    return Against(
        name=name,
        side=b,
        verdict=verdict,
        headline=headline,
        tells=tells,
        asked=asked,
        server=server,
        notes=tuple(_notes(a, b, rates, name, reference)),
        rates=rates,
        shifts=shifts(a, b),
    )


def _differences(a: dict[str, Figure], b: dict[str, Figure], order: Sequence[str] = ()) -> Iterator[Fact]:
    """Each thing that is not the same, with both values; one that only one of them tells of is none."""
    for what in order or dict.fromkeys((*a, *b)):
        one, other = a.get(what), b.get(what)
        if one != other and (order or (one is not None and other is not None)):
            yield fact("differs", what=what, a=one, b=other)


def _refusals(a: Side, b: Side, asked: Sequence[Fact], name: str, reference: str) -> Iterator[Fact]:
    for side, its in ((a, reference), (b, name)):
        if side.going:
            yield fact("compare_going", name=its)
        elif side.held_rps is not None:
            yield fact("compare_held", name=its, rate_rps=side.held_rps)
        elif side.outcome in _NO_ANSWER or (side.outcome != "infeasible" and side.low_rps is None and side.high_rps is None):
            yield fact("compare_no_answer", name=its, outcome=side.outcome)
    for code, names in _MUST_AGREE:
        others = [each for each in asked if each.figures["what"] in names]
        if others:
            yield fact(code, *others)


def _notes(a: Side, b: Side, rates: Sequence[PairedRate], name: str, reference: str) -> Iterator[Fact]:
    for side, its in ((a, reference), (b, name)):
        if side.voids:
            yield fact("compare_void", name=its, repeats=side.voids)
    if not rates:
        yield fact("compare_unpaired", one_draw=one_draw(a, b))
    elif not any(rate.requests for rate in rates):
        yield fact("compare_by_repeats")

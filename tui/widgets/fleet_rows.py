"""What a fleet comes to: its size at both ends of the bracket, and what becomes of each replica when one or two are lost."""

from typing import NamedTuple

from textual.content import Content

from core import fleet
from core.results import Knee
from core.run.view import RunView
from tui.plots import Upright
from tui.style import Mark, count, number, percent, rate
from tui.widgets.answer import clearly
from tui.widgets.curve import fail_rps, floor_at
from tui.widgets.pieces import Piece, fit, join, styled

_LOST = (("at peak", 0), ("one lost", 1), ("two lost", 2))
_HOLDS, _MIXED, _FAILS = Mark("✔", "holds", "holds"), Mark("◐", "mixed", "strong"), Mark("✘", "fails", "breaks")
_NOT_KNOWN = Mark("?", "not measured", "strong")


class Case(NamedTuple):
    """The peak over the replicas that are left; `rate_rps` None: none is left."""

    name: str
    replicas: int
    rate_rps: float | None


def cases(plan: fleet.Fleet | None) -> tuple[Case, ...]:
    """All replicas there, one lost, two lost; of the fleet that is sized by the rate that held."""
    if plan is None or plan.at_pass is None:
        return ()
    n, peak_rps = plan.at_pass.replicas, plan.peak_rps
    return tuple(Case(name, n - lost, peak_rps / (n - lost) if n > lost else None) for name, lost in _LOST if n >= lost)


def marks(plan: fleet.Fleet | None) -> tuple[Upright, ...]:
    """The same on the measured curve."""
    return tuple(
        Upright(case.rate_rps, f"{case.name} {number(case.rate_rps)}", "bright" if at == 0 else "middle")
        for at, case in enumerate(cases(plan))
        if case.rate_rps is not None
    )


def as_measured(view: RunView, knee: Knee, rate_rps: float) -> tuple[Mark, str]:
    """What was seen at a rate, never more: below the rate that held the next higher one that passed speaks for it."""
    passed, first, clear = knee.pass_rps, knee.first_fail_rps, knee.clear_fail_rps
    if passed is not None and rate_rps <= passed:
        held = [step.rate_rps for step in view.steps if step.verdict == "pass" and step.phase != "ramp"]
        above = min((at for at in held if at >= rate_rps), default=passed)
        return _HOLDS, f"{rate(above)} passed, floor {floor_at(view, above)}"
    if first is None or rate_rps < first:
        return _NOT_KNOWN, f"above {rate(passed)} that held" + ("" if first is None else f", below {number(first)} that failed")
    if clear is not None and rate_rps < clear:
        return _MIXED, f"{rate(first)} was mixed"
    return _FAILS, f"{rate(clear if clear is not None else first)} failed"


def result(view: RunView, knee: Knee, plan: fleet.Fleet | None, price: float | None, width: int) -> Content:
    """The fleet in figures, what if, and the same at the failing end."""
    if knee.pass_rps is None:
        return Content()
    if plan is None or plan.at_pass is None:
        return Content.assemble(styled("type the peak of all users together, in requests per second", "strong"))
    lines = [*_ends(view, knee, plan, price, width), Content(), *_what_if(view, knee, plan, width), Content()]
    assumed = (Piece("assumes Poisson arrivals, an even split", "muted", 0), Piece("and this mix of lengths", "muted", 1))
    return Content("\n").join([*lines, join(fit(assumed, width, 1), " ")])


def sizes(size: fleet.FleetSize, price: float | None) -> str:
    """Replicas, GPUs, and what they cost an hour where a price is known."""
    cost = () if price is None else (f"{money(size.gpus * price)} $/h",)
    return "   ".join((plural(size.replicas, "replica"), plural(size.gpus, "GPU"), *cost))


def money(amount: float) -> str:
    """With two decimals, and of large sums none."""
    return f"{amount:,.2f}" if amount < 10_000 else f"{amount:,.0f}"


def plural(n: int, word: str) -> str:
    """`1 GPU`, `2 GPUs`."""
    return f"{count(n)} {word}{'' if n == 1 else 's'}"


def _ends(view: RunView, knee: Knee, plan: fleet.Fleet, price: float | None, width: int) -> list[Content]:
    """Both ends of the bracket: where the truth between them lies is not known."""
    known = [(word, size) for word, size in (("holds", plan.at_pass), ("fails", plan.at_fail)) if size is not None]
    room = max(len(sizes(size, price)) for _, size in known)
    lines = []
    for word, size in known:
        sure = word == "holds"
        mark, _ = as_measured(view, knee, size.per_replica_rps)
        each = () if sure else (Piece(f"{rate(size.per_replica_rps)} each {mark}", mark.role, 1),)
        by = f"sized by {rate(size.replica_rps)}, which holds" if sure else f"if it were {rate(size.replica_rps)}, which fails"
        pieces = (Piece(f"{sizes(size, price):<{room}}", "strong" if sure else "plain", 0), Piece(by, "muted", 0), *each)
        lines.append(join(fit(pieces, width, 3), "   "))
    return lines


def _what_if(view: RunView, knee: Knee, plan: fleet.Fleet, width: int) -> list[Content]:
    lines = [Content.assemble(styled(f"{'':<9}{'each gets':>10}{'of safe rate':>14}   as measured", "muted"))]
    for case in cases(plan):
        name = styled(f"{case.name:<9}", "muted")
        if case.rate_rps is None or knee.pass_rps is None:
            lines.append(Content.assemble(name, styled("   ✘ no replica is left", "breaks")))
            continue
        mark, words = as_measured(view, knee, case.rate_rps)
        share = percent(case.rate_rps / knee.pass_rps)
        seen = fit((Piece(str(mark), mark.role, 0), Piece(words, "muted", 1)), width - 36)
        lines.append(Content.assemble(name, styled(f"{rate(case.rate_rps):>10}{share:>14}   ", "plain"), join(seen)))
    return lines


def replica(view: RunView, knee: Knee, gpus: int, known: bool, width: int) -> Content:
    """The one replica that was measured."""
    if knee.pass_rps is None:
        return Content.assemble(styled("no rate has held yet, so there is nothing to divide a peak by", "muted"))
    pieces = [Piece("one replica", "muted", 3), Piece(f"holds {rate(knee.pass_rps)}", "holds", 0)]
    if (failing := fail_rps(knee)) is not None:
        word = "clearly fails" if clearly(knee) else "fails"
        pieces.append(Piece(f"{word} {rate(failing)}", "breaks", 1))
    pieces.append(Piece(f"{plural(gpus, 'GPU')} each{'' if known else ' (assumed)'}", "muted", 2))
    return join(fit(pieces, width))

"""What a fleet comes to: its size at both ends of the bracket, what it survives and costs, and what limits one replica."""

import textwrap
from collections.abc import Iterable
from typing import NamedTuple

from textual.content import Content

from core import fleet, prose, report
from core.config import FleetAsk
from core.results import Knee
from core.units import count, money, number, percent, rate_brief
from core.view import RunView
from tui.draw.plots import Upright
from tui.draw.style import Mark, Role
from tui.widgets.answer import clip
from tui.widgets.curve import floor_at
from tui.widgets.pieces import Piece, fit, join, mark_part, styled

_LOST = {1: "one lost", 2: "two lost"}
_HOLDS, _MIXED, _FAILS = Mark("✔", "holds", "holds"), Mark("◐", "mixed", "strong"), Mark("✘", "fails", "breaks")
_NOT_KNOWN, _NOT_MEASURED = Mark("?", "not known", "strong"), Mark("?", "not measured", "strong")
_NAME, _LEAST_WHY, _WIDE = 9, 30, 110
_ELSEWHERE = "c copies all"

Block = list[Content]


class Case(NamedTuple):
    """The peak over the replicas that are left; `rate_rps` None: none is left."""

    name: str
    replicas: int
    rate_rps: float | None


def cases(plan: fleet.Fleet | None) -> tuple[Case, ...]:
    """All replicas there, one lost, two lost; of the fleet that is sized by the rate that held."""
    if plan is None or plan.at_pass is None:
        return ()
    n = plan.at_pass.replicas
    lost = [Case(_LOST[loss.lost], n - loss.lost, loss.per_replica_rps) for loss in plan.losses]
    return (Case("at peak", n, plan.at_pass.per_replica_rps), *(lost or [Case(_LOST[1], 0, None)]))


def marks(plan: fleet.Fleet | None) -> tuple[Upright, ...]:
    """The same on the measured curve."""
    return tuple(
        Upright(case.rate_rps, f"{case.name} {number(case.rate_rps)}", "bright" if at == 0 else "middle")
        for at, case in enumerate(cases(plan))
        if case.rate_rps is not None
    )


def as_measured(view: RunView, knee: Knee, rate_rps: float) -> tuple[Mark, str]:
    """What was seen at a rate, never more: below the rate that held the next higher one that passed speaks for it."""
    passed, first, upper = knee.pass_rps, knee.first_fail_rps, knee.fail_rps
    if passed is not None and rate_rps <= passed:
        held = [step.rate_rps for step in view.steps if step.verdict == "pass" and step.phase != "ramp"]
        above = min((at for at in held if at >= rate_rps), default=passed)
        return _HOLDS, f"{rate_brief(above)} passed, floor {floor_at(view, above)}"
    if first is None or rate_rps < first:
        return _NOT_MEASURED, f"above {rate_brief(passed)} that held" + (
            "" if first is None else f", below {number(first)} that failed"
        )
    if upper is None or rate_rps < upper:
        return _MIXED, f"{rate_brief(first)} was mixed"
    return _FAILS, f"{rate_brief(upper)} failed"


def result(
    view: RunView, knee: Knee, plan: fleet.Fleet | None, gates: fleet.Gates, ask: FleetAsk, width: int, height: int
) -> Content:
    """The fleet in figures, what if, the marks, the cost, what limits one replica: as much as `height` rows hold, the first first.
    Reasons and room between the parts are there where all of it fits."""
    limits = gate_blocks(gates, width)
    if knee.pass_rps is None or plan is None or plan.at_pass is None:
        text = "" if knee.pass_rps is None else "type the peak of all users together, in requests per second"
        first = [[Content.assemble(styled(text, "strong"))]] if text else []
        return clip([*first, *limits], height, _ELSEWHERE)
    arrivals, split, lengths = map(prose.text, plan.assumptions)
    assumed = (Piece(f"assumes {arrivals}, {split}", "muted", 0), Piece(f"and {lengths}", "muted", 1))
    ends, if_lost = [_ends(view, knee, plan, ask.cost_per_gpu_h, width)], [_what_if(view, knee, plan, width)]
    last = [*_cost(plan, width), *limits, [join(fit(assumed, width, 1), " ")]]
    whys = mark_blocks(plan, width, reasons=True)
    for parts in ([ends, if_lost, whys, last], [[*ends, *if_lost, *whys, *last]]):
        apart: list[Block] = [block for part in parts for block in (*part, [Content()])][:-1]
        if sum(map(len, apart)) <= height:
            return Content("\n").join([line for block in apart for line in block])
    binds, others = limits[: gates.message is not None], limits[gates.message is not None :]
    whys = mark_blocks(plan, width, reasons=False)
    return clip([*ends, *if_lost, *whys, *binds, *_cost(plan, width), *others, last[-1]], height, _ELSEWHERE)


def checked(view: RunView, width: int, height: int) -> Content:
    """Of a run that checked a fleet, what that came to; no fleet is sized by it, for its rates are not those of one replica."""
    rows = report.fleet_check_rows(view, report.answer_of(view))
    first, second = (max((len(row[at]) for row in rows), default=0) for at in (0, 1))
    indent = first + second + 4
    blocks: list[Block] = []
    for name, figure, what in rows:
        head, *more = textwrap.wrap(what, max(20, width - indent)) or [""]
        known = Content.assemble(styled(f"{name:<{first}}  {figure:<{second}}  ", "strong"), styled(head, "plain"))
        blocks.append([known, *(Content.assemble(styled(f"{'':{indent}}{line}", "plain")) for line in more)])
    said = textwrap.wrap("size a fleet by the run of one replica: `kneescope fleet --run RUN`", max(20, width))
    blocks.append([Content(), *(Content.assemble(styled(line, "muted")) for line in said)])
    return clip(blocks, height, _ELSEWHERE)


def load_words(ask: FleetAsk, plan: fleet.Fleet | None, width: int) -> Block:
    """The load at peak in words, and what it costs where it is low."""
    words: Block = [Content.assemble(styled(prose.load_at_peak(ask.headroom), "plain"))]
    found = fleet.low_load_before(ask) if plan is None else fleet.low_load(plan)
    return words if found is None else [*words, *_warned(prose.sentence(found), width)]


def _warned(text: str, width: int) -> Block:
    lines = textwrap.wrap(f"▲ {text}", max(20, width), subsequent_indent="  ")
    return [Content.assemble(styled(line, "strong")) for line in lines]


def verdict(plan: fleet.Fleet | None, width: int) -> Block:
    """Whether the load at peak that is set survives all marks, and which one binds."""
    if plan is None or not (text := report.fleet_verdict(plan)):
        return []
    mark = _FAILS if any(each.holds is False for each in plan.marks) else _HOLDS
    first, *rest = textwrap.wrap(f"{mark.glyph} {text}", max(20, width), subsequent_indent="  ")
    return [Content.assemble(styled(line, mark.role if mark is _FAILS else "strong")) for line in (first, *rest)]


def mark_blocks(plan: fleet.Fleet, width: int, *, reasons: bool) -> list[Block]:
    """A row for each mark: the highest load at peak at which it still holds, the replicas that this takes, and the reason, beside
    or below where there is no room beside."""
    head = f"{'mark':<{_NAME}}highest load at peak at which it still holds"
    blocks: list[Block] = [[Content.assemble(styled(head, "muted"))]]
    widest = max(_NAME, *(len(prose.mark_label(mark.why)) + 2 for mark in plan.marks))
    for mark in plan.marks if reasons else sorted(plan.marks, key=lambda mark: not mark.binds):
        seen = {True: _HOLDS, False: _FAILS, None: _NOT_KNOWN}[mark.holds]
        needs = "" if mark.replicas is None else count(mark.replicas, "replica")
        figures = f"{prose.mark_label(mark.why):<{widest}}{report.mark_number(mark):>5}  {needs:<13}"
        binds = "◂ binds" if mark.binds else ""
        row = [styled(figures, "strong" if mark.binds else "plain"), mark_part(seen), styled(f"  {binds:<7}", "strong")]
        line = Content.assemble(*row)
        room = width - line.cell_length - 2
        if not reasons:
            blocks.append([line])
        elif room >= _LEAST_WHY:
            first, *rest = textwrap.wrap(prose.text(mark.why), room)
            hang = " " * (line.cell_length + 2)
            blocks.append([Content.assemble(*row, styled(f"  {first}", "muted")), *_muted(hang + more for more in rest)])
        else:
            blocks.append(
                [line, *_muted(textwrap.wrap(prose.text(mark.why), max(20, width), initial_indent="  ", subsequent_indent="  "))]
            )
    return blocks


def gate_blocks(gates: fleet.Gates, width: int) -> list[Block]:
    """What limits one replica: which gate binds at the knee, then each by itself."""
    said = sorted(report.gates_told(gates), key=lambda told: told[0] != "binds")
    blocks: list[Block] = []
    refused = gates.speed is not None and gates.speed.refuses
    for part, text in said:
        lines = textwrap.wrap(text, max(20, width), subsequent_indent="  ", break_on_hyphens=False)
        role: Role = "breaks" if refused and part == "speed" else "plain" if part == "binds" else "muted"
        blocks.append([Content.assemble(styled(line, role)) for line in lines])
    return blocks


def _muted(lines: Iterable[str]) -> Block:
    return [Content.assemble(styled(line, "muted")) for line in lines]


def _cost(plan: fleet.Fleet, width: int) -> list[Block]:
    """Per hour and per million output tokens, and what scaling to the mean rate would save."""
    cost = plan.cost
    if cost is None:
        return []
    pieces = []
    if cost.per_hour is not None:
        pieces.append(Piece(f"{'cost':<{_NAME}}{money(cost.per_hour)} $/h", "strong", 0))
    if cost.per_million_at_peak is not None:
        pieces.append(Piece(f"{money(cost.per_million_at_peak)} $ per million output tokens at peak", "plain", 1))
    if cost.per_million_at_mean is not None:
        pieces.append(Piece(f"{money(cost.per_million_at_mean)} $ at the mean", "plain", 2))
    blocks: list[Block] = [[join(fit(pieces, width, 3), "   ")]] if pieces else []
    if cost.mean_rps is not None and cost.mean_replicas is not None and cost.saved_gpus is not None:
        saved = "" if cost.saved_per_hour is None else f", {money(cost.saved_per_hour)} $/h"
        facts = (
            Piece(f"{'mean':<{_NAME}}{rate_brief(cost.mean_rps)} needs {count(cost.mean_replicas, 'replica')}", "plain", 0),
            Piece(f"scaling to it saves at most {count(cost.saved_gpus, 'GPU')}{saved}", "plain", 1),
        )
        blocks.append([join(fit(facts, width, 3), "   ")])
    return blocks


def sizes(size: fleet.FleetSize, price: float | None) -> str:
    """Replicas, GPUs, and what they cost an hour where a price is known."""
    cost = () if price is None else (f"{money(size.gpus * price)} $/h",)
    return "   ".join((count(size.replicas, "replica"), count(size.gpus, "GPU"), *cost))


def _ends(view: RunView, knee: Knee, plan: fleet.Fleet, price: float | None, width: int) -> list[Content]:
    """Both ends of the bracket: where the truth between them lies is not known."""
    ends = (("holds", plan.at_pass), ("fails", plan.at_fail), ("p90", plan.at_p90_output))
    known = [(word, size) for word, size in ends if size is not None]
    room = max(len(sizes(size, price)) for _, size in known)
    long_answers = "if all answers were as long as the p90" if width >= _WIDE else "p90 answers"
    lines = []
    for word, size in known:
        by = {
            "holds": f"sized by {rate_brief(size.replica_rps)}, which holds",
            "fails": f"if it were {rate_brief(size.replica_rps)}, which fails",
            "p90": f"{long_answers}: {rate_brief(size.replica_rps)}, estimated",
        }[word]
        sure = word == "holds"
        mark, _ = as_measured(view, knee, size.per_replica_rps)
        each = (Piece(f"{rate_brief(size.per_replica_rps)} each {mark}", mark.role, 1),) if word == "fails" else ()
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
        lines.append(Content.assemble(name, styled(f"{rate_brief(case.rate_rps):>10}{share:>14}   ", "plain"), join(seen)))
    return lines


def replica(view: RunView, knee: Knee, gpus: int, known: bool, width: int) -> Content:
    """The one replica that was measured; several behind a gateway count as one."""
    if knee.pass_rps is None:
        return Content.assemble(styled("no rate has held yet, so there is nothing to divide a peak by", "muted"))
    behind = len(view.server.replicas) if view.server else 0
    who = Piece("one replica", "muted", 3) if behind < 2 else Piece(f"{count(behind, 'replica')} as one", "plain", 1)
    pieces = [who, Piece(f"holds {rate_brief(knee.pass_rps)}", "holds", 0)]
    if (failing := knee.fail_rps) is not None:
        word = "clearly fails at" if knee.clearly_fails else "fails at"
        pieces.append(Piece(f"{word} {rate_brief(failing)}", "breaks", 1))
    elif knee.open_above:
        pieces.append(Piece("open above: the knee may be higher than what failed", "strong", 1))
    pieces.append(Piece(f"{count(gpus, 'GPU')} each{'' if known else ' (assumed)'}", "muted", 2))
    return join(fit(pieces, width))

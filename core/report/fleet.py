"""The fleet for people: lines of text, and for scripts: plain data. Both stand in a run's report and in `kneescope fleet`."""

import math
import textwrap
from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from core import fleet, prose
from core.config import FleetAsk
from core.facts import Fact, Said, fact
from core.report.told import told, told_all
from core.units import count, number, percent, plain, rate_text

GatePart = Literal["speed", "helps", "measured", "memory", "binds"]


def fleet_data(
    ask: FleetAsk, unit: fleet.Unit, plan: fleet.Fleet | None, gates: fleet.Gates, evidence: fleet.Evidence
) -> dict[str, Any]:
    """All of it with every key always there, None where not known or not asked for."""
    safe, notes = (plan.at_pass, fleet.notes_of(plan)) if plan else (None, ())
    return {
        "peak_rps": plan.peak_rps if plan else None,
        "mean_rps": ask.mean_rps,
        "headroom": ask.headroom,
        "replicas": safe.replicas if safe else None,
        "gpus": safe.gpus if safe else None,
        "gpus_per_endpoint": unit.gpus,
        "unit": {**msgspec.to_builtins(unit), "engines": unit.engines, "gpus": unit.gpus},
        "at_pass": msgspec.to_builtins(safe),
        "at_fail": msgspec.to_builtins(plan.at_fail) if plan else None,
        "open_above": plan.open_above if plan else None,
        "at_p90_output": msgspec.to_builtins(plan.at_p90_output) if plan else None,
        "losses": msgspec.to_builtins(plan.losses) if plan else [],
        "marks": [_mark(mark) for mark in plan.marks] if plan else [],
        "cost": msgspec.to_builtins(plan.cost) if plan else None,
        **told_all("notes", notes, prose.sentence),
        "speed": None if gates.speed is None else _speed(gates.speed),
        "memory": None if gates.memory is None else _memory(gates.memory),
        "binds": gates.binds,
        "margin": gates.margin,
        **told_all("assumptions", fleet.assumptions_of(evidence)),
    }


def _mark(mark: fleet.Mark) -> dict[str, Any]:
    figures = msgspec.to_builtins(mark)
    del figures["why"]
    head = {"name": mark.name, "label": prose.mark_label(mark.why)}
    return {**head, **figures, **told("why", mark.why)}


def _speed(gate: fleet.SpeedGate) -> dict[str, Any]:
    return {
        **msgspec.to_builtins(gate),
        **told("contradiction", gate.contradiction),
        **told_all("helps", gate.helps),
        **told("message", gate.message, _closed),
    }


def _memory(gate: fleet.MemoryGate) -> dict[str, Any]:
    return {**msgspec.to_builtins(gate), **told_all("notes", gate.notes, prose.sentence), **told("message", gate.message, _closed)}


def _closed(said: Said) -> str:
    return f"{prose.text(said)}."


def fleet_lines(plan: fleet.Fleet, width: int) -> list[str]:
    """The sized fleet: both ends, what it survives, what it costs, what it assumes."""
    gpus = f"{count(plan.gpus_per_endpoint, 'GPU')} per replica{'' if plan.layout_known else ' (assumed)'}"
    head = f"Fleet for a peak of {rate_text(plan.peak_rps)}, {prose.load_at_peak(plan.headroom)}, {gpus}:"
    lines = [*_wrap(head, width), "  if one replica carries     replicas   GPUs   load of each at peak"]
    ends = (("holds", plan.at_pass), ("fails", plan.at_fail), ("p90", plan.at_p90_output))
    lines += [_row(word, size) for word, size in ends if size is not None]
    notes = [unit_text(plan.unit), *fleet_notes(plan), f"Assumes {', '.join(map(prose.text, plan.assumptions))}."]
    return [*lines, *(line for note in notes for line in _wrap(note, width, "  ")), *_mark_lines(plan, width)]


def fleet_notes(plan: fleet.Fleet) -> list[str]:
    """In sentences: that the upper end is open, what the estimate for long answers is, what each replica gets at peak and with some
    lost, what it costs."""
    return list(map(prose.sentence, fleet.notes_of(plan)))


def gate_lines(gates: fleet.Gates, width: int, replicas: int = 0) -> list[str]:
    """What limits one replica, or several `replicas` behind the address that was measured: the floor of its speed, what its memory
    holds, and which of both binds at the knee."""
    said, who = gate_texts(gates), f"the {count(replicas, 'replica')} together" if replicas > 1 else "one replica"
    return [f"What limits {who}:", *(line for text in said for line in _wrap(text, width, "  "))] if said else []


def gates_told(gates: fleet.Gates) -> list[tuple[GatePart, str]]:
    """The same as sentences, each with what it tells of."""
    said: list[tuple[GatePart, str]] = []
    if gates.speed is not None:
        speed = gates.speed
        said.append(("speed", f"Speed: {_closed(speed.message)}"))
        if speed.helps:
            said.append(("helps", prose.sentence(fact("limit_helps", *speed.helps))))
        if (measured := _measured(speed)) is not None:
            said.append(("measured", f"Measured: {_closed(measured)}"))
    if gates.memory is not None:
        said.append(("memory", f"Memory: {_closed(gates.memory.message)}"))
        said += [("memory", prose.sentence(note)) for note in gates.memory.notes]
    if gates.message is not None:
        said.append(("binds", prose.sentence(gates.message)))
    return said


def _measured(speed: fleet.SpeedGate) -> Fact | None:
    """What a single stream says of the floor."""
    if speed.contradiction is not None or speed.eta_reached is None:
        return speed.contradiction
    return fact("stream_measured", measured_s=speed.measured_s, eta_reached_frac=speed.eta_reached)


def gate_texts(gates: fleet.Gates) -> list[str]:
    """The sentences alone."""
    return [text for _, text in gates_told(gates)]


def work_lines(tokens: fleet.Tokens | None, width: int) -> list[str]:
    """What one request weighs, where both lengths are known."""
    if tokens is None or tokens.mean_input is None or tokens.prefill_dots is None or tokens.decode_dots is None:
        return []
    means = f"{count(round(tokens.mean_input))} tokens in, {count(round(tokens.mean_output))} out (means)"
    dots = f"{number(tokens.prefill_dots)} in the prefill, {number(tokens.decode_dots)} while decoding"
    text = f"One request: {means}. Dot products of attention, per head and layer: {dots}."
    return _wrap(text, width)


def unit_text(unit: fleet.Unit) -> str:
    """What one replica is."""
    engines = f"{count(unit.engines, 'engine')} (TP {unit.tp}, PP {unit.pp}, DP {unit.dp})"
    assumed = "" if unit.known else "; sizes that are neither given nor told by the server count as 1"
    return f"One replica is one endpoint: {engines}, {count(unit.gpus, 'GPU')}{assumed}."


def mark_number(mark: fleet.Mark) -> str:
    """In whole percent, cut off: a rounded mark might not hold any more."""
    if mark.rho is None:
        return "-"
    return plain(math.floor(round(100 * mark.rho, 6)) / 100)


def fleet_verdict(plan: fleet.Fleet) -> str:
    """Whether the load at peak that is set survives all marks, and which one binds."""
    binding = [mark for mark in plan.marks if mark.binds]
    if not binding:
        return ""
    failing = [mark for mark in plan.marks if mark.holds is False]
    if not failing:
        within = f"{prose.load_brief(plan.headroom)} is within all marks"
        return f"{within[0].upper()}{within[1:]}; {_names(binding)} binds ({mark_number(binding[0])})."
    needed = max(mark.replicas for mark in failing if mark.replicas is not None)
    how = "which no load at peak gives" if binding[0].rho is None else f"at most {mark_number(binding[0])}"
    takes = f"that takes {count(needed, 'replica')}, {how}"
    return f"Load at peak {plain(plan.headroom)} does not hold for {_names(failing)}: {takes}."


def _names(marks: Iterable[fleet.Mark]) -> str:
    return " and ".join(prose.mark_label(mark.why) for mark in marks)


def _row(word: str, size: fleet.FleetSize) -> str:
    load = f"{rate_text(size.per_replica_rps)}, {percent(size.load_frac, 2)}"
    return f"  {rate_text(size.replica_rps):>17} {f'({word})':<7}  {count(size.replicas):>8}  {count(size.gpus):>5}   {load}"


def _mark_lines(plan: fleet.Fleet, width: int) -> list[str]:
    """One mark a line, with the reason under hanging indent."""
    if not plan.marks:
        return []
    lines = ["  Marks (the highest load at peak, after rounding replicas up, at which it still holds):"]
    labels = [prose.mark_label(mark.why) for mark in plan.marks]
    for mark, label in zip(plan.marks, labels, strict=True):
        figure = f"{mark_number(mark)}{' binds' if mark.binds else ''}"
        head = f"    {label:<{max(map(len, labels))}}  {figure:<12}"
        lines += textwrap.wrap(head + prose.text(mark.why), width, subsequent_indent=" " * len(head), drop_whitespace=True)
    return [*lines, *_wrap(fleet_verdict(plan), width, "  ")]


def _wrap(text: str, width: int, first: str = "") -> list[str]:
    return textwrap.wrap(text, width, initial_indent=first, subsequent_indent=first + "  ", break_on_hyphens=False)

"""The fleet for people: lines of text, and for scripts: plain data. Both stand in a run's report and in `kneescope fleet`."""

import math
import textwrap
from typing import Any, Literal

import msgspec

from core.config import FleetAsk
from core.fleet.cost import Cost
from core.fleet.lengths import Tokens
from core.fleet.marks import Mark
from core.fleet.memory import Gates
from core.fleet.plan import ASSUMPTIONS, Fleet
from core.fleet.sizing import FleetSize, Unit
from core.units import as_set, count, latency, money, number, percent, rate_text

GatePart = Literal["speed", "helps", "measured", "memory", "binds"]
OPEN_ABOVE = "The bracket is open above: the knee may be higher than every rate that failed, so fewer replicas might do."


def fleet_data(ask: FleetAsk, unit: Unit, fleet: Fleet | None, gates: Gates) -> dict[str, Any]:
    """All of it with every key always there, None where not known or not asked for."""
    safe = fleet.at_pass if fleet else None
    return {
        "peak_rps": fleet.peak_rps if fleet else None,
        "mean_rps": ask.mean_rps,
        "headroom": ask.headroom,
        "replicas": safe.replicas if safe else None,
        "gpus": safe.gpus if safe else None,
        "gpus_per_endpoint": unit.gpus,
        "unit": {**msgspec.to_builtins(unit), "engines": unit.engines, "gpus": unit.gpus},
        "at_pass": msgspec.to_builtins(safe),
        "at_fail": msgspec.to_builtins(fleet.at_fail) if fleet else None,
        "open_above": fleet.open_above if fleet else None,
        "at_p90_output": msgspec.to_builtins(fleet.at_p90_output) if fleet else None,
        "losses": msgspec.to_builtins(fleet.losses) if fleet else [],
        "marks": msgspec.to_builtins(fleet.marks) if fleet else [],
        "cost": msgspec.to_builtins(fleet.cost) if fleet else None,
        "speed": msgspec.to_builtins(gates.speed),
        "memory": msgspec.to_builtins(gates.memory),
        "binds": gates.binds,
        "margin": gates.margin,
        "assumptions": list(ASSUMPTIONS),
    }


def fleet_lines(fleet: Fleet, width: int) -> list[str]:
    """The sized fleet: both ends, what it survives, what it costs, what it assumes."""
    gpus = f"{count(fleet.gpus_per_endpoint, 'GPU')} per replica{'' if fleet.layout_known else ' (assumed)'}"
    head = f"Fleet for a peak of {rate_text(fleet.peak_rps)} at headroom {as_set(fleet.headroom)}, {gpus}:"
    lines = [*_wrap(head, width), "  if one replica carries     replicas   GPUs   load of each at peak"]
    ends = (("holds", fleet.at_pass), ("fails", fleet.at_fail), ("p90", fleet.at_p90_output))
    lines += [_row(word, size) for word, size in ends if size is not None]
    notes = [unit_text(fleet.unit), *fleet_notes(fleet), f"Assumes {', '.join(fleet.assumptions)}."]
    return [*lines, *(line for note in notes for line in _wrap(note, width, "  ")), *_mark_lines(fleet, width)]


def fleet_notes(fleet: Fleet) -> list[str]:
    """In sentences: that the upper end is open, what the estimate for long answers is, what each replica gets at peak and with some
    lost, what it costs."""
    return [*([OPEN_ABOVE] if fleet.open_above else []), *_p90_text(fleet), *_peak_texts(fleet), *_cost_text(fleet.cost, fleet)]


def gate_lines(gates: Gates, width: int) -> list[str]:
    """What limits one replica: the floor of its speed, what its memory holds, and which of both binds at the knee."""
    said = gate_texts(gates)
    return ["What limits one replica:", *(line for text in said for line in _wrap(text, width, "  "))] if said else []


def gates_told(gates: Gates) -> list[tuple[GatePart, str]]:
    """The same as sentences, each with what it tells of."""
    said: list[tuple[GatePart, str]] = []
    if gates.speed is not None:
        speed = gates.speed
        said.append(("speed", f"Speed: {speed.message}"))
        if speed.helps:
            said.append(("helps", f"What would help, each by itself: {'; '.join(speed.helps)}."))
        if speed.contradiction is not None:
            said.append(("measured", f"Measured: {speed.contradiction}."))
        elif speed.eta_reached is not None and speed.measured_s is not None:
            tpot = f"a single stream has a TPOT of {latency(speed.measured_s)}"
            said.append(("measured", f"Measured: {tpot}: eta is {percent(speed.eta_reached, 2)}."))
    if gates.memory is not None:
        told = (f"Memory: {gates.memory.message}", *gates.memory.notes)
        said += [("memory", text) for text in told]
    if gates.message:
        said.append(("binds", gates.message))
    return said


def gate_texts(gates: Gates) -> list[str]:
    """The sentences alone."""
    return [text for _, text in gates_told(gates)]


def work_lines(tokens: Tokens | None, width: int) -> list[str]:
    """What one request weighs, where both lengths are known."""
    if tokens is None or tokens.mean_input is None or tokens.prefill_dots is None or tokens.decode_dots is None:
        return []
    means = f"{count(round(tokens.mean_input))} tokens in, {count(round(tokens.mean_output))} out (means)"
    dots = f"{number(tokens.prefill_dots)} in the prefill, {number(tokens.decode_dots)} while decoding"
    text = f"One request: {means}. Dot products of attention, per head and layer: {dots}."
    return _wrap(text, width)


def unit_text(unit: Unit) -> str:
    """What one replica is."""
    engines = f"{count(unit.engines, 'engine')} (TP {unit.tp}, PP {unit.pp}, DP {unit.dp})"
    assumed = "" if unit.known else "; sizes that are neither given nor told by the server count as 1"
    return f"One replica is one endpoint: {engines}, {count(unit.gpus, 'GPU')}{assumed}."


def mark_number(mark: Mark) -> str:
    """Two decimals, cut off: a rounded mark might not hold any more."""
    if mark.rho is None:
        return "-"
    return f"{math.floor(100 * mark.rho + 1e-9) / 100:.2f}"


def verdict_of(fleet: Fleet) -> str:
    """Whether the headroom that is set survives all marks, and which one binds."""
    binding = [mark for mark in fleet.marks if mark.binds]
    if not binding:
        return ""
    names = " and ".join(mark.label for mark in binding)
    failing = [mark for mark in fleet.marks if mark.holds is False]
    if not failing:
        return f"Headroom {as_set(fleet.headroom)} is within all marks; {names} binds ({mark_number(binding[0])})."
    needed = max(mark.replicas for mark in failing if mark.replicas is not None)
    over = " and ".join(mark.label for mark in failing)
    how = "which no headroom gives" if binding[0].rho is None else f"headroom {mark_number(binding[0])}"
    return f"Headroom {as_set(fleet.headroom)} does not hold for {over}: that takes {count(needed, 'replica')}, {how}."


def _row(word: str, size: FleetSize) -> str:
    load = f"{rate_text(size.per_replica_rps)}, {percent(size.load_frac, 2)}"
    return f"  {rate_text(size.replica_rps):>17} {f'({word})':<7}  {count(size.replicas):>8}  {count(size.gpus):>5}   {load}"


def _p90_text(fleet: Fleet) -> list[str]:
    if fleet.at_p90_output is None or fleet.mean_output is None or fleet.p90_output is None:
        return []
    return [
        f"p90 is an estimate, not measured: the rate that holds times {number(fleet.mean_output)}/{number(fleet.p90_output)}, as "
        "if every answer were as long as the 90th percentile."
    ]


def _peak_texts(fleet: Fleet) -> list[str]:
    """What each replica gets at peak, with all of them and with some lost, beside what was measured there."""
    safe = fleet.at_pass
    whole = [] if safe is None else [("With all replicas", safe.per_replica_rps, safe.load_frac, True, safe.floor, safe.floor_rps)]
    less = [(f"With {n.lost} lost", n.per_replica_rps, n.load_frac, n.holds, n.floor, n.floor_rps) for n in fleet.losses]
    return [
        f"{name} each gets {rate_text(rate_rps)} at peak, {percent(frac, 2)} of what holds{'' if holds else ': too much'}"
        f"{_floor_text(floor, floor_rps)}."
        for name, rate_rps, frac, holds, floor, floor_rps in [*whole, *less]
    ]


def _floor_text(floor: float | None, floor_rps: float | None) -> str:
    """The measured floor, cut off rather than rounded so that it stays true."""
    if floor is None or floor_rps is None:
        return ""
    return f"; measured at {rate_text(floor_rps)}: floor {percent(floor, rounded=math.floor)}"


def _cost_text(cost: Cost | None, fleet: Fleet) -> list[str]:
    if cost is None:
        return []
    texts = []
    if cost.per_hour is not None:
        parts = [f"{money(cost.per_hour)} an hour"]
        if cost.per_million_at_peak is not None:
            parts.append(f"{money(cost.per_million_at_peak)} per million output tokens while the peak lasts")
        if cost.per_million_at_mean is not None:
            parts.append(f"{money(cost.per_million_at_mean)} at the mean rate")
        texts.append(f"Cost: {', '.join(parts)}.")
    if cost.mean_rps is not None and cost.mean_replicas is not None and cost.saved_gpus is not None and cost.saved_frac is not None:
        saved = "" if cost.saved_per_hour is None else f", {money(cost.saved_per_hour)} an hour"
        texts.append(
            f"The mean rate of {rate_text(cost.mean_rps)} needs {count(cost.mean_replicas, 'replica')}: scaling to it would save "
            f"{count(cost.saved_gpus, 'GPU')} on average at most ({percent(cost.saved_frac, 2)}{saved})."
        )
    return texts


def _mark_lines(fleet: Fleet, width: int) -> list[str]:
    """One mark a line, with the reason under hanging indent."""
    if not fleet.marks:
        return []
    lines = ["  Marks (the largest headroom, after rounding replicas up, at which it still holds):"]
    widest = max(len(mark.label) for mark in fleet.marks)
    for mark in fleet.marks:
        number = f"{mark_number(mark)}{' binds' if mark.binds else ''}"
        head = f"    {mark.label:<{widest}}  {number:<12}"
        lines += textwrap.wrap(head + mark.why, width, subsequent_indent=" " * len(head), drop_whitespace=True)
    return [*lines, *_wrap(verdict_of(fleet), width, "  ")]


def _wrap(text: str, width: int, first: str = "") -> list[str]:
    return textwrap.wrap(text, width, initial_indent=first, subsequent_indent=first + "  ", break_on_hyphens=False)

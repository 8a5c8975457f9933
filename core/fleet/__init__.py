"""From the bracket to a fleet: replicas and GPUs for a peak, what limits one replica, and how much load at peak it may take."""

from core.fleet.check import FLOOR, speed_check
from core.fleet.cost import Cost, price_per_million
from core.fleet.evidence import End, Evidence, Held, evidence_of
from core.fleet.lengths import Tokens, answers_of, attention_dots, tokens_of
from core.fleet.marks import Mark
from core.fleet.memory import Gates, MemoryGate, gates
from core.fleet.notes import low_load, low_load_before, notes_of
from core.fleet.plan import Fleet, Loss, assumptions_of, floor_at, plan
from core.fleet.sizing import FleetSize, Unit, gpus_per_endpoint, size, unit_of
from core.fleet.speed import SpeedGate, speed_gate, tpot_floor_s

__all__ = [
    "FLOOR",
    "Cost",
    "End",
    "Evidence",
    "Fleet",
    "FleetSize",
    "Gates",
    "Held",
    "Loss",
    "Mark",
    "MemoryGate",
    "SpeedGate",
    "Tokens",
    "Unit",
    "answers_of",
    "assumptions_of",
    "attention_dots",
    "evidence_of",
    "floor_at",
    "gates",
    "gpus_per_endpoint",
    "low_load",
    "low_load_before",
    "notes_of",
    "plan",
    "price_per_million",
    "size",
    "speed_check",
    "speed_gate",
    "tokens_of",
    "tpot_floor_s",
    "unit_of",
]

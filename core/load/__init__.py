"""The open loop: child processes that send each request of a plan at its time, and a test of what this machine can send.

Others import these names, and nothing else of the room.
"""

from core.load.generator import Generator
from core.load.selftest import LATE_S, Findings, Rung, self_test

__all__ = [
    "LATE_S",
    "Findings",
    "Generator",
    "Rung",
    "self_test",
]

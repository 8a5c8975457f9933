"""The open loop: child processes that send each request of a plan at its time, and a test of what this machine can send. For
processes of the kind on other machines: how they are spoken with, and how several become one.

Others import these names, and nothing else of the room.
"""

from core.load.generator import Generator, child_command
from core.load.merge import Merge
from core.load.protocol import Command, Heartbeat, Inlet, Share, encode
from core.load.selftest import LATE_S, Findings, Rung, self_test

__all__ = [
    "LATE_S",
    "Command",
    "Findings",
    "Generator",
    "Heartbeat",
    "Inlet",
    "Merge",
    "Rung",
    "Share",
    "child_command",
    "encode",
    "self_test",
]

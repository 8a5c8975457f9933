"""Processes that are nobody's children here: whether one is there, and when none of several is any more."""

import asyncio
import os
from contextlib import suppress
from pathlib import Path

from tests.core.load.server import WAIT_S


def is_there(pid: int) -> bool:
    """Whether it runs; a zombie, which has ended and which nobody has waited for, does not."""
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return state_of(pid) not in ("", "Z") if Path("/proc/self").exists() else True
    return False


def state_of(pid: int) -> str:
    """One letter, as ps shows it; nothing for a process that is not there."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return ""


async def gone(*pids: int, within_s: float = WAIT_S) -> None:
    """Returns once none of them is there. Raises TimeoutError."""
    async with asyncio.timeout(within_s):
        while any(map(is_there, pids)):  # noqa: ASYNC110 (nothing tells of the end of somebody else's child)
            await asyncio.sleep(0.02)

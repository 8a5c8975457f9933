"""The child's watch on itself: how late its event loop wakes, and how much of a core it uses."""

import asyncio
import resource
import sys
import time

PERIOD_S = 0.02


class LoopMeter:
    """Two readings that are reset when taken: the largest loop lag in seconds, and CPU time per wall time (1.0 is one core)."""

    def __init__(self) -> None:
        self._lag_s = 0.0
        self._wall, self._cpu = time.monotonic(), time.process_time()

    async def wait(self, seconds: float) -> None:
        """Sleep that long in short steps, noting how late each step ends."""
        end = time.monotonic() + seconds
        while (now := time.monotonic()) < end:
            due = now + min(PERIOD_S, end - now)
            await asyncio.sleep(due - now)
            self._lag_s = max(self._lag_s, time.monotonic() - due)

    def lap(self) -> tuple[float, float]:
        """(largest loop lag, CPU share) since the last lap."""
        wall, cpu = time.monotonic(), time.process_time()
        share = (cpu - self._cpu) / (wall - self._wall) if wall > self._wall else 0.0
        lag_s, self._lag_s = self._lag_s, 0.0
        self._wall, self._cpu = wall, cpu
        return lag_s, share


def memory_peak_bytes() -> int:
    """The most memory that this process has had so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024

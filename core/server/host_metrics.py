"""What a GPU or host exporter says: NVIDIA's DCGM exporter and Prometheus' node exporter, read from one address.

Names are those of dcgm-exporter's default counters (etc/default-counters.csv) and of node_exporter 1.x.
"""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable

import httpx

from core.records import MachineSample
from core.server.exposition import Rows, ScrapeError, rows_of
from core.server.http import DEADLINE_S, Caller, Credential, HttpError, public
from core.server.metrics import Exposition, read_exposition, regularly

INTERVAL_S = 1.0
"""DCGM's own figures are renewed only every few seconds."""

LARGE = 48 * 1024
"""Characters of an exposition of which every line counts (2,048 series of 256 processors are 110 KB, 45 ms) that is read beside the
event loop."""

_UTIL, _DRAM, _TENSOR = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_DRAM_ACTIVE", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"
_USED, _FREE = "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE"
_CPU, _MEM_FREE, _MEM_ALL = "node_cpu_seconds_total", "node_memory_MemAvailable_bytes", "node_memory_MemTotal_bytes"
_WANTED = frozenset({_UTIL, _DRAM, _TENSOR, _USED, _FREE, _CPU, _MEM_FREE, _MEM_ALL})
_IDLE = ("idle", "iowait")
_NOTHING = "there is neither a DCGM nor a node exporter's metric in the answer."


def parse_machine(exposition: Exposition) -> MachineSample:
    """Its values; what is not exposed is None. Raises ScrapeError when nothing of it is known here."""
    rows = rows_of(exposition.text, exposition.content_type, _WANTED)
    if not rows:
        raise ScrapeError(_NOTHING)
    util = _values(rows, _UTIL)
    return MachineSample(
        t=exposition.t,
        took_s=exposition.took_s,
        gpus=max(map(len, (util, _values(rows, _DRAM), _values(rows, _USED)))) or None,
        gpu_frac=_mean([value / 100 for value in util]),  # percent; the profiling fields are shares already
        dram_frac=_mean(_values(rows, _DRAM)),
        tensor_frac=_mean(_values(rows, _TENSOR)),
        gpu_memory_frac=_fullest(rows),
        cpu_s=_cpu_s(rows),
        memory_frac=_memory_frac(rows),
    )


class MachineScraper:
    """Reads one exporter at a steady pace on a client of its own. No key goes there: it is another server's."""

    def __init__(self, url: str, client: httpx.AsyncClient, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._url = url
        self._caller = Caller(client, Credential(url), DEADLINE_S)
        self._clock = clock

    async def once(self) -> MachineSample:
        """One reading. Raises ScrapeError, whose text is a sentence."""
        try:
            exposition = await read_exposition(self._caller, self._url, self._clock)
            large = len(exposition.text) > LARGE
            return await asyncio.to_thread(parse_machine, exposition) if large else parse_machine(exposition)
        except HttpError as error:
            raise ScrapeError(f"GPU metrics at {public(self._url)} {error}.") from error
        except ScrapeError as error:
            raise ScrapeError(f"GPU metrics at {public(self._url)}: {error}") from error

    def readings(self) -> AsyncIterator[MachineSample | ScrapeError]:
        """Readings for ever, as the server's own are taken."""
        return regularly(self.once, INTERVAL_S, self._clock)


def _values(rows: Rows, name: str) -> list[float]:
    return [value for _, value in rows.get(name, []) if math.isfinite(value)]


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _fullest(rows: Rows) -> float | None:
    """Frame buffer used of the fullest GPU; used and free have the same labels."""
    free = {frozenset(labels.items()): value for labels, value in rows.get(_FREE, []) if math.isfinite(value)}
    known = [(value, free.get(frozenset(labels.items()))) for labels, value in rows.get(_USED, []) if math.isfinite(value)]
    return max((used / (used + rest) for used, rest in known if rest is not None and used + rest > 0), default=None)


def _cpu_s(rows: Rows) -> tuple[float, float] | None:
    known = [(labels.get("mode"), value) for labels, value in rows.get(_CPU, []) if math.isfinite(value)]
    if not known:
        return None
    return sum(value for mode, value in known if mode not in _IDLE), sum(value for _, value in known)


def _memory_frac(rows: Rows) -> float | None:
    free, whole = _values(rows, _MEM_FREE), _values(rows, _MEM_ALL)
    return 1 - free[0] / whole[0] if free and whole and whole[0] > 0 else None

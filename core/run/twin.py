"""What a run tells the twin of its server, and when it asks it. Where no answer comes, the run goes on as without a twin."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from core import modes
from core.config import Method, ProbeConfig
from core.judge import Tally, figure
from core.records import Phase, RequestRecord, ServerInfo, ServerSample
from core.results import RepeatResult, TwinReading
from core.run.events import Event, TwinRead
from core.twin import TwinTask, TwinWindow, lacks, limits_of

WAIT_S = 6.0
"""How long a step waits for a reading: the first takes 2 to 4 s, later ones half a second. One that takes longer goes on beside the
next step, and counts after that."""
_WINDOWS: frozenset[Phase] = frozenset({"search", "confirm", "tighten"})


class TwinSide(Protocol):
    """What `core.twin.TwinProcess` is to this module."""

    @property
    def latest(self) -> TwinReading | None: ...
    async def seen(self, records: Sequence[RequestRecord]) -> None: ...
    async def beside_load(self, sending: bool) -> None: ...
    async def ask(self, task: TwinTask) -> None: ...
    async def reading(self, within_s: float) -> TwinReading | None: ...
    async def close(self) -> None: ...


StartTwin = Callable[[], Awaitable[TwinSide | None]]


def wants_twin(config: ProbeConfig) -> bool:
    """Whether a twin helps, and nothing is asked that it lacks."""
    return narrows(config.method) and lacks(config.workload) is None


def narrows(method: Method) -> bool:
    """Whether whole windows are read to narrow a bracket, which is what a twin helps with."""
    listed = bool(method.rates_rps) or method.hold_rps is not None
    return not listed and modes.rules_of(method).confirm is not None


class TwinWatch:
    """Keeps what the twin has not been told yet, and its process, which starts with the first question."""

    def __init__(
        self,
        config: ProbeConfig,
        server: ServerInfo,
        start: StartTwin,
        emit: Callable[[Event], None],
        clock: Callable[[], float],
    ) -> None:
        self._config = config
        self._server = server
        self._start = start
        self._emit = emit
        self._clock = clock
        self._twin: TwinSide | None = None
        self._tried = False
        self._untold: list[RequestRecord] = []
        self._windows: dict[tuple[int, int], TwinWindow] = {}
        self._samples: list[ServerSample] = []
        self._told: TwinReading | None = None

    def sampled(self, sample: ServerSample) -> None:
        """A reading of the server: what it says of places and of those that wait."""
        self._samples.append(sample)

    def judged(self, tally: Tally, result: RepeatResult) -> None:
        """A repeat is over, with nothing of it in flight. What is void says nothing of the server."""
        if result.verdict == "void":
            return
        self._untold += tally.records
        if (window := window_of(tally, result)) is not None:
            self._windows[window.order.step, window.repeat] = window

    def anew(self) -> None:
        """The search begins anew, and knows of no window; how long the server's steps take is still known."""
        self._windows.clear()
        self._told = None

    async def look(self, near_rps: float | None) -> TwinReading | None:
        """The twin's reading by now, an older one where the newest takes too long. `near_rps`: where the knee is looked for."""
        if near_rps is None or not self._windows:
            return None
        twin = await self._started()
        if twin is None:
            return None
        await twin.beside_load(False)
        await twin.seen(self._untold)
        self._untold = []
        await twin.ask(self._task(near_rps))
        reading = await twin.reading(WAIT_S) or twin.latest
        await twin.beside_load(True)
        if reading is not None and reading != self._told:
            self._told = reading
            self._emit(TwinRead(t=self._clock(), reading=reading))
        return reading

    async def close(self) -> None:
        """End the process, whatever it is computing."""
        if self._twin is not None:
            await self._twin.close()

    async def _started(self) -> TwinSide | None:
        if not self._tried:
            self._tried = True
            self._twin = await self._start()
        return self._twin

    def _task(self, near_rps: float) -> TwinTask:
        windows = tuple(self._windows.values())
        last = windows[-1]
        return TwinTask(
            windows=windows,
            workload=self._config.workload,
            slo=self._config.slo,
            limits=limits_of(self._server, self._samples),
            near_rps=near_rps,
            warmup_s=last.from_s,
            measure_s=last.to_s - last.from_s,
            seed=self._config.method.seed,
        )


def window_of(tally: Tally, result: RepeatResult) -> TwinWindow | None:
    """The window of a judged repeat as a twin is asked about it; None of what is no window of a search, or was not judged."""
    begin, end = tally.layout.window
    if tally.order.phase not in _WINDOWS or result.verdict not in ("pass", "fail") or end <= begin:
        return None
    x, least = figure(result)
    start_at = tally.order.start_at
    return TwinWindow(
        order=tally.order,
        repeat=result.index,
        from_s=begin - start_at,
        to_s=end - start_at,
        x=x,
        least=least,
        passed=result.verdict == "pass",
    )

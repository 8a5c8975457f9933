"""What is found out before the load of a run, said as it comes: the checks, what a recorded trace is, and what requests ask for."""

import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

import httpx
import msgspec

from core.access import Access
from core.config import ProbeConfig, Workload
from core.facts import Code, Fact, fact, says, several
from core.fleet import speed_check
from core.judge import lengths_check
from core.records import Check, CheckStatus, Hello, RequestRecord, ServerInfo
from core.run.events import CheckDone, Event, Note, ServerKnown
from core.run.found import Found, Kept
from core.server import DatasetAsked, Preflight, ReplicaScraper, SendSingles
from core.traffic import TraceArrivals

_TRACE_DOUBTS: tuple[Code, ...] = ("trace_cold", "trace_parts", "trace_no_blocks", "trace_unfit", "trace_images", "rows_bad")
"""What of a trace makes its load another than the one that was recorded; so do bursts of its ticks."""


class Checks(Protocol):
    """What `core.server.preflight.Preflight` is to this module."""

    info: ServerInfo
    hello: Hello | None
    singles: list[RequestRecord]

    def checks(self) -> AsyncIterator[Check]: ...

    def settle(self, workload: Workload) -> None: ...


MakeChecks = Callable[[ProbeConfig, Access, str, httpx.AsyncClient, SendSingles], Checks]


class Checking:
    """The checks of one run. `read`: what was found in the files that the requests are from, said first. `earlier`: what the checks
    of a session for the same found just now, which are not made again. `settled` hears of the configuration when more of it is
    known."""

    def __init__(
        self,
        config: ProbeConfig,
        *,
        make: MakeChecks,
        read: Sequence[Check],
        earlier: Found | None,
        dataset: Path | None,
        replicas: ReplicaScraper | None,
        trace: TraceArrivals | None,
        settled: Callable[[ProbeConfig], None],
        emit: Callable[[Event], None],
        clock: Callable[[], float],
    ) -> None:
        self.trace = trace
        """What arrives, where that is recorded: what of it fits the model, once that is known."""
        self.done: list[Check] = []
        self.singles: tuple[RequestRecord, ...] = ()
        """The judged single requests on the idle server, once the checks are through."""
        self.found: Found | None = None
        """For a run right after these; None before they are through, and where one of them refuses."""
        self._config = config
        self._read = tuple(read)
        self._report_settled = settled
        self._emit = emit
        self._clock = clock
        if make is Preflight:
            asked = None if dataset is None else DatasetAsked(dataset, self._tell, self._drawn)
            make = partial(Preflight, dataset=asked, replicas=replicas)
        self._make = make if earlier is None else earlier.again

    @property
    def refused(self) -> list[Check]:
        """Those that forbid the load."""
        return [check for check in self.done if check.status == "refuse"]

    async def run(self, access: Access, http: httpx.AsyncClient, send: SendSingles) -> Checks:
        """Make them all; each is an event as soon as it is known. Raises UserError."""
        preflight = self._make(self._config, access, secrets.token_hex(8), http, send)
        for check in self._read:
            self._say(check)
        said: list[Check] = []
        async for check in preflight.checks():
            said.append(check)
            self._say(check)
            if self.trace is not None and check.check == "model":
                self._settle_trace(self.trace, preflight)
        if isinstance(preflight, Kept):
            self._recall(preflight)
        speed = speed_check(self._config, preflight.info, preflight.singles)
        for own in (speed, lengths_check(self._config, preflight.singles)):
            if own is not None:
                self._say(own)
        self._emit(ServerKnown(t=self._clock(), info=preflight.info))
        self.singles = tuple(preflight.singles)
        if preflight.hello is not None and not self.refused:
            self.found = Found(
                checks=tuple(said), info=preflight.info, hello=preflight.hello, singles=self.singles, ended_t=self._clock()
            )
        return preflight

    def _say(self, check: Check) -> None:
        self.done.append(check)
        self._emit(CheckDone(t=self._clock(), check=check))

    def _settle_trace(self, trace: TraceArrivals, preflight: Checks) -> None:
        """Once the model's context is known: leave out what does not fit, and say what the trace is. Raises UserError where
        nothing fits."""
        context = preflight.info.max_model_len
        if context is not None:
            trace, config = trace.fitted(self._config, context)
            self.trace = trace
            if config is not self._config:
                preflight.settle(config.workload)
                self._settled(config)
        found = trace.found
        doubts = any(says(each, *_TRACE_DOUBTS) or each.figures.get("most_at_once", 1) != 1 for each in found)
        status: CheckStatus = "warn" if doubts else "pass"
        self._say(Check(check="trace", status=status, message=several(*found)))

    def _recall(self, kept: Kept) -> None:
        """Say that the checks were made before this run, and record the single requests that are its idle server."""
        now = self._clock()
        self._emit(Note(t=now, text=fact("checks_kept", age_s=max(0.0, now - kept.ended_t))))
        if kept.hello is not None and kept.hello.dataset is not None:
            self._drawn(kept.hello.workload)
        for event in kept.events(now):
            self._emit(event)

    def _drawn(self, workload: Workload) -> None:
        self._settled(msgspec.structs.replace(self._config, workload=workload))

    def _settled(self, config: ProbeConfig) -> None:
        self._config = config
        self._report_settled(config)

    def _tell(self, found: Fact) -> None:
        self._emit(Note(t=self._clock(), text=found))

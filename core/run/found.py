"""What the checks of one session found, handed to a run that begins right after them: nothing is asked of the server twice."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import httpx
import msgspec

from core.access import Access
from core.config import ProbeConfig, Workload
from core.records import Check, Hello, RepeatOrder, RequestRecord, ServerInfo
from core.run.events import Event, RepeatStarted
from core.server import SendSingles


@dataclass(frozen=True, kw_only=True)
class Found:
    """Checks of which none refused. `ended_t`: when the last was done, on this process's monotonic clock."""

    checks: tuple[Check, ...]
    info: ServerInfo
    hello: Hello = field(repr=False)
    singles: tuple[RequestRecord, ...]
    ended_t: float

    def again(self, config: ProbeConfig, access: Access, nonce: str, http: httpx.AsyncClient, send: SendSingles) -> "Kept":
        """In place of `Preflight` for a run of the same target, workload and limits; sends nothing."""
        return Kept(self, msgspec.structs.replace(self.hello, nonce=nonce, access=access))


class Kept:
    """The same findings, said again. The prompts get the nonce of the run, for those of the checks are in the server's cache."""

    def __init__(self, found: Found, hello: Hello) -> None:
        self.info = found.info
        self.hello: Hello | None = hello
        self.singles = list(found.singles)
        self.ended_t = found.ended_t
        self._checks = found.checks

    def settle(self, workload: Workload) -> None:
        """Nothing is left to be asked, and the checks had the same workload by then."""

    async def checks(self) -> AsyncIterator[Check]:
        """Each as it was."""
        for check in self._checks:
            yield check

    def events(self, now: float) -> list[Event]:
        """The judged single requests for the record of the run, as orders below all of its own."""
        said: list[Event] = []
        for at, record in enumerate(self.singles, 1):
            order = RepeatOrder(order=-at, phase="single", step=0, repeat=at, seed=0, offsets_s=(0.0,), start_at=record.t_sched)
            said += [RepeatStarted(t=now, order=order), msgspec.structs.replace(record, order=-at)]
        return said

"""The machines that send, while a repeat runs: what each has sent so far, how late, and how its loop keeps up."""

from collections.abc import Sequence

from core.facts import Fact, fact
from core.judge import Indices, Senders, Tally, stalls_too_often
from core.records import LoadTick, WorkerInfo
from core.view import WorkerLive


class LiveWorkers:
    """Those of one repeat. `late_again` is for when there are enough new sends: sorting many of them takes its time."""

    def __init__(self, senders: Senders) -> None:
        self._senders = senders
        self._of = senders.of.tolist()
        self._sent = [0] * len(senders.names)
        self._late_p99_s: list[float | None] = [None] * len(senders.names)

    def sent(self, index: int) -> None:
        """A request has left its machine."""
        self._sent[self._of[index]] += 1

    def take_in(self, index: Indices) -> None:
        """The same of many requests."""
        self._sent = [before + more for before, more in zip(self._sent, self._senders.counts(index), strict=True)]

    def late_again(self, tally: Tally) -> None:
        """Reckon anew how late each of them is."""
        self._late_p99_s = [use.lateness_p99_s for use in self._senders.uses(*tally.traffic.lateness_by_request, ())]

    def view(self, ticks: Sequence[LoadTick], ttft_limit_s: float | None) -> tuple[WorkerLive, ...]:
        """`ticks`: what the client has reported of itself in the repeat."""
        return tuple(
            WorkerLive(
                name=name,
                sent=sent,
                in_flight=own[-1].in_flight if own else None,
                lateness_p99_s=late_s,
                client_cpu_frac=max((tick.cpu_frac for tick in own), default=None),
                stalled=stalls_too_often([tick.loop_lag_max_s for tick in own], ttft_limit_s),
            )
            for name, own, sent, late_s in zip(
                self._senders.names, self._senders.ticks(ticks), self._sent, self._late_p99_s, strict=True
            )
        )


def workers_told(workers: Sequence[WorkerInfo]) -> Fact:
    """Which machines send, for the line of events, and by how much the clock that is known worst can be off."""
    errors_s = [worker.clock_error_s for worker in workers if worker.clock_error_s is not None]
    return fact("workers_known", *(worker.name for worker in workers), clock_error_s=max(errors_s, default=None))

"""Views of a run whose load comes from several machines."""

from msgspec.structs import replace

from core.records import WorkerInfo
from core.view import RunView, WorkerLive
from tests.tui import samples

LATE = {1: 0.212}


def machines(n: int) -> tuple[WorkerInfo, ...]:
    """As many of them, called node-1 and so on."""
    return tuple(
        WorkerInfo(name=f"node-{i + 1}", python="3.11.9", version="0.1.0", cores=8, clock_error_s=0.0001 * (i + 1))
        for i in range(n)
    )


def live(n: int, late: dict[int, float] = LATE) -> tuple[WorkerLive, ...]:
    """What each is seen to do; `late`: the p99 of those that are late."""
    return tuple(
        WorkerLive(
            name=f"node-{i + 1}",
            sent=397 - i % 2,
            in_flight=17,
            lateness_p99_s=late.get(i, 0.0008 + 0.0001 * (i % 7)),
            client_cpu_frac=0.118 + 0.01 * (i % 5),
        )
        for i in range(n)
    )


def mid_step(n: int = 3, late: dict[int, float] = LATE) -> RunView:
    """A step in its measured part."""
    view = samples.mid_step()
    assert view.current is not None
    assert view.current.live is not None
    repeat = replace(view.current.live, workers=live(n, late))
    return replace(view, workers=machines(n), current=replace(view.current, live=repeat))


def checking(n: int = 3) -> RunView:
    """Before the load."""
    return replace(samples.preflight(), workers=machines(n))

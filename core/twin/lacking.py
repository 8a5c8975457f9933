"""Which runs no twin can stand beside, because of what it does not know. Pure."""

from core.config import Workload
from core.facts import Fact, fact


def lacks(workload: Workload) -> Fact | None:
    """What a twin would have to know of these requests and does not: it draws them anew, with lengths and gaps, for a server that
    has no cache of prefixes and nothing in front of it. None where it knows all."""
    if workload.natural:
        return fact("twin_lacks_lengths")
    if workload.gateway is not None:
        return fact("twin_lacks_gateway", limit=workload.gateway.limit)
    if workload.turns:
        return fact("twin_lacks_turns")
    if not workload.prefix.cold:
        return fact("twin_lacks_hits")
    if workload.trace is not None:
        return fact("twin_lacks_recording")
    return None

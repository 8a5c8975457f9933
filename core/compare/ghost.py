"""A recorded run as it is drawn behind another one, and what is said of the two. Pure.

Only what lies on the axis of rates is drawn: the two runs share no clock.
"""

import msgspec

from core.compare.comparison import compare
from core.compare.side import LIMITS, Side
from core.config import Slo
from core.facts import Fact, fact
from core.results import StepVerdict
from core.slo import tells_nothing


class GhostFloor(msgspec.Struct, frozen=True, kw_only=True):
    """The attainment floor of one rate, as far as it was certain."""

    rate_rps: float
    low: float
    high: float
    verdict: StepVerdict


class Ghost(msgspec.Struct, frozen=True, kw_only=True):
    """`floors` by rate, the lowest first: none where the limits are `other` than those of the run in front, for a share of requests
    that met other limits is another thing. `pass_rps` and `fail_rps` are its bracket, `fail_rps` 0 where no rate meets them."""

    label: str
    floors: tuple[GhostFloor, ...] = ()
    pass_rps: float | None = None
    fail_rps: float | None = None
    clearly_fails: bool = False
    other: Fact | None = None

    @property
    def told(self) -> Fact:
        """Its bracket, for as long as there is nothing to compare it with."""
        also = () if self.other is None else (self.other,)
        return fact("ghost_told", *also, label=self.label, pass_rps=self.pass_rps, fail_rps=self.fail_rps)


def ghost_of(side: Side, slo: Slo) -> Ghost:
    """The run as it is drawn behind one that is judged by `slo`."""
    given = {name: getattr(slo, name) for name in LIMITS}
    differ = tuple(fact("differs", what=name, a=side.asked[name], b=own) for name, own in given.items() if side.asked[name] != own)
    return Ghost(
        label=side.label,
        floors=() if differ else _floors(side, slo.target),
        pass_rps=side.low_rps,
        fail_rps=side.high_rps,
        clearly_fails=side.knee.clearly_fails,
        other=fact("ghost_other_limits", *differ) if differ else None,
    )


def _floors(side: Side, target: float) -> tuple[GhostFloor, ...]:
    """Of each rate what was judged last; a ramp is a hint and no evidence."""
    found = {
        step.rate_rps: GhostFloor(rate_rps=step.rate_rps, low=step.floor[0], high=step.floor[1], verdict=step.verdict)
        for step in side.steps
        if step.floor is not None and step.phase != "ramp" and not tells_nothing(step.floor, target)
    }
    return tuple(found[rate_rps] for rate_rps in sorted(found))


def beside(ghost: Side, front: Side) -> Fact:
    """What a comparison says of the run in front, as B, against the ghost, as A."""
    return fact("ghost_compared", compare((ghost, front)).against[0].headline, label=ghost.label)

"""Another run after this one: the same again, or the answer verified by a longer look at both ends of its bracket."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from msgspec.structs import replace

from core.config import FleetAsk, Method, Mode
from core.modes import rules_of
from core.results import Knee
from core.units import count, duration, number
from core.view import RunView

Wish = Literal["verify", "again"]


@dataclass(frozen=True, kw_only=True)
class Left:
    """How a screen was left: the fleet as it was set there (None: it never was), and the run that is to follow."""

    ask: FleetAsk | None = None
    wish: Wish | None = None


_LONGER: Mapping[Mode, Mode] = {"quick": "standard", "standard": "acceptance", "acceptance": "acceptance"}


def verifying(method: Method, knee: Knee) -> Method:
    """Judges both ends of the bracket again, each by the repeats of the next longer mode. A window that was set stays where it is
    the longer one."""
    rates_rps = tuple(sorted({rate for rate in (knee.pass_rps, knee.fail_rps) if rate is not None}))
    if method.fleet is not None:  # which goes down from its own rates
        rates_rps = method.rates_rps
    mode = _LONGER[method.mode]
    usual_s = rules_of(Method(mode=mode)).listed.measure_s
    longer_s = method.measure_s if method.measure_s is not None and method.measure_s > usual_s else None
    own = {"careful": False, "repeats": None, "budget_s": None, "start_rps": None, "hold_rps": None}
    return replace(method, mode=mode, measure_s=longer_s, rates_rps=rates_rps, **own)


def offer(wish: Wish, view: RunView) -> str:
    """What the key would do, said before it does: it sends load."""
    if wish == "again" or view.config is None or view.answer is None:
        return "Press R again to do the whole run again; it sends load"
    method = verifying(view.config.method, view.answer.knee)
    stage = rules_of(method).listed
    rates = " and ".join(map(number, method.rates_rps))
    each = f"{count(stage.repeats, 'repeat')} of at least {duration(stage.measure_s)}"
    return f"Press v again to judge {rates} requests/s, each by {each}; it sends load"

"""Before the load: how long a run is going to take, the highest rate that it may reach, and the most that it may send."""

from collections.abc import Sequence
from typing import NamedTuple

from core import modes, prose
from core.config import ProbeConfig
from core.judge import Search, idle_e2e_s, why_infeasible
from core.records import RequestRecord, Segment
from core.units import count, duration, number, rate_text
from tui.phrases import method_text, mode_name


class Forecast(NamedTuple):
    """Three sentences without their subject."""

    time: str
    rate: str
    sends: str


def forecast(config: ProbeConfig, singles: Sequence[RequestRecord] = ()) -> Forecast:
    """What is to be expected; `singles` are the judged single requests of the checks, without which less is known."""
    search = Search(config)
    if why_infeasible(singles, config.limits) is not None:
        singles = ()
    if singles:
        search.observe_singles(singles)
    expected_s = search.expected_s()
    time = prose.text(search.expected()) if expected_s is not None else _usual_time(config)
    return Forecast(time, _rate(config, singles), _sends(config, singles, expected_s))


def _usual_time(config: ProbeConfig) -> str:
    """What the mode usually takes, while nothing is known of the server."""
    method = config.method
    if not _searches(config):
        return method_text(method)
    usual_s = modes.rules_of(method).budget_s
    return f"about {duration(usual_s)} in {mode_name(method)} mode; the checks give a better estimate"


def _rate(config: ProbeConfig, singles: Sequence[RequestRecord]) -> str:
    max_rps, named = config.safety.max_rps, _named(config)
    if named:
        top_rps = max(named)
        return f"{rate_text(top_rps)}{_warm_up(config, top_rps)}" + (_and_searched(config, singles) if _searches(config) else "")
    return _and_searched(config, singles).removeprefix("; ") if max_rps is None else f"never above {rate_text(max_rps)} (max rate)"


def _and_searched(config: ProbeConfig, singles: Sequence[RequestRecord]) -> str:
    """How far a search goes that nothing but what it finds holds back."""
    ramp, max_rps = _ramp(config, singles), config.safety.max_rps
    if max_rps is not None:
        return f"; never above {rate_text(max_rps)} (max rate)"
    if not ramp:
        return "; doubled until requests miss their limits; max rate caps it"
    first_rps, last_rps = ramp[0].rate_rps, ramp[-1].rate_rps
    bound = f"at most {rate_text(last_rps)}{_warm_up(config, last_rps)}"
    return f"; {bound}: doubled from {rate_text(first_rps)} until requests miss their limits; max rate caps it lower"


def _warm_up(config: ProbeConfig, rate_rps: float) -> str:
    boosted_rps = modes.WARMUP_BOOST * rate_rps
    if config.safety.max_rps is not None:
        boosted_rps = min(boosted_rps, config.safety.max_rps)
    return f" ({number(boosted_rps)} during warm-up)" if boosted_rps > rate_rps else ""


def _sends(config: ProbeConfig, singles: Sequence[RequestRecord], expected_s: float | None) -> str:
    tokens = f"of up to {count(config.workload.longest_request, 'token')}"
    named, max_rps = _named(config), config.safety.max_rps
    if config.method.hold_rps is not None:
        return f"requests {tokens} until you stop it"
    if expected_s is None:
        return f"requests {tokens}; the checks show how many"
    if named and not _searches(config):
        return f"at most about {count(round(expected_s * max(named)), 'request')} {tokens}"
    if max_rps is not None:
        return f"at most about {count(round(expected_s * max_rps), 'request')} {tokens}"
    ramp = sum(segment.rate_rps * segment.duration_s for segment in _ramp(config, singles))
    most = f"at most {count(round(ramp), 'request')} {tokens} in the ramp"
    return f"{most}; in total about {count(round(expected_s))} per request/s that holds"


def _ramp(config: ProbeConfig, singles: Sequence[RequestRecord]) -> tuple[Segment, ...]:
    """The segments of the ramp, of which those above the first failing one are not sent; empty before the idle latency is known."""
    idle_s = idle_e2e_s(singles)
    if idle_s is None:
        return ()
    return modes.ramp_segments(config.method.start_rps or modes.START_PER_IDLE / idle_s, idle_s, config.safety.max_rps)


def _searches(config: ProbeConfig) -> bool:
    return not config.method.rates_rps and config.method.hold_rps is None


def _named(config: ProbeConfig) -> tuple[float, ...]:
    """The rates that are loaded whatever is found."""
    method = config.method
    return tuple(rate for rate in (*method.rates_rps, method.hold_rps, method.require_rps) if rate is not None)

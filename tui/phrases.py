"""What a run was asked to do, in words: for the lines and the screen alike."""

from core import prose
from core.config import Method, Slo
from core.modes import rules_of
from core.prefixes import planned_hit_frac
from core.units import as_set, count, duration, limit, rate_text
from core.view import RunView


def mode_name(method: Method) -> str:
    """The way of judging in one or two words."""
    if method.hold_rps is not None:
        return "hold"
    if method.fleet is not None:
        return f"fleet of {count(method.fleet.replicas)}"
    if method.rates_rps:
        return "list" if len(method.rates_rps) > 1 else "one rate"
    return f"{method.mode}, careful" if method.careful else method.mode


def method_text(method: Method) -> str:
    """How rates are judged, which ones, and what happens between two repeats."""
    if method.hold_rps is not None:
        return f"holds {rate_text(method.hold_rps)} until you stop it, and judges each stretch by itself; {prose.seeds(method)}"
    rules = rules_of(method)
    stage = rules.listed if method.rates_rps else rules.final
    each = f"{count(stage.repeats, 'repeat')} of at least {duration(stage.measure_s)}"
    if method.rates_rps:
        parts = [f"judges {_rates(method.rates_rps)}, {each}{' each' if len(method.rates_rps) > 1 else ''}"]
    else:
        parts = [f"{mode_name(method)} mode, {each} at each rate, about {duration(rules.budget_s)} in all"]
    if method.fleet is not None:
        parts.append("then lower rates where one fails")
    if method.require_rps is not None:
        parts.append(f"{rate_text(method.require_rps)} must pass")
    if method.reset_cache:
        parts.append("the prefix cache is emptied between repeats")
    if method.between:
        parts.append("your command runs between repeats")
    if method.closed_loop:
        parts.append("then a closed loop beside it")
    return "; ".join([*parts, prose.seeds(method)])


def _rates(rates_rps: tuple[float, ...]) -> str:
    if len(rates_rps) == 1:
        return rate_text(rates_rps[0])
    texts = [as_set(rate) for rate in rates_rps]
    return f"{', '.join(texts[:-1])} and {texts[-1]} requests/s"


def limit_words(slo: Slo, between: str = " ") -> list[str]:
    """Each latency with its limit; where kinds of request have limits of their own, from which to which they go."""
    return [f"{name[:-2].upper()}{between}{words}" for name in ("ttft_s", "tpot_s", "e2e_s") if (words := _reach(slo, name))]


def _reach(slo: Slo, name: str) -> str:
    limits_s = [getattr(each, name) for each in slo.each]
    known = sorted({value for value in limits_s if value is not None})
    if not known:
        return ""
    reach = limit(known[0]) if len(known) == 1 else f"{limit(known[0])} to {limit(known[-1])}"
    return f"{reach} or none" if None in limits_s else reach


def hits_text(view: RunView, hit_frac: float | None, planned_frac: float | None = None) -> str:
    """The prefix hits that the server's counters show, beside the planned ones (`planned_frac`: of a repeat, where each has its
    own); of cold prompts only where there are any."""
    if view.config is None:
        return ""
    workload = view.config.workload
    if workload.prefix.cold:
        return prose.hits(hit_frac, None) if hit_frac else ""
    of_all = planned_hit_frac(workload, view.server)
    return prose.hits(hit_frac, planned_frac if of_all is None else of_all)

"""What a run was asked to do, in words: for the lines and the screen alike."""

from core.config import Method
from core.modes import rules_of
from core.units import as_set, count, duration, rate_text


def mode_name(method: Method) -> str:
    """The way of judging in one or two words."""
    if method.hold_rps is not None:
        return "hold"
    if method.rates_rps:
        return "list" if len(method.rates_rps) > 1 else "one rate"
    return f"{method.mode}, careful" if method.careful else method.mode


def method_text(method: Method) -> str:
    """How rates are judged, which ones, and what happens between two repeats."""
    if method.hold_rps is not None:
        return f"holds {rate_text(method.hold_rps)} until you stop it, and judges each stretch by itself; seed {method.seed}"
    rules = rules_of(method)
    stage = rules.listed if method.rates_rps else rules.final
    each = f"{count(stage.repeats, 'repeat')} of at least {duration(stage.measure_s)}"
    if method.rates_rps:
        parts = [f"judges {_rates(method.rates_rps)}, {each}{' each' if len(method.rates_rps) > 1 else ''}"]
    else:
        parts = [f"{mode_name(method)} mode, {each} at each rate, about {duration(rules.budget_s)} in all"]
    if method.require_rps is not None:
        parts.append(f"{rate_text(method.require_rps)} must pass")
    if method.reset_cache:
        parts.append("the prefix cache is emptied between repeats")
    if method.between:
        parts.append("your command runs between repeats")
    return "; ".join([*parts, f"seed {method.seed}"])


def _rates(rates_rps: tuple[float, ...]) -> str:
    if len(rates_rps) == 1:
        return rate_text(rates_rps[0])
    texts = [as_set(rate) for rate in rates_rps]
    return f"{', '.join(texts[:-1])} and {texts[-1]} requests/s"

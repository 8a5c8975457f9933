"""The sliders of the what-if screen: which values each offers for a run, and the change that they amount to together."""

import math
from collections.abc import Callable, Iterable, Mapping

from msgspec import structs

from core.engine import BLOCK_TOKENS
from core.units import as_set, count, limit, plain
from core.whatif import Change, Setting, longer
from tui.widgets.knob_slider import KnobSlider

_FACTORS = (0.25, 0.33, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0)
_TARGETS = (0.5, 0.7, 0.8, 0.9, 0.925, 0.95, 0.96, 0.97, 0.975, 0.98, 0.985, 0.99, 0.995, 0.999)
_PLACES = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)


def knobs(setting: Setting) -> tuple[KnobSlider, ...]:
    """A slider for each limit that is set, the target, places, KV cache (where its size is known), prompts and answers."""
    slo, limits = setting.slo, setting.limits
    made = [
        _slider(name, f"{name[:-2].upper()} limit", [_round(value * factor) for factor in _FACTORS], value, limit)
        for name in ("ttft_s", "tpot_s", "e2e_s")
        if (value := getattr(slo, name)) is not None
    ]
    made.append(_slider("target", "target", _TARGETS, slo.target, plain))
    made.append(_slider("max_num_seqs", "max-num-seqs", _PLACES, limits.max_seqs, as_set))
    if limits.kv_tokens is not None:
        tokens = [BLOCK_TOKENS * max(1, round(limits.kv_tokens * factor / BLOCK_TOKENS)) for factor in _FACTORS]
        made.append(_slider("kv_tokens", "KV cache", tokens, limits.kv_tokens, lambda value: count(round(value), "token")))
    for name, label in (("input_tokens", "prompts"), ("output_tokens", "answers")):
        made.append(_slider(name, label, _FACTORS, 1.0, lambda factor: f"x {as_set(factor)}"))
    return tuple(made)


def _slider(name: str, label: str, values: Iterable[float], own: float, say: Callable[[float], str]) -> KnobSlider:
    offered = tuple(sorted({*values, own}))
    return KnobSlider(name, label, offered, offered.index(own), say)


def _round(value: float) -> float:
    """To two digits."""
    return round(value, 1 - math.floor(math.log10(value)))


def change_of(setting: Setting, asked: Mapping[str, float | None]) -> Change:
    """What the sliders amount to: those that stand elsewhere than the run."""
    prompts, answers, places, kv_tokens = map(asked.get, ("input_tokens", "output_tokens", "max_num_seqs", "kv_tokens"))
    return structs.replace(
        longer(setting.workload, prompts, answers),
        ttft_s=asked.get("ttft_s"),
        tpot_s=asked.get("tpot_s"),
        e2e_s=asked.get("e2e_s"),
        target=asked.get("target"),
        max_num_seqs=None if places is None else round(places),
        kv_tokens=None if kv_tokens is None else round(kv_tokens),
    )

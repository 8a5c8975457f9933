"""What may be asked for in place of what was measured."""

from typing import Literal

import msgspec
from msgspec.structs import replace

from core.config import Lengths, Slo, Workload, refuse_tpot_alone
from core.engine import Limits
from core.errors import UserError
from core.units import count
from core.workloads import MixPart

NO_LIMIT: Literal["none"] = "none"


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What is to differ from the run; None stays as it was. A limit of "none" is taken away. Limits in seconds, the target as a
    share, places (`--max-num-seqs`) and KV cache as numbers of sequences and tokens. `input_scale`, `output_scale`: the prompts, or
    answers, of a mix are so many times as long."""

    ttft_s: float | Literal["none"] | None = None
    tpot_s: float | Literal["none"] | None = None
    e2e_s: float | Literal["none"] | None = None
    target: float | None = None
    input_tokens: Lengths | None = None
    output_tokens: Lengths | None = None
    input_scale: float | None = None
    output_scale: float | None = None
    max_num_seqs: int | None = None
    kv_tokens: int | None = None

    @property
    def given(self) -> dict[str, object]:
        """What differs, by its name."""
        return {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not None}


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine is asked about: limits of a request, lengths, and what fits in."""

    slo: Slo
    workload: Workload
    limits: Limits


def changed(setting: Setting, change: Change) -> Setting:
    """The setting with the change made. Raises UserError for one that cannot be: no limit left, a request that would not fit."""
    limits = {
        name: None if value == NO_LIMIT else value
        for name in ("ttft_s", "tpot_s", "e2e_s")
        if (value := getattr(change, name)) is not None
    }
    slo = replace(setting.slo, **limits, **_given(target=change.target))
    workload = _changed_lengths(setting.workload, change)
    sizes = setting.limits
    if change.max_num_seqs is not None:
        sizes = replace(sizes, max_seqs=change.max_num_seqs, max_batched_tokens=max(sizes.max_batched_tokens, change.max_num_seqs))
    if change.kv_tokens is not None:
        sizes = replace(sizes, kv_tokens=change.kv_tokens)
    longest = workload.longest_request
    if sizes.kv_tokens is not None and longest > sizes.kv_tokens:
        asked = "--kv-tokens" if change.kv_tokens is not None else "--input-tokens" if change.input_tokens else "--output-tokens"
        raise UserError(
            f"{asked}: the longest request has {count(longest, 'token')}, which {count(sizes.kv_tokens, 'token')} of KV cache "
            "do not hold; ask for shorter lengths or a larger --kv-tokens."
        )
    if change.target == 1:
        raise UserError("--target: 100 % has no knee in the long run, where every rate has its one late request; ask for 99.9 %.")
    refuse_tpot_alone(workload.limits(slo), workload)
    return Setting(slo=slo, workload=workload, limits=sizes)


def _given(**values: object) -> dict[str, object]:
    return {name: value for name, value in values.items() if value is not None}


def scaled(lengths: Lengths, factor: float) -> Lengths:
    """Lengths that are all so many times as long, at least one token."""
    if lengths.fixed:
        return Lengths(median=max(1, round(lengths.median * factor)))
    return Lengths(
        median=max(1.0, lengths.median * factor),
        sigma=lengths.sigma,
        maximum=max(1, round(lengths.maximum * factor)),
        minimum=max(1, round(lengths.minimum * factor)),
    )


def longer(workload: Workload, prompts: float | None = None, answers: float | None = None) -> Change:
    """The change that makes all prompts, or answers, of a workload so many times as long; None leaves them as they are."""
    if workload.mix:
        return Change(input_scale=prompts, output_scale=answers)
    return Change(
        input_tokens=None if prompts is None else scaled(workload.input_tokens, prompts),
        output_tokens=None if answers is None else scaled(workload.output_tokens, answers),
    )


def _changed_lengths(workload: Workload, change: Change) -> Workload:
    if not workload.mix:
        lengths = _given(input_tokens=change.input_tokens, output_tokens=change.output_tokens)
        fixed = any(each is not None and each.fixed for each in (change.input_tokens, change.output_tokens))
        return replace(workload, **lengths, **({"length_correlation": 0.0} if fixed else {}))
    for flag, lengths_asked in (("--input-tokens", change.input_tokens), ("--output-tokens", change.output_tokens)):
        if lengths_asked is not None:
            raise UserError(f"{flag}: the requests of this run are a mix, which has no such length; leave it out.")
    return replace(workload, mix=_scaled_mix(workload.mix, change.input_scale or 1.0, change.output_scale or 1.0))


def _scaled_mix(mix: tuple[MixPart, ...], prompts: float, answers: float) -> tuple[MixPart, ...]:
    """Every kind so many times as long. Kinds with limits of their own that would become equally long stay a token apart."""
    taken: dict[tuple[int, int], dict[str, float | None]] = {}
    scaled_parts = []
    for part in mix:
        lengths = max(1, round(part.input_tokens * prompts)), max(1, round(part.output_tokens * answers))
        while taken.setdefault(lengths, part.limits_s) != part.limits_s:
            lengths = lengths[0] + 1, lengths[1]
        scaled_parts.append(replace(part, input_tokens=lengths[0], output_tokens=lengths[1]))
    return tuple(scaled_parts)

"""What may be asked for in place of what was measured."""

from typing import Literal

import msgspec
from msgspec.structs import replace

from core.config import Lengths, Slo, Workload
from core.engine import Limits
from core.errors import UserError
from core.units import count

NO_LIMIT: Literal["none"] = "none"


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What is to differ from the run; None stays as it was. A limit of "none" is taken away. Limits in seconds, the target as a
    share, places (`--max-num-seqs`) and KV cache as numbers of sequences and tokens."""

    ttft_s: float | Literal["none"] | None = None
    tpot_s: float | Literal["none"] | None = None
    e2e_s: float | Literal["none"] | None = None
    target: float | None = None
    input_tokens: Lengths | None = None
    output_tokens: Lengths | None = None
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
    workload = replace(setting.workload, **_given(input_tokens=change.input_tokens, output_tokens=change.output_tokens))
    sizes = setting.limits
    if change.max_num_seqs is not None:
        sizes = replace(sizes, max_seqs=change.max_num_seqs, max_batched_tokens=max(sizes.max_batched_tokens, change.max_num_seqs))
    if change.kv_tokens is not None:
        sizes = replace(sizes, kv_tokens=change.kv_tokens)
    longest = workload.input_tokens.largest + workload.output_tokens.largest
    if sizes.kv_tokens is not None and longest > sizes.kv_tokens:
        raise UserError(
            f"--kv-tokens: the longest request has {count(longest, 'token')}, which {count(sizes.kv_tokens, 'token')} of KV cache "
            "do not hold; give more, or shorter lengths."
        )
    if workload.output_tokens.largest <= 1 and slo.ttft_s is None and slo.e2e_s is None:
        raise UserError("The only limit is TPOT, but answers of one token have none; set --ttft or --e2e.")
    return Setting(slo=slo, workload=workload, limits=sizes)


def _given(**values: object) -> dict[str, object]:
    return {name: value for name, value in values.items() if value is not None}

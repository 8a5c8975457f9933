"""One step of each knob: what a user would try next, all of it at once."""

from dataclasses import dataclass

from core.engine import BLOCK_TOKENS
from core.errors import UserError
from core.whatif.change import Change, Setting, longer
from core.whatif.fitted import Explained
from core.whatif.model import Modelled, ask

TIGHTER, LOOSER = 0.75, 1.5


@dataclass(frozen=True, slots=True)
class Knob:
    """One knob a step down or up, and what the model says of it."""

    change: Change
    modelled: Modelled


def steps_of(setting: Setting) -> tuple[Change, ...]:
    """Each limit that is set x 0.75 and x 1.5, half the misses and twice as many, half and twice the places, the KV cache x 0.75
    and x 1.5, and answers x 0.5 and x 2; those that can be."""
    slo, limits = setting.slo, setting.limits
    changes: list[Change] = []
    for name in ("ttft_s", "tpot_s", "e2e_s"):
        if (value := getattr(slo, name)) is not None:
            changes += [Change(**{name: value * factor}) for factor in (TIGHTER, LOOSER)]
    if slo.target < 1:
        changes += [Change(target=1 - (1 - slo.target) * factor) for factor in (0.5, 2.0)]
    changes += [Change(max_num_seqs=max(1, limits.max_seqs // 2)), Change(max_num_seqs=2 * limits.max_seqs)]
    if limits.kv_tokens is not None:
        blocks = limits.kv_tokens // BLOCK_TOKENS
        changes += [Change(kv_tokens=int(blocks * factor) * BLOCK_TOKENS) for factor in (TIGHTER, LOOSER)]
    changes += [longer(setting.workload, answers=factor) for factor in (0.5, 2.0)]
    return tuple(changes)


def one_step(run: Explained) -> tuple[Knob, ...]:
    """The table: half a second to a second of processor time for each row. What cannot be is left out."""
    knobs = []
    for change in steps_of(run.setting):
        try:
            knobs.append(Knob(change, ask(run, change)))
        except (UserError, ValueError):
            continue
    return tuple(knobs)

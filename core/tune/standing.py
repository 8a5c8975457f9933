"""What was found of each setting, and how the settings stand beside each other. Pure."""

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from core.facts import Fact, Said, fact, says
from core.fleet import price_per_million
from core.results import Knee
from core.tune.grid import Setting

_DUST = 1e-9

Against = Literal["best", "apart", "not_apart"]


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """One setting when its server has ended. `outcome`: that of its run, or `not_started`, `server_lost`, `not_run`; `answered`:
    whether its knee counts. `gpus` of one replica, `gpus_known` False where nobody told and 1 is assumed. `mean_output`: tokens
    of an answer. `ready_s`: from the start of its command to its first answer."""

    setting: Setting
    outcome: str
    message: Said
    answered: bool = False
    knee: Knee = Knee()
    gpus: int = 1
    gpus_known: bool = False
    mean_output: float | None = None
    ready_s: float | None = None
    run_log: str | None = None

    @property
    def pass_per_gpu_rps(self) -> float | None:
        """What each GPU of a replica carries; None without a rate that held."""
        return self._per_gpu(self.knee.pass_rps)

    @property
    def fail_per_gpu_rps(self) -> float | None:
        """The upper end, likewise; None where the bracket is open above."""
        return self._per_gpu(self.knee.fail_rps)

    @property
    def beaten(self) -> Said | None:
        """Why its search was ended early: another setting is better. None where it was not."""
        return next((note for note in self.knee.notes if says(note, "beaten")), None)

    def _per_gpu(self, rate_rps: float | None) -> float | None:
        return rate_rps / self.gpus if self.answered and rate_rps is not None else None


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """A setting and its place: `against` the best, None where it has no bracket. Prices are in the currency of the price of a
    GPU-hour: of a replica for an hour, and of a million output tokens at the rate that holds and at the one that fails."""

    found: Measured
    against: Against | None
    per_hour: float | None = None
    per_million_at_pass: float | None = None
    per_million_at_fail: float | None = None


def best_of(found: Iterable[Measured]) -> Measured | None:
    """The setting whose rate that holds is the highest for each GPU of a replica; of equals the one that fails later, and then
    the first. None while none holds any."""
    holding = [each for each in found if each.pass_per_gpu_rps is not None]
    return max(holding, key=_rank, default=None)


def _rank(each: Measured) -> tuple[float, float]:
    fail_rps = each.fail_per_gpu_rps
    return each.pass_per_gpu_rps or 0.0, float("inf") if fail_rps is None else fail_rps


def standings(found: Sequence[Measured], cost_per_gpu_h: float | None) -> tuple[Standing, ...]:
    """The best first, then by what holds; what has no answer comes last. GPU-hours have one price, so that the order by rate per
    GPU is also that by price."""
    best = best_of(found)
    ranked = sorted(found, key=lambda each: (each.answered, *_rank(each)), reverse=True)
    return tuple(_standing(each, best, cost_per_gpu_h) for each in ranked)


def _standing(each: Measured, best: Measured | None, cost_per_gpu_h: float | None) -> Standing:
    if cost_per_gpu_h is None:
        return Standing(found=each, against=_against(each, best))
    per_hour = cost_per_gpu_h * each.gpus

    def per_million(rate_rps: float | None) -> float | None:
        return price_per_million(per_hour, rate_rps, each.mean_output) if each.answered else None

    return Standing(
        found=each,
        against=_against(each, best),
        per_hour=per_hour,
        per_million_at_pass=per_million(each.knee.pass_rps),
        per_million_at_fail=per_million(each.knee.fail_rps),
    )


def _against(each: Measured, best: Measured | None) -> Against | None:
    """Apart: it fails at a rate that the best one holds, so that the brackets, from the rate that holds up to but without the one
    that fails, have nothing in common."""
    if best is None or not each.answered:
        return None
    if each is best:
        return "best"
    fail_rps, held_rps = each.fail_per_gpu_rps, best.pass_per_gpu_rps
    return "apart" if fail_rps is not None and held_rps is not None and fail_rps <= held_rps * (1 + _DUST) else "not_apart"


def headline(found: Sequence[Measured]) -> Fact:
    """Which setting is the best, and which others are not told apart from it."""
    best = best_of(found)
    answered = sum(each.answered for each in found)
    if best is None:
        return fact("tune_none", settings=len(found), answered=answered)
    alike = [each.setting.label for each in found if _against(each, best) == "not_apart"]
    return fact(
        "tune_best",
        *alike,
        best=best.setting.label,
        pass_rps=best.knee.pass_rps,
        fail_rps=best.knee.fail_rps,
        gpus=best.gpus,
        settings=len(found),
        answered=answered,
    )

"""What a replica runs on, on paper: what accelerators hold and how fast they read it (the vendors' datasheets), and the weights."""

import math
import re
from dataclasses import dataclass

import msgspec

from core.errors import UserError
from core.units import as_set, typed

SMALLEST_SHARE, SMALLEST_AMOUNT, HIGHEST_AMOUNT = 0.01, 1e-6, 1e9
DEFAULT_WEIGHT_BITS = 16


def require_positive(value: float, name: str) -> None:
    """Refuse zero, negative and non-finite numbers with a sentence (UserError)."""
    try:
        possible = math.isfinite(value) and value > 0
    except OverflowError:  # a whole number with more digits than a float has
        raise UserError(f"{name}: no number here has that many digits; give a smaller one.") from None
    if not possible:
        raise UserError(f"{name}: {typed(value)} is not possible here; give a finite number above zero.")


def require_amount(value: float | None, name: str) -> None:
    """Refuse what cannot be an amount of bytes or money (UserError); None, not known, is no fault."""
    if value is None:
        return
    require_positive(value, name)
    if not SMALLEST_AMOUNT <= value <= HIGHEST_AMOUNT:
        raise UserError(f"{name}: {typed(value)} is out of range; give {as_set(SMALLEST_AMOUNT)} to {as_set(HIGHEST_AMOUNT)}.")


@dataclass(frozen=True, slots=True)
class Accelerator:
    """One device: memory in GB and its peak bandwidth in GB/s, both decimal (10^9)."""

    name: str
    memory_gb: float
    bandwidth_gbs: float


ACCELERATORS: tuple[Accelerator, ...] = (
    Accelerator("T4", 16, 320),
    Accelerator("V100 32 GB", 32, 900),
    Accelerator("A10", 24, 600),
    Accelerator("L4", 24, 300),
    Accelerator("L40S", 48, 864),
    Accelerator("RTX 4090", 24, 1008),
    Accelerator("RTX 5090", 32, 1792),
    Accelerator("RTX PRO 6000 Blackwell", 96, 1792),
    Accelerator("A100 40 GB", 40, 1555),
    Accelerator("A100 80 GB SXM", 80, 2039),
    Accelerator("H100 PCIe", 80, 2039),
    Accelerator("H100 SXM", 80, 3350),
    Accelerator("H100 NVL", 94, 3900),
    Accelerator("H200 SXM", 141, 4800),
    Accelerator("B200", 180, 8000),
    Accelerator("MI300X", 192, 5300),
    Accelerator("MI325X", 256, 6000),
    Accelerator("MI355X", 288, 8000),
)


def find(text: str, name: str = "--gpu") -> Accelerator:
    """The accelerator that `text` names, whole or by a part that only one has: `H100 SXM`, `h100-sxm`, `4090`.

    Raises UserError, naming those it could mean, for any other text.
    """
    asked = _key(text)
    exact = [each for each in ACCELERATORS if _key(each.name) == asked]
    partly = [each for each in ACCELERATORS if asked and asked in _key(each.name)]
    found = exact or partly
    if len(found) == 1:
        return found[0]
    names = ", ".join(
        f"{each.name} ({as_set(each.memory_gb)} GB, {as_set(each.bandwidth_gbs)} GB/s)" for each in found or ACCELERATORS
    )
    why = "could be one of several" if found else "is not in the table"
    raise UserError(f"{name}: {text!r} {why}; give one of {names}, or --gpu-bandwidth for any other.")


def _key(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


class Hardware(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the device and the model on paper; None: not known. GB are 10^9 bytes.

    `weights_gb` is what is read for each token (of a mixture of experts only the active part); or `params_b` (10^9 parameters)
    at `weight_bits` each. `gpu_bandwidth_gbs` and `gpu_memory_gb` win over those of `gpu`. `eta` is the share of the peak bandwidth
    that is really reached. `activations_gb` is what one device needs beside weights and KV cache.
    """

    gpu: str | None = None
    gpu_bandwidth_gbs: float | None = None
    gpu_memory_gb: float | None = None
    weights_gb: float | None = None
    params_b: float | None = None
    weight_bits: float | None = None
    eta: float | None = None
    kv_bytes_per_token: float | None = None
    activations_gb: float | None = None
    memory_utilization: float | None = None

    def __post_init__(self) -> None:
        for name, value in (
            ("--gpu-bandwidth", self.gpu_bandwidth_gbs),
            ("--gpu-memory", self.gpu_memory_gb),
            ("--weights-gb", self.weights_gb),
            ("--params-b", self.params_b),
            ("--weight-bits", self.weight_bits),
            ("--kv-bytes-per-token", self.kv_bytes_per_token),
            ("--activations-gb", self.activations_gb),
        ):
            require_amount(value, name)
        for name, share in (("--eta", self.eta), ("--memory-utilization", self.memory_utilization)):
            if share is not None and not SMALLEST_SHARE <= share <= 1:
                raise UserError(f"{name}: {typed(share)} must be from {typed(100 * SMALLEST_SHARE)}% to 100%.")
        if self.weights_gb is not None and self.params_b is not None:
            raise UserError("--weights-gb and --params-b both say how much is read for each token; give one of them.")
        if self.weight_bits is not None and self.params_b is None:
            raise UserError("--weight-bits needs --params-b, the number of parameters that have that many bits each.")
        if self.gpu is not None:
            find(self.gpu)

    @property
    def weights_bytes(self) -> float | None:
        """Bytes of weights that are read for each token, over all devices of one replica."""
        if self.params_b is not None:
            return self.params_b * 1e9 * (DEFAULT_WEIGHT_BITS if self.weight_bits is None else self.weight_bits) / 8
        return None if self.weights_gb is None else self.weights_gb * 1e9

    @property
    def bandwidth_gbs(self) -> float | None:
        """Peak memory bandwidth of one device, in GB/s."""
        known = None if self.gpu is None else find(self.gpu).bandwidth_gbs
        return known if self.gpu_bandwidth_gbs is None else self.gpu_bandwidth_gbs

    @property
    def memory_gb(self) -> float | None:
        """Memory of one device, in GB."""
        known = None if self.gpu is None else find(self.gpu).memory_gb
        return known if self.gpu_memory_gb is None else self.gpu_memory_gb

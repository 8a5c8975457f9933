"""Options for what a fleet must carry, survive and run on: the same for a run and for `kneescope fleet`."""

import math
from collections.abc import Mapping
from typing import Any

import click
from msgspec.structs import replace

from core.config import FleetAsk, parse_duration_s, parse_fraction
from core.errors import UserError
from core.hardware import find
from core.units import as_set, count
from tui.cli.click_types import Option, Reads
from tui.cli.inputs import read_count, read_length, read_rate, read_seed

REPLICA, FLEET, HARDWARE, OUTPUT = "One replica", "Fleet", "Hardware on paper", "Output"


MOST_TOKENS = 10**15
LOWEST_RATE_RPS = 1e-6
"""One request in eleven days: below that no fleet is sized, and prices of a token are beyond numbers."""


def read_number(text: str, name: str) -> float:
    """A finite number above zero."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise UserError(f"{name}: {text!r} is no number above zero; give one such as 15.2.")
    return value


def read_gpu(text: str, name: str) -> str:
    """The name of an accelerator, as the table has it."""
    return find(text, name).name


def read_user_rate(text: str, name: str) -> float:
    """The rate of all users together: one that a fleet is sized for."""
    value = read_rate(text, name)
    if value < LOWEST_RATE_RPS:
        raise UserError(f"{name}: {as_set(value)} requests/s is no rate of users; give at least {as_set(LOWEST_RATE_RPS)}.")
    return value


def read_tokens(text: str, name: str) -> int:
    """A number of tokens, no more than any memory holds."""
    value = read_count(text, name)
    if value > MOST_TOKENS:
        raise UserError(f"{name}: that is more tokens than any memory holds; give at most {count(MOST_TOKENS)}.")
    return value


_RATE = Reads("rate", read_user_rate)
_SHARE = Reads("share", parse_fraction)
_COUNT = Reads("n", read_count)
_SOME = Reads("n", read_seed)
_NUMBER = Reads("number", read_number)
_LENGTH = Reads("tokens", read_length)
_TOKENS = Reads("tokens", read_tokens)
_DURATION = Reads("duration", parse_duration_s)
_GPU = Reads("name", read_gpu)


def fleet_options() -> list[Option]:
    """Peak and headroom, what the fleet must survive, the price, and the hardware for the estimates on paper."""
    return [
        Option(FLEET, "--peak-rps", "Peak rate the fleet must carry [default: none, so no fleet is sized].", type=_RATE),
        Option(FLEET, "--mean-rps", "Mean rate of the same traffic, to show what autoscaling to it would save.", type=_RATE),
        Option(FLEET, "--headroom", "Share of one replica's safe rate to use at peak [default: 0.7].", type=_SHARE),
        Option(FLEET, "--tp", "Tensor-parallel size [default: as the server reports, else 1].", type=_COUNT),
        Option(FLEET, "--pp", "Pipeline-parallel size [default: as the server reports, else 1].", type=_COUNT),
        Option(FLEET, "--dp", "Data-parallel size [default: as the server reports, else 1].", type=_COUNT),
        Option(FLEET, "--lost", "Replicas that may fail at peak [default: 1].", type=_SOME),
        Option(FLEET, "--rollout", "Replicas out of service at once during a rollout at peak.", type=_SOME),
        Option(FLEET, "--growth", "Load growth per minute, compounding, such as 10%; requires --scale-out.", type=_SHARE),
        Option(FLEET, "--scale-out", "Time until a new replica serves traffic, such as 4m; requires --growth.", type=_DURATION),
        Option(
            FLEET,
            "--burstiness",
            "Measured burstiness of your arrivals, as the shape of gamma-distributed gaps: 1 / (coefficient of variation)^2."
            " 1 is Poisson, below 1 is bursty.",
            type=_NUMBER,
        ),
        Option(FLEET, "--cost", "Price of one GPU-hour, in any currency.", type=_NUMBER),
        Option(HARDWARE, "--gpu", "Accelerator, such as 'H100 SXM' or 4090; sets memory size and bandwidth.", type=_GPU),
        Option(
            HARDWARE, "--gpu-bandwidth", "Memory bandwidth of one accelerator in GB/s, if --gpu does not know it.", type=_NUMBER
        ),
        Option(HARDWARE, "--gpu-memory", "Memory of one accelerator in GB, if --gpu does not know it.", type=_NUMBER),
        Option(
            HARDWARE,
            "--weights-gb",
            "Weights read per token in GB, over all GPUs of a replica; for a mixture of experts, the active ones only.",
            type=_NUMBER,
        ),
        Option(HARDWARE, "--params-b", "Billions of parameters, instead of --weights-gb.", type=_NUMBER),
        Option(HARDWARE, "--weight-bits", "Bits per parameter, with --params-b [default: 16].", type=_NUMBER),
        Option(HARDWARE, "--eta", "Share of the memory bandwidth that decoding reaches [default: 70%, a guess].", type=_SHARE),
        Option(HARDWARE, "--kv-bytes-per-token", "KV cache bytes per token, over all layers.", type=_NUMBER),
        Option(
            HARDWARE,
            "--activations-gb",
            "Memory per GPU in GB that neither weights nor KV cache can use [default: 2].",
            type=_NUMBER,
        ),
        Option(
            HARDWARE,
            "--memory-utilization",
            "Share of GPU memory that the server may use [default: as the server reports, else 90%].",
            type=_SHARE,
        ),
    ]


def fleet_command_options() -> list[click.Parameter]:
    """What `kneescope fleet` takes: the known figures of one replica, and what the fleet must carry."""
    return [
        Option(
            REPLICA, "--run", "Recorded run to start from: a path, or last. Options given here override it.", metavar="FILE|last"
        ),
        Option(REPLICA, "--replica-rps", "Rate that one replica is known to hold.", type=_RATE),
        Option(
            REPLICA,
            "--replica-fails-rps",
            "Rate at which one replica is known to fail; the fleet is sized at both rates.",
            type=_RATE,
        ),
        Option(
            REPLICA, "--output-tps", "Output tokens/s at the knee, instead of --replica-rps; requires --output-tokens.", type=_RATE
        ),
        Option(REPLICA, "--input-tokens", "Prompt length in tokens: N, or lognormal:MEDIAN,SIGMA,MAX.", type=_LENGTH),
        Option(REPLICA, "--output-tokens", "Answer length in tokens: a mean N, or lognormal:MEDIAN,SIGMA,MAX.", type=_LENGTH),
        Option(
            REPLICA, "--output-p90", "90th percentile of the answer length in tokens, if --output-tokens is a mean.", type=_TOKENS
        ),
        Option(
            REPLICA,
            "--mean-e2e",
            "Mean E2E latency at the rate that holds; gives the number of concurrent streams.",
            type=_DURATION,
        ),
        Option(REPLICA, "--kv-tokens", "Tokens that the KV cache of one replica holds, over all engines.", type=_TOKENS),
        Option(REPLICA, "--tpot", "TPOT limit, such as 50ms, to check against the hardware.", type=_DURATION),
        Option(
            REPLICA,
            "--single-tpot",
            "TPOT measured with a single stream; gives the share of bandwidth that is reached.",
            type=_DURATION,
        ),
        Option(REPLICA, "--target", "Share of requests that must meet the limits [default: 95%].", type=_SHARE),
        *fleet_options(),
        Option(OUTPUT, "--json", "Write the fleet as JSON to this file; - for stdout.", to="json_file", metavar="FILE|-"),
    ]


def fleet_ask(options: Mapping[str, Any], base: FleetAsk | None = None) -> FleetAsk:
    """The fleet that was asked for; `base` fills in what was not given. `options` may hold others too; None means not given.

    Raises UserError for options that contradict each other.
    """
    base = base or FleetAsk()
    hardware = base.hardware
    if options.get("weights_gb") is not None or options.get("params_b") is not None:
        hardware = replace(hardware, weights_gb=None, params_b=None, weight_bits=None)
    ask = replace(base, hardware=replace(hardware, **_picked(options, _HARDWARE)), **_picked(options, _FLEET))
    if ask.mean_rps is not None and ask.peak_rps is not None and ask.mean_rps > ask.peak_rps:
        raise UserError(
            f"--mean-rps {as_set(ask.mean_rps)} is above --peak-rps {as_set(ask.peak_rps)}; a peak is the most there is."
        )
    return ask


_FLEET = {
    **{name: name for name in ("peak_rps", "mean_rps", "headroom", "tp", "pp", "dp", "lost", "rollout", "burstiness")},
    **{"growth": "growth_per_min", "scale_out": "scale_out_s", "cost": "cost_per_gpu_h"},
}
_HARDWARE = {
    **{name: name for name in ("gpu", "weights_gb", "params_b", "weight_bits", "eta", "kv_bytes_per_token")},
    **{name: name for name in ("activations_gb", "memory_utilization")},
    **{"gpu_bandwidth": "gpu_bandwidth_gbs", "gpu_memory": "gpu_memory_gb"},
}
"""Name of an option -> field."""


def _picked(options: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {field: options[name] for name, field in names.items() if options.get(name) is not None}

"""A recording made for a test: requests a constant or random time apart."""

from pathlib import Path

import numpy as np

from core.traffic import Asked, TraceArrivals, load_arrivals
from core.workloads import TraceWindow
from tests.core.traffic.files import jsonl, written


def trace_file(folder: Path, time_s: list[float], lengths: list[tuple[int, int]] | None = None, name: str = "t.csv") -> Path:
    """A trace with requests at these seconds, of these lengths in turn."""
    lengths = lengths or [(32, 17)]
    rows = [f"{t:.6f},{lengths[i % len(lengths)][0]},{lengths[i % len(lengths)][1]}" for i, t in enumerate(time_s)]
    return written(folder, "\n".join(["arrived_at,num_prefill_tokens,num_decode_tokens", *rows]) + "\n", name)


def blocks_file(folder: Path, time_s: list[float], ids: list[list[int]], output_tokens: int = 17, name: str = "b.jsonl") -> Path:
    """A trace as Mooncake's, whose prompts are these whole blocks in turn, each of 512 tokens."""
    chains = (ids[i % len(ids)] for i in range(len(time_s)))
    rows = (
        {"timestamp": round(1e3 * t), "input_length": 512 * len(chain), "output_length": output_tokens, "hash_ids": chain}
        for t, chain in zip(time_s, chains, strict=True)
    )
    return written(folder, jsonl(*rows), name)


def even(n: int, gap_s: float = 1.0) -> list[float]:
    """So many requests, one each gap."""
    return [i * gap_s for i in range(n)]


def poisson(n: int, rate_rps: float, seed: int = 5) -> list[float]:
    """So many requests at random."""
    gaps_s: list[float] = np.cumsum(np.random.default_rng(seed).exponential(1 / rate_rps, n)).tolist()
    return gaps_s


def arrivals(
    folder: Path, time_s: list[float], lengths: list[tuple[int, int]] | None = None, window: TraceWindow | None = None
) -> TraceArrivals:
    """The arrivals of such a trace."""
    return load_arrivals(Asked(path=trace_file(folder, time_s, lengths), window=window))

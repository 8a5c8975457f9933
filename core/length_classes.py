"""Which lengths belong together: the classes that a run's requests are told by, and the bins of lengths that came. Pure."""

import math
from collections import defaultdict
from collections.abc import Mapping

import msgspec
import numpy as np
from numpy.typing import NDArray

from core.config import Lengths, Workload

Span = tuple[int, int]
"""The fewest and the most tokens."""

MOST_PAIRS = 8
"""Up to so many different pairs of lengths each is a class of its own: so many rows are read at a glance."""
MOST_CLASSES = 16
"""Of more pairs, lengths within a factor of two belong together; what is rarer than so many classes is one class."""


class LengthClasses(msgspec.Struct, frozen=True, kw_only=True):
    """Classes of (prompt, answer) lengths, as asked for. They are those of a workload, so that all repeats of a run have the same
    and can be added up.

    `spans`: the tokens of each, shorter prompts first, then shorter answers; none overlap. Requests that are in none of them are a
    class of their own.
    """

    spans: tuple[tuple[Span, Span], ...]

    @classmethod
    def of(cls, workload: Workload) -> "LengthClasses":
        """The classes of what a workload asks for, by how often it does."""
        if workload.mix:
            weights: dict[tuple[int, int], float] = defaultdict(float)
            for part in workload.mix:
                weights[part.input_tokens, part.output_tokens] += part.weight
            return cls.of_pairs(weights)
        lengths = workload.input_tokens, workload.output_tokens
        apart = math.prod(1 + most - fewest for fewest, most in map(_ends, lengths)) <= MOST_PAIRS
        inputs, outputs = (_shares(each, apart=apart) for each in lengths)
        return cls._most_frequent({(i, o): p * q for i, p in inputs.items() for o, q in outputs.items()})

    @classmethod
    def of_pairs(cls, weights: Mapping[tuple[int, int], float]) -> "LengthClasses":
        """The classes of these pairs of lengths, by how often each comes."""
        if len(weights) <= MOST_PAIRS:
            return cls._most_frequent({((i, i), (o, o)): weight for (i, o), weight in weights.items()})
        ends = [(min(side), max(side)) for side in zip(*weights, strict=True)]
        shares: dict[tuple[Span, Span], float] = defaultdict(float)
        for pair, weight in weights.items():
            inputs, outputs = (_octave(tokens, *within) for tokens, within in zip(pair, ends, strict=True))
            shares[inputs, outputs] += weight
        return cls._most_frequent(shares)

    @classmethod
    def _most_frequent(cls, shares: Mapping[tuple[Span, Span], float]) -> "LengthClasses":
        by_share = sorted(shares, key=lambda spans: (-shares[spans], spans))
        return cls(spans=tuple(sorted(by_share[:MOST_CLASSES])))

    def which(self, inputs: NDArray[np.int64], outputs: NDArray[np.int64]) -> NDArray[np.int64]:
        """The class of each request, by its place in `spans`; len(spans) for one that is in none."""
        found = np.full(inputs.size, len(self.spans), dtype=np.int64)
        for at, ((low_in, high_in), (low_out, high_out)) in enumerate(self.spans):
            found[(inputs >= low_in) & (inputs <= high_in) & (outputs >= low_out) & (outputs <= high_out)] = at
        return found


def _ends(lengths: Lengths) -> Span:
    return (lengths.largest, lengths.largest) if lengths.fixed else (lengths.minimum, lengths.maximum)


def _octave(tokens: int, fewest: int, most: int) -> Span:
    """The lengths within a factor of two that these tokens are among, as far as they can be asked for: 512 to 1,023."""
    low = 1 << max(tokens, 1).bit_length() - 1
    return max(low, fewest), min(2 * low - 1, most)


def _shares(lengths: Lengths, *, apart: bool) -> dict[Span, float]:
    """How often a length of each span is drawn; each length by itself, or those within a factor of two together."""
    fewest, most = _ends(lengths)
    if lengths.fixed:
        return {(most, most): 1.0}
    shares: dict[Span, float] = {}
    at = fewest
    while at <= most:
        span = (at, at) if apart else _octave(at, fewest, most)
        # the draws below the fewest and above the most are cut to these
        below = 0.0 if span[0] == fewest else _drawn_below(lengths, span[0])
        shares[span] = (1.0 if span[1] == most else _drawn_below(lengths, span[1] + 1)) - below
        at = span[1] + 1
    return shares


def _drawn_below(lengths: Lengths, tokens: int) -> float:
    return 0.5 * math.erfc(math.log(lengths.median / tokens) / lengths.sigma / math.sqrt(2))


PER_DOUBLING = 2
"""Bins of lengths that came: an answer half as long again is in the next."""


def size_bin(tokens: int) -> int:
    """The bin of a length: bin k begins at 2^(k/2) tokens; no tokens at all are in the first, too."""
    return math.floor(PER_DOUBLING * math.log2(max(tokens, 1)))


def size_span(first: int, last: int) -> Span:
    """The fewest and the most tokens of the bins from the first to the last."""
    return math.ceil(2 ** (first / PER_DOUBLING)), math.ceil(2 ** ((last + 1) / PER_DOUBLING)) - 1

"""Lengths of requests from a file, as the kinds of a mix: the two of a request stay together."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.random import PCG64, Generator, SeedSequence
from numpy.typing import NDArray

from core.facts import Fact, fact
from core.traffic.columns import Columns, Rows, lines, read_columns
from core.traffic.files import BOM, head
from core.traffic.index import Progress
from core.traffic.refusals import BadRows, too_many_bad
from core.traffic.trace import LeftOut, frozen
from core.traffic.trace_forms import TraceForm, TraceFormat
from core.traffic.trace_reading import form_of_file
from core.workloads import MixPart, Source

NAME = "--lengths"
MOST_PAIRS = 4096
"""Distinct pairs that a mix is made of: it is written into the run file, and goes to every process of the run."""
_SAMPLE_KEY = 1000
"""Of the seed of a run's requests: no order draws by it."""
_BARE = TraceForm("plain", None, None, ("input",), "output")
_PAIR = re.compile(r"\s*([^\s,;:]+)\s*[\s,;:]\s*([^\s,;:]+)\s*")


@dataclass(frozen=True, slots=True)
class LengthsFile:
    """The pairs of a file, in its order. `bad` rows cannot be used, `failed` ones have no tokens."""

    file: str
    input_tokens: NDArray[np.int32] = field(repr=False)
    output_tokens: NDArray[np.int32] = field(repr=False)
    bad: LeftOut
    failed: LeftOut
    form: TraceFormat = "plain"

    def __len__(self) -> int:
        return int(self.input_tokens.size)

    @property
    def found(self) -> tuple[Fact, ...]:
        """What was read, and what was left out."""
        means = {"input_tokens": float(self.input_tokens.mean()), "output_tokens": float(self.output_tokens.mean())}
        said = [fact("lengths_found", file=self.file, rows=len(self), **means)]
        if len(self.failed):
            said.append(fact("trace_failed", rows=len(self.failed), rows_frac=len(self.failed) / (len(self.failed) + len(self))))
        if len(self.bad):
            said.append(fact("rows_bad", *self.bad.examples[:5], bad=len(self.bad), drawn=len(self.bad) + len(self)))
        return tuple(said)


def read_lengths(path: Path, progress: Progress = lambda share: None) -> LengthsFile:
    """Pairs of input and output tokens: two numbers a line, CSV or JSONL with their names, or the lengths of a trace.

    Raises UserError for a file that is none, and BadRows if more than 1 % of its rows cannot be used, or none can.
    """
    first = head(path, NAME, unpack=True).removeprefix(BOM).lstrip().split(b"\n", 1)[0].decode(errors="replace")
    form, rows = (_BARE, _bare_rows) if _is_pair(first) else form_of_file(path, NAME, timed=False)
    columns = Columns(form, None)
    read_columns(path, NAME, columns, rows, progress)
    bad, failed, good = columns.bad.whole(), columns.failed.whole(), len(columns.inputs)
    if not good or too_many_bad(len(bad), good):
        raise BadRows(NAME, path.name, bad.examples, len(bad) + good, good)
    inputs, outputs = (frozen(np.frombuffer(column, dtype=np.int32)) for column in (columns.inputs, columns.outputs))
    return LengthsFile(path.name, inputs, outputs, bad, failed, form.format)


def _is_pair(line: str) -> bool:
    match = _PAIR.fullmatch(line)
    return match is not None and match[1].isdigit() and match[2].isdigit()


def _bare_rows(file: BinaryIO) -> Rows:
    for at, line in lines(file):
        if line is not None and not line.strip():
            continue
        match = _PAIR.fullmatch("" if line is None else line.decode(errors="replace"))
        yield at, {"input": match[1], "output": match[2]} if match else fact("row_columns", columns=1, expected=2)


def mix_of(file: LengthsFile, seed: int) -> tuple[tuple[MixPart, ...], Source, tuple[Fact, ...]]:
    """The pairs of a file as the kinds of a mix, each as often as it stands there; where it came from; what was found.

    Of a file with more than MOST_PAIRS different pairs as many rows are drawn, by the seed of the run's requests.
    """
    pairs, weights = _counted(file.input_tokens, file.output_tokens)
    rows, said = len(file), file.found
    if len(pairs) > MOST_PAIRS:
        drawn = Generator(PCG64(SeedSequence(seed, spawn_key=(_SAMPLE_KEY,)))).permutation(len(file))[:MOST_PAIRS]
        pairs, weights = _counted(file.input_tokens[drawn], file.output_tokens[drawn])
        rows = MOST_PAIRS
        said = (*said, fact("lengths_sampled", rows=rows, of_rows=len(file)))
    parts = zip(pairs.tolist(), weights.tolist(), strict=True)
    mix = tuple(MixPart(input_tokens=pair[0], output_tokens=pair[1], weight=float(weight)) for pair, weight in parts)
    source = Source(kind="lengths", file=file.file, form=file.form, rows=rows, of_rows=len(file), bad=len(file.bad))
    return mix, source, said


def _counted(inputs: NDArray[np.int32], outputs: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The different pairs in their order, and how often each is there."""
    keys, counts = np.unique(inputs.astype(np.int64) << 32 | outputs, return_counts=True)
    return np.stack([keys >> 32, keys & 0xFFFFFFFF], axis=1), counts

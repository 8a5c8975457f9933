"""How fast is a large file of traffic open, and in how much memory? `python -m tests.benchmarks.dataset [--gb 2] [--form array]`.

Writes a file of that size (prompts of some 2 kB as JSONL or as one ShareGPT array, or an Azure trace), lets the system forget it,
and opens it and draws 2,000 rows in a process of its own: seconds (of a clock, and of the processor), and the highest memory of
that process with all its imports. Then what the load generator needs to make the bodies of these rows, first read and held.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import cycle
from pathlib import Path

from numpy.random import PCG64, Generator, SeedSequence

ROOT = Path(__file__).parents[2]
ROWS = 2_000
WORDS = ["the", "queue", 'said "no"', "line\nbreak", "[list]", "{braces}", "C:\\path", "naïve", "1,024", "tokens"]


def _texts(seed: int = 11) -> Iterator[str]:
    rng = Generator(PCG64(seed))
    some = [" ".join(WORDS[n] for n in rng.integers(0, len(WORDS), int(size))) for size in rng.integers(20, 600, 500)]
    return cycle(some)


def _jsonl() -> Iterator[str]:
    for text in _texts():
        yield json.dumps({"prompt": text, "output_tokens": 128}) + "\n"


def _array() -> Iterator[str]:
    for n, text in enumerate(_texts()):
        turns = [{"from": "human", "value": text}, {"from": "gpt", "value": text[:200]}]
        yield ("[" if n == 0 else ",\n") + json.dumps({"id": f"{n}_0", "conversations": turns}, ensure_ascii=False)


def _trace() -> Iterator[str]:
    yield "TIMESTAMP,ContextTokens,GeneratedTokens\n"
    moment = datetime(2024, 5, 12, tzinfo=UTC)
    for text in _texts():
        moment += timedelta(microseconds=20 * len(text))
        yield f"{moment.isoformat(' ')},{1 + len(text)},{1 + len(text) % 500}\n"


FORMS: dict[str, tuple[Callable[[], Iterator[str]], str]] = {"jsonl": (_jsonl, ""), "array": (_array, "]\n"), "trace": (_trace, "")}


def _write(path: Path, form: str, size: int) -> None:
    rows, end = FORMS[form]
    written, part = 0, list[str]()
    with path.open("w", encoding="utf-8") as file:
        for n, row in enumerate(rows()):
            part.append(row)
            if n % 4096 == 4095:
                written += file.write("".join(part))
                part.clear()
                if written > size:
                    break
        file.write("".join(part) + end)
        file.flush()
        os.fsync(file.fileno())
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _measure(path: Path, form: str) -> None:
    """In the child: open, draw, and print what it took."""
    from core.load.rows import Rows
    from core.records import DatasetRows
    from core.traffic import draw, open_dataset, read_trace

    begun, cpu, imported_mb = time.perf_counter(), time.process_time(), _peak_mb()
    if form == "trace":
        trace = read_trace(path)
        print(f"{len(trace):,} requests read in {time.perf_counter() - begun:.1f} s ({time.process_time() - cpu:.1f} s)", end="")
    else:
        data = open_dataset(path)
        opened, cpu = time.perf_counter(), time.process_time() - cpu
        drawn = draw(data, ROWS, SeedSequence(11))
        print(f"{data.index.rows:,} rows found in {opened - begun:.1f} s ({cpu:.1f} s)", end="")
        print(f", {len(drawn.rows):,} drawn in {time.perf_counter() - opened:.2f} s", end="")
        begins, sizes, checksums = zip(*data.spans(drawn.rows), strict=True)
        rows = Rows(DatasetRows(path=str(path), form=data.form, begins=begins, sizes=sizes, checksums=checksums), "chat")
        for what in ("first read", "held"):
            took_s = []
            for place in range(len(begins)):
                begun_row = time.perf_counter()
                rows.asked(place)
                took_s.append(time.perf_counter() - begun_row)
            took_s.sort()
            print(f"; a body {what} {1e3 * took_s[len(took_s) // 2]:.3f} ms, p99 {1e3 * took_s[-20]:.3f} ms", end="")
    print(f"; peak memory {_peak_mb():.0f} MB ({imported_mb:.0f} MB after the imports)")


def _peak_mb() -> float:
    kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return kib * (1 if sys.platform == "darwin" else 1024) / 1e6


def main() -> None:
    """One line for each form."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gb", type=float, default=2.0, help="size of the file in 10^9 bytes")
    parser.add_argument(
        "--form", choices=FORMS, action="append", help="jsonl and array if none is given; trace reads an Azure trace"
    )
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    forms: list[str] = asked.form or ["jsonl", "array"]
    if asked.measure is not None:
        _measure(asked.measure, forms[0])
        return
    for form in forms:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"traffic.{form}"
            _write(path, form, int(asked.gb * 1e9))
            print(f"{form:<6} {path.stat().st_size / 1e9:.2f} GB: ", end="", flush=True)
            command = [sys.executable, "-m", "tests.benchmarks.dataset", "--form", form, "--measure", str(path)]
            subprocess.run(command, cwd=ROOT, check=True)


if __name__ == "__main__":
    main()

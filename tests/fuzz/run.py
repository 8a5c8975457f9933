"""A coverage-guided fuzzer: `python -m tests.fuzz.run TARGET [libFuzzer options]`.

TARGET is sse, metrics, log, profile, models or address. It needs atheris (`pip install atheris`, CPython 3.11 to 3.13 on
Linux), which no test needs. What it finds is written into the folder it runs in as `crash-*`, and shown again by
`python -m tests.fuzz.run TARGET crash-FILE`. Inputs that reach new code are kept under the temporary folder, so a second run
goes on from there.
"""

import importlib
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

_INSTRUMENTED = [
    "core.load",
    "core.server",
    "core.run",
    "core.judge",
    "core.report",
    "core.fleet",
    "tui.cli.recorded",
    "tui.cli.profiles",
    "tui.cli.argv",
    "tui.cli.inputs",
    "core.address",
    "tui.cli.options",
    "prometheus_client",
]


def main() -> None:
    """Fuzz until the time (-max_total_time=SECONDS), the runs (-runs=N) or a finding ends it."""
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    atheris: Any = importlib.import_module("atheris")
    with atheris.instrument_imports(include=_INSTRUMENTED):
        from tests.fuzz.targets import HEAD_BYTES, TARGETS, seeds
    name = sys.argv.pop(1)
    target = TARGETS[name]
    corpus = Path(tempfile.gettempdir()) / "kneescope-fuzz" / name
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds(name)):
        (corpus / f"seed-{number}").write_bytes(seed)
    given = [word for word in sys.argv[1:] if not word.startswith("-")]
    argv = [*sys.argv, *([] if given else [str(corpus)]), "-max_len=32000", "-timeout=20", "-rss_limit_mb=4096"]
    atheris.Setup(argv, target, custom_mutator=_lines_mutator(atheris, HEAD_BYTES[name]))
    atheris.Fuzz()


def _lines_mutator(atheris: Any, head_bytes: int) -> Any:
    """Bytes changed at random are hardly ever a whole event; lines moved, doubled and left out, and other numbers, often are."""

    def mutate(data: bytes, max_size: int, seed: int) -> bytes:
        chance = random.Random(seed)
        if chance.random() < 0.3:
            return bytes(atheris.Mutate(data, max_size))
        head, lines = data[:head_bytes].ljust(head_bytes, b"\x80"), data[head_bytes:].splitlines(keepends=True)
        if not lines:
            return bytes(atheris.Mutate(data, max_size))
        for _ in range(chance.randint(1, 4)):
            at, other = chance.randrange(len(lines)), chance.randrange(len(lines))
            match chance.randrange(5):
                case 0:
                    lines[at], lines[other] = lines[other], lines[at]
                case 1:
                    lines.insert(at, lines[other])
                case 2 if len(lines) > 1:
                    del lines[at]
                    continue
                case _:
                    lines[at] = _other_number(lines[at], chance)
        return (head + b"".join(lines))[:max_size]

    return mutate


def _other_number(line: bytes, chance: random.Random) -> bytes:
    """The line with one of its values replaced."""
    values = [b"0", b"-1", b"1", b"0.5", b"2", b"1e9", b"1e300", b"-1e300", b"9007199254740993", b"null", b'""', b"[]", b"true"]
    starts = [i + 1 for i, char in enumerate(line) if char in b":[," and line[i + 1 : i + 2] != b'"' and i + 1 < len(line)]
    if not starts:
        return line
    start = chance.choice(starts)
    end = start
    while end < len(line) and line[end] not in b",]}\n":
        end += 1
    return line[:start] + chance.choice(values) + line[end:]


if __name__ == "__main__":
    main()

"""Is parsing linear in the bytes? `python -m tests.benchmarks.stream_parsing`.

Times the stream parser on bodies of 1 and 8 MiB, in several shapes and pieces, and prints nanoseconds per byte and the ratio
of the two: 8 would be quadratic. It gave 0.97 to 1.2, and 3 for one event of 8 MiB, which no longer fits into the CPU's cache.
"""

import argparse
import time
from collections.abc import Callable

from core.load.sse import SseParser

MIB = 1024 * 1024
SHAPES: dict[str, Callable[[int], bytes]] = {
    "one event": lambda size: b"data: " + b"x" * (size - 8) + b"\n\n",
    "one event of short lines": lambda size: b"data: x\n" * (size // 8) + b"\n",
    "chunks of a model": lambda size: (b'data: {"choices":[{"text":" a"}]}\n\n') * (size // 37),
    "comments": lambda size: b": ping\n\n" * (size // 8),
    "one comment": lambda size: b":" * size,
    "ends of lines": lambda size: b"\r\n" * (size // 2),
    "bare JSON over lines": lambda size: b"{\n" + b'"a": 1,\n' * (size // 8),
}


def _ns_per_byte(body: bytes, piece: int) -> float:
    best = float("inf")
    for _ in range(3):
        parser = SseParser(limit=16 * MIB)
        start = time.process_time()
        for at in range(0, len(body), piece):
            parser.feed(body[at : at + piece])
        parser.close()
        best = min(best, time.process_time() - start)
    return 1e9 * best / len(body)


def main() -> None:
    """The table."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    print(f"{'body':<26} {'bytes a piece':>13} {'ns/byte, 1 MiB':>15} {'8 MiB':>7} {'ratio':>6}")
    for name, shape in SHAPES.items():
        for piece in (7, 1400, 65536):
            small, large = (_ns_per_byte(shape(size), piece) for size in (MIB, 8 * MIB))
            print(f"{name:<26} {piece:>13} {small:>15.2f} {large:>7.2f} {large / small:>6.2f}")


if __name__ == "__main__":
    main()

"""Small files of every form, and files written for one test."""

import json
from pathlib import Path

from numpy.random import SeedSequence

DATA = Path(__file__).parents[2] / "data" / "traffic"
SEED = SeedSequence(11)


def written(folder: Path, text: str | bytes, name: str = "file") -> Path:
    """A file with this content."""
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def jsonl(*rows: object) -> str:
    """One row a line."""
    return "".join(json.dumps(row) + "\n" for row in rows)

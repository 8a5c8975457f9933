"""What the layout costs a reader: counts over a checkout, so that two of them can stand side by side.

    python -m tests.benchmarks.house [CHECKOUT ...] [--path]

Counted are modules of core and tui, rooms (folders), import circles, places outside the room of texts that read a sentence back,
assertions on prose, modules that write numbers in a format of their own, bytes of the README, and the packages that the product
pulls in. `--path` also runs the demo's replica at one rate and counts the modules whose code runs for every single request, from
its arrival to the line that shows it.
"""

import argparse
import ast
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
SENTENCES = {"reason", "message", "text", "sentence", "warnings", "notes", "why", "advice", "note"}
"""Attributes that hold, or held, a sentence."""
READERS = {"startswith", "endswith", "partition", "removeprefix", "removesuffix", "split", "find", "index"}
WORDS = 4
"""A string of so many words, compared in an assertion, is prose."""
NUMBER = re.compile(r"^[^{}%]*[,_efgnd%]$")
"""The end of a format that writes a number; a date has more than one percent sign."""
MACHINES = {
    "core.replica": "writes /metrics and JSON for programs, as a server does",
    "core.report.scalers": "writes YAML and PromQL, whose numbers have neither units nor separators",
}
"""Modules whose formats no user reads, with the reason; those of a room with it."""
RATE_RPS, MEASURE_S = 10.0, "15s"


def modules(root: Path) -> dict[str, Path]:
    """Name -> file, of the product."""
    found = (path for part in ("core", "tui") for path in (root / part).rglob("*.py"))
    return {name_of(path.relative_to(root)): path for path in sorted(found)}


def name_of(path: Path) -> str:
    """`core/judge/__init__.py` -> `core.judge`."""
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def imports(tree: ast.AST, known: Iterable[str]) -> set[str]:
    """The modules that this one names, wherever it does."""
    names, known = set[str](), set(known)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {whole if (whole := f"{node.module}.{each.name}") in known else node.module for each in node.names}
        elif isinstance(node, ast.Import):
            names |= {each.name for each in node.names}
    return names & known


def circles(arrows: Mapping[str, set[str]]) -> list[list[str]]:
    """Groups of modules of which each reaches each other."""
    reach = {name: set[str]() for name in arrows}
    for name in arrows:
        todo = list(arrows[name])
        while todo:
            if (other := todo.pop()) not in reach[name]:
                reach[name].add(other)
                todo.extend(arrows[other])
    groups = {frozenset(o for o in reach[name] if name in reach[o]) for name in arrows if name in reach[name]}
    return sorted(sorted(group) for group in groups)


def _sentence(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in SENTENCES


def reads_back(tree: ast.AST) -> Iterator[int]:
    """Lines where an attribute that holds a sentence is compared, searched or taken apart."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            texts = [side for side in sides if _sentence(side)]
            others = [side for side in sides if not _sentence(side)]
            words = all(
                (isinstance(o, ast.Constant) and isinstance(o.value, str) and o.value) or isinstance(o, ast.Name) for o in others
            )
            contains = any(isinstance(op, ast.In | ast.NotIn) for op in node.ops) and _sentence(node.comparators[-1])
            if contains or (texts and words and any(isinstance(op, ast.Eq | ast.NotEq) for op in node.ops)):
                yield node.lineno
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            called, on = node.func.attr, node.func.value
            searched = isinstance(on, ast.Name) and on.id == "re" and any(_sentence(each) for each in node.args)
            if searched or (called in READERS and _sentence(on)):
                yield node.lineno


def prose(tree: ast.AST) -> int:
    """Assertions that hold a string of several words."""
    return sum(
        any(isinstance(n, ast.Constant) and isinstance(n.value, str) and len(n.value.split()) >= WORDS for n in ast.walk(node.test))
        for node in ast.walk(tree)
        if isinstance(node, ast.Assert)
    )


def formats(tree: ast.AST) -> bool:
    """Whether a number is written in a format given on the spot."""
    specs = (n.format_spec for n in ast.walk(tree) if isinstance(n, ast.FormattedValue) and n.format_spec is not None)
    return any(
        NUMBER.match("".join(str(v.value) if isinstance(v, ast.Constant) else "0" for v in spec.values))
        for spec in specs
        if isinstance(spec, ast.JoinedStr)
    )


def writing_numbers(trees: Mapping[str, ast.AST]) -> list[str]:
    """The modules with formats of numbers that users read."""
    return [name for name, tree in trees.items() if not name.startswith(tuple(MACHINES)) and formats(tree)]


def packages(root: Path) -> int:
    """Of the pinned set, those that the product itself needs, by what is installed here."""
    code = """
import importlib.metadata as m, re, sys, tomllib
from packaging.requirements import Requirement
def wanted(need, extras):
    return not need.marker or any(need.marker.evaluate({"extra": extra}) for extra in ("", *extras))
todo = [(Requirement(each), ()) for each in tomllib.load(open(sys.argv[1], "rb"))["project"]["dependencies"]]
seen = set()
while todo:
    need, extras = todo.pop()
    key = (re.sub(r"[-_.]+", "-", need.name).lower(), tuple(sorted(need.extras)))
    if key not in seen and wanted(need, extras):
        seen.add(key)
        todo += [(Requirement(each), need.extras) for each in m.requires(need.name) or []]
print(len({name for name, _ in seen}))
"""
    return int(
        subprocess.run(
            [sys.executable, "-c", code, str(root / "pyproject.toml")], capture_output=True, text=True, check=True
        ).stdout
    )


def counts(root: Path) -> dict[str, object]:
    """Every count that needs no run."""
    files = modules(root)
    trees = {name: ast.parse(path.read_text()) for name, path in files.items()}
    tests = [ast.parse(path.read_text()) for path in (root / "tests").rglob("*.py")]
    back = [
        f"{files[name].relative_to(root)}:{line}"
        for name, tree in trees.items()
        if not name.startswith("core.replica")
        for line in reads_back(tree)
    ]
    lines = [len(path.read_text().splitlines()) for path in files.values()]
    return {
        "modules": len(files),
        "modules under 60 lines": sum(n < 60 for n in lines),
        "lines": sum(lines),
        "rooms": len({path.parent for path in files.values()}),
        "doors": sum(path.name == "__init__.py" and "__all__" in path.read_text() for path in files.values()),
        "import circles": len(circles({name: imports(tree, files) - {name} for name, tree in trees.items()})),
        "places that read a sentence back": len(back),
        "where": back,
        "assertions": sum(isinstance(node, ast.Assert) for tree in tests for node in ast.walk(tree)),
        "assertions on prose": sum(map(prose, tests)),
        "modules with number formats": len(writing_numbers(trees)),
        "README bytes": (root / "README.md").stat().st_size,
        "packages": packages(root),
    }


WATCH = """
import json, os, sys, threading, time
folder, root = os.environ["HOUSE_FOLDER"], os.environ["HOUSE_ROOT"]
calls = {}
def seen(frame, event, arg):
    if event == "call":
        code = frame.f_code
        if code.co_filename.startswith((root + "/core/", root + "/tui/")):
            calls[code] = calls.get(code, 0) + 1
def tell():  # again and again: a child that sends is ended from outside
    while True:
        time.sleep(0.5)
        found = [[c.co_filename[len(root) + 1:], n] for c, n in list(calls.items())]
        with open(f"{folder}/{os.getpid()}.new", "w") as file:
            json.dump(found, file)
        os.replace(f"{folder}/{os.getpid()}.new", f"{folder}/{os.getpid()}.json")
threading.Thread(target=tell, daemon=True).start()
threading.setprofile(seen)
sys.setprofile(seen)
"""


def path(root: Path) -> tuple[int, list[str]]:
    """How many requests a short run sent, and the modules of the product of which some function ran for each of them."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "sitecustomize.py").write_text(WATCH)
        env = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{root}", "HOUSE_FOLDER": name, "HOUSE_ROOT": str(root)}
        asked = [
            "demo",
            "--headless",
            "--rates",
            str(RATE_RPS),
            "--measure",
            MEASURE_S,
            "--repeats",
            "1",
            "--json",
            f"{name}/result.json",
        ]
        asked += ["--out", f"{name}/run.jsonl"]
        subprocess.run([sys.executable, "-m", "tui", *asked], cwd=root, env=env, check=False, capture_output=True, timeout=300)
        result = json.loads((folder / "result.json").read_text())
        sent = sum(repeat["sent"] for step in result["steps"] for repeat in step["repeats"])
        found = set[str]()
        for each in folder.glob("[0-9]*.json"):
            found |= {file for file, n in json.loads(each.read_text()) if n >= sent and not file.startswith("core/replica")}
    return sent, sorted(found)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("checkout", nargs="*", type=Path, default=[ROOT])
    parser.add_argument("--path", action="store_true")
    asked = parser.parse_args(arguments)
    for root in (each.resolve() for each in asked.checkout):
        print(root.name)
        for name, value in counts(root).items():
            print(
                f"  {name}: {value}"
                if not isinstance(value, list)
                else "".join(f"    {each}\n" for each in value).rstrip() or "    -"
            )
        if asked.path:
            sent, found = path(root)
            print(f"  modules whose code runs for each of {sent} requests: {len(found)}\n    " + "\n    ".join(found))


if __name__ == "__main__":
    main(sys.argv[1:])

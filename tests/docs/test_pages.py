"""What the pages point to is there: links, pictures, headings, files, modules, options; and the README is one page."""

import importlib.util
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tests.docs.options import every_command
from tui.cli.commands import cli

ROOT = Path(__file__).parents[2]
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS]
NAMES = {
    "method",
    "screens",
    "options",
    "result",
    "fleet",
    "safety",
    "accuracy",
    "what-if",
    "development",
    "traffic",
    "watch",
    "report",
    "ci",
    "compare",
    "tune",
    "run-file",
}
MOST_BYTES = 6144
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.S | re.M)
FOREIGN = {
    *("--max-num-seqs", "--gpu-memory-utilization", "--num-gpu-blocks-override", "--max-num-batched-tokens"),
    *("--tensor-parallel-size", "--api-server-count", "--max-loras", "--enable-prompt-tokens-details"),  # vLLM's
    *(
        "--replicas",
        "--nodes",
        "--case",
        "--horizon",
        "--seed",
        "--chaos",
        "--simulated",
        "--rounds",
        "--rate",
        "--loops",
        "--busy",
        "--twin",
        "--slower",
        "--kind",
        "--runs",
    ),  # of benchmarks
    *("--snapshot-update", "--write"),  # of tests
    *("--head", "--address", "--num-cpus"),  # of ray start
    "--rm",  # docker's
    "--hypothesis-profile",  # pytest's
    *("--rm", "--network"),  # docker's
}

page = pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)


def anchors(path: Path) -> set[str]:
    """The headings of a page as a link names them."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", path.read_text()), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken(path: Path) -> Iterator[str]:
    """The relative links of a page that lead nowhere."""
    for link in LINK.findall(FENCE.sub("", path.read_text())):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        if not target.is_relative_to(ROOT) or not target.exists() or (anchor and anchor not in anchors(target)):
            yield link


@page
def test_every_relative_link_and_picture_is_there(page: Path) -> None:
    assert list(broken(page)) == []


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.docs.test_pages.ROOT", tmp_path.resolve())
    (tmp_path / "b.md").write_text("# One, two\n")
    text = "[ok](b.md#one-two) [web](https://h/x) [no](c.md) ![no](d.png) [no](b.md#three) [no](#four)\n"
    (tmp_path / "a.md").write_text(text)
    assert list(broken(tmp_path / "a.md")) == ["c.md", "d.png", "b.md#three", "#four"]


def test_the_readme_is_one_page_that_links_every_other() -> None:
    readme = (ROOT / "README.md").read_bytes()
    assert len(readme) <= MOST_BYTES
    assert {path.stem for path in DOCS} == NAMES
    linked = set(LINK.findall(readme.decode()))
    assert {f"docs/{name}.md" for name in NAMES} | {"CONTRIBUTING.md", "CHANGELOG.md"} <= linked
    assert len([link for link in linked if link.endswith(".png")]) == 1


@pytest.mark.parametrize("path", DOCS, ids=lambda path: path.name)
def test_a_page_begins_with_the_question_it_answers(path: Path) -> None:
    title, empty, first = path.read_text().splitlines()[:3]
    assert title.startswith("# ")
    assert empty == ""
    assert re.match(r"\*\*[A-Z][^*]*\?\*\*", first)


@page
def test_every_file_and_module_that_is_named_is_there(page: Path) -> None:
    text = page.read_text()
    paths = re.findall(r"`((?:core|tui|tests|screenshots|docs|\.ci)/[\w./]*)`", text)
    assert [path for path in paths if not (ROOT / path).exists()] == []
    modules = re.findall(r"python -m (tests[\w.]*)", text)
    assert [name for name in modules if importlib.util.find_spec(name) is None] == []


def test_the_map_names_every_file_once() -> None:
    """Each file once, in the row of its question, so that a new one does not stay off the map."""
    tables = re.findall(r"^\|.*\|$", (ROOT / "docs/development.md").read_text(), re.M)
    named = Counter(re.findall(r"`((?:core|tui)/[\w/]+\.py)`", "\n".join(tables)))
    files = {str(path.relative_to(ROOT)) for top in ("core", "tui") for path in (ROOT / top).rglob("*.py")}
    assert named == Counter(path for path in files if not path.endswith("__init__.py"))


@page
def test_every_option_that_is_named_is_one(page: Path) -> None:
    known = {name for command in (cli, *every_command().values()) for param in command.params for name in param.opts}
    known |= {"--help"} | FOREIGN
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", page.read_text()))
    assert named - known == set()
    assert all(isinstance(command, click.Command) for command in every_command().values())

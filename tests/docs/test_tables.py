"""The generated tables in docs/ are those of the code, and they name every option and every key of a result."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from core import report
from core.fleet.memory import DEFAULT_ACTIVATIONS_GB, DEFAULT_UTILIZATION
from core.fleet.speed import DEFAULT_ETA
from core.hardware import DEFAULT_WEIGHT_BITS
from tests.docs import meanings, options, result, tables
from tui.cli import argv
from tui.cli.commands import cli
from tui.cli.configure import build
from tui.cli.recorded import Recorded

ROOT = Path(__file__).parents[2]
RUNS = sorted([ROOT / "screenshots/demo.jsonl", *(ROOT / "tests/data/runs").glob("*.jsonl")])
MARKED = f"before\n<!-- begin t: generated, renew with `{tables.COMMAND}` -->\nold\n<!-- end t -->\nafter\n"


def test_the_committed_tables_are_those_of_the_code() -> None:
    assert sorted(tables.stale()) == [], f"tables in these pages of docs/ are out of date; renew them: {tables.COMMAND}"


def test_a_table_that_differs_is_made_anew_and_nothing_else() -> None:
    new = tables.with_tables(MARKED, {"t": lambda: "| a \\| b |\n"})
    assert new == MARKED.replace("old", "\n| a \\| b |\n")
    assert tables.with_tables(new, {"t": lambda: "| a \\| b |"}) == new


@pytest.mark.parametrize(
    "text", ["no comments", MARKED + MARKED, MARKED.replace("end t", "end"), MARKED.replace("begin t", "begin")]
)
def test_a_page_without_its_pair_of_comments_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="begin t"):
        tables.with_tables(text, {"t": lambda: ""})


def test_every_option_of_every_command_is_in_its_chapter() -> None:
    chapters = options.options_tables().split("### ")[1:]
    for name, command in [*cli.commands.items(), ("kneescope` alone", cli)]:
        titles = [f" {each.splitlines()[0]}`".replace(" `", " ") for each in chapters]
        (chapter,) = [each for each, title in zip(chapters, titles, strict=True) if f" {name}`" in title]
        for _, (option, _, _) in options.rows(command):
            assert option.strip("`").split()[0] in chapter, f"{option} of {name}"


def defaults() -> Iterator[tuple[str, str]]:
    """Options of a run whose default is a value that could be given, in the help's own words."""
    for name, option in argv.OPTIONS.items():
        default = options.default_of(option).split(";")[0].split(",")[0].strip()
        said_elsewhere = name in ("api-key-file", "symbols")  # a variable, and what is in force from the first moment
        if default not in ("off", "none") and " " not in default and not said_elsewhere:
            yield name, default


@pytest.mark.parametrize(("name", "default"), list(defaults()))
def test_a_default_in_the_help_is_what_leaving_the_option_out_means(name: str, default: str) -> None:
    paper = {"eta": DEFAULT_ETA, "weight-bits": DEFAULT_WEIGHT_BITS, "activations-gb": DEFAULT_ACTIVATIONS_GB}
    given, without = argv.options([f"--{name}", default]), argv.options([])
    if name in paper:
        assert given[name.replace("-", "_")] == paper[name]
    elif name in ("ttft", "tpot"):
        assert getattr(build(given, "http://h").slo, f"{name}_s") == getattr(build(without, "http://h").slo, f"{name}_s")
    else:
        assert build(given, "http://h") == build(without, "http://h")


def test_the_defaults_that_are_compared_are_those_with_a_value() -> None:
    assert {name for name, _ in defaults()} == {
        *("api", "ttft", "tpot", "target", "max-error-rate", "input-tokens", "output-tokens", "mode", "drain", "seed"),
        *("arrival-cv", "length-correlation", "stop", "prefix"),
        *("load-at-peak", "lost", "weight-bits", "eta", "activations-gb"),
    }
    assert f"else {DEFAULT_UTILIZATION:.0%}" in options.default_of(argv.OPTIONS["memory-utilization"])


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.name)
def test_every_key_of_a_recorded_result_is_known(path: Path) -> None:
    found = set(result.keys_in(report.result(Recorded(str(path)).view(), None)))
    assert "steps[].repeats[].ttft_s.p95" in found
    assert found - set(result.all_keys()) == set()


def test_keys_that_may_be_null_are_known_by_their_types() -> None:
    assert {
        *("knee.upper.failed", "steps[].repeats[].worst_block.from_s", "steps[].repeats[].buckets[].ttft_p95_s"),
        *("steps[].repeats[].stages.queue_s", "diagnosis.steps[].place", "fleet.at_p90_output.replicas"),
        *("fleet.cost.per_hour", "fleet.speed.floor_s", "fleet.memory.fits_p90", "required.met"),
    } <= set(result.all_keys())


@pytest.mark.parametrize(
    ("change", "words_"),
    [
        (lambda texts: texts.pop("knee.pass_rps"), r"without a meaning \['knee.pass_rps'\]"),
        (lambda texts: texts.update({"knee.gone": "x"}), r"without a key \['knee.gone'\]"),
    ],
)
def test_a_key_without_a_meaning_and_a_meaning_without_a_key_are_refused(
    monkeypatch: pytest.MonkeyPatch, change: Any, words_: str
) -> None:
    texts = dict(meanings.MEANINGS)
    change(texts)
    monkeypatch.setattr(result, "MEANINGS", texts)
    with pytest.raises(ValueError, match=words_):
        result.result_tables()

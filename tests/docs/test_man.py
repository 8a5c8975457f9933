"""The man page is what the help says, and troff reads it."""

import re
import shutil
import subprocess

import click
import pytest

from tests.docs import man
from tests.docs.tables import DOCS
from tui.cli.commands import cli

PAGE = DOCS / "kneescope.1"
READERS = {"mandoc": ["mandoc", "-T", "lint", "-W", "warning"], "groff": ["groff", "-man", "-Tascii", "-ww", "-z"]}


def plain(text: str) -> str:
    """What a line of roff shows."""
    return re.sub(r"\\f[BIR]", "", text).replace("\\-", "-").replace("\\e", "\\").replace("\\&", "").replace("\\(ga", "`")


def test_it_has_the_parts_of_a_man_page_and_every_command() -> None:
    text = man.man_page()
    assert re.findall(r"^\.SH (.+)$", text, re.M) == [
        *("NAME", "SYNOPSIS", "DESCRIPTION", "COMMANDS", "EXIT STATUS", "ENVIRONMENT"),
    ]
    assert plain(text.split(".SH NAME\n")[1]).startswith("kneescope - find the request rate")
    commands = [plain(each) for each in re.findall(r"^\.SS (.+)$", text, re.M)]
    assert {f"kneescope {name}" for name in cli.commands} <= set(commands)


def test_every_option_stands_under_its_command() -> None:
    chapters = plain(man.man_page()).split("\n.SS ")[1:]
    of = {chapter.splitlines()[0]: chapter for chapter in chapters}
    for name, command in cli.commands.items():
        for param in command.params:
            if isinstance(param, click.Option):
                assert re.search(rf"{param.opts[0]}(?![\w-])", of[f"kneescope {name}"]), f"{param.opts[0]} of {name}"


def test_the_commands_of_a_group_stand_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    group = click.Group("runs", help="What was recorded.", commands={"prune": click.Command("prune", help="Delete old ones.")})
    monkeypatch.setitem(cli.commands, "runs", group)
    text = plain(man.man_page())
    assert ".SS kneescope runs\nWhat was recorded.\n" in text
    assert ".SS kneescope runs prune\nDelete old ones.\n" in text
    assert "runs redact" not in text


def test_no_text_is_taken_for_a_request() -> None:
    known = (".TH", ".SH", ".SS", ".PP", ".TP", ".B ", ".br", ".nf", ".fi", '.\\"')
    assert [line for line in man.man_page().splitlines() if line.startswith((".", "'")) and not line.startswith(known)] == []
    assert man._text(".x 'a\\b'-c") == "\\&.x 'a\\eb'\\-c"


@pytest.mark.parametrize("reader", READERS)
def test_readers_of_man_pages_have_nothing_to_say(reader: str) -> None:
    if shutil.which(reader) is None:
        pytest.skip(f"{reader} is not installed here")
    done = subprocess.run([*READERS[reader], PAGE], capture_output=True, text=True, timeout=60, check=False)
    said = [line for line in (done.stdout + done.stderr).splitlines() if "missing date" not in line]  # it would be out of date
    assert said == []

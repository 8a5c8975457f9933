"""Options as words of a command line, wherever they come from: the shell, a profile, the fields of a screen.

One parser reads them all, so that each refuses the same nonsense with the same sentence.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import PurePath
from typing import Any

import click

from core.errors import UserError
from tui.cli.click_types import Option
from tui.cli.configure import CliOptions
from tui.cli.options import RUN_OPTIONS, SECRET_OPTIONS

_KEY_OPTIONS = {"--api-key", "--apikey", "--key", "--token"}
_KEY_REFUSED = (
    "{}: no option takes a key, because process lists and shell histories show it; put it into a file and give"
    " --api-key-file FILE, or set the variable KNEESCOPE_API_KEY."
)

_DATASET = "--dataset"

Text = str | bool | Sequence[str]
Texts = Mapping[str, Text]
"""Options by name without dashes, as text; True for one that takes no value, a list for one that may be repeated."""

OPTIONS: dict[str, Option] = {option.flag.removeprefix("--"): option for option in RUN_OPTIONS}
_PROBE = click.Command("probe", params=[*OPTIONS.values()], add_help_option=False)


def key_refused(error: click.UsageError) -> str | None:
    """The sentence for an option that would take an API key on the command line; None for any other fault."""
    if isinstance(error, click.NoSuchOption) and error.option_name in _KEY_OPTIONS:
        return _KEY_REFUSED.format(error.option_name)
    return None


def parsed(words: Sequence[str]) -> dict[str, Any]:
    """The values of probe's options, by the names that `CliOptions` has for them. Raises UserError for the first that is wrong."""
    with _refused_in_a_sentence(), _PROBE.make_context("kneescope probe", list(words)) as context:
        return dict(context.params)


def options(words: Sequence[str]) -> CliOptions:
    """The options of a run. Raises UserError for what is wrong with one of them, or with them together."""
    values = parsed(words)
    if values.pop("profile") is not None:
        raise UserError("--profile works on the command line only; give the options that it holds.")
    return CliOptions(values)


def texts(words: Sequence[str]) -> dict[str, Text]:
    """The options in words of a command line as text. Raises UserError for an unknown option; looks at no value."""
    with _refused_in_a_sentence():
        values, rest, order = _PROBE.make_parser(click.Context(_PROBE)).parse_args(list(words))
    if rest:
        secret = next((param.opts[0] for param in order if param.opts[0] in SECRET_OPTIONS), None)
        if secret is not None:  # the rest may be the part of its value behind a blank
            raise UserError(f"One word belongs to no option; if the value of {secret} has blanks, put it in quotes.")
        raise UserError(f"{rest[0]!r} is not an option; options begin with --.")
    return {param.opts[0].removeprefix("--"): values[param.name or ""] for param in order}


def words(texts: Texts) -> list[str]:
    """The command line that says so; the reverse of `texts`."""
    said: list[str] = []
    for name, text in texts.items():
        if isinstance(text, bool):
            said += [f"--{name}"] if text else []
            continue
        for value in [text] if isinstance(text, str) else text:
            said += [f"--{name}={value}"] if value.startswith("-") or not value else [f"--{name}", value]
    return said


def split(line: str) -> list[str]:
    """What the shell would make of a line. Raises UserError for quotes that do not close."""
    try:
        return shlex.split(line)
    except ValueError as error:
        raise UserError(f"These options cannot be read: {str(error).lower()}.") from None


def logged(argv: Sequence[str]) -> str:
    """The command line as it may be written down: without the values of options that may hold a secret, and without the folder of
    a dataset, which is nobody's who reads a result."""
    said, hidden, file = ["kneescope"], False, False
    for word in argv:
        name, equals, value = word.partition("=")
        if hidden:
            said.append("'...'")
        elif file or (name == _DATASET and equals):
            said.append(shlex.quote(PurePath(word).name if file else f"{name}={PurePath(value).name}"))
        elif name in SECRET_OPTIONS and equals:
            said += [name, "'...'"]
        else:
            said.append(shlex.quote(word))
        file = word == _DATASET and not (hidden or file)
        hidden = word in SECRET_OPTIONS and not hidden
    return " ".join(said)


@contextmanager
def _refused_in_a_sentence() -> Iterator[None]:
    try:
        yield
    except click.UsageError as error:
        raise UserError(key_refused(error) or error.format_message()) from None

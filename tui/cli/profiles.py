"""Settings of a run kept in a TOML file: options by name, as on the command line, and the server's address. Never a secret.

`ttft = "500ms"` stands for --ttft 500ms, `careful = true` for --careful, `rates = [2, 4]` for --rates 2,4.
"""

import os
import re
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import platformdirs
import tomli_w

from core.errors import UserError
from tui.cli import argv
from tui.cli.argv import OPTIONS
from tui.cli.click_types import Reads
from tui.cli.configure import is_given, one_load_at_peak
from tui.cli.inputs import read_server
from tui.cli.options import ACCESS, OUTPUT, SECRET_OPTIONS, SERVER, WATCH
from tui.cli.requests import LENGTHS_OF_ALL, OF_TRACE, SOURCES

URL = "url"
SECRETS = frozenset(
    {*(name.removeprefix("--") for name in SECRET_OPTIONS), "api-key", "apikey", "key", "token", "password", "authorization"}
)
"""What may hold one, whether or not there is such an option."""
ONE_RUN = frozenset({"yes"})
"""Permission for one run: kept in a file it would cover servers that nobody thought of when it was given."""

_MOST_CHARS = 65536
_HEAD = "# kneescope settings: options of `kneescope probe` by name. Keys and other secrets are never saved here.\n"
_NUMBER = re.compile(r"[1-9][0-9]*|(?:0|[1-9][0-9]*)\.[0-9]*[1-9]")

_BY_TRACE = frozenset({"trace", *OF_TRACE})
_BY_SOURCES = frozenset({*SOURCES, *OF_TRACE})
_GIVES_WAY: Mapping[str, frozenset[str]] = {
    "mode": frozenset({"careful"}),
    "careful": frozenset({"mode", "hold"}),
    "rates": frozenset({"hold", "start_rps", "budget", "trace_scale"}),
    "hold": frozenset(
        {"rates", "require_rps", "start_rps", "careful", "repeats", "budget", "reset_cache", "closed_loop", "trace_scale"}
    ),
    "start_rps": frozenset({"rates", "hold", "trace_scale"}),
    "budget": frozenset({"rates", "hold", "trace_scale"}),
    "trace_scale": frozenset({"rates", "hold", "start_rps", "budget"}),
    "closed_loop": frozenset({"hold", "gateway_limit"}),
    "gateway_limit": frozenset({"closed_loop"}),
    "require_rps": frozenset({"hold"}),
    "repeats": frozenset({"hold"}),
    "reset_cache": frozenset({"hold", "with_others", "max_waiting"}),
    "between": frozenset({"hold", "with_others", "max_waiting"}),
    "with_others": frozenset({"reset_cache"}),
    "ca_file": frozenset({"insecure"}),
    "insecure": frozenset({"ca_file"}),
    "load_at_peak": frozenset({"headroom"}),
    "headroom": frozenset({"load_at_peak"}),
    "weights_gb": frozenset({"params_b", "weight_bits"}),
    "params_b": frozenset({"weights_gb"}),
    "mix": (_BY_SOURCES | {*LENGTHS_OF_ALL}) - {"mix"},
    "lengths": (_BY_SOURCES | {*LENGTHS_OF_ALL}) - {"lengths"},
    "dataset": (_BY_SOURCES | {*LENGTHS_OF_ALL, "prefix"}) - {"dataset", "output_tokens"},
    "trace": frozenset({*SOURCES, *LENGTHS_OF_ALL, "arrival_cv"}) - {"trace"},
    "input_tokens": _BY_SOURCES,
    "output_tokens": _BY_SOURCES - {"dataset"},
    "length_correlation": _BY_SOURCES,
    "arrival_cv": _BY_TRACE,
}
"""What of a profile goes with an option of the command line that excludes it: the command line wins."""


_OLD_NAMES: Mapping[str, str] = {"load-at-peak": "headroom"}
"""Options whose key in the file keeps its old name; both names are read, and the new one is handed on."""


def last_path() -> Path:
    """Where the settings that were used last are kept."""
    return Path(platformdirs.user_config_dir("kneescope", appauthor=False)) / "last.toml"


def load(path: Path) -> dict[str, argv.Text]:
    """The options in a profile by name, as text, `url` among them. Raises UserError naming the file and what is wrong in it."""
    try:
        texts: dict[str, argv.Text] = {name: _text(name, value) for name, value in _read(path).items()}
        if URL in texts:
            texts[URL] = read_server(str(texts[URL]), URL)
        one_load_at_peak(argv.parsed(argv.words(_options(texts))))
    except UserError as error:
        raise UserError(f"profile {path}: {error}") from None
    new_names = {old: new for new, old in _OLD_NAMES.items()}
    return {new_names.get(name, name): text for name, text in texts.items()}


def under(path: Path, values: Mapping[str, Any], *, server: bool = True) -> tuple[str | None, dict[str, Any]]:
    """The address in a profile, and `values` (by the names of `CliOptions`) with its options where they have none.

    `server` False: its address and what belongs to its server are left out. Raises UserError as `load` does.
    """
    texts = load(path)
    kept = {name: text for name, text in _options(texts).items() if server or OPTIONS[name].section not in (SERVER, ACCESS, WATCH)}
    theirs = argv.parsed(argv.words(kept))
    given = {name for name, value in values.items() if is_given(value)}
    out = set().union(*(_GIVES_WAY.get(name, ()) for name in given))
    merged = {name: theirs.get(name) if name not in given | out else value for name, value in values.items()}
    return (str(texts[URL]) if URL in texts and server else None), merged


def save(path: Path, url: str, options: Sequence[str], *, replace: bool = False) -> list[str]:
    """Keep the address and the options (words of a command line) in a file for this user alone.

    Returns the names of what no profile may hold and was left out. Raises UserError where the file cannot be written, or is there
    and not to be replaced.
    """
    texts = argv.texts(options)
    left_out = [name for name in texts if not _may_hold(name)]
    kept = {_OLD_NAMES.get(name, name): _value(name, text) for name, text in texts.items() if name not in left_out}
    content = {URL: url, **kept}
    _write(path, (_HEAD + tomli_w.dumps(content)).encode(errors="replace"), replace=replace)
    return left_out


def save_last(url: str, options: Sequence[str]) -> None:
    """Keep the settings for the next time. Where that is not possible the next time begins with the defaults."""
    path = last_path()
    with suppress(OSError, UserError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        save(path, url, options, replace=True)


def load_last() -> tuple[dict[str, argv.Text] | None, str | None]:
    """The settings of the last time; none the first time, and a sentence when they cannot be read."""
    path = last_path()
    if not os.path.exists(path):
        return None, None
    try:
        return load(path), None
    except UserError as error:
        return None, f"▲ Your last settings cannot be used, so the fields show the defaults: {error}"


def _options(texts: argv.Texts) -> dict[str, argv.Text]:
    return {name: text for name, text in texts.items() if name != URL}


def _read(path: Path) -> dict[str, Any]:
    try:
        if path.exists() and not path.is_file():  # a FIFO given by mistake would hang here for ever
            raise UserError("it is not a regular file.")
        with path.open(encoding="utf-8") as source:
            text = source.read(_MOST_CHARS + 1)
    except (OSError, ValueError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or "it is not text"
        raise UserError(f"the file cannot be read ({why}).") from None
    if len(text) > _MOST_CHARS:
        raise UserError(f"the file is longer than {_MOST_CHARS} characters, too long for a profile.")
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # not only TOMLDecodeError: a whole number may have too many digits to be read
        raise UserError(f"this is not TOML: {error}.") from None


def _text(name: str, value: object) -> str | bool:
    """A value as it would stand on the command line. No refusal repeats a value, which may be a secret."""
    if name in SECRETS:
        raise UserError(f"{name!r} may hold a secret, and a profile must not; delete it there and give it when you start a run.")
    if name == URL:
        return value if isinstance(value, str) else _refuse_kind(name, "text")
    if name in ONE_RUN:
        raise UserError(
            f"{name!r} does not belong in a profile: permission to load a server counts for one run; give --{name} for each."
        )
    if not _may_hold(name):
        hint = "give it on the command line" if name in OPTIONS else f"one can hold {', '.join([URL, *filter(_may_hold, OPTIONS)])}"
        raise UserError(f"{name!r} does not belong in a profile; {hint}.")
    if OPTIONS[name].is_flag:
        return value if isinstance(value, bool) else _refuse_kind(name, "true or false")
    if isinstance(value, list) and all(_plain(item) for item in value):
        return ",".join(str(item) for item in value)
    return str(value) if _plain(value) else _refuse_kind(name, "text or a number")


def _plain(value: object) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _refuse_kind(name: str, kind: str) -> str | bool:
    raise UserError(f"{name} must be {kind}, as on the command line.")


def _may_hold(name: str) -> bool:
    """Output files and the like belong to one call, and so does permission; secrets to none that is written down."""
    return name in OPTIONS and OPTIONS[name].section != OUTPUT and name not in SECRETS | ONE_RUN


def _value(name: str, text: argv.Text) -> argv.Text | int | float:
    """Numbers as numbers where the option reads one; a model called 7 stays text."""
    if not isinstance(text, str) or not isinstance(OPTIONS[name].type, Reads) or not _NUMBER.fullmatch(text):
        return text
    return float(text) if "." in text else int(text)


def _write(path: Path, content: bytes, *, replace: bool) -> None:
    """Whole or not at all: a file that a crash cuts in two would be refused the next time."""
    try:
        if path.exists() and not path.is_file():
            raise UserError(f"{path} is not a regular file, so it is not replaced; give another name.")
        if path.exists() and not replace:
            raise UserError(f"{path} already exists.")
        number, name = tempfile.mkstemp(prefix=".kneescope-", dir=path.parent)  # of mode 0600
        try:
            with open(number, "wb") as file:
                file.write(content)
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}.") from None

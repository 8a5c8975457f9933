"""Readers of single values from the command line, and of the API key; each refuses nonsense with a sentence.

An API key never comes from the command line (process lists and shell histories show it) and never stands in an address,
because addresses are written into the run file. Refusals that could hold a key do not repeat what was given.
"""

import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from core.access import Access
from core.address import joined, split_address
from core.config import Lengths, parse_duration_s
from core.errors import UserError
from core.hardware import find, require_positive
from core.units import count, typed
from core.workloads import Source

NO_LIMIT = "none"
MOST_TOKENS = 10**15
MOST_PLACES = 65_536
LOWEST_RATE_RPS = 1e-6
"""One request in eleven days: below that no fleet is sized, and prices of a token are beyond numbers."""

_KEY_CHARS = 8192
KEY_VARIABLE = "KNEESCOPE_API_KEY"
_PAGE = re.compile(r"([^?#]*/(?:docs|redoc)/?)#/?[\w/.-]*")
"""A place in the documentation that a server shows of itself (`/docs#/default/create`): nothing that opens anything."""
_HOST_AND_PORT = re.compile(r"([\w.-]+|\[[0-9A-Fa-f:.]+\]):[0-9]+(/|$)")
_KEY_WAYS = f"--api-key-file or the variable {KEY_VARIABLE}"


def read_rate(text: str, name: str) -> float:
    """Requests per second: a finite number above zero."""
    try:
        value = float(text)
    except ValueError:
        raise UserError(f"{name}: {text!r} is not a rate; give requests per second, such as 2.5.") from None
    require_positive(value, name)
    return value


def read_rates(text: str, name: str) -> tuple[float, ...]:
    """Rates with commas between them, such as `2,4,6.5`."""
    if not text.strip():
        raise UserError(f"{name}: no rate given; give requests per second, such as 2,4,6.5.")
    return tuple(read_rate(part.strip(), name) for part in text.split(","))


def read_user_rate(text: str, name: str) -> float:
    """The rate of all users together: one that a fleet is sized for."""
    value = read_rate(text, name)
    if value < LOWEST_RATE_RPS:
        raise UserError(
            f"{name}: {typed(value)} requests/s is too low to size a fleet for; give at least {typed(LOWEST_RATE_RPS)}."
        )
    return value


def read_limit(text: str, name: str) -> float | str:
    """A duration in seconds, or NO_LIMIT."""
    return NO_LIMIT if text.strip().lower() == NO_LIMIT else parse_duration_s(text, name)


def read_number(text: str, name: str) -> float:
    """A finite number above zero."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise UserError(f"{name}: {text!r} is not a number above zero; give one such as 15.2.")
    return value


def read_correlation(text: str, name: str) -> float:
    """A correlation: from -1 to 1."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not -1 <= value <= 1:
        raise UserError(f"{name}: {text!r} is not a correlation; give -1 to 1, such as 0.6, and 0 for none.")
    return value


def read_file_of_lengths(text: str, name: str) -> str:
    """The path of a file, which is read later."""
    if not text.strip():
        raise UserError(f"{name}: the name is empty; give the path of a file of lengths.")
    return text


def read_gpu(text: str, name: str) -> str:
    """The name of an accelerator, as the table has it."""
    return find(text, name).name


def read_command(text: str, name: str) -> str:
    """A command for the shell; what it says is never repeated, because it may hold a secret."""
    if not text.strip() or "\0" in text:
        raise UserError(
            f"{name}: the command is empty or holds a null byte; give one for the shell, such as 'docker restart vllm'."
        )
    return text


def _whole(text: str, name: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UserError(f"{name}: {text!r} is not a whole number.") from None


def read_count(text: str, name: str) -> int:
    """A whole number of at least 1."""
    value = _whole(text, name)
    if value < 1:
        raise UserError(f"{name}: {value} must be at least 1.")
    return value


def read_whole(text: str, name: str) -> int:
    """A whole number of at least 0."""
    value = _whole(text, name)
    if value < 0:
        raise UserError(f"{name}: {value} must be zero or more.")
    return value


def read_tokens(text: str, name: str) -> int:
    """A number of tokens, no more than any memory holds."""
    value = read_count(text, name)
    if value > MOST_TOKENS:
        raise UserError(f"{name}: that is more tokens than any memory holds; give at most {count(MOST_TOKENS)}.")
    return value


def read_places(text: str, name: str) -> int:
    """A number of requests that a server runs at once, no more than any server has."""
    value = read_count(text, name)
    if value > MOST_PLACES:
        raise UserError(f"{name}: no server runs that many requests at once; give at most {count(MOST_PLACES)}.")
    return value


def read_port(text: str, name: str) -> int:
    """A TCP port; 0 lets the system choose."""
    value = _whole(text, name)
    if not 0 <= value <= 65535:
        raise UserError(f"{name}: {value} is not a port; give 0 to 65535.")
    return value


def read_length(text: str, name: str) -> Lengths:
    """Token counts, `512` or `lognormal:MEDIAN,SIGMA,MAX`; the sentence of a refusal names the option."""
    try:
        lengths = Lengths.parse(text, name)
    except UserError as error:
        sentence = str(error).removeprefix("length: ")
        raise UserError(sentence if sentence.startswith(name) else f"{name}: {sentence}") from None
    if not lengths.fixed and (lengths.median > lengths.maximum or not math.isfinite(lengths.sigma)):
        raise UserError(f"{name}: {text!r} has its median above its maximum; give lognormal:MEDIAN,SIGMA,MAX.")
    return lengths


def read_dataset(text: str, name: str) -> str:
    """The path of a file of prompts. Raises UserError for one that cannot be read, or is seen to be something else."""
    from core.traffic import look_at, path_of  # numpy is loaded only when it is used

    path = path_of(text, name)
    look_at(path)
    return str(path)


def dataset_source(path: str) -> Source:
    """What is recorded of a dataset before it is read: its name without the folder."""
    return Source(kind="dataset", file=Path(path).name)


def read_url(text: str, name: str) -> str:
    """An http(s) address without user, key, query or fragment; a trailing slash is cut off."""
    if "@" in text:
        raise UserError(
            f"{name}: addresses are recorded, so give this one without user, password and key; for a key use {_KEY_WAYS}."
        )
    if "?" in text or "#" in text:
        raise UserError(f"{name}: addresses are recorded, so give this one without ?query and #part, which could hold a key.")
    stripped = text.strip()
    try:
        parts = urlsplit(stripped)
        reachable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        reachable = False
    if not reachable or not stripped.isprintable() or " " in stripped:
        hint = f"http://{stripped}" if "://" not in stripped and stripped.isprintable() and stripped else "http://127.0.0.1:8000"
        raise UserError(f"{name}: {text!r} is not a server address; give one such as {hint}.")
    return stripped.rstrip("/")


def read_server(text: str, name: str) -> str:
    """The address of a server in any form that people paste: with one of its routes at the end, with a page of its documentation,
    or `host:port` alone. Comes back as short as it can be: `/v1` is cut off."""
    pasted = _PAGE.sub(r"\1", text.strip())
    if _HOST_AND_PORT.match(pasted):
        pasted = f"http://{pasted}"
    return joined(split_address(read_url(pasted, name)))


def read_place(text: str, name: str) -> tuple[str, int]:
    """`NAME:PORT` of a service in the DNS."""
    host, colon, port = text.strip().rpartition(":")
    if not colon or not re.fullmatch(r"[\w.-]+", host) or not re.fullmatch(r"[0-9]{1,5}", port) or not 0 < int(port) < 65536:
        raise UserError(f"{name}: {text!r} is not NAME:PORT; give the DNS name of a headless service, such as vllm.prod.svc:8000.")
    return host, int(port)


def read_url_of_port(text: str, name: str) -> str:
    """The same of a server that is still to be started: it may have {port} in place of a port."""
    place = "{port}"
    return read_server(text.replace(place, "65535"), name).replace("65535", place) if place in text else read_server(text, name)


def read_tried(text: str, name: str) -> tuple[str, tuple[str, ...]]:
    """A name and the values to try, `name=a,b,c`."""
    from core.tune import Tried  # the room needs numpy

    tried = Tried.parse(text)
    return tried.name, tried.values


def read_header(text: str, name: str) -> tuple[str, str]:
    """`Name: value`; the value may also be `env:VARIABLE` or `file:PATH`, which no process list shows. It is never repeated."""
    header, colon, value = text.partition(":")
    value = value.strip()
    if not colon or not header.strip():
        raise UserError(f"{name}: this is not a header; give 'Name: value', 'Name: env:VARIABLE' or 'Name: file:PATH'.")
    value = _from_elsewhere(value, name) if value.startswith(("env:", "file:")) else value
    return Access(headers=((header.strip(), value),)).headers[0]


def read_proxy(text: str, name: str) -> str:
    """The address of an HTTP proxy, or `env:VARIABLE`, which alone may hold a user and a password."""
    value, hidden = text.strip(), text.strip().startswith("env:")
    if hidden:
        value = _from_elsewhere(value, name)
    elif "@" in value:
        raise UserError(
            f"{name}: other users can see a password on the command line; put the address into a variable and give env:NAME."
        )
    value = value if "://" in value else f"http://{value}"
    try:
        parts = urlsplit(value)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or not value.isascii() or not value.isprintable() or " " in value:
        shown = "what the variable holds" if hidden else repr(text)
        raise UserError(f"{name}: {shown} is not the address of a proxy; give one such as http://127.0.0.1:3128, or env:NAME.")
    return value.rstrip("/")


def _from_elsewhere(value: str, name: str) -> str:
    """What stands in a variable (`env:NAME`) or a file (`file:PATH`)."""
    kind, _, place = value.partition(":")
    if kind == "env":
        found = os.environ.get(place.strip(), "").strip()
        if not found:
            raise UserError(f"{name}: the variable named after env: is not set or is empty; set it before you start kneescope.")
        return found
    return _content(place.strip(), name).strip()


def _content(file: str, name: str) -> str:
    """The beginning of a text file that holds a secret. Raises UserError without showing the name: it may be the secret."""
    try:
        with Path(file).open(encoding="utf-8") as source:  # it may be a pipe, and a device may have no end
            return source.read(_KEY_CHARS)
    except (OSError, ValueError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or "it is not text"
        raise UserError(f"{name}: the file cannot be read ({why}); give the path of a file that holds the key.") from None


def api_key(file: str | None, environ: Mapping[str, str]) -> str | None:
    """The key of a file, else of the environment, else None. Raises UserError for what cannot be a key, never showing it."""
    if file is None:
        return read_key(environ[KEY_VARIABLE], KEY_VARIABLE) if environ.get(KEY_VARIABLE, "").strip() else None
    return key_of_file(file, "--api-key-file")


def key_of_file(file: str, name: str) -> str:
    """The key that a file holds. Raises UserError for what cannot be one, never showing it."""
    return read_key(_content(file, name), name)


def read_key(text: str, source: str) -> str:
    """A key without the blanks around it. Raises UserError naming the source, never showing the key."""
    key = text.strip()
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise UserError(f"{source}: this does not hold an API key; a key is one line of plain characters without blanks.")
    return key


def flag(name: str) -> str:
    """An option as it is typed, by the name of its value."""
    return f"--{name.replace('_', '-')}"


def read_replica(text: str, name: str) -> str:
    """The base address of a replica, with or without http:// and the path of its metrics."""
    from core.server import replica_url  # httpx is loaded only when it is used

    if (url := replica_url(text)) is None:
        raise UserError(
            f"{name}: this is no address of a replica; give one such as http://10.0.0.7:8000, without user, password and query."
        )
    return url

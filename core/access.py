"""What opens the way to a server and is written nowhere: API key, headers and certificates for a gateway, a proxy's password.

It travels beside the configuration, to the load generator by pipe only. `Access.scrub` is the one place that takes it out
of what others say: servers echo keys in their errors.
"""

import html
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
from functools import lru_cache
from urllib.parse import unquote, urlsplit

import msgspec

from core.errors import UserError

HIDDEN = "***"

_SCRUBBED_FROM = 4
"""Shorter values are no secrets, and blanking them out would garble every sentence."""
_WORDS_BELOW = 12
"""Shorter secrets are blanked out only where they stand alone: a key `token` must not make `max_tokens` unreadable."""

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[!-~](?:[ -~]*[!-~])?")
_OURS = {"content-length", "content-type", "transfer-encoding", "connection", "accept", "accept-encoding"}
"""Headers that say how a request is sent; another value would break it, or ask for compression, which holds tokens back."""


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """How to be let in. `headers` go where the key goes: to the target's origin alone. `ca_file`, `client_cert` and
    `client_key` are paths of PEM files; `proxy` is an address, with its user and password if it has any.

    Raises UserError, never showing a value, for what no request can carry.
    """

    api_key: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    ca_file: str | None = None
    client_cert: str | None = None
    client_key: str | None = None
    proxy: str | None = None

    def __post_init__(self) -> None:
        if self.api_key is not None and not re.fullmatch(r"[!-~]+", self.api_key):
            raise UserError(
                "The API key is empty or contains a space, a line break or another character that no header can carry; "
                "check where it comes from."
            )
        names = [name.lower() for name, _ in self.headers]
        for (name, value), lower in zip(self.headers, names, strict=True):
            if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
                raise UserError("--header: not a header; give 'Name: value' in plain characters, with a value.")
            if lower in _OURS:
                raise UserError(f"--header: {name} is set by kneescope itself; leave it out.")
        if len(set(names)) != len(names):
            raise UserError("--header: a name is given twice; give each once.")
        if self.api_key is not None and "authorization" in names:
            raise UserError("The API key goes into the Authorization header, which --header sets as well; leave one out.")
        if self.client_key is not None and self.client_cert is None:
            raise UserError("--client-key belongs to a certificate; give that with --client-cert.")

    def __repr__(self) -> str:
        given = [name for name in self.__struct_fields__ if getattr(self, name)]
        return f"Access({', '.join(given) or 'none'})"

    @property
    def request_headers(self) -> dict[str, str]:
        """What is sent to the target's origin, and to no other."""
        key = {} if self.api_key is None else {"Authorization": f"Bearer {self.api_key}"}
        return {**key, **dict(self.headers)}

    @property
    def public_proxy(self) -> str | None:
        """The proxy's address without user and password."""
        return None if self.proxy is None else public_address(self.proxy)

    def scrub(self, text: str) -> str:
        """The text without any of the secrets, in whatever form a server echoes them."""
        pattern = _pattern(self._secrets)
        return text if pattern is None else pattern.sub(HIDDEN, text)

    def scrub_body(self, body: bytes) -> bytes:
        """The body of an error without them, before anything cuts a piece off and leaves half of one."""
        return _scrubbed(body, self._secrets)

    def scrub_answer(self, body: bytes) -> bytes:
        """A body that is read for its values, without long keys and passwords alone. A short key may be a word of it (`vllm` is
        part of every metric's name), and a header may rightly stand in it: gateways choose a model by its name in one."""
        return _scrubbed(body, tuple(secret for secret in self._keys if len(secret) >= _WORDS_BELOW))

    def withheld(self, environment: Mapping[str, str]) -> dict[str, str]:
        """An environment without the variables that hold one of them."""
        long = tuple(secret for secret in self._secrets if len(secret) >= _WORDS_BELOW)
        return {
            name: value
            for name, value in environment.items()
            if value.strip() not in self._secrets and not any(secret in value for secret in long)
        }

    def scrub_error(self, error: BaseException) -> None:
        """Take them out of the texts of an error and of what it came from: it may be shown by whoever catches it."""
        for each in everything_under(error):
            each.args = tuple(arg if isinstance(arg, (int, list)) else self.scrub(str(arg)) for arg in each.args)
            if isinstance(each, OSError):
                each.strerror = None if each.strerror is None else self.scrub(each.strerror)
                each.filename = None if each.filename is None else self.scrub(str(each.filename))
            if notes := getattr(each, "__notes__", None):
                notes[:] = [self.scrub(note) for note in notes]

    @property
    def _secrets(self) -> tuple[str, ...]:
        secrets = [*self._keys, *(value for _, value in self.headers)]
        return tuple(secret for secret in secrets if len(secret) >= _SCRUBBED_FROM)

    @property
    def _keys(self) -> list[str]:
        keys = [self.api_key or "", *_proxy_secrets(self.proxy)]
        for _, value in self.headers:
            keys += value.split()[1:]  # of `Bearer ...` the second word alone is the secret, too
        return keys


def everything_under(error: BaseException) -> Iterator[BaseException]:
    """An exception and all that it came from, groups included."""
    waiting, seen = [error], set[int]()
    while waiting:
        current = waiting.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        waiting += [linked for linked in (current.__cause__, current.__context__) if linked is not None]
        if isinstance(current, BaseExceptionGroup):
            waiting += current.exceptions


def public_address(url: str) -> str:
    """An address without user, password, query and fragment, as far as it can be read."""
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "an address that cannot be read"
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    return f"{parts.scheme}://{host}{port}{parts.path}" if parts.scheme and host else "an address that cannot be read"


def proxy_login(proxy: str) -> str | None:
    """What a proxy is told of user and password (Basic, RFC 7617); None when its address holds none."""
    parts = urlsplit(proxy)
    if parts.username is None and parts.password is None:
        return None
    login = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
    return f"Basic {b64encode(login.encode()).decode()}"


def _proxy_secrets(proxy: str | None) -> tuple[str, ...]:
    try:
        login = proxy_login(proxy or "")
    except ValueError:
        return ()
    if login is None:
        return ()
    parts = urlsplit(proxy or "")
    word = parts.password or parts.username or ""  # a token may stand alone
    return unquote(word), word, login.removeprefix("Basic ")


def _scrubbed(body: bytes, secrets: tuple[str, ...]) -> bytes:
    pattern = _pattern(secrets)
    if pattern is None:
        return body
    return pattern.sub(HIDDEN, body.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


@lru_cache(maxsize=8)
def _pattern(secrets: tuple[str, ...]) -> re.Pattern[str] | None:
    """Finds each secret in any case and however its signs are written; the longest first, so that no half is left."""
    parts = []
    for secret in sorted(set(secrets), key=len, reverse=True):
        if len(secret) >= _WORDS_BELOW:
            parts.append("".join(_written(char, f"[{char.lower()}{char.upper()}]") for char in secret))
        else:
            parts.append(rf"(?<![0-9A-Za-z_]){''.join(_written(char, char) for char in secret)}(?![0-9A-Za-z_])")
    return re.compile("|".join(parts)) if parts else None


def _written(char: str, plain: str) -> str:
    """The pattern of a character: of a letter or digit `plain`, of a sign what JSON (some writers escape more than they must, and
    text in text is escaped twice), addresses and HTML make of it."""
    if char.isalnum():
        return plain
    code = ord(char)
    digits = "".join(digit if digit.isdigit() else f"[{digit}{digit.upper()}]" for digit in f"{code:02x}")
    named, itself = re.escape(html.escape(char)), re.escape(char)
    return rf"(?:\\+u00{digits}|%{digits}|&#(?:0*{code}|[xX]0*{digits});|{named}|\\*{itself})"

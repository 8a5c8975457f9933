"""Which settings are tried, and the command that starts the server with one of them. Pure."""

import itertools
import re
import shlex
from collections.abc import Sequence

import msgspec

from core.errors import UserError
from core.units import count

MOST_SETTINGS = 64
"""A quick search takes three minutes, so that these take some hours: more is a typing error rather than a wish."""
PORT = "port"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_PLACE = re.compile(r"(?<!\$)\{([A-Za-z_][A-Za-z0-9_-]*)\}")
"""A word in braces. `${HOME}`, `{a,b}` and JSON are the shell's and the server's."""


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """The values of one name, in the order given. Raises UserError for what cannot be tried."""

    name: str
    values: tuple[str, ...]

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise UserError(f"--try: {self.name!r} is not a name; give letters, digits, - and _, such as max_num_seqs=8,16,32.")
        if self.name == PORT:
            raise UserError("--try: the port is chosen for each server, so it cannot be tried; give another name.")
        if not any(self.values):
            raise UserError(f"--try {self.name}: the list is empty; give values with commas between them, such as 8,16,32.")
        for value in self.values:
            if not value or not value.isprintable():
                raise UserError(f"--try {self.name}: a value is empty or cannot be printed; give values such as 8,16,32.")
            if self.values.count(value) > 1:
                raise UserError(f"--try {self.name}: {value} is in the list twice; give each value once.")

    @classmethod
    def parse(cls, text: str) -> "Tried":
        """What `name=a,b,c` says. Raises UserError."""
        name, equals, values = text.partition("=")
        if not equals:
            raise UserError(f"--try: {text!r} has no =; give a name and its values, such as max_num_seqs=8,16,32.")
        return cls(name=name.strip(), values=tuple(value.strip() for value in values.split(",")) if values.strip() else ())


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One value for each name, in the order of the names."""

    values: tuple[tuple[str, str], ...]

    @property
    def label(self) -> str:
        """As it is shown, and as its run is called: `max_num_seqs=8, tp=2`."""
        return ", ".join(f"{name}={value}" for name, value in self.values)

    def whole(self, name: str) -> int | None:
        """The value of a name where it is a whole number above zero; None where it is none, or the name is not tried."""
        text = dict(self.values).get(name, "")
        return int(text) if text.isascii() and text.isdigit() and int(text) > 0 else None


def settings_of(tried: Sequence[Tried]) -> tuple[Setting, ...]:
    """Every combination, the last name changing fastest. Raises UserError for a name that is given twice, and for too many."""
    names = [each.name for each in tried]
    if not names:
        raise UserError("Nothing is tried: give at least one --try, such as --try max_num_seqs=8,16,32.")
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"--try {name} is given twice; give all its values in one list.")
    n = 1
    for each in tried:
        n *= len(each.values)
    if n > MOST_SETTINGS:
        raise UserError(f"These are {count(n, 'setting')}, and at most {MOST_SETTINGS} are tried; give fewer values.")
    return tuple(
        Setting(values=tuple(zip(names, values, strict=True))) for values in itertools.product(*(each.values for each in tried))
    )


class Served(msgspec.Struct, frozen=True, kw_only=True):
    """How a server is started and reached: a shell command and an address with places in braces.

    `url` None: `http://127.0.0.1` at the port, which the command then has a place for. What the command says is never
    repeated, because it may hold a secret. Raises UserError for an address that is missing.
    """

    command: str
    url: str | None = None

    def __post_init__(self) -> None:
        if self.url is None and not self.takes_port:
            raise UserError(
                "The address of the server is missing: put {port} where --serve has its port, or give the address with --url."
            )

    @property
    def takes_port(self) -> bool:
        """Whether a free port is to be chosen."""
        return PORT in _PLACE.findall(self.command) or (self.url is not None and f"{{{PORT}}}" in self.url)

    def check(self, tried: Sequence[Tried]) -> None:
        """Raises UserError for a name that has no place in the command, and for a place that nothing fills."""
        places, names = set(_PLACE.findall(self.command)), {each.name for each in tried}
        for name in sorted(names - places):
            raise UserError(f"--try {name} would change nothing: --serve has no {{{name}}}; put it where the value belongs.")
        for place in sorted(places - names - {PORT}):
            raise UserError(
                f"--serve has a place {{{place}}} that no --try fills; give --try {place}=..., or put a command that needs such "
                "braces into a script."
            )

    def command_of(self, setting: Setting, port: int) -> str:
        """The command with its places filled, each value quoted as one word of the shell."""
        filled = {**dict(setting.values), PORT: str(port)}
        return _PLACE.sub(lambda place: shlex.quote(filled[place[1]]), self.command)

    def url_of(self, port: int) -> str:
        """The address of a server at this port."""
        return f"http://127.0.0.1:{port}" if self.url is None else self.url.replace(f"{{{PORT}}}", str(port))

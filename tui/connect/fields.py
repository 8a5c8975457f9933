"""The fields in which a run is asked for, and what they amount to: words of a command line, checked as the shell's would be."""

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from msgspec import structs

from core.access import Access
from core.config import ProbeConfig, Target
from core.errors import UserError
from core.units import as_set, limit, plain
from tui.cli import argv, inputs
from tui.cli.argv import OPTIONS
from tui.cli.options import Given, access_of, build
from tui.cli.profiles import URL

MORE, KEY, MODE = "more", "key", "mode"
CAREFUL = "careful"
_ANYWHERE = "http://127.0.0.1"


@dataclass(frozen=True)
class Field:
    """One field. `name` is that of the option, where it is one; `choices` are what it can be, the first the default."""

    name: str
    label: str
    help: str
    choices: tuple[tuple[str, str], ...] = ()
    example: str = ""


def _option(name: str, label: str, *choices: tuple[str, str]) -> Field:
    return Field(name, label, OPTIONS[name].help or "", choices)


ROWS: tuple[tuple[Field, ...], ...] = (
    (
        Field(
            URL,
            "URL",
            "Address of the server to probe. When you leave it, its list of models is asked for.",
            example=f"such as {_ANYWHERE}:8000",
        ),
    ),
    (
        Field("model", "model", "Model to ask for, from the list of the server.", (("the only one", ""),)),
        _option("api", "API", ("completions", ""), ("chat", "chat")),
    ),
    (_option("input-tokens", "prompt"), _option("output-tokens", "answer")),
    (_option("ttft", "TTFT"), _option("tpot", "TPOT")),
    (_option("e2e", "E2E"), _option("target", "target")),
    (
        _option(MODE, "mode", ("quick", ""), ("quick, careful", CAREFUL), ("standard", "standard"), ("acceptance", "acceptance")),
        _option("max-rps", "max rate"),
    ),
    (_option("peak-rps", "peak"), _option("headroom", "headroom")),
    (
        Field("api-key-file", "key file", "File that holds the API key. Its path is kept, what it holds never."),
        Field(
            KEY,
            "API key",
            "Typed here it is kept in memory only; it wins over the file and KNEESCOPE_API_KEY. Checks and load send it.",
        ),
    ),
    (Field(MORE, "more", "Any other option of probe, as on the command line.", example="such as --rates 2,4 --seed 7"),),
)
FIELDS: dict[str, Field] = {each.name: each for row in ROWS for each in row}
_OWN = {name for name in FIELDS if name in OPTIONS}


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A run as the fields ask for it. `words` are its options as on the command line of probe."""

    url: str
    words: tuple[str, ...] = field(repr=False)  # among them may be a header, or a command
    given: Given
    config: ProbeConfig
    access: Access

    @property
    def command(self) -> str:
        """The command line that asks for the same, as it may be written down."""
        return argv.logged(["probe", self.url, *self.words])

    @property
    def checked(self) -> tuple[object, ...]:
        """All that the checks before load depend on: while it is the same, so are they."""
        return self.config.target, self.config.slo, self.config.workload, self.config.safety.with_others, self.access


class Wrong(Exception):
    """What is wrong, a sentence for each field that is; a field may be "" when it is nobody's in particular."""

    def __init__(self, problems: Mapping[str, str]) -> None:
        super().__init__(" ".join(problems.values()))
        self.problems = problems


def read(texts: Mapping[str, str], key: str, environ: Mapping[str, str]) -> Asked:
    """The run that the fields ask for; `key` is the typed one. Raises Wrong."""
    problems = {name: why for name in FIELDS if (why := problem(name, texts.get(name, ""))) is not None}
    typed = None
    try:
        typed = _api_key(texts.get("api-key-file", "").strip(), key, environ)
    except UserError as error:
        problems.setdefault(KEY if key.strip() else "api-key-file", str(error))
    if problems:
        raise Wrong(problems)
    url, said = inputs.read_server(texts[URL], "URL"), said_by(texts)
    try:
        given = argv.given(said)
        access = structs.replace(access_of(replace(given, api_key_file=None), {}), api_key=typed)
        return Asked(url=url, words=tuple(said), given=given, config=build(given, url), access=access)
    except UserError as error:
        raise Wrong({_whose(str(error)): str(error)}) from None


def said_by(texts: Mapping[str, str]) -> list[str]:
    """The options that the fields stand for. Raises UserError when the last field is no list of options."""
    own: dict[str, argv.Text] = {name: text.strip() for name in FIELDS if name in _OWN and (text := texts.get(name, "")).strip()}
    if own.get(MODE) == CAREFUL:
        own = {CAREFUL if name == MODE else name: True if name == MODE else text for name, text in own.items()}
    return [*argv.words(own), *argv.split(texts.get(MORE, ""))]


def problem(name: str, text: str) -> str | None:
    """What is wrong with one field by itself; None when nothing is."""
    try:
        if name == URL:
            _check_url(text)
        elif name == MORE:
            _check_more(text)
        elif name in _OWN and text.strip():
            build(argv.given(said_by({name: text})), _ANYWHERE)
    except UserError as error:
        return str(error)
    return None


def sketch(texts: Mapping[str, str]) -> ProbeConfig | None:
    """The run that the options ask for, of whatever server; None while one of them is wrong."""
    try:
        return build(argv.given(said_by(texts)), _ANYWHERE)
    except UserError:
        return None


def placeholders(config: ProbeConfig | None, environ: Mapping[str, str]) -> dict[str, str]:
    """What an empty field stands for, beside the others as they are; None: with nothing asked for."""
    config = config or ProbeConfig(target=Target(url=_ANYWHERE))
    slo = config.slo
    default = " default" if slo.default else ""
    limits = {"ttft": slo.ttft_s, "tpot": slo.tpot_s, "e2e": slo.e2e_s}
    return {
        **{name: "none" if value is None else f"{limit(value)}{default}" for name, value in limits.items()},
        "input-tokens": f"{config.workload.input_tokens} tokens",
        "output-tokens": f"{config.workload.output_tokens} tokens",
        "target": plain(slo.target),
        "max-rps": "no such limit",
        "peak-rps": "no fleet size",
        "headroom": as_set(config.fleet.headroom),
        "api-key-file": "none",
        KEY: "variable is set" if environ.get(inputs.KEY_VARIABLE, "").strip() else "not set",
        **{name: each.example for name, each in FIELDS.items() if each.example},
    }


def fields_of(profile: argv.Texts) -> dict[str, str]:
    """The texts of the fields for the options in a profile; what has no field of its own goes into the last one."""
    texts = {name: text for name, text in profile.items() if name in FIELDS and isinstance(text, str)}
    rest = {name: text for name, text in profile.items() if name not in texts}
    if texts.get(MODE) == "quick":
        del texts[MODE]
    if texts.get("api") == "completions":
        del texts["api"]
    if rest.get(CAREFUL) and MODE not in texts:
        texts[MODE] = CAREFUL
        del rest[CAREFUL]
    return {**texts, MORE: shlex.join(argv.words(rest))}


def _check_url(text: str) -> None:
    if not text.strip():
        raise UserError(f"URL: give the address of the server, such as {_ANYWHERE}:8000.")
    inputs.read_server(text, "URL")


def _check_more(text: str) -> None:
    said = argv.split(text)
    for name in argv.texts(said):
        if name in _OWN or name == CAREFUL:
            raise UserError(f"--{name} has a field of its own ({FIELDS[MODE if name == CAREFUL else name].label}); set it there.")
    build(argv.given(said), _ANYWHERE)


def _api_key(file: str, typed: str, environ: Mapping[str, str]) -> str | None:
    if typed.strip():
        return inputs.read_key(typed, "API key")
    if os.path.exists(file) and not os.path.isfile(file):  # opening a FIFO would hold up the screen for ever
        raise UserError("--api-key-file: this is no file; give the path of a file that holds the key.")
    return inputs.api_key(file or None, environ)


def _whose(sentence: str) -> str:
    """The field whose option a refusal names first."""
    name = sentence.partition(" ")[0].strip(":,").removeprefix("--")
    return name if name in _OWN else MORE if name in OPTIONS else ""

"""The fields in which a run is asked for, and what they amount to: words of a command line, checked as the shell's would be."""

import os
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from msgspec import structs

from core.access import Access
from core.config import Lengths, ProbeConfig, Slo, Target, Workload
from core.errors import UserError
from core.run import Found
from core.units import limit, plain
from core.workloads import MOST_TOKENS
from tui.cli import argv, inputs
from tui.cli.argv import OPTIONS
from tui.cli.configure import Base, CliOptions, access_of, build
from tui.cli.profiles import URL

MORE, KEY, MODE, MODEL = "more", "key", "mode", "model"
CAREFUL = "careful"
LOAD_AT_PEAK = "load-at-peak"
"""The option as it is named today; profiles may hold the older name."""
_ANYWHERE = "http://127.0.0.1"
_ANY_PREFIX = Base(workload=Workload(input_tokens=Lengths(median=MOST_TOKENS)))
"""Whether a prefix is too long for the prompts is to be said when these are known: they have a field of their own."""


@dataclass(frozen=True)
class Field:
    """One field. `name` is that of the option, where it is one; `choices` are what it can be, the first the default. `empty` says
    what an empty field stands for in the run that the others ask for."""

    name: str
    label: str
    help: str
    choices: tuple[tuple[str, str], ...] = ()
    empty: Callable[[ProbeConfig], str] | None = None


def _option(name: str, label: str, *choices: tuple[str, str], empty: Callable[[ProbeConfig], str] | None = None) -> Field:
    return Field(name, label, OPTIONS[name].help or "", choices, empty)


def _limit(seconds: float | None, slo: Slo) -> str:
    return "none" if seconds is None else f"{limit(seconds)}{' default' if slo.default else ''}"


def _tokens(run: ProbeConfig, lengths: Lengths, before: str = "") -> str:
    """What an empty field of lengths stands for; the kinds of a mix have their own."""
    return "as the mix says" if run.workload.mix else f"{before}{lengths} tokens"


def _answer(run: ProbeConfig) -> str:
    return _tokens(run, run.workload.output_tokens, "at most " if run.workload.natural else "")


def _load(share: float) -> str:
    return f"{plain(share)} ({plain(1 - share)} spare)"


ROWS: tuple[tuple[Field, ...], ...] = (
    (
        Field(
            URL,
            "URL",
            "Address of the server. Leaving the field asks it for its models; f2 lists recent servers.",
            empty=lambda _: f"such as {_ANYWHERE}:8000",
        ),
    ),
    (
        Field(
            MODEL,
            "model",
            "Model to request, from the server's list; --model in the last field names any other.",
            (("the only one", ""),),
        ),
        _option("api", "API", ("completions", ""), ("chat", "chat")),
    ),
    (
        _option("input-tokens", "prompt", empty=lambda run: _tokens(run, run.workload.input_tokens)),
        _option("output-tokens", "answer", empty=_answer),
    ),
    (
        _option("ttft", "TTFT", empty=lambda run: _limit(run.slo.ttft_s, run.slo)),
        _option("tpot", "TPOT", empty=lambda run: _limit(run.slo.tpot_s, run.slo)),
    ),
    (
        _option("e2e", "E2E", empty=lambda run: _limit(run.slo.e2e_s, run.slo)),
        _option("target", "target", empty=lambda run: plain(run.slo.target)),
    ),
    (
        _option(MODE, "mode", ("quick", ""), ("quick, careful", CAREFUL), ("standard", "standard"), ("acceptance", "acceptance")),
        _option("max-rps", "max rate", empty=lambda _: "no limit"),
    ),
    (
        _option("peak-rps", "peak", empty=lambda _: "no fleet size"),
        _option(LOAD_AT_PEAK, "load at peak", empty=lambda run: _load(run.fleet.headroom)),
    ),
    (
        Field(
            "api-key-file",
            "key file",
            "File that holds the API key. Profiles keep its path, never the key.",
            empty=lambda _: "none",
        ),
        Field(
            KEY,
            "API key",
            "A key typed here stays in memory. It overrides the file and KNEESCOPE_API_KEY, and goes out with checks and load.",
        ),
    ),
    (
        Field(
            MORE,
            "more",
            "Any other option of probe, as on the command line.",
            empty=lambda _: "such as --rates 2,4 --seed 7",
        ),
    ),
)
FIELDS: dict[str, Field] = {each.name: each for row in ROWS for each in row}
_OWN = {name for name in FIELDS if name in OPTIONS}


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """A run as the fields ask for it. `words` are its options as on the command line of probe."""

    url: str
    words: tuple[str, ...] = field(repr=False)  # among them may be a header, or a command
    options: CliOptions
    config: ProbeConfig
    access: Access
    found: Found | None = field(default=None, repr=False, compare=False)
    """What its checks found a moment ago."""

    @property
    def command(self) -> str:
        """The command line that asks for the same, as it may be written down."""
        return argv.logged(["probe", self.url, *self.words])

    @property
    def checked(self) -> tuple[object, ...]:
        """All that the checks before load depend on: while it is the same, so are they."""
        config, dataset = self.config, self.options["dataset"]
        rows = None if dataset is None else (dataset, config.method.seed_of_requests)
        return config.target, config.slo, config.workload, rows, config.safety.with_others, self.access


class Wrong(Exception):
    """What is wrong, a sentence for each field that is; a field may be "" when it is nobody's in particular."""

    def __init__(self, problems: Mapping[str, str]) -> None:
        super().__init__(" ".join(problems.values()))
        self.problems = problems


def read(texts: Mapping[str, str], key: str, environ: Mapping[str, str]) -> RunRequest:
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
        options = argv.options(said)
        access = structs.replace(access_of({**options, "api_key_file": None}, {}), api_key=typed)
        return RunRequest(url=url, words=tuple(said), options=options, config=build(options, url), access=access)
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
            build(argv.options(said_by({name: text})), _ANYWHERE)
    except UserError as error:
        return str(error)
    return None


def understood(text: str) -> str | None:
    """The server that a typed or pasted address stands for, where that is not what stands there; None also for what is none."""
    try:
        url = inputs.read_server(text, "URL") if text.strip() else None
    except UserError:
        return None
    return None if url == text.strip() else url


def sketch(texts: Mapping[str, str]) -> ProbeConfig | None:
    """The run that the options ask for, of whatever server; None while one of them is wrong."""
    try:
        return build(argv.options(said_by(texts)), _ANYWHERE)
    except UserError:
        return None


def placeholders(config: ProbeConfig | None, environ: Mapping[str, str]) -> dict[str, str]:
    """What an empty field stands for, beside the others as they are; None: with nothing asked for."""
    run = config or ProbeConfig(target=Target(url=_ANYWHERE))
    told = {name: each.empty(run) for name, each in FIELDS.items() if each.empty is not None}
    return {**told, KEY: "variable is set" if environ.get(inputs.KEY_VARIABLE, "").strip() else "not set"}


def fields_of(profile: argv.Texts) -> dict[str, str]:
    """The texts of the fields for the options in a profile; what has no field of its own goes into the last one."""
    profile = {LOAD_AT_PEAK if name == "headroom" else name: text for name, text in profile.items()}
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
        if name != MODEL and (name in _OWN or name == CAREFUL):  # a server may serve a model that it does not list
            raise UserError(f"--{name} has a field of its own ({FIELDS[MODE if name == CAREFUL else name].label}); set it there.")
    build(argv.options(said), _ANYWHERE, _ANY_PREFIX)


def _api_key(file: str, typed: str, environ: Mapping[str, str]) -> str | None:
    if typed.strip():
        return inputs.read_key(typed, "API key")
    if os.path.exists(file) and not os.path.isfile(file):  # opening a FIFO would hold up the screen for ever
        raise UserError("--api-key-file: this is not a regular file; give the path of one that holds the key.")
    return inputs.api_key(file or None, environ)


def _whose(sentence: str) -> str:
    """The field whose option a refusal names first."""
    name = sentence.partition(" ")[0].strip(":,").removeprefix("--")
    return name if name in _OWN else MORE if name in OPTIONS else ""

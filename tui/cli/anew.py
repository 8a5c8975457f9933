"""The run that follows a run, as the keys for it ask: the same job with a file of its own, and for `verify` other rates."""

import shlex
from pathlib import Path

from msgspec.structs import replace

from core.config import Method, ProbeConfig
from core.results import Knee
from core.units import typed
from tui.again import verifying
from tui.cli.argv import OPTIONS

_METHOD = ("mode", "careful", "repeats", "measure", "budget", "start-rps", "rates", "hold", "trace-scale")
"""Options that say how the knee is looked for, of which a verification has its own."""
_MOST = 10_000


def verified(config: ProbeConfig, command: str, knee: Knee) -> tuple[ProbeConfig, str]:
    """The run that looks longer at both ends of a bracket, and the command line that asks for it."""
    method = verifying(config.method, knee)
    return replace(config, method=method), f"{_without_method(command)} {_said(method)}"


def own_file(out: str | None) -> str | None:
    """A name for the file of the next run beside the one that was named; None: none was."""
    if out is None:
        return None
    path = Path(out)
    names = (path.with_name(f"{path.stem}-{n}{path.suffix}") for n in range(2, _MOST))
    return next((str(name) for name in names if not name.exists()), None)


def _said(method: Method) -> str:
    measure = "" if method.measure_s is None else f" --measure {typed(method.measure_s)}s"
    if method.fleet is not None:
        return f"--mode {method.mode}{measure}"
    return f"--mode {method.mode} --rates {','.join(map(repr, method.rates_rps))}{measure}"


def _without_method(command: str) -> str:
    """The command line as it was written down, without the options that a verification sets itself."""
    kept: list[str] = []
    words = iter(shlex.split(command))
    for word in words:
        name, equals, _ = word.removeprefix("--").partition("=")
        if not word.startswith("--") or name not in _METHOD:
            kept.append("'...'" if word == "..." else shlex.quote(word))  # the first is the place of a secret
        elif not equals and not OPTIONS[name].is_flag:
            next(words, None)
    return " ".join(kept)

"""Which requests a run sends, where an option names them by more than two lengths: a mix, or a file.

A further such option needs its name in `SOURCES`, and its part in `fields_of`.
"""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from core.config import Method, ProbeConfig
from core.errors import UserError
from core.facts import Fact, several
from core.records import Check
from core.workloads import MixPart, Source
from tui.cli.inputs import flag

if TYPE_CHECKING:  # numpy is loaded only when a file is read
    from core.traffic import Asked, TraceArrivals

SOURCES = ("mix", "lengths", "dataset", "trace")
"""Options that say by themselves which requests come: a run has at most one of them."""
LENGTHS_OF_ALL = ("input_tokens", "output_tokens", "length_correlation")
"""Options about the lengths of all requests, which none of `SOURCES` leaves to be said."""
OF_TRACE = ("trace_window", "trace_scale", "trace_unit", "trace_spread")
"""Options about recorded traffic."""
_OTHER_WAYS = ("rates", "hold", "start_rps", "budget")
"""With one of these no scale is judged alone."""


class _Read(NamedTuple):
    """What of a file is in a run, and what was found in it."""

    mix: tuple[MixPart, ...]
    source: Source
    found: tuple[Fact, ...]


def one_source(options: Mapping[str, Any]) -> None:
    """Refuse (UserError) options that say twice which requests come. Rows of a dataset may not tell how long their answers are."""
    given = [name for name in (*SOURCES, *LENGTHS_OF_ALL) if options[name] is not None]
    if options["dataset"] is not None:
        given = [name for name in given if name != "output_tokens"]
        if (prefix := options.get("prefix")) is not None and prefix.kind == "shared":
            raise UserError("--dataset sends prompts as they are, and --prefix shared makes prompts up; give one of them.")
    if len(given) > 1 and given[0] in SOURCES:
        first, second = map(flag, given[:2])
        raise UserError(f"{first} says how long each request is, and so does {second}; give one of them.")


def fields_of(options: Mapping[str, Any], method: Method) -> dict[str, Any]:
    """What of a workload the requests that were asked for decide. It goes with all else that was asked of it, so that no option is
    held against lengths that nobody sends. Raises UserError for a file that is none."""
    if options["mix"] is not None:
        return {"source": Source(kind="mix", rows=len(options["mix"]))}
    if options["lengths"] is not None:
        read = _lengths(options["lengths"], method.seed_of_requests)
        return {"mix": read.mix, "source": read.source}
    if options["dataset"] is not None:
        return {"source": Source(kind="dataset", file=Path(options["dataset"]).name)}
    trace = trace_of(options, method.seed_of_arrivals)
    return {} if trace is None else {"mix": trace.mix, "source": trace.source, "trace": trace.use}


def checks_of(options: Mapping[str, Any], seed: int) -> tuple[Check, ...]:
    """What was found in the files that the requests are from, as checks before the load."""
    if options["lengths"] is None:
        return ()
    read = _lengths(options["lengths"], seed)
    return (Check(check="lengths file", status="warn" if read.source.bad else "pass", message=several(*read.found)),)


def _lengths(file: str, seed: int) -> _Read:
    from core.traffic import path_of

    path = path_of(file, "--lengths")
    return _read_lengths(path, seed, _seen(path))


def _seen(path: Path) -> tuple[int, int]:
    """What changes with a file. A screen asks for the same at every key: it is read again only when it has changed."""
    try:
        seen = path.stat()
    except OSError:
        return 0, 0  # the reader says why
    return seen.st_mtime_ns, seen.st_size


@lru_cache(maxsize=4)
def _read_lengths(path: Path, seed: int, _changed: tuple[int, int]) -> _Read:
    from core.traffic import mix_of, read_lengths

    return _Read(*mix_of(read_lengths(path), seed))


def trace_alone(options: Mapping[str, Any]) -> None:
    """Refuse (UserError) options about recorded traffic without any, and what a trace leaves no room for."""
    given = [name for name in OF_TRACE if options[name] not in (None, False)]
    if options["trace"] is None:
        if given:
            raise UserError(f"{flag(given[0])} is about recorded traffic; give a file with --trace, or leave it out.")
        if _shares(options):
            raise UserError(
                "--prefix trace needs recorded traffic that names the blocks of its prompts (hash_ids, as in Mooncake's traces); "
                "give it with --trace, or leave it out for cold prompts."
            )
        return
    if options["arrival_cv"] is not None:
        raise UserError("--trace says when requests come, and so does --arrival-cv; give one of them.")
    other = next((name for name in _OTHER_WAYS if options[name] is not None), None)
    if options["trace_scale"] is not None and other is not None:
        raise UserError(f"--trace-scale judges one speed, and {flag(other)} asks for another way; leave one of them out.")


def trace_of(options: Mapping[str, Any], seed: int) -> "TraceArrivals | None":
    """The recorded traffic that is asked for; `seed`: that of arrivals. Raises UserError for what is none."""
    if options.get("trace") is None:
        return None
    from core.traffic import Asked, path_of

    path = path_of(options["trace"], "--trace")
    asked = Asked(
        path=path,
        unit=options["trace_unit"],
        window=options["trace_window"],
        scale=options["trace_scale"],
        spread=bool(options["trace_spread"]),
        seed=seed,
        shares=_shares(options),
    )
    return _read_trace(asked, _seen(path))


@lru_cache(maxsize=1)
def _read_trace(asked: "Asked", _changed: tuple[int, int]) -> "TraceArrivals":
    from core.traffic import load_arrivals

    return load_arrivals(asked)


def refuse_changed(options: Mapping[str, Any], config: ProbeConfig) -> None:
    """Refuse (UserError) a file that is another one now than when the run was asked for, as it may be when that is made once more:
    times of the one would come with lengths of the other."""
    method, workload = config.method, config.workload
    trace = trace_of(options, method.seed_of_arrivals)
    if trace is not None and (trace.use, trace.mix) != (workload.trace, workload.mix):
        raise UserError(f"--trace: {trace.trace.file} has changed since the run was asked for; start again.")
    if options["lengths"] is not None and (read := _lengths(options["lengths"], method.seed_of_requests)).mix != workload.mix:
        raise UserError(f"--lengths: {read.source.file} has changed since the run was asked for; start again.")


def _shares(options: Mapping[str, Any]) -> bool:
    """Whether prompts are to share what a trace names."""
    return (prefix := options.get("prefix")) is not None and prefix.kind == "trace"

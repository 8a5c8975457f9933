"""One live run from the command line: paths, session, the screen or the lines, and what is handed over at the end."""

import asyncio
import dataclasses
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec.structs import replace

from core import fleet, history, prose, report
from core.access import Access
from core.config import FleetAsk, ProbeConfig
from core.errors import UserError
from core.load import Generator
from core.records import Check
from core.results import Answer
from core.run import Found, NoAnswer, RunLog, Session, default_path
from core.twin import TwinProcess
from core.view import RunView
from core.workers import Workers, WorkersAsked
from tui.again import Left, Wish
from tui.cli import anew, ghost, headless, metrics_port, prompts
from tui.cli import kept as kept_fleet
from tui.cli.configure import CliOptions
from tui.cli.output import JsonOut, emit, say, say_if_heard, scrubbed
from tui.cli.places import discovery_of, replica_access
from tui.cli.requests import checks_of, refuse_changed, trace_of
from tui.frame import with_fleet
from tui.terminal.signals import INTERRUPTED, NO_ANSWER, NOT_MET, TwoStage, leave_now
from tui.terminal.whole import plain, why_no_screen

_CODES: Mapping[str, int] = {"void": NO_ANSWER, "refused": NO_ANSWER, "interrupted": INTERRUPTED}
_FLEET_CODES: Mapping[str, int] = {"holds": 0, "fails": NOT_MET, "not_known": NO_ANSWER}
_END_S = 2.0


class Served(Protocol):
    """A server that was started for a run."""

    @property
    def url(self) -> str:
        """Its base address."""

    async def stop(self) -> None:
        """End it."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """A run that was asked for. `name` names the run file; `truth_rps` is the long-run knee of a simulated replica.

    `out` None: the file that the options name, or a new one. `ask`: the fleet as it was set on the screen of the run before.
    `found` is what checks of the same server and settings found a moment ago, which are then not made again.
    `beside`: the run that is drawn behind, which `run` reads by its option.
    `start` starts the server to be probed, which is stopped after the run; its address then takes the configured one's place.
    `began` is told of the session just before it runs. `lose`: the command that takes replicas away, as a session takes it.
    """

    config: ProbeConfig
    options: CliOptions
    command: str
    name: str | None
    out: str | None = None
    ask: FleetAsk | None = None
    access: Access = field(default_factory=Access)
    truth_rps: float | None = None
    start: Callable[[], Awaitable[Served]] | None = None
    found: Found | None = field(default=None, repr=False)
    began: Callable[[Session], None] | None = field(default=None, repr=False)
    beside: ghost.Beside | None = field(default=None, repr=False)
    lose: str | None = field(default=None, repr=False)


@dataclass(frozen=True, kw_only=True)
class Ended:
    """A run that is over, answered or not. `path` is None when nothing could be written into its file, `failure` is what broke
    it, `said` what a failing command of the user's said by its option, `left` how the screen was left."""

    view: RunView
    path: Path | None
    failure: Exception | None
    left: Left
    said: Mapping[str, str | None] = field(default_factory=dict, repr=False)


class Live:
    """What the screen and the lines are given: views of a session now, and its run, which a closing screen cannot cancel."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._task: asyncio.Task[Answer] | None = None

    def view(self) -> RunView:
        """The run at this moment."""
        return self._session.state.view(time.monotonic())

    async def run(self) -> Answer:
        """Start the session and wait for its answer."""
        self._task = asyncio.ensure_future(self._session.run())
        return await asyncio.shield(self._task)

    async def end(self) -> None:
        """After the screen has closed: no load is left. Raises what the run raised."""
        if self._task is None:
            return
        self._session.stop()
        done, _ = await asyncio.wait({self._task}, timeout=_END_S)
        if done:
            self._task.result()


def run(job: Job) -> int:
    """Do the run and hand its results over; returns the exit code. Raises UserError when it could not begin or broke off."""
    with scrubbed(job.access), scrubbed(replica_access(job.options, job.access)):
        return _done(job)


def _done(job: Job) -> int:
    job = dataclasses.replace(job, beside=ghost.of(job.options["ghost"], job.config.slo))
    asks = job.start is None and job.found is None
    if asks and not (job.options["headless"] or job.options["quiet"]) and prompts.can_ask():
        config, access = prompts.settle(job.config, job.access)
        job = dataclasses.replace(job, config=config, access=access)
    if (low := fleet.low_load_before(job.config.fleet)) is not None and not job.options["quiet"]:
        say_if_heard(prose.sentence(low))
    out = JsonOut(job.options["json"])
    try:
        ended = asyncio.run(run_once(job))
        while ended.left.wish is not None:
            say_if_heard(f"The run before is kept in {plain(str(ended.path))}; `kneescope report` prints it.")
            job = _next(job, ended, ended.left.wish)
            ended = asyncio.run(run_once(job))
        for option, said in ended.said.items():
            if said:
                lines = "\n".join(f"  {plain(line)}" for line in said.splitlines())
                say_if_heard(f"The {option} command failed with these lines (they are not recorded):\n{lines}")
        if ended.view.started_utc is not None:
            hand_over(ended.view, ended.path, out, also_say=not job.options["quiet"])
        if job.beside is not None and ended.path is not None and ended.view.answer is not None and not job.options["quiet"]:
            job.beside.say(ended.path)
    finally:
        out.withdraw()
    if ended.failure is not None:
        raise ended.failure
    return code_of(ended.view)


def _next(job: Job, ended: Ended, wish: Wish) -> Job:
    """The run that was wished for, with the same access and a file of its own."""
    out = anew.own_file(job.out or job.options["out"])
    job = dataclasses.replace(job, out=out, ask=ended.left.ask)
    if wish == "again" or ended.view.answer is None:
        return job
    config, command = anew.verified(job.config, job.command, ended.view.answer.knee)
    return dataclasses.replace(job, config=config, command=command)


async def run_once(job: Job) -> Ended:
    """The run in one event loop, from the start of a server of its own to its stop; no load is left when it returns."""
    options = job.options
    to_replicas = replica_access(options, job.access)
    async with (
        metrics_port.opened(options["metrics_port"], quiet=bool(options["quiet"])) as metrics,
        _target(job) as config,
        discovery_of(options, to_replicas, config.target.insecure) as replicas,
    ):
        out = job.out or job.options["out"]
        log = RunLog(Path(out) if out else default_path(job.name))
        history.add(log.path)
        failure, left = None, Left()
        try:
            refuse_changed(job.options, config)
            session = Session(
                config,
                log,
                access=job.access,
                between=job.options["between"],
                command=job.command,
                truth_rps=job.truth_rps,
                label=job.options["label"],
                read=checks_of(job.options, config.method.seed_of_requests),
                found=job.found,
                dataset=dataset_of(job.options),
                twin=TwinProcess.start,
                gathering=_gathering(job),
                start_load=_start_load(job),
                trace=trace_of(job.options, config.method.seed_of_arrivals),
                replicas=replicas,
                replica_access=to_replicas,
                lose=job.lose,
            )
            if job.began is not None:
                job.began(session)
            try:
                if metrics is not None:
                    metrics.show(Live(session).view)
                left = await _watch(session, log.path, job)
            except Exception as error:  # raised again by `run`, once what was measured is handed over
                failure = error
        finally:
            log.close()
            kept = not _dropped_empty(log.path)
            history.add(log.path)
    view = session.state.view(time.monotonic())
    if kept:
        kept_fleet.write(log.path, view, left.ask)
    return Ended(
        view=with_fleet(view, left.ask),
        path=log.path if kept else None,
        failure=failure,
        left=left,
        said={"--between": session.between_output, "--lose-command": session.lose_output},
    )


def _gathering(job: Job) -> str | None:
    """Which machines have to come together before anything is sent, as they were asked for."""
    asked = job.options["workers"]
    return str(asked) if isinstance(asked, WorkersAsked) else None


def _start_load(job: Job) -> Callable[[], Awaitable[Generator | Workers]]:
    """What sends: this machine, or those that were asked for."""
    asked = job.options["workers"]
    return partial(Workers.start, asked, access=job.access) if isinstance(asked, WorkersAsked) else Generator.start


@asynccontextmanager
async def _target(job: Job) -> AsyncIterator[ProbeConfig]:
    """The configuration with the address to probe, for as long as a server that was started for it is up."""
    if job.start is None:
        yield job.config
        return
    server = await job.start()
    try:
        yield replace(job.config, target=replace(job.config.target, url=server.url))
    finally:
        await server.stop()


async def _watch(session: Session, path: Path, job: Job) -> Left:
    """Run the session under the screen where there is a terminal for it, else as lines, or in silence; returns how the screen was
    left."""
    quiet, no_screen = bool(job.options["quiet"]), job.options["headless"] or job.options["quiet"]
    why = None if no_screen else why_no_screen(sys.stdin, sys.stderr)
    if no_screen or why:
        if why:
            say_if_heard(f"No screen, because {why}; the run prints lines instead.")
        if not quiet:
            say_if_heard(f"run file  {path}")
        await _lines(session, quiet)
        return Left()
    return await _screen(session, path, job.ask, job.beside)


def code_of(view: RunView) -> int:
    """The exit code of a run as it stands; one without any answer was left by the user."""
    if (answer := view.known_answer) is None:
        return INTERRUPTED
    code = _CODES.get(answer.outcome, 0)
    if code == 0 and (check := report.fleet_check_of(view, answer)) is not None:
        return _FLEET_CODES[check.verdict]
    return NOT_MET if code == 0 and answer.required_met is False else code


def hand_over(view: RunView, path: Path | None, out: JsonOut, *, also_say: bool) -> None:
    """Write the JSON where it was asked for and the verdict on stdout, or on stderr when stdout holds the JSON."""
    run_log = None if path is None else str(path)
    text = report.to_text(view, run_log)
    try:
        if not out.to_stdout:
            emit(text, instead="`kneescope report RUN` prints it from the run file")
        elif also_say:
            say_if_heard(text.rstrip("\n"))
    finally:
        out.write(report.to_json(view, run_log), instead="`kneescope report RUN --json FILE` writes it from the run file")


def dataset_of(options: Mapping[str, object]) -> Path | None:
    """The file of prompts that was asked for, whose folder no configuration holds."""
    return None if options["dataset"] is None else Path(str(options["dataset"]))


def preflight(config: ProbeConfig, access: Access, options: CliOptions) -> int:
    """The checks alone, each printed as soon as it is known; 0 when load could start, else 3. Leaves no run file.

    A remote server may be checked without permission, which only load needs.
    """
    config = replace(config, safety=replace(config.safety, public_ok=True))
    with scrubbed(access):
        if prompts.can_ask():
            config, access = prompts.settle(config, access, loads=False)
        return _checked(config, access, options)


def _checked(config: ProbeConfig, access: Access, options: CliOptions) -> int:
    out = JsonOut(options["json"])
    try:
        checks, interrupted = asyncio.run(_preflight(config, access, options, quiet=out.to_stdout))
        ok = not interrupted and bool(checks) and all(check.status != "refuse" for check in checks)
        out.write(msgspec.json.encode({"ok": ok, "preflight": report.check_data(checks)}).decode())
    except NoAnswer as error:
        raise UserError(prose.sentence(error.fact), exit_code=NO_ANSWER) from error
    finally:
        out.withdraw()
    return INTERRUPTED if interrupted else 0 if ok else NO_ANSWER


@asynccontextmanager
async def checking(config: ProbeConfig, access: Access, options: CliOptions) -> AsyncIterator[Session]:
    """A session for the checks alone, whose run file is gone afterwards. Raises UserError when there is no room for one."""
    to_replicas = replica_access(options, access)
    async with discovery_of(options, to_replicas, config.target.insecure) as replicas:
        with _temporary_folder() as folder:
            log = RunLog(Path(folder) / "preflight.jsonl")
            try:
                yield Session(
                    config,
                    log,
                    access=access,
                    read=checks_of(options, config.method.seed_of_requests),
                    trace=trace_of(options, config.method.seed_of_arrivals),
                    dataset=dataset_of(options),
                    replicas=replicas,
                    replica_access=to_replicas,
                )
            finally:
                log.close()


def _temporary_folder() -> tempfile.TemporaryDirectory[str]:
    try:
        return tempfile.TemporaryDirectory(prefix="kneescope-")
    except OSError as error:
        raise UserError(
            f"Cannot make a temporary folder: {error.strerror}. Set TMPDIR to a folder that you can write to."
        ) from None


async def _preflight(config: ProbeConfig, access: Access, options: CliOptions, *, quiet: bool) -> tuple[list[Check], bool]:
    """The checks that were done, and whether a signal ended them."""
    async with checking(config, access, options) as session:
        return await _checks_of(session, quiet=quiet)


async def _checks_of(session: Session, *, quiet: bool) -> tuple[list[Check], bool]:
    live, printer, said = Live(session), headless.CheckPrinter(), 0

    def lines_now() -> list[str]:
        nonlocal said
        view = live.view()
        for line in view.lines[said:]:  # what is being waited for: no result, so not for stdout
            say_if_heard(plain(prose.text(line.text)))
        said = len(view.lines)
        return printer.feed(view)

    with TwoStage(lambda _: session.stop(), leave_now, leave_now) as signals:
        work = session.preflight()
        checks = await work if quiet else await headless.follow(work, lines_now, emit, session.stop)
    return checks, signals.seen


async def _lines(session: Session, quiet: bool) -> None:
    live, printer = Live(session), headless.Printer()
    with TwoStage(lambda _: session.stop(), leave_now, leave_now):
        if quiet:
            await session.run()
        else:
            await headless.follow(session.run(), lambda: printer.feed(live.view()), say, session.stop)


async def _screen(session: Session, path: Path, ask: FleetAsk | None = None, beside: ghost.Beside | None = None) -> Left:
    from tui.app import RunControls
    from tui.terminal import display  # textual and plotext are loaded only when they are shown

    live = Live(session)
    controls = RunControls(stop=session.stop, rate=session.change_rate, end_step=session.end_step)
    return await display.show(
        live, run=live.run, controls=controls, end=live.end, path=str(path), ask=ask, repeats=True, beside=beside
    )


def _dropped_empty(path: Path) -> bool:
    """Remove a run file into which nothing was written, and say whether it was one."""
    with suppress(OSError):
        if path.stat().st_size == 0:
            path.unlink()
            return True
    return False

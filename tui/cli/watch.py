"""`kneescope watch`: which replicas, one reading or one after another, and where they go: a screen, lines, JSON."""

import asyncio
import os
import shutil
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar

from core import prose
from core.access import Access
from core.errors import UserError
from core.facts import fact
from core.history import resolve
from core.net import client_of_many
from core.report import watch_json, watch_text
from core.server import Discovery, Places
from core.watch import WINDOW_S, ReplicaKnee, Table, Watched, Watcher, knee_of
from tui.cli.configure import access_of
from tui.cli.output import JsonLines, JsonOut, emit, emit_on, say_if_heard, scrubbed
from tui.cli.places import places_of
from tui.terminal.signals import NO_ANSWER, NOT_MET, TwoStage
from tui.terminal.whole import plain, why_no_screen

T = TypeVar("T")

EVERY_S = 1.0
FIRST = 2.2
"""Intervals until the first table: by then each replica has been read twice, so that there are rates."""

PIPE_WIDTH = 160
"""Columns of a table that goes into a file or a pipe."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """What is watched. `run`: a recorded run to compare with; `json`: the place of `--json`."""

    places: Places
    access: Access = field(default_factory=Access, repr=False)
    insecure: bool = False
    metrics_url: str | None = None
    run: str | None = None
    every_s: float = EVERY_S
    once: bool = False
    max_load: float | None = None
    json: str | None = None


def job_of(urls: tuple[str, ...], options: Mapping[str, Any], environ: Mapping[str, str]) -> Job:
    """The options as a job. Raises UserError for those that do not go together, and for files that cannot be read."""
    places = places_of(urls, options)
    if not urls and places.fixed:
        raise UserError(
            "No replica is named; give addresses such as http://127.0.0.1:8000, or --replicas-file, --dns, or --prometheus with"
            " --query."
        )
    if options["max_load"] is not None and not options["once"]:
        raise UserError("--max-load belongs to --once: a watch that goes on has no exit code to say it with.")
    if options["metrics_url"] is not None and (len(urls) != 1 or not places.fixed):
        raise UserError(
            "--metrics-url is one address, so it goes with one URL; of several replicas give the addresses of their metrics."
        )
    return Job(
        places=places,
        access=access_of(options, environ),
        insecure=options["insecure"],
        metrics_url=options["metrics_url"],
        run=options["run"],
        every_s=options["every"] or EVERY_S,
        once=options["once"],
        max_load=options["max_load"],
        json=options["json"],
    )


def run(job: Job) -> int:
    """Watch until the user leaves, or once; returns the exit code. Raises UserError when nothing can be watched."""
    knee = None if job.run is None else knee_of(resolve(job.run))
    with scrubbed(job.access):
        try:
            return _once(job, knee) if job.once else asyncio.run(_live(job, knee))
        except KeyboardInterrupt:
            return 0


def verdict(table: Table, max_load: float | None) -> int:
    """The exit code of one reading, with a line on stderr where it is not 0."""
    total = table.total
    loads = [row.load for row in table.rows if row.load is not None]
    if not total.read:
        found = fact("watch_none_read", replicas=total.replicas)
    elif max_load is None:
        return 0
    elif over := sum(load.above(max_load) for load in loads):
        say_if_heard(prose.sentence(fact("watch_over", over=over, read=total.read, most_frac=max_load)))
        return NOT_MET
    elif loads:
        return 0
    else:
        found = fact("watch_load_unknown")
    say_if_heard(plain(prose.sentence(found)))
    return NO_ANSWER


def _once(job: Job, knee: ReplicaKnee | None) -> int:
    out = JsonOut(job.json)
    try:
        table = asyncio.run(_with_watcher(job, knee, lambda watcher: watcher.once()))
        if not table.rows:
            raise _nobody(table)
        out.write(watch_json(table, knee, _utc()))
        if not out.to_stdout:
            emit(_text(table, knee))
        return verdict(table, job.max_load)
    finally:
        out.withdraw()


async def _live(job: Job, knee: ReplicaKnee | None) -> int:
    out = JsonLines(job.json)
    try:
        await _with_watcher(job, knee, lambda watcher: _shown(watcher, job, knee, out))
    finally:
        out.close()
    return 0


async def _with_watcher(job: Job, knee: ReplicaKnee | None, use: Callable[[Watcher], Awaitable[T]]) -> T:
    async with client_of_many(job.access, job.insecure) as http:
        watched = Watched(knee_rps=None if knee is None else knee.pass_rps, window_s=max(WINDOW_S, job.every_s))
        discovery = Discovery(job.places, http)
        watcher = Watcher(watched, discovery, http, access=job.access, metrics_url=job.metrics_url, every_s=job.every_s)
        return await use(watcher)


async def _shown(watcher: Watcher, job: Job, knee: ReplicaKnee | None, out: JsonLines) -> None:
    """On the screen where there is a terminal and stdout is not for JSON; else as a table or a line of JSON at each reading."""
    await watcher.look()
    if not (table := watcher.table()).rows:
        raise _nobody(table)

    def keep(table: Table) -> bool:
        return out.write(watch_json(table, knee, _utc(), line=True))

    if out.to_stdout:
        await _printed(watcher, job.every_s, keep)
    elif sys.stdout is None or not sys.stdout.isatty() or why_no_screen(sys.stdin, sys.stderr):
        await _printed(watcher, job.every_s, lambda table: keep(table) and emit_on(f"{_utc()}\n{_text(table, knee)}\n"))
    else:
        from tui.watch import app  # textual and plotext are loaded only when they are shown

        await app.show(watcher, knee, job.every_s, keep if job.json is not None else None)


async def _printed(watcher: Watcher, every_s: float, write: Callable[[Table], bool]) -> None:
    """Hand over the table at each reading, in a thread (a pipe may be full), until a signal or until nobody reads on."""
    over = asyncio.Event()
    work = asyncio.create_task(watcher.run())
    with TwoStage(lambda _: over.set(), _leave, _leave):
        try:
            due = time.monotonic() + FIRST * every_s
            while True:
                waits = {asyncio.ensure_future(over.wait()), work}
                done, _ = await asyncio.wait(waits, timeout=max(0.0, due - time.monotonic()), return_when=asyncio.FIRST_COMPLETED)
                for each in waits - {work}:
                    each.cancel()
                if work in done:
                    work.result()
                if over.is_set() or not await asyncio.to_thread(write, watcher.table()):
                    return
                due = max(due + every_s, time.monotonic())
        finally:
            work.cancel()
            with suppress(asyncio.CancelledError):
                await work


def _leave() -> None:
    """A second signal: whatever still goes on, this is how a watch is ended."""

    os._exit(0)


def _nobody(table: Table) -> UserError:
    return UserError(
        " ".join(plain(prose.sentence(each)) for each in (fact("replicas_none"), *table.problems)), exit_code=NO_ANSWER
    )


def _text(table: Table, knee: ReplicaKnee | None) -> str:
    wide = sys.stdout is not None and sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if wide else PIPE_WIDTH
    return "\n".join(map(plain, watch_text(table, knee, width).split("\n")))


def _utc() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

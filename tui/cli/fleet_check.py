"""`kneescope fleet-check`: whether the replicas behind a gateway hold as many times what one of them held in a recorded run."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from core import prose
from core.access import Access
from core.config import ProbeConfig
from core.errors import UserError
from core.facts import Fact, fact
from core.fleet_check import check_of
from core.history import resolve
from core.net import client_of_many
from core.run import Recording, read_recording
from core.run_files import refuse_going
from core.server import AGAIN_S, ReplicaScraper, ReplicasRead, one_twice
from core.workloads import Source
from tui.cli import probe
from tui.cli.configure import CliOptions, one_load_at_peak, safety_of, target_of
from tui.cli.output import scrubbed
from tui.cli.places import discovery_of, replica_access
from tui.cli.requests import trace_of
from tui.terminal.signals import NO_ANSWER
from tui.terminal.whole import plain

LOOKS = 3
"""A replica that is late so many times in a row cannot be read."""


def run(gateway: str, asked: Mapping[str, Any], options: CliOptions, command: str, access: Access) -> int:
    """Find the replicas, judge what they hold, and hand it over; returns the exit code. Raises UserError for what cannot be
    checked, before any load."""
    path = resolve(asked["run"])
    refuse_going(path, "fleet-check")
    recorded = read_recording(path)
    if (asked["lost"] is None) != (asked["lose_command"] is None):
        raise UserError("--lost and --lose-command belong together: how many replicas are lost, and what takes them away.")
    with scrubbed(access), scrubbed(to_replicas := replica_access(asked, access)):
        config = _config(gateway, recorded, asked, options, replicas=asyncio.run(_count(asked, to_replicas)))
    job = probe.Job(
        config=config,
        options=options,
        command=command,
        name=config.target.model,
        access=access,
        lose=asked["lose_command"],
    )
    return probe.run(job)


async def _count(asked: Mapping[str, Any], access: Access) -> int:
    """How many replicas there are. Raises UserError where there are none, and where one cannot be read."""
    async with discovery_of(asked, access, asked["insecure"]) as discovery, client_of_many(access, asked["insecure"]) as http:
        if discovery is None:
            raise UserError(
                "No replica is named; give --replica URL for each, or --replicas-file, --dns, or --prometheus with --query."
            )
        scraper = ReplicaScraper(discovery, http, access=access)
        try:
            seen = await _look(scraper)
        finally:
            await scraper.close()
    if seen.unread:
        first, n = seen.unread[0], len(seen.names)
        raise _refusal(fact("fleet_unread", unread=len(seen.unread), replicas=n, name=first.name, said=first.why))
    if (twice := one_twice(seen.read)) is not None:
        raise _refusal(fact("replica_twice", *twice))
    if not seen.read:
        raise _refusal(fact("replicas_none"), *seen.problems)
    return len(seen.read)


async def _look(scraper: ReplicaScraper) -> ReplicasRead:
    """All of them, again where one is late: a busy replica may miss a reading."""
    seen = await scraper.look()
    for _ in range(LOOKS - 1):
        if not any(each.there for each in seen.unread):
            break
        await asyncio.sleep(AGAIN_S)
        seen = await scraper.look()
    return seen


def _refusal(*found: Fact) -> UserError:
    return UserError(" ".join(plain(prose.sentence(each)) for each in found), exit_code=NO_ANSWER)


def _config(gateway: str, recorded: Recording, asked: Mapping[str, Any], options: CliOptions, *, replicas: int) -> ProbeConfig:
    one_load_at_peak(options)
    one = recorded.config
    known = {"model": one.target.model or (recorded.server.model if recorded.server else None), "api": one.target.api}
    method = {"repeats": "repeats", "measure_s": "measure", "budget_s": "budget", "drain_s": "drain"}
    load_at_peak = options["headroom"] if options["load_at_peak"] is None else options["load_at_peak"]
    return check_of(
        _resent(one, options),
        recorded.knee,
        recorded.steps,
        replicas=replicas,
        target=target_of(options, gateway, **known),
        safety=safety_of(options),
        mode=options["mode"],
        load_at_peak=load_at_peak,
        lost=asked["lost"] or 0,
        **{field: options[name] for field, name in method.items() if options[name] is not None},
    )


def _resent(one: ProbeConfig, options: CliOptions) -> ProbeConfig:
    """The run with what it sent; the files of prompts and of recorded traffic are in no run file, so they are given again. Raises
    UserError where one is missing, or is another."""
    work = one.workload
    dataset = work.source is not None and work.source.kind == "dataset"
    for name, sent in (("dataset", dataset), ("trace", work.trace is not None)):
        if sent and options[name] is None:
            raise UserError(f"The requests of --run are from a file that no run file holds; give it again with --{name}.")
        if options[name] is not None and not sent:
            raise UserError(f"--run did not send what --{name} would; leave that out.")
    if dataset:
        return replace(one, workload=replace(work, mix=(), source=Source(kind="dataset", file=Path(options["dataset"]).name)))
    trace = trace_of(options, one.method.seed_of_arrivals)
    if trace is not None and trace.use != work.trace:
        raise UserError("--trace: this is not the traffic that --run played; give the same file and the same --trace-window.")
    return one

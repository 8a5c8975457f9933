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
from core.facts import fact
from core.fleet_check import check_of
from core.history import resolve
from core.run import Recording, read_recording
from core.run_files import refuse_going
from core.server import Roll, Roster
from core.workloads import Source
from tui.cli import probe
from tui.cli.configure import CliOptions, one_load_at_peak, safety_of, target_of
from tui.cli.output import scrubbed
from tui.cli.requests import trace_of
from tui.cli.watch import places_of
from tui.terminal.signals import NO_ANSWER
from tui.terminal.whole import plain


def run(gateway: str, asked: Mapping[str, Any], options: CliOptions, command: str, access: Access) -> int:
    """Find the replicas, judge what they hold, and hand it over; returns the exit code. Raises UserError for what cannot be
    checked, before any load."""
    path = resolve(asked["run"])
    refuse_going(path, "fleet-check")
    recorded = read_recording(path)
    if (asked["lost"] is None) != (asked["lose_command"] is None):
        raise UserError("--lost and --lose-command belong together: how many replicas are lost, and what takes them away.")
    roster = Roster(places_of(asked["replica"], asked, "--replica URL for each"), access, insecure=options["insecure"])
    with scrubbed(access):
        replicas = _count(asyncio.run(roster.call()))
    config = _config(gateway, recorded, asked, options, replicas=replicas)
    return probe.run(
        probe.Job(
            config=config,
            options=options,
            command=command,
            name=config.target.model,
            access=access,
            roll=roster.call,
            lose=asked["lose_command"],
        )
    )


def _count(roll: Roll) -> int:
    """How many replicas there are. Raises UserError where there are none, and where one cannot be read."""
    if roll.unread:
        url, why = next(iter(roll.unread.items()))
        n = len(roll.there) + len(roll.unread)
        found = fact("fleet_unread", unread=len(roll.unread), replicas=n, url=url, said=why)
        raise UserError(plain(prose.sentence(found)), exit_code=NO_ANSWER)
    if not roll.there:
        told = (fact("replicas_none"), *roll.problems)
        raise UserError(" ".join(plain(prose.sentence(each)) for each in told), exit_code=NO_ANSWER)
    return len(roll.there)


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

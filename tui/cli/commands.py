"""The command line: commands, their arguments and exit codes. The code behind a command is imported only when it runs."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from core import __version__
from core.access import Access
from core.errors import UserError
from tui.cli import complete, profiles
from tui.cli.argv import logged
from tui.cli.click_types import Reads, SectionedCommand
from tui.cli.configure import CliOptions, access_of, build
from tui.cli.group import SETTINGS, Group, run_and_exit
from tui.cli.inputs import read_port, read_server
from tui.cli.options import (
    CHECK_OPTIONS,
    COMPARE_OPTIONS,
    FLEET_CHECK_OPTIONS,
    FLEET_COMMAND_OPTIONS,
    GHOST,
    PREFLIGHT_OPTIONS,
    REJUDGE_OPTIONS,
    RUN_OPTIONS,
    SYMBOLS,
    TUNE_OPTIONS,
    WATCH_OPTIONS,
    WHAT_IF_OPTIONS,
)
from tui.cli.output import (
    say_if_heard,
)
from tui.cli.runs_commands import (
    runs,
)
from tui.terminal.signals import (
    INTERRUPTED,
    interrupt_on_terminate,
)
from tui.terminal.whole import (
    plain,
    why_no_screen,
)

_SERVER = Reads("url", read_server)


class Kneescope(Group):
    """All commands, to which the command line travels as the context's `obj`."""

    def written_down(self, argv: Sequence[str]) -> str:
        """Without what may be a secret."""
        return logged(argv).encode(errors="replace").decode()  # a file name may hold any byte


@click.group(cls=Kneescope, invoke_without_command=True, context_settings=SETTINGS, params=[SYMBOLS])
@click.version_option(__version__, prog_name="kneescope", message="%(prog)s %(version)s")
@click.pass_context
def cli(context: click.Context) -> int:
    """Find the request rate that one LLM serving replica can take, and how many replicas your peak needs.

    \b
    kneescope watch http://127.0.0.1:8000     what running replicas are doing now; sends no load
    kneescope                                 choose a server on a screen, check it, and start
    kneescope demo                            a full run against a simulated replica
    kneescope probe http://127.0.0.1:8000     your own server
    kneescope COMMAND --help                  the options of a command

    Exit codes: 0 answered, 1 the required rate did not pass, 2 usage error (nothing was sent), 3 no valid answer, 130 interrupted.
    """
    if context.invoked_subcommand is not None:
        return 0
    if why_no_screen(sys.stdin, sys.stderr):
        click.echo(context.get_help())
        return 0
    return _connect()


def _connect() -> int:
    """Ask on a screen what to run, and run it as `probe` does; leaving without a start counts as interrupted."""
    interrupt_on_terminate()
    from tui.cli import probe
    from tui.connect import app

    request = app.ask(os.environ)
    if request is None:
        return INTERRUPTED
    if isinstance(request, app.Watch):
        from tui.cli import watch

        return watch.run(request.job)
    if isinstance(request, app.Demo):
        from tui.cli import argv, demo

        return demo.run("demo", argv.options([]), "kneescope demo", Access())
    options = request.options
    return probe.run(
        probe.Job(
            config=request.config,
            options=options,
            command=request.command,
            name=options["model"],
            access=request.access,
            found=request.found,
        )
    )


def _with_profile(options: dict[str, Any], *, server: bool) -> tuple[str | None, CliOptions]:
    """The address in the profile that was named, and the options with those of the profile under them."""
    profile, url = options.pop("profile"), None
    if profile is not None:
        insecure = options["insecure"]
        url, options = profiles.under(Path(profile), options, server=server)
        if options["insecure"] and not insecure:
            say_if_heard(plain(f"profile {profile}: it sets insecure, so the server's certificate is not checked."))
    return url, CliOptions(options)


@cli.command(cls=SectionedCommand, params=[*RUN_OPTIONS])
@click.argument("url", type=_SERVER, required=False)
@click.pass_context
def probe(context: click.Context, /, url: str | None, **options: Any) -> int:
    """Find the knee of the server at URL, such as http://127.0.0.1:8000, or of the server named in the profile.

    Sends open-loop load step by step, Poisson unless --arrival-cv or --trace says otherwise, until too many requests
    miss a limit. With --rates it judges a list of rates instead, with --hold it keeps one rate.
    """
    profile_url, given = _with_profile(options, server=True)
    url = url or profile_url
    if url is None:
        raise click.UsageError("Missing argument 'URL': the address of the server, such as http://127.0.0.1:8000.", context)
    config = build(given, url)
    access = access_of(given, os.environ)
    from tui.cli import probe

    interrupt_on_terminate()
    return probe.run(probe.Job(config=config, options=given, command=context.obj, name=given["model"], access=access))


@cli.command(cls=SectionedCommand, params=[*RUN_OPTIONS])
@click.argument("name", default="demo", shell_complete=complete.replicas)
@click.pass_obj
def demo(command: str, /, name: str, **options: Any) -> int:
    """Find the knee of a simulated replica, which is started for the run and stopped after it.

    NAME is demo (the default), chat, rag, kvlim, slot or queue, or a JSON file that describes a replica. Lengths and
    limits default to the replica's own; its true knee is shown beside the answer. queue judges two rates of a queue with
    one server and shows a closed loop beside them, which says more than four times what holds.
    """
    _, given = _with_profile(options, server=False)
    access = access_of(given, os.environ)
    from tui.cli.demo import run

    interrupt_on_terminate()
    return run(name, given, command, access)


@cli.command()
@click.argument("name", shell_complete=complete.replicas)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", default="8000", show_default=True, type=Reads("port", read_port), help="Port to listen on; 0 picks a free one."
)
@click.option(
    "--replicas",
    metavar="N",
    type=click.IntRange(1, 64),
    help="Serve so many, each on a port of its own after --port, behind a gateway on --port [default: one, without a gateway].",
)
@click.option(
    "--router",
    type=click.Choice(["round-robin", "random", "least-load", "prefix"]),
    help="How the gateway chooses a replica; prefix takes the one that was sent the same beginning before, unless it is much busier"
    " [default: round-robin].",
)
def replica(name: str, host: str, port: int, replicas: int | None, router: Any) -> int:
    """Serve a simulated replica until you stop it, so that you can probe it from elsewhere.

    NAME is demo, chat, rag, kvlim, slot or queue, or a JSON file that describes a replica. With --replicas a whole fleet runs
    here; curl -X POST http://127.0.0.1:8000/replicas/2/stop takes its second replica away, .../start brings it back.
    """
    if router is not None and replicas is None:
        raise click.UsageError("--router chooses among replicas; give --replicas as well.")
    from core.replica import process

    fleet = None if replicas is None else process.Fleet(replicas=replicas, router=router or "round-robin")
    process.serve(name, host, port, say_if_heard, fleet)
    return 0


@cli.command(cls=SectionedCommand, params=[*PREFLIGHT_OPTIONS])
@click.argument("url", type=_SERVER)
def preflight(url: str, **options: Any) -> int:
    """Run only the checks that precede the load: a handful of single requests.

    Exit code 0 if the load could start, 3 if a check refuses it.
    """
    given = CliOptions(options)
    config = build(given, url)
    access = access_of(given, os.environ)
    from tui.cli import probe

    interrupt_on_terminate()
    return probe.preflight(config, access, given)


@cli.command()
@click.option("--children", metavar="N", type=click.IntRange(1, 64), help="Number of sending processes [default: 1].")
def selftest(children: int | None) -> int:
    """Measure how much load this machine can generate, against a built-in server that does no work.

    Exit code 0 with figures, 3 if even the lowest rate could not be sent on time.
    """
    from tui.cli.selftest import main as run

    interrupt_on_terminate()
    return run(children)


@cli.command("open", params=[GHOST, SYMBOLS])
@click.argument("run", shell_complete=complete.runs)
def open_(run: str, ghost: str | None) -> int:
    """Show a recorded run on the screen. RUN is the path of a run file, last, a label, or a number of `kneescope runs`."""
    why = why_no_screen(sys.stdin, sys.stderr)
    if why:
        raise UserError(f"open needs a terminal, but {why}; `kneescope report {run}` prints the run as text.")
    from tui.cli.recorded import show

    show(run, ghost)
    return 0


@cli.command()
@click.argument("run", shell_complete=complete.runs)
@click.option(
    "--json",
    "json_file",
    metavar="FILE|-",
    shell_complete=complete.files,
    help="Write the result as JSON to this file; - for stdout.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "md", "keda", "hpa", "rules", "html", "csv", "jsonl", "prom"]),
    default="text",
    show_default=True,
    help="text: the verdict; md: a summary to paste into an incident; keda, hpa: YAML of a scaler; rules: Prometheus alerts"
    " for load above the safe rate; html: one page with plots; csv, jsonl: one row per request; prom: the figures for a"
    " Prometheus push.",
)
def report(run: str, json_file: str | None, form: str) -> int:
    """Print the verdict of a recorded run, finished or not.

    RUN is the path of a run file, last, a label, or a number of `kneescope runs`.
    """
    from tui.cli.recorded import report as print_report

    print_report(run, json_file, form)
    return 0


@cli.command("what-if", cls=SectionedCommand, params=[*WHAT_IF_OPTIONS])
@click.argument("run", shell_complete=complete.runs)
def what_if(run: str, **options: Any) -> int:
    """Ask a model of a recorded run where the knee would be with other limits, lengths, places or KV cache.

    RUN is the path of a run file, last, a label, or a number of `kneescope runs`. Several changes count together; without one it
    shows how well the model explains the run, and one step of each. It takes some seconds and sends nothing. A model's answer is
    no measurement.

    \b
    kneescope what-if last --max-num-seqs 32
    kneescope what-if last --ttft 500ms --output-tokens 256

    Exit code 3 if the model does not explain the run.
    """
    from tui.cli.whatif import run as ask

    interrupt_on_terminate()
    return ask(run, options)


@cli.command(cls=SectionedCommand, params=[*WATCH_OPTIONS])
@click.argument("urls", metavar="[URL]...", type=_SERVER, nargs=-1)
def watch(urls: tuple[str, ...], **options: Any) -> int:
    """Show what one or many running replicas are doing now, by their metrics alone. Sends no load.

    One row for each replica, and one page with plots (enter). Without a terminal the table is printed at each reading.

    \b
    kneescope watch http://10.0.0.7:8000 http://10.0.0.8:8000
    kneescope watch --dns vllm.prod.svc.cluster.local:8000 --run last
    kneescope watch --prometheus http://prometheus:9090 --query 'up{job="vllm"}'
    kneescope watch --replicas-file replicas.txt --once --every 30s --max-load 80%

    Exit codes: 0, also when it is ended by q, Ctrl-C or SIGTERM; 1 if a load is above --max-load; 3 if no replica could be read.
    """
    from tui.cli.watch import job_of, run

    interrupt_on_terminate()
    return run(job_of(urls, options, os.environ))


@cli.command(cls=SectionedCommand, params=[*COMPARE_OPTIONS])
@click.argument("a", shell_complete=complete.runs)
@click.argument("b", shell_complete=complete.runs)
@click.argument("more", nargs=-1, shell_complete=complete.runs)
def compare(a: str, b: str, more: tuple[str, ...], **options: Any) -> int:
    """Compare recorded runs: is B better than A, worse, or not told apart?

    A, the reference, B and any more are recorded runs (files, last, labels or numbers), or what --json wrote of one.
    At a terminal a screen shows them; the text is printed when it is left.

    \b
    kneescope compare before.jsonl after.jsonl
    kneescope compare before.json last --format md

    Exit code 3 if a run cannot be compared with A, and why.
    """
    from tui.cli.compare import run

    interrupt_on_terminate()
    return run((a, b, *more), options)


@cli.command(cls=SectionedCommand, params=[*FLEET_COMMAND_OPTIONS])
def fleet(**options: Any) -> int:
    """Size a fleet from figures you give or from a recorded run (--run), and show what limits one replica.

    At a terminal --run opens the fleet screen of that run, where the peak can be typed.

    \b
    kneescope fleet --peak-rps 50 --replica-rps 7.8125 --load-at-peak 70% --tp 1
    kneescope fleet --peak-rps 50 --output-tps 2000 --output-tokens 256
    kneescope fleet --weights-gb 15.2 --gpu 4090 --tpot 15ms
    kneescope fleet --run last --peak-rps 50 --growth 10% --scale-out 4m

    Exit code 3 if no number of replicas can meet the TPOT limit.
    """
    from tui.cli.fleet import run

    interrupt_on_terminate()
    return run(options)


@cli.command("fleet-check", cls=SectionedCommand, params=[*FLEET_CHECK_OPTIONS])
@click.argument("gateway", type=_SERVER)
@click.pass_obj
def fleet_check(command: str, /, gateway: str, **options: Any) -> int:
    """Judge whether the replicas behind GATEWAY hold as many times what one of them held in a recorded run.

    First the planned load is judged (what one holds, times the replicas, times the load at peak), then all that they could hold one
    by one; where one of the two fails, lower rates are. Every rate in the answer was measured. With --lost the planned load is
    judged once more after --lose-command has taken replicas away.

    \b
    kneescope fleet-check http://gateway:8000 --run last --dns vllm.prod.svc.cluster.local:8000
    kneescope fleet-check http://gateway:8000 --run one-h100 --replica http://10.0.0.7:8000 --replica http://10.0.0.8:8000
    kneescope fleet-check http://gateway:8000 --run last --replicas-file replicas.txt --lost 1 --lose-command './drain.sh 3'

    Exit codes: 0 the planned load holds (also after the loss), 1 it does not, 3 not known.
    """
    given = CliOptions(options)
    access = access_of(given, os.environ)
    from tui.cli.fleet_check import run

    interrupt_on_terminate()
    return run(gateway, options, given, command, access)


@cli.command(cls=SectionedCommand, params=[*CHECK_OPTIONS])
@click.argument("run", shell_complete=complete.runs)
def check(run: str, **options: Any) -> int:
    """Say whether a run holds a rate, or lost no more than so much against an older run: for a pipeline, by its exit code.

    RUN and OLD are recorded runs (files, last, labels or numbers), or what probe, demo or report wrote with --json.

    \b
    kneescope check result.json --require-rps 12
    kneescope check last --against main.json --max-drop 10%

    Exit codes: 0 met, 1 not met, 3 not known: the brackets do not tell, a run has no valid answer, or the runs cannot be compared.
    """
    from tui.cli.check import run as hold_against

    interrupt_on_terminate()
    return hold_against(run, options)


@cli.command(cls=SectionedCommand, params=[*REJUDGE_OPTIONS])
@click.argument("run", shell_complete=complete.runs)
def rejudge(run: str, **options: Any) -> int:
    """Judge the stored requests of a recorded run by other limits, and say what they cannot decide.

    RUN is the path of a run file, last, a label, or a number of `kneescope runs`. Nothing is sent, and nothing is modelled: a rate
    that the run did not try stays unknown, and a repeat that was cut short, because its verdict was certain by the
    old limits, may be undecided by looser ones.

    \b
    kneescope rejudge last --ttft 500ms --target 99%
    kneescope rejudge last --tpot none

    Exit code 3 if nothing can be decided.
    """
    from tui.cli.rejudge import run as judge_again

    interrupt_on_terminate()
    return judge_again(run, options)


@cli.command(cls=SectionedCommand, params=[*TUNE_OPTIONS])
@click.pass_obj
def tune(command: str, /, **options: Any) -> int:
    """Find the knee of each of several settings of a server, started one after another by your command, and compare them.

    Every setting meets the same requests. One whose failing rate the best so far holds is dropped early. Nothing of a server
    stays behind, however this ends. Each setting has a run file of its own.

    \b
    kneescope tune --serve 'vllm serve MODEL --port {port} --max-num-seqs {max_num_seqs}' --try max_num_seqs=64,128,256
    kneescope tune --serve './serve.sh {port} {tp} {kv}' --try tp=1,2 --try kv=auto,fp8 --cost 2.50 --dry-run

    Exit code 3 if no setting has a rate that holds, 130 if it was interrupted.
    """
    given = CliOptions({**options, "headless": True})
    access = access_of(given, os.environ)
    from tui.cli.tune import run

    interrupt_on_terminate()
    return run(options, given, command, access)


cli.add_command(runs)


def main() -> None:
    """The `kneescope` command once everything is imported; exits, never returns."""
    run_and_exit(cli)


if __name__ == "__main__":
    main()

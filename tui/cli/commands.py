"""The command line: commands, their arguments and exit codes. The code behind a command is imported only when it runs."""

import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import click

from core import __version__
from core.access import Access
from core.errors import UserError
from tui.cli import profiles
from tui.cli.argv import key_refused, logged
from tui.cli.click_types import Reads, SectionedCommand
from tui.cli.configure import CliOptions, access_of, build
from tui.cli.inputs import read_port, read_server
from tui.cli.options import FLEET_COMMAND_OPTIONS, PREFLIGHT_OPTIONS, RUN_OPTIONS, SYMBOLS, WHAT_IF_OPTIONS
from tui.cli.output import Fault, say, say_if_heard, silence
from tui.terminal.signals import INTERRUPTED, NO_ANSWER, SIGNALS, interrupt_on_terminate
from tui.terminal.whole import plain, plug_closed_streams, why_no_screen

_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 110}
_SERVER = Reads("url", read_server)


class Kneescope(click.Group):
    """All commands. Every ending becomes an exit code here, and no user error becomes a traceback."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> NoReturn:
        """Run one command and exit with the code that it returned. The command line travels as the context's `obj`.

        In place of click's own, which turns every broken pipe into exit code 1.
        """
        argv = list(sys.argv[1:] if args is None else args)
        extra["obj"] = logged(argv).encode(errors="replace").decode()  # a file name may hold any byte

        def command() -> Any:
            with self.make_context(prog_name or "kneescope", argv, **extra) as context:
                return self.invoke(context)

        sys.exit(_exit_code(command))


def _exit_code(command: Callable[[], Any]) -> int:
    try:
        return int(command() or 0)
    except click.exceptions.Exit as end:  # help and version
        return end.exit_code
    except UserError as error:
        return _refuse(f"Error: {error}", error.exit_code)
    except click.UsageError as error:
        sentence = key_refused(error)
        return _refuse(error if sentence is None else f"Error: {sentence}", error.exit_code)
    except click.ClickException as error:
        return _refuse(error, error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except BrokenPipeError:  # the reader of the help has left
        silence(1)
        return NO_ANSWER
    except Exception as error:
        trace = str(error) if isinstance(error, Fault) else traceback.format_exc()
        say_if_heard(f"Error: this is a bug in kneescope; please report it with these lines.\n{trace}")
        return NO_ANSWER


def _refuse(what: str | click.ClickException, code: int) -> int:
    try:
        if isinstance(what, click.ClickException):
            what.show()
        else:
            say(plain(what))
    except OSError:
        silence(2)
    return code


@click.group(cls=Kneescope, invoke_without_command=True, context_settings=_SETTINGS, params=[SYMBOLS])
@click.version_option(__version__, prog_name="kneescope", message="%(prog)s %(version)s")
@click.pass_context
def cli(context: click.Context) -> int:
    """Find the request rate that one LLM serving replica can take, and how many replicas your peak needs.

    \b
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

    Sends open-loop Poisson load step by step until too many requests miss a limit. With --rates it judges a list of
    rates instead, with --hold it keeps one rate.
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
@click.argument("name", default="demo")
@click.pass_obj
def demo(command: str, /, name: str, **options: Any) -> int:
    """Find the knee of a simulated replica, which is started for the run and stopped after it.

    NAME is demo (the default), chat, rag, kvlim or slot, or a JSON file that describes a replica. Lengths and limits
    default to the replica's own; its true knee is shown beside the answer.
    """
    _, given = _with_profile(options, server=False)
    access = access_of(given, os.environ)
    from tui.cli.demo import run

    interrupt_on_terminate()
    return run(name, given, command, access)


@cli.command()
@click.argument("name")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", default="8000", show_default=True, type=Reads("port", read_port), help="Port to listen on; 0 picks a free one."
)
def replica(name: str, host: str, port: int) -> int:
    """Serve a simulated replica until you stop it, so that you can probe it from elsewhere.

    NAME is demo, chat, rag, kvlim or slot, or a JSON file that describes a replica.
    """
    from core.replica import process

    process.serve(name, host, port, say_if_heard)
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
    return probe.preflight(config, access, given["json"])


@cli.command()
@click.option("--children", metavar="N", type=click.IntRange(1, 64), help="Number of sending processes [default: 1].")
def selftest(children: int | None) -> int:
    """Measure how much load this machine can generate, against a built-in server that does no work.

    Exit code 0 with figures, 3 if even the lowest rate could not be sent on time.
    """
    from tui.cli.selftest import main as run

    interrupt_on_terminate()
    return run(children)


@cli.command("open", params=[SYMBOLS])
@click.argument("run")
def open_(run: str) -> int:
    """Show a recorded run on the screen. RUN is the path to a run file, or last."""
    why = why_no_screen(sys.stdin, sys.stderr)
    if why:
        raise UserError(f"open needs a terminal, but {why}; `kneescope report {run}` prints the run as text.")
    from tui.cli.recorded import show

    show(run)
    return 0


@cli.command()
@click.argument("run")
@click.option("--json", "json_file", metavar="FILE|-", help="Write the result as JSON to this file; - for stdout.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "md", "keda", "hpa", "rules"]),
    default="text",
    show_default=True,
    help="text: the verdict; md: a summary to paste into an incident; keda, hpa: YAML of a scaler; rules: Prometheus alerts"
    " for load above the safe rate.",
)
def report(run: str, json_file: str | None, form: str) -> int:
    """Print the verdict of a recorded run, finished or not. RUN is the path to a run file, or last."""
    from tui.cli.recorded import report as print_report

    print_report(run, json_file, form)
    return 0


@cli.command("what-if", cls=SectionedCommand, params=[*WHAT_IF_OPTIONS])
@click.argument("run")
def what_if(run: str, **options: Any) -> int:
    """Ask a model of a recorded run where the knee would be with other limits, lengths, places or KV cache.

    RUN is the path to a run file, or last. Several changes count together; without one it shows how well the model explains the
    run, and one step of each. It takes some seconds and sends nothing. A model's answer is no measurement.

    \b
    kneescope what-if last --max-num-seqs 32
    kneescope what-if last --ttft 500ms --output-tokens 256

    Exit code 3 if the model does not explain the run.
    """
    from tui.cli.whatif import run as ask

    interrupt_on_terminate()
    return ask(run, options)


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


def main() -> None:
    """The `kneescope` command once everything is imported; exits, never returns."""
    plug_closed_streams()
    try:
        cli.main()
    finally:
        for number in SIGNALS:  # all is said: a late Ctrl-C or a second SIGTERM must not change the exit code any more
            signal.signal(number, signal.SIG_IGN)


if __name__ == "__main__":
    main()

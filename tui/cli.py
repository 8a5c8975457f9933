"""The command line: commands, their arguments and exit codes. What a command runs is imported only when it runs."""

import os
import shlex
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import click

from core import __version__
from core.errors import UserError
from tui.inputs import api_key, read_port, read_server
from tui.options import Given, Reads, SectionedCommand, build, preflight_options, run_options
from tui.results import say, say_if_heard, silence
from tui.signals import INTERRUPTED, NO_ANSWER, SIGNALS, interrupt_on_terminate
from tui.terminal import plain, plug_closed_streams, why_no_screen

_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 110}
_SERVER = Reads("url", read_server)
_KEY_OPTIONS = {"--api-key", "--apikey", "--key", "--token"}
_KEY_REFUSED = (
    "{}: no option takes a key, because process lists and shell histories show it; put it into a file and give"
    " --api-key-file FILE, or set the variable KNEESCOPE_API_KEY."
)


class Kneescope(click.Group):
    """All commands; every way of ending becomes an exit code here, and nothing that a user can cause a traceback."""

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


def logged(argv: Sequence[str]) -> str:
    """The command line as it may be written down: without the text of `--between`, which may hold a secret."""
    words, hidden = ["kneescope"], False
    for word in argv:
        name, equals, _ = word.partition("=")
        if hidden:
            words.append("'...'")
        elif name == "--between" and equals:
            words += [name, "'...'"]
        else:
            words.append(shlex.quote(word))
        hidden = word == "--between" and not hidden
    return " ".join(words)


def _exit_code(command: Callable[[], Any]) -> int:
    try:
        return int(command() or 0)
    except click.exceptions.Exit as end:  # help and version
        return end.exit_code
    except UserError as error:
        return _refuse(f"Error: {error}", error.exit_code)
    except click.NoSuchOption as error:
        if error.option_name in _KEY_OPTIONS:
            return _refuse(f"Error: {_KEY_REFUSED.format(error.option_name)}", error.exit_code)
        return _refuse(error, error.exit_code)
    except click.ClickException as error:
        return _refuse(error, error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except BrokenPipeError:  # the reader of the help has left
        silence(1)
        return NO_ANSWER
    except Exception:
        fault = f"Error: this is a fault of kneescope itself; please report it with these lines.\n{traceback.format_exc()}"
        say_if_heard(fault)
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


@click.group(cls=Kneescope, invoke_without_command=True, context_settings=_SETTINGS)
@click.version_option(__version__, prog_name="kneescope", message="%(prog)s %(version)s")
@click.pass_context
def cli(context: click.Context) -> None:
    """Find what request rate one LLM serving replica can take, and how many replicas that makes.

    \b
    kneescope demo                            the whole thing on a simulated replica
    kneescope probe http://127.0.0.1:8000     your own server
    kneescope COMMAND --help                  what a command can be told

    Exit codes: 0 answered, 1 the required rate did not pass, 2 wrong call (nothing was sent), 3 no valid answer, 130 interrupted.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@cli.command(cls=SectionedCommand, params=run_options())
@click.argument("url", type=_SERVER)
@click.pass_obj
def probe(command: str, /, url: str, **options: Any) -> int:
    """Find the knee of the server at URL, such as http://127.0.0.1:8000.

    Loads it with Poisson arrivals, open loop, step by step, until enough requests miss a limit; or judges the rates of
    a list (--rates), or keeps one rate (--hold).
    """
    given = Given(**options)
    config = build(given, url)
    key = api_key(given.api_key_file, os.environ)
    from tui import live

    interrupt_on_terminate()
    return live.run(live.Job(config=config, given=given, command=command, name=given.model, api_key=key))


@cli.command(cls=SectionedCommand, params=run_options())
@click.argument("name", default="demo")
@click.pass_obj
def demo(command: str, /, name: str, **options: Any) -> int:
    """Find the knee of a simulated replica, started for this run and stopped after it.

    NAME is demo (the default), chat, rag, kvlim or slot, or a JSON file that describes one. Lengths and limits are the
    replica's own where no option says otherwise; its true knee stands beside the answer.
    """
    given = Given(**options)
    key = api_key(given.api_key_file, os.environ)
    from tui.demo import run

    interrupt_on_terminate()
    return run(name, given, command, key)


@cli.command()
@click.argument("name")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default="8000", show_default=True, type=Reads("port", read_port), help="Port; 0 takes a free one.")
def replica(name: str, host: str, port: int) -> int:
    """Serve a simulated replica until it is stopped, to be probed from elsewhere.

    NAME is demo, chat, rag, kvlim or slot, or a JSON file that describes one.
    """
    from core.replica import process

    process.serve(name, host, port, say_if_heard)
    return 0


@cli.command(cls=SectionedCommand, params=preflight_options())
@click.argument("url", type=_SERVER)
def preflight(url: str, **options: Any) -> int:
    """Do the checks that come before load, and no load: a handful of single requests.

    Exit code 0 when the load could start, 3 when a check refuses.
    """
    given = Given(**options)
    config = build(given, url)
    key = api_key(given.api_key_file, os.environ)
    from tui import live

    interrupt_on_terminate()
    return live.preflight(config, key, given.json_file)


@cli.command()
@click.option("--children", metavar="N", type=click.IntRange(1, 64), help="Send with N processes; one where this is not given.")
def selftest(children: int | None) -> int:
    """Say what load this machine can make, by loading a built-in server that costs nothing.

    Exit code 0 with figures, 3 when not even the lowest rate could be sent in time.
    """
    from tui.selftest import main as run

    interrupt_on_terminate()
    return run(children)


@cli.command("open")
@click.argument("run")
def open_(run: str) -> int:
    """Show a recorded run on the screen. RUN is the path of a run file, or last."""
    why = why_no_screen(sys.stdin, sys.stderr)
    if why:
        raise UserError(f"open needs a terminal, but {why}; `kneescope report {run}` prints the run as text.")
    from tui.recorded import show

    show(run)
    return 0


@cli.command()
@click.argument("run")
@click.option("--json", "json_file", metavar="FILE|-", help="Write the result as JSON; - for stdout.")
def report(run: str, json_file: str | None) -> int:
    """Print the verdict of a recorded run, finished or not. RUN is the path of a run file, or last."""
    from tui.recorded import report as print_report

    print_report(run, json_file)
    return 0


def main() -> None:
    """The `kneescope` command; exits, never returns."""
    plug_closed_streams()
    try:
        cli.main()
    finally:
        for number in SIGNALS:  # all is said: a late Ctrl-C or a second SIGTERM must not change the exit code any more
            signal.signal(number, signal.SIG_IGN)


if __name__ == "__main__":
    main()

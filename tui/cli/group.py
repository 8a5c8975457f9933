"""A group of commands as a whole: how each of its endings becomes an exit code, whatever happens. Light to import."""

import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import click

from core.errors import UserError
from tui.cli import complete
from tui.cli.output import Fault, flush_what_is_heard, say, say_if_heard, silence
from tui.terminal.signals import INTERRUPTED, NO_ANSWER, SIGNALS
from tui.terminal.whole import plain, plug_closed_streams

SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


class Group(click.Group):
    """Commands. Every ending becomes an exit code here, and no user error becomes a traceback."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> NoReturn:
        """Run one command and exit with the code that it returned.

        In place of click's own, which turns every broken pipe into exit code 1.
        """
        if instruction := os.environ.get(complete.VARIABLE):
            sys.exit(_exit_code(lambda: complete.answer(self, instruction)))
        argv = list(sys.argv[1:] if args is None else args)
        extra["obj"] = self.written_down(argv)

        def command() -> Any:
            with self.make_context(prog_name or "kneescope", argv, **extra) as context:
                return self.invoke(context)

        sys.exit(_exit_code(command))

    def written_down(self, argv: Sequence[str]) -> str:
        """The command line for commands that write it down."""
        return ""


def _exit_code(command: Callable[[], Any]) -> int:
    try:
        return int(command() or 0)
    except click.exceptions.Exit as end:  # help and version
        return end.exit_code
    except UserError as error:
        return _refuse(f"Error: {error}", error.exit_code)
    except click.UsageError as error:
        from tui.cli.argv import key_refused  # which knows all options

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
        import traceback

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


def run_and_exit(group: click.Group) -> NoReturn:
    """The command once what it needs is imported."""
    plug_closed_streams()
    try:
        group.main()
    finally:
        for number in SIGNALS:  # all is said: a late Ctrl-C or a second SIGTERM must not change the exit code any more
            signal.signal(number, signal.SIG_IGN)
        flush_what_is_heard()

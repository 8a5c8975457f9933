"""The `kneescope` command from its first moment: Ctrl-C or SIGTERM while the rest is being imported ends it without a word."""

import os
import signal
import sys
from types import FrameType

INTERRUPTED = 130
"""As `tui.terminal.signals` has it, which is not imported yet."""


def main() -> None:
    """The console script; exits, never returns."""
    caught = [each for each in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(each) is not signal.SIG_IGN]
    for number in caught:  # what the caller ignores stays ignored
        signal.signal(number, _leave)
    if sys.argv[1:2] == ["runs"]:  # a list is there sooner than the options of all commands
        from tui.cli.runs_commands import main as command
    else:
        from tui.cli.commands import main as command

    try:
        for number in caught:
            signal.signal(number, signal.default_int_handler)
        command()
    except KeyboardInterrupt:  # before a command had begun
        os._exit(INTERRUPTED)


def _leave(number: int, frame: FrameType | None) -> None:
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()

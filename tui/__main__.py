"""The `kneescope` command from its first moment: Ctrl-C while the rest is still being imported ends it without a word."""

import os
import signal
from types import FrameType

INTERRUPTED = 130
"""As `tui.signals` has it, which is not imported yet."""


def main() -> None:
    """The console script; exits, never returns."""
    caught = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else the caller ignores it
    if caught:
        signal.signal(signal.SIGINT, _leave)
    from tui import cli

    try:
        if caught:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        cli.main()
    except KeyboardInterrupt:  # before a command had begun
        os._exit(INTERRUPTED)


def _leave(number: int, frame: FrameType | None) -> None:
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()

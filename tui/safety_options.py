"""The options that spare a server, and those who use it; `--yes` and `--with-others` are leave to load it all the same."""

from core.config import parse_duration_s
from tui.clicking import Option, Reads
from tui.inputs import read_count, read_rate, read_seed

SAFETY = "Safety"

_COUNT = Reads("n", read_count)
_DURATION = Reads("duration", parse_duration_s)
_FEW = Reads("n", read_seed)
_RATE = Reads("rate", read_rate)


def safety_options() -> list[Option]:
    """What spares the server, and those who use it."""
    return [
        Option(SAFETY, "--max-rps", "Never load above this rate [default: no such limit].", type=_RATE),
        Option(SAFETY, "--max-in-flight", "End the run when more requests are open at once [default: no such limit].", type=_COUNT),
        Option(SAFETY, "--max-duration", "End the run after this time [default: no such limit].", type=_DURATION),
        Option(
            SAFETY,
            "--with-others",
            "Load a server that serves others now: the answer is what fits on top of them, and load backs off when requests"
            " are preempted or end in errors.",
            is_flag=True,
        ),
        Option(SAFETY, "--max-waiting", "With others: back off when more requests than this wait at the server.", type=_FEW),
        Option(SAFETY, "--yes", "Load a server that is neither on this machine nor in a private network.", is_flag=True),
    ]

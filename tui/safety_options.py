"""Options that protect a server and its other users; `--yes` and `--with-others` give permission to load it anyway."""

from core.config import parse_duration_s
from tui.clicking import Option, Reads
from tui.inputs import read_count, read_rate, read_seed

SAFETY = "Safety"

_COUNT = Reads("n", read_count)
_DURATION = Reads("duration", parse_duration_s)
_FEW = Reads("n", read_seed)
_RATE = Reads("rate", read_rate)


def safety_options() -> list[Option]:
    """Limits on the load, and permission to load a server that is remote or busy."""
    return [
        Option(SAFETY, "--max-rps", "Never load above this rate, warm-up included [default: no limit].", type=_RATE),
        Option(SAFETY, "--max-in-flight", "End the run when more than N requests are in flight [default: no limit].", type=_COUNT),
        Option(SAFETY, "--max-duration", "End the run after this time [default: no limit].", type=_DURATION),
        Option(
            SAFETY,
            "--with-others",
            "Load a server that is serving other traffic. The answer is what fits on top of it; the load backs off when"
            " requests are preempted or end in errors.",
            is_flag=True,
        ),
        Option(
            SAFETY,
            "--max-waiting",
            "With --with-others: back off when more than N requests wait at the server [default: no limit].",
            type=_FEW,
        ),
        Option(SAFETY, "--yes", "Load a server outside this machine and private networks without asking.", is_flag=True),
    ]

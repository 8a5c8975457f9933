"""`--ghost RUN`: a recorded run behind the one that is shown, read once before any load, and what the two show together."""

from pathlib import Path

from core import prose
from core.compare import Ghost, Side, beside, ghost_of, read_side, side_of
from core.config import Slo
from core.errors import UserError
from core.facts import Said
from core.history import resolve
from core.run import read_recording, whole_file
from tui.cli.output import say_if_heard
from tui.terminal.whole import plain


class Beside:
    """A ghost, and the comparison of the run in front with it."""

    def __init__(self, side: Side, slo: Slo) -> None:
        """`slo`: by what the run in front is judged."""
        self.ghost: Ghost = ghost_of(side, slo)
        self._side = side

    def headline(self, path: Path) -> Said:
        """What is said of the finished run of that file against the ghost; it reads the whole file. A file that cannot be read is a
        sentence, too."""
        try:
            with whole_file(path):  # its own writer still has it open, so nothing is asked of its lock
                return beside(self._side, side_of(read_recording(path), path))
        except OSError as error:
            return f"not compared: {path} cannot be read: {error.strerror}."
        except UserError as error:
            return f"not compared: {error}"

    def say(self, path: Path) -> None:
        """The same as a line on stderr, for whoever has no screen, or has left it."""
        say_if_heard(plain(prose.sentence(self.headline(path))))


def of(run: str | None, slo: Slo) -> Beside | None:
    """The ghost that was asked for; None without one. Raises UserError for what is no finished run, as before any load."""
    if run is None:
        return None
    side = read_side(resolve(run))
    if side.going:
        raise UserError(f"--ghost: {side.path} is still being written; give a run that is over.")
    return Beside(side, slo)

"""The one reducer: apply(event) -> view(). The only mutable object of a run; live and recorded runs share it."""

from core.judge.tally import Tally
from core.run.events import Event
from core.run.view import RunView


class State:
    """Everything known about a run so far, made from its events alone."""

    def apply(self, event: Event) -> None:
        raise NotImplementedError

    def view(self, now: float) -> RunView:
        """A frozen snapshot at monotonic time `now` (for a recorded run: the time of the event last applied)."""
        raise NotImplementedError

    @property
    def tally(self) -> Tally | None:
        """The account of the repeat that runs now."""
        raise NotImplementedError

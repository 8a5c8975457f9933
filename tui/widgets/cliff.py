"""The cliff: every request as a share of its limit, in the column of the rate at which it was sent."""

from core.view import RunView
from tui.widgets.pieces import Piece
from tui.widgets.plot_view import PlotView, Titled


class CliffPanel(PlotView, Titled, can_focus=True):
    """The hero of Ramp and Knee; it grows through the run."""

    ALLOW_MAXIMIZE = True
    HELP = "each request as a share of its limit, at the rate at which it was sent"

    def show_view(self, view: RunView) -> None:
        """Take a new view."""
        self.set_title((Piece("1 cliff", "strong"),))
        self.show("no request was sent yet" if not view.margins else f"{len(view.margins)} rates")

"""How it stands on the Connect screen, and what Start needs or does."""

from tui.checkup import Checkup
from tui.screens import connect as screen
from tui.style import Mark


def standing(checkup: Checkup | None, *, stale: bool, wrong: bool) -> tuple[Mark, str]:
    """The state as a mark, and a sentence about Start."""
    if wrong:
        return screen.WRONG, "correct what is marked ✘"
    if checkup is None:
        return screen.NOT_CHECKED, "ctrl+r checks first: about five single requests, no load"
    if checkup.stage == "checking":
        return screen.CHECKING, "when the checks are through; esc stops them"
    if stale:
        return screen.CHANGED, "ctrl+r checks the new settings first"
    if checkup.asks:
        return screen.ASKS, "ctrl+s: asks whether to load it on top of them"
    if checkup.stage == "refused":
        return screen.REFUSED, "not while a check refuses: change what it says first"
    if checkup.stage == "ready":
        warned = any(check.status == "warn" for check in checkup.view().checks)
        return screen.WARNED if warned else screen.READY, "ctrl+s: the checks are repeated, then load begins"
    return (screen.STOPPED if checkup.stage == "stopped" else screen.BROKEN), "ctrl+r checks again, esc leaves"

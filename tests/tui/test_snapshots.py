"""Pictures of every screen, compared with the ones kept: rewritten with `pytest tests/tui/test_snapshots.py --snapshot-update`.

Looked at by a person each time that they change.
"""

from collections.abc import Callable

import pytest

from core.run.view import RunView
from tests.tui import samples
from tests.tui.screen import Held
from tui.app import Hands, KneescopeApp, Name

Compare = Callable[..., bool]
SIZES = [(80, 24), (120, 36), (200, 60)]
MOMENTS: dict[str, tuple[Callable[[], RunView], Name]] = {
    "checks": (samples.preflight, "ramp"),
    "step": (samples.mid_step, "ramp"),
    "failing": (samples.failing, "ramp"),
    "knee": (samples.finished, "knee"),
    "fleet": (lambda: samples.finished(50.0), "fleet"),
}


def app_at(moment: str) -> KneescopeApp:
    view, on = MOMENTS[moment]
    app = KneescopeApp(Held(view()), run=samples.never if moment != "knee" else None, hands=Hands(end_step=lambda: None))
    if on != "ramp":
        app.call_later(app.action_look_at, on)
    return app


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("moment", MOMENTS)
def test_screen(moment: str, size: tuple[int, int], snap_compare: Compare) -> None:
    assert snap_compare(app_at(moment), terminal_size=size)


@pytest.mark.parametrize("moment", ["step", "knee"])
@pytest.mark.parametrize("theme", ["kneescope-blue-orange", "textual-light"])
def test_theme(moment: str, theme: str, snap_compare: Compare) -> None:
    app = app_at(moment)
    app.theme = theme
    assert snap_compare(app, terminal_size=(120, 36))


@pytest.mark.parametrize("moment", ["step", "knee"])
def test_no_color(moment: str, snap_compare: Compare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert snap_compare(app_at(moment), terminal_size=(120, 36))


def test_help(snap_compare: Compare) -> None:
    assert snap_compare(app_at("step"), terminal_size=(80, 24), press=["5", "question_mark"])

"""`--ghost`: a recorded run in grey behind the one that is shown, and what is said of the two."""

import math
import os
import re
from dataclasses import replace as changed
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace

from core.compare import Ghost, GhostFloor
from core.facts import Said, fact
from core.run import RunLog
from tests.tui import knee_samples, samples
from tests.tui.cli_fakes import FakeSession
from tests.tui.screen import lines_of, settle, shown, text_of
from tui.cli import ghost, probe
from tui.cli.commands import cli
from tui.cli.recorded import Recorded
from tui.draw import density, plots
from tui.draw.density import Cliff
from tui.draw.plots import Bar, Plot, Upright
from tui.draw.symbols import written
from tui.widgets import cliff, curve

ROOT = Path(__file__).parents[2]
DEMO = str(ROOT / "screenshots/demo.jsonl")
LIST = str(ROOT / "tests/data/runs/vllm-0.32.0-list.jsonl")
URL = "http://127.0.0.1:1"
SIZES = [(80, 24), (120, 36), (200, 60)]
FLOORS = (
    GhostFloor(rate_rps=5.0, low=0.99, high=0.99, verdict="pass"),
    GhostFloor(rate_rps=11.3, low=0.97, high=1.0, verdict="pass"),
    GhostFloor(rate_rps=20.0, low=0.1, high=0.6, verdict="fail"),
)
GHOST = Ghost(label="old.jsonl", floors=FLOORS, pass_rps=9.0, fail_rps=15.0)
OTHER = replace(GHOST, floors=(), other=fact("ghost_other_limits", fact("differs", what="target", a=0.9, b=0.95)))
BETTER = fact(
    "ghost_compared",
    fact("compare_better", name="B", reference="A", pass_rps=11.3, fail_rps=9.0, more_frac=0.256),
    label="old.jsonl",
)


class Behind:
    """A ghost with a comparison that is made up."""

    def __init__(self, ghost: Ghost = GHOST) -> None:
        self.ghost, self.asked = ghost, 0

    def headline(self, path: Path) -> Said:
        """Known at once."""
        self.asked += 1
        return BETTER


def plot_of(ghost: Ghost | None) -> Plot:
    content = curve.attainment(knee_samples.finished(), "2 attainment", ghost=ghost)
    assert isinstance(content.body, Plot)
    return content.body


def rows_of(plot: Plot, width: int = 100, height: int = 20) -> list[str]:
    return ["".join(run.text for run in row) for row in plots.draw(plot, width, height)]


def cliff_of(ghost: Ghost | None) -> Cliff:
    body = cliff.content_of(knee_samples.finished(), ghost=ghost).body
    assert isinstance(body, Cliff)
    return body


# --- what is drawn, and where -------------------------------------------------------------------------------------


def test_its_floors_stand_at_their_rates_on_the_axis_of_the_run_in_front() -> None:
    plot = plot_of(GHOST)
    assert [(round(10**bar.x, 6), bar.low, bar.high, bar.known) for bar in plot.behind] == [
        (5.0, 0.99, 0.99, "low"),
        (11.3, 0.97, 1.0, "low"),
        (20.0, 0.1, 0.6, "high"),
    ]
    assert {(bar.glyph, bar.ink) for bar in plot.behind} == {("░", "faint")}
    assert plot.x_range[0] < math.log10(4.0)
    assert plot.x_range[1] > math.log10(20.0), "the axis has room for both"
    assert plot_of(None).x_range[1] < math.log10(20.0)


def test_its_bracket_is_two_lines_that_carry_its_sign_and_their_rates() -> None:
    assert [(line.name, line.glyph, line.ink) for line in plot_of(GHOST).behind_lines] == [
        ("░ holds 9.00", "░", "faint"),
        ("░ fails 15.0", "░", "faint"),
    ]
    assert [line.name for line in plot_of(replace(GHOST, fail_rps=0.0, pass_rps=None)).behind_lines] == []


def test_where_both_fall_into_one_cell_the_run_in_front_is_drawn() -> None:
    """Of the wide mark behind both sides are seen."""
    bar = Bar(0.5, 0.2, 0.8, "✔", "good", "low")
    alone = Plot(x_range=(0.0, 1.0), y_range=(0.0, 1.0), curves=(), bars=(bar,), uprights=(Upright(0.9, "now", "bright"),))
    mark = Bar(0.5, 0.2, 0.8, "░", "faint", "low")
    both = changed(alone, behind=(mark, changed(mark, x=0.9)), behind_lines=(Upright(0.1, "", "faint", "░"),))
    for one, two in zip(rows_of(alone, 41, 11), rows_of(both, 41, 11), strict=True):
        kept = [(a, b) for a, b in zip(one, two, strict=True) if a != " "]
        assert all(a == b for a, b in kept)
    middle = rows_of(both, 41, 11)[5]
    assert middle[19:22] == "░│░"
    assert middle[35:38] == "░┊░"


def test_what_is_of_the_ghost_is_grey_and_has_a_sign_that_nothing_else_has() -> None:
    before, after = (plots.draw(plot_of(ghost), 100, 20) for ghost in (None, GHOST))
    assert "░" not in "".join(run.text for row in before for run in row)
    assert {run.ink for row in after for run in row if "░" in run.text} == {"faint"}
    assert "`" in written("".join(rows_of(plot_of(GHOST))), "ascii")


def test_what_lies_far_from_the_rates_of_the_run_in_front_does_not_press_them_together() -> None:
    far = replace(GHOST, floors=(replace(FLOORS[0], rate_rps=900.0),), pass_rps=800.0, fail_rps=1000.0)
    assert plot_of(far).x_range == plot_of(None).x_range


def test_by_other_limits_only_the_bracket_is_drawn_and_the_legend_says_so() -> None:
    assert plot_of(OTHER).behind == ()
    assert len(plot_of(OTHER).behind_lines) == 2
    assert curve.legend(OTHER).startswith("░ ghost old.jsonl (other limits)  ")
    assert curve.legend(GHOST).startswith("░ ghost old.jsonl  ")
    assert curve.legend(None) == curve.LEGEND


def ghost_row(body: Cliff, width: int = 100, height: int = 14) -> str:
    (row,) = [text for row in density.draw(body, width, height) if (text := "".join(run.text for run in row)).startswith(" ghost")]
    return row


def test_the_cliff_has_its_bracket_in_a_row_of_its_own_below_that_of_the_run() -> None:
    rows = ["".join(run.text for run in row) for row in density.draw(cliff_of(GHOST), 100, 14)]
    assert "✔ holds 11.3" in rows[-2]
    assert rows[-1] == ghost_row(cliff_of(GHOST))
    assert "░ ghost holds 9.00 ░" in rows[-1]
    assert "░ fails" in rows[-1]
    assert {run.ink for run in density.draw(cliff_of(GHOST), 100, 14)[-1] if run.text.strip()} == {"label"}
    assert not any("ghost" in run.text for height in (14, 7) for row in density.draw(cliff_of(None), 100, height) for run in row)


def test_a_rate_of_the_ghost_lies_between_the_columns_beside_it() -> None:
    body, names = cliff_of(replace(GHOST, pass_rps=9.0, fail_rps=11.3)), 100
    rows = ["".join(run.text for run in row) for row in density.draw(body, names, 14)]
    columns = {float(found[1]): found.start(1) + 2 for found in re.finditer(r"(\d+(?:\.\d+)?)", rows[-3])}
    ends = rows[-1].rindex("░", 0, rows[-1].index("  ", 8)) + 1
    assert columns[8.0] < ends < columns[11.3]


@pytest.mark.parametrize(("low", "high"), [(0.5, 1.0), (None, 2.0), (100.0, 200.0), (100.0, None), (None, 0.0)])
def test_a_bracket_beyond_the_columns_is_still_named(low: float | None, high: float | None) -> None:
    row = ghost_row(cliff_of(replace(GHOST, pass_rps=low, fail_rps=high)))
    assert len(row) == 100
    assert row.count("░")
    assert low is None or low < 4 or "holds 100" in row
    assert high != 0.0 or "meets its limits at no rate" in row


def test_a_ghost_without_an_answer_has_no_row() -> None:
    assert cliff_of(replace(GHOST, pass_rps=None, fail_rps=None)).ghost == ()


# --- on the screens -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES, ids=str)
async def test_the_knee_screen_says_the_headline_below_the_answer(size: tuple[int, int]) -> None:
    behind = Behind()
    async with shown(knee_samples.finished(), size, on="knee", beside=behind) as (app, pilot, _):
        await app.workers.wait_for_complete()
        await settle(app, pilot)
        rows = lines_of(app)
        (at,) = [at for at, row in enumerate(rows) if "░ ghost old.jsonl (A), this run (B): B is better than A" in row]
        assert any("HOLDS" in row for row in rows[:at])
        assert at < next(at for at, row in enumerate(rows) if "1 cliff" in row)
        assert "░ ghost old.jsonl" in text_of(app), "the legend"
        assert behind.asked == 1


async def test_until_the_answer_it_says_what_the_ghost_holds() -> None:
    behind = Behind()
    async with shown(samples.mid_step(), on="knee", beside=behind) as (app, pilot, held):
        await settle(app, pilot)
        assert "░ ghost old.jsonl: holds at 9.00 requests/s and fails at 15.0" in text_of(app)
        assert behind.asked == 0, "a long file is not read while something is measured"
        held.now = replace(samples.finished(), version=99)
        await settle(app, pilot)
        await app.workers.wait_for_complete()
        await settle(app, pilot)
        assert "B is better than A" in text_of(app)


async def test_while_a_closed_loop_is_still_measured_beside_the_answer_nothing_is_read() -> None:
    behind = Behind()
    found = replace(samples.finished(), answer=None, found=samples.finished().answer)
    async with shown(found, on="knee", beside=behind) as (app, _, _):
        assert behind.asked == 0
        assert "░ ghost old.jsonl: holds" in text_of(app)


async def test_the_ramp_screen_has_it_on_the_axis_of_rates_alone() -> None:
    """Its times are not of this run's clock."""
    view = replace(samples.mid_step(), margins=knee_samples.finished().margins)
    async with shown(view, (120, 50), beside=Behind()) as (app, _, _):
        drawn = {
            name: "\n".join(strip.text for strip in widget.render_lines(widget.outer_size.region))
            for name in ("cliff", "floor", "steps", "ttft", "tpot", "queue", "kv")
            for widget in [app.screen.query_one(f"#{name}")]
        }
        assert "░ ghost" in drawn.pop("cliff")
        assert not any("░" in text for text in drawn.values())


# --- from the command line ----------------------------------------------------------------------------------------


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Runs without a server."""
    monkeypatch.setattr(probe, "Session", FakeSession)
    monkeypatch.setattr(FakeSession, "made", [])
    monkeypatch.setattr("tui.cli.commands.interrupt_on_terminate", lambda: None)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("KNEESCOPE_API_KEY", raising=False)


def kneescope(*args: str) -> Result:
    return CliRunner().invoke(cli, args)


LIMITS = ("--ttft", "800ms", "--tpot", "50ms", "--input-tokens", "128", "--output-tokens", "32")


@pytest.mark.usefixtures("fakes")
def test_without_a_screen_the_headline_is_a_line_on_stderr_at_the_end() -> None:
    result = kneescope("probe", URL, "--headless", "--ghost", DEMO, *LIMITS)
    assert result.exit_code == 0
    said = result.stderr.splitlines()[-1]
    assert said.startswith("Ghost simulated-demo 2026-11-30 07:30 (A), this run (B): B ")
    assert "Beside" not in result.stdout
    assert "Beside" not in kneescope("probe", URL, "--quiet", "--ghost", DEMO, *LIMITS).stderr
    assert "Beside" not in kneescope("probe", URL, "--headless", *LIMITS).stderr


@pytest.mark.usefixtures("fakes")
@pytest.mark.parametrize("command", [("probe", URL), ("demo",)])
def test_a_file_that_is_no_finished_run_is_refused_before_anything_is_sent(command: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "other").write_text("no run")
    whole = Path(DEMO).read_bytes().splitlines(keepends=True)
    (tmp_path / "damaged.jsonl").write_bytes(b"".join([*whole[:9], b"{no\n", *whole[9:20]]))
    for name, said in (
        ("none.jsonl", "There is no run"),
        ("other", "neither a run file nor the result of a run"),
        ("damaged.jsonl", "line 10 is broken"),
    ):
        result = kneescope(*command, "--headless", "--ghost", str(tmp_path / name))
        assert (result.exit_code, result.stdout) == (2, "")
        assert said in result.stderr
    log = RunLog(tmp_path / "going.jsonl")
    os.write(log._fd, b"".join(whole[:40]))
    try:
        result = kneescope(*command, "--headless", "--ghost", str(log.path))
    finally:
        log.close()
    assert result.exit_code == 2
    assert "is still being written; give a run that is over" in result.stderr
    assert FakeSession.made == []


def test_an_opened_run_has_one_too(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[ghost.Beside | None] = []
    monkeypatch.setattr("tui.cli.commands.why_no_screen", lambda *streams: None)
    monkeypatch.setattr("tui.cli.recorded.screen", lambda recorded, ask, beside: given.append(beside))
    assert kneescope("open", DEMO, "--ghost", LIST).exit_code == 0
    assert kneescope("open", DEMO).exit_code == 0
    found, none = given
    assert none is None
    assert found is not None
    assert found.ghost.floors == ()
    assert found.ghost.other is not None, "other limits"
    result = kneescope("open", DEMO, "--ghost", "nowhere")
    assert (result.exit_code, len(given)) == (2, 2)
    assert "There is no run 'nowhere'" in result.stderr


def test_the_headline_of_a_run_is_that_of_compare() -> None:
    config = Recorded(DEMO).whole.config
    assert config is not None
    found = ghost.of(DEMO, config.slo)
    assert found is not None
    assert found.ghost.floors
    said = found.headline(Path(DEMO))
    assert not isinstance(said, str)
    assert [part.code for part in said.of if not isinstance(part, str)] == ["compare_not_told"]
    assert "not compared: nowhere" in str(found.headline(Path("nowhere")))

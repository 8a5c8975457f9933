"""`kneescope compare` from the command line, and its screen."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from core.compare import Comparison, compare
from tests.core.compare.sides import repeat as seen
from tests.core.compare.sides import side, step
from tui.cli import compare as command
from tui.cli.commands import cli
from tui.screens.compare import CompareApp

ROOT = Path(__file__).parents[2]
DEMO = str(ROOT / "screenshots/demo.jsonl")
LIST = str(ROOT / "tests/data/runs/vllm-0.32.0-list.jsonl")
SIZES = [(80, 24), (120, 36), (200, 60)]


def run(*args: str) -> Result:
    return CliRunner().invoke(cli, ("compare", *args))


def test_two_runs_are_compared_as_text() -> None:
    result = run(DEMO, DEMO)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("Compared\n\nB is not told apart from A")


def test_a_run_and_the_json_of_one(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    assert CliRunner().invoke(cli, ("report", DEMO, "--json", str(file))).exit_code == 0
    result = run(DEMO, str(file), "--json", "-")
    data = json.loads(result.stdout)
    assert (result.exit_code, data["kind"], data["complete"]) == (0, "compare", True)
    assert data["reference"]["pass_rps"] == data["against"][0]["pass_rps"]


def test_runs_that_cannot_be_compared_end_with_3_and_say_why(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    result = run(DEMO, LIST, "--json", str(out))
    assert result.exit_code == 3
    assert "B cannot be compared with A: other limits (TTFT limit 800 ms against 3 s" in " ".join(result.stdout.split())
    assert json.loads(out.read_text())["against"][0]["verdict"] == "refused"


def test_markdown_goes_in_place_of_text(tmp_path: Path) -> None:
    result = run(DEMO, DEMO, DEMO, "--format", "md", "--json", str(tmp_path / "out.json"))
    assert result.exit_code == 0
    assert result.stdout.startswith("### kneescope: B is not told apart from A")
    assert "### kneescope: C is not told apart from A" in result.stdout


def test_what_is_asked_wrongly_is_refused(tmp_path: Path) -> None:
    both = run(DEMO, DEMO, "--format", "md", "--json", "-")
    assert (both.exit_code, both.stdout) == (2, "")
    assert "both write to stdout" in both.stderr
    assert run(DEMO).exit_code == 2
    assert "There is no run" in run(DEMO, str(tmp_path / "none.jsonl")).stderr
    assert "at most 26" in run(*[DEMO] * 27).stderr


def test_a_file_that_is_no_run_leaves_no_empty_json(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("no run")
    result = run(DEMO, str(tmp_path / "other"), "--json", str(tmp_path / "out.json"))
    assert result.exit_code == 2
    assert "neither a run file nor the result of a run" in result.stderr
    assert not (tmp_path / "out.json").exists()


@pytest.mark.parametrize(("args", "shown"), [((), True), (("--format", "md"), False), (("--json", "-"), False)])
def test_a_screen_is_shown_at_a_terminal_alone(monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...], shown: bool) -> None:
    screens: list[Comparison] = []
    monkeypatch.setattr(command, "_show", screens.append)
    monkeypatch.setattr(command, "why_no_screen", lambda *streams: None)
    result = run(DEMO, DEMO, *args)
    assert (result.exit_code, len(screens)) == (0, int(shown))
    assert result.stdout, "what is asked for is printed in any case"


def three() -> Comparison:
    """One better, one not told apart, one refused."""
    drawn = step(2.0, "pass", seen())
    a = side(8.0, 10.0, label="a-run-with-a-long-name.jsonl", steps=(drawn,))
    return compare([a, side(12.0, 16.0), side(8.0, None, outcome="at_least", steps=(drawn,)), side(8.0, 10.0, going=True)])


def rows_of(app: CompareApp) -> list[str]:
    return ["".join(segment.text for segment in strip) for strip in app.screen._compositor.render_strips()]


@pytest.mark.parametrize("size", SIZES, ids=str)
async def test_the_screen_has_the_headlines_on_top_and_the_brackets_on_one_axis(size: tuple[int, int]) -> None:
    app = CompareApp(three())
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        rows = rows_of(app)
        text = "\n".join(rows)
        assert rows[0].startswith(" ✔ BETTER  B is better than A: B holds at 12.0 requests/s, 20 % above the 10.0")
        assert "◐ NOT TOLD APART  C is not told apart from A" in text
        assert "⊘ NOT COMPARED  D cannot be compared with A" in text
        bars = {row.split()[0]: row for row in rows if row.rstrip().endswith("req/s") and "▒" in row}
        assert list(bars) == ["A", "B", "C", "D"]
        assert bars["A"].index("✔") < bars["A"].index("✘") < bars["B"].index("✔") < bars["B"].index("✘")
        assert "✘" not in bars["C"]
        assert bars["A"].index("✔") == bars["C"].index("✔") == bars["D"].index("✔")
        assert "Leave" in rows[-1]


async def test_the_tables_scroll_and_q_leaves() -> None:
    app = CompareApp(three())
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert "Latencies" not in "\n".join(rows_of(app))
        await pilot.press("end")
        await pilot.pause()
        assert "latencies at rates that both saw" in "\n".join(rows_of(app))
        await pilot.press("q")
    assert app.return_code == 0


async def test_a_narrower_terminal_has_another_axis() -> None:
    app = CompareApp(three())
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.pause()
        before = [row for row in rows_of(app) if "▒" in row]
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        after = [row for row in rows_of(app) if "▒" in row]
        assert [row.count("▒") for row in after] != [row.count("▒") for row in before]
        assert all(row.rstrip().endswith("req/s") for row in after)

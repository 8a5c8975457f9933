"""`kneescope what-if` and its screen, over a recorded run of the demo: a model's word, marked so, or a refusal with exit code 3."""

import asyncio
import json
import math
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from textual.pilot import Pilot

from core.results import Answer
from tests.tui import samples
from tests.tui.screen import settle, shown, text_of
from tui.app import KneescopeApp
from tui.cli.commands import cli
from tui.cli.recorded import Recorded
from tui.widgets.knob_slider import KnobSlider
from tui.widgets.whatif_panel import WhatIfPanel

DEMO = str(Path(__file__).parents[2] / "screenshots/demo.jsonl")
"""A quick search of the demo: 17.5 requests/s held, 24.7 failed in the ramp; its knee is at 19.67."""
LIMIT_S = 120.0
"""An end for what hangs; nothing is measured."""


def what_if(*args: str) -> Result:
    return CliRunner().invoke(cli, ("what-if", *args))


def data_of(*args: str, code: int = 0) -> dict[str, Any]:
    result = what_if(*args, "--json", "-")
    assert result.exit_code == code, result.stderr

    def never(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    data: dict[str, Any] = json.loads(result.stdout, parse_constant=never)
    return data


def test_a_smaller_kv_cache_lowers_the_knee_and_the_json_has_the_error() -> None:
    data = data_of(DEMO, "--kv-tokens", "2000")
    assert (data["kind"], data["explained"], data["schema"]) == ("what_if", True, 2)
    assert data["asked"] == {
        **dict.fromkeys(("ttft_s", "tpot_s", "e2e_s", "target", "input_tokens", "output_tokens", "max_num_seqs")),
        **dict.fromkeys(("input_scale", "output_scale")),
        "kv_tokens": 2000,
    }
    said, measured = data["what_if"], data["as_measured"]
    assert said["low_rps"] < said["knee_rps"] < said["high_rps"] < measured["fail_rps"]
    assert said["ratio"] < 0.8
    assert measured["model_knee_rps"] == pytest.approx(19.67, rel=0.05)
    assert 0 <= data["error_frac"] < 0.15
    assert data["model"]["limits"]["kv_tokens"] == 3584
    assert len(data["model"]["windows"]) == 3
    assert "The model of this run says" in data["message"]
    assert data["message_fact"]["code"] == "what_if"
    assert data["knobs"] == []


def test_several_changes_count_together() -> None:
    text = " ".join(what_if(DEMO, "--ttft", "none", "--max-num-seqs", "4", "--target", "99%").stdout.split())
    assert "Asked: no TTFT limit, target 99 %, --max-num-seqs 4." in text
    assert "lower; above it requests pile up" in text or "lower." in text


def test_without_a_change_it_shows_the_error_by_window_and_one_step_of_each_knob() -> None:
    result = what_if(DEMO)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == "What if (a model of this run, not a measurement)"
    assert max(map(len, lines)) <= 100
    for words in ("Measured: holds at 17.5 requests/s, fails at 24.7 requests/s.", "Error by window:", "TTFT limit 600 ms"):
        assert words in result.stdout
    table = [line for line in lines if line.endswith(("%", "same")) and "req/s" in line]
    assert len(table) == 12 + 3, "two rows for each of six knobs, and three windows"


@pytest.fixture
def unexplained(tmp_path: Path) -> str:
    """The demo's run with latencies of the window that are those of no engine with these steps."""
    path = tmp_path / "odd.jsonl"
    lines = Path(DEMO).read_bytes().splitlines()
    path.write_bytes(b"".join(_odd(line, number) for number, line in enumerate(lines)))
    return str(path)


def _odd(line: bytes, number: int) -> bytes:
    """First tokens half a second late, and decode times that nothing explains."""
    event = json.loads(line)
    if event.get("type") == "ended" and event["ending"] == "ok":
        decode_s = event["t_last"] - event["t_first"]
        event["t_first"] += 0.5
        event["t_last"] = event["t_first"] + decode_s * (1 + number % 3)
        event["t_end"] = event["t_last"]
    return json.dumps(event).encode() + b"\n"


def test_what_the_model_does_not_explain_is_refused_with_exit_code_3(unexplained: str, tmp_path: Path) -> None:
    result = what_if(unexplained, "--max-num-seqs", "8", "--json", str(tmp_path / "out.json"))
    assert result.exit_code == 3
    assert "does not explain it" in result.stdout
    assert "No answer is given" in result.stdout
    data = json.loads((tmp_path / "out.json").read_text())
    assert (data["explained"], data["what_if"], data["message_fact"]["code"]) == (False, None, "twin_off")
    assert data["error_frac"] >= 0.16
    assert data["as_measured"]["pass_rps"] == pytest.approx(17.46, rel=0.01)


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        ((DEMO, "--kv-tokens", "300"), 2, "do not hold"),
        ((DEMO, "--max-num-seqs", "0"), 2, "--max-num-seqs: 0 must be at least 1"),
        ((DEMO, "--max-num-seqs", "99999"), 2, "no server runs that many"),
        ((DEMO, "--ttft", "300"), 2, "--ttft"),
        ((DEMO, "--target", "0"), 2, "--target: 0 must be above 0"),
        ((DEMO, "--ttft", "none", "--tpot", "none"), 2, "no limit to judge by"),
        (("no-such-run",), 2, "There is no run"),
    ],
)
def test_what_cannot_be_asked_is_refused_before_anything_is_written(args: tuple[str, ...], code: int, words: str) -> None:
    result = what_if(*args)
    assert (result.exit_code, result.stdout) == (code, "")
    assert words in result.stderr


# --- the screen ---------------------------------------------------------------------------------------------------


async def settled(app: KneescopeApp, pilot: Pilot[Answer | None]) -> str:
    """The screen once nothing is being computed any more."""
    await asyncio.wait_for(app.screen.query_one(WhatIfPanel).settled.wait(), LIMIT_S)
    for _ in range(3):
        await settle(app, pilot)
    return text_of(app)


@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
async def test_sliders_move_the_modelled_knee_beside_the_measured_bracket(size: tuple[int, int]) -> None:
    recorded = Recorded(DEMO)
    app = KneescopeApp(recorded, player=recorded, path=DEMO)
    async with app.run_test(size=size) as pilot:
        await settle(app, pilot)
        await pilot.press("w")
        await settle(app, pilot)
        text = await settled(app, pilot)
        title = next(row for row in text.splitlines() if "what if: a model" in row)
        assert "off by" in title
        assert "measured" in text
        assert "17.5 to 24.7 req/s" in text
        assert "model, what if" not in text
        await pilot.press(*["down"] * 4, *["left"] * 5)
        assert "computing" in text_of(app) or "model, what if" in await settled(app, pilot)
        text = await settled(app, pilot)
        assert "model, what if" in text
        assert "The model of this run says" in text
        assert "lower" in " ".join(text.split())
        await pilot.press("backspace")
        text = await settled(app, pilot)
        assert "model, what if" not in text
        assert all(slider.asked is None for slider in app.screen.query(KnobSlider))


async def test_the_screen_says_that_it_computes_and_answers_keys_meanwhile() -> None:
    recorded = Recorded(DEMO)
    app = KneescopeApp(recorded, player=recorded, path=DEMO)
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(app, pilot)
        app.action_look_at("what_if")
        await settle(app, pilot)
        panel = app.screen.query_one(WhatIfPanel)
        if not panel.settled.is_set():
            assert "computing the model of this run" in text_of(app)
        await pilot.press("k")
        assert app.current_mode == "knee"
        await pilot.press("w")
        await settled(app, pilot)


async def test_a_run_that_goes_on_and_one_without_a_file_have_no_model() -> None:
    async with shown(samples.mid_step(), on="what_if") as (app, _, _):
        assert "this one is still going" in text_of(app)
    async with shown(samples.finished(), on="what_if") as (app, _, _):
        assert "There is no file of this run" in text_of(app)


async def test_a_run_that_is_not_explained_has_no_sliders(unexplained: str) -> None:
    recorded = Recorded(unexplained)
    app = KneescopeApp(recorded, player=recorded, path=unexplained)
    async with app.run_test(size=(120, 36)) as pilot:
        await settle(app, pilot)
        await pilot.press("w")
        await settle(app, pilot)
        text = " ".join((await settled(app, pilot)).split())
        assert "does not explain it" in text
        assert not app.screen.query(KnobSlider)


def test_a_shift_is_told_as_a_share() -> None:
    shifts = [each["shift_frac"] for each in data_of(DEMO, "--target", "99%")["model"]["windows"]]
    assert all(abs(shift) < math.expm1(0.15) for shift in shifts)

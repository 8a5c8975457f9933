"""Another run after a run: what `v` and `R` ask for, and how the command line does it."""

import shlex
from pathlib import Path

import pytest
from msgspec.structs import replace

from core.access import Access
from core.config import FleetAsk, Method, ProbeConfig, Target
from core.results import Knee
from tests.tui import samples
from tests.tui.screen import settle, shown
from tui.again import Left, Wish, offer, verifying
from tui.cli import anew, argv, probe
from tui.cli.configure import build

KNEE = Knee(pass_rps=11.313708498984761, pass_repeats=1, first_fail_rps=13.6)
URL = "http://127.0.0.1:8000"


@pytest.mark.parametrize(("mode", "longer"), [("quick", "standard"), ("standard", "acceptance"), ("acceptance", "acceptance")])
def test_a_verification_judges_both_ends_by_the_next_longer_mode(mode: str, longer: str) -> None:
    method = verifying(Method(mode=mode, repeats=2, measure_s=20.0, seed=5, require_rps=9.0), KNEE)  # type: ignore[arg-type]
    assert (method.mode, method.rates_rps) == (longer, (KNEE.pass_rps, 13.6))
    assert (method.repeats, method.measure_s, method.seed, method.require_rps) == (None, None, 5, 9.0)
    assert verifying(Method(measure_s=1800.0), KNEE).measure_s == 1800


@pytest.mark.parametrize(
    "asked",
    [
        "",
        "--mode quick --careful",
        "--budget=3m --start-rps 2",
        "--repeats 4 --measure=20s --max-rps 40",
        "--hold 6",
        "--rates 2,4",
    ],
)
def test_the_command_that_is_written_down_asks_for_the_same_run(asked: str) -> None:
    words = shlex.split(asked)
    config = build(argv.options(words), URL)
    found, command = anew.verified(config, argv.logged(["probe", URL, *words]), KNEE)
    said = shlex.split(command)
    assert said[:3] == ["kneescope", "probe", URL]
    assert build(argv.options(said[3:]), URL) == found


def test_the_place_of_a_secret_stays_one() -> None:
    written = argv.logged(["probe", URL, "--header", "X-A: SECRET", "--careful"])
    _, command = anew.verified(ProbeConfig(target=Target(url=URL)), written, KNEE)
    assert "--header '...'" in command
    assert "careful" not in command


def test_each_run_has_a_file_of_its_own(tmp_path: Path) -> None:
    out = tmp_path / "run.jsonl"
    assert anew.own_file(None) is None
    assert anew.own_file(str(out)) == str(tmp_path / "run-2.jsonl")
    (tmp_path / "run-2.jsonl").touch()
    assert anew.own_file(str(out)) == str(tmp_path / "run-3.jsonl")


@pytest.mark.parametrize(("key", "wish"), [("v", "verify"), ("R", "again")])
async def test_the_first_press_says_what_it_does_and_the_second_leaves_for_it(key: str, wish: Wish) -> None:
    view = samples.finished()
    async with shown(view, (120, 36)) as (app, pilot, _):
        await pilot.press(key)
        assert app.wish is None, "nobody does another run here"
        app.begin_with("ramp", None, repeats=True)
        await settle(app, pilot)
        await pilot.press(key)
        await settle(app, pilot)
        assert app.wish is None
        assert offer(wish, view) in " ".join(notice.message for notice in app._notifications)
        await pilot.press(key)
        assert app.wish == wish


async def test_without_an_answer_there_is_nothing_to_verify_and_while_it_runs_nothing_to_repeat() -> None:
    async with shown(samples.ramp(), (120, 36), run=samples.never) as (app, pilot, _):
        app.begin_with("ramp", None, repeats=True)
        await settle(app, pilot)
        await pilot.press("v", "v", "R", "R")
        assert app.wish is None


@pytest.mark.parametrize("wishes", [("verify",), ("again", "verify")])
def test_the_runs_follow_each_other_and_the_last_one_counts(
    wishes: tuple[Wish, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done: list[probe.Job] = []
    ask, access = FleetAsk(peak_rps=9.0), Access(api_key="sk-SECRET")
    view = samples.finished()

    async def run(job: probe.Job) -> probe.Ended:
        done.append(job)
        wish = wishes[len(done) - 1] if len(done) <= len(wishes) else None
        answer = view.answer if wish else replace(view.answer, outcome="void")  # type: ignore[type-var]
        path = tmp_path / f"{len(done)}.jsonl"
        return probe.Ended(view=replace(view, answer=answer), path=path, failure=None, left=Left(ask=ask, wish=wish))

    monkeypatch.setattr(probe, "run_once", run)
    config = ProbeConfig(target=Target(url=URL))
    options = argv.options(["--headless", "--out", str(tmp_path / "run.jsonl")])
    code = probe.run(probe.Job(config=config, options=options, command=f"kneescope probe {URL}", name="m", access=access))
    out, err = capsys.readouterr()
    assert code == 3, "that of the last run"
    assert len(done) == len(wishes) + 1
    assert done[-1].config.method.rates_rps == (11.3, 13.6)
    assert {job.access.api_key for job in done} == {"sk-SECRET"}
    assert [job.ask for job in done[1:]] == [ask] * len(wishes)
    assert all(f"{tmp_path}/{n}.jsonl" in err for n in range(1, len(done)))
    assert out.count("repeats passed") <= 1
    assert "SECRET" not in out + err

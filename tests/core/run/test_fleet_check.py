"""A fleet that is checked: whole runs on fakes, replicas that come and go, and what is left after a loss."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from core import report
from core.config import FleetPlan, Method, ProbeConfig
from core.facts import fact, says
from core.judge import replicas
from core.results import Answer
from core.run import loss
from core.run.events import Note, StepJudged, StepStarted
from tests.builders import told
from tests.core.run.bench import Bench, assert_ended_clean, events_of, final_view, on_bench, to_the_end
from tests.core.run.fakes import config
from tests.core.run.virtual import now

NAMES = ("http://a", "http://b", "http://c")
SECRET = "sk-TESTSECRET"


def probe(one_rps: float, lost: int = 0, load_at_peak: float = 0.5) -> ProbeConfig:
    plan = FleetPlan(replicas=3, one_rps=one_rps, load_at_peak=load_at_peak, lost=lost)
    made: ProbeConfig = config(method=Method(rates_rps=(plan.planned_rps, plan.full_rps), fleet=plan))
    return made


class Fleet:
    """Says which replicas are there; those of `gone` are not from when the file of the command is there."""

    def __init__(self, marker: Path | None = None, gone: int = 1) -> None:
        self._marker, self._gone = marker, gone
        self.calls = 0
        self.names: Callable[[], tuple[str, ...]] = lambda: NAMES
        self.lost: Callable[[], None] = lambda: None

    async def call(self) -> frozenset[str]:
        self.calls += 1
        names = self.names()
        if self._marker is not None and self._marker.exists():
            self.lost()
            names = names[self._gone :]
        return frozenset(names)


def checked(path: Path, fleet: Fleet, work: Callable[[Bench], Awaitable[Answer]] = to_the_end, **given: Any) -> Answer:
    bench, answer = on_bench(path, work, roll=fleet.call, **given)
    assert_ended_clean(bench, path)
    return answer


def data_of(path: Path) -> dict[str, Any]:
    found = report.result(final_view(path), None)
    assert found["kind"] == "fleet_check"
    data: dict[str, Any] = found["fleet_check"]
    return data


def test_a_fleet_that_holds_less_than_its_replicas_could(path: Path) -> None:
    answer = checked(path, Fleet(), probe=probe(5.0))

    steps = {event.result.rate_rps: event.result.verdict for event in events_of(path, StepJudged)}
    assert list(steps)[:2] == [7.5, 15.0]
    assert steps[7.5] == "pass"
    data = data_of(path)
    assert (data["verdict"], data["planned"], data["full_rps"]) == ("holds", "holds", 15.0)
    assert steps[data["holds_rps"]] == "pass"
    assert steps[data["fails_rps"]] == "fail"
    assert data["ratio"] == data["holds_rps"] / 15.0
    assert told(answer.message, "fleet_holds").figures["holds_rps"] == data["holds_rps"]
    assert "3 replicas hold" in report.to_text(final_view(path), None)


def test_another_number_of_replicas_than_was_planned_with_is_no_answer(path: Path) -> None:
    fleet = Fleet()
    fleet.names = lambda: NAMES[:2]
    answer = checked(path, fleet, probe=probe(2.0))

    assert answer.outcome == "void"
    assert told(answer.message, "fleet_changed").figures == {"before": 3, "now": 2}
    assert not events_of(path, StepStarted)
    assert fleet.calls == loss.TRIES


def test_a_replica_that_joins_during_the_check_voids_it(path: Path) -> None:
    fleet = Fleet()
    fleet.names = lambda: (*NAMES, "http://d") if now() > 1030.0 else NAMES
    answer = checked(path, fleet, probe=probe(2.0))

    assert answer.outcome == "void"
    assert told(answer.message, "fleet_changed").figures == {"before": 3, "now": 4}
    assert data_of(path)["verdict"] == "not_known"


def test_one_missed_reading_is_no_change(path: Path) -> None:
    fleet = Fleet()
    fleet.names = lambda: NAMES[1:] if fleet.calls == 2 else NAMES
    assert checked(path, fleet, probe=probe(2.0)).outcome == "at_least"


def test_a_fleet_of_which_others_answered_has_no_answer(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planned load was that of three, and how many held it is not known."""
    unseen = fact("replicas_unseen", counted=60, requests=90)
    monkeypatch.setattr(replicas, "unseen", lambda samples, records: unseen)
    answer = checked(path, Fleet(), probe=probe(2.0))

    assert answer.outcome == "void"
    assert told(answer.message, "fleet_unseen").of == (unseen,)
    assert data_of(path)["verdict"] == "not_known"
    assert len(events_of(path, StepJudged)) == 1, "no more is sent"


# --- a loss ---


def lossy(path: Path, marker: Path, after_s: float, **given: Any) -> tuple[Bench, Answer]:
    fleet = Fleet(marker)

    def set_up(bench: Bench) -> None:
        fleet.lost = lambda: setattr(bench.server, "service_s", after_s)

    lose = f"echo {SECRET} && touch {marker}"
    return on_bench(path, to_the_end, roll=fleet.call, lose=lose, set_up=set_up, **given)


@pytest.mark.parametrize(("after_s", "verdict", "left"), [(0.8, "holds", "pass"), (3.0, "fails", "fail")])
def test_the_planned_load_is_judged_again_with_what_is_left(
    path: Path, tmp_path: Path, after_s: float, verdict: str, left: str
) -> None:
    bench, answer = lossy(path, tmp_path / "lost", after_s, probe=probe(2.0, lost=1))

    assert_ended_clean(bench, path)
    steps = [event.result for event in events_of(path, StepJudged)]
    assert [(step.phase, step.rate_rps) for step in steps] == [("list", 3.0), ("list", 6.0), ("lost", 3.0)]
    assert steps[-1].set_aside
    assert answer.knee.pass_rps == 6.0, "the answer rests on all of them"
    assert told(answer.message, "fleet_after_loss").figures["verdict"] == left
    data = data_of(path)
    assert (data["verdict"], data["planned"], data["after_loss"]) == (verdict, "holds", verdict)
    first, again = (order for order in bench.generator.orders if order.segments and order.segments[-1].rate_rps == 3.0)
    assert (first.seed, first.draw, first.repeat) == (again.seed, again.draw, again.repeat), "the same requests"
    assert SECRET not in path.read_text(), "the command and what it prints are written nowhere"
    assert again.phase == "lost"


def test_a_command_that_fails_leaves_the_answer_and_its_words_to_the_screen(path: Path, tmp_path: Path) -> None:
    bench, answer = on_bench(path, to_the_end, roll=Fleet().call, lose=f"echo {SECRET}; exit 3", probe=probe(2.0, lost=1))

    assert answer.outcome == "at_least"
    assert told(answer.message, "lose_failed").figures["exit_code"] == 3
    assert bench.session.lose_output == SECRET
    assert (data_of(path)["verdict"], data_of(path)["planned"]) == ("not_known", "holds")
    assert SECRET not in path.read_text()


def test_replicas_that_stay_are_not_waited_for_for_ever(path: Path) -> None:
    _, answer = on_bench(path, to_the_end, roll=Fleet().call, lose="true", probe=probe(2.0, lost=1))

    assert says(answer.message, "lose_without_effect")
    assert [event.result.phase for event in events_of(path, StepJudged)] == ["list", "list"]


def test_more_that_are_gone_than_were_to_be_lost_is_no_answer(path: Path, tmp_path: Path) -> None:
    marker = tmp_path / "lost"
    _, answer = on_bench(path, to_the_end, roll=Fleet(marker, gone=2).call, lose=f"touch {marker}", probe=probe(2.0, lost=1))

    assert says(answer.message, "lost_others")
    assert data_of(path)["after_loss"] == "not_known"


def test_a_planned_load_that_fails_takes_no_replica_away(path: Path, tmp_path: Path) -> None:
    marker = tmp_path / "lost"
    _, answer = on_bench(path, to_the_end, roll=Fleet(marker).call, lose=f"touch {marker}", probe=probe(10.0, lost=1))

    assert not marker.exists()
    assert data_of(path)["verdict"] == "fails"
    assert not says(answer.message, "fleet_after_loss")


def test_stopped_after_the_loss_the_answer_of_all_stays(path: Path, tmp_path: Path) -> None:
    marker = tmp_path / "lost"
    fleet = Fleet(marker)

    def set_up(bench: Bench) -> None:
        fleet.lost = lambda: (asyncio.get_running_loop().call_later(5.0, bench.session.stop), None)[1]

    bench, answer = on_bench(path, to_the_end, roll=fleet.call, lose=f"touch {marker}", set_up=set_up, probe=probe(2.0, lost=1))

    assert_ended_clean(bench, path)
    assert (answer.outcome, answer.knee.pass_rps) == ("interrupted", 6.0)
    assert told(answer.message, "fleet_holds").figures["planned"] == "holds"
    assert says(answer.message, "fleet_loss_not_judged")
    assert events_of(path, StepJudged)[-1].result.phase == "lost"
    assert any(says(event.text, "fleet_lost") for event in events_of(path, Note))

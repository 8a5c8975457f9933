"""Whole runs against a server that goes away and comes back: what was tried meanwhile is no limit of load."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec
import pytest

from core import prose
from core.config import ProbeConfig, Safety, Slo
from core.facts import Fact, Figure, fact, parts, says
from core.judge.search.bracket import Bracket
from core.report import notes, result, to_text
from core.results import Outcome
from core.run.away import AWAY_S
from core.run.events import RunEnded, SearchRestarted
from core.run.session import Session
from core.view import RunView
from tests.builders import told
from tests.core.load.server import Received
from tests.faults.answers import JSON, Answer, whole
from tests.faults.runs import Ran, config, probe
from tests.faults.server import FaultServer
from tui.cli.probe import code_of

WORDS = "HTTP 503 Reason: no healthy upstream"
SAID: dict[str, Figure] = {"said": WORDS, "endings": {"http": 1}}
"""Of the last single request without load."""
GONE = whole(b'{"error":{"message":"no healthy upstream"}}', 503, JSON)
LIST = config(rates_rps=(3.0, 4.0), measure_s=8.0)
CAPACITY_RPS = 10.0
"""Eight places, 0.8 s each."""

Meddle = Callable[[Session, FaultServer], Coroutine[Any, Any, None]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.jsonl"


async def until(session: Session, sees: Callable[[RunView], bool]) -> None:
    while not sees(session.state.view(asyncio.get_running_loop().time())):  # noqa: ASYNC110 (virtual time)
        await asyncio.sleep(0.1)


def sent(phase: str, n: int, step: int = 1) -> Callable[[RunView], bool]:
    """Whether so many requests of the first order of a phase (of this step or a later one) are sent."""

    def sees(view: RunView) -> bool:
        now = view.current
        return now is not None and now.phase == phase and now.step >= step and now.live is not None and now.live.sent >= n

    return sees


def passed(view: RunView) -> bool:
    return any(step.verdict == "pass" and step.phase != "ramp" for step in view.steps)


def away(sees: Callable[[RunView], bool], gone_s: float = 20.0, after_s: float = 0.0) -> Meddle:
    """A restart behind a gateway once the run `sees` that."""

    async def meddle(session: Session, server: FaultServer) -> None:
        await until(session, sees)
        await asyncio.sleep(after_s)
        await server.restart(gone_s, GONE)

    return meddle


def ended(path: Path, meddle: Meddle, given: ProbeConfig | None = None) -> tuple[Ran, RunView]:
    """A run, and its live view when it was over."""
    sessions: list[Session] = []

    async def beside(session: Session, server: FaultServer) -> None:
        sessions.append(session)
        await meddle(session, server)

    ran = probe(path, FaultServer, given, meddle=beside)
    return ran, sessions[0].state.view(1e9)


@pytest.mark.parametrize(
    ("when", "gone_s"),
    [(sent("ramp", 25), 20.0), (sent("search", 60), 20.0), (sent("search", 3), 40.0)],
    ids=["ramp", "step", "warm-up"],
)
def test_what_was_tried_while_the_server_was_away_is_in_no_answer(
    path: Path, when: Callable[[RunView], bool], gone_s: float
) -> None:
    ran, live = ended(path, away(when, gone_s))
    knee = ran.answer.knee

    assert ran.answer.outcome == "bracket"
    assert code_of(ran.view) == 0
    assert knee.pass_rps is not None
    assert knee.first_fail_rps is not None
    assert 0.5 * CAPACITY_RPS < knee.pass_rps < knee.first_fail_rps < 2 * CAPACITY_RPS
    assert fact("away_awaited", **SAID, within_s=AWAY_S) in ran.noted
    assert any(says(said, "back_after") for said in ran.noted)
    assert len(ran.events(SearchRestarted)) == 1
    (was_away,) = (note for note in knee.notes if says(note, "was_away"))
    assert was_away in ran.noted
    assert not says(ran.answer.message, "ended_in_errors")

    view = ran.view
    assert view == live, "recorded and live are one"
    assert notes(view).count(prose.text(was_away)) == 1
    before = [step for step in view.steps if step.set_aside]
    assert before
    assert all(step.verdict == "void" and step.floor is None for step in before)
    assert all(repeat.verdict not in ("pass", "fail") for step in before for repeat in step.repeats)
    assert before == list(view.steps[: len(before)])
    assert view.steps[len(before)].phase == "ramp"
    again = Bracket.of(ran.view.config.method, view.steps).knee()  # type: ignore[union-attr]
    assert (again.pass_rps, again.first_fail_rps, again.pass_repeats) == (knee.pass_rps, knee.first_fail_rps, knee.pass_repeats)
    assert [step["set_aside"] for step in result(view, None)["steps"]].count(True) == len(before)


def test_a_rate_that_held_before_is_judged_again_and_says_so(path: Path) -> None:
    ran, _ = ended(path, away(sent("list", 3, step=2)), LIST)
    held, cut, *anew = ran.view.steps

    assert [step.verdict for step in ran.steps] == ["pass", "void", "pass", "pass"], "as they were judged"
    assert (held.verdict, held.set_aside, cut.verdict, cut.set_aside) == ("void", True, "void", True)
    assert isinstance(held.reason, Fact)
    assert (held.reason.code, held.reason.figures) == ("set_aside", {"verdict": "pass"})
    assert cut.reason == fact("server_away", **SAID, seen="asked")
    assert [(step.rate_rps, step.verdict, step.set_aside) for step in anew] == [(3.0, "pass", False), (4.0, "pass", False)]
    assert (ran.answer.outcome, ran.answer.knee.pass_rps, ran.answer.knee.pass_repeats) == ("at_least", 4.0, 1)
    assert not any(says(said, "restarted_between_repeats", "restarted_between_steps") for said in ran.noted), "that says it"
    assert "measured before the server was away" in " ".join(to_text(ran.view, None).split())


def test_a_server_that_came_back_before_it_was_asked_was_away_all_the_same(path: Path) -> None:
    ran, _ = ended(path, away(sent("list", 60, step=2), gone_s=2.0), LIST)

    assert [step.verdict for step in ran.steps] == ["pass", "void", "pass", "pass"]
    assert told(ran.steps[1].reason, "server_away").figures["seen"] == "restarted"
    assert ran.answer.outcome == "at_least"
    assert not any(says(said, "away_awaited", "still_away") for said in ran.noted)


def test_a_server_that_stays_away_ends_the_run_with_what_is_finished(path: Path) -> None:
    ran, live = ended(path, away(sent("list", 3, step=2), gone_s=AWAY_S + 60), LIST)

    assert ran.answer.outcome == "void"
    assert code_of(ran.view) == 3
    assert ran.answer.message == fact("away_for_good", rate_rps=4.0, within_s=AWAY_S, **SAID)
    assert [(step.verdict, step.set_aside) for step in ran.view.steps] == [("pass", False), ("void", False)]
    assert (ran.answer.knee.pass_rps, ran.answer.knee.first_fail_rps) == (3.0, None)
    still = [told(said, "still_away") for said in ran.noted if says(said, "still_away")]
    assert 10 < len(still) <= AWAY_S / 15
    assert still[0].figures["said"] == WORDS
    assert ran.view == live


def test_a_server_that_goes_away_again_ends_the_run(path: Path) -> None:
    async def twice(session: Session, server: FaultServer) -> None:
        await away(sent("list", 3, step=2))(session, server)
        await away(sent("list", 3, step=4))(session, server)

    ran, _ = ended(path, twice, LIST)

    assert ran.answer.outcome == "void"
    assert ran.answer.message == fact("away_again", rate_rps=4.0, **SAID)
    assert len(ran.events(SearchRestarted)) == 1
    assert (ran.answer.knee.pass_rps, ran.answer.knee.first_fail_rps) == (3.0, None)
    assert [step.set_aside for step in ran.view.steps] == [True, True, False, False]


@pytest.mark.parametrize(("limit_s", "outcome"), [(None, "interrupted"), (60.0, "void")], ids=["x", "--max-duration"])
def test_the_wait_can_be_ended(path: Path, limit_s: float | None, outcome: Outcome) -> None:
    async def meddle(session: Session, server: FaultServer) -> None:
        asked = asyncio.create_task(away(sent("list", 3, step=2), gone_s=AWAY_S)(session, server))
        await until(session, lambda view: any(says(line.text, "away_awaited") for line in view.lines))
        if limit_s is None:
            await asyncio.sleep(20.0)
            session.stop()
        await asked

    ran, _ = ended(path, meddle, msgspec.structs.replace(LIST, safety=Safety(max_duration_s=limit_s)))
    (end,) = ran.events(RunEnded)

    assert ran.answer.outcome == outcome
    assert ran.answer.knee.pass_rps == 3.0
    assert [step.verdict for step in ran.steps] == ["pass", "void"]
    assert end.t - 1000.0 < 100  # type: ignore[union-attr]


def test_a_stop_while_the_server_is_asked_keeps_the_repeat_unjudged(path: Path) -> None:
    async def meddle(session: Session, server: FaultServer) -> None:
        gone = asyncio.create_task(away(sent("list", 3, step=2), gone_s=AWAY_S)(session, server))
        await until(session, lambda view: any(says(line.text, "asked_again") for line in view.lines))
        session.stop()
        await gone

    ran, _ = ended(path, meddle, LIST)

    assert ran.answer.outcome == "interrupted"
    assert ran.answer.knee.first_fail_rps is None
    assert [step.verdict for step in ran.steps] == ["pass", "unjudged"]
    assert [repeat.verdict for repeat in ran.steps[-1].repeats] == ["unjudged"]


def test_a_gateway_that_sheds_and_serves_others_makes_the_rate_fail(path: Path) -> None:
    def shed(server: FaultServer, request: Received) -> Answer | None:
        return GONE if server.running >= 6 else None

    async def meddle(session: Session, server: FaultServer) -> None:
        server.fault = shed

    ran, _ = ended(path, meddle, config(rates_rps=(1.0, 6.0), measure_s=10.0))

    assert (ran.answer.outcome, ran.answer.knee.first_fail_rps) == ("bracket", 6.0)
    assert [step.verdict for step in ran.steps] == ["pass", "fail"]
    assert any(isinstance(said, Fact) and said.figures.get("said") == WORDS for said in parts(ran.steps[-1].reason))
    assert not any(says(said, "away_awaited", "back_already") for said in ran.noted)


def test_a_restart_between_two_steps_is_noticed(path: Path) -> None:
    async def between(session: Session, server: FaultServer) -> None:
        await until(session, sent("list", 20))
        await until(session, lambda view: view.load == "idle")
        await server.restart(3.1, GONE)  # as long as its metrics are waited for

    ran, _ = ended(path, between, LIST)
    restarted = fact("restarted_between_steps", before_rps=3.0, rate_rps=4.0)

    assert [step.verdict for step in ran.view.steps] == ["pass", "pass"]
    assert restarted in ran.noted
    assert restarted in ran.answer.knee.notes
    assert notes(ran.view).count(prose.text(restarted)) == 1


def test_errors_and_metrics_that_fail_together_are_an_absence(path: Path) -> None:
    """A gateway that loses its pod for 6 s: nothing shows a restart, but what a pod sheds under load leaves its metrics."""

    async def cut(session: Session, server: FaultServer) -> None:
        await until(session, sent("list", 40, step=2))
        server.away = GONE
        await until(session, lambda view: view.load == "idle")
        server.away = None

    slow = config(rates_rps=(3.0, 4.0), measure_s=20.0, slo=Slo(ttft_s=0.5, tpot_s=0.3, target=0.8, max_error_rate=0.2))
    ran, _ = ended(path, cut, slow)

    assert [step.verdict for step in ran.steps] == ["pass", "void", "pass", "pass"]
    assert told(ran.steps[1].reason, "server_away").figures["seen"] == "unread"


# --- a held rate -------------------------------------------------------------------------------------------------------

HOLD = config(hold_rps=4.0, measure_s=10.0)


def held_verdicts(ran: Ran) -> list[str]:
    (step,) = ran.steps
    return [repeat.verdict for repeat in step.repeats]


def held(path: Path, meddle: Meddle, for_s: float) -> Ran:
    """A held rate, stopped after so many seconds."""

    async def beside(session: Session, server: FaultServer) -> None:
        asyncio.get_running_loop().call_later(for_s, session.stop)
        await meddle(session, server)

    return ended(path, beside, HOLD)[0]


@pytest.mark.parametrize("gone_s", [20.0, 60.0])
def test_a_held_rate_waits_for_a_server_that_is_away_and_goes_on(path: Path, gone_s: float) -> None:
    ran = held(path, away(sent("hold", 220), gone_s), 180.0 + gone_s)
    verdicts = held_verdicts(ran)

    assert (ran.answer.outcome, "fail" in verdicts) == ("held", False)
    assert verdicts[0] == "pass"
    assert 1 <= verdicts.count("void") <= 2
    assert verdicts[verdicts.index("void") :].count("pass") >= 3
    (cut, *_) = [repeat for repeat in ran.steps[0].repeats if repeat.verdict == "void"]
    assert cut.reason == fact("server_away", **SAID, seen="asked")
    (was_away,) = (note for note in ran.answer.knee.notes if says(note, "was_away_held"))
    assert gone_s <= told(was_away, "was_away_held").figures["away_s"] <= gone_s + 6  # type: ignore[operator]
    assert ran.events(SearchRestarted) == []


def test_a_held_rate_waits_each_time(path: Path) -> None:
    async def twice(session: Session, server: FaultServer) -> None:
        await away(sent("hold", 220), 10.0)(session, server)
        await asyncio.sleep(40.0)
        await server.restart(10.0, GONE)

    ran = held(path, twice, 200.0)
    assert ran.answer.outcome == "held"
    assert "fail" not in held_verdicts(ran)
    assert sum(says(note, "was_away_held") for note in ran.answer.knee.notes) == 2


def test_a_held_rate_ends_with_a_server_that_stays_away(path: Path) -> None:
    ran = held(path, away(sent("hold", 220), AWAY_S + 60), AWAY_S + 200)

    assert (ran.answer.outcome, code_of(ran.view)) == ("void", 3)
    assert ran.answer.message == fact("away_for_good", rate_rps=4.0, within_s=AWAY_S, **SAID)
    assert (ran.steps[0].verdict, held_verdicts(ran)[0]) == ("void", "pass")


def test_a_held_rate_that_a_gateway_sheds_fails(path: Path) -> None:
    """It answers single requests: what it refuses under load is the rate's."""

    async def meddle(session: Session, server: FaultServer) -> None:
        await until(session, sent("hold", 220))
        server.fault = lambda server, request: GONE if session.state.load != "idle" else None

    ran = held(path, meddle, 220.0)
    verdicts = held_verdicts(ran)
    assert verdicts[0] == "pass"
    assert verdicts.count("fail") >= 3
    assert not any(says(said, "away_awaited", "back_already") for said in ran.noted)


def test_a_held_rate_that_is_stopped_while_the_server_is_away_has_no_fail(path: Path) -> None:
    async def meddle(session: Session, server: FaultServer) -> None:
        gone = asyncio.create_task(away(sent("hold", 220), AWAY_S)(session, server))
        await until(session, lambda view: any(says(line.text, "away_awaited") for line in view.lines))
        session.stop()
        await gone

    ran = held(path, meddle, 1000.0)
    assert ran.answer.outcome == "held"
    assert set(held_verdicts(ran)) == {"pass", "void"}


# --- another model -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [LIST, HOLD], ids=["search", "hold"])
def test_a_server_that_comes_back_with_another_model_ends_the_run_with_that_reason(path: Path, given: ProbeConfig) -> None:
    unknown = whole(b'{"error":{"message":"The model `fake` does not exist.","type":"NotFoundError"}}', 404, JSON)

    async def meddle(session: Session, server: FaultServer) -> None:
        gone = asyncio.create_task(away(sent("list", 60) if given is LIST else sent("hold", 220), gone_s=20.0)(session, server))
        await until(session, lambda view: any(says(line.text, "away_awaited") for line in view.lines))
        server.fault = lambda server, request: unknown
        await gone

    ran, _ = ended(path, meddle, given)
    (end,) = ran.events(RunEnded)

    assert (ran.answer.outcome, code_of(ran.view)) == ("void", 3)
    figures = told(ran.answer.message, "back_without_model").figures
    assert figures["model"] == "fake"
    assert "does not exist" in str(figures["said"])
    assert end.t - 1000.0 < 110  # type: ignore[union-attr]

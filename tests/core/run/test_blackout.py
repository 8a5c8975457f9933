"""The errors with which an order ended: a server that is away is told from one that sheds load."""

import msgspec
import pytest

from core.records import Ending, RequestRecord
from core.run.blackout import DARK_ERRORS, DARK_S, unserved
from tests.core.run.events import START, ended

IDLE_S = 0.5


def error(index: int, t: float, ending: Ending = "http", status: int | None = 503) -> RequestRecord:
    record = ended(index, t, t, ttft_s=None, ending=ending)
    return msgspec.structs.replace(record, status=status if ending == "http" else None, error="HTTP 503: no healthy upstream.")


def errors(n: int, begin: float, over_s: float, ending: Ending = "http", status: int | None = 503) -> list[RequestRecord]:
    return [error(i, begin + over_s * i / (n - 1), ending, status) for i in range(n)]


def test_errors_and_nothing_else_for_a_while_are_dark() -> None:
    records = [ended(0, START, START + 1), *errors(DARK_ERRORS, START + 2, DARK_S)]
    found = unserved(records, IDLE_S)

    assert found is not None
    words = {"said": "HTTP 503: no healthy upstream", "endings": {"http": DARK_ERRORS}}
    assert (found.since, found.words) == (START + 1, words)
    assert found.dark


@pytest.mark.parametrize(
    ("n", "over_s", "before", "dark"),
    [
        (DARK_ERRORS - 1, 10.0, True, False),
        (DARK_ERRORS, DARK_S - 1.1, True, False),
        (3, 10.0, False, True),
        (2, 10.0, False, False),
    ],
    ids=["too few", "too short", "all there were", "two are no row"],
)
def test_few_errors_or_a_short_time_are_not(n: int, over_s: float, before: bool, dark: bool) -> None:
    answered = [ended(0, START, START + 1)] if before else []
    found = unserved([*answered, *errors(n, START + 2, over_s)], IDLE_S)

    assert found is not None
    assert found.dark == dark


def test_what_broke_at_one_moment_is_said() -> None:
    """Four are open when the process ends; then a gateway has nobody to send to."""
    cut = [ended(i, START + 0.25 * i, START + 1 + 0.001 * i, ttft_s=None, ending="truncated") for i in range(4)]
    found = unserved([*cut, *errors(20, START + 2, 15.0)], IDLE_S)

    assert found is not None
    assert found.alike is not None
    assert (found.alike.figures["errors"], found.alike.figures["n"], found.alike.figures["age_s"]) == (24, 4, None)
    assert found.alike.figures["moment_s"] == pytest.approx(0.003)
    nothing = unserved(errors(20, START + 2, 15.0), IDLE_S)
    assert nothing is not None
    assert nothing.alike is None


def test_long_answers_are_given_more_time() -> None:
    records = [ended(0, START, START + 1), *errors(20, START + 2, 15.0)]
    slow, quick = unserved(records, 10.0), unserved(records, 5.0)

    assert slow is not None
    assert quick is not None
    assert (slow.dark, quick.dark) == (False, True)


@pytest.mark.parametrize("ending", ["http", "stream", "truncated", "empty", "timeout", "connection"])
def test_every_kind_of_failing_of_the_server_counts(ending: Ending) -> None:
    found = unserved(errors(20, START, 10.0, ending), IDLE_S)

    assert found is not None
    assert found.dark


def test_a_server_that_sheds_load_serves_some() -> None:
    """Nine of ten are turned away at once; one is answered a second later, and one that was cut off had had its first token."""
    shed = [error(i, START + 0.1 * i) for i in range(100) if i % 10]
    served = [ended(i, START + 0.1 * i, START + 0.1 * i + 1) for i in range(0, 100, 10)]

    assert unserved([*shed, *served], IDLE_S) is None, "the last thing that came was an answer"
    last = unserved([*shed, *served[:-1]], IDLE_S)
    assert last is not None
    assert not last.dark
    cut = msgspec.structs.replace(ended(90, START + 9, START + 10, ending="aborted"), t_first=START + 9.95, t_last=START + 9.95)
    assert unserved([*shed, cut], IDLE_S) is None, "a token is a sign of life too"


@pytest.mark.parametrize("status", [301, 401, 404, 429])
def test_who_refuses_is_there(status: int) -> None:
    assert unserved(errors(20, START, 10.0, status=status), IDLE_S) is None


def test_errors_of_this_machine_say_nothing() -> None:
    assert unserved([*errors(20, START, 10.0), error(20, START + 5, "client")], IDLE_S) is None
    assert unserved([], IDLE_S) is None


def test_what_was_cut_off_unanswered_says_nothing() -> None:
    waiting = [msgspec.structs.replace(ended(i, START, START + 20, ttft_s=None, ending="aborted"), t_last=None) for i in range(5)]

    assert unserved(waiting, IDLE_S) is None
    found = unserved([*waiting, *errors(3, START + 1, 5.0)], IDLE_S)
    assert found is not None
    assert found.dark, "all that ended"

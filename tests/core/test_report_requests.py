"""Rows of requests: one for each, in columns that keep their names, with plain numbers and nothing where nothing is known."""

import csv
import io
import itertools
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from core.records import ClosedOrder, RequestHeld, RequestSent, Segment
from core.report import ROW_COLUMNS, RowForm, request_text
from core.run import Replay, read_run, request_rows
from core.run.events import ClosedStarted, Event, RepeatJudged
from tests import builders
from tests.core.run import events as made

RUNS = sorted([Path("screenshots/demo.jsonl"), *Path("tests/data/runs").glob("*.jsonl")])
NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")
WORDS = {"phase", "verdict", "role", "ending", "finish_reason", "error", "backend"}
FLAGS = {"set_aside", "in_window", "good"}

recorded = pytest.mark.parametrize("path", RUNS, ids=lambda path: path.stem)


def text_of(events: Iterable[Event], form: RowForm = "jsonl") -> str:
    known = list(events)
    return "".join(request_text(request_rows(lambda: known), form))


def rows_of(events: Iterable[Event]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text_of(events).splitlines()]


@recorded
def test_every_request_has_one_row_and_repeats_count_what_they_were_judged_by(path: Path) -> None:
    rows = rows_of(read_run(path))
    kinds = Counter(json.loads(line)["type"] for line in path.read_text().splitlines())
    assert len(rows) == kinds["ended"]
    assert len({(row["order"], row["index"]) for row in rows}) == len(rows)
    run = Replay(read_run(path))
    for step in run.view(run.length_s).steps:
        for repeat in step.repeats if step.phase != "ramp" else ():
            own = [row for row in rows if row["in_window"] and (row["step"], row["repeat"]) == (step.step, repeat.index)]
            good = Counter(row["good"] for row in own)
            assert (good[True], good[False]) == (repeat.good, repeat.misses)
            assert {row["verdict"] for row in own} <= {repeat.verdict}
            assert {row["set_aside"] for row in own} <= {step.set_aside}
            assert {row["rate_rps"] for row in own} <= {step.rate_rps}


@recorded
def test_csv_says_the_same_as_json_lines_and_begins_with_the_names(path: Path) -> None:
    events = list(read_run(path))
    lines = csv.reader(io.StringIO(text_of(events, "csv")))
    assert tuple(next(lines)) == ROW_COLUMNS
    rows = rows_of(events)
    for cells, row in zip(lines, rows, strict=True):
        assert list(row) == list(ROW_COLUMNS)
        for name, cell in zip(ROW_COLUMNS, cells, strict=True):
            value = row[name]
            if value is None or name in WORDS:
                assert cell == (value or "")
            elif name in FLAGS:
                assert cell == str(value).lower()
            else:
                assert NUMBER.fullmatch(cell), (name, cell)
                assert float(cell) == value


def test_times_are_those_of_the_request() -> None:
    plan = made.order()
    due = made.due(plan)
    at = float(due[50])
    ended = made.ended(50, at, at + 0.5, ttft_s=0.2)
    sent = RequestSent(order=1, index=50, t_sched=at, t_sent=at + 0.012, connect_s=0.004)
    result = builders.repeat("pass", order=1)
    (row,) = rows_of([*made.opening(plan), sent, ended, RepeatJudged(t=600.0, step=1, result=result)])
    assert row["scheduled_s"] == pytest.approx(at - made.START)
    assert row["lateness_s"] == pytest.approx(0.008)
    assert row["ttft_s"] == pytest.approx(0.2)
    assert row["tpot_s"] == pytest.approx(0.03)
    assert row["e2e_s"] == pytest.approx(0.5)
    assert row["margin"] == pytest.approx(0.6)
    assert (row["good"], row["verdict"], row["role"], row["in_window"], row["rate_rps"]) == (True, "pass", "measured", True, 4.0)


def test_a_request_whose_end_is_not_recorded_has_a_row_without_one() -> None:
    plan = made.order()
    at = float(made.due(plan)[3])
    (row, held) = rows_of(
        [*made.opening(plan), made.sent(3, at), made.first(3, at + 0.1), RequestHeld(order=1, index=4, t_sched=at, t=at)]
    )
    assert (row["ending"], row["good"], row["e2e_s"], row["verdict"]) == (None, None, None, None)
    assert row["ttft_s"] == pytest.approx(0.1)
    assert row["role"] == "warmup"
    assert (held["sent_s"], held["lateness_s"]) == (None, None)


def test_what_was_cut_off_is_a_miss_only_where_that_is_certain() -> None:
    plan = made.order()
    at = float(made.due(plan)[3])
    late, early = (made.ended(3, at, at + s, ttft_s=None, ending="aborted") for s in (0.6, 0.4))
    assert [rows_of([*made.opening(plan), made.sent(3, at), each])[0]["good"] for each in (late, early)] == [False, None]
    failed = made.ended(3, at, at + 0.1, ttft_s=None, ending="http")
    assert rows_of([*made.opening(plan), made.sent(3, at), failed])[0]["good"] is False


def test_a_ramp_has_no_window_and_a_closed_loop_no_rate() -> None:
    segments = (Segment(rate_rps=4.0, duration_s=5.0, role="measured"), Segment(rate_rps=8.0, duration_s=5.0, role="measured"))
    plan = made.order(phase="ramp", segments=segments)
    due = made.due(plan)
    one, two = int((due < plan.start_at + 5).sum()) - 1, due.size - 1
    closed = ClosedOrder(order=9, in_flight=4, duration_s=5.0, seed=1, start_at=600.0)
    rows = rows_of(
        [
            *made.opening(plan),
            *(made.ended(at, float(due[at]), float(due[at]) + 0.3) for at in (one, two)),
            ClosedStarted(t=600.0, order=closed),
            made.ended(0, 600.0, 600.3, number=9),
        ]
    )
    assert [(row["phase"], row["rate_rps"], row["in_window"]) for row in rows] == [
        ("ramp", 4.0, False),
        ("ramp", 8.0, False),
        ("closed", None, False),
    ]


def test_texts_of_a_server_are_one_line_and_no_formula() -> None:
    plan = made.order()
    at = float(made.due(plan)[3])
    ended = replace(made.ended(3, at, at + 0.1, ttft_s=None, ending="http"), error='=HYPERLINK("x")\r\n\x1b[2J,b')
    events = [*made.opening(plan), made.sent(3, at), ended]
    (_, cells) = csv.reader(io.StringIO(text_of(events, "csv")))
    assert dict(zip(ROW_COLUMNS, cells, strict=True))["error"] == '\'=HYPERLINK("x") [2J,b'
    assert rows_of(events)[0]["error"] == '=HYPERLINK("x") [2J,b'


def test_a_small_number_has_no_exponent_in_csv() -> None:
    plan = made.order()
    at = float(made.due(plan)[3])
    events = [*made.opening(plan), made.sent(3, at), made.ended(3, at, at + 0.1, ttft_s=0.00002)]
    (_, cells) = csv.reader(io.StringIO(text_of(events, "csv")))
    assert dict(zip(ROW_COLUMNS, cells, strict=True))["ttft_s"] == "0.00002"


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_rows_are_written_as_the_file_is_read(form: RowForm) -> None:
    """The first ones are there long before the last request is read: no run needs to be in memory."""
    plan = made.order(segments=(Segment(rate_rps=400.0, duration_s=60.0, role="measured"),))
    due = made.due(plan).tolist()
    read = 0

    def events() -> Iterator[Event]:
        nonlocal read
        yield from made.opening(plan)
        for index, at in enumerate(due):
            read += 1
            yield made.ended(index, at, at + 0.3)

    pieces = request_text(request_rows(events), form)
    next(itertools.islice(pieces, 1, None))
    assert len(due) < read < len(due) + 3000  # once through for the verdicts, and little more
    assert sum(piece.count("\n") for piece in pieces) > len(due) - 3000


def test_a_file_without_a_beginning_is_no_run() -> None:
    with pytest.raises(ValueError, match="no run begins here"):
        rows_of([made.ended(0, 1.0, 1.3)])

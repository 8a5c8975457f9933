"""Traces of every public form: what is recognised, in which unit, and what each broken row is called."""

import gzip
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import prose
from core.errors import UserError
from core.facts import Fact, fact
from core.traffic import TimeUnit, Trace, TraceRow, read_trace
from core.traffic.values import date_s, number, whole
from tests.core.traffic.files import DATA, jsonl, written

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens"
BURST = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type"


def pairs(trace: Trace) -> list[tuple[float, int, int]]:
    return [(round(row.time_s, 6), row.input_tokens, row.output_tokens) for row in trace.rows()]


@pytest.mark.parametrize(
    ("name", "form", "unit", "rows", "span_s", "tick_s", "block_tokens"),
    [
        ("azure-2023-conv.csv", "azure", "date", 19, 12.886545, None, None),
        ("azure-2024-conv.csv", "azure", "date", 5, 0.247116, None, None),
        ("azure-images.csv", "azure", "date", 2, 1.5, None, None),
        ("burstgpt-1.csv", "burstgpt", "s", 40, 5807.0, 1.0, None),
        ("burstgpt-3.csv", "burstgpt", "s", 30, 41453.0, 1.0, None),
        ("vidur.csv", "vidur", "s", 5, 5.892655, None, None),
        ("mooncake-conversation.jsonl", "mooncake", "ms", 60, 15.0, 3.0, 512),
        ("mooncake-synthetic.jsonl", "mooncake", "ms", 8, 0.937, None, 512),
        ("qwen.jsonl", "qwen", "s", 5, 64.0, None, 16),
        ("ragpulse.jsonl", "ragpulse", "s", 20, 544.0, 1.0, None),
        ("shared-prefix.jsonl", "shared_prefix", "s", 2, 1.5, None, None),
    ],
)
def test_every_public_form_is_known(
    name: str, form: str, unit: str, rows: int, span_s: float, tick_s: float | None, block_tokens: int | None
) -> None:
    trace = read_trace(DATA / name)
    assert (trace.format, trace.unit, len(trace), trace.tick_s) == (form, unit, rows, tick_s)
    assert trace.span_s == pytest.approx(span_s, abs=1e-6)
    assert (trace.chains and trace.chains.block_tokens) == block_tokens
    assert len(trace.bad) == 0
    said = trace.found[0]
    assert (said.code, said.figures["unit"]) == ("trace_found", unit)
    assert said.figures["rate_rps"] == pytest.approx(rows / span_s, rel=1e-6)
    assert all(prose.sentence(each).endswith(".") for each in trace.found)


def test_columns_are_read_by_name() -> None:
    """BurstGPT_3 has two columns more, in the middle: its second and third are a session and the time that the answer took."""
    first, third = read_trace(DATA / "burstgpt-1.csv"), read_trace(DATA / "burstgpt-3.csv")
    assert pairs(first)[:2] == [(0.0, 472, 18), (40.0, 1087, 230)]
    assert pairs(third)[:2] == [(0.0, 906, 446), (51.0, 36, 29)]
    assert (first.clock_s, third.clock_s) == (5.0, 19440110.0)
    assert (first.row(0).session, third.row(11).session, third.row(7).session) == (None, 7, 7)


def test_crlf_a_missing_last_newline_and_seven_digits() -> None:
    assert pairs(read_trace(DATA / "azure-2023-conv.csv"))[:2] == [(0.0, 374, 44), (4.314579, 396, 109)]
    assert pairs(read_trace(DATA / "azure-2023-conv.csv"))[-1] == (12.886545, 206, 162)


def test_the_same_trace_as_dates_and_as_seconds(tmp_path: Path) -> None:
    dates = [AZURE, *(f"2024-05-12 00:00:{at},{n},5" for n, at in enumerate(("00+00:00", "01.5+00:00", "02.25Z"), 1))]
    path = written(tmp_path, "\ufeff" + "\r\n".join([*dates[:2], "", *dates[2:]]))
    assert pairs(read_trace(path)) == [(0.0, 1, 5), (1.5, 2, 5), (2.25, 3, 5)]
    seconds = written(tmp_path, "arrived_at,num_decode_tokens,num_prefill_tokens\n0,5,1\n1.5,5,2\n2.25,5,3\n")
    assert pairs(read_trace(seconds)) == [(0.0, 1, 5), (1.5, 2, 5), (2.25, 3, 5)]


def test_a_row_without_tokens_is_a_request_that_failed() -> None:
    trace = read_trace(DATA / "burstgpt-1.csv")
    assert [row.figures["at"] for row in trace.failed.examples] == [22, 40, 42, 43]
    assert fact("trace_failed", rows=4, rows_frac=4 / 44) in trace.found
    assert trace.input_tokens.min() > 0 < trace.output_tokens.min()


def test_rows_come_in_order_of_time(tmp_path: Path) -> None:
    rows = [{"timestamp": t, "input_length": 600, "output_length": n, "hash_ids": [n, n]} for n, t in enumerate((5, 9, 7, 9), 1)]
    trace = read_trace(written(tmp_path, jsonl(*rows)))
    assert pairs(trace) == [(0.0, 600, 1), (0.002, 600, 3), (0.004, 600, 2), (0.004, 600, 4)]
    assert [row.hash_ids for row in trace.rows()] == [(1, 1), (3, 3), (2, 2), (4, 4)]
    assert fact("trace_unordered", rows=1) in trace.found


def test_ids_are_a_chain_of_blocks_of_the_length_told() -> None:
    trace = read_trace(DATA / "mooncake-conversation.jsonl")
    assert trace.row(3) == TraceRow(0.0, 2290, 316, (0, 42, 43, 44, 45), 512, None)
    assert all(-(-row.input_tokens // 512) == len(row.hash_ids or ()) for row in trace.rows())


def test_a_session_of_qwen_begins_with_its_root() -> None:
    """A parent that is not in the file counts as the root; a follow-up need not extend the ids of the turn before."""
    assert [row.session for row in read_trace(DATA / "qwen.jsonl").rows()] == [0, 1, 0, 0, 1]


def test_parts_of_a_prompt_are_no_blocks() -> None:
    rag, shared = read_trace(DATA / "ragpulse.jsonl"), read_trace(DATA / "shared-prefix.jsonl")
    assert rag.found[-1] == fact("trace_parts", form="ragpulse")
    assert shared.found[-1] == fact("trace_parts", form="shared_prefix")
    assert pairs(shared) == [(0.0, 612, 20), (1.5, 600, 31)]


def test_images_are_said() -> None:
    assert read_trace(DATA / "azure-images.csv").found[-1] == fact("trace_images", rows=1)


def test_gzip_is_read_and_a_damaged_one_refused(tmp_path: Path) -> None:
    packed = gzip.compress((DATA / "azure-2023-conv.csv").read_bytes())
    told: list[float] = []
    assert pairs(read_trace(written(tmp_path, packed), progress=told.append)) == pairs(read_trace(DATA / "azure-2023-conv.csv"))
    assert told[-1] == 1.0
    with pytest.raises(UserError, match="damaged or cut off"):
        read_trace(written(tmp_path, packed[:-12]))


MS = {"timestamp": 0, "input_length": 100, "output_length": 5}


@pytest.mark.parametrize(
    ("row", "unit", "form", "block_tokens"),
    [
        (MS | {"type": "mooncake_trace"}, None, "mooncake", None),
        (MS | {"hash_ids": [1]}, None, "mooncake", 512),
        (MS, "s", "plain", None),
        (MS, "ms", "plain", None),
        (MS | {"hash_ids": [1, 2, 3, 4, 5, 6, 7]}, "s", "plain", 16),
        (MS | {"hash_ids": [1, 2, 3]}, "s", "plain", None),
        (MS | {"chat_id": 1, "parent_chat_id": -1}, None, "qwen", None),
    ],
)
def test_a_unit_is_told_by_the_form_or_by_the_user_and_never_guessed(
    row: dict[str, object], unit: TimeUnit | None, form: str, block_tokens: int | None, tmp_path: Path
) -> None:
    path = written(tmp_path, jsonl(row, row | {"timestamp": 1500}))
    trace = read_trace(path, unit)
    assert (trace.format, trace.chains and trace.chains.block_tokens) == (form, block_tokens)
    assert trace.span_s == (1.5 if trace.unit == "ms" else 1500.0)
    if unit is not None:
        with pytest.raises(UserError, match="--trace-unit s, ms, us, ns or date"):
            read_trace(path)


def test_dates_are_no_seconds(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="are dates, not s"):
        read_trace(DATA / "azure-2023-conv.csv", "s")
    iso = [MS | {"timestamp": f"2024-05-12T00:00:0{n}Z"} for n in (1, 3)]
    assert read_trace(written(tmp_path, jsonl(*iso)), "date").span_s == 2.0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("a,b\n1,2\n", "no columns that are known"),
        ("ContextTokens,GeneratedTokens\n1,2\n", "give it to --lengths"),
        ('{"input_length": 5, "output_length": 5}\n', "give it to --lengths"),
        ('{"timestamp": 5, "text_input": "x", "output_length": 5}\n', "give it to --dataset"),
        ('{"timestamp": 5, "messages": []}\n', "give it to --dataset"),
        ('{"id": 1, "requests": [{"t": 0, "in": 5, "out": 5}]}\n', "nests its requests"),
        ('{"spam": 5}\n', "no lengths under a name that is known"),
        ("{broken\n", "no lengths under a name that is known"),
        ('[{"timestamp": 5, "type": "text"}]', "is a JSON array"),
        ('[{"id": "a", "conversations": [{"from": "human"', "give it to --dataset"),
        ("0,1.33,8.6,Weibull,0.375,0.397\r\n600,0,0,,0,0\r\n", "ServeGen"),
        (f"{AZURE}\n", "no row of .* is a request"),
        (f"{AZURE}\n2024-05-12 00:00:00,0,5\n", "no row of .* is a request"),
        (f"{AZURE}\n2024-05-12 00:00:00,0,5\nx,1,1\n", r"1 of the 1 row drawn cannot be used, no row is left \(line 3\)"),
        ("version https://git-lfs.github.com/spec/v1\n", "Git LFS"),
    ],
)
def test_what_is_no_trace_is_refused_with_what_to_do(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=said) as refused:
        read_trace(written(tmp_path, text))
    assert str(refused.value).startswith("--trace: ")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("2024-05-12 00:00:01,5", fact("row_columns", columns=2, expected=3)),
        ("2024-05-12 00:00:01,5,5,5", fact("row_columns", columns=4, expected=3)),
        ("20240512,5,5", fact("row_time", field="timestamp")),
        ("1.5,5,5", fact("row_time", field="timestamp")),
        ("2024-05-12,5,5", fact("row_time", field="timestamp")),
        (",5,5", fact("row_lacks", field="timestamp")),
        ("2024-05-12 00:00:01,x,5", fact("row_number", field="contexttokens")),
        ("2024-05-12 00:00:01,,5", fact("row_lacks", field="contexttokens")),
        ("2024-05-12 00:00:01,-1,5", fact("row_number", field="contexttokens")),
        ("2024-05-12 00:00:01,nan,5", fact("row_number", field="contexttokens")),
        ("2024-05-12 00:00:01,1e30,5", fact("row_number", field="contexttokens")),
        ("2024-05-12 00:00:01,5,1.5", fact("row_number", field="generatedtokens")),
        ("caf\xe9,5,5", fact("row_time", field="timestamp")),
        ('"2024-05-12 00:00:01,5,5', fact("row_columns", columns=1, expected=3)),
    ],
)
def test_a_broken_row_of_a_table_is_named_with_its_reason(line: str, why: Fact, tmp_path: Path) -> None:
    text = f"{AZURE}\n2024-05-12 00:00:00,5,5\n\n{line}\n2024-05-12 00:00:02,5,5\n"
    trace = read_trace(written(tmp_path, text.encode("latin-1")))
    assert trace.bad.examples == (fact("row_bad", why, at=4, unit="line"),)
    assert len(trace) == 2
    assert prose.text(why) != why.code


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", fact("row_not_json")),
        ("7", fact("row_kind", field="row")),
        ('{"timestamp": 1, "output_length": 5}', fact("row_lacks", field="input_length")),
        ('{"timestamp": 1, "input_length": true, "output_length": 5}', fact("row_number", field="input_length")),
        ('{"input_length": 5, "output_length": 5, "delay": 3}', fact("row_lacks", field="timestamp")),
        ('{"timestamp": "soon", "input_length": 5, "output_length": 5}', fact("row_time", field="timestamp")),
        ('{"timestamp": 1e300, "input_length": 5, "output_length": 5}', fact("row_time", field="timestamp")),
        ('{"timestamp": [1], "input_length": 5, "output_length": 5}', fact("row_time", field="timestamp")),
        ('{"timestamp": 1, "input_length": 5, "output_length": 5, "hash_ids": [1, 2]}', None),
        ('{"timestamp": 1, "input_length": 5, "output_length": 5, "hash_ids": {"a": 1}}', fact("row_kind", field="hash_ids")),
        ('{"timestamp": 1, "input_length": 5, "output_length": 5, "hash_ids": ["a"]}', fact("row_kind", field="hash_ids")),
        ('{"timestamp": 1, "input_length": 600, "output_length": 5, "hash_ids": [1, 1e99]}', fact("row_kind", field="hash_ids")),
    ],
)
def test_a_broken_row_of_jsonl_is_named_with_its_reason(line: str, why: Fact | None, tmp_path: Path) -> None:
    good = [MS | {"timestamp": n, "hash_ids": [n]} for n in range(30)]
    trace = read_trace(written(tmp_path, jsonl(*good) + line + "\n" + jsonl(MS | {"timestamp": 99})))
    expected = why or fact("row_blocks", ids=2, input_tokens=5, block_tokens=512)
    assert trace.bad.examples == (fact("row_bad", expected, at=31, unit="line"),)
    assert [row.hash_ids for row in trace.rows()][-2:] == [(29,), ()]


def test_a_file_without_one_good_row_is_given_up(tmp_path: Path) -> None:
    path = written(tmp_path, f"{AZURE}\n" + "x,1,1\n" * 20_000)
    with pytest.raises(UserError, match="10,001 of the 10,001 rows drawn cannot be used, no row is left"):
        read_trace(path)


@given(
    st.datetimes(datetime(1990, 1, 1), datetime(2100, 1, 1)), st.integers(0, 9), st.sampled_from(["", "Z", "+00:00"]), st.booleans()
)
def test_a_date_with_any_fraction_and_zone(moment: datetime, digits: int, zone: str, blank: bool) -> None:
    fraction = f"{moment.microsecond:06d}000"[:digits]
    text = f"{moment:%Y-%m-%d}{' ' if blank else 'T'}{moment:%H:%M:%S}{'.' if digits else ''}{fraction}{zone}"
    told = moment.replace(microsecond=int(fraction.ljust(6, "0")[:6]), tzinfo=UTC)
    assert date_s(text) == (told - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(seconds=1)


@given(st.one_of(st.text(max_size=12), st.integers(), st.floats(), st.booleans(), st.none(), st.lists(st.integers())))
def test_any_value_is_a_number_or_none(value: object) -> None:
    tokens, found = whole(value), number(value)
    assert tokens is None or (tokens >= 0 and found == tokens)
    assert found is None or np.isfinite(found)
    assert date_s(value) is None or isinstance(value, str)


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 99), st.integers(0, 99)), min_size=1, max_size=30))
def test_any_table_comes_back_as_written(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, int, int]]) -> None:
    text = f"{BURST}\n" + "".join(f"{t}.0,m,{i},{o},{i + o},log\n" for t, i, o in rows)
    path = written(tmp_path_factory.mktemp("table"), text)
    good = sorted(((t, i, o) for t, i, o in rows if i and o), key=lambda row: row[0])
    if not good:
        with pytest.raises(UserError):
            read_trace(path)
        return
    trace = read_trace(path)
    assert pairs(trace) == [(t - good[0][0], i, o) for t, i, o in good]
    assert len(trace.failed) == len(rows) - len(good)

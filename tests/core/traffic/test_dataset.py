"""A dataset is recognised by its content, drawn by a seed of its own, and refused when too much of it is broken."""

import json
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from numpy.random import SeedSequence

from core import prose
from core.errors import UserError
from core.facts import Fact, fact, says
from core.traffic import BadRows, Prompt, Row, draw, look_at, open_dataset, row_of
from core.traffic import dataset as datasets
from core.traffic.index import index_array, index_lines
from tests.core.traffic.files import DATA, SEED, jsonl, written

GOOD = {"prompt": "P", "output_tokens": 8}


def texts(rows: tuple[Row, ...]) -> list[str | None]:
    return [row.text for row in rows if isinstance(row, Prompt)]


@pytest.mark.parametrize(
    ("name", "form", "rows", "unit"),
    [
        ("sharegpt.json", "sharegpt", 11, "entry"),
        ("sharegpt-90k.jsonl", "sharegpt", 2, "line"),
        ("chat.jsonl", "openai_chat", 4, "line"),
        ("batch.jsonl", "openai_batch", 3, "line"),
        ("custom.jsonl", "prompts", 3, "line"),
        ("guidellm.jsonl", "prompts", 3, "line"),
        ("aiperf.jsonl", "prompts", 3, "line"),
        ("lines.txt", "lines", 4, "line"),
    ],
)
def test_a_form_is_known_by_its_content(name: str, form: str, rows: int, unit: str) -> None:
    assert open_dataset(DATA / name).found == fact("dataset_found", file=name, form=form, rows=rows, unit=unit)


def test_plain_lines_are_prompts_and_blank_ones_are_none() -> None:
    drawn = draw(open_dataset(DATA / "lines.txt"), 3, SEED)
    assert sorted(filter(None, texts(drawn.rows))) == ['"Quoted" is the third', "A second one", "[INST] A first prompt [/INST]"]
    assert drawn.bad == ()


def test_a_bom_blank_lines_and_crlf_are_no_rows() -> None:
    drawn = draw(open_dataset(DATA / "chat.jsonl"), 3, SEED)
    assert (len(drawn.rows), drawn.bad, drawn.said) == (3, (), ())


def test_an_array_of_texts_and_lines_of_json_texts(tmp_path: Path) -> None:
    array, lines = written(tmp_path, '["a", "b"]', "a"), written(tmp_path, '"a"\n"b"\n', "b")
    for path in (array, lines):
        assert sorted(filter(None, texts(draw(open_dataset(path), 2, SEED).rows))) == ["a", "b"]


def test_the_form_is_told_by_the_first_row_that_has_one(tmp_path: Path) -> None:
    assert open_dataset(written(tmp_path, "{broken\n{}\n" + jsonl(GOOD))).form == "prompts"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b" \n\n", "is empty"),
        (b"PAR1....", "is Parquet; write it out as JSONL"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0", "pointer of Git LFS"),
        (b"\x1f\x8b\x08", "unpack it first"),
        (b"PK\x03\x04", "zip"),
        ('{"prompt": "P"}'.encode("utf-16"), "save it as UTF-8"),
        (b"a\0b", "is not text"),
        (b"<!DOCTYPE html><html>", "is a web page"),
        (b'{\n "data": []\n}', "one JSON object over many lines"),
        (b'{"a": 1}\n{"a": 2}\n', "none of the first 2 rows"),
        (b"{broken\n", "none of the first 1 rows"),
        (b"[]", "none of the first"),
        (b"[[1024, 128]]", "none of the first"),
        (b"prompt,output_tokens\nP,8\n", "is CSV"),
        (b"TIMESTAMP,ContextTokens,GeneratedTokens\r\n", "no text but a trace"),
        (b'{"timestamp": 0, "input_length": 5, "output_length": 5}\n', "no text but a trace .*give it to --trace or --lengths"),
        (b'{"input_length": 5, "output_length": 5}\n', "no text but lengths .*give it to --lengths"),
        (b"input_tokens,output_tokens\n5,5\n", "no text but lengths .*give it to --lengths"),
        (b'[{"prompt": "P"}, {"prompt": "Q"', "cut off"),
    ],
)
def test_what_is_no_dataset_is_refused_with_what_to_do(content: bytes, said: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=said) as refused:
        open_dataset(written(tmp_path, content))
    assert str(refused.value).startswith("--dataset: ")
    assert str(refused.value).endswith(".")


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, said in ((tmp_path / "none", "No such file"), (tmp_path, "is not a file"), (tmp_path / "pipe", "is not a file")):
        with pytest.raises(UserError, match=said):
            open_dataset(path)


def test_the_order_is_the_seeds_alone(tmp_path: Path) -> None:
    data = open_dataset(written(tmp_path, jsonl(*({"prompt": str(n)} for n in range(100)))))
    ten = draw(data, 10, SeedSequence(1))
    assert draw(data, 10, SeedSequence(1)) == ten
    assert draw(data, 20, SeedSequence(1)).rows[:10] == ten.rows
    assert draw(data, 10, SeedSequence(2)).rows != ten.rows
    assert texts(ten.rows) != [str(n) for n in range(10)]


def test_repeats_share_no_row_until_the_file_is_over(tmp_path: Path) -> None:
    data = open_dataset(written(tmp_path, jsonl(*({"prompt": str(n)} for n in range(100)))))
    first = draw(data, 60, SEED)
    second = draw(data, 60, SEED, first.next)
    assert Counter(texts(first.rows + second.rows[:40])) == Counter(str(n) for n in range(100))
    assert first.said == ()
    assert second.said == (fact("rows_again", rows=100, unit="line", drawn=120),)


def test_a_file_of_many_rows_is_drawn_without_a_permutation_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "_PERMUTED", 10)
    data = open_dataset(written(tmp_path, jsonl(*({"prompt": str(n)} for n in range(100)))))
    drawn = draw(data, 200, SEED)
    assert Counter(texts(drawn.rows)[:100]) == Counter(str(n) for n in range(100)) == Counter(texts(drawn.rows)[100:])


def broken(tmp_path: Path, bad: int, rows: int) -> Path:
    return written(tmp_path, jsonl(*({"prompt": ""} if n < bad else GOOD for n in range(rows))))


def test_one_bad_row_in_a_hundred_is_left_out_and_named(tmp_path: Path) -> None:
    drawn = draw(open_dataset(broken(tmp_path, 1, 100)), 99, SEED)
    found = fact("row_bad", fact("row_empty", field="prompt"), at=1, unit="line")
    if not drawn.bad:  # the bad row is the last of the order
        drawn = draw(open_dataset(broken(tmp_path, 1, 100)), 100, SEED)
    assert drawn.bad == (found,)
    assert drawn.said[0] == fact("rows_bad", found, bad=1, drawn=len(drawn.rows) + 1)


def test_more_than_one_in_a_hundred_is_refused_with_lines_and_reasons(tmp_path: Path) -> None:
    data = open_dataset(broken(tmp_path, 10, 100))
    with pytest.raises(
        BadRows, match=r"^--dataset: file: \d of the \d+ rows drawn cannot be used, more than 1 % .*\(line \d+"
    ) as refused:
        draw(data, 90, SEED)
    assert refused.value.found.code == "rows_refused"
    assert says(refused.value.found, "row_empty")
    assert "prompt is empty" in prose.sentence(refused.value.found)


def test_bad_rows_that_a_run_does_not_draw_are_no_matter(tmp_path: Path) -> None:
    path = broken(tmp_path, 50, 10_000)
    assert len(draw(open_dataset(path), 20, SEED).rows) == 20


@pytest.mark.parametrize("content", ['{"prompt": ""}\n' * 3, '{"prompt": "P"}\n' + "{\n" * 200])
def test_none_or_hardly_any_good_is_refused(content: str, tmp_path: Path) -> None:
    data = open_dataset(written(tmp_path, content))
    with pytest.raises(BadRows):
        draw(data, 5, SEED)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b'{"prompt": "P"', fact("row_not_json")),
        (b'{"prompt": "\xff"}', fact("row_not_utf8")),
        (b"[" * 5000, fact("row_not_json")),
        (b'{"prompt": "\\ud83d"}', fact("row_not_json")),
        (b"7", fact("row_kind", field="row")),
    ],
)
def test_a_broken_line_is_named_with_its_reason(line: bytes, why: Fact, tmp_path: Path) -> None:
    path = written(tmp_path, jsonl(GOOD).encode() * 250 + line + b"\n" + jsonl(GOOD).encode() * 250)
    assert draw(open_dataset(path), 500, SEED).bad == (fact("row_bad", why, at=251, unit="line"),)


def test_a_batch_with_two_kinds_of_request_is_refused(tmp_path: Path) -> None:
    def row(url: str, body: dict[str, object]) -> dict[str, object]:
        return {"custom_id": url, "method": "POST", "url": url, "body": body}

    chat = row("/v1/chat/completions", {"messages": [{"role": "user", "content": "Q"}]})
    path = written(tmp_path, jsonl(chat, row("/v1/completions", {"prompt": "P"})))
    with pytest.raises(UserError, match="chat and completions in one file"):
        draw(open_dataset(path), 2, SEED)


def test_a_file_that_changes_is_not_drawn_from(tmp_path: Path) -> None:
    path = written(tmp_path, jsonl(GOOD))
    data = open_dataset(path)
    written(tmp_path, jsonl(GOOD, GOOD))
    with pytest.raises(UserError, match="has changed"):
        draw(data, 1, SEED)


def test_a_file_that_changes_after_its_rows_were_drawn_has_no_places(tmp_path: Path) -> None:
    path = written(tmp_path, "one\ntwo\n")
    data = open_dataset(path)
    rows = draw(data, 2, SEED).rows
    path.write_text("ten\ntwo and more\n")
    with pytest.raises(UserError, match="has changed since it was looked at"):
        data.spans(rows)
    path.unlink()
    with pytest.raises(UserError, match="cannot be read"):
        data.spans(rows)


def test_nothing_that_is_said_or_kept_holds_a_text(tmp_path: Path) -> None:
    rows = [{"prompt": "secret", "output_tokens": "secret" if n == 7 else 8} for n in range(200)]
    data = open_dataset(written(tmp_path, json.dumps(rows)))
    drawn = draw(data, 199, SEED)
    assert "secret" not in repr(data) + repr(drawn) + "".join(map(prose.sentence, (data.found, *drawn.said, *drawn.bad)))


FILES = (
    "sharegpt.json",
    "sharegpt-90k.jsonl",
    "chat.jsonl",
    "batch.jsonl",
    "custom.jsonl",
    "guidellm.jsonl",
    "aiperf.jsonl",
    "lines.txt",
)


@pytest.mark.parametrize("name", FILES)
def test_a_row_is_found_again_by_its_bytes_alone(name: str) -> None:
    data = open_dataset(DATA / name)
    rows = [row for row in draw_what_is_good(name) if row is not None]
    whole = (DATA / name).read_bytes()
    again = [row_of(whole[begin : begin + size], data.form) for begin, size, _ in data.spans(rows)]
    assert rows
    assert [None if row is None else replace(row, at=0) for row in again] == [replace(row, at=0) for row in rows]


def draw_what_is_good(name: str) -> list[Row | None]:
    """The rows of a small file that can be used, whatever else is in it."""
    data = open_dataset(DATA / name)
    with (DATA / name).open("rb") as file:
        found = [data.index.read(file, at) for at in range(data.index.rows)]
    rows = [row_of(each, data.form) if each else None for each in found]
    return [None if row is None else replace(row, at=at + 1) for at, row in enumerate(rows)]


@pytest.mark.parametrize("most", [1, 3, 1000])
def test_bytes_are_found_where_few_offsets_are_kept(tmp_path: Path, most: int) -> None:
    lines = b"".join(b"  row %d \n" % n for n in range(20))
    entries = b"[" + b", ".join(b'{"prompt": "row %d"}' % n for n in range(20)) + b" ]"
    with written(tmp_path, lines).open("rb") as file:
        index = index_lines(file, 0, len(lines), lambda share: None, most)
        assert [index.found(file, n) for n in range(20)] == [(lines.index(b"row %d " % n), b"row %d" % n) for n in range(20)]
    with written(tmp_path, entries).open("rb") as file:
        index = index_array(file, 0, len(entries), lambda share: None, "file", most)
        for n in range(20):
            found = index.found(file, n)
            assert found == (entries.index(b'{"prompt": "row %d"}' % n), b'{"prompt": "row %d"}' % n)


def test_without_again_no_row_comes_twice(tmp_path: Path) -> None:
    data = open_dataset(written(tmp_path, "a\n\nb\n"))
    drawn = draw(data, 2000, SEED, again=False)
    assert (sorted(str(text) for text in texts(drawn.rows)), drawn.said) == (["a", "b"], ())


def test_what_can_be_no_dataset_is_seen_by_its_beginning(tmp_path: Path) -> None:
    look_at(written(tmp_path, jsonl(GOOD)))
    for text in ("", '{\n  "prompt": 1\n}', "arrived_at,num_prefill_tokens,num_decode_tokens\n0,1,2\n"):
        with pytest.raises(UserError, match="--dataset"):
            look_at(written(tmp_path, text))


def test_pieces_of_sharegpt_are_left_out_and_are_not_broken_rows(tmp_path: Path) -> None:
    """A third of the rows begins with an answer, as after splitting; one that is of another kind is broken all the same."""
    asks, answers = {"from": "human", "value": "Q"}, {"from": "gpt", "value": "A"}
    rows = [{"conversations": [asks, answers]}, {"conversations": [answers, asks]}, {"conversations": [asks, answers]}] * 100
    drawn = draw(open_dataset(written(tmp_path, json.dumps(rows))), 2000, SEED, again=False)
    assert (len(drawn.rows), drawn.bad) == (200, ())
    assert drawn.said == (fact("rows_pieces", rows=100, drawn=300),)

    with pytest.raises(BadRows):
        draw(open_dataset(written(tmp_path, json.dumps([*rows, *[{"conversations": 3}] * 9]))), 2000, SEED, again=False)
    with pytest.raises(BadRows) as refused:
        draw(open_dataset(written(tmp_path, json.dumps(rows[1:2]))), 2000, SEED)
    assert says(refused.value.found, "row_begins_with_answer")


def test_broken_rows_are_named_from_the_beginning_of_the_file() -> None:
    bad = tuple(fact("row_bad", fact("row_not_json"), at=at, unit="line") for at in (281, 61, 121))
    refused = BadRows("--dataset", "a.jsonl", bad, 300, 297)
    assert [each.figures["at"] for each in refused.bad] == [61, 121, 281]
    assert "(line 61, line 121, line 281)" in str(refused)

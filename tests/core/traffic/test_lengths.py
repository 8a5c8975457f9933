"""Pairs of lengths from files stay together, and of too many some are drawn by a seed of their own."""

from pathlib import Path

import pytest

from core.errors import UserError
from core.facts import fact
from core.traffic import BadRows, LengthsFile, mix_of, read_lengths
from core.traffic.lengths import MOST_PAIRS
from core.workloads import Source, parse_mix
from tests.core.traffic.files import DATA, jsonl, written


def pairs(file: LengthsFile) -> list[tuple[int, int]]:
    return list(zip(file.input_tokens.tolist(), file.output_tokens.tolist(), strict=True))


@pytest.mark.parametrize(
    "text",
    [
        "1024,128\n4096,64\n",
        "1024:128\r\n\r\n4096:64",
        "1024 128\n4096\t64\n",
        "\ufeffinput_tokens,id,output_tokens\n1024,a,128\n4096,b,64\n",
        "num_prefill_tokens,num_decode_tokens\n1024,128.0\n4096,64\n",
        jsonl({"input_length": 1024, "output_length": 128}, {"input_length": 4096, "output_length": 64, "extra": 1}),
        jsonl({"prompt_tokens": 1024, "completion_tokens": 128}, {"prompt_tokens": 4096, "completion_tokens": 64}),
        "TIMESTAMP,ContextTokens,GeneratedTokens\nany,1024,128\ntime,4096,64\n",
    ],
)
def test_pairs_in_every_form(text: str, tmp_path: Path) -> None:
    file = read_lengths(written(tmp_path, text))
    assert pairs(file) == [(1024, 128), (4096, 64)]
    assert file.found == (fact("lengths_found", file="file", rows=2, input_tokens=2560.0, output_tokens=96.0),)


@pytest.mark.parametrize("row", ['"' + "9" * 200_000 + '",3', '"1\r2",3', '1\r"2",3'])
def test_a_row_that_no_reader_of_csv_takes_is_a_bad_row(row: str, tmp_path: Path) -> None:
    file = read_lengths(written(tmp_path, "input_tokens,output_tokens\n" + "8,9\n" * 200 + row + "\n"))
    assert (len(file), [each.figures["at"] for each in file.bad.examples]) == (200, [202])


def test_a_trace_lends_its_lengths() -> None:
    file = read_lengths(DATA / "burstgpt-1.csv")
    assert (len(file), pairs(file)[0], len(file.failed)) == (40, (472, 18), 4)
    assert file.found[1] == fact("trace_failed", rows=4, rows_frac=4 / 44)
    assert pairs(read_lengths(DATA / "shared-prefix.jsonl"))[0] == (612, 20)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("length\n5\n", "no columns that are known"),
        ('{"prompt": "P"}\n', "give it to --dataset"),
        ('{"spam": 1}\n', "no lengths under a name that is known"),
        ("1024,128\n" + "x,y\n" * 2, "2 of the 3 rows drawn cannot be used"),
        ("1024,128,5\n", "no columns that are known"),
        ("0,5\n", "0 of the 0 rows drawn cannot be used, no row is left"),
    ],
)
def test_what_is_no_file_of_lengths_is_refused(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=said) as refused:
        read_lengths(written(tmp_path, text))
    assert str(refused.value).startswith("--lengths: ")


def test_bad_rows_are_named_by_line_with_their_reason(tmp_path: Path) -> None:
    path = written(tmp_path, "1,1\n" * 10 + "\n1;x\n5\n1,-1\n")
    with pytest.raises(BadRows, match="line 12, line 13, line 14") as refused:
        read_lengths(path)
    assert [why for row in refused.value.bad for why in row.of] == [
        fact("row_number", field="output"),
        fact("row_columns", columns=1, expected=2),
        fact("row_number", field="output"),
    ]


def test_the_pairs_of_a_file_are_the_kinds_of_a_mix(tmp_path: Path) -> None:
    mix, source, said = mix_of(read_lengths(written(tmp_path, "1024,128\n4096,64\n1024,128\n0,7\n")), 11)
    assert mix == parse_mix("1024:128=2,4096:64=1")
    assert source == Source(kind="lengths", file="file", form="plain", rows=3, of_rows=3)
    assert [each.code for each in said] == ["lengths_found", "trace_failed"]


def test_of_too_many_pairs_some_are_drawn_by_the_seed(tmp_path: Path) -> None:
    text = "".join(f"{1 + n},{1 + n % 7}\n" for n in range(6000)) + "1,1\n" * 3000 + "x,y\n" * 9
    file = read_lengths(written(tmp_path, text))
    mix, source, said = mix_of(file, 11)
    assert sum(part.weight for part in mix) == MOST_PAIRS
    assert (source.rows, source.of_rows, source.bad) == (MOST_PAIRS, 9000, 9)
    assert said[-1] == fact("lengths_sampled", rows=MOST_PAIRS, of_rows=9000)
    often = next(part.weight for part in mix if (part.input_tokens, part.output_tokens) == (1, 1))
    assert often == pytest.approx(MOST_PAIRS / 3, rel=0.1), "as often as it stands there"
    assert mix_of(file, 11)[0] == mix
    assert mix_of(file, 12)[0] != mix

"""Options that say which requests come: a mix, a file of lengths, lengths that go together; and that only one of them does."""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from core.config import Lengths, Slo
from core.errors import UserError
from core.facts import Fact, fact
from core.traffic import LengthsFile, read_lengths
from core.workloads import Source, parse_mix
from tests.core.traffic.traces import blocks_file, even, trace_file
from tui.cli import argv, requests
from tui.cli import probe as command
from tui.cli.commands import cli
from tui.connect.fields import Wrong, placeholders, read, sketch
from tui.connect.forecast import forecast

URL = "http://127.0.0.1:8000"
TWO = "lognormal:512,0.5,4096"


def probe(*options: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(cli, ["probe", URL, *options])
    return result.exit_code, result.stdout, result.stderr


def written(tmp_path: Path, text: str) -> str:
    file = tmp_path / "pairs.csv"
    file.write_text(text)
    return str(file)


def test_a_mix_arrives_with_the_limits_of_its_kinds(jobs: list[command.Job]) -> None:
    assert probe("--mix", "1024:128=3,4096:64=1@ttft=2s") == (0, "", "")
    config = jobs[0].config
    assert config.workload.mix == parse_mix("1024:128=3,4096:64=1@ttft=2s")
    assert config.workload.source == Source(kind="mix", rows=2)
    assert config.limits.of(4096, 64) == Slo(ttft_s=2.0, tpot_s=0.05, default=True)
    assert config.workload.longest_request == 4160
    assert requests.checks_of(jobs[0].options, 11) == ()


def test_a_file_of_lengths_becomes_a_mix_and_says_what_it_held(jobs: list[command.Job], tmp_path: Path) -> None:
    assert probe("--lengths", written(tmp_path, "1024,128\n4096,64\n1024,128\n")) == (0, "", "")
    job = jobs[0]
    assert job.config.workload.mix == parse_mix("1024:128=2,4096:64")
    assert job.config.workload.source == Source(kind="lengths", file="pairs.csv", form="plain", rows=3, of_rows=3)
    (check,) = requests.checks_of(job.options, 11)
    assert (check.check, check.status) == ("lengths file", "pass")
    assert check.message == fact("lengths_found", file="pairs.csv", rows=3, input_tokens=2048.0, output_tokens=320 / 3)


def test_a_few_bad_rows_are_a_warning_before_the_load(tmp_path: Path) -> None:
    options = argv.options(["--lengths", written(tmp_path, "8,8\n" * 200 + "x,y\n")])
    (check,) = requests.checks_of(options, 11)
    assert check.status == "warn"
    assert isinstance(check.message, Fact)
    assert [each.code for each in check.message.of if isinstance(each, Fact)] == ["lengths_found", "rows_bad"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("8,8\n" * 50 + "x,y\n", "--lengths: pairs.csv: 1 of the 51 rows drawn cannot be used, more than 1 % is not allowed"),
        ("0,8\n", "no row is left"),
        ("spam\n", "has no columns that are known"),
        (None, "--lengths: /no/such/file cannot be read"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_before_anything_is_sent(
    jobs: list[command.Job], tmp_path: Path, text: str | None, said: str
) -> None:
    code, out, err = probe("--lengths", "/no/such/file" if text is None else written(tmp_path, text))
    assert (code, out, jobs) == (2, "", [])
    assert said in err
    assert "Traceback" not in err


@pytest.mark.parametrize("option", ["--lengths", "--trace", "--dataset"])
@pytest.mark.parametrize("path", ["~nobody_of_that_name/x", "a\0b", " ", ""])
def test_a_path_that_no_file_has_is_refused_in_a_sentence(option: str, path: str) -> None:
    code, out, err = probe(option, path)
    assert (code, out) == (2, "")
    assert option in err
    assert "Traceback" not in err


def test_a_dataset_in_the_folder_of_the_user_is_found(
    jobs: list[command.Job], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "rows.txt").write_text("one\n")
    assert probe("--dataset", "~/rows.txt") == (0, "", "")
    assert command.dataset_of(jobs[0].options) == tmp_path / "rows.txt"


def test_a_file_is_read_again_only_when_it_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[Path] = []

    def counted(path: Path) -> LengthsFile:
        reads.append(path)
        return read_lengths(path)

    monkeypatch.setattr("core.traffic.read_lengths", counted)
    file = written(tmp_path, "8,8\n")
    for _ in range(3):
        assert sketch({"more": f"--lengths {file}"}) is not None
    assert len(reads) == 1
    Path(file).write_text("9,9\n")
    os.utime(file, (1, 1))
    found = sketch({"more": f"--lengths {file}"})
    assert found is not None
    assert found.workload.mix == parse_mix("9:9")
    assert len(reads) == 2


@pytest.mark.parametrize("option", ["--lengths", "--trace"])
def test_a_run_of_a_file_that_has_changed_since_it_was_asked_for_is_refused(
    jobs: list[command.Job], tmp_path: Path, option: str
) -> None:
    head = "arrived_at,num_prefill_tokens,num_decode_tokens\n"
    file = written(tmp_path, head + "".join(f"{n},8,8\n" for n in range(200)))
    assert probe(option, file) == (0, "", "")
    requests.refuse_changed(jobs[0].options, jobs[0].config)
    Path(file).write_text(head + "".join(f"{n},9,8\n" for n in range(400)))
    with pytest.raises(UserError, match=r"pairs\.csv has changed since the run was asked for"):
        requests.refuse_changed(jobs[0].options, jobs[0].config)


def test_the_seed_of_requests_draws_the_sample(tmp_path: Path) -> None:
    file = written(tmp_path, "".join(f"{n},{n % 9 + 1}\n" for n in range(1, 6001)))

    def mix(*options: str) -> object:
        found = sketch({"more": " ".join(["--lengths", file, *options])})
        assert found is not None
        return found.workload.mix

    assert mix() == mix("--arrival-seed 5") == mix("--seed 12 --workload-seed 11")
    assert mix() != mix("--workload-seed 12")


def test_a_prefix_is_held_against_the_lengths_that_are_sent(jobs: list[command.Job], tmp_path: Path) -> None:
    """Not against those of a run without a file; and of a file the shortest rows share what they can."""
    pairs, trace = written(tmp_path, "40,128\n4096,64\n"), tmp_path / "trace.csv"
    trace.write_text("timestamp,input_length,output_length\n0,40,9\n1,4096,9\n2,4096,9\n")
    assert probe("--prefix", "shared:1024/4", "--lengths", pairs) == (0, "", "")
    assert probe("--prefix", "shared:1024/4", "--trace", str(trace), "--trace-unit", "s") == (0, "", "")
    assert [job.config.workload.prefix.tokens for job in jobs] == [1024, 1024]
    assert "nothing is unique in the longest prompt of 4,096" in probe("--prefix", "shared:4096/4", "--lengths", pairs)[2]


def test_lengths_that_go_together(jobs: list[command.Job]) -> None:
    assert probe("--input-tokens", TWO, "--output-tokens", TWO, "--length-correlation", "-0.4") == (0, "", "")
    assert jobs[0].config.workload.length_correlation == -0.4


TWICE = [
    (["--mix", "8:8", "--lengths", "a.csv"], "--mix says how long each request is, and so does --lengths"),
    (["--mix", "8:8", "--input-tokens", "9"], "--mix says how long each request is, and so does --input-tokens"),
    (["--lengths", "a.csv", "--output-tokens", "9"], "--lengths says how long each request is, and so does --output-tokens"),
    (["--mix", "8:8", "--length-correlation", "0.5"], "and so does --length-correlation"),
]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        *TWICE,
        (["--length-correlation", "0.5"], "--length-correlation needs two lognormal lengths"),
        (["--length-correlation", "0.5", "--input-tokens", TWO], "a fixed length follows nothing"),
        (["--length-correlation", "1.5"], "--length-correlation: '1.5' is not a correlation"),
        (["--length-correlation", "nan"], "--length-correlation: 'nan' is not a correlation"),
        (["--mix", "8:8@ttft=1s,8:8"], "the same lengths and different limits"),
        (["--mix", "8:8@ttft=none@tpot=none"], "is left without a limit"),
        (["--mix", "8"], "--mix: '8' is no kind of request"),
        (["--lengths", ""], "--lengths: the name is empty"),
    ],
)
def test_what_cannot_be_is_refused_by_name(jobs: list[command.Job], options: list[str], said: str) -> None:
    code, out, err = probe(*options)
    assert (code, out, jobs) == (2, "", [])
    assert said in err


def test_no_source_of_requests_goes_with_another() -> None:
    """Whatever is added to the list."""
    names = [name.replace("_", "-") for name in requests.SOURCES]
    assert set(names) <= set(argv.OPTIONS)
    for at, one in enumerate(names):
        for other in names[at + 1 :]:
            given = {name: "x" if name in (one, other) else None for name in (*requests.SOURCES, *requests.LENGTHS_OF_ALL)}
            with pytest.raises(UserError, match=f"--{one}.*--{other}"):
                requests.one_source(given)


def test_the_screen_before_the_load_takes_a_mix_in_its_last_field() -> None:
    texts = {"url": URL, "more": "--mix 1024:128=3,4096:64=1"}
    config = read(texts, "", {}).config
    assert "requests of up to 4,160 tokens" in forecast(config).sends
    assert placeholders(config, {})["input-tokens"] == "as the mix says"
    with pytest.raises(Wrong) as wrong:
        read({**texts, "input-tokens": "9"}, "", {})
    assert list(wrong.value.problems) == ["more"]


def test_without_them_lengths_are_as_ever(jobs: list[command.Job]) -> None:
    assert probe() == (0, "", "")
    workload = jobs[0].config.workload
    assert (workload.mix, workload.source, workload.length_correlation) == ((), None, 0.0)
    assert workload.input_tokens == Lengths(median=512)


def test_prompts_that_share_the_blocks_of_a_trace(jobs: list[command.Job], tmp_path: Path) -> None:
    named = blocks_file(tmp_path, even(50), [[1, 2], [1, 3]])
    assert probe("--trace", str(named), "--prefix", "trace") == (0, "", "")
    assert str(jobs[0].config.workload.prefix) == "trace"
    asked = requests.trace_of(jobs[0].options, 11)
    assert asked is not None
    assert asked.asked.shares

    code, _, err = probe("--trace", str(trace_file(tmp_path, even(50))), "--prefix", "trace")
    assert code == 2
    assert "--prefix trace: the rows of t.csv do not name the blocks of their prompts" in err
    assert len(jobs) == 1

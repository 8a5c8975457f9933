"""What the options of probe and demo turn into, and how each refuses nonsense: one sentence, exit code 2, nothing sent."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import get_args

import msgspec
import pytest
from click.testing import CliRunner

from core.access import Access
from core.config import FleetAsk, Lengths, Method, ProbeConfig, Safety, Slo
from core.hardware import Hardware
from core.modes import Named, usual_time
from core.workloads import Prefix, Source
from tests.core.traffic.traces import even, trace_file
from tui.cli import probe as command
from tui.cli.commands import cli
from tui.cli.options import RUN_OPTIONS
from tui.cli.requests import trace_of

URL = "http://127.0.0.1:8000"


def probe(*options: str, url: str = URL) -> tuple[int, str, str]:
    result = CliRunner().invoke(cli, ["probe", url, *options])
    return result.exit_code, result.stdout, result.stderr


def test_defaults(jobs: list[command.Job]) -> None:
    assert probe() == (0, "", "")
    config = jobs[0].config
    assert config.slo == Slo(ttft_s=0.8, tpot_s=0.05, e2e_s=None, target=0.95, max_error_rate=0.01, default=True)
    assert (config.workload.input_tokens, config.workload.output_tokens) == (Lengths(median=512), Lengths(median=128))
    assert config.method == Method(mode="quick", start_rps=None, drain_s=120.0, seed=11)
    assert (config.safety, config.fleet) == (Safety(), FleetAsk(headroom=0.7))
    assert (config.target.api, config.target.model, config.target.metrics_url) == ("completions", None, None)


def test_every_option_arrives(jobs: list[command.Job], tmp_path: Path) -> None:
    (tmp_path / "key").write_text("sk-1\n")
    code, _, err = probe(
        *("--model", "m", "--api", "chat", "--metrics-url", "http://h:9/m", "--api-key-file", str(tmp_path / "key")),
        *("--gpu-metrics-url", "http://h:9400/metrics"),
        *("--ttft", "500ms", "--tpot", "30ms", "--e2e", "10s", "--target", "99%", "--max-error-rate", "0.5%"),
        *("--input-tokens", "64", "--output-tokens", "lognormal:180,0.7,1024"),
        *("--mode", "acceptance", "--start-rps", "0.5", "--max-rps", "40", "--drain", "3m", "--seed", "0"),
        *("--arrival-cv", "2", "--arrival-seed", "5", "--workload-seed", "0", "--stop", "natural"),
        *("--repeats", "12", "--measure", "90s", "--budget", "70m", "--require-rps", "12.5", "--reset-cache"),
        *("--peak-rps", "50", "--load-at-peak", "65%", "--tp", "2", "--pp", "3", "--dp", "4"),
        *("--mean-rps", "20", "--lost", "2", "--rollout", "0", "--growth", "10%", "--scale-out", "4m", "--burstiness", "0.3"),
        *("--cost", "2.5", "--gpu", "h100-sxm", "--gpu-bandwidth", "3000", "--gpu-memory", "79", "--params-b", "7.6"),
        *("--weight-bits", "4", "--eta", "60%", "--kv-bytes-per-token", "131072", "--activations-gb", "3"),
        *(
            "--memory-utilization",
            "0.85",
        ),
        *("--headless", "--json", "-", "--out", "x.jsonl", "--quiet"),
    )
    assert (code, err) == (0, "")
    job = jobs[0]
    target = job.config.target
    assert (target.url, target.model, target.api, target.metrics_url) == (URL, "m", "chat", "http://h:9/m")
    assert job.access.api_key == "sk-1"
    assert target.gpu_metrics_url == "http://h:9400/metrics"
    assert job.config.slo == Slo(ttft_s=0.5, tpot_s=0.03, e2e_s=10, target=0.99, max_error_rate=0.005, default=False)
    assert (job.config.workload.input_tokens, job.config.workload.arrival_cv) == (Lengths(median=64), 2.0)
    assert job.config.workload.output_tokens == Lengths(median=180, sigma=0.7, maximum=1024)
    assert job.config.workload.stop == "natural"
    assert job.config.method == Method(
        mode="acceptance",
        repeats=12,
        measure_s=90,
        budget_s=4200,
        start_rps=0.5,
        require_rps=12.5,
        drain_s=180,
        reset_cache=True,
        seed=0,
        arrival_seed=5,
        workload_seed=0,
    )
    assert job.config.safety == Safety(max_rps=40)
    assert job.config.fleet == FleetAsk(
        peak_rps=50,
        mean_rps=20,
        headroom=0.65,
        tp=2,
        pp=3,
        dp=4,
        lost=2,
        rollout=0,
        growth_per_min=0.1,
        scale_out_s=240,
        burstiness=0.3,
        cost_per_gpu_h=2.5,
        hardware=Hardware(
            gpu="H100 SXM",
            gpu_bandwidth_gbs=3000,
            gpu_memory_gb=79,
            params_b=7.6,
            weight_bits=4,
            eta=0.6,
            kv_bytes_per_token=131072,
            activations_gb=3,
            memory_utilization=0.85,
        ),
    )
    assert [job.options[name] for name in ("headless", "json", "out", "quiet")] == [True, "-", "x.jsonl", True]
    assert job.command.startswith("kneescope probe http://127.0.0.1:8000 --model m ")


@pytest.mark.parametrize(
    ("options", "limits", "default"),
    [
        ([], (0.8, 0.05, None), True),
        (["--ttft", "1s"], (1.0, None, None), False),
        (["--e2e", "2m"], (None, None, 120.0), False),
        (["--tpot", "none"], (0.8, None, None), True),
        (["--ttft", "none", "--e2e", "5s"], (None, None, 5.0), False),
        (["--ttft", "1s", "--tpot", "NONE"], (1.0, None, None), False),
    ],
)
def test_limits(
    jobs: list[command.Job], options: list[str], limits: tuple[float | None, float | None, float | None], default: bool
) -> None:
    assert probe(*options)[0] == 0
    slo = jobs[0].config.slo
    assert (slo.ttft_s, slo.tpot_s, slo.e2e_s) == limits
    assert slo.default is default


NONSENSE = [
    *(
        (name, bad, name)
        for name in ("--ttft", "--tpot", "--e2e", "--drain", "--measure")
        for bad in ("0ms", "-1s", "nan", "inf", "800", "5h", "", "61m", "99999999999999999999s")
    ),
    *(
        (name, bad, name)
        for name in ("--target", "--max-error-rate", "--load-at-peak", "--headroom")
        for bad in ("101%", "-1%", "nan", "inf", "95", "x")
    ),
    *(("--target", bad, "--target") for bad in ("0", "0%", "99.991%", "99.9999999999999%")),
    ("--max-error-rate", "100%", "--max-error-rate"),
    *((name, bad, "--load-at-peak") for name in ("--load-at-peak", "--headroom") for bad in ("0", "1e-300")),
    *((name, bad, name) for name in ("--start-rps", "--max-rps") for bad in ("1e-300", "0.0009", "10001", "1e300")),
    ("--peak-rps", "1e300", "--peak-rps"),
    *(
        (name, bad, name)
        for name in ("--start-rps", "--max-rps", "--peak-rps", "--hold", "--require-rps", "--rates")
        for bad in ("0", "-2", "nan", "inf", "-inf", "fast")
    ),
    *((name, bad, name) for name in ("--tp", "--pp", "--dp", "--repeats") for bad in ("0", "-1", "1.5", "nan", "two")),
    *((name, bad, name) for name in ("--seed", "--arrival-seed", "--workload-seed") for bad in ("-1", "1.5", "inf")),
    *(("--arrival-cv", bad, "--arrival-cv") for bad in ("0", "-1", "0.09", "10.1", "1e300", "nan", "inf", "bursty", "")),
    *(
        (name, bad, name)
        for name in ("--input-tokens", "--output-tokens")
        for bad in (
            "0",
            "-5",
            "1.5",
            "nan",
            "lognormal:500",
            "lognormal:nan,1,9",
            "lognormal:500,inf,900",
            "lognormal:500,-1,900",
            "lognormal:9,1e300,99",
            "10000000000",
            "9" * 400,
            "lognormal:500,1,10000000000",
        )
    ),
    ("--input-tokens", "lognormal:500,0.5,100", "--input-tokens"),
    *(
        (name, bad, name)
        for name in ("--weights-gb", "--params-b", "--gpu-bandwidth", "--kv-bytes-per-token", "--cost", "--burstiness")
        for bad in ("0", "-1", "nan", "inf", "", "lots", "1e300")
    ),
    *((name, bad, name) for name in ("--eta", "--growth", "--memory-utilization") for bad in ("101%", "-1%", "nan", "x")),
    *((name, bad, name) for name in ("--lost", "--rollout") for bad in ("-1", "1.5", "9999999", "some")),
    *(("--scale-out", bad, "--scale-out") for bad in ("4", "0s", "2h")),
    *(("--gpu", bad, "--gpu") for bad in ("", "TPU", "H100")),
    ("--mode", "thorough", "--mode"),
    *(("--rates", bad, "--rates") for bad in ("", "2,", "2,,4", "2;4", "2,0", "2,2.0")),
    *(("--between", bad, "--between") for bad in ("", "  ")),
    ("--api", "responses", "--api"),
    ("--metrics-url", "not an address", "--metrics-url"),
    ("--out", "-", "--out"),
    ("--out", "", "--out"),
]


@pytest.mark.parametrize(("option", "value", "named"), NONSENSE)
def test_nonsense_is_refused_by_name(jobs: list[command.Job], option: str, value: str, named: str) -> None:
    code, out, err = probe(f"{option}={value}")
    assert (code, out, jobs) == (2, "", [])
    assert named in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--ttft", "none", "--tpot", "none"], "There is no limit to judge by"),
        (["--tpot", "50ms", "--output-tokens", "1"], "The only limit is TPOT"),
        (["--start-rps", "5", "--max-rps", "2"], "--start-rps 5 is above --max-rps 2"),
        (["--out", "a", "--json", "a"], "same file"),
        (["--mean-rps", "60", "--peak-rps", "50"], "--mean-rps 60 is above --peak-rps 50"),
        (["--growth", "10%"], "--growth and --scale-out belong together"),
        (["--weights-gb", "15", "--params-b", "7"], "give one of them"),
        (["--weight-bits", "4"], "--weight-bits needs --params-b"),
        (["--careful", "--mode", "standard"], "--careful belongs to quick mode"),
        (["--rates", "2,4", "--hold", "3"], "give one of them"),
        (["--hold", "3", "--require-rps", "3"], "give one of them"),
        (["--rates", "2,4", "--start-rps", "1"], "give one of them"),
        (["--rates", "2,4", "--budget", "9m"], "give one of them"),
        (["--rates", "2,4", "--max-rps", "3"], "--rates 4 is above --max-rps 3"),
        (["--hold", "4", "--max-rps", "3"], "--hold 4 is above --max-rps 3"),
        (["--require-rps", "4", "--max-rps", "3"], "--require-rps 4 is above --max-rps 3"),
        (["--hold", "3", "--start-rps", "1"], "--start-rps has no effect with --hold"),
        (["--hold", "3", "--careful"], "--careful has no effect with --hold"),
        (["--hold", "3", "--repeats", "3"], "--repeats has no effect with --hold"),
        (["--hold", "3", "--budget", "9m"], "--budget has no effect with --hold"),
        (["--hold", "3", "--reset-cache"], "--reset-cache has no effect with --hold"),
        (["--hold", "3", "--between", "true"], "--between has no effect with --hold"),
        (["--trace-window", "10m"], "--trace-window is about recorded traffic"),
        (["--trace-scale", "2"], "--trace-scale is about recorded traffic"),
        (["--trace-unit", "ms"], "--trace-unit is about recorded traffic"),
        (["--trace-spread"], "--trace-spread is about recorded traffic"),
        (["--trace", "t.csv", "--input-tokens", "9"], "so does --input-tokens"),
        (["--trace", "t.csv", "--output-tokens", "9"], "so does --output-tokens"),
        (["--trace", "t.csv", "--arrival-cv", "2"], "so does --arrival-cv"),
        (["--trace", "t.csv", "--mix", "9:9"], "so does"),
        (["--trace", "t.csv", "--lengths", "t.csv"], "so does"),
        (["--trace", "t.csv", "--trace-scale", "2", "--rates", "3"], "and --rates asks for another way"),
        (["--trace", "t.csv", "--trace-scale", "2", "--hold", "3"], "and --hold asks for another way"),
        (["--trace", "t.csv", "--trace-scale", "2", "--start-rps", "3"], "and --start-rps asks for another way"),
        (["--trace", "t.csv", "--trace-scale", "2", "--budget", "3m"], "and --budget asks for another way"),
        (["--trace", "/no/such/file.csv"], "--trace: "),
        (["--prefix", "trace"], "--prefix trace needs recorded traffic that names the blocks of its prompts"),
        (["another"], "another"),
    ],
)
def test_what_makes_no_sense_together_or_is_not_built(jobs: list[command.Job], options: list[str], words: str) -> None:
    code, out, err = probe(*options)
    assert (code, out, jobs) == (2, "", [])
    assert words in err


@pytest.mark.parametrize(
    ("options", "method"),
    [
        (["--careful"], Method(careful=True)),
        (["--rates", "2, 4,6.5", "--mode", "standard"], Method(mode="standard", rates_rps=(2.0, 4.0, 6.5))),
        (["--rates", "11.3", "--measure", "30m"], Method(rates_rps=(11.3,), measure_s=1800.0)),
        (["--hold", "6", "--measure", "1m"], Method(hold_rps=6.0, measure_s=60.0)),
        (["--between", "restart it"], Method(between=True)),
    ],
)
def test_method(jobs: list[command.Job], options: list[str], method: Method) -> None:
    assert probe(*options) == (0, "", "")
    assert jobs[0].config.method == method


@pytest.mark.parametrize(
    "options", [["--between", "restart TESTSECRET"], ["--between=restart TESTSECRET"], ["--between", "--between"]]
)
def test_the_command_between_repeats_reaches_the_run_and_is_written_nowhere(jobs: list[command.Job], options: list[str]) -> None:
    assert probe("--seed", "3", *options, "--model", "a b") == (0, "", "")
    job = jobs[0]
    assert job.options["between"] == options[-1].removeprefix("--between=")
    assert job.command == f"kneescope probe {URL} --seed 3 --between '...' --model 'a b'"
    assert "TESTSECRET" not in repr(job) + repr(job.config)


@pytest.mark.parametrize(
    "url",
    [
        "127.0.0.1",
        "h:8000x",
        "h/v1:8000",
        "ftp://h/",
        "http://",
        "http:///v1",
        "http://h:99999",
        "http://h:x",
        "http://[::1",
        "http://a b",
        "",
        "http://h\x1b[31m",
    ],
)
def test_what_is_no_address(jobs: list[command.Job], url: str) -> None:
    code, out, err = probe(url=url)
    assert (code, out, jobs) == (2, "", [])
    assert "is not a server address" in err
    assert "\x1b" not in err


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("http://h:8000/", "http://h:8000"),
        ("HTTP://h:8000/", "http://h:8000"),
        ("h:8000", "http://h:8000"),
        ("127.0.0.1:8000/v1/chat/completions", "http://127.0.0.1:8000"),
        ("[::1]:8000/metrics", "http://[::1]:8000"),
        ("http://h:8000/docs#/default/create_chat", "http://h:8000"),
        ("h:8000/team/redoc#", "http://h:8000/team"),
        ("http://h:8000/v1", "http://h:8000"),
        ("https://h/models/a/v1/", "https://h/models/a"),
        ("http://[::1]:8000", "http://[::1]:8000"),
    ],
)
def test_address_is_the_base(jobs: list[command.Job], url: str, base: str) -> None:
    assert probe(url=url)[0] == 0
    assert (jobs[0].config.target.url, jobs[0].config.target.prefix) == (base, "/v1")


@pytest.mark.parametrize(("url", "prefix"), [("h:8000/v3", "/v3"), ("http://h:8000/v1-openai/chat/completions", "/v1-openai")])
def test_the_api_behind_another_prefix(jobs: list[command.Job], url: str, prefix: str) -> None:
    assert probe(url=url)[0] == 0
    target = jobs[0].config.target
    assert (target.url, target.prefix, target.address) == ("http://h:8000", prefix, f"http://h:8000{prefix}")


@pytest.mark.parametrize(
    "args",
    [
        ["probe", "http://user:sk-TESTSECRET@h:8000"],
        ["probe", "http://sk-TESTSECRET@h:8000"],
        ["probe", "http://h:8000/?key=sk-TESTSECRET"],
        ["probe", "http://h:8000/#sk-TESTSECRET"],
        ["probe", "http://h:8000/docs#?key=sk-TESTSECRET"],
        ["preflight", "http://:sk-TESTSECRET@h"],
        ["probe", URL, "--metrics-url", "http://u:sk-TESTSECRET@h/metrics"],
        ["probe", URL, "--api-key", "sk-TESTSECRET"],
        ["probe", URL, "--api-key=sk-TESTSECRET"],
        ["probe", URL, "--api-key-file", "sk-TESTSECRET"],
    ],
)
def test_key_on_the_command_line_is_refused_and_not_repeated(jobs: list[command.Job], args: list[str]) -> None:
    result = CliRunner().invoke(cli, args)
    assert (result.exit_code, result.stdout, jobs) == (2, "", [])
    assert "sk-TESTSECRET" not in result.stderr
    assert "--api-key-file" in result.stderr or "could hold a key" in result.stderr


def test_key_of_the_environment_and_file_before_it(
    jobs: list[command.Job], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KNEESCOPE_API_KEY", "sk-env")
    assert probe()[0] == 0
    (tmp_path / "key").write_text("  sk-file\r\n")
    assert probe("--api-key-file", str(tmp_path / "key"))[0] == 0
    assert [job.access.api_key for job in jobs] == ["sk-env", "sk-file"]
    assert "sk-" not in repr(jobs)


@pytest.mark.parametrize("content", [b"", b" \n", b"sk-TESTSECRET\nmore", b"sk-TEST\xc3\xa9SECRET", b"sk-\xff", b"sk-TEST SECRET"])
def test_what_is_no_key(jobs: list[command.Job], tmp_path: Path, content: bytes) -> None:
    (tmp_path / "key").write_bytes(content)
    code, out, err = probe("--api-key-file", str(tmp_path / "key"))
    assert (code, out, jobs) == (2, "", [])
    assert err.startswith("Error: --api-key-file: ")
    assert "SECRET" not in err


def test_a_file_without_an_end_is_no_key(jobs: list[command.Job]) -> None:
    code, out, err = probe("--api-key-file", "/dev/zero")
    assert (code, out, jobs) == (2, "", [])
    assert "hold an API key" in err


def test_empty_environment_is_no_key(jobs: list[command.Job], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KNEESCOPE_API_KEY", " ")
    assert probe()[0] == 0
    assert jobs[0].access.api_key is None


def places(part: str, struct: type[msgspec.Struct]) -> Iterator[str]:
    """The places of a configuration, such as `slo.ttft_s`."""
    for field in msgspec.structs.fields(struct):
        inner = isinstance(field.type, type) and issubclass(field.type, msgspec.Struct) and field.type not in (Lengths, Prefix)
        yield from places(f"{part}{field.name}.", field.type) if inner else [f"{part}{field.name}"]


@pytest.mark.parametrize(("option", "value"), [("--load-at-peak", "70%"), ("--load-at-peak", "0.7"), ("--headroom", "0.7")])
def test_the_load_at_peak_and_its_old_name_say_the_same(jobs: list[command.Job], option: str, value: str) -> None:
    assert probe(option, value)[0] == 0
    assert jobs[0].config.fleet.headroom == 0.7


def test_both_names_of_the_load_at_peak_must_agree(jobs: list[command.Job]) -> None:
    assert probe("--load-at-peak", "70%", "--headroom", "0.7")[0] == 0
    code, out, err = probe("--load-at-peak", "70%", "--headroom", "0.3")
    assert (code, out, len(jobs)) == (2, "", 1)
    assert "--load-at-peak 70% and --headroom 30%" in err


def test_several_machines_are_asked_for_and_share_nothing_but_the_plan(jobs: list[command.Job], tmp_path: Path) -> None:
    from core.workers import Workers, WorkersAsked

    assert probe("--workers", "local:2")[0] == 0
    start = command._start_load(jobs[0])
    assert isinstance(start, partial)
    assert (start.func, start.args, start.keywords) == (Workers.start, (WorkersAsked(local=2),), {"access": jobs[0].access})
    (tmp_path / "x").write_text("a prompt\n")
    for other in (("--gateway-limit", "4"), ("--dataset", str(tmp_path / "x")), ("--ca-file", str(tmp_path / "x"))):
        code, _, err = probe("--workers", "auto", *other)
        assert (code, len(jobs)) == (2, 1)
        assert other[0] in err
        assert "--workers" in err
    code, _, err = probe("--workers", "ray://h:10001")
    assert (code, len(jobs)) == (2, 1)
    assert err.startswith("kneescope: --workers: 'ray://h:10001'") or "--workers: 'ray://h:10001'" in err


def test_every_place_of_the_configuration_is_set_by_one_option() -> None:
    found = [path for option in RUN_OPTIONS if option.name != "headroom" for path in option.sets]  # an old name
    without = {"target.url", "target.prefix", "slo.default", "workload.temperature", "access.api_key"}
    without |= {"workload.trace"}  # what a file holds
    without |= {"method.one_draw", "method.beat_rps", "method.fleet"}  # what tune and fleet-check ask
    assert sorted([*found, *without]) == sorted([*places("", ProbeConfig), *places("access.", Access)])


def test_the_options_that_set_nothing_are_for_the_command_alone() -> None:
    alone = {option.name for option in RUN_OPTIONS if not option.sets}
    of_replicas = {"replica", "replicas_file", "dns", "prometheus", "query", "replica_key_file", "replica_header"}
    of_requests = {"lengths", "trace", "trace_window", "trace_scale", "trace_unit", "trace_spread"}
    assert alone == {
        "api_key_file",
        "profile",
        "headless",
        "json",
        "out",
        "quiet",
        "metrics_port",
        "ghost",
        "label",
        "symbols",
        "workers",
        *of_requests,
        *of_replicas,
    }
    assert {option.flag for option in RUN_OPTIONS if option.secret} == {"--header", "--replica-header", "--between"}


def test_a_trace_gives_lengths_arrivals_and_with_a_scale_the_rate(jobs: list[command.Job], tmp_path: Path) -> None:
    path = trace_file(tmp_path, even(1201, 0.5), [(300, 7), (20, 500)])
    given = ("--trace", str(path), "--trace-window", "5m@1m", "--trace-scale", "2.5", "--trace-unit", "s", "--trace-spread")
    assert probe(*given)[0] == 0
    config = jobs[0].config
    assert [(part.input_tokens, part.output_tokens) for part in config.workload.mix] == [(20, 500), (300, 7)]
    trace = config.workload.trace
    assert trace is not None
    assert (trace.file, trace.form, trace.from_s, trace.window_s, trace.span_s) == ("t.csv", "vidur", 60.0, 300.0, 600.0)
    assert config.method.rates_rps == (2.5 * trace.mean_rps,)
    assert trace.mean_rps == pytest.approx(2.0, rel=0.01)
    played = trace_of(jobs[0].options, 11)
    assert played is not None
    assert played.use == trace


def test_a_trace_is_read_once_while_its_file_stays_the_same(jobs: list[command.Job], tmp_path: Path) -> None:
    path = trace_file(tmp_path, even(101))
    assert probe("--trace", str(path))[0] == 0
    first = trace_of(jobs[0].options, 11)
    assert trace_of(jobs[0].options, 11) is first
    trace_file(tmp_path, even(202))
    again = trace_of(jobs[0].options, 11)
    assert again is not None
    assert again.use.rows == 202


def test_a_scale_above_max_rps_is_refused(jobs: list[command.Job], tmp_path: Path) -> None:
    code, _, err = probe("--trace", str(trace_file(tmp_path, even(101))), "--trace-scale", "9", "--max-rps", "4")
    assert (code, jobs) == (2, [])
    assert "--max-rps allows 4" in err


def test_help_shows_the_table_under_headings() -> None:
    probe_help = CliRunner().invoke(cli, ["probe", "-h"])
    assert probe_help.exit_code == 0
    for heading in ("Server:", "Limits:", "Workload:", "Search:", "Fleet:", "Output:"):
        assert heading in probe_help.stdout
    for told in (*map(usual_time, get_args(Named)), "3 of 90 s", "10 of 60 s"):
        assert told in " ".join(probe_help.stdout.split())
    assert "--profile FILE" in probe_help.stdout
    options = {line.split()[0] for line in probe_help.stdout.splitlines() if line.startswith("  --")}
    demo_help = CliRunner().invoke(cli, ["demo", "--help"]).stdout
    assert {line.split()[0] for line in demo_help.splitlines() if line.startswith("  --")} == options
    preflight_help = CliRunner().invoke(cli, ["preflight", "--help"]).stdout
    assert "--json" in preflight_help
    assert "--peak-rps" not in preflight_help


@pytest.mark.parametrize("way", [["--dataset", "{}"], ["--dataset={}"]])
def test_of_a_dataset_the_name_is_recorded_and_the_folder_reaches_the_run_alone(
    jobs: list[command.Job], tmp_path: Path, way: list[str]
) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text('{"prompt": "Who?", "output_tokens": 3}\n')
    assert probe(*(word.format(path) for word in way), "--output-tokens", "64") == (0, "", "")
    job = jobs[0]
    assert job.config.workload.source == Source(kind="dataset", file="prompts.jsonl")
    assert job.config.workload.output_tokens == Lengths(median=64)
    assert command.dataset_of(job.options) == path
    assert str(tmp_path) not in job.command + repr(job.config)
    assert "prompts.jsonl" in job.command


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        ("one\n", ["--input-tokens", "64"], "and so does --input-tokens"),
        ("", [], "is empty"),
        ("arrived_at,num_prefill_tokens,num_decode_tokens\n0,1,2\n", [], "give it to --trace or --lengths"),
        (None, [], "cannot be read"),
        ("one\n", ["--prefix", "shared:16/2"], "--prefix shared makes prompts up"),
        ("one\n", ["--prefix", "trace"], "give it with --trace"),
    ],
)
def test_what_is_no_dataset_or_not_beside_one_is_refused(
    jobs: list[command.Job], tmp_path: Path, text: str | None, options: list[str], words: str
) -> None:
    path = tmp_path / "prompts.jsonl"
    if text is not None:
        path.write_text(text)
    code, out, err = probe("--dataset", str(path), *options)
    assert (code, out, jobs) == (2, "", [])
    assert words in err

"""Profiles: what is kept and how, what is refused with which sentence, and who wins."""

import stat
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given as cases
from hypothesis import strategies as st

from core.config import Lengths
from core.errors import UserError
from core.replica.catalog import CATALOG
from tests.core.tls import CA
from tests.core.traffic.files import DATA
from tui.cli import argv, probe, profiles
from tui.cli.commands import cli
from tui.cli.options import OUTPUT

URL = "http://127.0.0.1:8000"


SAMPLES = {
    **{"model": "m", "api": "chat", "metrics-url": "http://m:1/x", "gpu-metrics-url": "http://g:9400/metrics"},
    **{"api-key-file": "/k", "header": "X-A: SECRET", "ca-file": "/ca.pem", "client-cert": "/c.pem", "client-key": "/k.pem"},
    **{"replica": "http://r:8000", "replicas-file": "/r.txt", "dns": "vllm.svc:8000", "prometheus": "http://p:9090"},
    **{"query": "up", "replica-key-file": "/rk", "replica-header": "X-B: SECRET"},
    **{"proxy": "http://proxy:3128", "ttft": "500ms", "tpot": "none", "e2e": "10s", "target": "99%", "max-error-rate": "2%"},
    **{"input-tokens": "64", "output-tokens": "lognormal:64,1,128", "mode": "standard", "repeats": "2", "measure": "90s"},
    **{"budget": "5m", "rates": "2,4", "hold": "6.5", "require-rps": "9", "between": "docker SECRET", "start-rps": "0.5"},
    **{
        "drain": "1m",
        "seed": "0",
        "arrival-cv": "2",
        "arrival-seed": "5",
        "workload-seed": "7",
        "max-rps": "40",
        "max-in-flight": "500",
        "max-duration": "30m",
        "max-waiting": "0",
    },
    **{
        "peak-rps": "50",
        "mean-rps": "20",
        "load-at-peak": "50%",
        "headroom": "0.5",
        "tp": "2",
        "pp": "2",
        "dp": "2",
        "lost": "2",
        "rollout": "1",
    },
    **{"growth": "10%", "scale-out": "4m", "burstiness": "0.5", "cost": "2.5", "gpu": "RTX 4090", "gpu-bandwidth": "1008"},
    **{"gpu-memory": "24", "weights-gb": "15.2", "params-b": "7.6", "weight-bits": "4", "eta": "60%", "activations-gb": "3"},
    **{"kv-bytes-per-token": "57344", "memory-utilization": "85%"},
    **{"dataset": str(DATA / "chat.jsonl"), "mix": "1024:128=3,4096:64=1@ttft=2s", "lengths": "pairs.csv", "stop": "natural"},
    **{"length-correlation": "0.5", "gateway-limit": "64,queue=100,timeout=5s", "prefix": "shared:512/8", "think-time": "2s"},
    **{"trace": "t.csv", "trace-window": "10m@busiest", "trace-scale": "2.5", "trace-unit": "ms"},
    **{"profile": "other.toml", "json": "-", "out": "run.jsonl", "symbols": "braille", "metrics-port": "9100"},
    **{"label": "a night", "ghost": "last"},
}
"""A value for each option that takes one."""


def kneescope(*args: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, args)
    return result.exit_code, result.stderr


def profile(folder: Path, content: str) -> str:
    path = folder / "prod.toml"
    path.write_text(content)
    return str(path)


def test_a_saved_profile_says_the_same_again(tmp_path: Path) -> None:
    said = argv.split("--model '[7]' --ttft 500ms --target 95% --input-tokens 64 --peak-rps 2.5 --careful --rates 2,4 --seed 0")
    path = tmp_path / "prod.toml"
    assert profiles.save(path, URL, said) == []
    assert profiles.load(path) == {"url": URL, **argv.texts(said)}
    assert argv.options(argv.words({n: t for n, t in profiles.load(path).items() if n != "url"})) == argv.options(said)
    assert "input-tokens = 64\n" in path.read_text()


def test_it_is_for_this_user_alone_and_holds_no_secret(tmp_path: Path) -> None:
    path = tmp_path / "prod.toml"
    left_out = profiles.save(path, URL, ["--between", "docker SECRET", "--json", "out.json", "--quiet", "--api-key-file", "/k"])
    assert left_out == ["between", "json", "quiet"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "SECRET" not in path.read_text()
    assert profiles.load(path) == {"url": URL, "api-key-file": "/k"}


@pytest.mark.parametrize("name", argv.OPTIONS)
def test_every_option_is_kept_and_says_the_same_again_or_is_left_out_and_refused_by_name(
    tmp_path: Path, jobs: list[probe.Job], name: str
) -> None:
    option = argv.OPTIONS[name]
    said = [f"--{name}", *([] if option.is_flag else [SAMPLES[name]])]
    path = tmp_path / "prod.toml"
    left_out = profiles.save(path, URL, said)
    if option.section != OUTPUT and name not in ("header", "replica-header", "between", "yes"):
        assert left_out == []
        asked = {parameter.name: None for parameter in argv.OPTIONS.values()}
        _, merged = profiles.under(path, {key: value for key, value in asked.items() if key not in ("profile", "symbols")})
        new = "load-at-peak" if name == "headroom" else name
        assert merged[new.replace("-", "_")] == argv.parsed(said)[option.name or ""] is not None
        assert argv.words(settings_of(path)) == [f"--{new}", *said[1:]]
    else:
        assert left_out == [name]
        assert profiles.load(path) == {"url": URL}
        content = f"{name} = {'true' if option.is_flag else repr('SECRET')}"
        code, err = kneescope("probe", URL, "--profile", profile(tmp_path, content))
        assert (code, jobs) == (2, [])
        assert repr(name) in err
        assert "SECRET" not in err


def settings_of(path: Path) -> argv.Texts:
    return {name: text for name, text in profiles.load(path).items() if name != "url"}


def test_leave_is_for_one_run(tmp_path: Path, jobs: list[probe.Job]) -> None:
    path = profile(tmp_path, "yes = true")
    assert "permission to load a server counts for one run; give --yes" in kneescope("probe", URL, "--profile", path)[1]
    assert jobs == []
    (tmp_path / "prod.toml").write_text("with-others = true\nmax-waiting = 4")
    assert kneescope("probe", URL, "--profile", path)[0] == 0
    assert (jobs[0].config.safety.with_others, jobs[0].config.safety.max_waiting) == (True, 4)


def test_certificates_that_a_profile_leaves_unchecked_are_said(tmp_path: Path, jobs: list[probe.Job]) -> None:
    path = profile(tmp_path, "insecure = true")
    code, said = kneescope("probe", URL, "--profile", path)
    assert (code, jobs[0].config.target.insecure) == (0, True)
    assert said == f"profile {path}: it sets insecure, so the server's certificate is not checked.\n"
    assert kneescope("probe", URL, "--profile", path, "--insecure") == (0, "")
    assert kneescope("demo", "--profile", path) == (0, "")


def test_headers_are_words_too_and_are_kept_nowhere(tmp_path: Path) -> None:
    said = argv.split("--header 'X-A: SECRET' --seed 3 --header='X-B: SECRET'")
    assert argv.texts(said) == {"header": ["X-A: SECRET", "X-B: SECRET"], "seed": "3"}
    assert argv.options(argv.words(argv.texts(said))) == argv.options(said)
    assert "SECRET" not in argv.logged(said) + repr(argv.options(said))
    path = tmp_path / "prod.toml"
    assert profiles.save(path, URL, said) == ["header"]
    assert "SECRET" not in path.read_text()
    with pytest.raises(UserError, match="value of --header has blanks") as refused:
        argv.texts(argv.split("--header X-A: SECRET"))
    assert "SECRET" not in str(refused.value)


def test_a_file_that_is_there_is_replaced_only_when_that_is_meant(tmp_path: Path) -> None:
    path = tmp_path / "prod.toml"
    path.write_text("mine")
    with pytest.raises(UserError, match="already exists"):
        profiles.save(path, URL, [])
    assert path.read_text() == "mine"
    profiles.save(path, URL, [], replace=True)
    assert profiles.load(path) == {"url": URL}
    assert [each.name for each in tmp_path.iterdir()] == ["prod.toml"]


@pytest.mark.parametrize("name", ["folder", "nowhere/prod.toml", "x" * 300])
def test_where_nothing_can_be_written(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(UserError):
        profiles.save(tmp_path / name, URL, [], replace=True)


def test_the_last_settings_need_no_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "file"))
    profiles.save_last(URL, [])
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    profiles.save_last(URL, ["--seed", "3"])
    assert profiles.load(profiles.last_path()) == {"url": URL, "seed": "3"}
    assert profiles.last_path().is_relative_to(tmp_path / "config")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ('between = "SECRET"', "'between' may hold a secret"),
        ('header = "SECRET"', "'header' may hold a secret"),
        ('api-key = "SECRET"', "'api-key' may hold a secret"),
        ("tftt = 'SECRET'", "'tftt' does not belong in a profile; one can hold url, model"),
        ("json = 'out'", "'json' does not belong in a profile; give it on the command line"),
        ("profile = 'other'", "'profile' does not belong in a profile"),
        ("ttft = 5", "--ttft: '5' is not a duration above zero"),
        ("ttft = true", "ttft must be text or a number"),
        ("ttft = [[1]]", "ttft must be text or a number"),
        ("careful = 1", "careful must be true or false"),
        ("max-rps = nan", "--max-rps: nan is not possible here"),
        ("mode = 'fast'", "Invalid value for '--mode'"),
        ("url = 1", "url must be text"),
        ("url = 'http://user:SECRET@host'", "give this one without user, password and key"),
        ("url = ''", "url: '' is not a server address"),
        ("[ttft]\nx = 1", "ttft must be text or a number"),
        ("ttft", "this is not TOML: "),
        ("x = " + "[" * 5000, "this is not TOML: "),
        ("seed = " + "9" * 5000, "this is not TOML: "),
        ("# " + "x" * 70000, "is longer than 65536 characters"),
    ],
)
def test_what_is_refused(tmp_path: Path, jobs: list[probe.Job], content: str, sentence: str) -> None:
    code, said = kneescope("probe", URL, "--profile", profile(tmp_path, content))
    assert (code, jobs) == (2, [])
    assert f"profile {tmp_path / 'prod.toml'}: " in said
    assert sentence in said
    assert "SECRET" not in said


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("no.toml", "No such file"),
        (".", "it is not a regular file"),
        ("/dev/zero", "it is not a regular file"),
        ("x" * 300, "name too long"),
    ],
)
def test_what_cannot_be_read(tmp_path: Path, path: str, why: str) -> None:
    code, said = kneescope("probe", URL, "--profile", str(tmp_path / path))
    assert code == 2
    assert why in said


def test_a_profile_that_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "prod.toml").write_bytes(b"\xff\xfe")
    assert "it is not text" in kneescope("probe", URL, "--profile", str(tmp_path / "prod.toml"))[1]


def test_the_command_line_wins(tmp_path: Path, jobs: list[probe.Job]) -> None:
    path = profile(tmp_path, 'url = "http://prod:1/v1"\nttft = "400ms"\ntpot = "30ms"\ninput-tokens = 64\nseed = 5\ncareful = true')
    assert kneescope("probe", "--profile", path, "--ttft", "1s", "--input-tokens", "128") == (0, "")
    config = jobs[0].config
    assert config.target.url == "http://prod:1"
    assert (config.slo.ttft_s, config.slo.tpot_s, config.slo.default) == (1.0, 0.03, False)
    assert (config.workload.input_tokens, config.method.seed, config.method.careful) == (Lengths(median=128), 5, True)
    assert kneescope("probe", "http://other:2", "--profile", path)[0] == 0
    assert jobs[1].config.target.url == "http://other:2"


@pytest.mark.parametrize(
    ("content", "options", "expected"),
    [
        ("careful = true", ["--mode", "standard"], {"mode": "standard", "careful": False}),
        ("mode = 'standard'", ["--careful"], {"mode": "quick", "careful": True}),
        ("hold = 6", ["--rates", "2,4"], {"rates_rps": (2.0, 4.0), "hold_rps": None}),
        ("rates = [2, 4]\nbudget = '2m'", ["--hold", "6"], {"rates_rps": (), "hold_rps": 6.0, "budget_s": None}),
        ("hold = 6", ["--require-rps", "3"], {"hold_rps": None, "require_rps": 3.0}),
        ("rates = '2,4.5'", ["--start-rps", "1"], {"rates_rps": (), "start_rps": 1.0}),
    ],
)
def test_what_the_command_line_excludes_gives_way(
    tmp_path: Path, jobs: list[probe.Job], content: str, options: list[str], expected: dict[str, Any]
) -> None:
    assert kneescope("probe", URL, "--profile", profile(tmp_path, content), *options) == (0, "")
    method = jobs[0].config.method
    assert {name: getattr(method, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("content", "options", "gone"),
    [
        ("insecure = true", ["--ca-file", CA], ["insecure"]),
        (f"ca-file = {CA!r}", ["--insecure"], ["ca_file"]),
        ("params-b = 7.6\nweight-bits = 4", ["--weights-gb", "15.2"], ["params_b", "weight_bits"]),
        ("weights-gb = 15.2", ["--params-b", "7.6"], ["weights_gb"]),
        ("reset-cache = true", ["--with-others"], ["reset_cache"]),
        ("with-others = true\nmax-waiting = 4", ["--reset-cache"], ["with_others", "max_waiting"]),
        ("with-others = true\nmax-waiting = 4", ["--between", "true"], ["with_others", "max_waiting"]),
        ("input-tokens = 64\noutput-tokens = 9", ["--mix", "8:8"], ["input_tokens", "output_tokens"]),
        ("mix = '8:8'", ["--input-tokens", "64"], ["mix"]),
        ("trace = '/none'\ntrace-window = '10m'\ntrace-scale = 2", ["--mix", "8:8"], ["trace", "trace_window", "trace_scale"]),
        ("trace = '/none'\ntrace-spread = true", ["--arrival-cv", "2"], ["trace", "trace_spread"]),
        ("closed-loop = true", ["--gateway-limit", "8"], ["closed_loop"]),
        ("closed-loop = true", ["--hold", "6"], ["closed_loop"]),
    ],
)
def test_no_more_can_stand_beside_what_it_excludes(
    tmp_path: Path, jobs: list[probe.Job], content: str, options: list[str], gone: list[str]
) -> None:
    code, said = kneescope("probe", URL, "--profile", profile(tmp_path, content), *options)
    assert (code, said) == (0, "")
    assert not any(jobs[0].options[name] for name in gone)


def test_zero_on_the_command_line_is_a_value(tmp_path: Path, jobs: list[probe.Job]) -> None:
    content = "seed = 7\nlost = 2\nrollout = 3"
    code, said = kneescope("probe", URL, "--profile", profile(tmp_path, content), "--seed", "0", "--lost", "0", "--rollout", "0")
    assert (code, said) == (0, "")
    assert (jobs[0].config.method.seed, jobs[0].config.fleet.lost, jobs[0].config.fleet.rollout) == (0, 0, 0)


def test_demo_takes_all_but_the_server(tmp_path: Path, jobs: list[probe.Job]) -> None:
    content = (
        "url = 'http://prod:1'\nmodel = 'big'\nmetrics-url = 'http://prod:2/m'\napi = 'chat'\napi-key-file = '/none'\nttft = '2s'"
        "\nca-file = '/none'\nproxy = 'http://proxy:1'"
    )
    assert kneescope("demo", "--profile", profile(tmp_path, content)) == (0, "")
    config = jobs[0].config
    assert config.target.url == "http://127.0.0.1"
    assert (config.target.model, config.target.metrics_url, config.target.api) == (None, None, "completions")
    assert config.slo.ttft_s == 2.0
    assert config.workload.input_tokens.median == CATALOG["demo"].input_tokens.median


def test_without_an_address_anywhere(tmp_path: Path, jobs: list[probe.Job]) -> None:
    code, said = kneescope("probe", "--profile", profile(tmp_path, "ttft = '2s'"))
    assert (code, jobs) == (2, [])
    assert "Missing argument 'URL'" in said


@cases(st.text(), st.text(min_size=1))
def test_any_text_comes_back_or_is_refused(tmp_path_factory: pytest.TempPathFactory, model: str, file: str) -> None:
    path = tmp_path_factory.mktemp("p") / "prod.toml"
    profiles.save(path, URL, [f"--model={model}", f"--api-key-file={file}"])
    assert profiles.load(path) == {"url": URL, "model": model, "api-key-file": file}

import resource

import pytest

from core.config import Api, Lengths, Workload
from core.records import CheckStatus, ServerSample
from core.server import checks
from core.server.checks import Layout, ModelCard

ONE = ModelCard("tiny", None, 2048)
LORA = ModelCard("tiny-lora", "tiny", None)


def sample(running: float | None, waiting: float | None) -> ServerSample:
    return ServerSample(t=1, took_s=0.01, running=running, waiting=waiting)


@pytest.mark.parametrize(
    ("version", "api", "status", "words"),
    [
        ("0.32.0", "completions", "pass", "0.32.0"),
        ("0.9.2", "completions", "warn", "ignores cache_salt"),
        ("0.9.2", "chat", "pass", "0.9.2"),
        ("0.8.5", "chat", "warn", "ignores cache_salt"),
        ("0.6.4.post1", "completions", "warn", "rejects fields"),
        (None, "completions", "warn", "does not tell"),
        ("nightly", "completions", "pass", "nightly"),
    ],
)
def test_version(version: str | None, api: Api, status: CheckStatus, words: str) -> None:
    check = checks.version_check(version, False, api)
    assert check.status == status
    assert words in check.message


def test_a_simulated_replica_is_called_so() -> None:
    assert "simulated" in checks.version_check("0.32.0", True, "completions").message


def test_the_only_model_is_taken() -> None:
    check, card = checks.model_check([ONE], None)
    assert (check.status, card) == ("pass", ONE)
    assert "2048" in check.message


def test_of_several_models_one_must_be_asked_for() -> None:
    check, card = checks.model_check([ONE, LORA], None)
    assert (check.status, card) == ("refuse", None)
    assert "tiny, tiny-lora" in check.message
    assert checks.model_check([ONE, LORA], "tiny")[1] == ONE


def test_a_lora_adapter_has_the_length_of_its_base() -> None:
    other = ModelCard("big", None, 9999)
    assert checks.model_check([other, ONE, LORA], "tiny-lora")[1] == ModelCard("tiny-lora", "tiny", 2048)
    assert checks.model_check([ONE, ModelCard("l", "/path/of/base", None)], "l")[1] == ModelCard("l", "/path/of/base", 2048)
    assert checks.model_check([ModelCard("x", None, None)], None)[1] == ModelCard("x", None, None)


def test_a_model_that_is_not_there_is_refused_with_the_list() -> None:
    check, card = checks.model_check([ONE], "huge")
    assert (check.status, card) == ("refuse", None)
    assert "huge" in check.message
    assert "tiny" in check.message
    assert checks.model_check([], None)[0].status == "refuse"


def test_names_of_models_are_listed_as_far_as_anybody_reads() -> None:
    many = [ModelCard(f"model-{i}" + "x" * 1000) for i in range(5000)]
    check, _ = checks.model_check(many, None)
    assert check.message.startswith("The server has 5000 models; choose one with --model: model-0xxx")
    assert check.message.endswith(" and 4950 more.")
    assert len(check.message) < 8000
    assert len(checks.model_check(many[:1], None)[0].message) < 200


@pytest.mark.parametrize(("input_tokens", "status"), [(1920, "pass"), (1921, "refuse")])
def test_context_is_met_to_the_token(input_tokens: int, status: CheckStatus) -> None:
    check = checks.context_check(2048, Workload(input_tokens=Lengths(median=input_tokens)), "0.32.0")
    assert check.status == status
    assert f"{input_tokens} prompt + 128 output" in check.message
    assert "2048" in check.message


def test_context_looks_at_the_longest_that_can_be_drawn() -> None:
    workload = Workload(input_tokens=Lengths(median=100, sigma=0.5, maximum=2000))
    assert checks.context_check(2048, workload, None).status == "refuse"
    assert checks.context_check(None, workload, None).status == "warn"


def test_context_says_what_the_server_would_do() -> None:
    long = Workload(input_tokens=Lengths(median=4000))
    assert "without a word" in checks.context_check(2048, long, "0.32.0").message
    assert "error" in checks.context_check(2048, long, "0.31.0").message


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[int, int]]:
    """The process's limit of open files, to be set and read back."""
    state = {"now": (1024, 20000)}

    def change(what: int, wanted: tuple[int, int]) -> None:
        if wanted[0] > 50000:
            raise ValueError("current limit exceeds maximum limit")
        state["now"] = wanted

    monkeypatch.setattr(resource, "getrlimit", lambda what: state["now"])
    monkeypatch.setattr(resource, "setrlimit", change)
    return state


def test_fd_limit_is_raised(limits: dict[str, tuple[int, int]]) -> None:
    check = checks.fd_limit_check()
    assert limits["now"] == (20000, 20000)
    assert (check.status, check.message) == ("pass", "20000 files may be open, raised from 1024.")
    assert "raised" not in checks.fd_limit_check().message


def test_fd_limit_that_stays_low_is_warned_of(limits: dict[str, tuple[int, int]]) -> None:
    limits["now"] = (64, 256)
    check = checks.fd_limit_check()
    assert check.status == "warn"
    assert "256" in check.message


def test_fd_limit_that_cannot_be_raised(limits: dict[str, tuple[int, int]]) -> None:
    limits["now"] = (256, 1 << 40)
    check = checks.fd_limit_check()
    assert (check.status, limits["now"]) == ("warn", (256, 1 << 40))
    assert "256" in check.message


def test_no_fd_limit(limits: dict[str, tuple[int, int]]) -> None:
    limits["now"] = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    assert checks.fd_limit_check().status == "pass"


def test_capacity() -> None:
    labels = {"num_gpu_blocks": "2000", "block_size": "16", "kv_cache_size_tokens": "15000"}
    check, tokens = checks.capacity_check(labels, 2, has_metrics=True)
    assert (check.status, tokens) == ("pass", 30000)
    for number in ("30000", "2 engines", "2000 blocks of 16"):
        assert number in check.message


@pytest.mark.parametrize("has_metrics", [True, False])
def test_capacity_that_is_not_told(has_metrics: bool) -> None:
    check, tokens = checks.capacity_check({}, 1, has_metrics)
    assert (check.status, tokens) == ("warn", None)
    assert ("no metrics" in check.message) is not has_metrics


@pytest.mark.parametrize(
    ("fingerprint", "engines", "layout", "status", "words"),
    [
        ("vllm-0.32.0-tp2-pp4-dp8-ep-9666ce4b", 8, Layout(tp=2, pp=4, dp=8), "pass", "TP 2, PP 4, DP 8"),
        ("vllm-0.32.0-tp2-9666ce4b", 1, Layout(tp=2, pp=1, dp=1), "pass", "TP 2, PP 1, DP 1"),
        ("vllm-0.32.0-tp2-9666ce4b", None, Layout(tp=2, pp=1, dp=1), "pass", "TP 2"),
        ("vllm-0.32.0-9666ce4b", 1, Layout(), "pass", "TP 1 or hidden, PP 1 or hidden, DP 1 or hidden"),
        ("vllm-0.32.0-9666ce4b", 8, Layout(dp=8), "pass", "DP 8"),
        ("vllm-0.32.0-tp2-dp8-9666ce4b", 1, Layout(tp=2, pp=1, dp=1), "warn", "DP 8, but 1 engine"),
        ("vllm-0.32.0-tp2-dp8-9666ce4b", None, Layout(tp=2, pp=1, dp=8), "pass", "DP 8"),
        ("my-own-tp4-name", 1, Layout(), "pass", "1 or hidden"),
        (None, 1, Layout(), "pass", "no system_fingerprint"),
        (None, 4, Layout(dp=4), "pass", "DP 4"),
    ],
)
def test_layout(fingerprint: str | None, engines: int | None, layout: Layout, status: CheckStatus, words: str) -> None:
    check, found = checks.layout_check(fingerprint, engines, "0.20.0" if fingerprint is None else "0.32.0")
    assert (found, check.status) == (layout, status)
    assert words in check.message


def test_traffic() -> None:
    assert checks.traffic_check(sample(0, 0), False).status == "pass"
    busy = checks.traffic_check(sample(3, 2), False)
    assert busy.status == "refuse"
    assert "5 requests are there now (3 running, 2 waiting)" in busy.message
    assert "--with-others" in busy.message
    agreed = checks.traffic_check(sample(3, 2), True)
    assert agreed.status == "warn"
    assert "what fits on top of them" in agreed.message
    assert checks.traffic_check(sample(1, None), False).status == "refuse"
    assert checks.traffic_check(sample(None, None), False).status == "warn"
    assert checks.traffic_check(None, False).status == "warn"

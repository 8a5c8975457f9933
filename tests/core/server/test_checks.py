import resource

import pytest

from core.config import Api, Lengths, Workload
from core.facts import Code, fact
from core.records import CheckStatus, ServerSample
from core.server import checks
from core.server.checks import Layout
from core.server.models import ModelCard
from core.workloads import Source, parse_mix
from tests.core.server.fakes import figures, found

ONE = ModelCard("tiny", None, 2048)
LORA = ModelCard("tiny-lora", "tiny", None)
PATH = "/v1/models"


def sample(running: float | None, waiting: float | None) -> ServerSample:
    return ServerSample(t=1, took_s=0.01, running=running, waiting=waiting)


@pytest.mark.parametrize(
    ("version", "api", "status", "code"),
    [
        ("0.32.0", "completions", "pass", "version_known"),
        ("0.9.2", "completions", "warn", "salt_ignored"),
        ("0.9.2", "chat", "pass", "version_known"),
        ("0.8.5", "chat", "warn", "salt_ignored"),
        ("0.6.4.post1", "completions", "warn", "fields_rejected"),
        (None, "completions", "warn", "version_unknown"),
        ("nightly", "completions", "pass", "version_known"),
    ],
)
def test_version(version: str | None, api: Api, status: CheckStatus, code: Code) -> None:
    check = checks.version_check(version, False, api)
    assert (check.status, found(check).code) == (status, code)
    assert version is None or figures(check, "version") == (version,)


def test_a_simulated_replica_is_called_so() -> None:
    assert checks.version_check("0.32.0", True, "completions").message == fact("simulated_replica", version="0.32.0")


def test_the_only_model_is_taken() -> None:
    check, card = checks.model_check([ONE], None)
    assert (check.status, card) == ("pass", ONE)
    assert check.message == fact("model_found", model="tiny", context_tokens=2048)


def test_of_several_models_one_must_be_asked_for() -> None:
    assert checks.not_listed([ONE, LORA], None, PATH) == fact("model_not_chosen", "tiny", "tiny-lora", models=2)
    assert checks.not_listed([ONE, LORA], "tiny", PATH) is checks.not_listed([ONE], None, PATH) is None
    assert checks.model_check([ONE, LORA], "tiny")[1] == ONE


def test_a_lora_adapter_has_the_length_of_its_base() -> None:
    other = ModelCard("big", None, 9999)
    assert checks.model_check([other, ONE, LORA], "tiny-lora")[1] == ModelCard("tiny-lora", "tiny", 2048)
    assert checks.model_check([ONE, ModelCard("l", "/path/of/base", None)], "l")[1] == ModelCard("l", "/path/of/base", 2048)
    assert checks.model_check([ModelCard("x", None, None)], None)[1] == ModelCard("x", None, None)


def test_a_model_that_is_not_there_is_told_with_the_list() -> None:
    assert checks.not_listed([ONE], "huge", PATH) == fact("model_not_listed", "tiny", models=1, asked="huge")
    assert checks.not_listed([], "huge", PATH) == checks.not_listed([], None, PATH) == fact("no_model_listed", path=PATH)


def test_names_of_models_are_listed_as_far_as_anybody_reads() -> None:
    many = [ModelCard(f"model-{i}" + "x" * 1000) for i in range(5000)]
    told = checks.not_listed(many, None, PATH)
    assert told is not None
    assert told.figures["models"] == 5000
    names = told.of
    assert len(names) == 50
    assert {len(str(name)) for name in names} == {120}
    assert len(str(figures(checks.model_check(many[:1], None)[0], "model")[0])) == 120


@pytest.mark.parametrize(("input_tokens", "status"), [(1920, "pass"), (1921, "refuse")])
def test_context_is_met_to_the_token(input_tokens: int, status: CheckStatus) -> None:
    check = checks.context_check(2048, Workload(input_tokens=Lengths(median=input_tokens)), "0.32.0")
    assert (check.status, found(check).code) == (status, "context_fits" if status == "pass" else "context_too_short")
    assert figures(check, "prompt_tokens", "output_tokens", "context_tokens") == (input_tokens, 128, 2048)


@pytest.mark.parametrize(("longest", "status"), [("1800:248", "pass"), ("1800:249", "refuse")])
def test_context_of_a_mix_is_that_of_its_longest_request(longest: str, status: CheckStatus) -> None:
    """Not of the longest prompt with the longest answer, which never come together."""
    check = checks.context_check(2048, Workload(mix=parse_mix(f"8:1000,{longest},1900:8")), "0.32.0")
    assert check.status == status
    assert figures(check, "prompt_tokens", "output_tokens") == tuple(map(int, longest.split(":")))


def test_rows_of_a_file_that_do_not_fit_are_told_by_their_share() -> None:
    workload = Workload(mix=parse_mix("8:1000=3,1900:200=1"), source=Source(kind="lengths", file="pairs.csv", rows=4))
    check = checks.context_check(2048, workload, "0.32.0")
    assert (check.status, figures(check, "file", "longer_frac")) == ("refuse", ("pairs.csv", 0.25))


def test_context_looks_at_the_longest_that_can_be_drawn() -> None:
    workload = Workload(input_tokens=Lengths(median=100, sigma=0.5, maximum=2000))
    assert found(checks.context_check(2048, workload, None)).code == "context_too_short"
    unknown = checks.context_check(None, workload, None)
    assert (unknown.status, found(unknown).code) == ("warn", "context_unknown")


def test_context_says_what_the_server_would_do() -> None:
    long = Workload(input_tokens=Lengths(median=4000))
    assert figures(checks.context_check(2048, long, "0.32.0"), "shortened") == (True,)
    assert figures(checks.context_check(2048, long, "0.31.0"), "shortened") == (False,)


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
    assert (check.status, check.message) == ("pass", fact("files_enough", files=20000, before=1024))
    assert checks.fd_limit_check().message == fact("files_enough", files=20000, before=None)


def test_fd_limit_that_stays_low_is_warned_of(limits: dict[str, tuple[int, int]]) -> None:
    limits["now"] = (64, 256)
    check = checks.fd_limit_check()
    assert (check.status, check.message) == ("warn", fact("files_few", files=256, before=64))


def test_fd_limit_that_cannot_be_raised(limits: dict[str, tuple[int, int]]) -> None:
    limits["now"] = (256, 1 << 40)
    check = checks.fd_limit_check()
    assert (check.status, limits["now"]) == ("warn", (256, 1 << 40))
    assert check.message == fact("files_few", files=256, before=None)


def test_no_fd_limit(limits: dict[str, tuple[int, int]]) -> None:
    limits["now"] = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    assert checks.fd_limit_check().message == fact("files_unlimited")


def test_capacity() -> None:
    labels = {"num_gpu_blocks": "2000", "block_size": "16", "kv_cache_size_tokens": "15000"}
    check, tokens = checks.capacity_check(labels, 2, has_metrics=True)
    assert (check.status, tokens) == ("pass", 30000)
    assert check.message == fact("kv_capacity", tokens=30000, engines=2, blocks=2000, block_tokens=16)


@pytest.mark.parametrize("has_metrics", [True, False])
def test_capacity_that_is_not_told(has_metrics: bool) -> None:
    check, tokens = checks.capacity_check({}, 1, has_metrics)
    assert (check.status, tokens) == ("warn", None)
    assert check.message == fact("kv_capacity_unknown", has_metrics=has_metrics)


@pytest.mark.parametrize(
    ("fingerprint", "engines", "layout", "code"),
    [
        ("vllm-0.32.0-tp2-pp4-dp8-ep-9666ce4b", 8, Layout(tp=2, pp=4, dp=8), "layout_seen"),
        ("vllm-0.32.0-tp2-9666ce4b", 1, Layout(tp=2, pp=1, dp=1), "layout_seen"),
        ("vllm-0.32.0-tp2-9666ce4b", None, Layout(tp=2, pp=1, dp=1), "layout_seen"),
        ("vllm-0.32.0-9666ce4b", 1, Layout(), "layout_seen"),
        ("vllm-0.32.0-9666ce4b", 8, Layout(dp=8), "layout_seen"),
        ("vllm-0.32.0-tp2-dp8-9666ce4b", 1, Layout(tp=2, pp=1, dp=1), "layout_differs"),
        ("vllm-0.32.0-tp2-dp8-9666ce4b", None, Layout(tp=2, pp=1, dp=8), "layout_seen"),
        ("my-own-tp4-name", 1, Layout(), "layout_seen"),
        (None, 1, Layout(), "layout_seen"),
        (None, 4, Layout(dp=4), "layout_seen"),
    ],
)
def test_layout(fingerprint: str | None, engines: int | None, layout: Layout, code: Code) -> None:
    check, seen = checks.layout_check(fingerprint, engines, "0.20.0" if fingerprint is None else "0.32.0")
    assert (seen, check.status, found(check).code) == (layout, "warn" if code == "layout_differs" else "pass", code)
    assert figures(check, "tp", "pp", "dp") == (layout.tp, layout.pp, layout.dp)
    assert figures(check, *(["told_dp"] if code == "layout_differs" else ["no_fingerprint"])) == (
        (8,) if code == "layout_differs" else (fingerprint is None,)
    )


def test_traffic() -> None:
    idle = checks.traffic_check(sample(0, 0), False)
    assert (idle.status, idle.message) == ("pass", fact("no_traffic"))
    busy = checks.traffic_check(sample(3, 2), False)
    assert (busy.status, busy.message) == ("refuse", fact("server_busy", others=5, running=3, waiting=2))
    agreed = checks.traffic_check(sample(3, 2), True)
    assert (agreed.status, agreed.message) == ("warn", fact("server_shared", others=5, running=3, waiting=2))
    assert checks.traffic_check(sample(1, None), False).message == fact("server_busy", others=1, running=1, waiting=0)
    for unknown in (sample(None, None), None):
        check = checks.traffic_check(unknown, False)
        assert (check.status, check.message) == ("warn", fact("traffic_unknown"))

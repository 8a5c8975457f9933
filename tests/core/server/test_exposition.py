import math
import re
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.records import EngineSample, ServerSample
from core.server.exposition import RouterPage, ScrapeError, cache_config, kv_capacity_tokens, page, parse
from tests.core.server.fakes import capture

TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def read(text: str, content_type: str = TEXT, models: tuple[str, ...] = ()) -> ServerSample:
    return parse(text, content_type, t=12.5, took_s=0.01, models=models)


def test_capture_of_0_32_under_preemption() -> None:
    sample = read(capture("0.32.0-preempting"))
    assert sample == ServerSample(
        t=12.5,
        took_s=0.01,
        engines=1,
        running=9.0,
        waiting=50.0,
        kv_usage_frac=1.0,
        kv_usage_max_frac=1.0,
        waiting_deferred=0.0,
        waiting_capacity=50.0,
        preemptions_total=370.0,
        prompt_tokens_total=36746.0,
        generation_tokens_total=59726.0,
        requests_success_total=294.0,
        prefix_queries_total=36746.0,
        prefix_hits_total=0.0,
        ttft_s=(216.80418848991394, 305.0),
        queue_time_s=(196.9073485130025, 294.0),
        prefill_time_s=(2.4957404730002963, 294.0),
        decode_time_s=(169.80458134699688, 294.0),
        epoch=1.79596475203e09,
    )


@pytest.mark.parametrize(("name", "epoch"), [("0.32.0-idle", 1.79596453203e09), ("0.15.1-idle", 1.79596788506e09)])
def test_captures_of_idle_servers(name: str, epoch: float) -> None:
    sample = read(capture(name))
    assert (sample.running, sample.waiting, sample.kv_usage_max_frac, sample.preemptions_total) == (0, 0, 0, 0)
    assert (sample.prompt_tokens_total, sample.generation_tokens_total, sample.requests_success_total) == (16, 8, 2)
    assert (sample.prefix_queries_total, sample.prefix_hits_total) == (16, 0)
    assert sample.epoch == epoch


def without_total(text: str) -> str:
    """The same exposition with counters stripped of their suffix, as some exporters pass them on."""
    return re.sub(r"^((?:# (?:HELP|TYPE) )?vllm:\w+?)_total(?=[{ ])", r"\1", text, flags=re.M).replace(
        "vllm:iteration_tokens", "vllm:it"
    )


def openmetrics(text: str) -> str:
    """The same families as OpenMetrics: TYPE names the base, `_created` stands in the counter's own family."""
    text = re.sub(r"^# (?:HELP|TYPE) vllm:\w+_created .*\n", "", text, flags=re.M)
    text = re.sub(r"^(# (?:HELP|TYPE) vllm:\w+?)_total (?!histogram)", r"\1 ", text, flags=re.M)
    return text.rstrip("\n") + "\n# EOF\n"


@pytest.mark.parametrize("name", ["0.32.0-idle", "0.32.0-preempting", "0.15.1-idle"])
@pytest.mark.parametrize("change", [without_total, openmetrics])
@pytest.mark.parametrize("content_type", [TEXT, OPENMETRICS])
def test_other_forms_read_the_same(name: str, change: object, content_type: str) -> None:
    assert callable(change)
    changed = change(capture(name))
    assert changed != capture(name)
    assert read(changed, content_type) == read(capture(name))


V0 = """\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{model_name="m"} 3.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{model_name="m"} 2.0
# TYPE vllm:num_requests_swapped gauge
vllm:num_requests_swapped{model_name="m"} 1.0
# TYPE vllm:gpu_cache_usage_perc gauge
vllm:gpu_cache_usage_perc{model_name="m"} 0.25
# TYPE vllm:cpu_cache_usage_perc gauge
vllm:cpu_cache_usage_perc{model_name="m"} 0.75
# TYPE vllm:num_preemptions_total counter
vllm:num_preemptions_total{model_name="m"} 4.0
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{model_name="m"} 512.0
# TYPE vllm:time_in_queue_requests histogram
vllm:time_in_queue_requests_bucket{le="+Inf",model_name="m"} 7.0
vllm:time_in_queue_requests_count{model_name="m"} 7.0
vllm:time_in_queue_requests_sum{model_name="m"} 1.5
"""


def test_v0_names() -> None:
    sample = read(V0)
    assert (sample.running, sample.waiting, sample.preemptions_total, sample.prompt_tokens_total) == (3, 2, 4, 512)
    assert (sample.kv_usage_frac, sample.kv_usage_max_frac, sample.queue_time_s) == (0.25, 0.25, (1.5, 7))
    assert sample.engines == 1


def test_what_is_not_exposed_is_none() -> None:
    sample = read(V0)
    assert sample.prefix_hits_total is None
    assert sample.generation_tokens_total is None
    assert sample.ttft_s is None
    assert sample.epoch is None


def test_0_8_prefix_counters_under_their_old_names() -> None:
    sample = read(
        'vllm:gpu_prefix_cache_queries_total{model_name="m"} 40\nvllm:gpu_prefix_cache_hits_total{model_name="m"} 5\n'
        '# TYPE vllm:gpu_cache_usage_perc gauge\nvllm:gpu_cache_usage_perc{model_name="m"} 0.5\n'
    )
    assert (sample.prefix_queries_total, sample.prefix_hits_total, sample.kv_usage_frac) == (40, 5, 0.5)


def test_the_newer_name_wins() -> None:
    sample = read('vllm:gpu_cache_usage_perc{engine="0"} 0.1\nvllm:kv_cache_usage_perc{engine="0"} 0.9\n')
    assert sample.kv_usage_frac == 0.9


ENGINES = """\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_running{engine="1",model_name="m"} 5.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="m"} 1.0
vllm:num_requests_waiting{engine="1",model_name="m"} 2.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.4
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.8
# TYPE vllm:prompt_tokens counter
vllm:prompt_tokens_total{engine="0",model_name="m"} 100.0
vllm:prompt_tokens_total{engine="1",model_name="m"} 20.0
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_sum{engine="0",model_name="m"} 1.5
vllm:time_to_first_token_seconds_sum{engine="1",model_name="m"} 0.5
vllm:time_to_first_token_seconds_count{engine="0",model_name="m"} 3.0
vllm:time_to_first_token_seconds_count{engine="1",model_name="m"} 1.0
"""


def test_engines_are_added_up_but_never_their_kv_usage() -> None:
    sample = read(ENGINES)
    assert (sample.engines, sample.running, sample.waiting, sample.prompt_tokens_total) == (2, 8, 3, 120)
    assert sample.kv_usage_frac == pytest.approx(0.6)
    assert sample.kv_usage_max_frac == 0.8
    assert sample.ttft_s == (2.0, 4.0)


def test_each_engine_keeps_its_own_rows() -> None:
    assert read(ENGINES).by_engine == (
        EngineSample(name="0", model="m", running=3, waiting=1, kv_usage_frac=0.4, prompt_tokens_total=100),
        EngineSample(name="1", model="m", running=5, waiting=2, kv_usage_frac=0.8, prompt_tokens_total=20),
    )
    assert read(capture("0.32.0-preempting")).by_engine is None


def test_a_row_that_is_missing_leaves_the_names_of_the_others() -> None:
    three = "".join(f'vllm:num_requests_running{{engine="{n}",model_name="m"}} {n}\n' for n in range(3))
    without = "\n".join(line for line in three.split("\n") if 'engine="1"' not in line)
    names = [row.name for row in read(three).by_engine or ()]
    assert (names, [row.name for row in read(without).by_engine or ()]) == (["0", "1", "2"], ["0", "2"])
    assert read(three[: three.index("\n") + 1]).by_engine is None


BACKENDS = """\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",instance="a:8000",model_name="m"} 8.0
vllm:num_requests_running{engine="0",instance="b:8000",model_name="m"} 1.0
# TYPE vllm:request_success counter
vllm:request_success_total{engine="0",finished_reason="stop",instance="a:8000",model_name="m"} 3.0
vllm:request_success_total{engine="0",finished_reason="length",instance="a:8000",model_name="m"} 40.0
vllm:request_success_total{engine="0",finished_reason="length",instance="b:8000",model_name="m"} 7.0
# TYPE process_start_time_seconds gauge
process_start_time_seconds{instance="a:8000"} 100.0
process_start_time_seconds{instance="b:8000"} 250.0
"""


def test_backends_on_one_page_are_told_apart_by_whatever_label_they_have() -> None:
    sample = read(BACKENDS)
    assert (sample.engines, sample.running, sample.epoch) == (2, 9, 250.0)
    assert sample.by_engine == (
        EngineSample(name="a:8000", model="m", running=8, requests_success_total=43, started=100.0),
        EngineSample(name="b:8000", model="m", running=1, requests_success_total=7, started=250.0),
    )


def test_another_model_on_the_page_is_a_row_but_no_engine_more() -> None:
    sample = read(
        'vllm:num_requests_running{engine="0",model_name="m"} 3\nvllm:num_requests_running{engine="0",model_name="n"} 5\n'
    )
    assert (sample.engines, sample.running) == (1, 8)
    assert [(row.name, row.model) for row in sample.by_engine or ()] == [("m", "m"), ("n", "n")]


def test_waiting_requests_are_told_apart_by_what_they_wait_for() -> None:
    rows = "".join(
        f'vllm:num_requests_waiting_by_reason{{engine="{n}",model_name="m",reason="{reason}"}} {value}\n'
        for n, reason, value in ((0, "capacity", 1), (0, "deferred", 5), (1, "capacity", 0), (1, "deferred", 2))
    )
    sample = read(ENGINES + rows)
    assert (sample.waiting_capacity, sample.waiting_deferred) == (1, 7)
    assert (read(ENGINES).waiting_capacity, read(ENGINES).waiting_deferred) == (None, None)


def test_a_reading_of_several_engines_comes_back_from_a_file_as_it_was() -> None:
    sample = read(BACKENDS)
    assert msgspec.json.decode(msgspec.json.encode(sample), type=ServerSample) == sample


# --- other names of the same metrics ---------------------------------------------------------------------------------


def renamed(text: str, prefix: str) -> str:
    """The same exposition with another prefix before vLLM's names."""
    return re.sub(r"^((?:# (?:HELP|TYPE) )?)vllm:", rf"\1{prefix}", text, flags=re.M)


def twice(text: str) -> str:
    """Each counter also without `_total`, as a gauge, as Ray shows it."""
    again = re.findall(r"^(?:# TYPE )?vllm:\w+?_total(?:\{.*| counter)$", text, flags=re.M)
    return text + "".join(f"{line.replace('_total', '', 1).replace(' counter', ' gauge')}\n" for line in again)


@pytest.mark.parametrize("name", ["0.32.0-idle", "0.32.0-preempting", "0.15.1-idle"])
@pytest.mark.parametrize("prefix", ["ray_vllm:", "ray_vllm_", "vllm_"])
@pytest.mark.parametrize("change", [lambda text: text, twice, openmetrics])
@pytest.mark.parametrize("content_type", [TEXT, OPENMETRICS])
def test_other_prefixes_read_the_same(name: str, prefix: str, change: Callable[[str], str], content_type: str) -> None:
    changed = renamed(change(capture(name)), prefix)
    assert "\nvllm:" not in changed
    assert read(changed, content_type) == read(capture(name))
    assert cache_config(changed, content_type) == cache_config(capture(name), TEXT)
    assert page(changed, content_type).models == ("tiny",)


RAY = (
    'Component="core_worker",NodeAddress="10.0.0.7",ReplicaId="{0}",SessionName="session_1",Version="2.60.0",WorkerId="{0}0ff",'
    'engine="0",model_name="m"'
)


def ray(name: str, replica: str, value: float, more: str = "") -> str:
    return f"{name}{{{RAY.format(replica)}{more}}} {value}\n"


RAY_PAGE = (
    ray("ray_vllm_num_requests_running", "a1", 3)
    + ray("ray_vllm_num_requests_running", "b2", 5)
    + ray("ray_vllm_num_requests_waiting", "a1", 0)
    + ray("ray_vllm_num_requests_waiting", "b2", 2)
    + ray("ray_vllm_kv_cache_usage_perc", "a1", 0.25)
    + ray("ray_vllm_kv_cache_usage_perc", "b2", 0.75)
    + "".join(ray(f"ray_vllm_request_success{total}", "a1", 7, ',finished_reason="length"') for total in ("_total", ""))
    + "".join(ray(f"ray_vllm_prompt_tokens{total}", replica, 40) for total in ("", "_total") for replica in ("a1", "b2"))
    + ray("ray_vllm_cache_config_info", "a1", 1, ',block_size="16",num_gpu_blocks="100"')
    + ray("ray_vllm_cache_config_info", "b2", 1, ',block_size="16",num_gpu_blocks="90"')
    + "".join(ray("ray_vllm_prefix_cache_queries_total", replica, 40) for replica in ("a1", "b2"))
)


def test_replicas_of_ray_serve_are_backends() -> None:
    sample = read(RAY_PAGE)
    assert (sample.engines, sample.running, sample.waiting, sample.prompt_tokens_total) == (2, 8, 2, 80)
    assert (sample.requests_success_total, sample.kv_usage_max_frac, sample.epoch) == (7, 0.75, None)
    assert [(row.name, row.running, row.requests_success_total) for row in sample.by_engine or ()] == [
        ("a1", 3, 7),
        ("b2", 5, None),
    ]


def test_blocks_of_several_frontends_are_added_up() -> None:
    labels = cache_config(RAY_PAGE, TEXT)
    assert labels["num_gpu_blocks"] == "190"
    assert not {"ReplicaId", "WorkerId", "engine"} & labels.keys()
    assert kv_capacity_tokens(labels, engines=2) == (95 - 1) * 16 * 2


def test_a_counter_that_ray_does_not_show_yet_is_0_and_any_other_is_not_known() -> None:
    """Ray shows a counter from its first increase on: cold prompts leave no row of hits."""
    sample = read(RAY_PAGE)
    assert (sample.prefix_queries_total, sample.prefix_hits_total, sample.preemptions_total) == (80, 0, 0)
    assert sample.ttft_s is None
    plain = read(re.sub(r'(ReplicaId|WorkerId)="\w+",', "", RAY_PAGE))
    assert (plain.prefix_hits_total, plain.preemptions_total) == (None, None)


def test_one_engine_under_two_names_counts_once_and_two_engines_under_two_names_twice() -> None:
    both = renamed(ENGINES, "ray_vllm:") + renamed(ENGINES, "ray_vllm_")
    assert read(both) == read(ENGINES)
    other = renamed(ENGINES, "ray_vllm_").replace('engine="', 'engine="1')
    assert (read(ENGINES + other).running, read(ENGINES + other).engines) == (16, 4)


ROUTER = "".join(
    f'vllm:{name}{{server="http://10.0.0.{n}:8000"}} {value}\n'
    for name, value in (
        ("num_requests_running", 9.0),
        ("num_requests_swapped", 0.0),
        ("gpu_prefix_cache_hits_total", 0.0),
        ("gpu_prefix_cache_queries_total", 0.0),
        ("current_qps", 2.5),
        ("healthy_pods_total", 1.0),
    )
    for n in (1, 2)
)


@pytest.mark.parametrize(
    "text",
    [
        ROUTER,
        "process_start_time_seconds 100.0\n" + ROUTER,
        ROUTER.replace("num_requests_swapped", "num_requests_waiting"),
        "\n".join(line for line in ROUTER.split("\n") if "prefix" in line) + "\n",
        ROUTER.replace("{server", '{model="m",pod="router-0",server'),
        renamed(ROUTER, "vllm_"),
    ],
    ids=["as it is", "with its start", "with waiting", "prefix alone", "with more labels", "without colons"],
)
def test_a_page_of_a_router_is_no_engine(text: str) -> None:
    with pytest.raises(RouterPage, match="router's figures over 2 servers") as caught:
        read(text)
    assert caught.value.servers == page(text, TEXT).servers == 2


@pytest.mark.parametrize("engines", [ENGINES, BACKENDS, RAY_PAGE, capture("0.32.0-preempting")])
def test_a_routers_rows_beside_those_of_engines_are_left_out(engines: str) -> None:
    assert read(ROUTER + engines) == read(engines)
    assert read(engines + ROUTER, OPENMETRICS) == read(engines)
    assert cache_config(ROUTER + engines, TEXT) == cache_config(engines, TEXT)
    assert (page(ROUTER + engines, TEXT).servers, page(engines, TEXT).servers) == (2, 0)


def test_an_engine_whose_rows_have_a_label_server_is_an_engine() -> None:
    labelled = capture("0.32.0-idle").replace("{", '{server="a",')
    labelled = labelled.replace("\nprocess_start_time_seconds ", '\nprocess_start_time_seconds{server="a"} ')
    assert read(labelled) == read(capture("0.32.0-idle"))
    assert page(labelled, TEXT).servers == 0
    assert kv_capacity_tokens(cache_config(labelled, TEXT), 1) == 2097152


OTHERS = """\
vllm:num_requests_running{engine="0",instance="c:8000",model_name="n"} 50.0
vllm:num_requests_waiting{engine="0",instance="c:8000",model_name="n"} 20.0
vllm:kv_cache_usage_perc{engine="0",instance="c:8000",model_name="n"} 1.0
vllm:num_preemptions_total{engine="0",instance="c:8000",model_name="n"} 9.0
vllm:request_success_total{engine="0",finished_reason="stop",instance="c:8000",model_name="n"} 900.0
process_start_time_seconds{instance="c:8000"} 900.0
vllm:cache_config_info{block_size="16",engine="0",instance="c:8000",num_gpu_blocks="7777"} 1.0
"""


def of_backend(name: str) -> str:
    return "".join(f"{line}\n" for line in BACKENDS.split("\n") if f'instance="{name}:8000"' in line)


def test_only_our_model_counts() -> None:
    assert read(BACKENDS + OTHERS, models=("m",)) == read(BACKENDS)
    assert read(OTHERS + BACKENDS, OPENMETRICS, models=("m",)) == read(BACKENDS)
    assert read(BACKENDS + OTHERS, models=("n",)) == read(OTHERS)
    both = read(BACKENDS + OTHERS)
    assert (both.running, both.waiting, both.engines) == (59, 20, 3)
    assert page(BACKENDS + OTHERS, TEXT).models == ("m", "n")


def test_a_start_of_another_models_engine_is_none_of_ours() -> None:
    ours, restarted = of_backend("a"), OTHERS.replace(" 900.0", " 999.0")
    assert read(ours + OTHERS, models=("m",)) == read(ours + restarted, models=("m",)) == read(ours)
    assert read(ours).epoch == 100.0


def test_rows_that_name_no_model_are_ours_too() -> None:
    text = 'vllm:num_requests_running{engine="0"} 2\nvllm:num_requests_running{engine="1",model_name="n"} 7\n'
    assert read(text, models=("m",)).running == 2


def test_a_reading_without_our_model_is_none_of_anothers() -> None:
    with pytest.raises(ScrapeError, match="nothing of m in it, only of n"):
        read(OTHERS, models=("m",))
    with pytest.raises(ScrapeError, match="no vLLM metrics"):
        read("process_start_time_seconds 1\n", models=("m",))


def test_the_cache_is_that_of_our_model_though_its_row_names_none() -> None:
    info = 'vllm:cache_config_info{{block_size="16",engine="0",instance="{}:8000",num_gpu_blocks="{}"}} 1.0\n'
    ours = BACKENDS + info.format("a", 100) + info.format("b", 120)
    assert cache_config(ours + OTHERS, TEXT, ("m",)) == {"block_size": "16", "num_gpu_blocks": "220"}
    assert cache_config(ours + OTHERS, TEXT, ("n",)) == {"block_size": "16", "num_gpu_blocks": "7777"}


def test_a_busy_second_engine_is_seen_while_the_first_is_idle() -> None:
    drained = ENGINES.replace('running{engine="0",model_name="m"} 3.0', 'running{engine="0",model_name="m"} 0.0')
    assert read(drained).running == 5


def test_label_values_with_commas_quotes_and_line_separators() -> None:
    labels = 'engine="0",model_name="a,b=\\"c\\" {d} \u2028 \\\\ e\\n"'
    sample = read(f"vllm:num_requests_running{{{labels}}} 4\nvllm:num_requests_waiting{{{labels}}} 1\n")
    assert (sample.engines, sample.running, sample.waiting) == (1, 4, 1)


def test_created_is_never_a_value_but_tells_the_epoch_where_the_process_does_not() -> None:
    sample = read(
        "# TYPE vllm:prompt_tokens counter\n"
        'vllm:prompt_tokens_total{engine="0"} 7\n'
        "# TYPE vllm:prompt_tokens_created gauge\n"
        'vllm:prompt_tokens_created{engine="0"} 1.7e9\n'
        'vllm:prompt_tokens_created{engine="1"} 1.8e9\n'
    )
    assert (sample.prompt_tokens_total, sample.epoch) == (7, 1.8e9)


def test_only_created_is_no_counter() -> None:
    sample = read(
        'vllm:num_requests_running 1\n# TYPE vllm:prompt_tokens_created gauge\nvllm:prompt_tokens_created{engine="0"} 1.7e9\n'
    )
    assert sample.prompt_tokens_total is None


def test_a_histogram_called_total_is_no_counter() -> None:
    assert "vllm:iteration_tokens_total_sum" in capture("0.32.0-idle")
    text = (
        capture("0.32.0-idle")
        .replace("vllm:generation_tokens_total", "vllm:gone")
        .replace("vllm:iteration_tokens", "vllm:generation_tokens")
    )
    assert "# TYPE vllm:generation_tokens_total histogram" in text
    for form, content_type in ((text, TEXT), (openmetrics(text), OPENMETRICS)):
        assert read(form, content_type).generation_tokens_total is None


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf"])
@pytest.mark.parametrize("content_type", [TEXT, OPENMETRICS])
def test_what_is_not_finite_is_not_available(value: str, content_type: str) -> None:
    text = ENGINES.replace("} 5.0", f"}} {value}").replace("} 0.8", f"}} {value}").replace("} 20.0", f"}} {value}")
    sample = read(text.replace("} 0.5", f"}} {value}") + "# EOF\n", content_type)
    assert (sample.running, sample.kv_usage_frac, sample.kv_usage_max_frac) == (None, None, None)
    assert (sample.prompt_tokens_total, sample.ttft_s) == (None, None)
    assert sample.waiting == 3


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_body_is_named(text: str) -> None:
    with pytest.raises(ScrapeError, match="empty"):
        read(text)


def test_a_server_without_log_stats_is_named() -> None:
    others = "\n".join(line for line in capture("0.32.0-idle").split("\n") if "vllm:" not in line)
    with pytest.raises(ScrapeError, match="--disable-log-stats"):
        read(others)


def test_a_page_of_html_is_no_metrics() -> None:
    with pytest.raises(ScrapeError, match="no vLLM metrics"):
        read("<html><body>Not here</body></html>", "text/html")


def test_a_malformed_line_of_ours_is_a_failed_reading_and_one_of_others_is_not() -> None:
    with pytest.raises(ScrapeError, match="cannot be read"):
        read('vllm:num_requests_running{engine="0} x\n')
    assert read('some_other{label="0} x\nvllm:num_requests_running 2\n').running == 2


def test_more_values_than_can_be_read_in_time_are_refused_with_a_sentence() -> None:
    """A million rows, or one row without end, would keep the parser busy for half a minute."""
    for body in ("vllm:num_requests_running 1\n" * 100_000, 'vllm:num_requests_running{a="' + "x" * 3_000_000):
        with pytest.raises(ScrapeError, match="more than 2 MiB of vLLM's values"):
            read(body)
    assert read("other_metric 1\n" * 200_000 + "vllm:num_requests_running 1\n").running == 1


@given(st.text(max_size=300), st.sampled_from([TEXT, OPENMETRICS]))
def test_any_text_is_a_sample_or_a_scrape_error(text: str, content_type: str) -> None:
    for body in (text, f"vllm:num_requests_running {text}", f"vllm:num_requests_running{{{text}"):
        try:
            sample = read(body, content_type)
        except ScrapeError:
            continue
        assert sample.running is None or math.isfinite(sample.running)


@pytest.mark.parametrize(
    ("name", "tokens", "blocks"),
    [("0.32.0-idle", 2097152, "16384"), ("0.32.0-preempting", 3072, "24"), ("0.15.1-idle", 2097024, "16384")],
)
def test_kv_capacity_of_the_captures(name: str, tokens: int, blocks: str) -> None:
    labels = cache_config(capture(name), TEXT)
    assert (labels["num_gpu_blocks"], labels["block_size"]) == (blocks, "128")
    assert kv_capacity_tokens(labels, engines=1) == tokens
    assert "sliding_window" not in labels  # "None" is not a value
    assert "engine" not in labels


def test_cache_config_of_several_engines() -> None:
    row = 'vllm:cache_config_info{{engine="{}",block_size="16",num_gpu_blocks="{}",kv_cache_size_tokens="{}",kv="a,\\"b"}} 1.0\n'
    labels = cache_config(row.format(0, 900, 8000) + row.format(1, 1000, 7000) + row.format(2, "None", ""), TEXT)
    assert labels == {"block_size": "16", "num_gpu_blocks": "1000", "kv_cache_size_tokens": "7000", "kv": 'a,"b'}
    assert kv_capacity_tokens(labels, engines=3) == 21000


@pytest.mark.parametrize("content_type", [TEXT, OPENMETRICS])
def test_cache_config_that_is_not_there(content_type: str) -> None:
    assert cache_config(V0 + "# EOF\n", content_type) == {}
    assert cache_config('vllm:cache_config_info{block_size="16} x\n', content_type) == {}


def test_blocks_are_those_of_all_engines_with_one_null_block_each() -> None:
    assert kv_capacity_tokens({"num_gpu_blocks": "1000", "block_size": "16"}, engines=2) == (500 - 1) * 16 * 2


@pytest.mark.parametrize(
    ("labels", "engines", "tokens"),
    [
        # V0 and V1 0.9 to 0.23: blocks; V1 0.7 to 0.8: "None", unless it was set; 0.24 on: tokens, of each engine
        ({"num_gpu_blocks": "2813", "block_size": "16"}, 1, 2812 * 16),
        ({"block_size": "16", "num_gpu_blocks_override": "512"}, 1, 511 * 16),
        ({"block_size": "16", "num_gpu_blocks_override": "512"}, 4, 4 * 511 * 16),
        ({"num_gpu_blocks": "2048", "block_size": "16", "num_gpu_blocks_override": "512"}, 4, 4 * 511 * 16),
        ({"num_gpu_blocks": "24", "block_size": "128", "kv_cache_size_tokens": "3072"}, 1, 3072),
        ({"num_gpu_blocks": "96", "block_size": "128", "kv_cache_size_tokens": "3072", "sliding_window": "512"}, 4, 12288),
    ],
)
def test_every_generation_of_labels_gives_the_capacity_of_all_engines(labels: dict[str, str], engines: int, tokens: int) -> None:
    assert kv_capacity_tokens(labels, engines) == tokens


@pytest.mark.parametrize(
    "labels",
    [
        {},
        {"num_gpu_blocks": "1000"},
        {"block_size": "16"},
        {"num_gpu_blocks": "x", "block_size": "16"},
        {"num_gpu_blocks": "1", "block_size": "16"},
        {"kv_cache_size_tokens": "9" * 5000},
        {"num_gpu_blocks": "1000", "block_size": "16", "sliding_window": "4096"},
        {"num_gpu_blocks": "1000", "block_size": "16", "mamba_block_size": "512"},
        {"num_gpu_blocks": "1000", "block_size": "16", "is_attention_free": "True"},
    ],
)
def test_capacity_that_is_not_known(labels: dict[str, str]) -> None:
    assert kv_capacity_tokens(labels, engines=1) is None

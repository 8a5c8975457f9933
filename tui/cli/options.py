"""Every option of a run and of a fleet, in one table: its heading, flag and help, what reads it, and where its value goes.

Values are read by the configuration's own parsers, so that every front end rejects the same input with the same sentence.
`tui/cli/configure.py` makes a configuration of them.
"""

import click

from core.access import public_address
from core.config import parse_duration_s, parse_fraction
from core.history import parse_label
from core.modes import usual_time
from core.workloads import parse_gateway, parse_mix, parse_prefix, parse_think_s, parse_window
from tui.cli import inputs
from tui.cli.click_types import Option, Reads
from tui.draw import symbols

SERVER, ACCESS, LIMITS, WORKLOAD, METHOD = "Server", "Access", "Limits", "Workload", "Search"
SAFETY, FLEET, HARDWARE, OUTPUT, REPLICA = "Safety", "Fleet", "Hardware on paper", "Output", "One replica"
CHANGE, ASKED, WATCH, TUNE, CHECKED = "Change", "Asked", "Replicas", "Settings", "Fleet"
MACHINES = "Sending machines"

_COMMAND = Reads("'command'", inputs.read_command)
_CORRELATION = Reads("r", inputs.read_correlation)
_COUNT = Reads("n", inputs.read_count)
_DATASET = Reads("file", inputs.read_dataset)
_DURATION = Reads("duration", parse_duration_s)
_GATEWAY = Reads("n,queue=m,timeout=t", parse_gateway)
_GPU = Reads("name", inputs.read_gpu)
_HEADER = Reads("'name: value'", inputs.read_header)
_LABEL = Reads("text", parse_label)
_LENGTH = Reads("tokens", inputs.read_length)
_LENGTHS_FILE = Reads("file", inputs.read_file_of_lengths)
_LIMIT = Reads("duration|none", inputs.read_limit)
_MIX = Reads("in:out=weight,...", parse_mix)
_NAME_PORT = Reads("name:port", inputs.read_place)
_NUMBER = Reads("number", inputs.read_number)
_PLACES = Reads("n", inputs.read_places)
_PORT = Reads("n", inputs.read_port)
_PREFIX = Reads("cold|shared:tokens/groups|turns|trace", parse_prefix)
_PROXY = Reads("address", inputs.read_proxy)
_RATE = Reads("rate", inputs.read_rate)
_RATES = Reads("rate,rate,...", inputs.read_rates)
_REPLICA_URL = Reads("url", inputs.read_replica)
_SHARE = Reads("share", parse_fraction)
_THINK = Reads("duration", parse_think_s)
_TOKENS = Reads("tokens", inputs.read_tokens)
_TRIED = Reads("name=a,b,c", inputs.read_tried)
_URL = Reads("url", inputs.read_url)
_URL_OF_PORT = Reads("url", inputs.read_url_of_port)
_USER_RATE = Reads("rate", inputs.read_user_rate)
_WHOLE = Reads("n", inputs.read_whole)
_WINDOW = Reads("length@begin", parse_window)
_WORKERS = Reads("auto|host:port|local:n", inputs.read_workers)

_SERVER = (
    Option(SERVER, "--model", "target.model", "Model to request [default: the server's only model, else you are asked]."),
    Option(SERVER, "--api", "target.api", "API to load [default: completions].", type=click.Choice(["completions", "chat"])),
    Option(
        SERVER,
        "--metrics-url",
        "target.metrics_url",
        "URL of the server's Prometheus metrics [default: /metrics on the API's address].",
        type=_URL,
    ),
    Option(
        SERVER,
        "--gpu-metrics-url",
        "target.gpu_metrics_url",
        "URL of a DCGM or node exporter on the server's host; adds GPU and host figures to the diagnosis [default: none].",
        type=_URL,
    ),
)

_ACCESS = (
    Option(
        ACCESS,
        "--api-key-file",
        "",
        "File with the API key [default: KNEESCOPE_API_KEY, else you are asked on a 401]. No option takes the key itself.",
        metavar="FILE",
    ),
    Option(
        ACCESS,
        "--header",
        "access.headers",
        "HTTP header for a gateway, 'Name: value'. Repeatable, and kept secret like a key. 'Name: env:VARIABLE' and"
        " 'Name: file:PATH' keep the value out of process lists.",
        type=_HEADER,
        secret=True,
        multiple=True,
    ),
    Option(
        ACCESS,
        "--ca-file",
        "access.ca_file",
        "PEM file of certificate authorities to trust in addition to the usual ones.",
        metavar="FILE",
    ),
    Option(ACCESS, "--client-cert", "access.client_cert", "PEM file of the client certificate.", metavar="FILE"),
    Option(
        ACCESS,
        "--client-key",
        "access.client_key",
        "PEM file of the client certificate's key, if it is not in the same file.",
        metavar="FILE",
    ),
    Option(
        ACCESS, "--insecure", "target.insecure", "Do not verify the server's certificate; the result records this.", is_flag=True
    ),
    Option(
        ACCESS,
        "--proxy",
        "access.proxy target.proxy",
        "HTTP proxy, such as http://proxy:3128, or env:VARIABLE for one with a password. HTTP_PROXY and the like are"
        " ignored, and this machine is always reached directly.",
        type=_PROXY,
        recorded=public_address,
    ),
)
"""Keys, headers and the proxy's password go where they must and are recorded nowhere."""

_SOURCES = (
    Option(WATCH, "--replicas-file", "", "File with one address a line; read again every 30 s.", metavar="FILE"),
    Option(
        WATCH,
        "--dns",
        "",
        "DNS name of a headless service: every address it has is a replica. Looked up again every 30 s.",
        type=_NAME_PORT,
    ),
    Option(
        WATCH,
        "--prometheus",
        "",
        "Address of a Prometheus server that is asked --query every 30 s; no key is sent to it.",
        type=_URL,
    ),
    Option(
        WATCH,
        "--query",
        "",
        "PromQL such as 'up{job=\"vllm\"}': each result's label url, else instance, is a replica.",
        metavar="QUERY",
    ),
)
"""Where replicas are told of."""

_REPLICAS = (
    Option(
        WATCH,
        "--replica",
        "",
        "Address of a replica behind the gateway that is probed. Repeatable. The metrics of each are read in place of the"
        " gateway's own; no load is sent to it directly.",
        type=_REPLICA_URL,
        multiple=True,
    ),
    *_SOURCES,
    Option(
        WATCH,
        "--replica-key-file",
        "",
        "File with the API key of the replicas [default: none; the gateway's key is not sent to them].",
        metavar="FILE",
    ),
    Option(
        WATCH,
        "--replica-header",
        "",
        "HTTP header for the replicas, as --header is for the gateway. Repeatable, and kept secret like a key.",
        type=_HEADER,
        secret=True,
        multiple=True,
    ),
)
"""The replicas behind the gateway that is probed."""

_LIMITS = (
    Option(
        LIMITS,
        "--ttft",
        "slo.ttft_s",
        "Limit on the time to first token, such as 800ms, or none [default: 800ms; demo: the replica's own]. Setting any"
        " limit turns off the defaults of the others.",
        type=_LIMIT,
    ),
    Option(
        LIMITS,
        "--tpot",
        "slo.tpot_s",
        "Limit on the time per output token after the first, such as 50ms, or none [default: 50ms; demo: the replica's own].",
        type=_LIMIT,
    ),
    Option(
        LIMITS,
        "--e2e",
        "slo.e2e_s",
        "Limit on the time to the end of the answer, such as 10s, or none [default: none; demo: the replica's own].",
        type=_LIMIT,
    ),
    Option(
        LIMITS,
        "--target",
        "slo.target",
        "Share of requests that must meet every limit [default: 95%; demo: the replica's own].",
        type=_SHARE,
    ),
    Option(
        LIMITS, "--max-error-rate", "slo.max_error_rate", "Share of requests that may end in an error [default: 1%].", type=_SHARE
    ),
)

_WORKLOAD = (
    Option(
        WORKLOAD,
        "--input-tokens",
        "workload.input_tokens",
        "Prompt length in tokens: N, or lognormal:MEDIAN,SIGMA,MAX [default: 512; demo: the replica's own].",
        type=_LENGTH,
    ),
    Option(
        WORKLOAD,
        "--output-tokens",
        "workload.output_tokens",
        "Answer length in tokens: N, or lognormal:MEDIAN,SIGMA,MAX [default: 128; demo: the replica's own].",
        type=_LENGTH,
    ),
    Option(
        WORKLOAD,
        "--dataset",
        "workload.source",
        "File whose prompts are sent in place of made-up ones: ShareGPT JSON, OpenAI chat or batch JSONL, JSONL with prompt and"
        " output_tokens, or plain lines. --output-tokens is then the length of answers that no row tells [default: none].",
        type=_DATASET,
        recorded=inputs.dataset_source,
    ),
    Option(
        WORKLOAD,
        "--arrival-cv",
        "workload.arrival_cv",
        "Coefficient of variation of the gaps between arrivals: 1 is Poisson, 2 comes in bursts, 0.5 is more even. The gaps are"
        " gamma distributed; other tools call their shape burstiness: 1 / CV^2 [default: 1].",
        type=_NUMBER,
    ),
    Option(
        WORKLOAD,
        "--mix",
        "workload.mix",
        "Several kinds of request in place of one: prompt:answer=weight in tokens, such as 1024:128=3,4096:64=1@ttft=2s. Requests"
        " come in the shares of the weights; with @ttft=, @tpot= or @e2e= a kind has a limit of its own, or none.",
        type=_MIX,
    ),
    Option(
        WORKLOAD,
        "--lengths",
        "",
        "File of recorded lengths, drawn in pairs: two numbers a line, CSV or JSONL with names such as input_tokens and"
        " output_tokens, or a trace, of which the lengths alone are taken.",
        type=_LENGTHS_FILE,
        metavar="FILE",
    ),
    Option(
        WORKLOAD,
        "--length-correlation",
        "workload.length_correlation",
        "Correlation of the logarithms of prompt and answer lengths, -1 to 1, where both are lognormal [default: 0].",
        type=_CORRELATION,
    ),
    Option(
        WORKLOAD,
        "--stop",
        "workload.stop",
        "How answers end. exact: at the length asked for, with the model's stop conditions ignored (ignore_eos); natural: where the"
        " model ends them, and the length asked for is the most [default: exact].",
        type=click.Choice(["exact", "natural"]),
    ),
    Option(
        WORKLOAD,
        "--gateway-limit",
        "workload.gateway",
        "Model a gateway in front of the replica: at most N requests are open at the server, the others wait here in order of"
        " arrival, at most M of them and each for at most T, such as 64,queue=100,timeout=5s. The wait counts in TTFT and E2E;"
        " a request that is rejected or waits for too long is a miss [default: no limit; queue and timeout: none].",
        type=_GATEWAY,
    ),
    Option(
        WORKLOAD,
        "--retry-after",
        "workload.retry_after",
        "Send a request again, at most 3 times, when a 429 with Retry-After says when, and the limits can still be met"
        " [default: a 429 is an error].",
        is_flag=True,
    ),
    Option(
        WORKLOAD,
        "--prefix",
        "workload.prefix",
        "What prompts share: cold (nothing, and a repeat with prefix hits is void), or shared:TOKENS/GROUPS, such as shared:512/8:"
        " each prompt begins with the 512 tokens of one of 8 groups, and hits must be as planned; or trace: prompts share the"
        " blocks that a --trace names (hash_ids); or turns: a turn of a conversation (--dataset) finds the ones before it in the"
        " prefix cache [default: cold].",
        type=_PREFIX,
    ),
    Option(
        WORKLOAD,
        "--trace",
        "",
        "File of recorded traffic: requests come at its times and with its lengths, sped up or slowed down to each rate that is"
        " judged. Azure, BurstGPT, Mooncake, Qwen, RAGPulse or Vidur, or JSONL or CSV with timestamp, input_length and"
        " output_length; also gzip.",
        metavar="FILE",
    ),
    Option(
        WORKLOAD,
        "--trace-window",
        "",
        "Part of the trace to take: its length, and where it begins after the first request, such as 10m@2h, or 10m@busiest"
        " [default: all of it].",
        type=_WINDOW,
    ),
    Option(
        WORKLOAD,
        "--trace-scale",
        "",
        "Judge this speed instead of searching, as --rates does: 1 is as recorded, 2.5 is two and a half times as fast.",
        type=_NUMBER,
    ),
    Option(
        WORKLOAD,
        "--trace-unit",
        "",
        "What the trace's timestamps count, where its format does not tell [default: as the format tells].",
        type=click.Choice(["s", "ms", "us", "ns", "date"]),
    ),
    Option(
        WORKLOAD,
        "--trace-spread",
        "",
        "Spread requests that share a timestamp cut to 0.1 s or more over that step at random, in place of a burst at its"
        " beginning.",
        is_flag=True,
    ),
    Option(
        WORKLOAD,
        "--think-time",
        "workload.think_s",
        "Pause between an answer and the next turn of its conversation (--dataset), such as 0s or 5s [default: as recorded, else"
        " 0s].",
        type=_THINK,
    ),
)

_METHOD = (
    Option(
        METHOD,
        "--mode",
        "method.mode",
        f"How thoroughly to judge each rate. quick: 1 repeat of 40 s, {usual_time('quick')}, a first look; standard: 2 of 60 s"
        f" (of --rates 3 of 90 s), {usual_time('standard')}; acceptance: 10 of 60 s, {usual_time('acceptance')}, for sign-off"
        " [default: quick]. Slow servers and strict targets need longer windows; the expected time is shown before the load"
        " starts.",
        type=click.Choice(["quick", "standard", "acceptance"]),
    ),
    Option(
        METHOD, "--careful", "method.careful", f"Quick mode with 2 repeats of 30 s per rate, {usual_time('careful')}.", is_flag=True
    ),
    Option(
        METHOD, "--repeats", "method.repeats", "Repeats per rate, all of which must pass [default: set by --mode].", type=_COUNT
    ),
    Option(
        METHOD,
        "--measure",
        "method.measure_s",
        "Shortest measurement window of a repeat, such as 90s or 30m [default: set by --mode].",
        type=_DURATION,
    ),
    Option(
        METHOD,
        "--budget",
        "method.budget_s",
        "Time after which the search starts no new rate [default: set by --mode].",
        type=_DURATION,
    ),
    Option(
        METHOD,
        "--rates",
        "method.rates_rps",
        "Judge these rates instead of searching, such as 2,4,6.5. Give a single rate to verify it.",
        type=_RATES,
    ),
    Option(
        METHOD,
        "--hold",
        "method.hold_rps",
        "Hold this rate until you stop the run; on the screen, + and - change it by 10 %.",
        type=_RATE,
    ),
    Option(METHOD, "--require-rps", "method.require_rps", "Also judge this rate; exit code 1 if it does not pass.", type=_RATE),
    Option(
        METHOD,
        "--reset-cache",
        "method.reset_cache",
        "Reset the server's prefix cache between repeats and check that it worked.",
        is_flag=True,
    ),
    Option(
        METHOD,
        "--between",
        "method.between",
        "Shell command to run between repeats, such as a server restart; kneescope then waits until the server is ready. The"
        " command is never recorded.",
        type=_COMMAND,
        secret=True,
        recorded=bool,
    ),
    Option(
        METHOD,
        "--closed-loop",
        "method.closed_loop",
        "After the answer, show beside it what a benchmark with a fixed number of requests in flight would report: the number is"
        " doubled until the target fails, 20 s each [default: off; demo: the replica's own].",
        is_flag=True,
    ),
    Option(METHOD, "--start-rps", "method.start_rps", "First rate of the ramp [default: 2 / the idle E2E latency].", type=_RATE),
    Option(
        METHOD,
        "--drain",
        "method.drain_s",
        "Longest wait for open requests that no limit has decided [default: 2m].",
        type=_DURATION,
    ),
    Option(METHOD, "--seed", "method.seed", "Random seed for arrivals and requests [default: 11].", type=_WHOLE),
    Option(
        METHOD,
        "--arrival-seed",
        "method.arrival_seed",
        "Random seed for arrivals alone: the same requests at other times [default: as --seed].",
        type=_WHOLE,
    ),
    Option(
        METHOD,
        "--workload-seed",
        "method.workload_seed",
        "Random seed for lengths and prompts alone: other requests at the same times [default: as --seed].",
        type=_WHOLE,
    ),
)
"""Which rates are judged, how thoroughly, and what happens between two repeats."""

_SAFETY = (
    Option(
        SAFETY,
        "--max-rps",
        "safety.max_rps",
        "Limit on the rates that are tried: never load above this, warm-up included [default: no limit].",
        type=_RATE,
    ),
    Option(
        SAFETY,
        "--max-in-flight",
        "safety.max_in_flight",
        "End the run when more than N requests are in flight [default: no limit].",
        type=_COUNT,
    ),
    Option(SAFETY, "--max-duration", "safety.max_duration_s", "End the run after this time [default: no limit].", type=_DURATION),
    Option(
        SAFETY,
        "--with-others",
        "safety.with_others",
        "Load a server that is serving other traffic. The answer is what fits on top of it; the load backs off when"
        " requests are preempted or end in errors.",
        is_flag=True,
    ),
    Option(
        SAFETY,
        "--max-waiting",
        "safety.max_waiting",
        "With --with-others: back off when more than N requests wait at the server [default: no limit].",
        type=_WHOLE,
    ),
    Option(
        SAFETY, "--yes", "safety.public_ok", "Load a server outside this machine and private networks without asking.", is_flag=True
    ),
)
"""Limits on the load, and permission to load a server that is remote or busy."""

_MACHINES = (
    Option(
        MACHINES,
        "--workers",
        "",
        "Send from several machines over Ray (pip install 'kneescope[ray]'), each its share of one plan: auto takes the cluster"
        " that this machine is a part of, HOST:PORT the one whose head listens there, and every machine of it sends; local:N starts"
        " N senders on this machine [default: this machine alone, without Ray].",
        type=_WORKERS,
    ),
)
"""Who sends."""

_FLEET = (
    Option(
        FLEET,
        "--peak-rps",
        "fleet.peak_rps",
        "Peak rate the fleet must carry [default: none, so no fleet is sized].",
        type=_USER_RATE,
    ),
    Option(
        FLEET,
        "--mean-rps",
        "fleet.mean_rps",
        "Mean rate of the same traffic, to show what autoscaling to it would save.",
        type=_USER_RATE,
    ),
    Option(
        FLEET,
        "--load-at-peak",
        "fleet.headroom",
        "Share of one replica's safe rate to use at peak; 70% leaves 30 % spare [default: 70%].",
        type=_SHARE,
    ),
    Option(FLEET, "--headroom", "fleet.headroom", "Old name of --load-at-peak, with the same meaning.", type=_SHARE),
    Option(FLEET, "--tp", "fleet.tp", "Tensor-parallel size [default: as the server reports, else 1].", type=_COUNT),
    Option(FLEET, "--pp", "fleet.pp", "Pipeline-parallel size [default: as the server reports, else 1].", type=_COUNT),
    Option(FLEET, "--dp", "fleet.dp", "Data-parallel size [default: as the server reports, else 1].", type=_COUNT),
    Option(FLEET, "--lost", "fleet.lost", "Replicas that may fail at peak [default: 1].", type=_WHOLE),
    Option(FLEET, "--rollout", "fleet.rollout", "Replicas out of service at once during a rollout at peak.", type=_WHOLE),
    Option(
        FLEET,
        "--growth",
        "fleet.growth_per_min",
        "Load growth per minute, compounding, such as 10%; requires --scale-out.",
        type=_SHARE,
    ),
    Option(
        FLEET,
        "--scale-out",
        "fleet.scale_out_s",
        "Time until a new replica serves traffic, such as 4m; requires --growth.",
        type=_DURATION,
    ),
    Option(
        FLEET,
        "--burstiness",
        "fleet.burstiness",
        "Measured burstiness of your arrivals, as the shape of gamma-distributed gaps: 1 / (coefficient of variation)^2."
        " 1 is Poisson, below 1 is bursty. For a rate measured with Poisson arrivals; --arrival-cv measures it.",
        type=_NUMBER,
    ),
    Option(FLEET, "--cost", "fleet.cost_per_gpu_h", "Price of one GPU-hour, in any currency.", type=_NUMBER),
)
"""What the fleet must carry and survive, and its price."""

_HARDWARE = (
    Option(
        HARDWARE,
        "--gpu",
        "fleet.hardware.gpu",
        "Accelerator, such as 'H100 SXM' or 4090; sets memory size and bandwidth.",
        type=_GPU,
    ),
    Option(
        HARDWARE,
        "--gpu-bandwidth",
        "fleet.hardware.gpu_bandwidth_gbs",
        "Memory bandwidth of one accelerator in GB/s, if --gpu does not list it.",
        type=_NUMBER,
    ),
    Option(
        HARDWARE,
        "--gpu-memory",
        "fleet.hardware.gpu_memory_gb",
        "Memory of one accelerator in GB, if --gpu does not list it.",
        type=_NUMBER,
    ),
    Option(
        HARDWARE,
        "--weights-gb",
        "fleet.hardware.weights_gb",
        "Weights read per token in GB, over all GPUs of a replica; for a mixture of experts, the active ones only.",
        type=_NUMBER,
    ),
    Option(HARDWARE, "--params-b", "fleet.hardware.params_b", "Billions of parameters, instead of --weights-gb.", type=_NUMBER),
    Option(
        HARDWARE, "--weight-bits", "fleet.hardware.weight_bits", "Bits per parameter, with --params-b [default: 16].", type=_NUMBER
    ),
    Option(
        HARDWARE,
        "--eta",
        "fleet.hardware.eta",
        "Share of the memory bandwidth that decoding reaches [default: 70%, a guess].",
        type=_SHARE,
    ),
    Option(
        HARDWARE,
        "--kv-bytes-per-token",
        "fleet.hardware.kv_bytes_per_token",
        "KV cache bytes per token, over all layers.",
        type=_NUMBER,
    ),
    Option(
        HARDWARE,
        "--activations-gb",
        "fleet.hardware.activations_gb",
        "Memory per GPU in GB that neither weights nor KV cache can use [default: 2].",
        type=_NUMBER,
    ),
    Option(
        HARDWARE,
        "--memory-utilization",
        "fleet.hardware.memory_utilization",
        "Share of GPU memory that the server may use [default: as the server reports, else 90%].",
        type=_SHARE,
    ),
)
"""For the estimates on paper."""

GHOST = Option(
    OUTPUT,
    "--ghost",
    "",
    "Recorded run to draw in grey behind this one on the screens, and to say at the end which holds more: a path, or last.",
    metavar="RUN",
)
"""Of every command with the screens of a run."""

_OUTPUT = (
    Option(
        OUTPUT,
        "--profile",
        "",
        "TOML file of options, as saved from the Connect screen. Options on the command line override it; demo skips those"
        " that belong to a server.",
        metavar="FILE",
    ),
    Option(OUTPUT, "--headless", "", "Print lines instead of drawing the screen; automatic without a terminal.", is_flag=True),
    Option(OUTPUT, "--json", "", "Write the result as JSON to this file; - for stdout.", metavar="FILE|-"),
    Option(OUTPUT, "--out", "", "File to record the run in [default: a new file in the user's state folder].", metavar="FILE"),
    Option(OUTPUT, "--quiet", "", "Print only the result: no screen, no progress lines.", is_flag=True),
    Option(
        OUTPUT,
        "--metrics-port",
        "",
        "Show the run's own figures in Prometheus format at http://127.0.0.1:N/metrics while it goes on; 0 picks a free port and"
        " prints it [default: off].",
        type=_PORT,
    ),
    Option(
        OUTPUT,
        "--label",
        "",
        "Name of the run in `kneescope runs` and wherever a RUN is asked for: one line of at most 80 characters"
        " [default: model and local time].",
        type=_LABEL,
        metavar="TEXT",
    ),
    GHOST,
)

REPLICA_OPTIONS = (
    Option(
        REPLICA,
        "--run",
        "",
        "Recorded run to start from: the path of a run file, last, a label, or a number of `kneescope runs`. Options given here"
        " override it.",
        metavar="RUN",
    ),
    Option(REPLICA, "--replica-rps", "", "Rate that one replica is known to hold.", type=_USER_RATE),
    Option(
        REPLICA,
        "--replica-fails-rps",
        "",
        "Rate at which one replica is known to fail; the fleet is sized at both rates.",
        type=_USER_RATE,
    ),
    Option(
        REPLICA,
        "--output-tps",
        "",
        "Output tokens/s at the knee, instead of --replica-rps; requires --output-tokens.",
        type=_USER_RATE,
    ),
    Option(REPLICA, "--input-tokens", "", "Prompt length in tokens: N, or lognormal:MEDIAN,SIGMA,MAX.", type=_LENGTH),
    Option(REPLICA, "--output-tokens", "", "Answer length in tokens: a mean N, or lognormal:MEDIAN,SIGMA,MAX.", type=_LENGTH),
    Option(
        REPLICA, "--output-p90", "", "90th percentile of the answer length in tokens, if --output-tokens is a mean.", type=_TOKENS
    ),
    Option(
        REPLICA,
        "--mean-e2e",
        "",
        "Mean E2E latency at the rate that holds; gives the number of concurrent streams.",
        type=_DURATION,
    ),
    Option(REPLICA, "--kv-tokens", "", "Tokens that the KV cache of one replica holds, over all engines.", type=_TOKENS),
    Option(REPLICA, "--tpot", "", "TPOT limit, such as 50ms, to check against the hardware.", type=_DURATION),
    Option(
        REPLICA,
        "--single-tpot",
        "",
        "TPOT measured with a single stream; shows the share of the memory bandwidth that decoding reaches.",
        type=_DURATION,
    ),
    Option(REPLICA, "--target", "", "Share of requests that must meet the limits [default: 95%].", type=_SHARE),
)
"""What is known of one replica: for `kneescope fleet` alone, so no run is made of it."""


def _use_symbols(context: click.Context, option: click.Parameter, choice: symbols.Symbols | None) -> None:
    if choice is not None:
        symbols.use(choice)


SYMBOLS = Option(
    OUTPUT,
    "--symbols",
    "",
    "Characters that charts are drawn with; use block or ascii if your font lacks braille [default: braille].",
    type=click.Choice(symbols.CHOICES),
    expose_value=False,
    callback=_use_symbols,
)
"""Of every command with a screen; it takes effect as soon as it is parsed."""

RUN_OPTIONS: tuple[Option, ...] = (
    *(*_SERVER, *_ACCESS, *_REPLICAS, *_LIMITS, *_WORKLOAD, *_METHOD, *_SAFETY, *_MACHINES, *_FLEET, *_HARDWARE, *_OUTPUT),
    SYMBOLS,
)
"""What probe and demo take."""

_OF_CHECKS = ("tp", "pp", "dp", "with_others", "json")
PREFLIGHT_OPTIONS = tuple(
    o for o in RUN_OPTIONS if o.section in (SERVER, ACCESS, WATCH, LIMITS, WORKLOAD, HARDWARE) or o.name in _OF_CHECKS
)
"""What the checks need without a run."""

FLEET_COMMAND_OPTIONS = (
    *(*REPLICA_OPTIONS, *_FLEET, *_HARDWARE),
    Option(OUTPUT, "--json", "", "Write the fleet as JSON to this file; - for stdout.", metavar="FILE|-"),
    Option(
        OUTPUT,
        "--headless",
        "",
        "With --run: print the fleet instead of opening its screen; automatic without a terminal, with --json, and with options"
        " about the replica.",
        is_flag=True,
    ),
)
"""What `kneescope fleet` takes: the known figures of one replica, and what the fleet must carry."""

WHAT_IF_OPTIONS = (
    Option(CHANGE, "--ttft", "", "Another limit on TTFT, such as 500ms, or none [default: the run's].", type=_LIMIT),
    Option(CHANGE, "--tpot", "", "Another limit on TPOT, or none [default: the run's].", type=_LIMIT),
    Option(CHANGE, "--e2e", "", "Another limit on the time to the end of the answer, or none [default: the run's].", type=_LIMIT),
    Option(CHANGE, "--target", "", "Another share of requests that must meet every limit [default: the run's].", type=_SHARE),
    Option(
        CHANGE, "--input-tokens", "", "Other prompt lengths: N, or lognormal:MEDIAN,SIGMA,MAX [default: the run's].", type=_LENGTH
    ),
    Option(CHANGE, "--output-tokens", "", "Other answer lengths, in the same form [default: the run's].", type=_LENGTH),
    Option(
        CHANGE,
        "--max-num-seqs",
        "",
        "Another number of requests that the server runs at once [default: as the server has it; where it does not tell, as its"
        " readings show or as assumed, which is said].",
        type=_PLACES,
    ),
    Option(CHANGE, "--kv-tokens", "", "Another size of the KV cache, in tokens [default: as the server tells].", type=_TOKENS),
    Option(OUTPUT, "--json", "", "Write the answer as JSON to this file; - for stdout.", metavar="FILE|-"),
)
"""What may differ from a recorded run. Unlike those of a run, each limit stands for itself: the others stay."""

WATCH_OPTIONS = (
    *_SOURCES,
    *(option for option in _SERVER if option.flag == "--metrics-url"),
    *_ACCESS,
    Option(
        OUTPUT,
        "--run",
        "",
        "Recorded run of one such replica: load is then the share of the rate that it held, and growth towards it is told.",
        metavar="FILE|last",
    ),
    Option(
        OUTPUT,
        "--every",
        "",
        "Time from one reading to the next [default: 1s]. With --once, rates are taken over it: 30s gives steady ones.",
        type=_DURATION,
    ),
    Option(OUTPUT, "--once", "", "Read twice, print the table, and end.", is_flag=True),
    Option(
        OUTPUT,
        "--max-load",
        "",
        "With --once: exit code 1 if the load of any replica is above this share. Load is arriving requests/s as a share of the"
        " rate that held (--run), else KV cache in use. Replicas whose requests are stuck, or wait too long, count as above.",
        type=_SHARE,
    ),
    Option(
        OUTPUT,
        "--json",
        "",
        "Write each reading as JSON, one object a line, to this file; - for stdout. With --once: one object.",
        metavar="FILE|-",
    ),
    SYMBOLS,
)
"""Which replicas are watched, how they let us in, and what is made of it."""

CHECK_OPTIONS = (
    Option(ASKED, "--require-rps", "", "Rate that the run must hold.", type=_RATE),
    Option(
        ASKED,
        "--against",
        "",
        "Older run to hold it against: a run file, last, or a result of --json. Both must have been asked the same.",
        metavar="OLD",
    ),
    Option(ASKED, "--max-drop", "", "Share of the older run's rate that may be lost [default: 10%].", type=_SHARE),
    Option(OUTPUT, "--junit", "", "Write a test case for each thing asked as JUnit XML to this file.", metavar="FILE"),
    Option(OUTPUT, "--summary", "", "Append a summary in Markdown to this file, such as $GITHUB_STEP_SUMMARY.", metavar="FILE"),
    Option(OUTPUT, "--json", "", "Write the verdict as JSON to this file; - for stdout.", metavar="FILE|-"),
)
"""What a pipeline may ask of a run."""

REJUDGE_OPTIONS = (
    Option(CHANGE, "--ttft", "", "Another limit on TTFT, such as 500ms, or none [default: the run's].", type=_LIMIT),
    Option(CHANGE, "--tpot", "", "Another limit on TPOT, or none [default: the run's].", type=_LIMIT),
    Option(CHANGE, "--e2e", "", "Another limit on the time to the end of the answer, or none [default: the run's].", type=_LIMIT),
    Option(CHANGE, "--target", "", "Another share of requests that must meet every limit [default: the run's].", type=_SHARE),
    Option(CHANGE, "--max-error-rate", "", "Another share of requests that may end in an error [default: the run's].", type=_SHARE),
    Option(OUTPUT, "--json", "", "Write the answer as JSON to this file; - for stdout.", metavar="FILE|-"),
)
"""By which limits a recorded run is judged again. Each stands for itself, as in what-if."""

COMPARE_OPTIONS = (
    Option(
        OUTPUT,
        "--format",
        "",
        "md: Markdown to paste somewhere, in place of text and without a screen [default: text].",
        type=click.Choice(["text", "md"]),
    ),
    Option(OUTPUT, "--json", "", "Write the comparison as JSON to this file; - for stdout.", metavar="FILE|-"),
    SYMBOLS,
)
"""What `kneescope compare` takes beside the runs."""

_NOT_OF_TUNE = (
    *("rates", "hold", "require_rps", "between", "closed_loop", "trace_scale", "peak_rps", "mean_rps", "load_at_peak", "headroom"),
    *("lost", "rollout", "growth", "scale_out", "burstiness", "profile", "headless", "out", "workers"),
    *(option.name for option in _REPLICAS),
)
"""It searches for each knee, starts and stops the servers itself, on the machine that sends, prints lines, sizes no fleet, and has
no gateway before it."""

TUNE_OPTIONS = (
    Option(
        TUNE,
        "--serve",
        "",
        "Shell command that starts the server of one setting and stays in the foreground, such as 'vllm serve MODEL --port {port}"
        " --max-num-seqs {max_num_seqs}': {port} becomes a free port, {name} the value of --try, quoted as one word. The command is"
        " never recorded.",
        type=_COMMAND,
        secret=True,
        required=True,
    ),
    Option(
        TUNE,
        "--url",
        "",
        "Address of the server that --serve starts; it may hold {port} [default: http://127.0.0.1 at {port}].",
        type=_URL_OF_PORT,
    ),
    Option(
        TUNE,
        "--try",
        "",
        "A name of --serve and the values to try, such as max_num_seqs=8,16,32. Repeatable: every combination is tried.",
        type=_TRIED,
        multiple=True,
        required=True,
    ),
    Option(
        TUNE,
        "--start-timeout",
        "",
        "Longest wait for a server's first answer on /health or /v1/models [default: 10m].",
        type=_DURATION,
    ),
    Option(TUNE, "--dry-run", "", "Print the settings and the expected time, and start nothing.", is_flag=True),
    *(o for o in RUN_OPTIONS if o.expose_value and o.name not in _NOT_OF_TUNE),
)
"""Settings of a server that the command starts, and how each is probed."""

_OF_FLEET_CHECK = (
    *("model", "api", "metrics_url", "gpu_metrics_url", "dataset", "trace", "trace_window", "mode", "repeats", "measure", "budget"),
    *("drain", "max_rps", "max_in_flight", "max_duration", "with_others", "max_waiting", "yes", "load_at_peak", "headroom"),
    *("headless", "json", "out", "quiet", "metrics_port", "label"),
)
"""What of a run is not the recorded one's, or may be another."""

FLEET_CHECK_OPTIONS = (
    Option(
        CHECKED,
        "--run",
        "",
        "Recorded run of one replica: each is expected to hold its passing rate, and its requests, limits and seeds are used again."
        " A path, last, a label, or a number of `kneescope runs`.",
        metavar="RUN",
        required=True,
    ),
    Option(
        CHECKED,
        "--lost",
        "",
        "Take N replicas away after the answer, by --lose-command, and judge the planned load again with what is left.",
        type=_COUNT,
    ),
    Option(
        CHECKED,
        "--lose-command",
        "",
        "Shell command that takes the replicas of --lost away, such as 'kubectl delete pod vllm-3'. It is never recorded.",
        type=_COMMAND,
        secret=True,
    ),
    *_ACCESS,
    *_REPLICAS,
    *(o for o in RUN_OPTIONS if o.expose_value and o.name in _OF_FLEET_CHECK),
    SYMBOLS,
)
"""A fleet, the run of one of its replicas, and how it is loaded."""

_ALL = {o.flag: o for o in (*FLEET_CHECK_OPTIONS, *TUNE_OPTIONS, *RUN_OPTIONS)}
SECRET_OPTIONS = tuple(option.flag for option in _ALL.values() if option.secret)
"""Their values may hold a secret: they are blanked out wherever a command line is recorded, and no file may keep them."""

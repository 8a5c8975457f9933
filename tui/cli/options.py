"""The options of probe, demo and preflight: declared once in one table, turned into one ProbeConfig.

Values are read by the configuration's own parsers, so that every front end rejects the same input with the same sentence.

Options that protect a server and its other users; `--yes` and `--with-others` give permission to load it anyway.

Options for access to a server. Their values go to its origin only and are recorded nowhere.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import click
import msgspec
from msgspec.structs import replace

from core.access import Access, public_address
from core.config import (
    Api,
    Lengths,
    Method,
    Mode,
    ProbeConfig,
    Safety,
    Slo,
    Target,
    Workload,
    parse_duration_s,
    parse_fraction,
)
from core.errors import UserError
from core.modes import usual_time
from tui.cli.click_types import Option, Reads
from tui.cli.fleet_options import HARDWARE, fleet_ask, fleet_options
from tui.cli.inputs import (
    api_key,
    read_command,
    read_count,
    read_header,
    read_length,
    read_proxy,
    read_rate,
    read_rates,
    read_seed,
    read_url,
)
from tui.draw import symbols

ACCESS = "Access"

SECRET_OPTIONS = ("--header", "--between")
"""Their values may hold a secret: they are blanked out wherever a command line is recorded, and no file may keep them."""

_HEADER = Reads("'name: value'", read_header)
_PROXY = Reads("address", read_proxy)


def access_options() -> list[Option]:
    """Key, headers, certificates and proxy."""
    return [
        Option(
            ACCESS,
            "--api-key-file",
            "File with the API key [default: KNEESCOPE_API_KEY, else you are asked on a 401]. No option takes the key itself.",
            metavar="FILE",
        ),
        Option(
            ACCESS,
            "--header",
            "HTTP header for a gateway, 'Name: value'. Repeatable, and kept secret like a key. 'Name: env:VARIABLE' and"
            " 'Name: file:PATH' keep the value out of process lists.",
            type=_HEADER,
            multiple=True,
        ),
        Option(ACCESS, "--ca-file", "PEM file of certificate authorities to trust in addition to the usual ones.", metavar="FILE"),
        Option(ACCESS, "--client-cert", "PEM file of the client certificate.", metavar="FILE"),
        Option(ACCESS, "--client-key", "PEM file of the client certificate's key, if it is not in the same file.", metavar="FILE"),
        Option(ACCESS, "--insecure", "Do not verify the server's certificate; the result records this.", is_flag=True),
        Option(
            ACCESS,
            "--proxy",
            "HTTP proxy, such as http://proxy:3128, or env:VARIABLE for one with a password. HTTP_PROXY and the like are"
            " ignored, and this machine is always reached directly.",
            type=_PROXY,
        ),
    ]


SAFETY = "Safety"

_COUNT = Reads("n", read_count)
_DURATION = Reads("duration", parse_duration_s)
_FEW = Reads("n", read_seed)
_RATE = Reads("rate", read_rate)


def safety_options() -> list[Option]:
    """Limits on the load, and permission to load a server that is remote or busy."""
    return [
        Option(SAFETY, "--max-rps", "Never load above this rate, warm-up included [default: no limit].", type=_RATE),
        Option(SAFETY, "--max-in-flight", "End the run when more than N requests are in flight [default: no limit].", type=_COUNT),
        Option(SAFETY, "--max-duration", "End the run after this time [default: no limit].", type=_DURATION),
        Option(
            SAFETY,
            "--with-others",
            "Load a server that is serving other traffic. The answer is what fits on top of it; the load backs off when"
            " requests are preempted or end in errors.",
            is_flag=True,
        ),
        Option(
            SAFETY,
            "--max-waiting",
            "With --with-others: back off when more than N requests wait at the server [default: no limit].",
            type=_FEW,
        ),
        Option(SAFETY, "--yes", "Load a server outside this machine and private networks without asking.", is_flag=True),
    ]


SERVER, LIMITS, WORKLOAD, METHOD, OUTPUT = "Server", "Limits", "Workload", "Search", "Output"

Limit = float | Literal["none"] | None
"""Seconds, `none` (taken away), or None: the option was not given."""


def _read_limit(text: str, name: str) -> float | str:
    return "none" if text.strip().lower() == "none" else parse_duration_s(text, name)


def symbols_option() -> Option:
    """`--symbols`, which every command with a screen takes; it takes effect as soon as it is parsed."""

    def use(context: click.Context, option: click.Parameter, choice: symbols.Symbols | None) -> None:
        if choice is not None:
            symbols.use(choice)

    return Option(
        OUTPUT,
        "--symbols",
        "Characters that charts are drawn with; use block or ascii if your font lacks braille [default: braille].",
        type=click.Choice(symbols.CHOICES),
        expose_value=False,
        callback=use,
    )


_LIMIT = Reads("duration|none", _read_limit)
_SHARE = Reads("share", parse_fraction)
_LENGTH = Reads("tokens", read_length)
_RATES = Reads("rate,rate,...", read_rates)
_COMMAND = Reads("'command'", read_command)
_SEED = Reads("n", read_seed)
_URL = Reads("url", read_url)


def _method_options() -> list[Option]:
    """Which rates are judged, how thoroughly, and what happens between two repeats."""
    return [
        Option(
            METHOD,
            "--mode",
            f"How thoroughly to judge each rate. quick: 1 repeat of 40 s, {usual_time('quick')}, a first look; standard: 3 of 90 s,"
            f" {usual_time('standard')}; acceptance: 10 of 60 s, {usual_time('acceptance')}, for sign-off [default: quick]. Slow"
            " servers and strict targets need longer windows; the expected time is shown before the load starts.",
            type=click.Choice(["quick", "standard", "acceptance"]),
        ),
        Option(METHOD, "--careful", f"Quick mode with 2 repeats of 30 s per rate, {usual_time('careful')}.", is_flag=True),
        Option(METHOD, "--repeats", "Repeats per rate, all of which must pass [default: set by --mode].", type=_COUNT),
        Option(
            METHOD,
            "--measure",
            "Shortest measurement window of a repeat, such as 90s or 30m [default: set by --mode].",
            type=_DURATION,
        ),
        Option(METHOD, "--budget", "Time after which the search starts no new rate [default: set by --mode].", type=_DURATION),
        Option(
            METHOD,
            "--rates",
            "Judge these rates instead of searching, such as 2,4,6.5. Give a single rate to verify it.",
            type=_RATES,
        ),
        Option(METHOD, "--hold", "Keep this rate until you stop the run; on the screen, + and - change it by 10 %.", type=_RATE),
        Option(METHOD, "--require-rps", "Also judge this rate; exit code 1 if it does not pass.", type=_RATE),
        Option(METHOD, "--reset-cache", "Reset the server's prefix cache between repeats and check that it worked.", is_flag=True),
        Option(
            METHOD,
            "--between",
            "Shell command to run between repeats, such as a server restart; kneescope then waits until the server is ready. The"
            " command is never recorded.",
            type=_COMMAND,
        ),
    ]


def _table() -> list[Option]:
    choice = click.Choice
    return [
        Option(SERVER, "--model", "Model to request [default: the server's only model, else you are asked]."),
        Option(SERVER, "--api", "API to load [default: completions].", type=choice(["completions", "chat"])),
        Option(
            SERVER, "--metrics-url", "URL of the server's Prometheus metrics [default: /metrics on the API's address].", type=_URL
        ),
        Option(
            SERVER,
            "--gpu-metrics-url",
            "URL of a DCGM or node exporter on the server's host; adds GPU and host figures to the diagnosis [default: none].",
            type=_URL,
        ),
        *access_options(),
        Option(
            LIMITS,
            "--ttft",
            "Limit on the time to first token, such as 800ms, or none [default: 800ms; demo: the replica's own]. Setting any"
            " limit turns off the defaults of the others.",
            type=_LIMIT,
        ),
        Option(
            LIMITS,
            "--tpot",
            "Limit on the time per output token after the first, such as 50ms, or none [default: 50ms; demo: the replica's own].",
            type=_LIMIT,
        ),
        Option(
            LIMITS,
            "--e2e",
            "Limit on the time to the end of the answer, such as 10s, or none [default: none; demo: the replica's own].",
            type=_LIMIT,
        ),
        Option(
            LIMITS, "--target", "Share of requests that must meet every limit [default: 95%; demo: the replica's own].", type=_SHARE
        ),
        Option(LIMITS, "--max-error-rate", "Share of requests that may end in an error [default: 1%].", type=_SHARE),
        Option(
            WORKLOAD,
            "--input-tokens",
            "Prompt length in tokens: N, or lognormal:MEDIAN,SIGMA,MAX [default: 512; demo: the replica's own].",
            type=_LENGTH,
        ),
        Option(
            WORKLOAD,
            "--output-tokens",
            "Answer length in tokens: N, or lognormal:MEDIAN,SIGMA,MAX [default: 128; demo: the replica's own].",
            type=_LENGTH,
        ),
        *_method_options(),
        Option(METHOD, "--start-rps", "First rate of the ramp [default: 2 / the idle E2E latency].", type=_RATE),
        Option(METHOD, "--drain", "Longest wait for open requests that no limit has decided [default: 2m].", type=_DURATION),
        Option(METHOD, "--seed", "Random seed for arrivals and lengths [default: 11].", type=_SEED),
        *safety_options(),
        *fleet_options(),
        Option(
            OUTPUT,
            "--profile",
            "TOML file of options, as saved from the Connect screen. Options on the command line override it; demo skips those"
            " that belong to a server.",
            metavar="FILE",
        ),
        Option(OUTPUT, "--headless", "Print lines instead of drawing the screen; automatic without a terminal.", is_flag=True),
        Option(OUTPUT, "--json", "Write the result as JSON to this file; - for stdout.", to="json_file", metavar="FILE|-"),
        Option(OUTPUT, "--out", "File to record the run in [default: a new file in the user's state folder].", metavar="FILE"),
        Option(OUTPUT, "--quiet", "Print only the result: no screen, no progress lines.", is_flag=True),
        symbols_option(),
    ]


def run_options() -> list[click.Parameter]:
    """Everything that probe and demo take."""
    return [*_table()]


def preflight_options() -> list[click.Parameter]:
    """What the checks need without a run: server, access, limits, workload, the hardware on paper with its TP, PP and DP,
    `--with-others` and `--json`."""
    sections, others = (SERVER, ACCESS, LIMITS, WORKLOAD, HARDWARE), ("tp", "pp", "dp", "with_others", "json_file")
    return [o for o in _table() if o.section in sections or o.name in others]


@dataclass(frozen=True, kw_only=True)
class Given:
    """The options as the user gave them; None means not given. Durations in seconds, shares as fractions."""

    model: str | None = None
    api: str | None = None
    metrics_url: str | None = None
    gpu_metrics_url: str | None = None
    api_key_file: str | None = None
    header: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    ca_file: str | None = None
    client_cert: str | None = None
    client_key: str | None = None
    insecure: bool = False
    proxy: str | None = field(default=None, repr=False)
    ttft: Limit = None
    tpot: Limit = None
    e2e: Limit = None
    target: float | None = None
    max_error_rate: float | None = None
    input_tokens: Lengths | None = None
    output_tokens: Lengths | None = None
    mode: str | None = None
    careful: bool = False
    repeats: int | None = None
    measure: float | None = None
    budget: float | None = None
    rates: tuple[float, ...] | None = None
    hold: float | None = None
    require_rps: float | None = None
    reset_cache: bool = False
    between: str | None = field(default=None, repr=False)  # may hold a secret: it goes to the run and nowhere else
    start_rps: float | None = None
    max_rps: float | None = None
    max_in_flight: int | None = None
    max_duration: float | None = None
    with_others: bool = False
    max_waiting: int | None = None
    yes: bool = False
    drain: float | None = None
    seed: int | None = None
    peak_rps: float | None = None
    mean_rps: float | None = None
    headroom: float | None = None
    tp: int | None = None
    pp: int | None = None
    dp: int | None = None
    lost: int | None = None
    rollout: int | None = None
    growth: float | None = None
    scale_out: float | None = None
    burstiness: float | None = None
    cost: float | None = None
    gpu: str | None = None
    gpu_bandwidth: float | None = None
    gpu_memory: float | None = None
    weights_gb: float | None = None
    params_b: float | None = None
    weight_bits: float | None = None
    eta: float | None = None
    kv_bytes_per_token: float | None = None
    activations_gb: float | None = None
    memory_utilization: float | None = None
    headless: bool = False
    json_file: str | None = None
    out: str | None = None
    quiet: bool = False

    def __post_init__(self) -> None:
        self._refuse_above_the_most()
        self._refuse_what_has_no_effect()
        if self.out == "":
            raise UserError("--out: an empty name is no file; leave the option out for a new file in the user's state folder.")
        if self.out == "-":
            raise UserError("--out: the run file cannot go to stdout; give a path, and use --json - for the result.")
        if self.out is not None and self.out == self.json_file:
            raise UserError("--out and --json name the same file; the run file and the result need one each.")

    def _refuse_above_the_most(self) -> None:
        """No rate that was asked for may be above `--max-rps`."""
        asked = {
            "--start-rps": (self.start_rps,),
            "--rates": self.rates or (),
            "--hold": (self.hold,),
            "--require-rps": (self.require_rps,),
        }
        for name, rates in asked.items():
            for rate in rates:
                if rate is not None and self.max_rps is not None and rate > self.max_rps:
                    raise UserError(f"{name} {rate:g} is above --max-rps {self.max_rps:g}; lower the first or raise the second.")

    def _refuse_what_has_no_effect(self) -> None:
        """Refuse an option that the others make ineffective: a user would assume that it took effect."""
        if self.insecure and self.ca_file is not None:
            raise UserError("--insecure checks no certificate, so --ca-file has no effect; leave one out.")
        if self.rates is not None and self.start_rps is not None:
            raise UserError("--start-rps is where a search begins, --rates judges a list instead; give one of them.")
        if self.rates is not None and self.budget is not None:
            raise UserError("--budget limits a search, --rates judges its whole list; give one of them.")
        if self.hold is None:
            return
        idle: dict[str, object] = {
            "--start-rps": self.start_rps,
            "--careful": self.careful,
            "--repeats": self.repeats,
            "--budget": self.budget,
            "--reset-cache": self.reset_cache,
            "--between": self.between,
        }
        for name, value in idle.items():
            if value:
                raise UserError(f"{name} has no effect with --hold, which keeps one rate until it is stopped; leave one out.")


def access_of(given: Given, environ: Mapping[str, str]) -> Access:
    """Access to the server, read from files and the environment; files that cannot be used are refused now (UserError)."""
    access = Access(
        api_key=api_key(given.api_key_file, environ),
        headers=given.header,
        ca_file=given.ca_file,
        client_cert=given.client_cert,
        client_key=given.client_key,
        proxy=given.proxy,
    )
    if given.ca_file or given.client_cert:
        from core.net import tls_context  # httpx is loaded only when it is used

        tls_context(access, given.insecure)
    return access


class Base(msgspec.Struct, frozen=True, kw_only=True):
    """What applies if an option was not given: the product's defaults, or a simulated replica's own."""

    slo: Slo = Slo(default=True)
    workload: Workload = Workload()


def _slo(given: Given, base: Slo) -> Slo:
    """A limit with a value switches the unnamed ones off; `none` alone only takes one away from the base."""
    asked = {"ttft_s": given.ttft, "tpot_s": given.tpot, "e2e_s": given.e2e}
    own = any(isinstance(value, float) for value in asked.values())
    limits = {
        name: (None if value == "none" else value) if value is not None else (None if own else getattr(base, name))
        for name, value in asked.items()
    }
    return Slo(
        **cast(dict[str, float | None], limits),
        target=base.target if given.target is None else given.target,
        max_error_rate=base.max_error_rate if given.max_error_rate is None else given.max_error_rate,
        default=base.default and not own,
    )


def _present(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def build(given: Given, url: str, base: Base | None = None) -> ProbeConfig:
    """The run that was asked for. Raises UserError for options that contradict each other."""
    base = base or Base()
    return ProbeConfig(
        target=Target(
            url=url,
            model=given.model,
            api=cast(Api, given.api or "completions"),
            metrics_url=given.metrics_url,
            insecure=given.insecure,
            proxy=None if given.proxy is None else public_address(given.proxy),
            gpu_metrics_url=given.gpu_metrics_url,
        ),
        slo=_slo(given, base.slo),
        workload=replace(base.workload, **_present(input_tokens=given.input_tokens, output_tokens=given.output_tokens)),
        method=Method(
            mode=cast(Mode, given.mode or "quick"),
            careful=given.careful,
            reset_cache=given.reset_cache,
            between=given.between is not None,
            **_present(
                repeats=given.repeats,
                measure_s=given.measure,
                budget_s=given.budget,
                rates_rps=given.rates,
                hold_rps=given.hold,
                require_rps=given.require_rps,
                start_rps=given.start_rps,
                drain_s=given.drain,
                seed=given.seed,
            ),
        ),
        safety=Safety(
            max_rps=given.max_rps,
            max_in_flight=given.max_in_flight,
            max_duration_s=given.max_duration,
            with_others=given.with_others,
            max_waiting=given.max_waiting,
            public_ok=given.yes,
        ),
        fleet=fleet_ask(vars(given)),
    )

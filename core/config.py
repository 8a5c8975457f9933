"""What a run is asked to do: frozen, validated when made, units in the names.

Nothing secret is in here: API keys travel beside the configuration (`core.records.Hello`) and are never written down.
"""

import math
import re
from typing import Literal

import msgspec

from core.address import PREFIX, Address, joined
from core.errors import UserError
from core.hardware import Hardware, require_amount, require_positive
from core.units import as_set, count, typed

Api = Literal["completions", "chat"]
Mode = Literal["quick", "standard", "acceptance"]

_DURATION = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?)\s*(?P<unit>ms|s|m)")
_ADDRESS = re.compile(r"(?i:https?)://[^/\s@?#]+(/[^\s?#]*)?")
_PREFIX = re.compile(r"/[\w.-]+")
_UNIT_S = {"ms": 1e-3, "s": 1.0, "m": 60.0}


def parse_duration_s(text: str, name: str) -> float:
    """Read `800ms`, `1.5s` or `2m` into seconds; a unit is required, because a bare number is how limits go wrong.

    Raises UserError naming the option for anything else, zero included.
    """
    match = _DURATION.fullmatch(text.strip())
    seconds = float(match["number"]) * _UNIT_S[match["unit"]] if match else math.nan
    if not (math.isfinite(seconds) and seconds > 0):
        raise UserError(f"{name}: {text!r} is not a duration above zero; give a number and a unit, such as 800ms, 1.5s or 2m.")
    return seconds


def parse_fraction(text: str, name: str) -> float:
    """Read `95%` or `0.95` into a fraction in [0, 1]; raises UserError naming the option otherwise."""
    stripped = text.strip()
    try:
        value = float(stripped[:-1]) / 100 if stripped.endswith("%") else float(stripped)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1:
        raise UserError(f"{name}: {text!r} is not a share; give a percentage such as 95% or a fraction such as 0.95.")
    return value


LONGEST_S = 3600.0
"""Nobody waits longer for an answer; and arrivals are drawn beforehand for as long as one may be waited for."""

RATES_RPS = (0.001, 10_000.0)
"""Slower, and the 100 requests of a step take more than a day; faster, and no single client sends them."""

HIGHEST_TARGET = 0.9999
"""A step measures 5/(1 - target) requests, 50,000 here. Only 100 % itself asks for no number."""

WIDEST_SIGMA = 5.0
MOST_TOKENS = 10_000_000
"""No model has a longer context. A server that does not tell its own would get what the generator cannot even hold."""

SMALLEST_HEADROOM, HIGHEST_PEAK_RPS = 0.01, 1e9
DEFAULT_HEADROOM, LOW_HEADROOM = 0.7, 0.4
"""Of the safe rate, used at peak. Below the second a fleet costs so much more that it was probably meant as the spare share."""
MOST_PARALLEL, MOST_OUT, BURSTINESS = 65_536, 1_000_000, (0.01, 100.0)


def _require_duration(seconds: float, name: str) -> None:
    require_positive(seconds, name)
    if seconds > LONGEST_S:
        raise UserError(f"{name}: {typed(seconds)} s is too long; give at most {typed(LONGEST_S / 60)}m.")


def _require_rate(rate_rps: float, name: str) -> None:
    require_positive(rate_rps, name)
    lowest, highest = RATES_RPS
    if not lowest <= rate_rps <= highest:
        raise UserError(f"{name}: {typed(rate_rps)} requests/s cannot be measured; give {as_set(lowest)} to {as_set(highest)}.")


class Lengths(msgspec.Struct, frozen=True, kw_only=True):
    """Token counts of prompts or answers: all `median` (sigma 0), or lognormal around it, cut at `maximum`."""

    median: float
    sigma: float = 0.0
    maximum: int = 0
    minimum: int = 1

    def __post_init__(self) -> None:
        require_positive(self.median, "length")
        if max(self.median, self.maximum, self.minimum) > MOST_TOKENS:
            raise UserError(f"length: no model takes that many tokens; give at most {count(MOST_TOKENS)}.")
        if not 0 <= self.sigma <= WIDEST_SIGMA:
            raise UserError(f"length: sigma must be from 0 to {as_set(WIDEST_SIGMA)}, not {typed(self.sigma)}.")
        if self.sigma == 0 and self.median != int(self.median):
            raise UserError(f"length: {typed(self.median)} is not a whole number of tokens.")
        if self.sigma > 0 and self.maximum < max(self.minimum, 1):
            raise UserError("length: a lognormal length needs a maximum of at least one token.")

    @property
    def fixed(self) -> bool:
        """Whether every request has the same length."""
        return self.sigma == 0

    @property
    def largest(self) -> int:
        """The longest length that can be drawn, in tokens."""
        return int(self.median) if self.fixed else self.maximum

    @classmethod
    def parse(cls, text: str, name: str) -> "Lengths":
        """Read `512` or `lognormal:MEDIAN,SIGMA,MAX`; raises UserError naming the option otherwise."""
        head, _, tail = text.strip().partition(":")
        try:
            if head == "lognormal":
                median, sigma, maximum = tail.split(",")
                return cls(median=float(median), sigma=float(sigma), maximum=int(maximum))
            return cls(median=int(head)) if not tail else _refuse(text)
        except ValueError:
            raise UserError(f"{name}: {text!r} is not a length; give tokens such as 512, or lognormal:MEDIAN,SIGMA,MAX.") from None

    def __str__(self) -> str:
        return f"{self.largest}" if self.fixed else f"lognormal:{typed(self.median)},{typed(self.sigma)},{self.maximum}"


def _refuse(text: str) -> "Lengths":
    raise ValueError(text)


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """Where the requests go. `url` is the base, and `prefix` stands between it and the routes of the API; `metrics_url` None means
    beside the API.

    `insecure`: the server's certificate is not checked. `proxy`: through which proxy, without user and password.
    `gpu_metrics_url`: a DCGM or node exporter that shows the server's machine.
    """

    url: str
    prefix: str = PREFIX
    model: str | None = None
    api: Api = "completions"
    metrics_url: str | None = None
    insecure: bool = False
    proxy: str | None = None
    gpu_metrics_url: str | None = None

    def __post_init__(self) -> None:
        for name, url in (("URL", self.url), ("--metrics-url", self.metrics_url), ("--gpu-metrics-url", self.gpu_metrics_url)):
            if url is not None and not _ADDRESS.fullmatch(url):
                raise UserError(
                    f"{name}: this address cannot be recorded; give one such as http://127.0.0.1:8000, "
                    "without user, password, ?query or #part."
                )
        if not _PREFIX.fullmatch(self.prefix):
            raise UserError(f"URL: {self.prefix!r} is no beginning of an API's routes; end the address in one such as /v1.")

    @property
    def address(self) -> str:
        """The shortest address that says so: with the prefix where it is an unusual one."""
        return joined(Address(self.url.rstrip("/"), self.prefix))


class Slo(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one request and the share of requests that must meet all of them; None means no such limit."""

    ttft_s: float | None = 0.8
    tpot_s: float | None = 0.05
    e2e_s: float | None = None
    target: float = 0.95
    max_error_rate: float = 0.01
    default: bool = False

    def __post_init__(self) -> None:
        limits = [("--ttft", self.ttft_s), ("--tpot", self.tpot_s), ("--e2e", self.e2e_s)]
        for name, value in limits:
            if value is not None:
                _require_duration(value, name)
        if all(value is None for _, value in limits):
            raise UserError("There is no limit to judge by; set at least one of --ttft, --tpot and --e2e.")
        if not 0 < self.target <= 1:
            raise UserError(f"--target: {typed(self.target)} must be above 0 and at most 100%.")
        if HIGHEST_TARGET < self.target < 1:
            raise UserError(
                f"--target: above {typed(100 * HIGHEST_TARGET)}% a step needs too many requests; give that at most, or 100%."
            )
        if not 0 <= self.max_error_rate < 1:
            raise UserError(f"--max-error-rate: {typed(self.max_error_rate)} must be at least 0 and below 100%.")


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """What a request asks for. Prompts are cold: a unique salt and unique first tokens each."""

    input_tokens: Lengths = Lengths(median=512)
    output_tokens: Lengths = Lengths(median=128)
    temperature: float = 0.0


class Method(msgspec.Struct, frozen=True, kw_only=True):
    """How the knee is looked for, or which rates are judged instead.

    `start_rps` None means 2/s0 (s0: the idle E2E latency). `drain_s` ends what no limit decides. `careful`, `repeats`,
    `measure_s` and `budget_s` override the mode's own. `rates_rps`: judge these, look for nothing. `hold_rps`: keep this
    rate until stopped. `require_rps` is judged beside the search and must pass. Between repeats: `reset_cache` empties the
    server's prefix cache; `between` says that a command of the user's runs (the command itself is written nowhere).
    """

    mode: Mode = "quick"
    careful: bool = False
    repeats: int | None = None
    measure_s: float | None = None
    budget_s: float | None = None
    start_rps: float | None = None
    rates_rps: tuple[float, ...] = ()
    hold_rps: float | None = None
    require_rps: float | None = None
    drain_s: float = 120.0
    reset_cache: bool = False
    between: bool = False
    seed: int = 11

    def __post_init__(self) -> None:
        for name, seconds in (("--measure", self.measure_s), ("--drain", self.drain_s)):
            if seconds is not None:
                _require_duration(seconds, name)
        if self.budget_s is not None:
            require_positive(self.budget_s, "--budget")
        rates = [("--start-rps", self.start_rps), ("--hold", self.hold_rps), ("--require-rps", self.require_rps)]
        for name, rate_rps in [*rates, *(("--rates", rate_rps) for rate_rps in self.rates_rps)]:
            if rate_rps is not None:
                _require_rate(rate_rps, name)
        if len(set(self.rates_rps)) != len(self.rates_rps):
            raise UserError("--rates: a rate is in the list twice; use --repeats to judge each rate more than once.")
        if self.repeats is not None and self.repeats < 1:
            raise UserError(f"--repeats: {self.repeats} must be at least 1.")
        if self.careful and self.mode != "quick":
            raise UserError("--careful belongs to quick mode; standard and acceptance repeat each rate anyway.")
        if self.rates_rps and self.hold_rps is not None:
            raise UserError("--rates judges a list and ends, --hold keeps one rate until stopped; give one of them.")
        if self.hold_rps is not None and self.require_rps is not None:
            raise UserError("--require-rps judges a rate, --hold keeps one until stopped; give one of them.")
        if self.seed < 0:
            raise UserError(f"--seed: {self.seed} must be zero or more.")


class Safety(msgspec.Struct, frozen=True, kw_only=True):
    """What the load may never exceed, and what was agreed to; None means no such limit.

    `max_rps` limits the rates that are tried. `max_in_flight` requests open at once and `max_duration_s` end the run with what
    is finished. `with_others`: the server serves others, too; then `max_waiting` requests waiting there make load back off.
    `public_ok`: a server that is neither on this machine nor in a private network may be loaded.
    """

    max_rps: float | None = None
    max_in_flight: int | None = None
    max_duration_s: float | None = None
    with_others: bool = False
    max_waiting: int | None = None
    public_ok: bool = False

    def __post_init__(self) -> None:
        if self.max_rps is not None:
            _require_rate(self.max_rps, "--max-rps")
        if self.max_in_flight is not None and self.max_in_flight < 1:
            raise UserError(f"--max-in-flight: {self.max_in_flight} must be at least 1.")
        if self.max_duration_s is not None:
            require_positive(self.max_duration_s, "--max-duration")
        if self.max_waiting is not None and self.max_waiting < 0:
            raise UserError(f"--max-waiting: {self.max_waiting} must be zero or more.")
        if self.max_waiting is not None and not self.with_others:
            raise UserError("--max-waiting protects requests of other users; it needs --with-others.")


class FleetAsk(msgspec.Struct, frozen=True, kw_only=True):
    """What the fleet must carry and survive. tp, pp, dp None means: as the server tells, else 1 and said.

    `headroom` keeps its old name here and in files: it is the load at peak, the share of a replica's safe rate that is used then.
    `lost` replicas at peak, `rollout` ones out for a new version, a growth of `growth_per_min` (a share, compounding) over
    `scale_out_s`, and arrivals of `burstiness` (shape of gamma gaps: 1 is Poisson, less comes in bursts) must still be held;
    None: not asked for. `cost_per_gpu_h` is in any currency.
    """

    peak_rps: float | None = None
    mean_rps: float | None = None
    headroom: float = DEFAULT_HEADROOM
    tp: int | None = None
    pp: int | None = None
    dp: int | None = None
    hardware: Hardware = Hardware()
    cost_per_gpu_h: float | None = None
    lost: int = 1
    rollout: int | None = None
    growth_per_min: float | None = None
    scale_out_s: float | None = None
    burstiness: float | None = None

    def __post_init__(self) -> None:
        most = as_set(HIGHEST_PEAK_RPS)
        for name, rate_rps in (("--peak-rps", self.peak_rps), ("--mean-rps", self.mean_rps)):
            if rate_rps is not None:
                require_positive(rate_rps, name)
                if rate_rps > HIGHEST_PEAK_RPS:
                    raise UserError(f"{name}: {typed(rate_rps)} requests/s is more than any fleet serves; give at most {most}.")
        if not SMALLEST_HEADROOM <= self.headroom <= 1:
            raise UserError(
                f"--load-at-peak: {typed(100 * self.headroom)}% must be from {typed(100 * SMALLEST_HEADROOM)}% to 100%; "
                "70% leaves 30 % spare."
            )
        for name, size in (("--tp", self.tp), ("--pp", self.pp), ("--dp", self.dp)):
            if size is not None and not 1 <= size <= MOST_PARALLEL:
                raise UserError(f"{name}: {size} must be from 1 to {count(MOST_PARALLEL)}.")
        for name, size in (("--lost", self.lost), ("--rollout", self.rollout)):
            if size is not None and not 0 <= size <= MOST_OUT:
                raise UserError(f"{name}: {size} must be from 0 to {count(MOST_OUT)}.")
        require_amount(self.cost_per_gpu_h, "--cost")
        if (self.growth_per_min is None) != (self.scale_out_s is None):
            raise UserError("--growth and --scale-out belong together: by how much a minute the load grows, and for how long.")
        if self.growth_per_min is not None and not 0 < self.growth_per_min <= 1:
            raise UserError(f"--growth: {typed(self.growth_per_min)} must be above 0 and at most 100% a minute.")
        if self.scale_out_s is not None:
            _require_duration(self.scale_out_s, "--scale-out")
        lowest, highest = BURSTINESS
        if self.burstiness is not None and not lowest <= self.burstiness <= highest:
            raise UserError(
                f"--burstiness: {typed(self.burstiness)} must be from {as_set(lowest)} to {as_set(highest)} (1 is Poisson)."
            )


class ProbeConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One run, whole: where, what, within which limits, how, how far, and for which fleet."""

    target: Target
    slo: Slo = Slo(default=True)
    workload: Workload = Workload()
    method: Method = Method()
    safety: Safety = Safety()
    fleet: FleetAsk = FleetAsk()

    def __post_init__(self) -> None:
        only_tpot = self.slo.ttft_s is None and self.slo.e2e_s is None
        if only_tpot and self.workload.output_tokens.largest <= 1:
            raise UserError(
                "The only limit is TPOT, but answers of one token have none; ask for more --output-tokens or set --ttft or --e2e."
            )
        if self.safety.with_others and (self.method.reset_cache or self.method.between):
            raise UserError(
                "--with-others: --reset-cache and --between would also disturb the other users of the server; leave them out."
            )
        max_rps = math.inf if self.safety.max_rps is None else self.safety.max_rps
        for rate_rps in (*self.method.rates_rps, self.method.hold_rps, self.method.require_rps):
            if rate_rps is not None and rate_rps > max_rps:
                raise UserError(
                    f"{typed(rate_rps)} requests/s is asked for, but --max-rps allows {typed(max_rps)}; change one of them."
                )

"""What a run is asked to do: frozen, validated when made, units in the names.

Nothing secret is in here: API keys travel beside the configuration (`core.records.Hello`) and are never written down.
"""

import math
import re
from functools import lru_cache
from typing import Literal

import msgspec

from core.address import PREFIX, Address, joined
from core.errors import UserError
from core.hardware import Hardware, require_amount, require_positive
from core.units import as_set, count, typed
from core.workloads import COLD, MOST_TOKENS, Gateway, MixPart, Prefix, Source, TraceUse

Api = Literal["completions", "chat"]
Mode = Literal["quick", "standard", "acceptance"]
Latency = Literal["ttft_s", "tpot_s", "e2e_s"]
Stop = Literal["exact", "natural"]

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
ARRIVAL_CV = (0.1, 10.0)
"""Below, arrivals are as good as evenly spaced; above, a window is one burst or none."""

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

    def of(self, asked_input: int, asked_output: int) -> "Slo":
        """The limits of a request that asks for so many tokens: these for all, but where kinds have their own (`SloByKind`)."""
        return self

    @property
    def each(self) -> "tuple[Slo, ...]":
        """All limits that some request is judged by."""
        return (self,)

    def common(self, name: Latency) -> float | None:
        """A limit that every request has alike; None where there is none, or kinds have others."""
        limits_s = {getattr(each, name) for each in self.each}
        return limits_s.pop() if len(limits_s) == 1 else None

    @property
    def shortest_ttft_s(self) -> float | None:
        """The strictest limit on TTFT that some request has; None where none has any."""
        return min((each.ttft_s for each in self.each if each.ttft_s is not None), default=None)

    @property
    def shortest_tpot_s(self) -> float | None:
        """The strictest limit on TPOT that some request has; None where none has any."""
        return min((each.tpot_s for each in self.each if each.tpot_s is not None), default=None)

    @property
    def longest_tpot_s(self) -> float | None:
        """The widest limit on TPOT that some request has; None where one has none."""
        limits_s = [each.tpot_s for each in self.each if each.tpot_s is not None]
        return max(limits_s) if len(limits_s) == len(self.each) else None


class SloByKind(Slo, frozen=True, kw_only=True):
    """The limits of a run in whose mix some kinds of request have their own (`Workload.limits`). Its own fields are those of all
    others.

    `kinds`: the limits of those kinds, by their lengths (input, output) in tokens. `others`: whether the mix has any other kind.
    """

    kinds: dict[tuple[int, int], Slo] = {}
    others: bool = True

    def of(self, asked_input: int, asked_output: int) -> Slo:
        """The limits of a request of that kind."""
        return self.kinds.get((asked_input, asked_output), self)

    @property
    def each(self) -> tuple[Slo, ...]:
        """Those of every kind that has its own, and the run's where another kind is judged by them."""
        return (*self.kinds.values(), *((self,) if self.others else ()))


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """What a request asks for, and how requests follow each other. Prompts are cold (a unique salt and unique first tokens each)
    unless `prefix` says what they share.

    `mix`: the kinds of request that come, by weight; where there are any, lengths come from them, both of a request from the same
    kind, and `input_tokens` and `output_tokens` are not read. `source`: where the mix was taken from.
    `arrival_cv`: coefficient of variation of the gaps between arrivals, which are gamma distributed; 1 is Poisson, more comes in
    bursts. Other tools call its shape burstiness: 1 / CV². `length_correlation`: of the logarithms of the two lengths of a request,
    where both are lognormal; above 0, long prompts have long answers. `trace`: requests come as they were recorded; `arrival_cv` is
    then 1, that of the ramp alone.
    `stop`: "exact" has the server ignore its stop conditions, so that an answer has as many tokens as were asked for; "natural"
    lets it end where the model ends it, and the length asked for is the most that it can have.
    `gateway`: the limit of concurrent requests in front of the server; None: each request is sent when it is due.
    `retry_after`: a request that a 429 with Retry-After turned away is sent again when that says.
    `think_s`: the pause between the answer of a turn and the next turn of its conversation; None: the recorded one, else none.
    """

    input_tokens: Lengths = Lengths(median=512)
    output_tokens: Lengths = Lengths(median=128)
    temperature: float = 0.0
    arrival_cv: float = 1.0
    mix: tuple[MixPart, ...] = ()
    source: Source | None = None
    trace: TraceUse | None = None
    length_correlation: float = 0.0
    stop: Stop = "exact"
    gateway: Gateway | None = None
    retry_after: bool = False
    prefix: Prefix = COLD
    think_s: float | None = None

    def __post_init__(self) -> None:
        if self.prefix.kind == "turns" and (self.source is None or self.source.kind != "dataset"):
            raise UserError(
                "--prefix turns is of conversations, whose later turns repeat the earlier ones; give --dataset with some."
            )
        if self.think_s is not None and (self.source is None or self.source.kind != "dataset"):
            raise UserError("--think-time is between the turns of conversations; give --dataset with some, or leave it out.")
        if self.prefix.kind == "shared" and self.prefix.tokens >= (shortest := self._least_to_share):
            which = "a" if not self.mix else "the longest" if self.from_file else "the shortest"
            most = f"share at most {count(shortest - 1)}, or " if shortest > 1 else ""
            raise UserError(
                f"--prefix: with {count(self.prefix.tokens, 'shared token')} nothing is unique in {which} prompt of "
                f"{count(shortest)}; {most}ask for longer prompts."
            )
        lowest, highest = ARRIVAL_CV
        if not lowest <= self.arrival_cv <= highest:
            raise UserError(
                f"--arrival-cv: {typed(self.arrival_cv)} must be from {as_set(lowest)} to {as_set(highest)}; 1 is Poisson, above "
                "come bursts."
            )
        if not -1 <= self.length_correlation <= 1:
            raise UserError(f"--length-correlation: {typed(self.length_correlation)} must be from -1 to 1; 0 is none.")
        if self.length_correlation and (self.mix or self.input_tokens.fixed or self.output_tokens.fixed):
            why = "a mix has both lengths of each request" if self.mix else "a fixed length follows nothing"
            raise UserError(f"--length-correlation needs two lognormal lengths, and {why}; leave it out.")
        _refuse_two_limits(self.mix)

    @property
    def poisson(self) -> bool:
        """Whether requests come as a Poisson process."""
        return self.arrival_cv == 1 and self.trace is None

    @property
    def gap_cv(self) -> float:
        """Coefficient of variation of the gaps between requests, drawn or recorded, as far as one can be asked for."""
        return self.arrival_cv if self.trace is None else min(self.trace.gap_cv, ARRIVAL_CV[1])

    def __hash__(self) -> int:
        """Without the kinds of the mix, which tell hardly more than where they are from: a screen asks by it at every redraw."""
        return hash((self.input_tokens, self.output_tokens, self.arrival_cv, len(self.mix), self.source, self.trace))

    def __deepcopy__(self, memo: object) -> "Workload":
        """Itself: it is frozen, and a trace has thousands of kinds of request, of which each copy of a run's state would be one."""
        return self

    @property
    def joint(self) -> bool:
        """Whether the two lengths of a request belong together, so that they cannot be drawn apart."""
        return bool(self.mix) or self.length_correlation != 0

    @property
    def from_file(self) -> bool:
        """Whether lengths are those of a file; of a dataset they are not known before the server has counted them."""
        return self.source is not None and self.source.file is not None

    @property
    def turns(self) -> bool:
        """Whether some requests are later turns of conversations, which are due when the answer before them has come."""
        return any(part.turn for part in self.mix)

    @property
    def natural(self) -> bool:
        """Whether answers end where the model ends them, at the length asked for at the latest."""
        return self.stop == "natural"

    @property
    def _least_to_share(self) -> int:
        """The length that a shared prefix must be shorter than: that of the shortest prompt. Of lognormal or recorded ones, whose
        shortest nobody named, it is the longest: shorter prompts share all but their last token."""
        if self.from_file:
            return self.longest_input
        return min((part.input_tokens for part in self.mix), default=self.input_tokens.largest)

    @property
    def estimated(self) -> bool:
        """Whether the tokens of some prompts were not known before they were sent."""
        return self.source is not None and self.source.estimated > 0

    @property
    def longest_input(self) -> int:
        """Tokens of the longest prompt that can be drawn."""
        return max((part.input_tokens for part in self.mix), default=self.input_tokens.largest)

    @property
    def longest_output(self) -> int:
        """Tokens of the longest answer that can be asked for."""
        return max((part.output_tokens for part in self.mix), default=self.output_tokens.largest)

    @property
    def longest(self) -> tuple[int, int]:
        """Tokens of the prompt and of the answer of the longest request that can be drawn."""
        pairs = ((part.input_tokens, part.output_tokens) for part in self.mix)
        return max(pairs, key=sum, default=(self.input_tokens.largest, self.output_tokens.largest))

    @property
    def longest_request(self) -> int:
        """Tokens of the longest prompt with its answer."""
        return sum(self.longest)

    def limits(self, slo: Slo) -> Slo:
        """The limits of its requests, where `slo` are those of the run: the same, or with those of the kinds that have their own.

        Raises UserError for a kind that is left without any.
        """
        return _limits(self, slo)


@lru_cache(maxsize=4)  # a trace has thousands of kinds, and a screen asks many times at every redraw
def _limits(workload: Workload, slo: Slo) -> Slo:
    kinds = {(part.input_tokens, part.output_tokens): _with(slo, part) for part in workload.mix if part.limits_s}
    if not kinds:
        return slo
    others = any((part.input_tokens, part.output_tokens) not in kinds for part in workload.mix)
    return SloByKind(**{name: getattr(slo, name) for name in Slo.__struct_fields__}, kinds=kinds, others=others)


def _with(slo: Slo, part: MixPart) -> Slo:
    """The limits of a run with those of one kind in their places."""
    own = {f"{name}_s": limit for name, limit in part.limits_s.items()}
    if all(own.get(name, getattr(slo, name)) is None for name in ("ttft_s", "tpot_s", "e2e_s")):
        raise UserError(f"--mix: {str(part)!r} is left without a limit; leave it one of TTFT, TPOT and E2E.")
    return msgspec.structs.replace(slo, **own)


def _refuse_two_limits(mix: tuple[MixPart, ...]) -> None:
    """A request is known by its two lengths: two kinds of the same could not be told apart."""
    seen: dict[tuple[int, int], MixPart] = {}
    for part in mix:
        first = seen.setdefault((part.input_tokens, part.output_tokens), part)
        if first.limits_s != part.limits_s:
            raise UserError(
                f"--mix: {str(first)!r} and {str(part)!r} have the same lengths and different limits; give them the same limits."
            )


class FleetPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Replicas behind a gateway, held against what one of them held by itself: first the load that is planned for them is judged,
    then as many times what one holds, then down from what fails.

    `one_rps`: the passing rate of one replica, `load_at_peak` the share of it that is used at peak. `one_hit_frac`: its prefix hits
    at that rate; None where prompts share nothing, or it is not known. `lost`: so many replicas are taken away after the answer,
    and the planned load is judged again.
    """

    replicas: int
    one_rps: float
    load_at_peak: float = DEFAULT_HEADROOM
    one_hit_frac: float | None = None
    lost: int = 0

    def __post_init__(self) -> None:
        if self.replicas < 1:
            raise UserError("A fleet has at least one replica.")
        require_positive(self.one_rps, "the rate that one replica holds")
        if not SMALLEST_HEADROOM <= self.load_at_peak <= 1:
            least = typed(100 * SMALLEST_HEADROOM)
            raise UserError(f"--load-at-peak: {typed(100 * self.load_at_peak)}% must be from {least}% to 100%.")
        if not 0 <= self.lost < self.replicas:
            raise UserError(
                f"--lost: {self.lost} of {count(self.replicas, 'replica')} cannot be taken away; at least one must be left."
            )

    @property
    def full_rps(self) -> float:
        """As many times what one holds: the fleet without any cost of the gateway."""
        return self.replicas * self.one_rps

    @property
    def planned_rps(self) -> float:
        """The load at peak that so many replicas are planned for."""
        return self.full_rps * self.load_at_peak


class Method(msgspec.Struct, frozen=True, kw_only=True):
    """How the knee is looked for, or which rates are judged instead.

    `start_rps` None means 2/s0 (s0: the idle E2E latency). `drain_s` ends what no limit decides. `careful`, `repeats`,
    `measure_s` and `budget_s` override the mode's own. `rates_rps`: judge these, look for nothing. `hold_rps`: keep this
    rate until stopped. `require_rps` is judged beside the search and must pass. Between repeats: `reset_cache` empties the
    server's prefix cache; `between` says that a command of the user's runs (the command itself is written nowhere).
    `arrival_seed` and `workload_seed` None mean `seed`; one of them alone changes the arrivals, or the requests, and keeps the
    others. `closed_loop`: measure a closed loop beside the answer. `fleet`: `rates_rps` are those of a fleet, and where one fails
    the search goes down from it.

    For settings of one server beside each other: `one_draw` keeps one draw of arrivals and lengths at every rate of a search, so
    that all settings meet the same requests; `beat_rps` ends the search once its upper end is no higher than this rate, in
    requests/s for each GPU of the replica: another setting holds that much.
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
    closed_loop: bool = False
    seed: int = 11
    arrival_seed: int | None = None
    workload_seed: int | None = None
    one_draw: bool = False
    beat_rps: float | None = None
    fleet: FleetPlan | None = None

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
        if self.closed_loop and self.hold_rps is not None:
            raise UserError("--closed-loop comes after the rates are judged, --hold keeps one until stopped; give one of them.")
        for name, seed in (("--seed", self.seed), ("--arrival-seed", self.arrival_seed), ("--workload-seed", self.workload_seed)):
            if seed is not None and seed < 0:
                raise UserError(f"{name}: {seed} must be zero or more.")

    @property
    def seed_of_arrivals(self) -> int:
        """What the times of requests are drawn from."""
        return self.seed if self.arrival_seed is None else self.arrival_seed

    @property
    def seed_of_requests(self) -> int:
        """What their lengths and prompts are drawn from."""
        return self.seed if self.workload_seed is None else self.workload_seed


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


def refuse_tpot_alone(limits: Slo, workload: Workload) -> None:
    """Raise UserError where TPOT is the only limit of requests whose answers, of one token, have none."""
    if not workload.mix:
        if limits.ttft_s is None and limits.e2e_s is None and workload.output_tokens.largest <= 1:
            raise UserError(
                "The only limit is TPOT, but answers of one token have none; ask for more --output-tokens or set --ttft or --e2e."
            )
        return
    for part in workload.mix:
        slo = limits.of(part.input_tokens, part.output_tokens)
        if part.output_tokens <= 1 and slo.ttft_s is None and slo.e2e_s is None:
            raise UserError(
                f"The only limit of {str(part)!r} is TPOT, but an answer of one token has none; set --ttft or --e2e, or ask that "
                "kind for more tokens."
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
        refuse_tpot_alone(self.limits, self.workload)
        if self.safety.with_others and (self.method.reset_cache or self.method.between):
            raise UserError(
                "--with-others: --reset-cache and --between would also disturb the other users of the server; leave them out."
            )
        if self.method.closed_loop and self.workload.gateway is not None:
            raise UserError(
                "--closed-loop sends its own number of requests at once, which no --gateway-limit holds back; give one of them."
            )
        if self.method.closed_loop and self.workload.prefix.kind == "turns":
            raise UserError(
                "--closed-loop sends each turn by itself, without what --prefix turns keeps of the earlier ones; give one of them."
            )
        max_rps = math.inf if self.safety.max_rps is None else self.safety.max_rps
        for rate_rps in (*self.method.rates_rps, self.method.hold_rps, self.method.require_rps):
            if rate_rps is not None and rate_rps > max_rps:
                raise UserError(
                    f"{typed(rate_rps)} requests/s is asked for, but --max-rps allows {typed(max_rps)}; change one of them."
                )

    @property
    def limits(self) -> Slo:
        """What requests are judged by: the run's limits, with those of the kinds of its mix that have their own."""
        return self.workload.limits(self.slo)

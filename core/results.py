"""What a run's measurements mean: the judged repeats, steps and the answer, as frozen records without behaviour.

They are fields of the result file. None means "not known" or "not available", never zero.
"""

from typing import Literal

import msgspec

from core.config import Slo, Stop
from core.engine import BLOCK_TOKENS, Limits, StepModel
from core.facts import Fact, Said
from core.knee_ends import FailCount as FailCount
from core.knee_ends import KneeEnds
from core.length_classes import LengthClasses
from core.records import Phase
from core.units import rate_text
from core.workloads import COLD, Gateway, Prefix

RepeatVerdict = Literal["pass", "fail", "void", "unjudged"]
StepVerdict = Literal["pass", "fail", "mixed", "void", "unjudged"]
QueueVerdict = Literal["flat", "rising", "undecided"]
Outcome = Literal["bracket", "at_least", "below", "infeasible", "held", "void", "refused", "interrupted"]
Cause = Literal[
    "slots",
    "kv",
    "prefill",
    "decode",
    "deferred",
    "uneven",
    "frontend",
    "client",
    "prefix",
    "lengths",
    "failures",
    "gateway",
    "none",
    "unknown",
]
"""`deferred`: requests wait for a KV transfer or a LoRA. `uneven`: one of several engines is full while others have room.
`gateway`: the limit of a gateway holds requests back."""
Place = Literal["client", "workload", "queue", "stages", "resources"]
Finding = Literal["clear", "bound", "open", "unknown"]


_POSSIBLE_RPS = (1e-6, 1e9)
"""Wider than what can be asked for: a rate outside stands in no run that took place."""


def _require_possible(*rates_rps: float | None) -> None:
    lowest, highest = _POSSIBLE_RPS
    for rate_rps in rates_rps:
        if rate_rps is not None and not lowest <= rate_rps <= highest:
            raise ValueError(f"{rate_text(rate_rps)} was never measured")


class Percentiles(msgspec.Struct, frozen=True, kw_only=True):
    """Nearest rank over n values; all None when n is 0."""

    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    mean: float | None = None
    max: float | None = None
    n: int = 0


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """Running attainment of one repeat while requests are open; both ends are exact, because the denominator is the plan.

    Of `planned` measured requests `good` met every limit, `bad` surely cannot, `open` are in flight, the rest is not sent yet.
    `overdue` of the bad ones are in flight, too.
    So far: [lo, hi] over what was sent; whole repeat: [end_lo, end_hi] over the plan.
    """

    planned: int
    good: int
    bad: int
    open: int
    overdue: int = 0

    @property
    def sent(self) -> int:
        return self.good + self.bad + self.open

    @property
    def so_far(self) -> tuple[float, float] | None:
        """Attainment of what was sent so far, as [lowest, highest]; None before the first."""
        return (self.good / self.sent, (self.good + self.open) / self.sent) if self.sent else None

    @property
    def end(self) -> tuple[float, float]:
        """Attainment that the whole repeat can still reach, as [lowest, highest]."""
        return (self.good / self.planned, (self.planned - self.bad) / self.planned) if self.planned else (0.0, 1.0)


class WorstBlock(msgspec.Struct, frozen=True, kw_only=True):
    """The stretch of a repeat's window (at least 4 mean E2E long) with the lowest attainment; seconds since the window began.
    It shows bad moments inside a repeat. It is not an independent sample: neighbouring requests share their fate."""

    from_s: float
    to_s: float
    attainment: float


class Bucket(msgspec.Struct, frozen=True, kw_only=True):
    """The requests of one length class: `input` and `output` are the (lowest, highest) token counts asked for in it.
    `n` were planned, `decided` of them are good or surely missed; where these differ, `attainment` is None. `others`: what is too
    rare for a class of its own. `errors` ended in one. `good` and `errors` are None in files from before they were kept, whose
    classes were those of each repeat by itself, and cannot be added up. In seconds."""

    input: tuple[int, int]
    output: tuple[int, int]
    others: bool = False
    n: int
    decided: int = 0
    good: int | None = None
    errors: int | None = None
    attainment: float | None
    ttft_p50_s: float | None = None
    ttft_p95_s: float | None
    tpot_p50_s: float | None = None
    tpot_p95_s: float | None
    e2e_p95_s: float | None = None

    @property
    def attainment_interval(self) -> tuple[float, float]:
        """What its attainment can be at least and at most."""
        if self.attainment is not None or self.good is None:
            return (0.0, 1.0) if self.attainment is None else (self.attainment, self.attainment)
        return self.good / self.n, 1 - (self.decided - self.good) / self.n


class Missed(msgspec.Struct, frozen=True, kw_only=True):
    """Measured requests that surely missed, by what they missed; one that missed two limits counts in both. Of a repeat that
    was cut short, requests cut off are counted where they were already past a limit, and where none was, the warm-up's.
    `gateway`: those that a gateway's limit turned away, and of those late in TTFT or E2E the ones that would have met both without
    their wait there. `previous`: turns of conversations in which one before them had failed."""

    ttft: int = 0
    tpot: int = 0
    e2e: int = 0
    failed: int = 0
    gateway: int = 0
    previous: int = 0


class GatewayUse(msgspec.Struct, frozen=True, kw_only=True):
    """What a gateway's limit of `limit` open requests did to those of a window. `wait_s`: of those that it did not reject at once,
    0 of one that found a place. `held` had to wait; `rejected` found its queue full, `timed_out` waited there for too long: both
    are misses, and no errors. `never_sent`: those that did not get to the server, the ones that still waited when the load was cut
    off included."""

    limit: int
    wait_s: Percentiles
    held: int
    rejected: int
    timed_out: int
    never_sent: int


class MeanLengths(msgspec.Struct, frozen=True, kw_only=True):
    """Mean tokens of the window's ok requests (where there are none, of the warm-up's), as they came and as they were asked
    for, and why their answers ended. `stop`: with "natural", what was asked for is the most that an answer can have."""

    input: float | None
    input_asked: float
    output: float
    output_asked: float
    finish_reasons: dict[str, int]
    stop: Stop = "exact"


class OutputTokens(msgspec.Struct, frozen=True, kw_only=True):
    """How many tokens the `n` answers of a window had (`core.judge.evidence.answered`). `sd` is the standard deviation, percentiles
    are by nearest rank."""

    mean: float
    sd: float
    p50: float
    p90: float
    p95: float
    n: int


class Stages(msgspec.Struct, frozen=True, kw_only=True):
    """Mean seconds of a request by the server's own histograms, over the `finished` requests that ended there during the
    repeat (warm-up included; a request that was cut off is in none of them). `ttft_s` and `tpot_s` are ours of the same, and so is
    `gateway_s`, the part of that TTFT for which they waited at a gateway's limit; None where none did."""

    finished: int
    queue_s: float | None
    prefill_s: float | None
    decode_s: float | None
    ttft_s: float | None = None
    tpot_s: float | None = None
    gateway_s: float | None = None


class EngineUse(msgspec.Struct, frozen=True, kw_only=True):
    """One of several engines: means over the readings of the window that show it."""

    name: str
    running_mean: float
    waiting_mean: float
    kv_usage_mean: float | None = None


class Gauges(msgspec.Struct, frozen=True, kw_only=True):
    """The server's gauges over the readings of the window. `queued`: in so many of them requests waited. What the others
    showed meanwhile tells what kept those out: the running ones (`plateau` of these readings were at the repeat's highest, but
    for the sequences that one step finishes) and the KV usage. `waiting_deferred_mean`: of those that waited, for a transfer of
    their KV cache or for a LoRA. `engines`: each of them, where there are several."""

    readings: int
    waiting_mean: float
    running_mean: float
    kv_usage_mean: float | None
    queued: int = 0
    queued_running_mean: float | None = None
    queued_kv_usage_mean: float | None = None
    plateau: int = 0
    waiting_deferred_mean: float | None = None
    engines: tuple[EngineUse, ...] = ()


class MachineUse(msgspec.Struct, frozen=True, kw_only=True):
    """What the exporter named by --gpu-metrics-url showed during a repeat: means over its readings and over its GPUs, as shares.
    `gpu_memory_frac` is the fullest GPU's; `cpu_frac` the share of all the host's processor time that was not idle."""

    gpus: int | None = None
    gpu_frac: float | None = None
    dram_frac: float | None = None
    tensor_frac: float | None = None
    gpu_memory_frac: float | None = None
    cpu_frac: float | None = None
    memory_frac: float | None = None


class SloMargin(msgspec.Struct, frozen=True, kw_only=True):
    """The margins (`core.slo.margin`) of all the requests that a window planned, by nearest rank: at the target and the median.

    Failed requests, and those that never ended, are beyond every limit: `unbounded` where the one at the target is among them,
    which has no figure then. `at_least`: the window was cut, and these are the least that they can have come to.
    """

    at_target: float | None = None
    p50: float | None = None
    unbounded: bool = False
    at_least: bool = False


class WindowWork(msgspec.Struct, frozen=True, kw_only=True):
    """What was planned to arrive in a window and in the stretch just before it, which still loads the server: over `seconds`.
    `more_frac`: by which share that is more work than the rate lets expect (below 0: less); None where it is not known."""

    seconds: float
    requests: int
    input_tokens: int
    output_tokens: int
    more_frac: float | None = None


class TokenCosts(msgspec.Struct, frozen=True, kw_only=True):
    """What a token of a prompt and one of an answer cost a server, in seconds, as far as its single requests tell: only their ratio
    matters. And how many of each a request has on average, as they are drawn."""

    prompt_s: float
    answer_s: float
    input_tokens: float
    output_tokens: float


MOST_SHIFT = 0.45
"""Logarithm of the factor beyond which a twin's plan is not sped up or slowed down: there it explains nothing any more."""


class TwinShift(msgspec.Struct, frozen=True, kw_only=True):
    """How far a window is from its twin: `shift` is the logarithm of the factor by which its plan must be sped up for the twin to
    show the same X; above zero the twin is faster. At +-MOST_SHIFT it is that or more. `cut`: the window was cut at a fail, so the
    true shift is at least this; `early`: it was ended as a sure pass, so it is at most this."""

    step: int
    repeat: int
    shift: float
    cut: bool = False
    early: bool = False


class TwinReading(msgspec.Struct, frozen=True, kw_only=True):
    """What the twin of a run shows after some of its windows: its long-run knee with the standard error of its draws, and the shift
    of each window, in the order of the run. It is a model's word: it may choose rates and guard ends, and never answers.

    `pass_curve`: (ln(rate / knee), share of windows of `measure_s` that pass there). `median_shift`: of the absolute shifts of the
    windows that were neither cut nor ended early; None without one. `cpu_s`: processor seconds that the reading took.
    """

    knee_rps: float
    se_frac: float
    shifts: tuple[TwinShift, ...]
    pass_curve: tuple[tuple[float, float], ...]
    measure_s: float
    median_shift: float | None
    steps: StepModel
    limits: Limits
    cpu_s: float = 0.0


MOST_STEADY = 1.1
"""Steps that take longer by this factor at the same batch are those of a server that changed (measured in `core.run.drift`)."""


class WorkerUse(msgspec.Struct, frozen=True, kw_only=True):
    """What one of several machines that send did in a repeat: its own part of what is told of the client as a whole."""

    name: str
    sent: int
    lateness_p99_s: float | None = None
    lateness_max_s: float | None = None
    loop_lag_max_s: float | None = None
    client_cpu_frac: float | None = None


class ReplicaUse(msgspec.Struct, frozen=True, kw_only=True):
    """One of several replicas behind a gateway in the window of a repeat, by its own /metrics.

    `requests` that it finished; `share`: of those of all replicas, against an even one (1.0 is even, of four 4.0 is all of them).
    None where its readings do not tell.
    """

    name: str
    requests: float | None = None
    share: float | None = None
    running_mean: float | None = None
    waiting_mean: float | None = None
    kv_usage_mean: float | None = None
    kv_usage_max: float | None = None
    preemptions: float | None = None
    prefix_hit_frac: float | None = None


class RepeatSteps(msgspec.Struct, frozen=True, kw_only=True):
    """How long the steps of a repeat took, by its own requests: the constants of `core.engine.StepModel`, None where it has too few
    to tell. `drift_frac`: by which share steps took longer than those of the run's first repeat, at the same batch."""

    a_s: float | None = None
    b_s: float | None = None
    c_s: float | None = None
    p_s: float | None = None
    error_frac: float | None = None
    drift_frac: float | None = None


class RepeatResult(msgspec.Struct, frozen=True, kw_only=True):
    """One judged repeat; the fields are those of the result file (docs/result.md).

    `attainment_interval` is (good/planned, 1 - misses/planned): one number when every ending was decided. `others_rps`: requests of
    others a second, as far as the server's counters tell. `errors_said`: the most frequent sentence of the errors, in the server's
    words; `failures_alike`: what the failures have in common, those of the warm-up too. `margin`: of each ok request the worst of
    its latencies as a share of that latency's limit (1.0 is at the limit). `slo_margin` and `work`: None of a ramp, and in files
    from before they were kept. `output_tokens`: None where no answer came, where the tokens of one are not known, and in files from
    before it was kept; `stopped_frac`: the share of the same answers that a stop condition ended. `warmup_needed_s`: the warm-up
    that requests as long as the window's need; None where none ended well. `gateway`: None where no limit of a gateway was asked
    for. `retried`: requests of the window that were sent again because a 429 asked for that. `not_due`: turns of conversations that
    had not become due when the drain time was over. `sizes`: how many ok requests of the
    window had prompts and answers of which length, as (bin of the prompt, bin of the answer, requests) by
    `core.length_classes.size_bin`; empty in files from before they were kept."""

    index: int
    order: int
    verdict: RepeatVerdict
    reason: Said
    attainment: float | None
    attainment_interval: tuple[float, float]
    planned: int
    sent: int
    succeeded: int
    good: int
    misses: int
    errors: int
    error_rate: float
    endings: dict[str, int]
    errors_said: str | None = None
    failures_alike: Fact | None = None
    lateness_s: Percentiles
    queue: QueueVerdict | None
    offered_rps: float
    served_rps: float
    goodput_rps: float
    output_tps: float
    total_tps: float
    ttft_s: Percentiles
    tpot_s: Percentiles
    e2e_s: Percentiles
    itl_s: Percentiles
    margin: Percentiles = Percentiles()
    output_tokens: OutputTokens | None = None
    stopped_frac: float | None = None
    slo_margin: SloMargin | None = None
    work: WindowWork | None = None
    step_model: RepeatSteps | None = None
    kv_usage_max: float | None = None
    preemptions: float | None = None
    waiting_max: float | None = None
    running_max: float | None = None
    prefix_hit_frac: float | None = None
    planned_hit_frac: float | None = None
    worst_block: WorstBlock | None = None
    buckets: tuple[Bucket, ...] = ()
    sizes: tuple[tuple[int, int, int], ...] = ()
    loop_lag_max_s: float | None = None
    others_rps: float | None = None
    client_cpu_frac: float | None = None
    client_memory_peak_bytes: int | None = None
    missed: Missed | None = None
    lengths: MeanLengths | None = None
    stages: Stages | None = None
    gauges: Gauges | None = None
    machine: MachineUse | None = None
    warmup_s: float = 0.0
    warmup_needed_s: float | None = None
    measure_s: float = 0.0
    curtailed: bool = False
    duration_s: float = 0.0
    warnings: tuple[Said, ...] = ()
    gateway: GatewayUse | None = None
    retried: int = 0
    not_due: int = 0
    workers: tuple[WorkerUse, ...] = ()
    replicas: tuple[ReplicaUse, ...] = ()


class StepResult(msgspec.Struct, frozen=True, kw_only=True):
    """One rate with its repeats. `floor` is the minimum attainment over the valid repeats, as an interval when curtailed.
    `set_aside`: it was judged before the server was away, or after replicas were taken away, and is no part of the bracket.

    Raises ValueError for a rate that cannot be.
    """

    step: int
    rate_rps: float
    phase: Phase
    verdict: StepVerdict
    reason: Said
    floor: tuple[float, float] | None
    repeats: tuple[RepeatResult, ...]
    duration_s: float = 0.0
    set_aside: bool = False

    def __post_init__(self) -> None:
        _require_possible(self.rate_rps)


class KneeEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """An interval for the long-run knee, from one curve fitted over all repeats, each seed as one observation.

    `nominal`: the share of searches in which such an interval is meant to hold the knee. It changes no verdict.
    """

    low_rps: float
    high_rps: float
    nominal: float


class Knee(KneeEnds, frozen=True, kw_only=True):
    """The bracket: highest passing rate, first failing rate, clear fail (None in quick mode), and the upper end. `first_fail` and
    `upper` count the repeats at their rates; None where no repeat failed there but the ramp did. Raises ValueError for a rate that
    cannot be.

    `open_above`: rates failed, but none of them for sure above the knee, so there is no upper end.
    """

    estimate: KneeEstimate | None = None
    notes: tuple[Said, ...] = ()

    def __post_init__(self) -> None:
        _require_possible(self.pass_rps, self.first_fail_rps, self.clear_fail_rps, self.upper_rps)


class Idle(msgspec.Struct, frozen=True, kw_only=True):
    """What single requests on the idle server showed: mean seconds per output token, and seconds of prefill per prompt token,
    network included. None where no request showed it."""

    tpot_s: float | None = None
    prefill_token_s: float | None = None


Figures = dict[str, float | str | None]


class DiagnosisStep(msgspec.Struct, frozen=True, kw_only=True):
    """One place looked at, in the order of the list: how it stands, with its figures, and what was found there.

    clear: not this; bound: this held the replica back or spoilt the run; open: it may be; unknown: a figure is missing.
    """

    place: Place
    verdict: Finding
    text: Said
    figures: Figures = {}


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """What bound the replica at the knee, or kept the run from an answer. `at_rps`: the failing rate that was looked at.

    `sure`: one cause fits, no figure speaks against it, and none that could is missing. `also` fits beside `cause` otherwise.
    `setting` is the server's option to change, `advice` how. `ruled_out`: what it is not.
    """

    cause: Cause
    sentence: Said
    at_rps: float | None = None
    also: Cause | None = None
    sure: bool = False
    setting: str | None = None
    advice: Said | None = None
    steps: tuple[DiagnosisStep, ...] = ()
    ruled_out: tuple[Said, ...] = ()


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a run in one value: which kind of answer, what it amounts to, and the knee as far as it is known.
    `required_met`: whether the required rate passed; None when none was required or it was not judged. `told`: the notes of the
    knee that the message says already. `alone`: the message for below a headline with the outcome; None: as it is."""

    outcome: Outcome
    message: Said
    knee: Knee = Knee()
    required_met: bool | None = None
    told: tuple[Said, ...] = ()
    alone: Said | None = None
    diagnosis: Diagnosis | None = None


class ClientInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The machine and software that offered the load; the host name only as a hash."""

    version: str
    python: str
    platform: str
    hostname_hash: str
    cores: int
    transport: str


class ClosedRung(msgspec.Struct, frozen=True, kw_only=True):
    """A closed loop with one number of requests in flight: `sent` of them in `duration_s`, from the first send to the last end.
    `good` met every limit by latencies that count from the send; `met`: their share is at least the target."""

    in_flight: int
    duration_s: float
    sent: int
    completed: int
    good: int
    met: bool

    @property
    def attainment(self) -> float:
        """Share of all that were sent."""
        return self.good / self.sent if self.sent else 0.0

    @property
    def completed_rps(self) -> float:
        """Requests a second that ended well, good or not."""
        return self.completed / self.duration_s if self.duration_s > 0 else 0.0


class ClosedLoop(msgspec.Struct, frozen=True, kw_only=True):
    """What a benchmark with a fixed number of requests in flight would report of the server. Never a verdict, nor a part of one.

    `rungs`: each with twice as many in flight as the one before. `ended`: why there are no more; None while it goes on.
    """

    rungs: tuple[ClosedRung, ...] = ()
    ended: Said | None = None

    @property
    def highest(self) -> ClosedRung | None:
        """The most requests in flight that met the target; None where none did."""
        met = [rung for rung in self.rungs if rung.met]
        return met[-1] if met else None


# what `judge` needs to know of an order before it runs --------------------------------------------------------------


class JudgeRules(msgspec.Struct, frozen=True, kw_only=True):
    """The rules by which a repeat is judged: its limits, what prompts share (`block_tokens`: in what blocks), whether a pass may be
    cut short.
    `reads_whole`: a window that has failed goes on to its end, for how far it was from the limits, unless it is hopeless. `costs`:
    what tells how much work a window brought. `strict`: a window so small that its target allows no miss is void instead of a
    warning (acceptance). `with_others`: others may use the server meanwhile, so that they void nothing. `stop`: with "natural"
    answers may be shorter than asked. `gateway`: the gateway's limit that was asked for. `classes`: those of the lengths; None: of
    what the repeat's own plan has. `estimated`: how long prompts are was not known beforehand. `hits_told`: prefix hits off the
    plan are what a check of a fleet is to find: they void nothing, and its answer tells them."""

    slo: Slo
    prefix: Prefix = COLD
    block_tokens: int = BLOCK_TOKENS
    curtail_pass: bool = True
    reads_whole: bool = False
    costs: TokenCosts | None = None
    classes: LengthClasses | None = None
    strict: bool = False
    with_others: bool = False
    stop: Stop = "exact"
    gateway: Gateway | None = None
    estimated: bool = False
    hits_told: bool = False

"""What rooms hand each other: frozen records without behaviour.

Times are seconds on the machine's monotonic clock (shared by all processes), unless a name ends in `_offset_s`
(seconds after the order's time zero) or `_utc`. None means "not known" or "not available", never zero.
"""

from typing import Literal

import msgspec

from core.config import Slo, Target, Workload

Phase = Literal["preflight", "single", "ramp", "search", "confirm", "tighten", "list", "hold"]
Role = Literal["warmup", "measured", "tail"]
Ending = Literal["ok", "http", "stream", "truncated", "empty", "timeout", "connection", "client", "aborted"]
CheckStatus = Literal["pass", "warn", "refuse"]
RepeatVerdict = Literal["pass", "fail", "void", "unjudged"]
StepVerdict = Literal["pass", "fail", "mixed", "void", "unjudged"]
QueueVerdict = Literal["flat", "rising", "undecided"]
Outcome = Literal["bracket", "at_least", "below", "infeasible", "held", "void", "refused", "interrupted"]
LoadState = Literal["idle", "loading", "draining", "stopped"]


# --- what is to be sent -------------------------------------------------------------------------------------------


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of Poisson arrivals at one rate; only requests scheduled in a "measured" one are judged."""

    rate_rps: float
    duration_s: float
    role: Role


class PromptAlphabet(msgspec.Struct, frozen=True, kw_only=True):
    """What prompts can be made of on this server, found by preflight.

    `token_ids` are ordinary ids that the model knows (completions). Chat prompts are `words` joined by blanks, each
    `tokens_per_word` tokens long, beside `chat_overhead_tokens` of the template.
    """

    token_ids: tuple[int, ...]
    words: tuple[str, ...] = ()
    tokens_per_word: float = 1.0
    chat_overhead_tokens: float = 0.0


class Hello(msgspec.Struct, frozen=True, kw_only=True, tag="hello"):
    """First message to the generator child: everything that stays the same for the run. Travels by pipe only.

    `nonce` (random hex of the run) makes prompts cold: it goes into salts and first tokens, never into seeds.
    """

    target: Target
    model: str
    workload: Workload
    alphabet: PromptAlphabet
    nonce: str
    api_key: str | None = None

    def __repr__(self) -> str:
        return f"Hello({self.target.url}, model={self.model!r}, key={'set' if self.api_key else 'none'})"


class RepeatOrder(msgspec.Struct, frozen=True, kw_only=True, tag="order"):
    """One repeat as one order: the child draws all arrivals from it before `start_at` and sends on schedule.

    Arrivals are unit exponentials mapped through the segments (`core.load.arrivals`), or `offsets_s` as given.
    Seeds: SeedSequence(seed, spawn_key=(PHASE_KEY[phase], repeat)).spawn(2) -> arrivals, workload.
    The tail segment keeps arriving until StopArrivals or Abort comes.
    """

    order: int
    phase: Phase
    step: int
    repeat: int
    seed: int
    segments: tuple[Segment, ...] = ()
    offsets_s: tuple[float, ...] | None = None
    start_at: float


class StopArrivals(msgspec.Struct, frozen=True, kw_only=True, tag="stop_arrivals"):
    """Send nothing new for this order; open requests run to their end."""

    order: int


class Abort(msgspec.Struct, frozen=True, kw_only=True, tag="abort"):
    """Stop at once: nothing new, open requests are cancelled and their connections closed so that the server frees its slots."""

    order: int


ChildCommand = Hello | RepeatOrder | StopArrivals | Abort


# --- what happened to it ------------------------------------------------------------------------------------------


class RequestSent(msgspec.Struct, frozen=True, kw_only=True, tag="sent"):
    """A request left the client. `t_sched` is when it was due; every latency starts there."""

    order: int
    index: int
    t_sched: float
    t_sent: float


class RequestFirst(msgspec.Struct, frozen=True, kw_only=True, tag="first"):
    """The first event with output arrived, carrying `first_tokens` >= 1 tokens."""

    order: int
    index: int
    t_first: float
    first_tokens: int


class GapSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Gaps between the events of one answer that carried tokens (ITL), summed up in the child.

    `bins` is a sparse histogram on the log scale of `core.sketch`: (bin, count).
    """

    n: int = 0
    sum_s: float = 0.0
    max_s: float = 0.0
    under_1ms: int = 0
    bins: tuple[tuple[int, int], ...] = ()


class RequestEnded(msgspec.Struct, frozen=True, kw_only=True, tag="ended"):
    """How a request ended, with everything measured about it (all times None where it did not come so far).

    `t_last` is the last event whose token count rose, `t_end` the end of the body. `error` is the server's first
    sentence or ours. `usage` False: tokens were counted one per event because the server sent no usage.
    """

    order: int
    index: int
    t_sched: float
    t_sent: float | None = None
    t_first: float | None = None
    t_last: float | None = None
    t_end: float
    first_tokens: int = 0
    output_tokens: int = 0
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    asked_input: int
    asked_output: int
    ending: Ending
    finish_reason: str | None = None
    status: int | None = None
    error: str | None = None
    usage: bool = True
    fingerprint: str | None = None
    gaps: GapSummary = GapSummary()


RequestRecord = RequestEnded
"""One finished request; the record is the event of its end."""


class LoadTick(msgspec.Struct, frozen=True, kw_only=True, tag="load_tick"):
    """Twice a second from the child while an order runs: its own state, so that it can be held responsible."""

    order: int
    t: float
    in_flight: int
    loop_lag_max_s: float
    cpu_frac: float


class LoadDone(msgspec.Struct, frozen=True, kw_only=True, tag="load_done"):
    """The order is over: nothing of it is in flight and nothing more will be sent. `unsent` counts planned arrivals that were
    due and could not be sent; arrivals cut off by StopArrivals or Abort are not among them."""

    order: int
    t: float
    sent: int
    unsent: int
    cpu_frac: float
    loop_lag_max_s: float


class LoadReady(msgspec.Struct, frozen=True, kw_only=True, tag="load_ready"):
    """The child is up: what it runs on. `fd_limit` is the soft limit of open files after raising it."""

    t: float
    python: str
    loop: str
    transport: str
    fd_limit: int


ChildMessage = LoadReady | RequestSent | RequestFirst | RequestEnded | LoadTick | LoadDone


# --- what the server says of itself -------------------------------------------------------------------------------


class ServerSample(msgspec.Struct, frozen=True, kw_only=True):
    """One reading of /metrics, of any vLLM version; `*_total` are counters, sums over engines where that makes sense.

    `kv_usage_frac` is the mean over engines, `kv_usage_max_frac` the fullest one. Histograms come as (sum, count).
    `epoch` changes when the server restarted (process start or `_created` of a counter, or a counter that fell).
    """

    t: float
    took_s: float
    engines: int = 1
    running: float | None = None
    waiting: float | None = None
    kv_usage_frac: float | None = None
    kv_usage_max_frac: float | None = None
    preemptions_total: float | None = None
    prompt_tokens_total: float | None = None
    generation_tokens_total: float | None = None
    requests_success_total: float | None = None
    prefix_queries_total: float | None = None
    prefix_hits_total: float | None = None
    ttft_s: tuple[float, float] | None = None
    queue_time_s: tuple[float, float] | None = None
    prefill_time_s: tuple[float, float] | None = None
    decode_time_s: tuple[float, float] | None = None
    epoch: float | None = None


class ServerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What stays the same about the server during a run. tp, pp, dp None: the server does not tell."""

    url: str
    version: str | None = None
    model: str | None = None
    max_model_len: int | None = None
    metrics_url: str | None = None
    kv_cache_tokens: int | None = None
    engines: int = 1
    tp: int | None = None
    pp: int | None = None
    dp: int | None = None
    fingerprint: str | None = None
    simulated: bool = False
    config: dict[str, str] = {}


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One line of preflight: what was looked at, how it stands, one sentence."""

    check: str
    status: CheckStatus
    message: str


# --- what it means ------------------------------------------------------------------------------------------------


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
    So far: [lo, hi] over what was sent; whole repeat: [end_lo, end_hi] over the plan.
    """

    planned: int
    good: int
    bad: int
    open: int

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
    `n` were planned, `decided` of them have an ending that counts; where these differ, `attainment` is None."""

    input: tuple[int, int]
    output: tuple[int, int]
    n: int
    decided: int = 0
    attainment: float | None
    ttft_p95_s: float | None
    tpot_p95_s: float | None


class RepeatResult(msgspec.Struct, frozen=True, kw_only=True):
    """One judged repeat; the fields are those of the result file (README.md, "Result").

    `attainment_interval` is (good/planned, 1 - misses/planned): one number when every ending was decided.
    """

    index: int
    order: int
    verdict: RepeatVerdict
    reason: str
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
    kv_usage_max: float | None = None
    preemptions: float | None = None
    waiting_max: float | None = None
    running_max: float | None = None
    prefix_hit_frac: float | None = None
    worst_block: WorstBlock | None = None
    buckets: tuple[Bucket, ...] = ()
    loop_lag_max_s: float | None = None
    warmup_s: float = 0.0
    measure_s: float = 0.0
    curtailed: bool = False
    duration_s: float = 0.0
    warnings: tuple[str, ...] = ()


class StepResult(msgspec.Struct, frozen=True, kw_only=True):
    """One rate with its repeats. `floor` is the minimum attainment over the valid repeats, as an interval when curtailed."""

    step: int
    rate_rps: float
    phase: Phase
    verdict: StepVerdict
    reason: str
    floor: tuple[float, float] | None
    repeats: tuple[RepeatResult, ...]
    duration_s: float = 0.0


class FailCount(msgspec.Struct, frozen=True, kw_only=True):
    """How many of the repeats run at a rate failed."""

    failed: int
    run: int


class Knee(msgspec.Struct, frozen=True, kw_only=True):
    """The bracket: highest passing rate, first failing rate, clear fail (None in quick mode)."""

    pass_rps: float | None = None
    pass_repeats: int = 0
    first_fail_rps: float | None = None
    first_fail: FailCount | None = None
    clear_fail_rps: float | None = None
    clear_fail: FailCount | None = None
    notes: tuple[str, ...] = ()


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a run in one value: which kind of answer, in one sentence, and the knee as far as it is known.
    `required_met`: whether the required rate passed; None when none was required or it was not judged."""

    outcome: Outcome
    message: str
    knee: Knee = Knee()
    required_met: bool | None = None


class ClientInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The machine and software that offered the load; the host name only as a hash."""

    version: str
    python: str
    platform: str
    hostname_hash: str
    cores: int
    transport: str


# what `judge` needs to know of an order before it runs --------------------------------------------------------------


class JudgeRules(msgspec.Struct, frozen=True, kw_only=True):
    """The rules by which a repeat is judged: its limits, whether prompts must have been cold, whether a pass may be cut short.
    `strict`: a window so small that its target allows no miss is void instead of a warning (acceptance)."""

    slo: Slo
    cold: bool = True
    curtail_pass: bool = True
    strict: bool = False

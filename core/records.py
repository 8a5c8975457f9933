"""What rooms hand each other: frozen records without behaviour.

Times are seconds on the machine's monotonic clock (shared by all processes), unless a name ends in `_offset_s`
(seconds after the order's time zero) or `_utc`. None means "not known" or "not available", never zero.
"""

from typing import Literal

import msgspec

from core.access import Access
from core.config import Target, Workload
from core.facts import Said

Phase = Literal["preflight", "single", "ramp", "search", "confirm", "tighten", "list", "lost", "hold", "prefix"]
ASIDE: frozenset[Phase] = frozenset({"preflight", "single", "prefix"})
"""Orders of these phases are no repeats: requests that are sent before the load or beside it."""
Role = Literal["warmup", "measured", "tail"]
Ending = Literal[
    "ok",
    "http",
    "stream",
    "truncated",
    "empty",
    "timeout",
    "connection",
    "client",
    "aborted",
    "rejected",
    "queue_timeout",
    "previous_failed",
]
GATEWAY_ENDINGS: tuple[Ending, ...] = ("rejected", "queue_timeout")
"""A gateway's limit had no place for the request: its queue was full, or the request waited there for too long. A miss, and no
error of the server."""
NEVER_SENT: tuple[Ending, ...] = (*GATEWAY_ENDINGS, "previous_failed")
"""The request never got to the server, and is a miss: also a turn of a conversation in which one before it failed."""
NO_ERRORS: tuple[Ending, ...] = ("ok", "aborted", *NEVER_SENT)
"""Endings by which neither the server nor the client failed."""
CheckStatus = Literal["pass", "warn", "refuse"]
LoadState = Literal["idle", "loading", "draining", "stopped"]
LengthField = Literal["max_completion_tokens", "max_tokens"]
PromptForm = Literal["ids", "text", "messages"]
UsageAsked = Literal["continuous", "end", "none"]
Dispensable = Literal["top_p", "ignore_eos"]
CountedBy = Literal["usage", "token_ids", "length", "events"]
"""What the tokens of an answer were counted by: the server's usage, the token ids that it sent, the length asked for by which it
ended, or one per event, which is the least that it can have had."""


# --- what is to be sent -------------------------------------------------------------------------------------------


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of arrivals at one rate; only requests scheduled in a "measured" one are judged."""

    rate_rps: float
    duration_s: float
    role: Role


class PromptAlphabet(msgspec.Struct, frozen=True, kw_only=True):
    """What prompts can be made of on this server, found by preflight.

    `token_ids` are ordinary ids that the model knows. Prompts of text are `words` joined by blanks, each `tokens_per_word` tokens
    long, beside `chat_overhead_tokens` of a chat's template, or of the special tokens of a completion.
    """

    token_ids: tuple[int, ...]
    words: tuple[str, ...] = ()
    tokens_per_word: float = 1.0
    chat_overhead_tokens: float = 0.0


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """How a request is written, where servers differ in what they take. The defaults are those of a completion on vLLM.

    `prompt`: token ids or text of a completion, messages of a chat. `length_by`: the field that tells the length of the answer.
    `salted`: with a `cache_salt`; without, the first tokens alone keep prompts apart. `usage`: asked for with every event, at the
    end, or not at all. `left_out`: fields that the server does not take and that have no other form.
    """

    prompt: PromptForm = "ids"
    length_by: LengthField = "max_tokens"
    salted: bool = True
    usage: UsageAsked = "continuous"
    left_out: tuple[Dispensable, ...] = ()


class DatasetRows(msgspec.Struct, frozen=True, kw_only=True):
    """Where the rows of a workload's mix stand in a file of that form: row i is `sizes[i]` bytes from `begins[i]` on.
    `checksums` tell whether they are still the same."""

    path: str
    form: str
    begins: tuple[int, ...]
    sizes: tuple[int, ...]
    checksums: tuple[int, ...]


class Hello(msgspec.Struct, frozen=True, kw_only=True, tag="hello"):
    """First message to the generator child: everything that stays the same for the run. Travels by pipe only.

    `nonce` (random hex of the run) makes prompts cold: it goes into salts, first tokens and shared prefixes, never into seeds.
    `keeps_length`: an answer that ended by its length has been seen to have the tokens asked for. `first_within_s`: a request
    without a first token by then, from when it was due, surely misses a limit and is not sent again; None: no limit tells.
    `dataset`: where the prompts stand, which are not made up then.
    """

    target: Target
    model: str
    workload: Workload
    alphabet: PromptAlphabet
    nonce: str
    access: Access = Access()
    shape: Shape = Shape()
    keeps_length: bool = False
    first_within_s: float | None = None
    dataset: DatasetRows | None = None

    def __repr__(self) -> str:
        return f"Hello({self.target.url}, model={self.model!r}, {self.access!r})"


class SharedBlocks(msgspec.Struct, frozen=True, kw_only=True):
    """Which blocks the prompts of an order begin with alike, as recorded: a tree, each branch of which is blocks that the same
    prompts have.

    Branch i is `blocks[i]` blocks of `block_tokens` tokens and goes on where branch `parents[i]` ends, which stands before it (-1:
    at the beginning of a prompt). `of[j]`: the branch that request j shares last; -1: it shares nothing.
    """

    block_tokens: int
    parents: tuple[int, ...]
    blocks: tuple[int, ...]
    of: tuple[int, ...]


class RepeatOrder(msgspec.Struct, frozen=True, kw_only=True, tag="order"):
    """One repeat as one order: the child draws all arrivals from it before `start_at` and sends on schedule.

    Arrivals are gaps of mean 1 mapped through the segments (`core.schedule`), or `offsets_s` as given. What they are drawn from is
    `core.schedule.seeds`: `seed` is that of lengths and prompts, and of the arrivals where `arrival_seed` is None; `draw` tells the
    draws of a search's steps apart, None means one draw for every rate of the phase. `parts`: which kind of the workload's mix each
    of `offsets_s` is, where these were recorded together. `groups`: the requests are the shared prefixes of these groups, which the
    server is to have in its cache. `shared`: what the prompts of `offsets_s` share with each other, and with no others.
    The tail segment keeps arriving until StopArrivals or Abort comes.
    """

    order: int
    phase: Phase
    step: int
    repeat: int
    seed: int
    arrival_seed: int | None = None
    draw: int | None = None
    segments: tuple[Segment, ...] = ()
    offsets_s: tuple[float, ...] | None = None
    parts: tuple[int, ...] | None = None
    groups: tuple[int, ...] | None = None
    shared: SharedBlocks | None = None
    start_at: float


class ClosedOrder(msgspec.Struct, frozen=True, kw_only=True, tag="closed_order"):
    """A closed loop as one order: `in_flight` requests open at once for `duration_s`, each next one sent when one has ended.

    Nothing about it is drawn beforehand but lengths and prompts (`core.schedule`), the same at every concurrency.
    """

    order: int
    in_flight: int
    duration_s: float
    seed: int
    start_at: float


class StopArrivals(msgspec.Struct, frozen=True, kw_only=True, tag="stop_arrivals"):
    """Send nothing new for this order; open requests run to their end, and conversations of its warm-up and its measured segments,
    too."""

    order: int


class Abort(msgspec.Struct, frozen=True, kw_only=True, tag="abort"):
    """Stop at once: nothing new, open requests are cancelled and their connections closed so that the server frees its slots."""

    order: int


ChildCommand = Hello | RepeatOrder | ClosedOrder | StopArrivals | Abort


# --- what happened to it ------------------------------------------------------------------------------------------
# Hundreds of thousands of these live at once. They hold nothing that could hold them (gc=False), and the collector, which would
# look at each of them again and again, need not know.


class RequestHeld(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag="held"):
    """A request came to the gateway's limit at `t` and found no place: it waits for one, or its end comes at once. `t_sched` is
    when it was due; every latency starts there."""

    order: int
    index: int
    t_sched: float
    t: float


class RequestSent(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True, tag="sent"):
    """A request left the client. `t_sched` is when it was due; every latency starts there.

    `connect_s`: how long the server kept it from leaving, by a connection that it did not take (0 where that was no more
    than a client's own doing can be, `core.load.transport.direct.STUCK_S`). That is the server's time, and no lateness of ours.
    Nor is `gateway_wait_s`, for which it waited for a place at the gateway's limit (`RequestHeld`).
    """

    order: int
    index: int
    t_sched: float
    t_sent: float
    connect_s: float = 0.0
    gateway_wait_s: float = 0.0


class RequestFirst(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag="first"):
    """The first event with output arrived, carrying `first_tokens` >= 1 tokens."""

    order: int
    index: int
    t_first: float
    first_tokens: int


class GapSummary(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Gaps between the events of one answer that carried tokens (ITL), summed up in the child.

    `bins` is a sparse histogram on the log scale of `core.ddsketch`: (bin, count).
    """

    n: int = 0
    sum_s: float = 0.0
    max_s: float = 0.0
    under_1ms: int = 0
    bins: tuple[tuple[int, int], ...] = ()


class RequestEnded(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True, tag="ended"):
    """How a request ended, with everything measured about it (all times None where it did not come so far).

    Three times tell how a send went: `t_sched` when it was due, `t_start` when its task began, `t_sent` when it was written;
    lateness is `t_sent - t_sched` without what the server and a gateway's limit kept it waiting (`RequestSent`). `t_last` is the
    last event whose token count rose, `t_end` the end of the body. `error` is the server's first sentence or ours. `usage` False:
    the server sent no usage, none that can be true, or none to the end; then `counted_by` says what the tokens were counted by
    (None: a file from before that was told, where it was one per event). `resent`: it went out twice, because the kept connection
    that it was first written to was just being closed. `backend`: what a header of the answer calls the one of several servers that
    gave it; None where there is no such header, or no answer. `gateway_wait_s`: how long it waited for a place at the gateway's
    limit, all its waits together; `retries`: how often it was sent again because a 429 asked for that.
    """

    order: int
    index: int
    t_sched: float
    t_start: float | None = None
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
    counted_by: CountedBy | None = None
    fingerprint: str | None = None
    resent: bool = False
    backend: str | None = None
    gaps: GapSummary = GapSummary()
    gateway_wait_s: float = 0.0
    retries: int = 0


RequestRecord = RequestEnded
"""One finished request; the record is the event of its end."""


class WorkerTick(msgspec.Struct, frozen=True, kw_only=True, gc=False, array_like=True):
    """The same of one of several machines that send; they stand in the order of `WorkerInfo`."""

    in_flight: int
    loop_lag_max_s: float
    cpu_frac: float


class LoadTick(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="load_tick"):
    """Twice a second from the child while an order runs: its own state, so that it can be held responsible. Of several machines it
    is the sum of what is in flight and the worst of the rest, with each of them in `workers`."""

    order: int
    t: float
    in_flight: int
    loop_lag_max_s: float
    cpu_frac: float
    workers: tuple[WorkerTick, ...] = ()


class LoadDone(msgspec.Struct, frozen=True, kw_only=True, tag="load_done"):
    """The order is over: nothing of it is in flight and nothing more will be sent. `unsent` counts planned arrivals that were
    due and could not be sent; arrivals cut off by StopArrivals or Abort are not among them, nor are turns of conversations that
    were."""

    order: int
    t: float
    sent: int
    unsent: int
    cpu_frac: float
    loop_lag_max_s: float
    memory_peak_bytes: int | None = None


class LoadReady(msgspec.Struct, frozen=True, kw_only=True, tag="load_ready"):
    """The child is up: what it runs on. `fd_limit` is the soft limit of open files after raising it."""

    t: float
    python: str
    loop: str
    transport: str
    fd_limit: int


class WorkerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One of several machines that send: request i of every plan is sent by number i mod their count (`core.schedule.senders`).

    `name` tells it from the others on screens; `clock_error_s`: by how much its times, brought onto this machine's clock, can be
    off (half of the shortest round trip). Only figures that compare machines are touched by that: a latency is of one clock.
    """

    name: str
    python: str
    version: str
    cores: int | None = None
    clock_error_s: float | None = None


ChildMessage = LoadReady | RequestHeld | RequestSent | RequestFirst | RequestEnded | LoadTick | LoadDone


# --- what the server says of itself -------------------------------------------------------------------------------


class EngineSample(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """One engine's rows of a reading that shows several; an array in a file, since every reading has them all.

    `name`: the values of the labels that tell the rows apart. `started`: when its process or its counters began (unix seconds),
    where the rows tell that of each.
    """

    name: str
    model: str | None = None
    running: float | None = None
    waiting: float | None = None
    kv_usage_frac: float | None = None
    requests_success_total: float | None = None
    prompt_tokens_total: float | None = None
    generation_tokens_total: float | None = None
    started: float | None = None
    preemptions_total: float | None = None
    prefix_queries_total: float | None = None
    prefix_hits_total: float | None = None


class ServerSample(msgspec.Struct, frozen=True, kw_only=True):
    """One reading of /metrics, of any vLLM version; `*_total` are counters, sums over engines where that makes sense.

    `kv_usage_frac` is the mean over engines, `kv_usage_max_frac` the fullest one. Histograms come as (sum, count).
    `waiting_deferred` of the waiting ones wait for a transfer of their KV cache or for a LoRA, `waiting_capacity` for a place.
    `epoch` changes when the server restarted (process start or `_created` of a counter, or a counter that fell).
    `by_engine`: the rows of each engine or backend; None where there is one. `by_replica`: they are replicas behind a gateway, each
    read at its own /metrics; its engines are summed up in its row. `unread`: replicas that are there without a row, since they did
    not answer in time; the counters of the fleet keep what those had counted before.
    """

    t: float
    took_s: float
    engines: int = 1
    running: float | None = None
    waiting: float | None = None
    kv_usage_frac: float | None = None
    kv_usage_max_frac: float | None = None
    waiting_deferred: float | None = None
    waiting_capacity: float | None = None
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
    by_engine: tuple[EngineSample, ...] | None = None
    by_replica: bool = False
    unread: tuple[str, ...] = ()


class MachineSample(msgspec.Struct, frozen=True, kw_only=True):
    """One reading of a DCGM or node exporter. Shares are means over its `gpus` GPUs, `gpu_memory_frac` the fullest one's.

    `cpu_s`: processor seconds of the host since it started, (not idle, all).
    """

    t: float
    took_s: float
    gpus: int | None = None
    gpu_frac: float | None = None
    dram_frac: float | None = None
    tensor_frac: float | None = None
    gpu_memory_frac: float | None = None
    cpu_s: tuple[float, float] | None = None
    memory_frac: float | None = None


class ServerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What stays the same about the server during a run. tp, pp, dp None: the server does not tell.

    `metrics_models`: the names that its metrics have for our model; empty where all that they show counts. `backends`: how many
    servers a router among the metrics tells of. `shape`: how a request was written that it answered, `counted_by`: the least sure
    way by which the tokens of the single requests were counted; None in files from before that was told. `alive_path`: the route
    beside the API that answered before the load, which shows later whether the server is there; None where none did. `replicas`:
    those behind the gateway whose own metrics are read, in place of the server's.
    """

    url: str
    alive_path: str | None = None
    version: str | None = None
    model: str | None = None
    max_model_len: int | None = None
    metrics_url: str | None = None
    metrics_models: tuple[str, ...] = ()
    kv_cache_tokens: int | None = None
    engines: int = 1
    backends: int | None = None
    tp: int | None = None
    pp: int | None = None
    dp: int | None = None
    fingerprint: str | None = None
    simulated: bool = False
    config: dict[str, str] = {}
    shape: Shape | None = None
    counted_by: CountedBy | None = None
    replicas: tuple[str, ...] = ()

    @property
    def has_metrics(self) -> bool:
        """Whether there is something to read while load runs."""
        return self.metrics_url is not None or bool(self.replicas)


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One line of preflight: what was looked at, how it stands, what was found (`core.prose.sentence` says it)."""

    check: str
    status: CheckStatus
    message: Said

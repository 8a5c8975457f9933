"""What readers see of a run: one frozen, versioned snapshot. Screens and the line printer draw this and keep nothing."""

from typing import Literal

import msgspec

from core.config import ProbeConfig
from core.facts import Said
from core.margins import AT_LIMIT
from core.records import Check, LoadState, Phase, ServerInfo, ServerSample
from core.results import Answer, Bounds, ClientInfo, ClosedLoop, RepeatVerdict, StepResult, TwinReading
from core.slo import floor

Part = Literal["warm-up", "measuring", "waiting", "decided"]


class RepeatView(msgspec.Struct, frozen=True, kw_only=True):
    """The repeat that runs now. `lateness_p99_s` is over all its sends so far; `decided` is the reason, once it is judged.

    `drain_left_s`: after the window, how long at most its undecided requests are still waited for; None while none are.

    `client_cpu_frac` (of one core) and `loop_lag_max_s` are the highest that the client has reported of itself so far, None before
    its first report; `stalled`: its loop stalled so often that the repeat will not count if it goes on like that.

    `warmup`: the account of the warm-up at the judged rate (not of the part that is sent faster, to fill the server), which is not
    counted; None where there is none.

    `at_gateway`: how many requests a gateway's limit holds back, which are not among those in flight; None: there is no such limit.

    `prefix_hit_frac`: of the prompt tokens that the server has looked up since the repeat began, the share that its prefix cache
    had; None before there are any, and where its counters do not tell. `planned_hit_frac`: what was planned for the requests that
    were due by now, where prompts share what a trace names.

    `busiest_share`: of the requests that the replicas behind a gateway have finished since the repeat began, those of the busiest
    against an even share; None where none were named, and before it is more than chance.
    """

    index: int
    bounds: Bounds
    part: Part
    elapsed_s: float
    length_s: float
    sent: int
    in_flight: int
    no_first_token: int
    errors: int
    lateness_p99_s: float | None
    decided: Said | None = None
    drain_left_s: float | None = None
    client_cpu_frac: float | None = None
    loop_lag_max_s: float | None = None
    stalled: bool = False
    warmup: Bounds | None = None
    at_gateway: int | None = None
    prefix_hit_frac: float | None = None
    planned_hit_frac: float | None = None
    busiest_share: float | None = None


class StepView(msgspec.Struct, frozen=True, kw_only=True):
    """The step that runs now: its rate (of a ramp: the rate of the segment that is being sent) and its repeats so far.
    `repeats_planned` is 0 for a held rate, which goes on until it is stopped.

    `finished`: the attainment intervals of the repeats that count (pass or fail), in order; `verdicts`: their verdicts, one for
    each, because a repeat can fail by its queue or its errors at any attainment.
    """

    step: int
    phase: Phase
    rate_rps: float
    repeats_planned: int
    finished: tuple[tuple[float, float], ...]
    live: RepeatView | None
    verdicts: tuple[RepeatVerdict, ...] = ()

    @property
    def floor(self) -> tuple[float, float] | None:
        """Running attainment floor, [least lower end, least upper end] over the repeats so far; None before anything counts."""
        so_far = self.live.bounds.so_far if self.live else None
        return floor([*self.finished, *([so_far] if so_far else [])])


class RampSegment(msgspec.Struct, frozen=True, kw_only=True):
    """One rate of the ramp, as far as it was sent. `held`: its requests were good, but for those that a segment may miss; it is a
    hint of where to look and no evidence, whatever it says."""

    rate_rps: float
    bounds: Bounds
    held: bool


class SeriesPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One bin of the shared time axis; `t_s` is its start, in seconds since the run began. None: nothing there.

    Latencies are those of requests whose first token (TTFT) or last token (TPOT) fell into the bin.
    `floor_lo`..`floor_hi` is the running attainment of the current repeat at the end of the bin.
    """

    t_s: float
    step: int
    ttft_p50_s: float | None = None
    ttft_p95_s: float | None = None
    ttft_p99_s: float | None = None
    tpot_p50_s: float | None = None
    tpot_p95_s: float | None = None
    tpot_p99_s: float | None = None
    in_flight: float | None = None
    no_first_token: float | None = None
    waiting: float | None = None
    running: float | None = None
    kv_usage_frac: float | None = None
    preemptions_per_s: float | None = None
    offered_rps: float = 0.0
    served_rps: float = 0.0
    floor_lo: float | None = None
    floor_hi: float | None = None


class RateMargins(msgspec.Struct, frozen=True, kw_only=True):
    """How the requests that were sent at one rate stand against their limits: in the ramp, in a warm-up at that rate, in a window.

    `ended` and `open` count requests by the bin of their margin (`core.margins.bin_of`): of those that ended well the margin that
    they had; of those that did not end, be it that they are open or that they were cut off, the least that they can have had.
    `failed` ended in an error, or were turned away by a gateway's limit, beyond every limit. `judged` of all these belong to the
    window of a repeat.
    """

    rate_rps: float
    ended: tuple[int, ...]
    open: tuple[int, ...]
    failed: int = 0
    judged: int = 0

    @property
    def sent(self) -> int:
        """All of them."""
        return sum(self.ended) + sum(self.open) + self.failed

    @property
    def good(self) -> int:
        """Those that are known to have met every limit."""
        return sum(self.ended[:AT_LIMIT])

    @property
    def missed(self) -> int:
        """Those that are known to have missed one, whether they have ended or not."""
        return sum(self.ended[AT_LIMIT:]) + sum(self.open[AT_LIMIT:]) + self.failed

    @property
    def attained(self) -> tuple[float, float] | None:
        """The share of the sent requests that is good, as [least, most]; None where none was sent."""
        return (self.good / self.sent, (self.sent - self.missed) / self.sent) if self.sent else None


class Outcomes(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the requests that were due in one bin of the time axis (`t_s` is its start): good, missed for sure (open
    ones that are past a limit included), or still open. `rate_rps`: the rate that was judged then, of a ramp that of its segment;
    None: nothing was sent. `counted`: they lie in the window of a repeat, not in a warm-up, a ramp or a tail."""

    t_s: float
    step: int
    rate_rps: float | None = None
    counted: bool = False
    good: int = 0
    missed: int = 0
    open: int = 0


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far the run is: seconds since it began, and how long it is expected to take in all. It never says that less is left than
    the repeat that runs still needs.

    `changed`: why the newest estimate is another than the one before (None: it is not), `changed_t_s` when that was, and `by_s` by
    how much it changed, longer where positive.
    """

    elapsed_s: float
    expected_s: float
    changed: Said | None = None
    changed_t_s: float | None = None
    by_s: float = 0.0

    @property
    def left_s(self) -> float:
        """Seconds to the expected end."""
        return max(self.expected_s - self.elapsed_s, 0.0)


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the events; `t_s` in seconds since the run began. `step`: the number of the judged step that it tells of."""

    t_s: float
    level: Literal["info", "warn", "error"]
    text: Said
    step: int | None = None


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """The whole run at one moment. `version` rises with every change, so that a reader can skip what it has drawn.

    `now_s` is seconds since the run began; `sample_age_s` how old the newest reading of the server is (None: none yet).
    `left_s` is the expected time to the answer, None when not known;
    `progress` has it beside the whole. `command` is the command line that began the run, as it may be
    written down: nothing secret stands in it. `single_tpot_s`: the median TPOT of the judged single requests, each of which had
    the server for itself. `ramp`: the rates of the newest ramp that were begun, in their order. `outcomes` share the bins of
    `series`. `margins`: every rate that was sent so far, the lowest first. `twin`: its newest reading (None: none).
    `closed_loop` is what one measured beside the answer (None: none was); `closed_in_flight` how many requests it keeps in flight
    now (None: it does not run). `found` is the answer while that is measured, `answer` that of a run that is over. `label` and
    `utc_offset_s` are those of the start of the run (`core.history.label_of` has the name of each).
    """

    version: int
    now_s: float
    bin_s: float
    started_utc: str | None = None
    command: str | None = None
    config: ProbeConfig | None = None
    client: ClientInfo | None = None
    server: ServerInfo | None = None
    checks: tuple[Check, ...] = ()
    single_tpot_s: float | None = None
    load: LoadState = "idle"
    current: StepView | None = None
    steps: tuple[StepResult, ...] = ()
    ramp: tuple[RampSegment, ...] = ()
    series: tuple[SeriesPoint, ...] = ()
    outcomes: tuple[Outcomes, ...] = ()
    margins: tuple[RateMargins, ...] = ()
    sample: ServerSample | None = None
    sample_age_s: float | None = None
    metrics_error: str | None = None
    lines: tuple[Line, ...] = ()
    left_s: float | None = None
    progress: Progress | None = None
    twin: TwinReading | None = None
    closed_loop: ClosedLoop | None = None
    closed_in_flight: int | None = None
    found: Answer | None = None
    answer: Answer | None = None
    truth_rps: float | None = None
    duration_s: float | None = None
    label: str | None = None
    utc_offset_s: int | None = None

    @property
    def known_answer(self) -> Answer | None:
        """The answer from the moment it stands; the run may go on beside it."""
        return self.found if self.answer is None else self.answer

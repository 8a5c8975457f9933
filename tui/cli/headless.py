"""The line printer: what changed between two views of a run, as plain lines. One event, one line, no escape codes."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

from core import prose
from core.config import ProbeConfig
from core.records import Check
from core.results import RepeatResult, StepResult
from core.run import step_told
from core.units import at_least, at_most, between, count, duration, latency, long_duration, rate_text, stamp
from core.view import Line, RepeatView, RunView, StepView
from tui import account
from tui.phrases import hits_text, method_text
from tui.terminal.whole import plain

POLL_S = 0.5
PROGRESS_S = 5.0

T = TypeVar("T")


class CheckPrinter:
    """Turns each view into the checks that are new since the one before."""

    def __init__(self) -> None:
        self._checks = 0

    def feed(self, view: RunView) -> list[str]:
        """One line for each new check, in order."""
        new = view.checks[self._checks :]
        self._checks = len(view.checks)
        return [plain(check_line(check)) for check in new]


class Printer:
    """Turns each view into the lines that are new since the one before; holds nothing but how far it has printed."""

    def __init__(self) -> None:
        self._headed = False
        self._checks = CheckPrinter()
        self._steps = 0
        self._line: Line | None = None
        self._running: int | None = None
        self._repeat = 0
        self._segments = 0
        self._next_progress_s = 0.0

    def feed(self, view: RunView) -> list[str]:
        """The new lines of `view`, oldest first, each without a newline."""
        if view.config is None:
            return []
        return [plain(text) for text in (*self._head(view.config), *self._events(view, view.config.slo.target))]

    def _head(self, config: ProbeConfig) -> Iterator[str]:
        if not self._headed:
            self._headed = True
            yield f"server    {config.target.address}"
            yield f"limits    {prose.limits(config.limits)}"
            work = config.workload
            how = "" if work.poisson else f"; {prose.arrivals(work)}"
            front = f"; {told}" if (told := prose.in_front(work)) else ""
            shared = "" if work.prefix.cold else f", {prose.prefix(work.prefix)}"
            yield f"workload  {prose.requests(work)}{shared}{how}{front}"
            yield f"method    {method_text(config.method)}"

    def _events(self, view: RunView, target: float) -> Iterator[str]:
        for check in self._checks.feed(view):
            yield _at(view.now_s) + check
        for line in _after(view.lines, self._line):
            self._line = line
            for text in self._line_texts(line, view, target):
                yield _at(line.t_s) + text
        if view.current is not None and view.answer is None:
            for text in self._current(view.current, view, target):
                yield _at(view.now_s) + text

    def _line_texts(self, line: Line, view: RunView, target: float) -> Iterator[str]:
        """A line of the run as it is; the one of a judged step with what its repeats came to."""
        steps = view.steps
        for place in range(self._steps, len(steps)):
            if line.step == steps[place].step:
                self._steps = place + 1
                yield from _judged(view, steps[place], target)
                return
        words = prose.text(line.text)
        yield words if line.level == "info" else f"{line.level}: {words}"

    def _current(self, step: StepView, view: RunView, target: float) -> Iterator[str]:
        live = step.live
        if step.step != self._running:
            self._running, self._repeat, self._segments = step.step, 0, 0
            self._next_progress_s = view.now_s + PROGRESS_S
            repeats = f", {step.repeats_planned} repeats" if step.repeats_planned > 1 else ""
            scale = prose.scale(view.config.workload, step.rate_rps) if view.config else ""
            times = f", {scale}," if scale else ""
            yield f"{_name(step.step, step.phase, step.rate_rps)}{times} starts{repeats}{_left(view)}"
        elif step.phase == "hold" and len(step.finished) > self._segments:
            for interval in step.finished[self._segments :]:
                self._segments += 1
                name = f"{_name(step.step, step.phase, step.rate_rps)}, segment {self._segments}"
                yield f"{name}: attainment {between(*interval, target)}"
        elif live is not None and live.index != self._repeat and step.phase != "hold":
            self._repeat = live.index
            before = f" after {between(*step.finished[-1], target)}" if step.finished else ""
            yield f"{_running(step)} starts{before}{_left(view)}"
        elif live is not None and view.now_s >= self._next_progress_s:
            self._next_progress_s = view.now_s + PROGRESS_S
            yield f"{_running(step)}: {_progress(view, step, live, target)}"


def _at(seconds: float) -> str:
    return f"{stamp(seconds)}  "


def _after(lines: tuple[Line, ...], last: Line | None) -> tuple[Line, ...]:
    """What came after `last`; everything when `last` has already been dropped from the front."""
    for place in range(len(lines) - 1, -1, -1):
        if lines[place] == last:
            return lines[place + 1 :]
    return lines


def check_line(check: Check) -> str:
    """One check of preflight: its status as a word, then name and sentence."""
    return f"{check.status:6}  {check.check}: {prose.sentence(check.message)}"


def _name(step: int, phase: str, rate_rps: float) -> str:
    return f"{phase if phase in ('ramp', 'hold') else f'step {step}'} at {rate_text(rate_rps)}"


def _running(step: StepView) -> str:
    """The step and, of several repeats or of the segments of a held rate, the one that runs."""
    name = _name(step.step, step.phase, step.rate_rps)
    if step.live is None or step.repeats_planned == 1:
        return name
    n = step.live.index + 1
    return f"{name}, segment {n}" if step.phase == "hold" else f"{name}, repeat {n} of {step.repeats_planned}"


def _left(view: RunView) -> str:
    if view.left_s is not None and view.left_s < 1:
        return ", later than expected"
    return f", about {long_duration(view.left_s)} left" if view.left_s is not None else ""


def _judged(view: RunView, step: StepResult, target: float) -> Iterator[str]:
    name = _name(step.step, step.phase, step.rate_rps)
    if step.phase in ("ramp", "hold"):  # a ramp only says where to look; the segments of a held rate have had their lines
        yield prose.text(step_told(step))
    elif len(step.repeats) == 1:
        yield f"{name}: {_repeat_text(view, step.repeats[0], target)}"
    else:
        for repeat in step.repeats:
            yield f"{name}, repeat {repeat.index + 1}: {_repeat_text(view, repeat, target)}"
        yield prose.text(step_told(step))


def _progress(view: RunView, step: StepView, live: RepeatView, target: float) -> str:
    part = f"{live.part} {duration(round(live.elapsed_s))} of {duration(live.length_s)}"
    if live.drain_left_s is not None:
        part = f"waiting for open requests, at most {duration(round(live.drain_left_s))} more"
    elif live.part == "waiting":  # every request is decided; an undecided queue is heard a little longer
        part = f"waiting {duration(round(live.elapsed_s - live.length_s))}"
    parts = [part, f"sent {count(live.sent)}", f"in flight {count(live.in_flight)}"]
    if live.at_gateway is not None:
        parts.append(f"waiting at the gateway {count(live.at_gateway)}")
    bounds, ends = account.account(view, step), account.reach(view, step)
    if bounds is not None and ends is not None:  # good, missed and open apart: the share of the plan that all of it can still reach
        of, whole = ("sent", "what was sent") if account.is_whole_ramp(step, bounds) else ("planned", "the plan")
        open_ = "cut off" if account.is_cut_off(step, bounds) else "open"
        told = f"good {count(bounds.good)}, missed {count(bounds.bad)}, {open_} {count(bounds.open)}"
        parts.append(f"{told} of {count(account.planned(step, bounds))} {of}, attainment {between(*ends, target)} of {whole}")
    if hits := hits_text(view, live.prefix_hit_frac, live.planned_hit_frac):
        parts.append(hits)
    if live.errors:
        parts.append(f"errors {count(live.errors)}")
    if live.lateness_p99_s is not None:
        parts.append(f"late p99 {latency(live.lateness_p99_s)}{_latest(live)}")
    return ", ".join(parts)


def _latest(live: RepeatView) -> str:
    """Of several machines that send, the one that is latest: the p99 of all of them may hide it."""
    worst = max(live.workers, key=lambda worker: worker.lateness_p99_s or 0.0, default=None)
    return "" if worst is None or worst.lateness_p99_s is None else f" ({worst.name} {latency(worst.lateness_p99_s)})"


def _repeat_text(view: RunView, repeat: RepeatResult, target: float) -> str:
    counts = f"({count(repeat.good)} good and {count(repeat.misses)} missed of {count(repeat.planned)} planned)"
    late = f", late p99 {latency(repeat.lateness_s.p99)}" if repeat.lateness_s.p99 is not None else ""
    hits = f", {text}" if (text := hits_text(view, repeat.prefix_hit_frac, repeat.planned_hit_frac)) else ""
    attained = _attained(repeat, target)
    return f"{repeat.verdict.upper()}{f', {attained}' if attained else ''} {counts}{late}{hits}: {prose.text(repeat.reason)}"


def _attained(repeat: RepeatResult, target: float) -> str:
    """What is certain of an attainment: of a repeat that was decided early only one end, of one that failed otherwise than by
    missed limits nothing."""
    low, high = repeat.attainment_interval
    if low < high and repeat.verdict == "pass":
        return at_least(low, target)
    if low < high and repeat.verdict == "fail":
        return at_most(high, target) if high < 1 else ""
    return between(low, high, target)


async def follow(
    work: Awaitable[T],
    lines_now: Callable[[], list[str]],
    write: Callable[[str], object],
    on_lost: Callable[[], None],
    poll_s: float = POLL_S,
) -> T:
    """Await `work`, handing what `lines_now` gives to `write` twice a second and once more when the work has ended.

    `write` runs in a thread: a paused terminal (Ctrl-S) or a full pipe must hold up neither the judging nor the end of load.
    When it raises OSError the reader is gone: `on_lost` is called once and nothing more is written.
    """
    task = asyncio.ensure_future(work)
    lost = False
    while True:
        await asyncio.wait({task}, timeout=poll_s)
        lines = [] if lost else lines_now()
        if lines:
            try:
                await asyncio.to_thread(write, "\n".join(lines))
            except OSError:
                lost = True
                on_lost()
        elif task.done():
            return task.result()

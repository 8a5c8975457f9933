"""When a run is expected to be over: told as an event whenever that has changed by more than a little, and why."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from core import modes
from core.config import ProbeConfig
from core.facts import Fact, Said, fact
from core.judge import Ramp, Step, Tally, lengthened_until
from core.records import Segment
from core.results import JudgeRules, RepeatResult, StepResult
from core.run.events import Event, Expected, StepStarted
from core.view import Progress

LITTLE_S, LITTLE_SHARE = 5.0, 0.05
"""An end that moves by less than both, of what is left, moves nobody."""
LEAST_S, OVERDUE_SHARE = 1.0, 0.25
"""What is overdue is expected to need a quarter of the time more that it is late already: it is never said to be over while it
is not, and the longer it lasts the less its next second is believed to be the last."""
SLOWER = 1.1
"""Requests that take so many times what was reckoned with make a run longer by themselves."""
MAJORITY = 2
"""Where most of three repeats decide, two are expected; the third is run if they disagree."""


def still_s(over_s: float) -> float:
    """What is left of something that should have been over `over_s` seconds ago."""
    return max(LEAST_S, OVERDUE_SHARE * over_s)


@dataclass(slots=True)
class _Running:
    """The action that runs, as it is reckoned with: `later_s` after it; a repeat waits `tail_s` for its last requests."""

    action: Ramp | Step
    later_s: float
    tail_s: float
    segments: tuple[Segment, ...]
    verdicts: list[str]
    start_at: float | None = None
    until: float | None = None

    @property
    def is_ramp(self) -> bool:
        return isinstance(self.action, Ramp)

    @property
    def load_s(self) -> float:
        """Warm-up and window of a repeat; all rates of a ramp."""
        return sum(segment.duration_s for segment in self.segments if segment.role != "tail")


class Outlook:
    """Keeps what a run expects; told of each action before it begins and of what becomes of it."""

    def __init__(self, emit: Callable[[Event], None], clock: Callable[[], float]) -> None:
        self._emit = emit
        self._clock = clock
        self._end: float | None = None
        self._running: _Running | None = None
        self._closed: StepResult | None = None
        self._anew = False
        self._e2e_s: float | None = None
        self._extended_s = 0.0

    def begin(self, action: Ramp | Step, left_s: float | None, later_s: float, e2e_s: float, extended_s: float = 0.0) -> None:
        """An action begins. `left_s`: what is expected from now on, `later_s` of it after the action; `extended_s`: what the number
        of requests has added to the time of the mode by now."""
        curtailed = isinstance(action, Ramp) or action.curtail_pass
        tail_s = 0.0 if isinstance(action, Ramp) else e2e_s if curtailed else modes.E2E_LONGEST * e2e_s
        self._running = _Running(action, later_s, tail_s, action.segments, [])
        if left_s is not None:
            self._tell(left_s, self._why_new(left_s, e2e_s, extended_s))
        self._e2e_s, self._extended_s, self._anew = e2e_s, extended_s, False

    def anew(self) -> None:
        """The search begins again."""
        self._running, self._anew = None, True

    def load(self, segments: tuple[Segment, ...], start_at: float, again: Fact | None = None) -> None:
        """An order is about to be sent; `again`: why it is not the first for its repeat."""
        running = self._running
        if running is None:
            return
        running.segments, running.start_at, running.until = segments, start_at, None
        if again is not None:
            self._tell(self._left_s(running, self._clock()), again)

    def judged(self, result: RepeatResult) -> None:
        """A repeat of the action is judged; one that does not count is still to come."""
        running = self._running
        if running is None:
            return
        running.start_at = None
        if result.verdict in ("pass", "fail"):
            running.verdicts.append(result.verdict)
        if result.e2e_s.mean is not None and result.verdict == "pass" and not running.is_ramp:
            running.tail_s = max(running.tail_s, result.e2e_s.mean)
        if result.verdict == "pass":  # a fail mostly ends the step, which then tells
            self._tell(self._left_s(running, self._clock()), self._why_repeats(running))

    def closed(self, result: StepResult) -> None:
        """The step is over; what follows from that is told with the next."""
        self._closed = result
        if self._running is not None:
            self._running.start_at = None

    def look(self, tally: Tally, rules: JudgeRules, drain_s: float) -> None:
        """While an order runs: its end moves when it is due and has not come."""
        running, now = self._running, self._clock()
        if running is None or running.start_at is None:
            return
        if running.is_ramp:
            self._tell(self._left_s(running, now), fact("left_ramp_higher", rates=modes.RAMP_SEGMENTS_EXPECTED))
            return
        why = fact("left_waiting")
        if now > tally.layout.window[1] and running.until is None:
            running.until = lengthened_until(tally, now, rules, drain_s)
        if running.until is not None:
            why = fact("left_queue")
        left_s = min(self._own_s(running, now), max(LEAST_S, tally.drains_from(tally.layout.window[1]) + drain_s - now))
        self._tell(left_s + self._others_s(running) + running.later_s, why)

    # --- what is left ---

    def _left_s(self, running: _Running, now: float) -> float:
        return self._own_s(running, now) + self._others_s(running) + running.later_s

    def _own_s(self, running: _Running, now: float) -> float:
        """Of the repeat that runs, or is about to."""
        if isinstance(running.action, Ramp):
            return self._ramp_s(running, now)
        if len(running.verdicts) >= running.action.repeats:
            return 0.0
        if running.start_at is None:
            return running.load_s + running.tail_s
        end = running.until or running.start_at + running.load_s + running.tail_s
        return end - now if now <= end else still_s(now - end)

    def _ramp_s(self, running: _Running, now: float) -> float:
        """To the end of the rates that a ramp is expected to send, then to the end of the one that is being sent."""
        spent_s = 0.0 if running.start_at is None else now - running.start_at
        end_s = 0.0
        for at, segment in enumerate(running.segments, 1):
            end_s += segment.duration_s
            if at >= modes.RAMP_SEGMENTS_EXPECTED and spent_s < end_s:
                break
        return end_s - spent_s if spent_s <= end_s else still_s(spent_s - end_s)

    def _others_s(self, running: _Running) -> float:
        """Of the repeats after that one."""
        action = running.action
        if isinstance(action, Ramp):
            return 0.0
        done, expected = len(running.verdicts), action.repeats
        if action.stop == "majority":
            expected = min(expected, MAJORITY if len(set(running.verdicts)) < 2 else action.repeats)
        return max(0, expected - done - 1) * (running.load_s + running.tail_s)

    # --- why it changed ---

    def _why_repeats(self, running: _Running) -> Fact:
        rate_rps = running.action.rate_rps if isinstance(running.action, Step) else 0.0
        if len(set(running.verdicts)) > 1:
            return fact("left_disagree", rate_rps=rate_rps)
        return fact("left_repeat_over", rate_rps=rate_rps)

    def _why_new(self, left_s: float, e2e_s: float, extended_s: float) -> Fact | None:
        """Why an action makes the estimate another, by what the one before it was."""
        closed, longer = self._closed, self._end is not None and self._clock() + left_s > self._end
        if self._anew or closed is None:
            return fact("left_anew") if self._anew else None
        if longer and extended_s > self._extended_s:
            return fact("left_requests")
        if longer and closed.phase != "ramp" and self._e2e_s is not None and e2e_s > SLOWER * self._e2e_s:
            return fact("left_slower", e2e_s=e2e_s, assumed_s=self._e2e_s)
        if closed.phase == "ramp":
            return fact("left_ramp_over", rate_rps=closed.rate_rps, failed=closed.verdict == "fail")
        if closed.verdict == "unjudged":
            return fact("left_ended", rate_rps=closed.rate_rps)
        if longer:
            return fact("left_more_steps", rate_rps=closed.rate_rps)
        if closed.verdict == "pass":
            return fact("left_passed", rate_rps=closed.rate_rps)
        return fact("left_failed", rate_rps=closed.rate_rps)

    def _tell(self, left_s: float, why: Fact | None) -> None:
        """Unless the end stays about where it was."""
        now = self._clock()
        end = now + left_s
        if self._end is not None and abs(end - self._end) <= max(LITTLE_S, LITTLE_SHARE * left_s):
            return
        if not math.isfinite(end):
            return
        first, self._end = self._end is None, end
        self._emit(Expected(t=now, left_s=left_s, why=None if first else why))


class Expects:
    """What a reader knows of the end: from the newest estimate, and from what it sees for itself. Kept by the run's state."""

    def __init__(self) -> None:
        self._end: float | None = None
        self._changed: Said | None = None
        self._changed_at: float | None = None
        self._by_s = 0.0

    def begin(self, event: StepStarted) -> None:
        """A step tells too what is left; in files from before `Expected` was told, it alone. A held rate has no end."""
        self._end = None if event.left_s is None else event.t + event.left_s

    def told(self, event: Expected) -> None:
        """The estimate is another one."""
        end = event.t + event.left_s
        if event.why is not None and self._end is not None:
            self._changed, self._changed_at, self._by_s = event.why, event.t, end - self._end
        self._end = end

    def progress(self, now: float, start: float, window_left_s: float, config: ProbeConfig | None) -> Progress | None:
        """At `now`, of a run that goes on; None while nothing is known, and of a held rate without a limit to its time.

        `window_left_s`: what the window of the running repeat needs at least.
        """
        limit_s = None if config is None else config.safety.max_duration_s
        limit = math.inf if limit_s is None else start + limit_s
        end = self._end
        if end is None:
            holds = config is not None and config.method.hold_rps is not None
            end = limit if holds and limit < math.inf else None
        if end is None:
            return None
        if window_left_s > 0:
            end = max(end, now + window_left_s)
        end = min(end, limit)
        over_s = now - end
        if over_s > -LEAST_S:
            end = now + still_s(over_s)
        changed, changed_at, by_s = self._changed, self._changed_at, self._by_s
        if over_s > LITTLE_S:
            changed, changed_at, by_s = fact("left_overdue", over_s=over_s), now - over_s, end - now + over_s
        return Progress(
            elapsed_s=now - start,
            expected_s=end - start,
            changed=changed,
            changed_t_s=None if changed_at is None else changed_at - start,
            by_s=by_s,
        )

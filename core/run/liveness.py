"""Does the server still produce anything? A frozen or vanished server must not be read as a knee."""

from collections import deque

from core.records import NEVER_SENT, ChildMessage, Ending, RequestEnded, RequestFirst, RequestSent, ServerSample

STALL_S = 10.0
"""A server with requests in flight that gives no first token, no end and no token for this long is taken for frozen."""
STALL_E2E = 3.0
"""... or for so many idle E2E latencies where that is longer: long prompts and answers are quiet for a while."""
LOST_ENDINGS = 10
BELIEVE_STALLS = 3
_BROKEN: frozenset[Ending] = frozenset({"connection", "stream", "truncated", "empty"})
"""Endings that a server which vanishes leaves behind. An HTTP status, even 503, is an answer."""
_ALIVE_S = 0.5
_COUNTER_LAG_S = 1.0
"""Two readings at 2 Hz: a token counter that grew later than this after a moment grew after that moment."""
_FRESH_S = 3.0


class Liveness:
    """Signs of life of one order, from its requests and the server's token counter. Times are monotonic seconds."""

    def __init__(self, idle_e2e_s: float) -> None:
        self.stall_s = max(STALL_S, STALL_E2E * idle_e2e_s)
        self._without_first: set[int] = set()
        self._decoding: set[int] = set()
        self._quiet_since = 0.0
        self._unheard_until = 0.0
        self._endings: deque[Ending] = deque(maxlen=LOST_ENDINGS)
        self._sample_t: float | None = None
        self._tokens: float | None = None
        self._tokens_t = 0.0

    @property
    def in_flight(self) -> int:
        return len(self._without_first) + len(self._decoding)

    @property
    def decoding(self) -> int:
        """How many requests in flight have their first token."""
        return len(self._decoding)

    def message(self, message: ChildMessage) -> None:
        match message:
            case RequestSent(index=index, t_sent=t):
                if not self.in_flight:
                    self._quiet_since = t
                self._without_first.add(index)
            case RequestFirst(index=index, t_first=t):
                self._quiet_since = t
                self._without_first.discard(index)
                self._decoding.add(index)
            case RequestEnded(index=index):
                if message.ending == "ok":
                    self._quiet_since = message.t_end
                if message.ending not in NEVER_SENT:  # of the server that says nothing
                    self._endings.append(message.ending)
                self._without_first.discard(index)
                self._decoding.discard(index)
            case _:
                pass

    def unheard(self, until: float) -> None:
        """The child itself said nothing up to then, so nothing is known of the server's silence before."""
        self._unheard_until = until

    def sample(self, sample: ServerSample) -> None:
        self._sample_t = sample.t
        if sample.generation_tokens_total != self._tokens:
            self._tokens, self._tokens_t = sample.generation_tokens_total, sample.t

    def alive_since(self, t: float) -> bool:
        """Whether something came after about `t`, or nothing is awaited."""
        return (
            not self.in_flight
            or self._quiet_since > t - _ALIVE_S
            or (self._tokens is not None and self._tokens_t > t + _COUNTER_LAG_S)
        )

    def past_doubt(self, t: float, now: float) -> bool:
        """Whether `t` is so long ago that a dead server would have been found out since: where nothing can show that one works
        (no metrics, and all answers have begun), nothing shows the contrary either."""
        return now - t > BELIEVE_STALLS * self.stall_s

    def stalled(self, now: float) -> bool:
        """Whether requests are in flight and nothing has come for `stall_s`.

        Without a fresh token counter, answers that are long in coming look the same as none: then some request must
        also lack its first token.
        """
        if not self.in_flight or now - max(self._quiet_since, self._unheard_until) < self.stall_s:
            return False
        if self._tokens is not None and self._sample_t is not None and now - self._sample_t < _FRESH_S:
            return self._sample_t - self._tokens_t > self.stall_s - _COUNTER_LAG_S
        return bool(self._without_first)

    def cut_off(self, newest: int) -> bool:
        """Whether so many of the newest requests (at most LOST_ENDINGS) all ended because their connection broke."""
        latest = list(self._endings)[-newest:]
        return len(latest) == newest and all(ending in _BROKEN for ending in latest)

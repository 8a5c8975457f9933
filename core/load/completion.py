"""What a streamed answer says: tokens, times, endings and errors, from events with their arrival times. Pure, no I/O."""

from array import array
from typing import Annotated, Any

import msgspec

from core.ddsketch import bin_of
from core.load.sse import BARE_JSON, SseEvent
from core.records import Ending, GapSummary

DONE = b"[DONE]"
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What JSON from a server can raise; RecursionError when it is nested too deep."""
_EXCERPT_BYTES = 4096
_BROKEN_FINISH = ("abort", "error")
"""Finish reasons by which vLLM says that the engine gave up on a request: an answer that was not given."""


_Tokens = Annotated[int, msgspec.Meta(ge=0, le=10**9)]
"""A count outside of this is no count: taken at its word, it would make any TPOT look good, or undefined."""


class _PromptDetails(msgspec.Struct, gc=False):
    cached_tokens: _Tokens | None = None


class _Usage(msgspec.Struct, gc=False):
    prompt_tokens: _Tokens | None = None
    completion_tokens: _Tokens | None = None
    prompt_tokens_details: _PromptDetails | None = None


class _Delta(msgspec.Struct, gc=False):
    content: Any = None
    reasoning: Any = None
    reasoning_content: Any = None
    tool_calls: Any = None

    @property
    def carries_output(self) -> bool:
        return bool(self.content or self.reasoning or self.reasoning_content or self.tool_calls)


class _Choice(msgspec.Struct, gc=False):
    text: Any = None
    delta: _Delta | None = None
    finish_reason: str | None = None


class _Chunk(msgspec.Struct, gc=False):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    system_fingerprint: str | None = None
    error: Any = None


_decode = msgspec.json.Decoder(_Chunk).decode


def error_text(data: bytes) -> str | None:
    """The message of an error object in any form that vLLM has used, or None when the JSON holds no error.

    Forms: `{"error": {"message": ...}}` (0.10.1 and later), `{"object": "error", "message": ...}` (before),
    `{"error": "text"}` (401 and scaling), `{"detail": ...}` (unknown paths of older releases); gateways put it into a list.
    """
    try:
        return _error_in(msgspec.json.decode(data))
    except _UNREADABLE:
        return None


def _error_in(value: Any) -> str | None:
    if isinstance(value, list) and value:
        value = value[0]
    if not isinstance(value, dict):
        return None
    error = value.get("error")
    if isinstance(error, dict):
        return _words(error.get("message") or error)
    if error:
        return _words(error)
    if value.get("object") == "error":
        return _words(value.get("message") or value)
    return _words(value["detail"]) if value.get("detail") else None


def _words(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


_GAPS_KEPT = 64
"""Gaps that wait to be summed up together, 512 bytes a stream: one by one each would cost a call more in the hottest path."""


class _Gaps:
    """Sums up the gaps between token events while they come."""

    def __init__(self) -> None:
        self._n, self._sum_s, self._max_s, self._under_1ms = 0, 0.0, 0.0, 0
        self._bins: dict[int, int] = {}
        self._kept = array("d")

    def add(self, gap_s: float) -> None:
        kept = self._kept
        kept.append(gap_s)
        if len(kept) == _GAPS_KEPT:
            self._sum_up()

    @property
    def n(self) -> int:
        return self._n + len(self._kept)

    def summary(self) -> GapSummary:
        self._sum_up()
        bins = tuple(sorted(self._bins.items()))
        return GapSummary(n=self._n, sum_s=self._sum_s, max_s=self._max_s, under_1ms=self._under_1ms, bins=bins)

    def _sum_up(self) -> None:
        kept, bins = self._kept, self._bins
        if not kept:
            return
        self._n += len(kept)
        self._sum_s += sum(kept)
        self._max_s = max(self._max_s, max(kept))
        for gap_s in kept:
            self._under_1ms += gap_s < 1e-3
            bin_index = bin_of(gap_s)
            bins[bin_index] = bins.get(bin_index, 0) + 1
        del kept[:]


class AnswerReader:
    """Follows one answer. `t_first`, `t_last` are the times of the first event with tokens and of the last whose count rose.

    An event's tokens are the rise of `usage.completion_tokens` where the server sends usage with every chunk; one chunk may hold
    several (speculative decoding, `--stream-interval`, a frontend that is behind). An event with output and without usage counts
    as one. The last usage that is not null decides `output_tokens`. Role-only and usage-only chunks start nothing. `done`: the
    server has said `[DONE]`, after which nothing is taken in.

    A count that does not rise while text comes is no running total: vLLM 0.6.1 to 0.6.3 counted each chunk by itself in chats.
    From then on each event with output counts as one, and `t_last` and the gaps follow them. A server whose running total is true
    but that sends the text of one token in two events gets a gap more for each of these, and no other count, since its last usage
    still decides; only where it makes more than two events of a token throughout are its tokens an estimate. The text that comes
    with the finish_reason may be what was held back before, so it alone proves nothing: it counts when the last total has more.
    """

    def __init__(self) -> None:
        self.t_first: float | None = None
        self.t_last: float | None = None
        self.first_tokens = 0
        self.prompt_tokens: int | None = None
        self.cached_tokens: int | None = None
        self.finish_reason: str | None = None
        self.fingerprint: str | None = None
        self.error: str | None = None
        self.done = False
        self._t_finish: float | None = None
        self._counted = 0
        self._final: int | None = None
        self._continuous = False
        self._doubted = False
        """A total did not rise while text came."""
        self._t_unsure: float | None = None
        """When text came with the finish_reason, of which the total did not say that it is a token."""
        self._gaps = _Gaps()

    @property
    def output_tokens(self) -> int:
        """Tokens of the answer so far, by the server's usage if it sent any that can be true."""
        return self._final if self._final is not None and self._vouched(self._final) else self._events

    @property
    def usage(self) -> bool:
        """False when `output_tokens` is our own count, one per event: the server sent no usage, or none that can be true."""
        return self._events == 0 or (self._final is not None and self._vouched(self._final))

    @property
    def _events(self) -> int:
        """Events that carried tokens, so far."""
        return 0 if self.t_first is None else self._gaps.n + 1

    def _vouched(self, total: int) -> bool:
        """Whether the events do not belie the server's last total: one that is less than half of them counts a chunk alone, or
        stopped on the way. Where it came at the end alone nothing speaks against it: something may cut tokens in pieces."""
        return 2 * total >= self._events or not self._continuous

    @property
    def gaps(self) -> GapSummary:
        """Gaps between the events that carried tokens."""
        return self._gaps.summary()

    def feed(self, events: list[SseEvent], t: float) -> None:
        """Take in the events of one read, which all arrived at `t`. After an error (`error` is set) the rest is ignored."""
        for event in events:
            if self.error is not None or self.done:
                return
            self.done = event.data == DONE
            if event.data and not self.done:
                self._event(event, t)

    def plain(self, data: bytes, t: float) -> bool:
        """Take in the data of one event without a name. False, and nothing done, if it may be more than a chunk without error."""
        if self.error is not None or self.done:
            return False
        try:
            chunk = _decode(data)
        except _UNREADABLE:
            return False
        if chunk.error or (not chunk.choices and chunk.usage is None):  # what is said in place of a chunk
            return False
        self._chunk(chunk, t)
        return True

    def feed_rest(self, events: list[SseEvent], t: float) -> None:
        """Take in what stood without its blank line at the end of the body; an event cut in the middle is none."""
        self.feed([event for event in events if event.data == DONE or _is_json(event.data)], t)

    def end(self, *, orderly: bool) -> tuple[Ending, str | None]:
        """How the answer ended, and why if it was no success; `orderly` says that the body came to its end. One that was finished
        and said so by `[DONE]` was whole before anything broke."""
        if self.error is not None:
            return "stream", self.error
        if not orderly and not (self.done and self.finish_reason is not None):
            return "truncated", f"The connection broke after {self.output_tokens} tokens."
        if self.finish_reason is None:
            return "truncated", f"The stream ended after {self.output_tokens} tokens without a finish_reason."
        if self.finish_reason in _BROKEN_FINISH:
            return "stream", f"The server gave the answer up (finish_reason {self.finish_reason!r})."
        if self.output_tokens == 0:
            return "empty", "The answer ended in order but holds no token."
        if self.t_first is None:  # only the total told of tokens: the finish is the first moment that they are known of
            self.t_first = self.t_last = self._t_finish
            self.first_tokens = self.output_tokens
        if self._doubted and self.first_tokens >= self.output_tokens and self._events > 1:
            self.first_tokens = 1  # every event told the total of the answer
        return "ok", None

    def _event(self, event: SseEvent, t: float) -> None:
        if event.name == b"error":
            self.error = error_text(event.data) or _excerpt(event.data)
            return
        try:
            chunk = _decode(event.data)
        except _UNREADABLE:
            self.error = error_text(event.data) or f"The stream holds an event that is no chunk: {_excerpt(event.data)}"
            return
        if chunk.error:
            self.error = error_text(event.data) or _excerpt(event.data)
        elif not chunk.choices and chunk.usage is None and (said := error_text(event.data)) is not None:
            self.error = said
        elif event.name == BARE_JSON:
            self.error = f"The server answered with JSON outside the event stream: {_excerpt(event.data)}"
        else:
            self._chunk(chunk, t)

    def _chunk(self, chunk: _Chunk, t: float) -> None:
        """Written out in one, because it runs for every token of every stream."""
        total: int | None = None
        before = self._final
        usage = chunk.usage
        if usage is not None:
            total = usage.completion_tokens
            if total is not None:
                self._final = total
            if usage.prompt_tokens is not None:
                self.prompt_tokens = usage.prompt_tokens
            details = usage.prompt_tokens_details
            if details is not None and details.cached_tokens is not None:
                self.cached_tokens = details.cached_tokens
        if chunk.system_fingerprint is not None:
            self.fingerprint = chunk.system_fingerprint
        if not chunk.choices:
            if self._t_unsure is not None and total is not None:
                self._settle(total, self._t_unsure)
            return
        choice = chunk.choices[0]
        if choice.finish_reason:  # some servers send an empty one with every chunk
            self.finish_reason, self._t_finish = choice.finish_reason, t
        if total is not None and total > self._counted:
            self._continuous = True
            tokens = total - self._counted
        elif not (choice.text or (choice.delta is not None and choice.delta.carries_output)):
            return
        elif total is None or not self._continuous or self._brings_a_token(total, before or 0, choice.finish_reason, t):
            tokens = 1
        else:
            return
        if self.t_last is None:
            self.t_first, self.first_tokens = t, tokens
        else:
            self._gaps.add(t - self.t_last)
        self.t_last = t
        self._counted += tokens

    def _brings_a_token(self, total: int, before: int, finish_reason: str | None, t: float) -> bool:
        """Of text whose total is no more than was counted: whether it is a token more than `before`, the total before it."""
        if total == before and finish_reason and not self._doubted:
            self._t_unsure = t
            return False
        self._doubted |= total <= before
        return True

    def _settle(self, total: int, t: float) -> None:
        """The last total is known, and so whether the text at `t`, with the finish_reason, was a token."""
        self._t_unsure = None
        if total > self._counted and self.t_last is not None and t >= self.t_last:
            self._gaps.add(t - self.t_last)
            self.t_last, self._counted = t, total


def _is_json(data: bytes) -> bool:
    try:
        msgspec.json.decode(data, type=msgspec.Raw)
    except _UNREADABLE:
        return False
    return True


def _excerpt(data: bytes) -> str:
    """Its beginning: longer than what is kept of an error, so that a key in it is blanked out before it can be cut in half."""
    return data[:_EXCERPT_BYTES].decode("utf-8", "replace")

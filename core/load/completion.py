"""What a streamed answer says: tokens, times, endings and errors, from events with their arrival times. Pure, no I/O."""

from array import array
from typing import Annotated, Any

import msgspec

from core.ddsketch import bin_of
from core.load.sse import BARE_JSON, SseEvent
from core.net import error_text
from core.records import CountedBy, Ending, GapSummary

DONE = b"[DONE]"
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What JSON from a server can raise; RecursionError when it is nested too deep."""
_EXCERPT_BYTES = 4096
_OF_CHUNKS = (None, b"", b"message", BARE_JSON)
"""Names of events that must hold a chunk."""
_BROKEN_FINISH = ("abort", "error")
"""Finish reasons by which vLLM says that the engine gave up on a request: an answer that was not given."""


_MOST_TOKENS, _DIGITS = 10**9, 10
_Tokens = Annotated[int, msgspec.Meta(ge=0, le=_MOST_TOKENS)]
"""A count outside of this is no count: taken at its word, it would make any TPOT look good, or undefined."""


class _PromptDetails(msgspec.Struct, gc=False):
    cached_tokens: _Tokens | None = None


class _Usage(msgspec.Struct, gc=False):
    """By OpenAI's names first; then the same by others'. All in one, since a second decoding would cost more than the names do."""

    prompt_tokens: _Tokens | None = None
    completion_tokens: _Tokens | None = None
    prompt_tokens_details: _PromptDetails | None = None
    input_tokens: _Tokens | None = None
    output_tokens: _Tokens | None = None
    prompt_eval_count: _Tokens | None = None
    eval_count: _Tokens | None = None
    generated_tokens: _Tokens | None = None

    @property
    def counts(self) -> tuple[int | None, int | None]:
        """Tokens of the prompt and of the answer, by the first name that has a count."""
        prompts = (self.prompt_tokens, self.input_tokens, self.prompt_eval_count)
        outputs = (self.completion_tokens, self.output_tokens, self.eval_count, self.generated_tokens)
        return next((n for n in prompts if n is not None), None), next((n for n in outputs if n is not None), None)


class _Timings(msgspec.Struct, gc=False):
    """What llama.cpp says beside usage, or in place of it. `prompt_n` leaves out what it took from its cache, `cache_n`."""

    prompt_n: _Tokens | None = None
    cache_n: _Tokens | None = None
    predicted_n: _Tokens | None = None

    @property
    def usage(self) -> _Usage:
        known = self.prompt_n is not None and self.cache_n is not None
        prompt = (self.prompt_n or 0) + (self.cache_n or 0) if known else None
        return _Usage(
            prompt_tokens=prompt,
            completion_tokens=self.predicted_n,
            prompt_tokens_details=_PromptDetails(self.cache_n) if known else None,
        )


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
    token_ids: list[int] | None = None


class _Chunk(msgspec.Struct, gc=False):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    system_fingerprint: str | None = None
    error: Any = None
    timings: _Timings | None = None


_decode = msgspec.json.Decoder(_Chunk).decode


def _decode_loosely(data: bytes) -> _Chunk | None:
    """A chunk in which something is not of its kind: what is right of it. None where it cannot be a chunk.

    A count that is none is left out. JSON that says nothing (null, true, []) is a chunk with nothing in it.
    """
    try:
        value = msgspec.json.decode(data)
    except _UNREADABLE:
        return None
    if value is None or value == [] or isinstance(value, bool):
        return _Chunk()
    if not isinstance(value, dict):
        return None
    choices = value.get("choices")
    if choices is not None and not (isinstance(choices, list) and all(isinstance(choice, dict) for choice in choices[:1])):
        return None
    usage, timings = _dict(value.get("usage")), _dict(value.get("timings"))
    return _Chunk(
        choices=[_choice(choice) for choice in (choices or [])[:1]],
        usage=None if usage is None else _usage(usage),
        system_fingerprint=_text(value.get("system_fingerprint")),
        error=value.get("error"),
        timings=None if timings is None else _Timings(*(_number(timings.get(name)) for name in _Timings.__struct_fields__)),
    )


def _choice(value: dict[str, Any]) -> _Choice:
    delta, ids = _dict(value.get("delta")), value.get("token_ids")
    return _Choice(
        text=value.get("text"),
        delta=None if delta is None else _Delta(*(delta.get(name) for name in _Delta.__struct_fields__)),
        finish_reason=_text(value.get("finish_reason")),
        token_ids=ids if isinstance(ids, list) and all(isinstance(each, int) for each in ids) else None,
    )


def _usage(value: dict[str, Any]) -> _Usage:
    details = _dict(value.get("prompt_tokens_details"))
    counts = {name: _number(value.get(name)) for name in _Usage.__struct_fields__ if name != "prompt_tokens_details"}
    cached = None if details is None else _PromptDetails(_number(details.get("cached_tokens")))
    return _Usage(prompt_tokens_details=cached, **counts)


def _number(value: Any) -> int | None:
    """A whole number in range, also as a float or as text."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= _DIGITS:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MOST_TOKENS or value != int(value):
        return None
    return int(value)


def _dict(value: Any) -> dict[str, Any] | None:
    return value if isinstance(value, dict) else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


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
    as its token ids where it has some, else as one. The last usage that is not null decides `output_tokens`, and what comes after
    it is added. Role-only and usage-only chunks start nothing, nor do events that say nothing. `done`: the server has said
    `[DONE]`, after which nothing is taken in.

    `keeps_length`: the server is known to give the `asked_output` tokens asked for, so that an answer which ended by its length
    has as many, however few events it came in. That is used only where nothing else than events would tell. `keeps_text`: what a
    chat answers is kept, for the turn that follows.

    A count that does not rise while text comes is no running total: vLLM 0.6.1 to 0.6.3 counted each chunk by itself in chats.
    From then on each event with output counts as one, and `t_last` and the gaps follow them. A server whose running total is true
    but that sends the text of one token in two events gets a gap more for each of these, and no other count, since its last usage
    still decides; only where it makes more than two events of a token throughout are its tokens an estimate. The text that comes
    with the finish_reason may be what was held back before, so it alone proves nothing: it counts when the last total has more.
    """

    def __init__(self, asked_output: int | None = None, *, keeps_length: bool = False, keeps_text: bool = False) -> None:
        self._asked_output, self._keeps_length = asked_output, keeps_length
        self._texts: list[str] | None = [] if keeps_text else None
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
        self._since = 0
        """Tokens by our own count that came after the last total."""
        self._with_ids = 0
        """Events that were counted by their token ids."""
        self._closing_after: int | None = None
        """Events that had come before the last usage without a choice."""
        self._by_length = False
        self._continuous = False
        self._doubted = self._fell = False
        """A total did not rise, or it fell, while text came."""
        self._t_unsure: float | None = None
        """When text came with the finish_reason, of which the total did not say that it is a token."""
        self._gaps = _Gaps()

    @property
    def text(self) -> str:
        """What a chat has answered so far, without its reasoning; empty where it is not kept."""
        return "".join(self._texts or ())

    @property
    def output_tokens(self) -> int:
        """Tokens of the answer so far."""
        return self._count()[0]

    @property
    def usage(self) -> bool:
        """Whether that is the server's usage: False when it sent none, none that can be true, or stopped sending it."""
        return self.counted_by == "usage"

    @property
    def counted_by(self) -> CountedBy:
        """What `output_tokens` rests on; "usage" also while nothing has come."""
        return self._count()[1]

    def _count(self) -> tuple[int, CountedBy]:
        total = self._final
        if self._by_length and self._asked_output is not None:
            return self._asked_output, "length"
        if total is not None and not self._vouched(total):
            return self._events, "events"
        if total is None and self.t_first is None:
            return 0, "usage"
        if total is not None and not self._since:
            return total, "usage"
        return (total or 0) + self._since, "token_ids" if self._with_ids == self._events else "events"

    @property
    def _events(self) -> int:
        """Events that carried tokens, so far."""
        return 0 if self.t_first is None else self._gaps.n + 1

    def _vouched(self, total: int) -> bool:
        """Whether the events up to the server's last total do not belie it: one that is less than half of them counts a chunk
        alone, and 0 counts nothing where text came in several. Else, where it came at the end alone, nothing speaks against it:
        something may cut tokens in pieces."""
        if total == 0 and self._events > 1:
            return False
        return 2 * total + self._since >= self._events or not self._continuous

    @property
    def gaps(self) -> GapSummary:
        """Gaps between the events that carried tokens."""
        return self._gaps.summary()

    def feed(self, events: list[SseEvent], t: float) -> None:
        """Take in the events of one read, which all arrived at `t`. After an error (`error` is set) the rest is ignored."""
        for event in events:
            if self.error is not None or self.done:
                return
            data = event.data.strip()
            self.done = data == DONE
            if data and not self.done:
                self._event(data, event.name, t)

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
        self.feed([event for event in events if event.data.strip() == DONE or _is_json(event.data)], t)

    def end(self, *, orderly: bool) -> tuple[Ending, str | None]:
        """How the answer ended, and why if it was no success; `orderly` says that the body came to its end. One that was finished
        and said so by `[DONE]` was whole before anything broke. Without a finish_reason, usage must say that every token asked
        for had come, and `[DONE]` or a closing usage that nothing more was to come."""
        if self.error is not None:
            return "stream", self.error
        finished = self.finish_reason is not None
        whole = finished or self._full
        if not orderly and not (self.done and whole):
            return "truncated", f"The connection broke after {self.output_tokens} tokens."
        if not finished and not (whole and (self.done or self._closing_after == self._events)):
            return "truncated", f"The stream ended after {self.output_tokens} tokens without a finish_reason."
        if self.finish_reason in _BROKEN_FINISH:
            return "stream", f"The server gave the answer up (finish_reason {self.finish_reason!r})."
        if self.output_tokens == 0:
            return "empty", "The answer ended in order but holds no token."
        if self.t_first is None:  # only the total told of tokens: the finish is the first moment that they are known of
            self.t_first = self.t_last = self._t_finish
            self.first_tokens = self.output_tokens
        if self._events > 1 and self._first_is_no_count():
            self.first_tokens = 1
        self._by_length = self._keeps_length and self.finish_reason == "length" and self.counted_by == "events"
        return "ok", None

    @property
    def _full(self) -> bool:
        """Whether usage says that as many tokens came as were asked for."""
        tokens, by = self._count()
        return by == "usage" and self.t_first is not None and self._asked_output is not None and tokens >= self._asked_output

    def _first_is_no_count(self) -> bool:
        """Whether the first total told something else than the tokens of its event: every event told the total of the answer, or
        what was still to come of it."""
        if self._final is not None and not self._vouched(self._final):
            return True
        tokens = self.output_tokens
        return self._doubted and (self.first_tokens >= tokens or (self._fell and self.first_tokens + self._events - 1 > tokens))

    def _event(self, data: bytes, name: bytes | None, t: float) -> None:
        """`name`: an event of another name than `message` and `error` is about something else (a ping, an id, a place in a
        queue), unless it holds a chunk or an error in the form of one."""
        if name is not None and name is not BARE_JSON:
            name = name.strip()
        if name == b"error":
            self.error = error_text(data) or _excerpt(data)
            return
        try:
            chunk: _Chunk | None = _decode(data)
        except _UNREADABLE:
            chunk = _decode_loosely(data)
        empty = chunk is None or not (chunk.error or chunk.choices or chunk.usage)
        if empty and name not in _OF_CHUNKS:
            return
        if chunk is None:
            self.error = error_text(data) or f"The stream holds an event that is no chunk: {_excerpt(data)}"
        elif chunk.error:
            self.error = error_text(data) or _excerpt(data)
        elif empty and (said := error_text(data)) is not None:
            self.error = said
        elif name == BARE_JSON:
            self.error = f"The server answered with JSON outside the event stream: {_excerpt(data)}"
        else:
            self._chunk(chunk, t)

    def _chunk(self, chunk: _Chunk, t: float) -> None:
        """Written out in one, because it runs for every token of every stream."""
        total: int | None = None
        before = self._final
        usage = chunk.usage
        if usage is None and chunk.timings is not None:
            usage = chunk.timings.usage
        if usage is not None:
            prompt, total = usage.prompt_tokens, usage.completion_tokens
            if prompt is None or total is None:
                prompt, total = usage.counts
            if total is not None:
                self._final, self._since = total, 0
            if prompt is not None:
                self.prompt_tokens = prompt
            details = usage.prompt_tokens_details
            if details is not None and details.cached_tokens is not None:
                self.cached_tokens = details.cached_tokens
        if chunk.system_fingerprint is not None:
            self.fingerprint = chunk.system_fingerprint
        if not chunk.choices:
            if total is not None:
                self._closing_after = self._events
                if self._t_unsure is not None:
                    self._settle(total, self._t_unsure)
            return
        choice = chunk.choices[0]
        if self._texts is not None and choice.delta is not None and isinstance(choice.delta.content, str):
            self._texts.append(choice.delta.content)
        if choice.finish_reason:  # some servers send an empty one with every chunk
            self.finish_reason, self._t_finish = choice.finish_reason, t
        if total is not None and total > self._counted:
            if not self._continuous:
                if self.t_first is not None and before is None and not _has_output(choice):
                    return  # a closing usage that has a choice: text came without any before it
                self._continuous = True
            tokens = total - self._counted
        elif total is None and choice.token_ids:
            tokens = len(choice.token_ids)
            self._since += tokens
            self._with_ids += 1
        elif not (choice.text or (choice.delta is not None and choice.delta.carries_output)):
            return
        elif total is None:
            tokens = 1
            self._since += 1
        elif not self._continuous or self._brings_a_token(total, before or 0, choice.finish_reason, t):
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
        self._fell |= total < before
        return True

    def _settle(self, total: int, t: float) -> None:
        """The last total is known, and so whether the text at `t`, with the finish_reason, was a token."""
        self._t_unsure = None
        if total > self._counted and self.t_last is not None and t >= self.t_last:
            self._gaps.add(t - self.t_last)
            self.t_last, self._counted = t, total


def _has_output(choice: _Choice) -> bool:
    return bool(choice.text or (choice.delta is not None and choice.delta.carries_output))


def _is_json(data: bytes) -> bool:
    try:
        msgspec.json.decode(data, type=msgspec.Raw)
    except _UNREADABLE:
        return False
    return True


def _excerpt(data: bytes) -> str:
    """Its beginning: longer than what is kept of an error, so that a key in it is blanked out before it can be cut in half."""
    return data[:_EXCERPT_BYTES].decode("utf-8", "replace")

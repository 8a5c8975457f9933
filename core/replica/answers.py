"""What goes back: stream chunks and whole answers in the shapes of vLLM 0.32, keys and nulls included."""

import time
from typing import Any, Protocol

import msgspec
from msgspec import UNSET, Struct, UnsetType

from core.replica.engine import Delta
from core.replica.requests import Ask
from core.replica.tokens import ANSWER_TEXT

_encoder = msgspec.json.Encoder()


class Usage(Struct, frozen=True):
    """Token counts so far."""

    prompt_tokens: int
    total_tokens: int
    completion_tokens: int


class CompletionChoice(Struct, frozen=True):
    """The text of one chunk."""

    index: int
    text: str
    logprobs: None
    finish_reason: str | None
    stop_reason: None = None
    prompt_token_ids: None = None
    token_ids: None = None


class ChatDelta(Struct, frozen=True):
    """What a chat chunk adds."""

    role: str | UnsetType = UNSET
    content: str = ""


class ChatChoice(Struct, frozen=True):
    """The delta of one chunk; which keys are there depends on which chunk it is."""

    index: int
    delta: ChatDelta
    logprobs: None
    finish_reason: str | None
    stop_reason: UnsetType | None = UNSET
    token_ids: UnsetType | None = UNSET


class Chunk(Struct, frozen=True):
    """One event of either stream."""

    id: str
    object: str
    created: int
    model: str
    choices: tuple[CompletionChoice | ChatChoice, ...]
    prompt_token_ids: UnsetType | None = UNSET
    prompt_text: UnsetType | None = UNSET
    usage: Usage | UnsetType = UNSET
    system_fingerprint: str | UnsetType = UNSET


class Answer(Protocol):
    """Turns deltas into bytes, for one request."""

    def event(self, delta: Delta) -> bytes:
        """The events of a delta; with the last one, everything up to `[DONE]`."""

    def body(self, finish_reason: str, tokens: int) -> dict[str, Any]:
        """The whole answer of a request that was not streamed."""


class _Writer:
    """What both streams share: identity, running token count, usage and the end."""

    kind = ""

    def __init__(self, request_id: str, model: str, fingerprint: str, ask: Ask) -> None:
        self._id = request_id
        self._model = model
        self._fingerprint = fingerprint
        self._ask = ask
        self._created = int(time.time())
        self._tokens = 0

    def _usage(self) -> Usage:
        prompt = len(self._ask.prompt_ids)
        return Usage(prompt, prompt + self._tokens, self._tokens)

    def _chunk(self, choice: CompletionChoice | ChatChoice) -> bytes:
        """An event with a choice: the fingerprint is in the finishing one only when no usage chunk follows."""
        fingerprint = self._fingerprint if choice.finish_reason and not self._ask.include_usage else UNSET
        opening = isinstance(choice, ChatChoice) and choice.delta.role is not UNSET
        echo: UnsetType | None = None if opening else UNSET
        usage = self._usage() if self._ask.continuous_usage else UNSET
        return _event(Chunk(self._id, self.kind, self._created, self._model, (choice,), echo, echo, usage, fingerprint))

    def _end(self) -> bytes:
        done = b"data: [DONE]\n\n"
        if not self._ask.include_usage:
            return done
        usage = Chunk(
            self._id, self.kind, self._created, self._model, (), usage=self._usage(), system_fingerprint=self._fingerprint
        )
        return _event(usage) + done

    def _whole(self, kind: str, choice: dict[str, Any], tokens: int, more: tuple[str, ...]) -> dict[str, Any]:
        self._tokens = tokens
        return {
            "id": self._id,
            "object": kind,
            "created": self._created,
            "model": self._model,
            "choices": [choice],
            "service_tier": None,
            "system_fingerprint": self._fingerprint,
            "usage": {**msgspec.to_builtins(self._usage()), "prompt_tokens_details": None},
            **dict.fromkeys(more),
        }


def _event(chunk: Chunk) -> bytes:
    return b"data: " + _encoder.encode(chunk) + b"\n\n"


class CompletionAnswer(_Writer):
    """POST /v1/completions: the first chunk already carries a token."""

    kind = "text_completion"

    def event(self, delta: Delta) -> bytes:
        """One chunk; after the last, usage and the end."""
        self._tokens += delta.tokens
        chunk = self._chunk(CompletionChoice(0, ANSWER_TEXT * delta.tokens, None, delta.finish_reason))
        return chunk + self._end() if delta.finish_reason else chunk

    def body(self, finish_reason: str, tokens: int) -> dict[str, Any]:
        """The whole answer."""
        choice = {
            "index": 0,
            "text": ANSWER_TEXT * tokens,
            "finish_reason": finish_reason,
            **dict.fromkeys(("logprobs", "stop_reason", "token_ids", "prompt_logprobs", "prompt_token_ids")),
        }
        return self._whole("text_completion", choice, tokens, ("kv_transfer_params",))


class ChatAnswer(_Writer):
    """POST /v1/chat/completions: a role chunk without a token goes right before the first that has one."""

    kind = "chat.completion.chunk"

    def event(self, delta: Delta) -> bytes:
        """One chunk, before the first the role chunk; after the last, usage and the end."""
        opening = b""
        if not self._tokens:
            opening = self._chunk(ChatChoice(0, ChatDelta(role="assistant"), None, None))
        self._tokens += delta.tokens
        stop: UnsetType | None = None if delta.finish_reason else UNSET
        content = ChatDelta(content=ANSWER_TEXT * delta.tokens)
        chunk = opening + self._chunk(ChatChoice(0, content, None, delta.finish_reason, stop, None))
        return chunk + self._end() if delta.finish_reason else chunk

    def body(self, finish_reason: str, tokens: int) -> dict[str, Any]:
        """The whole answer."""
        unused = ("refusal", "annotations", "audio", "function_call", "reasoning")
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": ANSWER_TEXT * tokens, **dict.fromkeys(unused)},
            "finish_reason": finish_reason,
            **dict.fromkeys(("logprobs", "stop_reason", "token_ids")),
        }
        more = ("prompt_logprobs", "prompt_token_ids", "prompt_text", "kv_transfer_params")
        return self._whole("chat.completion", choice, tokens, more)

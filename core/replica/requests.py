"""What a client may ask: bodies of the generating endpoints and of /tokenize, checked as vLLM 0.32 checks them."""

import hashlib
from array import array
from dataclasses import dataclass
from typing import Annotated, Literal, TypeVar

import msgspec

from core.replica.catalog import NATURAL_SHARE
from core.replica.tokens import VOCABULARY, encode, encode_chat

_SALT_FORBIDDEN = frozenset("@/\\\0")
_SALT_MAX_CHARS = 128
_COMPLETION_DEFAULT_TOKENS = 16

FinishReason = Literal["length", "stop"]

Body = TypeVar("Body", bound=msgspec.Struct)


class ApiError(Exception):
    """A refusal as the client sees it: HTTP status, and the fields of vLLM's error object."""

    def __init__(self, status: int, message: str, kind: str = "BadRequestError", param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.param = param


class StreamOptions(msgspec.Struct, frozen=True):
    """Whether token counts come at the end, and with every chunk."""

    include_usage: bool | None = True
    continuous_usage_stats: bool | None = False


class GenerateBody(msgspec.Struct, frozen=True, kw_only=True):
    """The fields that both generating endpoints share; unknown ones are ignored, as vLLM ignores them."""

    model: str | None = None
    max_tokens: int | None = None
    n: int | None = 1
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] | None = None
    cache_salt: str | None = None
    ignore_eos: bool | None = False


class CompletionBody(GenerateBody, frozen=True, kw_only=True):
    """POST /v1/completions; one prompt, as text or token ids."""

    prompt: list[int] | str


class ContentPart(msgspec.Struct, frozen=True):
    """A part of a message; only its text is read."""

    text: str = ""


class Message(msgspec.Struct, frozen=True):
    """One turn of a conversation."""

    role: str
    content: str | list[ContentPart] | None = None

    @property
    def text(self) -> str:
        """The content as plain text."""
        if isinstance(self.content, list):
            return "".join(part.text for part in self.content)
        return self.content or ""


class ChatBody(GenerateBody, frozen=True, kw_only=True):
    """POST /v1/chat/completions."""

    messages: list[Message]
    max_completion_tokens: int | None = None


class TokenizeBody(msgspec.Struct, frozen=True, kw_only=True):
    """POST /tokenize, of a text or of a conversation."""

    model: str | None = None
    prompt: str | None = None
    messages: list[Message] | None = None
    add_special_tokens: bool = True
    add_generation_prompt: bool = True

    def token_ids(self) -> list[int]:
        """What was asked for. Raises ApiError when neither form is there."""
        if self.messages is not None:
            return _encode_messages(self.messages, self.add_generation_prompt)
        if self.prompt is None:
            raise ApiError(400, _validation_text("body.prompt", "Field required"), "Bad Request", "body.prompt")
        return encode(self.prompt, self.add_special_tokens)


@dataclass(frozen=True, slots=True)
class Ask:
    """A generating request, ready for the engine. Its answer has `answer_tokens`: as many as were asked for, or fewer if it stops
    by itself (`finish_reason`)."""

    prompt_ids: list[int]
    answer_tokens: int
    finish_reason: FinishReason
    salt: str | None
    stream: bool
    include_usage: bool
    continuous_usage: bool


def parse(raw: bytes, kind: type[Body]) -> Body:
    """Decode a body. Raises ApiError in vLLM's words for a validation error."""
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.MsgspecError as error:
        reason, _, path = str(error).partition(" - at `$")
        where = "body" + path.rstrip("`").replace("[...]", "")
        raise ApiError(400, _validation_text(where, reason), "Bad Request", where) from None


def _validation_text(where: str, reason: str) -> str:
    return f"1 validation error:\n  {{'type': 'value_error', 'loc': '{where}', 'msg': {reason!r}}}"


def completion_ask(body: CompletionBody, max_model_len: int) -> Ask:
    """Raises ApiError for what vLLM would refuse too."""
    if not body.prompt:
        raise ApiError(400, "Either prompt or prompt_embeds must be provided and non-empty.", param="prompt")
    if isinstance(body.prompt, str):
        prompt_ids = encode(body.prompt, add_special_tokens=True)
    else:
        prompt_ids = body.prompt
        for token_id in (min(prompt_ids), max(prompt_ids)):
            if not 0 <= token_id < VOCABULARY:
                raise ApiError(400, f"Token id {token_id} is out of vocabulary", param="prompt")
    asked = _COMPLETION_DEFAULT_TOKENS if body.max_tokens is None else body.max_tokens
    return _ask(body, prompt_ids, asked, max_model_len)


def chat_ask(body: ChatBody, max_model_len: int) -> Ask:
    """Raises ApiError for what vLLM would refuse too."""
    if not body.messages:
        raise ApiError(400, "messages must hold at least one message.", param="messages")
    asked = body.max_tokens if body.max_completion_tokens is None else body.max_completion_tokens
    return _ask(body, _encode_messages(body.messages, True), max_model_len if asked is None else asked, max_model_len)


def _encode_messages(messages: list[Message], add_generation_prompt: bool) -> list[int]:
    return encode_chat([(message.role, message.text) for message in messages], add_generation_prompt)


def _ask(body: GenerateBody, prompt_ids: list[int], asked: int, max_model_len: int) -> Ask:
    """Checks that both endpoints share; prompt and answer beyond the context are cut as from 0.32 on."""
    if body.stream_options is not None and not body.stream:
        raise ApiError(400, "Stream options can only be defined when `stream=True`.", param="stream_options")
    if body.n not in (None, 1):
        raise ApiError(400, "This simulated replica gives one answer a request: n must be 1.", param="n")
    _check_salt(body.cache_salt)
    if len(prompt_ids) > max_model_len:
        message = (
            f"This model's maximum context length is {max_model_len} tokens. However, your prompt contains {len(prompt_ids)} "
            "input tokens, which exceeds this limit even without any output tokens. "
            "Please reduce the length of the input prompt."
        )
        raise ApiError(400, message, param="input_tokens")
    max_tokens = min(asked, max_model_len - len(prompt_ids))
    if max_tokens < 1:
        raise ApiError(400, f"max_tokens must be at least 1, got {max_tokens}.", param="max_tokens")
    options = body.stream_options
    include_usage = options is not None and bool(options.include_usage)
    continuous = options is not None and include_usage and bool(options.continuous_usage_stats)
    tokens = max_tokens if body.ignore_eos else natural_tokens(prompt_ids, max_tokens)
    ended: FinishReason = "stop" if tokens < max_tokens else "length"
    return Ask(prompt_ids, tokens, ended, body.cache_salt, bool(body.stream), include_usage, continuous)


def natural_tokens(prompt_ids: list[int], max_tokens: int) -> int:
    """How long an answer is that may stop by itself: a share of `max_tokens` from the hash of its prompt, evenly spread over
    NATURAL_SHARE, so that the same prompt gets the same answer in every process."""
    digest = hashlib.blake2b(array("I", prompt_ids).tobytes(), digest_size=8).digest()
    least, most = NATURAL_SHARE
    share = least + (most - least) * int.from_bytes(digest, "little") / 2**64
    return max(1, round(share * max_tokens))


def _check_salt(salt: str | None) -> None:
    if salt is None:
        return
    if not salt:
        raise ApiError(400, "Parameter 'cache_salt' must be a non-empty string if provided.", param="cache_salt")
    if len(salt) > _SALT_MAX_CHARS or not _SALT_FORBIDDEN.isdisjoint(salt):
        message = "Parameter 'cache_salt' must be at most 128 characters and must not contain '@', '/', '\\\\', or NUL."
        raise ApiError(400, message, param="cache_salt")

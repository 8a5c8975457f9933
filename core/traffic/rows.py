"""What real traffic consists of, a frozen value for each kind of row. No text shows in a repr, so none gets into a log."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

Content = str | tuple[Mapping[str, object], ...]
"""What a message says: a text, or the parts of the chat API (text, images) as they were recorded."""

Endpoint = Literal["chat", "completions"]


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the chat API. `rest` holds what else the API knows of one: name, tool_calls, tool_call_id."""

    role: str
    content: Content | None = field(repr=False)
    rest: Mapping[str, object] = field(default_factory=dict, repr=False)

    def as_body(self) -> dict[str, object]:
        """As it stands in the body of a request."""
        content = list(self.content) if isinstance(self.content, tuple) else self.content
        return {"role": self.role, "content": content, **self.rest}


@dataclass(frozen=True, slots=True)
class Prompt:
    """One request: `text` for completions, or `messages` for chat, never both.

    `at` is its line or entry, from 1. `answer` is the recorded one, whose length may be asked for. `output_tokens` and
    `input_tokens` are those that the row tells. `body` holds further fields of the request, such as tools.
    """

    at: int
    text: str | None = field(default=None, repr=False)
    messages: tuple[Message, ...] = field(default=(), repr=False)
    output_tokens: int | None = None
    input_tokens: int | None = None
    answer: str | None = field(default=None, repr=False)
    body: Mapping[str, object] = field(default_factory=dict, repr=False)
    endpoint: Endpoint | None = None

    def as_chat(self) -> dict[str, object]:
        """What the chat API is asked with: the messages, or the text as what a user says, and the tools that the model may know of.

        It is told not to call them: an answer that is no call comes token by token, and every server can give it. Other fields
        of a recorded request would change its length or how it is answered, and are left out.
        """
        messages = [message.as_body() for message in self.messages] or [{"role": "user", "content": self.text}]
        tools = self.body.get("tools")
        return {"messages": messages, **({"tools": tools, "tool_choice": "none"} if tools else {})}


@dataclass(frozen=True, slots=True)
class Turn:
    """What a user adds to a conversation, with the recorded answer. `think_s`: the recorded pause after the answer before it."""

    messages: tuple[Message, ...] = field(repr=False)
    answer: str | None = field(default=None, repr=False)
    output_tokens: int | None = None
    think_s: float | None = None


_FILLER, _FILLER_TOKENS = " and", 128
"""In place of an answer that was not recorded, a token each, as many as were; where that was not told, as --output-tokens has by
default."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """Turns that follow each other: each is due at the end of the answer before it plus a think time. `before`: system messages."""

    at: int
    turns: tuple[Turn, ...]
    before: tuple[Message, ...] = field(default=(), repr=False)
    session: str | None = None

    def prompt(self, turn: int, answers: Sequence[str] = ()) -> Prompt:
        """The request of a turn, with all that was said before it: the answers that came, else the recorded ones, else as many
        tokens."""
        said = list(self.before)
        for n, earlier in enumerate(self.turns[:turn]):
            said.extend(earlier.messages)
            recorded = _FILLER * (earlier.output_tokens or _FILLER_TOKENS) if earlier.answer is None else earlier.answer
            said.append(Message("assistant", answers[n] if n < len(answers) else recorded))
        now = self.turns[turn]
        return Prompt(self.at, messages=(*said, *now.messages), output_tokens=now.output_tokens, answer=now.answer)


Row = Prompt | Conversation


def prompts_of(row: Row, most: int) -> tuple[Prompt, ...]:
    """The prompts of a row: of a conversation one for each of its first `most` turns, with the recorded answers before it."""
    return tuple(row.prompt(turn) for turn in range(min(most, len(row.turns)))) if isinstance(row, Conversation) else (row,)


@dataclass(frozen=True, slots=True)
class TraceRow:
    """One recorded request: seconds since the start of its trace or window, tokens, and what it shares with others.

    `hash_ids` are a chain of blocks of `block_tokens`: two prompts share a prefix exactly as far as their leading ids agree.
    """

    time_s: float
    input_tokens: int
    output_tokens: int
    hash_ids: tuple[int, ...] | None = None
    block_tokens: int | None = None
    session: int | None = None

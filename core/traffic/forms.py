"""Which form the rows of a dataset have, told by the names of their fields, and how a row of each becomes a prompt or conversation.

Names as the tools that write such files have them: ShareGPT and its kin, OpenAI's fine-tuning and batch files, `vllm bench`,
guidellm, aiperf.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from core.facts import Fact, fact
from core.traffic.rows import Content, Conversation, Endpoint, Message, Prompt, Row, Turn
from core.traffic.values import decoded, number, whole

Form = Literal["sharegpt", "openai_chat", "openai_batch", "bodies", "turns", "prompts", "texts", "lines"]
Read = Row | Fact
"""What a row has become; a fact says why it cannot be used."""

Object = Mapping[str, object]

_TALKS = ("conversations", "conversation", "items")
_ASKS, _ANSWERS = {"human", "user"}, {"gpt", "bing", "chatgpt", "bard", "assistant"}
_MESSAGES = ("messages", "chat_messages")
_KEPT_OF_MESSAGE = ("name", "tool_calls", "tool_call_id")
_KEPT_OF_ROW = ("tools", "tool_choice", "response_format")
_OURS = {"model", "stream", "stream_options", "messages", "prompt", "max_tokens", "max_completion_tokens"}
_TEXTS = ("prompt", "instruction", "question", "input", "context", "content", "conversation", "turn", "text", "text_input")
_SYSTEMS = ("system_prompt", "system", "prefix")
_OUTPUTS = (
    *("output_tokens", "output_length", "output_tokens_count", "completion_tokens_count", "output_len"),
    *("max_completion_tokens", "max_tokens"),
)
_INPUTS = ("prompt_tokens_count", "input_tokens_count", "input_tokens", "input_length")
_RECORDED = ("completion", "response", "answer", "output")
_ENDPOINTS: dict[str, Endpoint] = {"/v1/chat/completions": "chat", "/v1/completions": "completions"}
_API_PATH = re.compile(r"/v1/[a-z/_]{1,40}")
"""Of a row's address no more is repeated than that: all else may be somebody's."""
_NUMBERED = re.compile(r"(?P<name>.+)_(?P<turn>[0-9]{1,4})")


@dataclass(frozen=True, slots=True)
class Reader:
    """A form with what reads its rows: the decoded row and its line or entry in, a row out."""

    form: Form
    read: Callable[[object, int], Read]


def recognised(row: object) -> Reader | None:
    """The form of a row; None if it has none of the known ones."""
    if isinstance(row, str):
        return READERS["texts"]
    if not isinstance(row, dict):
        return None
    names = row.keys()
    if {"custom_id", "body"} <= names:
        return READERS["openai_batch"]
    if any(isinstance(row.get(name), list) for name in _TALKS):
        return READERS["sharegpt"]
    if any(name in names for name in _MESSAGES):
        return READERS["openai_chat"]
    if any(isinstance(row.get(name), dict) for name in ("body", "payload")):
        return READERS["bodies"]
    if isinstance(row.get("turns"), list):
        return READERS["turns"]
    lower = _lowered(row)
    if isinstance(lower.get(_field(lower, _TEXTS) or ""), str) or isinstance(lower.get("texts"), list) or _numbered(lower):
        return READERS["prompts"]
    return None


def _plain(row: object, at: int) -> Read:
    if not isinstance(row, str):
        return fact("row_kind", field="prompt")
    return Prompt(at, text=row) if row.strip() else fact("row_empty", field="prompt")


LINES = Reader("lines", _plain)
"""Every line of a file that holds no JSON is a prompt."""


def columns_of_prompts(line: str) -> bool:
    """Whether a line is the head of a CSV file with prompts, which would pass for a prompt itself."""
    names = {name.strip().strip('"').lower() for name in line.split(",")}
    return (
        len(names) > 1 and not names.isdisjoint(_TEXTS) and names <= {*_TEXTS, *_SYSTEMS, *_OUTPUTS, *_INPUTS, *_RECORDED, "id", ""}
    )


# --- ShareGPT -----------------------------------------------------------------------------------------------------


def _sharegpt(row: object, at: int) -> Read:
    """Turns from the first question on, as far as questions and answers alternate; what stands behind that is left out."""
    if not isinstance(row, dict):
        return fact("row_kind", field="row")
    entries = next((row[name] for name in _TALKS if name in row), None)
    if not isinstance(entries, list):
        return fact("row_lacks", field="conversations")
    said = [each for entry in entries for each in _entry(entry)]
    if broken := next((each for each in said if isinstance(each, Fact)), None):
        return broken
    spoken = [each for each in said if not isinstance(each, Fact)]
    before = [text for who, text in spoken if who == "system"]
    spoken = [each for each in spoken if each[0] != "system"]
    if len(spoken) < 2:
        return fact("row_few_turns", turns=len(spoken))
    if spoken[0][0] == "answer":
        return fact("row_begins_with_answer")
    turns: list[Turn] = []
    for (asks, question), (answers, answer) in zip(spoken[::2], spoken[1::2], strict=False):
        if (asks, answers) != ("ask", "answer") or not question.strip() or not answer.strip():
            break
        turns.append(Turn((Message("user", question),), answer=answer))
    if not turns:
        return fact("row_empty", field="value") if spoken[1][0] == "answer" else fact("row_few_turns", turns=1)
    return _talk(at, turns, before, row.get("id"))


def _entry(entry: object) -> Iterable[tuple[Literal["ask", "answer", "system"], str] | Fact]:
    if isinstance(entry, str):  # some files hold each turn as JSON inside a string
        entry = decoded(entry.encode(errors="replace"))
    if not isinstance(entry, dict):
        yield fact("row_kind", field="conversations")
        return
    if "human" in entry and "assistant" in entry:
        pairs: list[tuple[object, object]] = [("human", entry["human"]), ("gpt", entry["assistant"])]
    else:
        pairs = [(entry.get("from", entry.get("role")), entry.get("value", entry.get("content")))]
    for who, text in pairs:
        role = who.strip().lower() if isinstance(who, str) else ""
        if not isinstance(text, str):
            yield fact("row_kind", field="value")
        elif role in _ASKS or role in _ANSWERS:
            yield ("ask" if role in _ASKS else "answer", text)
        elif role == "system":
            yield ("system", text)
        else:
            yield fact("row_kind", field="from")


def _talk(at: int, turns: list[Turn], before: Iterable[str], session: object) -> Read:
    """One turn is a prompt, several are a conversation."""
    talk = Conversation(
        at,
        tuple(turns),
        tuple(Message("system", text) for text in before if text.strip()),
        session if isinstance(session, str) else None,
    )
    return talk if len(turns) > 1 else talk.prompt(0)


# --- OpenAI -------------------------------------------------------------------------------------------------------


def _chat(row: object, at: int) -> Read:
    """Fine-tuning form. A last answer is the recorded one and is cut off."""
    if not isinstance(row, dict):
        return fact("row_kind", field="row")
    name = next((name for name in _MESSAGES if name in row), "messages")
    messages = _messages(row.get(name), name)
    if isinstance(messages, Fact):
        return messages
    answer: str | None = None
    while messages and messages[-1].role == "assistant":
        answer = messages[-1].content if isinstance(messages[-1].content, str) else None
        messages = messages[:-1]
    if not any(message.role != "system" for message in messages):
        return fact("row_few_turns", turns=0)
    tokens = _tokens(row, _OUTPUTS)
    if isinstance(tokens, Fact):
        return tokens
    body = {name: row[name] for name in _KEPT_OF_ROW if row.get(name) is not None}
    return Prompt(at, messages=messages, answer=answer, output_tokens=tokens, body=body, endpoint="chat")


def _messages(value: object, name: str) -> tuple[Message, ...] | Fact:
    if value is None:
        return fact("row_lacks", field=name)
    if not isinstance(value, list):
        return fact("row_kind", field=name)
    messages: list[Message] = []
    for entry in value:
        if not isinstance(entry, dict) or not isinstance(entry.get("role"), str):
            return fact("row_kind", field=name)
        content = _content(entry.get("content"))
        rest = {key: entry[key] for key in _KEPT_OF_MESSAGE if entry.get(key) is not None}
        if isinstance(content, Fact):
            return content
        if not content and "tool_calls" not in rest:
            return fact("row_empty", field="content")
        messages.append(Message(entry["role"], content, rest))
    return tuple(messages)


def _content(value: object) -> Content | Fact | None:
    if value is None or isinstance(value, str):
        return value if value is None or value.strip() else ""
    if isinstance(value, list) and all(isinstance(part, dict) for part in value):
        return tuple(value)
    return fact("row_kind", field="content")


def _batch(row: object, at: int) -> Read:
    """A request of the batch API. Our own are its model, its streaming and its length; all else is sent as it is."""
    if not isinstance(row, dict):
        return fact("row_kind", field="row")
    for name in ("custom_id", "method", "url", "body"):
        if name not in row:
            return fact("row_lacks", field=name)
    url = row["url"]
    if not isinstance(url, str) or row["method"] != "POST":
        return fact("row_kind", field="url" if row["method"] == "POST" else "method")
    endpoint = _ENDPOINTS.get(url)
    if endpoint is None:
        return fact("row_endpoint", url=url) if _API_PATH.fullmatch(url) else fact("row_kind", field="url")
    return _body(row["body"], at, endpoint)


def _body_in(row: object, at: int) -> Read:
    if not isinstance(row, dict):
        return fact("row_kind", field="row")
    body = row.get("body", row.get("payload"))
    endpoint: Endpoint = "chat" if isinstance(body, dict) and "messages" in body else "completions"
    return _body(body, at, endpoint)


def _body(body: object, at: int, endpoint: Endpoint) -> Read:
    if not isinstance(body, dict):
        return fact("row_kind", field="body")
    tokens = _tokens(body, ("max_completion_tokens", "max_tokens"))
    if isinstance(tokens, Fact):
        return tokens
    rest = {name: value for name, value in body.items() if name not in _OURS}
    if endpoint == "chat":
        messages = _messages(body.get("messages"), "messages")
        if isinstance(messages, Fact):
            return messages
        if not messages:
            return fact("row_few_turns", turns=0)
        return Prompt(at, messages=messages, output_tokens=tokens, body=rest, endpoint=endpoint)
    text = _text(body, "prompt")
    if isinstance(text, Fact):
        return text
    return Prompt(at, text=text, output_tokens=tokens, body=rest, endpoint=endpoint)


# --- prompts with or without lengths ------------------------------------------------------------------------------


def _prompt(row: object, at: int) -> Read:
    """A text in the first column that fits, by the order of their names; `prompt_0`, `prompt_1` are the turns of a conversation."""
    if not isinstance(row, dict):
        return fact("row_kind", field="row")
    fields = _lowered(row)
    if isinstance(fields.get("turns"), list):
        return _turns(row, at)
    found = _field(fields, _TEXTS)
    if found is None and (numbered := _numbered(fields)):
        return _talk_of(numbered, fields, at)
    if found is None:
        texts = fields.get("texts")
        if not isinstance(texts, list) or len(texts) != 1:
            return fact("row_lacks", field="prompt") if texts is None else fact("row_kind", field="texts")
        found, fields = "text", fields | {"text": texts[0]}
    text, tokens, asked = _text(fields, found), _tokens(fields, _OUTPUTS), _tokens(fields, _INPUTS)
    if isinstance(text, Fact):
        return text
    if isinstance(tokens, Fact):
        return tokens
    if isinstance(asked, Fact):
        return asked
    answer = next((value for name in _RECORDED if isinstance(value := fields.get(name), str) and value.strip()), None)
    before = next((value for name in _SYSTEMS if isinstance(value := fields.get(name), str) and value.strip()), None)
    if before is None:
        return Prompt(at, text=text, output_tokens=tokens, input_tokens=asked, answer=answer)
    messages = (Message("system", before), Message("user", text))
    return Prompt(at, messages=messages, output_tokens=tokens, input_tokens=asked, answer=answer)


def _numbered(fields: Object) -> list[tuple[str, int]]:
    """The columns of turns, in their order, as far as they follow each other."""
    found = sorted(
        {
            int(match["turn"]): name
            for name in fields
            if (match := _NUMBERED.fullmatch(name)) and match["name"].removesuffix("s") in _TEXTS
        }.items()
    )
    return [(name, turn) for place, (turn, name) in enumerate(found) if turn - found[0][0] == place]


def _talk_of(numbered: list[tuple[str, int]], fields: Object, at: int) -> Read:
    turns = []
    for name, turn in numbered:
        text, tokens = _text(fields, name), _tokens(fields, [f"{each}_{turn}" for each in _OUTPUTS])
        if isinstance(text, Fact) or isinstance(tokens, Fact):
            return text if isinstance(text, Fact) else tokens if isinstance(tokens, Fact) else fact("row_empty", field=name)
        turns.append(Turn((Message("user", text),), output_tokens=tokens))
    before = [value for name in _SYSTEMS if isinstance(value := fields.get(name), str)]
    return _talk(at, turns, before[:1], fields.get("session_id"))


def _turns(row: object, at: int) -> Read:
    """Sessions of turns with `text`, `output_length` and a `delay` in milliseconds after the answer before."""
    entries = row.get("turns") if isinstance(row, dict) else None
    if not isinstance(row, dict) or not isinstance(entries, list) or not entries:
        return fact("row_few_turns", turns=0) if entries == [] else fact("row_lacks", field="turns")
    turns = []
    for entry in entries:
        prompt = _prompt(entry, at)
        if isinstance(prompt, Fact):
            return prompt
        if not isinstance(prompt, Prompt) or not isinstance(entry, dict):
            return fact("row_kind", field="turns")
        delay_ms = number(entry["delay"]) if entry.get("delay") is not None else 0.0
        if delay_ms is None or delay_ms < 0:
            return fact("row_number", field="delay")
        messages = prompt.messages or (Message("user", prompt.text),)
        think_s = delay_ms / 1000 if "delay" in entry else None
        turns.append(Turn(messages, prompt.answer, prompt.output_tokens, think_s))
    return _talk(at, turns, (), row.get("session_id"))


# --- fields -------------------------------------------------------------------------------------------------------


def _lowered(row: Object) -> dict[str, object]:
    return {str(name).strip().lower(): value for name, value in row.items()}


def _field(fields: Object, names: Iterable[str]) -> str | None:
    """The first of these names, in the singular or the plural, under which there is a text, or else anything."""
    there = [each for name in names for each in (name, f"{name}s") if each != "texts" and fields.get(each) is not None]
    return next((each for each in there if isinstance(fields[each], str)), there[0] if there else None)


def _text(fields: Object, name: str) -> str | Fact:
    value = fields.get(name)
    if value is None:
        return fact("row_lacks", field=name)
    if not isinstance(value, str):
        return fact("row_kind", field=name)
    return value if value.strip() else fact("row_empty", field=name)


def _tokens(fields: Object, names: Iterable[str]) -> int | Fact | None:
    """A number of tokens above zero under the first of these names that the row has."""
    for name in names:
        if fields.get(name) is not None:
            found = whole(fields[name])
            return found if found else fact("row_number", field=name)
    return None


READERS: dict[Form, Reader] = {
    reader.form: reader
    for reader in (
        Reader("sharegpt", _sharegpt),
        Reader("openai_chat", _chat),
        Reader("openai_batch", _batch),
        Reader("bodies", _body_in),
        Reader("turns", _turns),
        Reader("prompts", _prompt),
        Reader("texts", _plain),
        LINES,
    )
}
"""What reads the rows of each form."""

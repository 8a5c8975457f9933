"""Bodies of requests whose prompts stand in a file: what is sent of a row, and nothing of it that is told."""

import asyncio
import json
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import pytest

from core.config import Api, Workload
from core.load import rows as rows_module
from core.load.child import Child
from core.load.prompts import Bodies
from core.load.rows import Rows
from core.records import ChildMessage, DatasetRows, Hello, LoadDone, RequestEnded, Shape
from core.schedule import draw
from core.traffic import checksum, open_dataset, row_of
from core.workloads import MixPart, Source
from tests.core.load.calling import calling
from tests.core.load.orders import CHAT, hello, order
from tests.core.load.server import WAIT_S, Handler, Received, serving, whole
from tests.core.traffic.files import jsonl, written

TOOL = {"type": "function", "function": {"name": "look_up"}}
TEXTS: list[dict[str, Any]] = [{"prompt": f"row {n} says so", "output_tokens": 3 + n} for n in range(4)]
CHATS: list[dict[str, Any]] = [
    {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Who?"}], "tools": [TOOL]},
    {"messages": [{"role": "user", "content": "And why?"}, {"role": "assistant", "content": "Because."}]},
]


def reference(path: Path) -> DatasetRows:
    """All rows of a file, in its order."""
    dataset = open_dataset(path)
    with path.open("rb") as file:
        found = [dataset.index.found(file, row) for row in range(dataset.index.rows)]
    spans = [(begin, len(data), checksum(data)) for begin, data in (each for each in found if each is not None)]
    begins, sizes, checksums = zip(*spans, strict=True)
    return DatasetRows(path=str(path), form=dataset.form, begins=begins, sizes=sizes, checksums=checksums)


def said(path: Path, url: str = "http://127.0.0.1:1", api: Api = "completions") -> Hello:
    rows = reference(path)
    mix = tuple(MixPart(input_tokens=7, output_tokens=3 + n, row=n) for n in range(len(rows.begins)))
    workload = Workload(mix=mix, source=Source(kind="dataset", file=path.name))
    plain = hello(url, api=api, workload=workload, shape=CHAT if api == "chat" else Shape(prompt="text"))
    return Hello(**{name: getattr(plain, name) for name in plain.__struct_fields__} | {"dataset": rows})


def bodies(path: Path, api: Api = "completions", n: int = 6) -> list[dict[str, Any]]:
    given, asked = said(path, api=api), order(offsets_s=(0.0,) * n)
    assert given.dataset is not None
    rows = Rows(given.dataset, api)
    builder = Bodies(given, asked, draw(asked, given.workload), rows)
    made = [json.loads(builder.build(i)) for i in range(n)]
    rows.close()
    return made


def test_a_completion_asks_with_the_text_of_its_row_and_its_length(tmp_path: Path) -> None:
    made = bodies(written(tmp_path, jsonl(*TEXTS)))
    plan = draw(order(offsets_s=(0.0,) * 6), said(tmp_path / "file").workload)
    assert plan.part is not None
    assert [body["prompt"] for body in made] == [TEXTS[part]["prompt"] for part in plan.part]
    assert [body["max_tokens"] for body in made] == [3 + part for part in plan.part]
    assert len({body["cache_salt"] for body in made}) == 6
    assert made[0].keys() == {
        *("model", "prompt", "max_tokens", "cache_salt", "ignore_eos", "temperature", "top_p", "stream", "stream_options")
    }


def test_a_chat_asks_with_the_messages_without_the_recorded_answer_and_with_tools_that_are_not_called(tmp_path: Path) -> None:
    made = bodies(written(tmp_path, jsonl(*CHATS)), "chat", n=2)
    by_tools = sorted(made, key=lambda body: "tools" not in body)
    assert [body["messages"] for body in by_tools] == [CHATS[0]["messages"], CHATS[1]["messages"][:1]]
    assert (by_tools[0]["tools"], by_tools[0]["tool_choice"]) == ([TOOL], "none")
    assert "tool_choice" not in by_tools[1]


def test_a_text_is_what_a_user_says_in_a_chat_and_of_a_conversation_its_first_turn_is_sent(tmp_path: Path) -> None:
    assert bodies(written(tmp_path, "Who are you?\n"), "chat", n=1)[0]["messages"] == [{"role": "user", "content": "Who are you?"}]
    turns = [{"from": who, "value": f"{who} {n}"} for n in range(2) for who in ("human", "gpt")]
    talk = written(tmp_path, json.dumps([{"id": "a", "conversations": turns}]), "talk.json")
    assert bodies(talk, "chat", n=1)[0]["messages"] == [{"role": "user", "content": "human 0"}]


def test_what_a_row_asks_beside_its_prompt_is_left_out(tmp_path: Path) -> None:
    body = {"model": "other", "messages": [{"role": "user", "content": "Hi"}], "stop": ["x"], "n": 4, "stream": False, "seed": 3}
    row = {"custom_id": "1", "method": "POST", "url": "/v1/chat/completions", "body": body}
    (made,) = bodies(written(tmp_path, jsonl(row)), "chat", n=1)
    assert (made["model"], made["stream"]) == ("tiny", True)
    assert made.keys().isdisjoint({"stop", "n", "seed"})


def test_a_row_that_comes_again_is_not_read_again_as_long_as_there_is_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, jsonl(*TEXTS))
    for room, again in ((rows_module.HELD_BYTES, False), (0, True)):
        monkeypatch.setattr(rows_module, "HELD_BYTES", room)
        rows = Rows(reference(path), "completions")
        with mock.patch.object(rows, "_read", side_effect=rows._read) as read:
            assert rows.asked(1) == rows.asked(1)
        assert read.call_count == (2 if again else 1)
        rows.close()


def test_a_conversation_is_read_once_for_all_its_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To read a row of a megabyte anew holds up what is due meanwhile; a row of 1,000 turns made repeats void."""
    talk = {"conversations": [{"from": who, "value": f"{who} {n}"} for n in range(40) for who in ("human", "gpt")]}
    dataset = reference(written(tmp_path, json.dumps([talk]), "talks.json"))
    thrice = {name: getattr(dataset, name) * 3 for name in ("begins", "sizes", "checksums")}
    for room, reads in ((rows_module.HELD_BYTES, 1), (0, 3)):
        monkeypatch.setattr(rows_module, "HELD_BYTES", room)
        rows = Rows(msgspec.structs.replace(dataset, **thrice), "chat")
        with mock.patch.object(rows_module, "row_of", side_effect=row_of) as read:
            said = [json.loads(bytes(rows.asked(at, at, ["came"] * at)["messages"])) for at in range(3)]
        assert [len(messages) for messages in said] == [1, 3, 5]
        assert said[2][3] == {"role": "assistant", "content": "came"}
        assert read.call_count == reads
        rows.close()


def test_a_file_that_is_cut_while_the_run_reads_it_is_told_by_its_name_alone(tmp_path: Path) -> None:
    path = written(tmp_path, jsonl(*TEXTS))
    rows = Rows(reference(path), "completions")
    path.write_bytes(path.read_bytes()[:20])
    with pytest.raises(RuntimeError, match=r"^file was changed while the run read it$"):
        rows.asked(3)
    rows.close()


def test_another_text_in_the_place_of_a_row_is_not_sent(tmp_path: Path) -> None:
    path = written(tmp_path, "What is one?\nWhat is two?\n")
    rows = Rows(reference(path), "completions")
    path.write_text("What is one?\nWhat is ten?\nAnd three?\n")
    assert bytes(rows.asked(0)["prompt"]) == b'"What is one?"'
    with pytest.raises(RuntimeError, match=r"^file was changed while the run read it$"):
        rows.asked(1)
    rows.close()


def test_a_file_that_is_gone_is_told_by_its_name_alone(tmp_path: Path) -> None:
    path = written(tmp_path, jsonl(*TEXTS))
    dataset = reference(path)
    path.unlink()
    with pytest.raises(RuntimeError, match=r"^file cannot be opened any more: No such file or directory$"):
        Rows(dataset, "completions")


async def test_the_child_sends_rows_and_tells_none_of_their_text(tmp_path: Path) -> None:
    path = written(tmp_path, jsonl(*TEXTS))
    told: list[ChildMessage] = []
    over = asyncio.Event()

    def emit(message: ChildMessage) -> None:
        told.append(message)
        if isinstance(message, LoadDone):
            over.set()

    async def echo(request: Received) -> bool:
        body = json.dumps({"error": {"message": f"cache_salt is not known in {request.body.decode()}"}}).encode()
        await request.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: %d\r\n\r\n" % len(body), body)
        return False

    handlers: list[tuple[Handler, str]] = [(whole, "ok"), (echo, "http")]
    for handler, ending in handlers:
        told.clear()
        over.clear()
        async with serving(handler) as server:
            child = Child(emit, lambda problem: over.set())
            await child.obey(said(path, server.url))
            await child.obey(order(offsets_s=(0.0,) * 4))
            async with asyncio.timeout(WAIT_S):
                await over.wait()
            sent = {json.loads(request.body)["prompt"] for request in server.received}
        assert sent == {row["prompt"] for row in TEXTS}
        assert {message.ending for message in told if isinstance(message, RequestEnded)} == {ending}
        assert "says so" not in repr(told)


async def test_a_file_that_changes_during_an_order_is_what_the_child_says_last(tmp_path: Path) -> None:
    path = written(tmp_path, jsonl(*TEXTS))
    problems: asyncio.Queue[BaseException] = asyncio.Queue()
    async with serving(whole) as server:
        child = Child(lambda message: None, problems.put_nowait)
        await child.obey(said(path, server.url))
        path.write_bytes(path.read_bytes()[:20])
        await child.obey(order(offsets_s=(0.0,) * 4))
        async with asyncio.timeout(WAIT_S):
            problem = await problems.get()
    assert str(problem) == "file was changed while the run read it"


async def test_a_refusal_of_a_row_still_names_the_field_that_is_not_known() -> None:
    body = b'{"error": {"message": "Extra inputs are not permitted: cache_salt. Input was: my prompt says so"}}'
    async with calling(answer_http(400, body)) as (caller, _):
        caller.client.keeps_prompts_secret = True
        ended = await caller.call()
    assert ended.ending == "http"
    assert ended.error is not None
    assert "cache_salt" in ended.error
    assert "says so" not in ended.error
    assert "prompt" in ended.error


def answer_http(status: int, body: bytes) -> Handler:
    async def handle(request: Received) -> bool:
        await request.write(b"HTTP/1.1 %d No\r\nContent-Length: %d\r\n\r\n" % (status, len(body)), body)
        return False

    return handle

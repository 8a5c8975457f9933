"""The rows of a run: which are drawn, how long each is on this server, and what is refused before any load."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from core.access import Access
from core.config import Api, Lengths, Method, ProbeConfig, Safety, Target, Workload
from core.errors import UserError
from core.facts import Fact, parts
from core.records import Hello, Phase, RequestRecord
from core.server import population as population_module
from core.server.http import Caller, Credential
from core.server.population import MOST_ROWS, DatasetAsked, Population, population, recounted
from core.server.preflight import Preflight
from core.server.prompt_vocabulary import Tokenizer
from core.traffic import BadRows, Conversation, Message, Turn, prompts_of
from core.workloads import Prefix, Source
from tests.core.server.fakes import ALL, BASE, FakeSend, FakeVllm, Ran, client, codes, figures, record
from tests.core.traffic.files import jsonl, written


def config(api: Api = "completions", output: Lengths | None = None, seed: int = 11) -> ProbeConfig:
    workload = Workload(output_tokens=output or Lengths(median=40), source=Source(kind="dataset", file="file"))
    return ProbeConfig(target=Target(url=BASE, api=api), workload=workload, method=Method(seed=seed), safety=Safety(public_ok=True))


async def drawn(
    path: Path,
    asked: ProbeConfig | None = None,
    server: FakeVllm | None = None,
    context: int | None = 2048,
    told: list[Fact] | None = None,
) -> Population:
    async with client(server or FakeVllm()) as http:
        tokenizer = Tokenizer(Caller(http, Credential(BASE)), BASE, "tiny")
        dataset = DatasetAsked(path, tell=(told if told is not None else list[Fact]()).append)
        return await population(dataset, asked or config(), tokenizer, context)


def by_row(found: Population) -> dict[int | None, tuple[int, int]]:
    return {part.row: (part.input_tokens, part.output_tokens) for part in found.workload.mix}


def said(found: Population) -> list[str]:
    return [fact.code for fact in found.found]


async def test_lengths_are_those_of_the_server_and_answers_as_long_as_the_row_says_else_as_recorded_else_as_asked(
    tmp_path: Path,
) -> None:
    rows = [{"prompt": "one two", "output_tokens": 9}, {"prompt": "one", "answer": "a b c"}, {"prompt": "one two three"}]
    found = await drawn(written(tmp_path, jsonl(*rows)))

    assert by_row(found) == {0: (2, 9), 1: (1, 3), 2: (3, 40)}
    assert found.workload.source == Source(kind="dataset", file="file", form="prompts", rows=3, of_rows=3)
    assert found.certain
    data = (tmp_path / "file").read_bytes()
    places = zip(found.rows.begins, found.rows.sizes, strict=True)
    read = [json.loads(data[begin : begin + size]) for begin, size in places]
    assert read == [rows[part.row or 0] for part in found.workload.mix]


async def test_the_template_and_the_tools_of_a_chat_count(tmp_path: Path) -> None:
    server = FakeVllm()
    tool = {"type": "function", "function": {"name": "look_up"}}
    row = {"messages": [{"role": "user", "content": "one two"}], "tools": [tool], "max_tokens": 5}
    found = await drawn(written(tmp_path, jsonl(row)), config("chat"), server)

    assert by_row(found) == {0: (11, 5)}
    assert json.loads(server.seen[-1].content)["tools"] == [tool]


async def test_answers_that_no_row_tells_are_drawn_from_the_lengths_asked_for(tmp_path: Path) -> None:
    lengths = Lengths(median=40, sigma=0.5, maximum=90)
    path = written(tmp_path, "one\n" * 50)
    first, again = [await drawn(path, config(output=lengths)) for _ in range(2)]

    assert first.workload == again.workload
    assert len({part.output_tokens for part in first.workload.mix}) > 10
    assert max(part.output_tokens for part in first.workload.mix) <= 90


async def test_a_run_draws_so_many_rows_by_its_seed_each_once(tmp_path: Path) -> None:
    path = written(tmp_path, "".join(f"row {n}\n" for n in range(MOST_ROWS + 500)))
    first, same, other = [await drawn(path, config(seed=seed)) for seed in (1, 1, 2)]

    assert len(by_row(first)) == MOST_ROWS
    assert first == same
    assert set(by_row(first)) != set(by_row(other))


async def test_a_row_that_the_file_has_once_is_drawn_once(tmp_path: Path) -> None:
    found = await drawn(written(tmp_path, "a\n\nb\n\n\nc\n"))
    assert sorted(row for row in by_row(found) if row is not None) == [0, 2, 5]


async def test_what_does_not_fit_the_context_is_left_out_and_said(tmp_path: Path) -> None:
    found = await drawn(written(tmp_path, "one two\n" + "long " * 100 + "\n"), context=60)
    assert by_row(found) == {0: (2, 40)}
    (unfit,) = [fact for fact in found.found if fact.code == "rows_unfit"]
    assert unfit.figures == {"rows": 1, "rows_frac": 0.5, "context_tokens": 60}
    assert (await drawn(tmp_path / "file", context=10)).refused


def talk(turns: int) -> dict[str, Any]:
    said = [(who, n) for n in range(turns) for who in ("human", "gpt")]
    return {"conversations": [{"from": who, "value": " ".join([who] * (1 + n))} for who, n in said]}


def turns_of(found: Population) -> list[tuple[int | None, int, int, int]]:
    return sorted((part.row or 0, part.turn, part.input_tokens, part.output_tokens) for part in found.workload.mix)


async def test_a_conversation_is_its_turns_each_with_all_that_was_said_before_it(tmp_path: Path) -> None:
    found = await drawn(written(tmp_path, json.dumps([talk(3), talk(1)]), "talks.json"), config("chat"))
    assert turns_of(found) == [(0, 0, 9 + 1, 1), (0, 1, 9 + 4, 2), (0, 2, 9 + 9, 3), (1, 0, 9 + 1, 1)]
    assert found.workload.turns
    assert found.workload.source is not None
    assert found.workload.source.rows == 2
    for at, part in enumerate(found.workload.mix):
        assert part.turn == 0 or found.workload.mix[at - 1].turn == part.turn - 1, "they stand behind each other"
    (told,) = [fact for fact in found.found if fact.code == "rows_turns"]
    assert told.figures == {"rows": 1, "turns": 3, "cut": 0}


async def test_a_conversation_ends_before_a_turn_that_does_not_fit_or_is_one_too_many(tmp_path: Path) -> None:
    path = written(tmp_path, json.dumps([talk(3)]), "talks.json")
    found = await drawn(path, config("chat"), context=20)
    assert [(row, turn) for row, turn, *_ in turns_of(found)] == [(0, 0), (0, 1)]
    whole = await drawn(written(tmp_path, json.dumps([talk(20)]), "long.json"), config("chat"))
    assert len(whole.workload.mix) == population_module.MOST_TURNS
    (told,) = [fact for fact in whole.found if fact.code == "rows_turns"]
    assert told.figures == {"rows": 1, "turns": 16, "cut": 4}


async def test_the_check_tells_of_conversations_too_of_which_the_first_turn_alone_fits(tmp_path: Path) -> None:
    found = await drawn(written(tmp_path, json.dumps([talk(3)]), "talks.json"), config("chat"), context=12)
    assert [(row, turn) for row, turn, *_ in turns_of(found)] == [(0, 0)]
    (told,) = [fact for fact in found.found if fact.code == "rows_turns"]
    assert told.figures == {"rows": 1, "turns": 1, "cut": 2}


def test_of_a_long_conversation_no_more_prompts_are_made_than_are_sent() -> None:
    """Each has all that was said before it: all of 20,000 turns would be as many as 200 million messages."""
    turns = tuple(Turn((Message("user", "a"),), answer="b") for _ in range(20_000))
    assert [len(prompt.messages) for prompt in prompts_of(Conversation(1, turns), 3)] == [1, 3, 5]


async def test_turns_count_as_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(population_module, "MOST_ROWS", 7)
    found = await drawn(written(tmp_path, json.dumps([talk(3)] * 9), "talks.json"), config("chat"))
    assert len(found.workload.mix) == 9


async def test_the_pause_before_a_turn_is_as_recorded_but_no_longer_than_one_waits_unless_it_was_asked_for(tmp_path: Path) -> None:
    row = {"turns": [{"text": "a", "output_length": 3, "delay": delay} for delay in (0, 1500, 3_600_000)]}
    path = written(tmp_path, jsonl(row), "sessions.jsonl")
    found = await drawn(path, config("chat"))
    assert [part.think_s for part in found.workload.mix] == [0.0, 1.5, 600.0]
    assert [part.input_tokens for part in found.workload.mix] == [10, 10 + 3 + 1, 10 + 2 * (3 + 1)], "made-up answers are as long"
    asked = config("chat")
    asked = msgspec.structs.replace(asked, workload=msgspec.structs.replace(asked.workload, think_s=0.25))
    assert [part.think_s for part in (await drawn(path, asked)).workload.mix] == [0.0, 0.25, 0.25]


@pytest.mark.parametrize(("name", "value"), [("prefix", Prefix(kind="turns")), ("think_s", 1.0)])
async def test_what_is_asked_of_turns_needs_conversations(tmp_path: Path, name: str, value: object) -> None:
    asked = config("chat")
    asked = msgspec.structs.replace(asked, workload=msgspec.structs.replace(asked.workload, **{name: value}))
    with pytest.raises(UserError, match="no conversation"):
        await drawn(written(tmp_path, jsonl({"prompt": "one"})), asked)
    talks = written(tmp_path, json.dumps([talk(2)]), "talks.json")
    with pytest.raises(UserError, match="a second turn that fits"):
        await drawn(talks, asked, context=12)
    assert (await drawn(talks, asked)).workload.turns


async def test_bad_rows_are_named_and_too_many_are_refused(tmp_path: Path) -> None:
    good = [{"prompt": f"row {n}"} for n in range(150)]
    few = await drawn(written(tmp_path, jsonl(*good, {"prompt": 3})))
    (bad,) = [fact for fact in few.found if fact.code == "rows_bad"]
    assert bad.figures == {"bad": 1, "drawn": 151}
    assert few.workload.source is not None
    assert few.workload.source.bad == 1

    with pytest.raises(BadRows):
        await drawn(written(tmp_path, jsonl(*good, *[{"prompt": 3}] * 9)))


async def test_a_row_that_the_tokenizer_does_not_take_is_a_bad_row(tmp_path: Path) -> None:
    class Choosy(FakeVllm):
        def _tokenize(self, request: httpx.Request) -> httpx.Response:
            return httpx.Response(400) if b"spoilt" in request.content else super()._tokenize(request)

    lines = ["row"] * 120
    found = await drawn(written(tmp_path, "\n".join([*lines, "spoilt"])), server=Choosy())
    (bad,) = [fact for fact in found.found if fact.code == "rows_bad"]
    assert [each.code for each in parts(bad) if isinstance(each, Fact)] == ["rows_bad", "row_bad", "row_untokenized"]
    with pytest.raises(BadRows):
        await drawn(written(tmp_path, "row\nspoilt\n"), server=Choosy())


@pytest.mark.parametrize("count", [-5, 0, 10**9, 10**30])
async def test_a_count_that_no_prompt_has_is_none(tmp_path: Path, count: int) -> None:
    class Wrong(FakeVllm):
        def _tokenize(self, request: httpx.Request) -> httpx.Response:
            if b"spoilt" not in request.content:
                return super()._tokenize(request)
            return httpx.Response(200, content=json.dumps({"count": count, "tokens": [1]}))

    found = await drawn(written(tmp_path, "\n".join([*["row"] * 120, "spoilt"])), server=Wrong())
    assert "rows_bad" in said(found)
    assert {part.input_tokens for part in found.workload.mix} == {1}


async def test_a_tokenizer_that_takes_no_more_rows_is_not_asked_for_all_of_them(tmp_path: Path) -> None:
    class Failing(FakeVllm):
        asked = 0

        def _tokenize(self, request: httpx.Request) -> httpx.Response:
            self.asked += 1
            return super()._tokenize(request) if self.asked < 50 else httpx.Response(503)

    server = Failing()
    with pytest.raises(BadRows):
        await drawn(written(tmp_path, "row\n" * MOST_ROWS), server=server)
    assert server.asked < 100


async def test_messages_are_refused_for_completions_with_the_way_out(tmp_path: Path) -> None:
    row = {"messages": [{"role": "user", "content": "one two"}]}
    with pytest.raises(UserError, match="--api chat") as refused:
        await drawn(written(tmp_path, jsonl(row)))
    assert str(tmp_path) not in str(refused.value)


async def test_no_sentence_that_is_kept_tells_the_folder(tmp_path: Path) -> None:
    for path in (tmp_path / "missing", written(tmp_path, '[{"prompt": "cut o')):
        with pytest.raises(UserError, match=path.name) as refused:
            await drawn(path)
        assert str(tmp_path) not in str(refused.value)


async def test_without_tokenize_a_length_is_the_rows_own_else_estimated_and_answers_correct_it(tmp_path: Path) -> None:
    rows = [{"prompt": "x" * 40, "input_tokens": 30, "output_tokens": 5}, {"prompt": "x" * 400, "answer": "y" * 20}]
    found = await drawn(written(tmp_path, jsonl(*rows)), server=FakeVllm(tokenize=None))
    assert by_row(found) == {0: (30, 5), 1: (100, 5)}
    assert found.estimated == (True, True)
    assert found.workload.estimated

    answers = [record(asked_input=100, prompt_tokens=120), record(asked_input=30, prompt_tokens=36), record(prompt_tokens=None)]
    better = recounted(found, answers, 2048)
    assert by_row(better) == {0: (36, 5), 1: (120, 5)}
    assert set(by_row(recounted(found, answers, 50))) == {0}
    assert recounted(found, answers[2:], 2048) is found


async def test_a_big_file_tells_how_far_it_has_been_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(population_module, "BIG_BYTES", 1_000_000)
    path = written(tmp_path, ("x" * 999 + "\n") * 5000)
    told: list[Fact] = []
    await drawn(path, told=told)
    await asyncio.sleep(0)
    shares: list[Any] = [fact.figures["read_frac"] for fact in told if fact.code == "dataset_progress"]
    assert len(shares) >= 3
    assert shares == sorted(shares)


# --- among the checks ---------------------------------------------------------------------------------------------


def as_asked(hello: Hello, i: int, phase: Phase) -> RequestRecord:
    part = hello.workload.mix[i] if hello.workload.mix else None
    tokens = (part.input_tokens, part.output_tokens) if part else (32, 4)
    return record(asked_input=tokens[0], prompt_tokens=tokens[0], asked_output=tokens[1], output_tokens=tokens[1])


async def run(
    path: Path, send: FakeSend, server: FakeVllm | None = None, asked: ProbeConfig | None = None
) -> tuple[Ran, list[Workload]]:
    workloads: list[Workload] = []
    async with client(server or FakeVllm()) as http:
        dataset = DatasetAsked(path, drawn=workloads.append)
        preflight = Preflight(asked or config(), Access(), "00ff", http, send, dataset)
        return Ran(preflight, [check async for check in preflight.checks()]), workloads


async def test_single_requests_are_rows_and_so_is_the_load(tmp_path: Path) -> None:
    path = written(tmp_path, "".join(f"row {n}\n" for n in range(20)))
    send = FakeSend(as_asked)
    ran, workloads = await run(path, send)

    assert ran.names == [("dataset" if name == "context" else name) for name in ALL]
    assert [check.check for check in ran.checks if check.status == "refuse"] == []
    assert ran.preflight.hello is not None
    assert ran.preflight.hello.dataset is not None
    assert [ran.preflight.hello.workload] == workloads
    assert all(hello.shape.prompt == "text" and hello.dataset is not None for hello, _, _ in send.calls)
    assert "takes_text" not in codes(ran["request"])


async def test_without_a_known_context_nothing_is_left_out_and_the_check_says_so(tmp_path: Path) -> None:
    server = FakeVllm(models={"data": [{"id": "tiny", "owned_by": "vllm"}]})
    ran, workloads = await run(written(tmp_path, "one two three\n" * 20), FakeSend(as_asked), server)
    assert figures(ran["context"], "prompt_tokens", "output_tokens", "context_tokens") == (3, 40, None)
    assert len(workloads[0].mix) == 20


async def test_a_prompt_that_the_server_counts_otherwise_than_its_tokenizer_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "one two three\n" * 20)
    ran, _ = await run(path, FakeSend(lambda hello, i, phase: record(asked_input=3, prompt_tokens=4)))
    assert ran["prompt length"].status == "refuse"


async def test_estimated_lengths_are_judged_by_nothing_and_corrected_by_the_single_requests(tmp_path: Path) -> None:
    path = written(tmp_path, ("x" * 400 + "\n") * 20)
    send = FakeSend(lambda hello, i, phase: record(asked_input=100, prompt_tokens=80, asked_output=40, output_tokens=40))
    ran, workloads = await run(path, send, FakeVllm(tokenize=None))

    assert "prompt length" not in ran.names
    assert [check.check for check in ran.checks if check.status == "refuse"] == []
    assert [workload.mix[0].input_tokens for workload in workloads] == [100, 80]
    assert ran.preflight.hello is not None
    assert ran.preflight.hello.workload == workloads[-1]
    assert "rows_recounted" in codes([check for check in ran.checks if check.check == "dataset"][-1])


async def test_bad_rows_stop_the_checks_before_anything_is_sent(tmp_path: Path) -> None:
    send = FakeSend(as_asked)
    ran, workloads = await run(written(tmp_path, jsonl({"prompt": "a"}, {"prompt": 3})), send)
    assert (ran.names[-1], ran.checks[-1].status) == ("dataset", "refuse")
    assert codes(ran.checks[-1]) == ["rows_refused", "row_bad", "row_kind"]
    assert (send.calls, workloads) == ([], [])


async def test_a_short_request_that_seeks_what_a_server_takes_is_made_up(tmp_path: Path) -> None:
    def choosy(hello: Hello, i: int, phase: Phase) -> RequestRecord:
        if hello.shape.salted:
            return record(ending="http", status=400, error="HTTP 400, and words that are not kept", t_first=None)
        return as_asked(hello, i, phase)

    send = FakeSend(choosy)
    ran, _ = await run(written(tmp_path, "one two three\n" * 20), send)
    made_up = [hello for hello, _, _ in send.calls if hello.dataset is None]
    assert made_up
    assert all(not hello.workload.mix for hello in made_up)
    assert ran.preflight.hello is not None
    assert not ran.preflight.hello.shape.salted
    assert ran.preflight.hello.dataset is not None

"""What a fuzzer feeds: each target takes any bytes and asserts what must hold of them; anything else it raises is a finding."""

import asyncio
import json
import math
import os
import tempfile
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import httpx
import msgspec

from core.address import split_address
from core.errors import UserError
from core.load.completion import AnswerReader
from core.load.sse import EventTooLong, SseEvent, SseParser
from core.net import error_text
from core.records import ServerSample
from core.report import to_json, to_text
from core.server.exposition import ScrapeError, cache_config, kv_capacity_tokens, page, parse
from core.server.http import Caller, Credential
from core.server.models import ModelCard, NoModels, list_models, ours_among
from tui.cli import argv, inputs, profiles
from tui.cli.configure import CliOptions, build
from tui.cli.recorded import Recorded

DATA = Path(__file__).parents[1] / "data"
LIMIT = 4096
PROFILES = (
    b"""# options of a run
url = "http://127.0.0.1:8000"
input-tokens = "lognormal:512,0.5,4096"
ttft = "800ms"
careful = true
rates = [2, 4, 6.5]
""",
    b"""mode = "standard"
peak-rps = 50.5
growth = "10%"
scale-out = "4m"
gpu = "H100 SXM"
insecure = true
max-duration = "10m"
""",
    b'header = "X: y"',
)
MODELS = (
    b'{"object":"list","data":[{"id":"a","root":"a","parent":null,"max_model_len":4096},{"id":"l","root":"/l","parent":"a"}]}',
    b'{"data":[{"id":"a","max_model_len":"4096"},{"id":7},{"id":"b"}],"has_more":true,"last_id":"b"}',
    b'[{"id":"a"},{"name":"b"}]',
    b'{"models":[{"id":"a","max_model_len":1e300}]}',
)
ADDRESSES = (
    b"http://127.0.0.1:8000",
    b"127.0.0.1:8000",
    b"https://gw.example/openai/v1/chat/completions",
    b"http://[::1]:8000/v1-openai/models",
    b"http://h:8000/docs#/default",
)
_LARGEST_SEED = 16_000
"""A fuzzer is quick on small inputs; of a long recorded run its beginning shows every kind of event."""


def sse(data: bytes) -> None:
    """A stream, cut where its first bytes say: the cut changes neither events nor answer, and the answer adds up."""
    cuts, stream = data[:4], data[4:]
    whole, pieces = _events([stream]), _events(list(_cut(stream, cuts)))
    assert whole == pieces, f"cut {list(cuts)} gives other events"
    if whole is None:
        assert len(stream) > LIMIT, "refused as too long, and is not"
        return
    reader = AnswerReader()
    for number, event in enumerate(whole):
        reader.feed([event], float(number))
    reader.feed_rest([], float(len(whole)))
    ending, error = reader.end(orderly=True)
    assert (error is None) == (ending == "ok")
    assert ending != "ok" or (reader.t_first is not None and reader.t_last is not None and reader.output_tokens > 0)
    assert reader.t_first is None or reader.t_last is None or reader.t_first <= reader.t_last
    assert 0 <= reader.first_tokens <= 10**9
    assert 0 <= reader.output_tokens <= 10**9 + len(data), "a total, and what came after it"
    json.dumps(msgspec.to_builtins(reader.gaps), allow_nan=False)
    error_text(stream)


def metrics(data: bytes) -> None:
    """An exposition, in the format that its first byte says: a sample of finite numbers, or a sentence."""
    text = data[1:].decode("utf-8", "replace")
    content_type = "application/openmetrics-text" if data[:1] >= b"\x80" else "text/plain"
    try:
        for models in ((), page(text, content_type).models[:1]):
            sample = parse(text, content_type, 1.0, 0.1, models)
            assert all(math.isfinite(value) for value in _numbers(sample)), sample
    except ScrapeError as error:
        _sentence(error)
    try:
        capacity = kv_capacity_tokens(cache_config(text, content_type), 2)
        assert capacity is None or capacity > 0
    except ScrapeError:
        pass


def log(data: bytes) -> None:
    """A run's file, behind a true first line if the first byte says so: a report in text and strict JSON, or a sentence."""
    path = _scratch()
    path.write_bytes(first_line() + data[1:] if data[:1] >= b"\x80" else data[1:])
    try:
        view = Recorded(str(path)).view()
    except UserError as error:
        _sentence(error)
        return
    to_text(view, str(path))
    json.loads(to_json(view, str(path)), parse_constant=_refuse)


def profile(data: bytes) -> None:
    """A profile: options that a run can be made of or a sentence that refuses them, and never the name of a secret."""
    path = _scratch()
    path.write_bytes(data)
    try:
        texts = profiles.load(path)
        assert not profiles.SECRETS & texts.keys(), texts
        _, values = profiles.under(path, argv.parsed([]))
        values.pop("profile")
        build(CliOptions(values), "http://127.0.0.1:8000")
    except UserError as error:
        _sentence(error)


def models(data: bytes) -> None:
    """A list of models, all of whose pages are this answer: names, and lengths that can be, or that there is none."""
    try:
        cards = asyncio.run(_listed(data))
    except NoModels:
        return
    assert all(card.id and (card.max_model_len is None or card.max_model_len > 0) for card in cards), cards
    for card in cards:
        assert set(ours_among([card.id, "another"], card.id, cards)) == {card.id}


def address(data: bytes) -> None:
    """What is pasted as an address: one that is read as the same server again, or a sentence."""
    try:
        url = inputs.read_server(data.decode("utf-8", "replace"), "the URL")
    except UserError as error:
        _sentence(error)
        return
    assert inputs.read_server(url, "the URL") == url
    assert split_address(url).base.startswith(("http://", "https://"))
    try:
        build(CliOptions({}), url)
    except UserError as error:
        _sentence(error)


TARGETS: dict[str, Callable[[bytes], None]] = {
    "sse": sse,
    "metrics": metrics,
    "log": log,
    "profile": profile,
    "models": models,
    "address": address,
}
HEAD_BYTES = {"sse": 4, "metrics": 1, "log": 1, "profile": 0, "models": 0, "address": 0}
"""So many bytes of an input say how the rest is fed."""


def seeds(name: str) -> Iterator[bytes]:
    """Small inputs that are right, for a fuzzer to start from."""
    match name:
        case "sse":
            yield from (b"\1\7\30\200" + path.read_bytes() for path in sorted((DATA / "streams").iterdir()))
        case "metrics":
            for path in sorted((DATA / "metrics").iterdir()):
                lines = [line for line in path.read_bytes().splitlines() if b"_bucket" not in line and b"# HELP" not in line]
                yield b"\0" + b"\n".join(lines)[:_LARGEST_SEED]
                yield b"\200" + b"\n".join([*lines, b"# EOF\n"])[-_LARGEST_SEED:]
        case "profile":
            yield from PROFILES
        case "models":
            yield from MODELS
        case "address":
            yield from ADDRESSES
        case _:
            for path in sorted((DATA / "runs").glob("*.jsonl")):
                lines = path.read_bytes().splitlines(keepends=True)
                yield b"\200" + b"".join(lines[1:60])[:_LARGEST_SEED]
                yield (
                    b"\200" + b"".join(line for line in lines if b'"ended"' not in line and b'"sent"' not in line)[-_LARGEST_SEED:]
                )
                yield b"\0" + b"".join(lines[:20])


@lru_cache
def first_line() -> bytes:
    """The start of a recorded run."""
    with sorted((DATA / "runs").glob("*.jsonl"))[0].open("rb") as file:
        return file.readline()


async def _listed(body: bytes) -> tuple[ModelCard, ...]:
    transport = httpx.MockTransport(lambda request: httpx.Response(200, content=body))
    async with httpx.AsyncClient(transport=transport) as client:
        return await list_models(Caller(client, Credential("http://127.0.0.1:8000")), "http://127.0.0.1:8000")


def _events(pieces: list[bytes]) -> list[SseEvent] | None:
    parser = SseParser(LIMIT)
    try:
        return [event for piece in pieces for event in parser.feed(piece)] + parser.close()
    except EventTooLong:
        return None


def _cut(data: bytes, at: bytes) -> Iterator[bytes]:
    edges = sorted({0, len(data), *(number * len(data) // 255 for number in at)})
    for start, end in pairwise(edges):
        yield data[start:end]


def _numbers(sample: ServerSample) -> Iterator[float]:
    yield from _in(msgspec.structs.astuple(sample))


def _in(value: object) -> Iterator[float]:
    if isinstance(value, msgspec.Struct):
        value = msgspec.structs.astuple(value)
    if isinstance(value, tuple):
        for each in value:
            yield from _in(each)
    elif isinstance(value, float):
        yield value


def _sentence(error: Exception) -> None:
    assert str(error).strip(), "no sentence"


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


@lru_cache
def _scratch() -> Path:
    folder = "/dev/shm" if os.path.isdir("/dev/shm") else None
    return Path(tempfile.mkdtemp(dir=folder, prefix="kneescope-fuzz-")) / "run.jsonl"

"""A vLLM server behind httpx.MockTransport, a generator that answers at once, and records with chosen times."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import httpx
import msgspec

from core import prose
from core.access import Access
from core.config import ProbeConfig, Safety, Slo, Target
from core.facts import Code, Fact, Figure, parts
from core.records import Check, GapSummary, Hello, Phase, RequestRecord
from core.server.preflight import Preflight
from core.server.replicas import ReplicaScraper
from tests import builders

DATA = Path(__file__).parents[2] / "data" / "metrics"
KEY = "sk-TESTSECRET"
BASE = "http://gw:8000"

Handler = Callable[[httpx.Request], httpx.Response]


ALL = [
    "reachable",
    "version",
    "model",
    "context",
    "fd limit",
    "metrics",
    "kv capacity",
    "traffic",
    "request",
    "layout",
    "usage",
    "prompt length",
    "isolation",
    "output length",
    "slo",
]


def capture(name: str) -> str:
    """A recorded exposition of a real server."""
    return (DATA / f"vllm-{name}.txt").read_text()


def record(**facts: object) -> RequestRecord:
    """A request that went well: first token after 40 ms, 128 tokens 10 ms apart, prompt as asked."""
    plain = RequestRecord(
        order=0,
        index=0,
        t_sched=100.0,
        t_sent=100.001,
        t_first=100.04,
        t_last=101.31,
        t_end=101.32,
        first_tokens=1,
        output_tokens=128,
        prompt_tokens=512,
        asked_input=512,
        asked_output=128,
        ending="ok",
        finish_reason="length",
        status=200,
        fingerprint="vllm-0.32.0-9666ce4b",
        gaps=GapSummary(n=127, sum_s=1.27, max_s=0.01),
    )
    return msgspec.structs.replace(plain, **facts)


def client(handler: Handler) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.MockTransport(handler))


def word_ids(text: str) -> list[int]:
    """An ordinary vocabulary: one token a word, whatever stands before it."""
    return [1000 + hash_of(word) for word in text.split()]


def byte_ids(text: str) -> list[int]:
    """A tiny byte-level vocabulary: one token a character, but a blank merges with the letters a to m."""
    ids: list[int] = []
    for char in text:
        if ids and ids[-1] == ord(" ") and "a" <= char <= "m":
            ids[-1] = 256 + ord(char) - ord("a")
        else:
            ids.append(ord(char))
    return ids


def hash_of(word: str) -> int:
    return int.from_bytes(word.encode()[:3], "big") % 30_000


@dataclass
class FakeVllm:
    """A server on one origin; what a test does not set is as vLLM 0.32 with one model and plain log stats."""

    version: object = field(default_factory=lambda: {"version": "0.32.0"})
    models: object = field(default_factory=lambda: {"data": [{"id": "tiny", "max_model_len": 2048, "owned_by": "vllm"}]})
    metrics: Callable[[], str] = lambda: capture("0.32.0-idle")
    tokenize: Callable[[str], list[int]] | None = word_ids
    template_tokens: int | None = 9
    key: str | None = None
    metrics_key: str | None = None
    overrides: dict[str, httpx.Response | Exception] = field(default_factory=dict)
    seen: list[httpx.Request] = field(default_factory=list)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.seen.append(request)
        override = self.overrides.get(str(request.url), self.overrides.get(request.url.path))
        if isinstance(override, Exception):
            raise override
        if override is not None:
            return override
        return self._answer(request)

    def paths(self) -> list[str]:
        return [request.url.path for request in self.seen]

    def _answer(self, request: httpx.Request) -> httpx.Response:
        given = request.headers.get("authorization")
        match request.url.path:
            case "/health":
                return httpx.Response(200)
            case "/version":
                return httpx.Response(200, json=self.version)
            case "/v1/models":
                if self.key is not None and given != f"Bearer {self.key}":
                    return httpx.Response(401, json={"error": "Unauthorized"})
                return httpx.Response(200, json=self.models)
            case "/metrics":
                if self.metrics_key is not None and given != f"Bearer {self.metrics_key}":
                    return httpx.Response(401, json={"error": "Unauthorized"})
                return httpx.Response(200, text=self.metrics())
            case "/tokenize":
                return self._tokenize(request)
            case _:
                return httpx.Response(404, json={"detail": "Not Found"})

    def _tokenize(self, request: httpx.Request) -> httpx.Response:
        asked = msgspec.json.decode(request.content)
        if self.tokenize is None:
            return httpx.Response(404, json={"detail": "Not Found"})
        if "messages" not in asked:
            ids = self.tokenize(asked["prompt"])
        elif self.template_tokens is None:
            return httpx.Response(400, json={"error": {"message": "no chat template"}})
        else:
            ids = [7] * self.template_tokens + [
                token for message in asked["messages"] for token in self.tokenize(message["content"])
            ]
        return httpx.Response(200, json={"count": len(ids), "max_model_len": 2048, "tokens": ids})


@dataclass
class FakeSend:
    """Stands for the generator: `answer` gives the record of each request; `before` runs ahead of each call."""

    answer: Callable[[Hello, int, Phase], RequestRecord] = lambda hello, i, phase: record()
    before: Callable[[], None] = lambda: None
    calls: list[tuple[Hello, int, Phase]] = field(default_factory=list)

    async def __call__(self, hello: Hello, n: int, phase: Phase) -> list[RequestRecord]:
        self.before()
        self.calls.append((hello, n, phase))
        return [self.answer(hello, i, phase) for i in range(n)]


@dataclass
class Ran:
    """What a preflight said and learned."""

    preflight: Preflight
    checks: list[Check]

    def __getitem__(self, name: str) -> Check:
        found = [check for check in self.checks if check.check == name]
        assert len(found) == 1, f"{name}: {found}"
        return found[0]

    @property
    def names(self) -> list[str]:
        return [check.check for check in self.checks]


async def run(
    server: Handler,
    send: FakeSend | None = None,
    config: ProbeConfig | None = None,
    key: str | None = None,
    replicas: ReplicaScraper | None = None,
) -> Ran:
    """Preflight of a server from the first check to the last that it gives."""
    config = config or ProbeConfig(target=Target(url=BASE), safety=Safety(public_ok=True))
    async with client(server) as http:
        preflight = Preflight(config, Access(api_key=key), "00ff", http, send or FakeSend(), replicas=replicas)
        return Ran(preflight, [check async for check in preflight.checks()])


def found(check: Check | None) -> Fact:
    """What a check found; of several things the first."""
    assert check is not None
    assert isinstance(check.message, Fact)
    return next(each for each in parts(check.message) if isinstance(each, Fact) and each.code not in ("several", "in_turn"))


def codes(check: Check) -> list[Code]:
    """All that a check found, and what that rests on."""
    return [each.code for each in parts(check.message) if isinstance(each, Fact)]


def figures(check: Check | None, *names: str) -> tuple[Figure, ...]:
    return tuple(found(check).figures[name] for name in names)


def texts(checks: Sequence[Check]) -> str:
    """All that is said and stored of them."""
    return "\n".join(f"{prose.sentence(check.message)} {check.message}" for check in checks)


config = partial(builders.config, target=BASE, slo=Slo(), public_ok=True)


def with_counters(queries: float, hits: float) -> str:
    text = capture("0.32.0-idle")
    text = re.sub(r"^(vllm:prefix_cache_queries_total\S*) .*$", rf"\1 {queries}", text, flags=re.M)
    return re.sub(r"^(vllm:prefix_cache_hits_total\S*) .*$", rf"\1 {hits}", text, flags=re.M)


def counting(server: FakeVllm, hits_per_request: float = 0) -> FakeSend:
    """A generator whose requests the server's prefix cache counts."""
    asked = [16.0, 0.0]

    def answer(hello: Hello, i: int, phase: Phase) -> RequestRecord:
        asked[0] += 512
        asked[1] += hits_per_request
        return record()

    server.metrics = lambda: with_counters(*asked)
    return FakeSend(answer)

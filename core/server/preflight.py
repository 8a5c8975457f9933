"""What must be true before load starts: one list of checks, each pass, warn or refuse with what was found."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable

import httpx
import msgspec

from core.access import Access
from core.config import Lengths, ProbeConfig, Workload
from core.facts import Figure, fact, reworded, several
from core.net import UNREADABLE, is_near
from core.records import Check, Hello, LengthField, Phase, PromptAlphabet, RequestRecord, ServerInfo, ServerSample
from core.server import answers, checks
from core.server.checks import check_of
from core.server.exposition import Page, RouterPage, has_feature
from core.server.http import Caller, Credential, HttpError, Reply, public
from core.server.metrics import Exposition, ScrapeError, read_exposition
from core.server.models import MODELS_PATH, ModelCard, NoModels, list_models, ours_among
from core.server.prompt_vocabulary import CALIBRATION_WORDS, LETTERS, Tokenizer, calibrated, chat_alphabet, completion_alphabets
from core.singles import JUDGED

SendSingles = Callable[[Hello, int, Phase], Awaitable[list[RequestRecord]]]
"""Sends that many requests one after another through the generator, exactly as the load will, and returns how they ended.
Phase "preflight" while something is being found out, "single" for the one unjudged and the three judged requests."""

_CONFIG_LABELS = (
    "block_size",
    "num_gpu_blocks",
    "num_gpu_blocks_override",
    "kv_cache_size_tokens",
    "kv_cache_max_concurrency",
    "kv_cache_memory_bytes",
    "enable_prefix_caching",
    "cache_dtype",
    "gpu_memory_utilization",
    "sliding_window",
)
"""Labels of `vllm:cache_config_info` that matter for reading a result."""

_CALIBRATION_OUTPUT = 4
_MAX_VERSION = 80
AGAIN_S = 1.0
"""What a run before this one had cut off is gone from a server by then; others' requests mostly are not."""


class Preflight:
    """Runs the checks in order; afterwards `info`, `hello` and the three judged `singles` hold what was learned."""

    info: ServerInfo
    hello: Hello | None
    singles: list[RequestRecord]

    def __init__(self, config: ProbeConfig, access: Access, nonce: str, http: httpx.AsyncClient, send: SendSingles) -> None:
        self._config = config
        self._access = access
        self._salted = True
        self._length_by: LengthField = "max_completion_tokens"
        self._tried_max_tokens = False
        self._nonce = nonce
        self._send = send
        self._base = config.target.url.rstrip("/")
        self._credential = Credential(self._base, access)
        self._caller = Caller(http, self._credential)
        self._before: ServerSample | None = None
        self._after: ServerSample | None = None
        self._labels: dict[str, str] = {}
        self._cards: tuple[ModelCard, ...] = ()
        self._records: list[RequestRecord] = []
        self._answered: RequestRecord | None = None
        self._unjudged: RequestRecord | None = None
        self._given_up: RequestRecord | None = None
        self._requested: Check | None = None
        self.info = ServerInfo(url=public(self._base))
        self.hello = None
        self.singles = []

    async def checks(self) -> AsyncIterator[Check]:
        """The checks, each as soon as it is known; stops after the first refusal that makes the rest pointless."""
        for stage, needed in (
            (self._reachable, True),
            (self._connection, False),
            (self._place, True),
            (self._version, False),
            (self._model, True),
            (self._context, True),
            (self._fd_limit, False),
            (self._metrics, False),
            (self._kv_capacity, False),
            (self._traffic, True),
            (self._request_once, True),
            (self._layout, False),
            (self._usage, False),
            (self._prompt_length, True),
            (self._isolation, False),
            (self._output_length, False),
            (self._stream, True),
            (self._slo, False),
        ):  # needed: else nothing could be sent, or not what was asked, or nothing could be seen
            check: Check | None = await stage()
            if check is None:
                continue
            yield msgspec.structs.replace(check, message=reworded(check.message, self._credential.scrub))
            if check.status == "refuse" and needed:
                return

    async def _reachable(self) -> Check:
        """/health, and where a gateway hides that, whatever else a vLLM server always answers."""
        seen = []
        for path in ("/health", "/version", MODELS_PATH):
            try:
                reply = await self._get(path)
            except HttpError as error:
                return check_of("reachable", "refuse", fact("server_unreachable", error.found, url=self.info.url))
            if reply.ok or reply.status in (401, 403):
                answered = fact("server_answers", url=self.info.url, path=path, status=reply.status)
                return check_of("reachable", "pass", answered)
            seen.append(fact("server_not_up", reply.refused, url=self.info.url, path=path))
            if reply.status >= 500:
                break
        return check_of("reachable", "refuse", seen[-1])

    async def _connection(self) -> Check | None:
        return checks.connection_check(self._config.target, self._access, os.environ)

    async def _place(self) -> Check | None:
        """Load reaches others on the way to a server that is far, so it is not sent there by a slip of the keyboard."""
        if self._config.safety.public_ok:
            return None
        return checks.place_check(self.info.url, await is_near(httpx.URL(self._base).host))

    async def _version(self) -> Check:
        version, simulated = None, False
        try:
            reply = await self._get("/version")
            if reply.ok:
                simulated = b"simulated" in reply.body.lower()
                version = msgspec.json.decode(reply.body, type=dict[str, object]).get("version")
        except (HttpError, *UNREADABLE):
            pass  # said by the check: the version is not known
        known = self._credential.scrub(version[:_MAX_VERSION]) if isinstance(version, str) else None
        self._learn(version=known, simulated=simulated)
        self._salted = has_feature("unknown_fields_rejected", known) is not True
        return checks.version_check(known, simulated, self._config.target.api)

    async def _model(self) -> Check:
        try:
            cards = self._cards = await list_models(self._caller, self._base)
        except NoModels as none:
            return checks.no_models_check(none, key_given=self._access.api_key is not None)
        check, card = checks.model_check(cards, self._config.target.model)
        if card is not None:
            self._learn(model=card.id, max_model_len=card.max_model_len)
        return check

    async def _context(self) -> Check:
        return checks.context_check(self.info.max_model_len, self._config.workload, self.info.version)

    async def _fd_limit(self) -> Check:
        return checks.fd_limit_check()

    async def _metrics(self) -> Check:
        """The address given, else beside the API: under its base, and at the root of its host when the base has a path."""
        given = self._config.target.metrics_url
        root = str(httpx.URL(self._base).copy_with(path="/metrics"))
        tried = []
        for url in [given] if given else list(dict.fromkeys((f"{self._base}/metrics", root))):
            try:
                exposition = await read_exposition(self._caller, url)
                page = exposition.page()
                self._learn(metrics_models=ours_among(page.models, self.info.model or "", self._cards))
                self._before = exposition.sample(self.info.metrics_models)
            except HttpError as error:
                tried.append(fact("metrics_unreachable", error.found, url=public(url)))
            except RouterPage as error:
                self._learn(backends=error.servers)
                tried.append(fact("metrics_of_router", url=public(url), servers=error.servers))
            except ScrapeError as error:
                tried.append(fact("metrics_unreadable", url=public(url), said=str(error).rstrip(".")))
            else:
                return self._found(url, exposition, page, self._before)
        routers: dict[str, Figure] = {} if self.info.backends is None else {"servers": self.info.backends}
        return check_of("metrics", "warn", fact("metrics_missing", *tried, address_given=given is not None, **routers))

    def _found(self, url: str, exposition: Exposition, page: Page, sample: ServerSample) -> Check:
        self._labels = exposition.cache_config(self.info.metrics_models)
        config = {name: self._credential.scrub(self._labels[name]) for name in _CONFIG_LABELS if name in self._labels}
        self._learn(metrics_url=url, engines=sample.engines, backends=page.servers or self.info.backends, config=config)
        found = fact("metrics_found", url=public(url), engines=sample.engines, took_s=sample.took_s)
        return checks.metrics_check(found, page, self.info)

    async def _kv_capacity(self) -> Check:
        check, tokens = checks.capacity_check(self._labels, self.info.engines, self._before is not None)
        self._learn(kv_cache_tokens=tokens)
        return check

    async def _traffic(self) -> Check:
        """A server that does not look idle is looked at twice: what somebody just cut off ends within moments, and counters tell
        whether anybody is served."""
        first, with_others = self._before, self._config.safety.with_others
        if first is None or with_others or checks.others_now(first) == 0:
            return checks.traffic_check(first, with_others)
        await asyncio.sleep(AGAIN_S)
        again = await self._sample_again()
        self._before = shown = again or first
        still = checks.at_rest(first, again)
        if still and checks.others_now(shown):
            return await self._by_a_request(shown)
        return checks.traffic_check(shown, with_others, still)

    async def _by_a_request(self, shown: ServerSample) -> Check:
        """What a server at rest shows of requests is checked by one of ours: vLLM sets its gauges with the steps of its engine, so
        those of requests that were all cut off at once stay until the next one. Each engine has its own."""
        await self._request_once()
        if self.hello is None:
            return checks.unproven_check(shown)
        for more in range(2 * shown.engines if shown.engines > 1 else 1):
            if more:
                await self._ask(self.hello)
            after = await self._sample_again()
            if (right := checks.stale_check(shown, after)) is not None:
                return right
        await asyncio.sleep(2 * AGAIN_S)
        later = await self._sample_again()
        right = checks.stale_check(shown, later)
        return right or checks.traffic_check(later or shown, with_others=False, still=checks.at_rest(after, later))

    async def _request_once(self) -> Check:
        """`_request`, unless the traffic was checked by it already."""
        if self._requested is None:
            self._requested = await self._request()
        return self._requested

    async def _request(self) -> Check:
        """One streamed request as the load will send them, with each alphabet in turn until one is understood."""
        check = check_of("request", "refuse", fact("no_request_sent"))
        for alphabet in await self._alphabets():
            if self._given_up is not None:  # a server that is silent is waited for once
                return answers.request_check(self._given_up)
            hello = self._hello_with(alphabet, self._config.workload)
            record = await self._one(hello)
            if record is None:
                break
            check = answers.request_check(record)
            if record.ending == "ok":
                self.hello = self._as_taken(hello)
                self._answered = record
                self._learn(fingerprint=record.fingerprint)
            if record.ending in ("ok", "aborted"):  # another alphabet helps against a refusal, not against silence
                break
        if self._length_by == "max_tokens":
            check = answers.by_max_tokens(check)
        return check if self._salted else answers.unsalted(check)

    async def _layout(self) -> Check:
        engines = self.info.engines if self._before is not None else None
        check, layout = checks.layout_check(self.info.fingerprint, engines, self.info.version)
        self._learn(tp=layout.tp, pp=layout.pp, dp=layout.dp)
        if self.info.backends is not None:
            behind = fact("servers_behind", servers=self.info.backends)
            check = msgspec.structs.replace(check, message=several(check.message, behind))
        return check

    async def _usage(self) -> Check:
        assert self._answered is not None  # _request refused otherwise
        assert self.hello is not None
        keeps_length = answers.gave_as_asked(self._answered)
        if not keeps_length and not self._answered.usage:
            keeps_length = answers.generated_as_asked(self._records, self._before, await self._sample_again())
        self.hello = msgspec.structs.replace(self.hello, keeps_length=keeps_length)
        return answers.usage_check(self._answered, keeps_length=keeps_length)

    async def _prompt_length(self) -> Check:
        assert self._answered is not None
        return answers.prompt_length_check(self._answered)

    async def _isolation(self) -> Check:
        """Sends the single requests first: that the first prompt was cold says nothing about the next."""
        assert self.hello is not None  # _request refused otherwise
        sent = await self._send(self.hello, answers.SINGLES, "single")
        self._records += [record for record in sent if record.ending == "ok"]
        self._given_up = next((record for record in sent if record.ending == "aborted"), None)
        self._unjudged, self.singles = (sent[0] if sent else None), sent[1:]
        self._after = await self._sample_again()
        return answers.isolation_check(self._records, self._before, self._after, self._labels, self.info.version)

    async def _output_length(self) -> Check:
        chat = self._config.target.api == "chat" and self._length_by != "max_tokens"
        fields = (*(["max_completion_tokens"] if chat else []), *(["max_tokens"] if not chat or self._tried_max_tokens else []))
        return answers.output_length_check(self.singles, fields)

    async def _stream(self) -> Check | None:
        return answers.stream_check(self.singles, self._config.slo, answers.decode_s(self._before, self._after))

    async def _slo(self) -> Check:
        if self._given_up is not None:
            return msgspec.structs.replace(answers.request_check(self._given_up), check="slo")
        if self._unjudged is None or len(self.singles) < JUDGED:
            return check_of("slo", "refuse", fact("singles_missing", sent=len(self.singles), wanted=JUDGED))
        if all(record.ending == "connection" for record in self.singles):  # a server that is gone misses no limit
            return answers.request_check(self.singles[-1])
        return answers.slo_check(self._unjudged, self.singles, self._config.slo)

    async def _alphabets(self) -> list[PromptAlphabet]:
        """What to make prompts of, best first; never empty."""
        tokenizer = Tokenizer(self._caller, self._base, self.info.model or "")
        if self._config.target.api == "completions":
            return await completion_alphabets(tokenizer)
        return [await chat_alphabet(tokenizer) or await self._calibrate()]

    async def _calibrate(self) -> PromptAlphabet:
        """Without `/tokenize`: two short chats of different size show what a letter and the template cost."""
        letters = PromptAlphabet(token_ids=(), words=LETTERS)
        found = []
        for words in CALIBRATION_WORDS:
            lengths = {"input_tokens": Lengths(median=words), "output_tokens": Lengths(median=_CALIBRATION_OUTPUT)}
            record = await self._one(self._hello_with(letters, msgspec.structs.replace(self._config.workload, **lengths)))
            if record is None or record.ending != "ok":
                self._given_up = record if record is not None and record.ending == "aborted" else None
                return letters  # the request check says what is wrong
            found.append(record)
        return calibrated(*found) or letters

    def _hello_with(self, alphabet: PromptAlphabet, workload: Workload) -> Hello:
        return Hello(
            target=self._config.target,
            model=self.info.model or "",
            workload=workload,
            alphabet=alphabet,
            nonce=self._nonce,
            access=self._access,
        )

    def _as_taken(self, hello: Hello) -> Hello:
        """The same with what the server takes, as far as is known."""
        return msgspec.structs.replace(hello, salted=self._salted, length_by=self._length_by)

    async def _one(self, hello: Hello) -> RequestRecord | None:
        """One request of phase "preflight", and again without what the server refuses of it, or with `max_tokens` when it leaves
        the newer field unread; None when the generator sent nothing."""
        record = await self._ask(self._as_taken(hello))
        while record is not None and self._gives_way(record):
            record = await self._ask(self._as_taken(hello))
        if record is None or hello.target.api != "chat" or self._tried_max_tokens or not answers.leaves_length_unread(record):
            return record
        self._tried_max_tokens = True
        other = await self._ask(msgspec.structs.replace(self._as_taken(hello), length_by="max_tokens"))
        if other is None or other.ending != "ok" or answers.leaves_length_unread(other):
            return record
        self._length_by = "max_tokens"
        return other

    def _gives_way(self, record: RequestRecord) -> bool:
        """Whether a field that was just refused is one that can be left out, or has an older name."""
        if self._salted and answers.refuses_field(record, "cache_salt"):
            self._salted = False
            return True
        if not self._tried_max_tokens and answers.refuses_field(record, "max_completion_tokens"):
            self._tried_max_tokens, self._length_by = True, "max_tokens"
            return True
        return False

    async def _ask(self, hello: Hello) -> RequestRecord | None:
        sent = await self._send(hello, 1, "preflight")
        self._records += [record for record in sent if record.ending == "ok"]
        return sent[0] if sent else None

    async def _sample_again(self) -> ServerSample | None:
        if self.info.metrics_url is None:
            return None
        try:
            return (await read_exposition(self._caller, self.info.metrics_url)).sample(self.info.metrics_models)
        except (HttpError, ScrapeError):
            return None  # said by the check: not proven

    async def _get(self, path: str) -> Reply:
        return await self._caller.get(f"{self._base}{path}")

    def _learn(self, **facts: object) -> None:
        self.info = msgspec.structs.replace(self.info, **facts)

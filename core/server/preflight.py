"""What must be true before load starts: one list of checks, each pass, warn or refuse with what was found."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable

import httpx
import msgspec

from core.access import Access
from core.config import Lengths, ProbeConfig, Workload
from core.facts import Fact, Figure, Said, fact, in_turn, reworded, says, several
from core.net import UNREADABLE, is_near
from core.prefixes import block_tokens
from core.records import Check, Hello, LengthField, Phase, PromptAlphabet, RequestRecord, ServerInfo, ServerSample, Shape
from core.server import answers, checks, fallbacks, routes
from core.server.checks import check_of
from core.server.exposition import Page, RouterPage, has_feature, kv_capacity_tokens
from core.server.http import Caller, Credential, HttpError, public
from core.server.metrics import Exposition, ScrapeError, read_exposition
from core.server.models import ModelCard, NoModels, list_models, ours_among
from core.server.population import DatasetAsked, Population, population, recounted
from core.server.prompt_vocabulary import (
    CALIBRATION_WORDS,
    LETTERS,
    Tokenizer,
    calibrated,
    chat_alphabet,
    completion_alphabets,
    text_alphabet,
)
from core.server.replicas import ReplicaScraper, cache_configs, models_shown, one_twice
from core.singles import JUDGED
from core.slo import first_within_s
from core.traffic import BadRows

SendSingles = Callable[[Hello, int, Phase], Awaitable[list[RequestRecord]]]
"""Sends that many requests one after another through the generator, exactly as the load will, and returns how they ended.
Phase "preflight" while something is being found out, "single" for the one unjudged and the three judged requests; "prefix" for the
shared prefixes, that many of them."""

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
_UNCOUNTED = PromptAlphabet(token_ids=(), words=LETTERS)
"""Letters, of which it is not known yet how many tokens they are."""
_MAX_VERSION = 80
AGAIN_S = 1.0
"""What a run before this one had cut off is gone from a server by then; others' requests mostly are not."""


class Preflight:
    """Runs the checks in order; afterwards `info`, `hello` and the three judged `singles` hold what was learned."""

    info: ServerInfo
    hello: Hello | None
    singles: list[RequestRecord]

    def __init__(
        self,
        config: ProbeConfig,
        access: Access,
        nonce: str,
        http: httpx.AsyncClient,
        send: SendSingles,
        dataset: DatasetAsked | None = None,
        replicas: ReplicaScraper | None = None,
    ) -> None:
        """`replicas` behind the server, whose metrics are read in place of its own."""
        self._config = config
        self._replicas = replicas
        self._kv_tokens: int | None = None
        self._access = access
        self._shape = fallbacks.FIRST[config.target.api]
        self._dataset_asked = dataset
        self._population: Population | None = None
        self._lengths_asked: set[LengthField] = set()
        self._length_unread: LengthField | None = None
        self._sought = False
        self._text_refused: bool | None = None
        """Whether no prompt of text was taken either; None where none was sent."""
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
        self._doubts: list[Said] = []
        self._list_status: int | None = None
        self.info = ServerInfo(url=public(config.target.address))
        self.hello = None
        self.singles = []

    def settle(self, workload: Workload) -> None:
        """Ask for these requests from now on: those that fit the model, once that is known."""
        self._config = msgspec.structs.replace(self._config, workload=workload)

    async def checks(self) -> AsyncIterator[Check]:
        """The checks, each as soon as it is known; stops after the first refusal that makes the rest pointless."""
        for stage, needed in (
            (self._reachable, True),
            (self._connection, False),
            (self._place, True),
            (self._version, False),
            (self._model, True),
            (self._dataset, True),
            (self._context, True),
            (self._fd_limit, False),
            (self._metrics, False),
            (self._kv_capacity, False),
            (self._traffic, True),
            (self._decided, True),
            (self._layout, False),
            (self._usage, False),
            (self._prompt_length, True),
            (self._isolation, not self._config.workload.prefix.cold),
            (self._behind, True),
            (self._recount, True),
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
        """Whether anybody is there. Gateways hide, slow down or break each of these routes, and still serve requests."""
        asked = await routes.ask_routes(self._caller, self._base, self._config.target.prefix)
        self._learn(alive_path=routes.alive_path(asked))
        check, doubt = routes.reachable_check(self.info.url, asked)
        if doubt is not None:
            self._doubts.append(doubt)
        return check

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
            reply = await self._caller.get(f"{self._base}/version")
            if reply.ok:
                simulated = b"simulated" in reply.body.lower()
                version = msgspec.json.decode(reply.body, type=dict[str, object]).get("version")
        except (HttpError, *UNREADABLE):
            pass  # said by the check: the version is not known
        known = self._credential.scrub(version[:_MAX_VERSION]) if isinstance(version, str) else None
        self._learn(version=known, simulated=simulated)
        if has_feature("unknown_fields_rejected", known):
            self._shape = msgspec.structs.replace(self._shape, salted=False)
        return checks.version_check(known, simulated, self._config.target.api)

    async def _model(self) -> Check:
        """The list tells what to ask for and how long it may be; of a model that was named it need not even tell that."""
        target = self._config.target
        try:
            self._cards = await list_models(self._caller, self._base, target.prefix)
        except NoModels as none:
            self._list_status = none.status
            if target.model is None:
                return checks.no_models_check(none, key_given=self._access.api_key is not None)
            return self._as_given(target.model, none.found)
        why = checks.not_listed(self._cards, target.model, f"{target.prefix}/models")
        if why is None:
            check, card = checks.model_check(self._cards, target.model)
            self._learn(model=card.id, max_model_len=card.max_model_len)
            return check
        if target.model is None:
            return check_of("model", "refuse", why, *([fact("model_unnamed")] if not self._cards else []))
        return self._as_given(target.model, why)

    def _as_given(self, model: str, why: Fact) -> Check:
        self._learn(model=model)
        self._doubts.append(why)
        return checks.taken_as_given(model, why)

    async def _dataset(self) -> Check | None:
        """The rows that the run sends, in place of made-up prompts."""
        if self._dataset_asked is None:
            return None
        try:
            rows = await population(self._dataset_asked, self._config, self._tokenizer, self.info.max_model_len)
        except BadRows as error:
            return check_of("dataset", "refuse", error.found)
        if self._config.target.api == "completions":
            self._shape = msgspec.structs.replace(self._shape, prompt="text")
        return self._drawn(rows)

    def _drawn(self, rows: Population) -> Check:
        """From now on requests are of these rows."""
        self._population = rows
        self._config = msgspec.structs.replace(self._config, workload=rows.workload)
        if self.hello is not None:
            self.hello = msgspec.structs.replace(self.hello, workload=rows.workload, dataset=rows.rows)
        if not rows.refused and self._dataset_asked is not None:
            self._dataset_asked.drawn(rows.workload)
        found = several(*rows.found)
        doubtful = says(found, "rows_bad", "rows_unfit") or not rows.certain
        return Check(check="dataset", status="refuse" if rows.refused else "warn" if doubtful else "pass", message=found)

    async def _recount(self) -> Check | None:
        """Lengths that were estimated, by what the answers so far told."""
        if self._population is None or self._population.certain:
            return None
        rows = recounted(self._population, self._records, self.info.max_model_len)
        return None if rows is self._population else self._drawn(rows)

    async def _context(self) -> Check | None:
        if self._population is not None and self.info.max_model_len is not None:
            return None  # what does not fit was left out
        return checks.context_check(self.info.max_model_len, self._config.workload, self.info.version)

    async def _fd_limit(self) -> Check:
        return checks.fd_limit_check()

    async def _metrics(self) -> Check:
        """The address given, else beside the API: under its base, and at the root of its host when the base has a path."""
        if self._replicas is not None:
            return await self._metrics_of(self._replicas)
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
        config = self._config_told()
        self._learn(metrics_url=url, engines=sample.engines, backends=page.servers or self.info.backends, config=config)
        found = fact("metrics_found", url=public(url), engines=sample.engines, took_s=sample.took_s)
        return checks.metrics_check(found, page, self.info)

    def _config_told(self) -> dict[str, str]:
        return {name: self._credential.scrub(self._labels[name]) for name in _CONFIG_LABELS if name in self._labels}

    async def _metrics_of(self, replicas: ReplicaScraper) -> Check:
        """Of the replicas that were named. The server's own are not taken for those of an engine: they are a router's, or of one of
        the replicas, whichever answered."""
        shown = models_shown((await replicas.look()).read)
        self._learn(metrics_models=ours_among(shown, self.info.model or "", self._cards))
        replicas.models = frozenset(self.info.metrics_models)
        seen, behind = await replicas.look(), await self._servers_of_router()
        try:
            self._before = replicas.sample_of(seen)
        except ScrapeError as error:
            return check_of("metrics", "refuse", fact("replicas_unreadable", said=str(error).rstrip(".")), *seen.problems)
        if (twice := one_twice(seen.read)) is not None:
            return check_of("metrics", "refuse", fact("replica_twice", *twice))
        self._learn(replicas=seen.names, backends=behind or len(seen.names))
        configs = cache_configs(seen.read, self.info.metrics_models)
        tokens = [kv_capacity_tokens(labels, each.sample.engines) for labels, each in zip(configs, seen.read, strict=True)]
        known = [each for each in tokens if each is not None]
        self._labels = configs[0] if configs else {}
        self._kv_tokens = sum(known) if len(known) == len(tokens) and not seen.unread else None
        self._learn(engines=self._before.engines, config=self._config_told())
        return checks.replicas_check(seen, self._before, behind)

    async def _servers_of_router(self) -> int | None:
        """How many servers the metrics of a router in front tell of; None where they do not."""
        url = self._config.target.metrics_url or f"{self._base}/metrics"
        try:
            return (await read_exposition(self._caller, url)).page().servers or None
        except (HttpError, ScrapeError):
            return None  # nothing is wrong with a gateway that has none

    async def _kv_capacity(self) -> Check:
        if self._replicas is not None:
            self._learn(kv_cache_tokens=self._kv_tokens)
            return checks.fleet_capacity_check(self._kv_tokens, self._labels, self.info.engines, self._before is not None)
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
        after = await self._sample_again()
        more = 2 * shown.engines - 1 if shown.engines > 1 else 0
        while (right := checks.stale_check(shown, after)) is None and more:
            await self._ask(self.hello)
            after, more = await self._sample_again(), more - 1
        if right is not None:
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

    async def _decided(self) -> Check:
        """The streamed request, which decides what the routes beside it left open."""
        check = await self._request_once()
        if check.status != "refuse":
            return check
        target = self._config.target
        api, key_given = public(f"{self._base}{target.prefix}"), self._access.api_key is not None
        return answers.with_doubts(check, self._doubts, api, key_given=key_given, list_status=self._list_status)

    async def _request(self) -> Check:
        """One streamed request as the load will send them, with each alphabet in turn until one is understood."""
        check = check_of("request", "refuse", fact("no_request_sent"))
        alphabets = await self._alphabets()
        while alphabets:
            if self._given_up is not None:  # a server that is silent is waited for once
                return answers.request_check(self._given_up, text_refused=bool(self._text_refused))
            alphabet = alphabets.pop(0)
            hello = self._hello_with(alphabet, self._config.workload)
            record = await self._one(hello, last=not alphabets)
            if record is None:
                break
            check = answers.request_check(record, text_refused=bool(self._text_refused))
            if record.ending == "ok" and not (alphabets := await self._better(alphabet, record)):
                self.hello = self._written(hello)
                self._answered = record
                self._learn(fingerprint=record.fingerprint, shape=self._shape)
            if record.ending == "aborted":  # another alphabet helps against a refusal, not against silence
                break
        shape = self._shape
        if self._population is not None:  # its text was not asked for as token ids before
            shape = msgspec.structs.replace(shape, prompt=fallbacks.FIRST[self._config.target.api].prompt)
        return answers.with_shape(check, shape)

    async def _layout(self) -> Check:
        engines = self.info.engines if self._before is not None and self._replicas is None else None
        check, layout = checks.layout_check(self.info.fingerprint, engines, self.info.version)
        dp = self.info.engines if self._replicas is not None and self._before is not None else layout.dp
        self._learn(tp=layout.tp, pp=layout.pp, dp=dp)
        if self.info.backends is not None:
            behind = fact("servers_behind", servers=self.info.backends)
            check = msgspec.structs.replace(check, message=in_turn(check.message, behind))
        return check

    async def _usage(self) -> Check:
        assert self._answered is not None  # _request refused otherwise
        assert self.hello is not None
        stop = self._config.workload.stop
        if stop == "natural":  # an answer has no length by which its tokens could be counted
            return answers.usage_check(self._answered, stop=stop)
        keeps_length = answers.gave_as_asked(self._answered)
        if not keeps_length and not self._answered.usage:
            keeps_length = answers.generated_as_asked(self._records, self._before, await self._sample_again())
        self.hello = msgspec.structs.replace(self.hello, keeps_length=keeps_length)
        return answers.usage_check(self._answered, keeps_length=keeps_length)

    async def _prompt_length(self) -> Check | None:
        assert self._answered is not None
        if self._population is not None and not self._population.certain:
            return None  # it was estimated, and is by what was answered
        return answers.prompt_length_check(self._answered)

    async def _isolation(self) -> Check:
        """Sends the single requests first: that the first prompt was cold says nothing about the next."""
        assert self.hello is not None  # _request refused otherwise
        prefix = self._config.workload.prefix
        if not prefix.cold and answers.caches_nothing(self._labels):
            return check_of("isolation", "refuse", fact("shared_uncached"))
        if prefix.kind == "shared":  # the prefixes first, for the single requests are to find them as the load will
            await self._send(self.hello, prefix.groups, "prefix")
            self._before, self._records = await self._sample_again(), []
        sent = await self._send(self.hello, answers.SINGLES, "single")
        self._records += [record for record in sent if record.ending == "ok"]
        self._given_up = next((record for record in sent if record.ending == "aborted"), None)
        self._unjudged, self.singles = (sent[0] if sent else None), sent[1:]
        self._learn(counted_by=answers.counted_by(sent))
        self._after = await self._sample_again()
        if prefix.kind == "turns":  # single ones have nothing before them; what rows have in common is no reason to refuse
            check = answers.isolation_check(self._records, self._before, self._after, self._labels, self.info.version)
            return msgspec.structs.replace(check, status="warn") if check.status == "refuse" else check
        if prefix.kind == "shared":
            fleet = self._config.method.fleet is not None
            return answers.shared_check(self._records, self._before, self._after, prefix, block_tokens(self.info), fleet=fleet)
        return answers.isolation_check(self._records, self._before, self._after, self._labels, self.info.version)

    async def _behind(self) -> Check | None:
        """Whether the replicas that were named are those that answer. Counters may be a moment behind, so they are read twice."""
        fleet, ours = self._config.method.fleet is not None, len(self._records)
        if self._replicas is None or self._before is None or self._after is None:
            return None
        if (twice := one_twice((await self._replicas.look()).read)) is not None:  # which a new replica does not show before
            return check_of("replicas", "refuse", fact("replica_twice", *twice))
        check = checks.behind_check(self._before, self._after, ours, fleet=fleet)
        if check is None or check.status == "pass":
            return check
        await asyncio.sleep(AGAIN_S)
        again = await self._sample_again()
        return None if again is None else checks.behind_check(self._before, again, ours, fleet=fleet)

    async def _output_length(self) -> Check:
        fields = dict.fromkeys((self._shape.length_by, *([self._length_unread] if self._length_unread else [])))
        return answers.output_length_check(self.singles, tuple(fields), self._config.workload.stop)

    async def _stream(self) -> Check | None:
        return answers.stream_check(self.singles, self._config.limits, answers.decode_s(self._before, self._after))

    async def _slo(self) -> Check:
        if self._given_up is not None:
            return msgspec.structs.replace(answers.request_check(self._given_up), check="slo")
        if self._unjudged is None or len(self.singles) < JUDGED:
            return check_of("slo", "refuse", fact("singles_missing", sent=len(self.singles), wanted=JUDGED))
        if all(record.ending == "connection" for record in self.singles):  # a server that is gone misses no limit
            return answers.request_check(self.singles[-1])
        return answers.slo_check(self._unjudged, self.singles, self._config.limits)

    async def _alphabets(self) -> list[PromptAlphabet]:
        """What to make prompts of, best first; never empty. Beside a dataset only a short request that seeks a shape needs any."""
        if self._population is not None:
            return [_UNCOUNTED]
        if self._config.target.api == "completions":
            return await completion_alphabets(self._tokenizer)
        return [await chat_alphabet(self._tokenizer) or await self._calibrate()]

    async def _better(self, used: PromptAlphabet, record: RequestRecord) -> list[PromptAlphabet]:
        """What to make prompts of after a request that was answered: words where the server takes text alone, by what requests
        cost where it counts them otherwise than its `/tokenize` does; else nothing."""
        if self._shape.prompt != "text":
            return []
        if not used.words:
            return [await text_alphabet(self._tokenizer) or await self._calibrate()]
        if self._population is not None:
            return []
        miscounted = answers.prompt_length_check(record).status == "refuse"
        return [await self._calibrate()] if miscounted and used.words != LETTERS else []

    @property
    def _tokenizer(self) -> Tokenizer:
        return Tokenizer(self._caller, self._base, self.info.model or "")

    async def _calibrate(self) -> PromptAlphabet:
        """Without `/tokenize`: two short requests of different size show what a letter and what stands around them cost."""
        found = []
        for words in CALIBRATION_WORDS:
            record = await self._one(self._short(_UNCOUNTED, words))
            if record is None or record.ending != "ok":
                if record is not None and (record.ending == "aborted" or fallbacks.turned_down(record)):
                    self._given_up = record
                return _UNCOUNTED  # the request check says what is wrong
            found.append(record)
        return calibrated(*found) or _UNCOUNTED

    def _short(self, alphabet: PromptAlphabet, words: int = CALIBRATION_WORDS[0]) -> Hello:
        asked = self._config.workload
        made_up = Workload(
            input_tokens=Lengths(median=words),
            output_tokens=Lengths(median=_CALIBRATION_OUTPUT),
            temperature=asked.temperature,
            stop=asked.stop,
        )
        return msgspec.structs.replace(self._hello_with(alphabet, made_up), dataset=None)

    def _hello_with(self, alphabet: PromptAlphabet, workload: Workload) -> Hello:
        return Hello(
            target=self._config.target,
            model=self.info.model or "",
            workload=workload,
            alphabet=alphabet,
            nonce=self._nonce,
            access=self._access,
            first_within_s=first_within_s(self._config.limits),
            dataset=None if self._population is None else self._population.rows,
        )

    def _written(self, hello: Hello, shape: Shape | None = None) -> Hello:
        """The same as it is taken, as far as is known, or in this shape. Where text takes the place of token ids, a short one of
        letters: how long that gets is not known yet."""
        shape = shape or self._shape
        hello = self._short(_UNCOUNTED) if shape.prompt == "text" and not hello.alphabet.words else hello
        return msgspec.structs.replace(hello, shape=shape)

    async def _one(self, hello: Hello, *, last: bool = True) -> RequestRecord | None:
        """One request of phase "preflight", written otherwise as long as the server turns it down and there is a way, or when it
        leaves the field of its length unread; the first refusal where nothing helps, None when the generator sent nothing.

        `last`: there are no other token ids to try, which may be all that a refusal is about that does not say.
        """
        begun = self._shape
        first = record = await self._ask(self._written(hello))
        tried = [begun]
        while record is not None and (other := fallbacks.give_way(self._shape, record, tried)) is not None:
            if other.prompt != self._shape.prompt and not last:
                break
            self._shape = other
            tried.append(other)
            record = await self._ask(self._written(hello))
        if record is not None and fallbacks.refused(record) and last and not self._sought:
            self._sought = True
            self._shape = await self._fullest(hello, begun) or begun
            if self._shape != begun:
                record = await self._ask(self._written(hello))
        if record is None or not fallbacks.turned_down(record):
            return await self._heeded(hello, record)
        self._shape = begun
        return first

    async def _fullest(self, hello: Hello, refused: Shape) -> Shape | None:
        """Of a refusal that does not say what it is about, the fullest shape that is taken, found by short requests; None where
        there is none."""
        short = self._short(hello.alphabet)
        search = fallbacks.sought(refused, self._config.workload.stop)
        shape = next(search)
        while (record := await self._ask(self._written(short, shape))) is not None and record.ending != "aborted":
            try:
                shape = search.send(record.ending == "ok")
            except StopIteration as end:
                fullest: Shape | None = end.value
                return fullest
        self._given_up = record
        return None

    async def _heeded(self, hello: Hello, record: RequestRecord | None) -> RequestRecord | None:
        """The same answer, or one by the other field of the length where this one was left unread and that one is not."""
        other = fallbacks.other_length(self._shape)
        if record is None or other is None or other.length_by in self._lengths_asked or not answers.leaves_length_unread(record):
            return record
        again = await self._ask(self._written(hello, other))
        if again is None or again.ending != "ok" or answers.leaves_length_unread(again):
            self._length_unread = other.length_by
            return record
        self._shape = other
        return again

    async def _ask(self, hello: Hello) -> RequestRecord | None:
        self._lengths_asked.add(hello.shape.length_by)
        sent = await self._send(hello, 1, "preflight")
        self._records += [record for record in sent if record.ending == "ok"]
        if hello.shape.prompt == "text" and sent and self._text_refused is not False:
            self._text_refused = fallbacks.turned_down(sent[0])
        return sent[0] if sent else None

    async def _sample_again(self) -> ServerSample | None:
        try:
            if self._replicas is not None:
                return await self._replicas.once()
            if self.info.metrics_url is None:
                return None
            return (await read_exposition(self._caller, self.info.metrics_url)).sample(self.info.metrics_models)
        except (HttpError, ScrapeError):
            return None  # said by the check: not proven

    def _learn(self, **facts: object) -> None:
        self.info = msgspec.structs.replace(self.info, **facts)

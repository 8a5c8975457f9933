"""What preflight says about the server and this machine before anything is sent: facts in, one check out."""

import re
import resource
from collections.abc import Mapping, Sequence

import httpx
import msgspec

from core.access import Access
from core.config import Api, Target, Workload
from core.facts import Code, Fact, Figure, fact, in_turn
from core.net import is_loopback, proxy_for, unused_proxies
from core.records import Check, CheckStatus, ServerInfo, ServerSample
from core.server.exposition import Page, has_feature, kv_capacity_tokens
from core.server.models import ModelCard, NoModels
from core.server.replicas import ReplicasRead

MIN_OPEN_FILES = 1024
"""Each request in flight holds one connection; below this the client ends before most servers do."""

_NAMED, _NAME_CHARS = 50, 120
"""No more models than this are named, and no more of their names."""

_NAMED_REPLICAS = 5
"""Of the replicas that cannot be read, so many are named."""

_COUNTERS = (
    "prompt_tokens_total",
    "generation_tokens_total",
    "requests_success_total",
    "preemptions_total",
    "prefix_queries_total",
    "ttft_s",
    "queue_time_s",
    "prefill_time_s",
    "decode_time_s",
)
"""What moves when somebody is served: of histograms the number of values."""

_FINGERPRINT_SIZE = re.compile(r"\b(tp|pp|dp)([1-9][0-9]*)\b")


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """Parallel sizes of what stands behind one address; None: the server does not tell."""

    tp: int | None = None
    pp: int | None = None
    dp: int | None = None


def check_of(name: str, status: CheckStatus, *found: Fact) -> Check:
    """A Check from its parts: stable short name, how it stands, what was found."""
    return Check(check=name, status=status, message=in_turn(*found))


def connection_check(target: Target, access: Access, environ: Mapping[str, str]) -> Check | None:
    """What is unusual about the way to the server; None where nothing is. Addresses of proxies stand here without a password."""
    host, found = httpx.URL(target.url).host, []
    if target.insecure and target.url.lower().startswith("https:"):
        found.append(fact("certificate_unchecked"))
    unused = {} if access.proxy is not None or is_loopback(host) else unused_proxies(environ)
    if proxy_for(access, target.url):
        found.append(fact("through_proxy", proxy=access.public_proxy))
    elif access.proxy is not None:
        found.append(fact("proxy_not_used", proxy=access.public_proxy))
    if unused:
        named = (f"{name} ({address})" for name, address in unused.items())
        found.append(fact("proxies_not_obeyed", *named, variable=next(iter(unused))))
    if not found:
        return None
    return check_of("connection", "warn" if target.insecure or proxy_for(access, target.url) else "pass", *found)


def place_check(url: str, near: bool | None) -> Check | None:
    """Whether a server may be loaded without a word: one on this machine or in a private network. None: it may."""
    if near:
        return None
    return check_of("place", "refuse", fact("server_place_unknown" if near is None else "server_far", url=url))


def version_check(version: str | None, simulated: bool, api: Api) -> Check:
    """Which server this is, and what its version means for the isolation of prompts (vLLM `protocol.py` of each release)."""
    if version is None:
        return check_of("version", "warn", fact("version_unknown"))
    if simulated:
        return check_of("version", "pass", fact("simulated_replica", version=version))
    if has_feature("unknown_fields_rejected", version):
        return check_of("version", "warn", fact("fields_rejected", version=version))
    if has_feature("cache_salt_chat" if api == "chat" else "cache_salt_completions", version) is False:
        return check_of("version", "warn", fact("salt_ignored", version=version))
    return check_of("version", "pass", fact("version_known", version=version))


def no_models_check(none: NoModels, *, key_given: bool) -> Check:
    """Why there is no list to take a model from."""
    why = fact(key_code(key_given), none.found) if none.key_wanted else none.found
    return check_of("model", "refuse", why, fact("model_unnamed"))


def key_code(key_given: bool) -> Code:
    """What is wrong with the key where the server lets nobody in."""
    return "key_not_accepted" if key_given else "key_missing"


def taken_as_given(asked: str, why: Fact) -> Check:
    """A model that was named and is not known from the list: the list is no condition, and a request shows whether it is there."""
    return check_of("model", "warn", fact("model_taken_as_given", model=_short(asked)), why)


def not_listed(cards: Sequence[ModelCard], asked: str | None, path: str) -> Fact | None:
    """Why the list has no model to take; None where it has one."""
    names = [_short(card.id) for card in cards[:_NAMED]]
    if not cards:
        return fact("no_model_listed", path=path)
    if asked is None:
        return fact("model_not_chosen", *names, models=len(cards)) if len(cards) > 1 else None
    listed = any(card.id == asked for card in cards)
    return None if listed else fact("model_not_listed", *names, models=len(cards), asked=_short(asked))


def model_check(cards: Sequence[ModelCard], asked: str | None) -> tuple[Check, ModelCard]:
    """The model asked for, or the only one, of a list that has it. A LoRA adapter gets the length of its base."""
    chosen = next(card for card in cards if asked in (None, card.id))
    if chosen.max_model_len is None:
        base = next((card for card in cards if card.id == chosen.parent), None)
        known = base.max_model_len if base else max((card.max_model_len or 0 for card in cards), default=0) or None
        chosen = msgspec.structs.replace(chosen, max_model_len=known)
    found = fact("model_found", model=_short(chosen.id), context_tokens=chosen.max_model_len or None)
    return check_of("model", "pass", found), chosen


def _short(name: str) -> str:
    return name if len(name) <= _NAME_CHARS else name[: _NAME_CHARS - 1] + "…"


def context_check(max_model_len: int | None, workload: Workload, version: str | None) -> Check:
    """Whether the longest request fits; a longer one is an error up to vLLM 0.31 and silently shortened from 0.32."""
    prompt, answer = workload.longest
    asked: dict[str, Figure] = {"prompt_tokens": prompt, "output_tokens": answer, "context_tokens": max_model_len}
    if max_model_len is None:
        return check_of("context", "warn", fact("context_unknown", **asked))
    if prompt + answer <= max_model_len:
        return check_of("context", "pass", fact("context_fits", **asked))
    asked["shortened"] = has_feature("max_tokens_clamped", version) is True
    if workload.source is not None and workload.source.kind == "lengths":
        longer = sum(part.weight for part in workload.mix if part.input_tokens + part.output_tokens > max_model_len)
        asked["file"], asked["longer_frac"] = workload.source.file, longer / sum(part.weight for part in workload.mix)
    return check_of("context", "refuse", fact("context_too_short", **asked))


def fd_limit_check() -> Check:
    """Raise this process's soft limit of open files to the hard one; children started later inherit it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    raised = soft
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            raised = hard
        except (ValueError, OSError):  # some systems call the hard limit unlimited and still allow less
            raised = soft
    if raised == resource.RLIM_INFINITY:
        return check_of("fd limit", "pass", fact("files_unlimited"))
    before = soft if raised != soft else None
    if raised < MIN_OPEN_FILES:
        return check_of("fd limit", "warn", fact("files_few", files=raised, before=before))
    return check_of("fd limit", "pass", fact("files_enough", files=raised, before=before))


def metrics_check(found: Fact, page: Page, info: ServerInfo) -> Check:
    """Metrics that were found, and whose rows on the page are not counted, or may be others'."""
    others = [_short(name) for name in page.models if name not in info.metrics_models]
    named: dict[str, Figure] = {"models": len(others), "model": _short(info.model or "")}
    left_out = [fact("router_left_out", servers=page.servers)] if page.servers else []
    if not others or info.model is None:
        return check_of("metrics", "pass", found, *left_out)
    if info.metrics_models:
        return check_of("metrics", "pass", found, *left_out, fact("models_left_out", *others[:_NAMED], **named))
    return check_of("metrics", "warn", found, *left_out, fact("model_not_in_metrics", *others[:_NAMED], **named))


def capacity_check(labels: Mapping[str, str], engines: int, has_metrics: bool) -> tuple[Check, int | None]:
    """How many tokens the KV cache holds, from the labels of `vllm:cache_config_info`."""
    tokens = kv_capacity_tokens(labels, engines)
    if tokens is None:
        return check_of("kv capacity", "warn", fact("kv_capacity_unknown", has_metrics=has_metrics)), None
    blocks, size = _whole(labels.get("num_gpu_blocks")), _whole(labels.get("block_size"))
    found = fact("kv_capacity", tokens=tokens, engines=engines, blocks=blocks, block_tokens=size)
    return check_of("kv capacity", "pass", found), tokens


def replicas_check(seen: ReplicasRead, sample: ServerSample, servers: int | None) -> Check:
    """Which replicas behind a gateway show what they do. `servers`: how many a router in front tells of; None where none does."""
    n = len(seen.names)
    found = fact("replicas_read", read=len(seen.read), replicas=n, engines=sample.engines, took_s=sample.took_s)
    unread = [fact("replica_unread", name=each.name, said=each.why) for each in seen.unread[:_NAMED_REPLICAS]]
    if (more := len(seen.unread) - len(unread)) > 0:
        unread.append(fact("more_unread", replicas=more))
    differ = [] if servers is None or servers == n else [fact("router_tells_other", servers=servers, replicas=n)]
    doubts = (*unread, *differ, *seen.problems)
    return check_of("metrics", "warn" if doubts else "pass", found, *doubts)


def behind_check(before: ServerSample, after: ServerSample, ours: int, *, fleet: bool) -> Check | None:
    """Whether the replicas that were named answered `ours`, the requests that the gateway was sent from one reading to the other.
    None where that is not known. `fleet`: what is to be said counts on all that stand behind it being named."""
    was, now = (sorted(row.name for row in each.by_engine or ()) for each in (before, after))
    ended = (before.requests_success_total, after.requests_success_total)
    if was != now or after.unread or before.unread or ended[0] is None or ended[1] is None or not ours:
        return None
    rose = round(ended[1] - ended[0])
    if rose >= ours:
        return check_of("replicas", "pass", fact("replicas_behind", requests=ours, replicas=len(now)))
    status: CheckStatus = "refuse" if fleet or rose <= 0 else "warn"
    return check_of("replicas", status, fact("replicas_elsewhere", counted=max(0, rose), requests=ours, replicas=len(now)))


def fleet_capacity_check(tokens: int | None, labels: Mapping[str, str], engines: int, has_metrics: bool) -> Check:
    """The same of all replicas together; `labels` are those of one."""
    if tokens is None:
        return check_of("kv capacity", "warn", fact("kv_capacity_unknown", has_metrics=has_metrics))
    size = _whole(labels.get("block_size"))
    return check_of("kv capacity", "pass", fact("kv_capacity", tokens=tokens, engines=engines, blocks=None, block_tokens=size))


def _whole(label: str | None) -> int | None:
    return int(label) if label is not None and label.isascii() and label.isdecimal() else None


def layout_check(fingerprint: str | None, engines: int | None, version: str | None) -> tuple[Check, Layout]:
    """TP, PP and DP from `system_fingerprint` (vLLM 0.21 on, `entrypoints/serve/utils/fingerprint.py`) and engine labels.

    `engines` None means no metrics. Sizes of 1 leave no trace in the fingerprint, and neither do hidden ones; once one
    is visible, the others are 1. What counts as DP is what stands behind this one address.
    """
    sizes = {name: int(size) for name, size in _FINGERPRINT_SIZE.findall(_sizes_part(fingerprint))}
    default = 1 if sizes else None
    told = Layout(tp=sizes.get("tp", default), pp=sizes.get("pp", default), dp=sizes.get("dp", default))
    seen = told.dp if engines is None or (engines == 1 and told.dp is None) else engines
    layout = msgspec.structs.replace(told, dp=seen)
    shown: dict[str, Figure] = {"tp": layout.tp, "pp": layout.pp, "dp": layout.dp}
    if told.dp is not None and sizes and seen != told.dp:
        return check_of("layout", "warn", fact("layout_differs", **shown, told_dp=told.dp)), layout
    no_fingerprint = fingerprint is None and has_feature("system_fingerprint", version) is not True
    return check_of("layout", "pass", fact("layout_seen", **shown, no_fingerprint=no_fingerprint)), layout


def others_now(sample: ServerSample | None) -> float | None:
    """How many requests the server has; None where it does not tell."""
    if sample is None:
        return None
    seen = (sample.running or 0.0) + (sample.waiting or 0.0)
    return seen if seen or sample.running is not None else None


def at_rest(before: ServerSample | None, after: ServerSample | None) -> bool | None:
    """Whether nobody was served between two readings: every counter stands where it stood. None where there are none, or where
    the two are not of the same processes."""
    if before is None or after is None or before.epoch != after.epoch or _engine_names(before) != _engine_names(after):
        return None
    counted = [
        (was, now) for name in _COUNTERS if (was := _count(before, name)) is not None and (now := _count(after, name)) is not None
    ]
    if not counted or any(now < was for was, now in counted):
        return None
    return all(now == was for was, now in counted)


def others_between(first: ServerSample | None, again: ServerSample | None) -> float | None:
    """How many requests of others two looks show; None where others are served and their number is not told. What the first shows
    of a server at rest is left to the checks, which prove it."""
    still = at_rest(first, again)
    if still or again is None:
        return 0.0
    others = others_now(again)
    return 0.0 if others is None and still is None else others


def traffic_check(sample: ServerSample | None, with_others: bool, still: bool | None = None) -> Check:
    """What the server was doing for others before our first request, and whether that was agreed to. `still`: whether its
    counters stood meanwhile (`at_rest`); of a server that shows requests, what they did when one of ours had been answered."""
    others = others_now(sample)
    if sample is None or others is None:
        if still is False and not with_others:
            return check_of("traffic", "refuse", fact("server_working"))
        return check_of("traffic", "warn", fact("traffic_at_rest" if still else "traffic_unknown"))
    if others <= 0:
        return check_of("traffic", "pass", fact("no_traffic"))
    if with_others:
        return check_of("traffic", "warn", fact("server_shared", **_shown(sample)))
    return check_of("traffic", "refuse", fact("server_busy", **_shown(sample), **({"still": True} if still else {})))


def stale_check(shown: ServerSample, after: ServerSample | None) -> Check | None:
    """What a server at rest showed of requests, once one of ours was answered: nothing, if that made its gauges right. None while
    it still shows some."""
    if others_now(after) != 0:
        return None
    return check_of("traffic", "pass", fact("gauges_refreshed", **_shown(shown)))


def unproven_check(shown: ServerSample) -> Check:
    """A server at rest that shows requests, and did not answer the one that would have told."""
    return check_of("traffic", "warn", fact("gauges_unproven", **_shown(shown)))


def _shown(sample: ServerSample) -> dict[str, Figure]:
    return {"others": others_now(sample), "running": sample.running or 0.0, "waiting": sample.waiting or 0.0}


def _engine_names(sample: ServerSample) -> list[str]:
    return sorted(engine.name for engine in sample.by_engine or ())


def _count(sample: ServerSample, name: str) -> float | None:
    """A counter, or of a histogram how much it has taken in."""
    value: float | tuple[float, float] | None = getattr(sample, name)
    return value[1] if isinstance(value, tuple) else value


def _sizes_part(fingerprint: str | None) -> str:
    """`tp2-pp2` of `vllm-0.32.0-tp2-pp2-9666ce4b`; empty for other forms."""
    parts = (fingerprint or "").split("-")
    return "-".join(parts[2:-1]) if len(parts) > 3 and parts[0] == "vllm" else ""

"""What preflight says about the server and this machine before anything is sent: facts in, one check out."""

import re
import resource
from collections.abc import Mapping, Sequence

import httpx
import msgspec

from core.access import Access
from core.config import Api, Target, Workload
from core.net import is_loopback, proxy_for, unused_proxies
from core.records import Check, CheckStatus, ServerSample
from core.server.exposition import has_feature, kv_capacity_tokens

MIN_OPEN_FILES = 1024
"""Each request in flight holds one connection; below this the client ends before most servers do."""

_NAMED, _NAME_CHARS = 50, 120
"""A sentence lists no more models than this, and no more of their names."""

_FINGERPRINT_SIZE = re.compile(r"\b(tp|pp|dp)([1-9][0-9]*)\b")


class ModelCard(msgspec.Struct, frozen=True):
    """One entry of /v1/models; LoRA adapters have a `parent` and no length of their own."""

    id: str
    parent: str | None = None
    max_model_len: int | None = None


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """Parallel sizes of what stands behind one address; None: the server does not tell."""

    tp: int | None = None
    pp: int | None = None
    dp: int | None = None


def check_of(name: str, status: CheckStatus, message: str) -> Check:
    """A Check from its three parts: stable short name, how it stands, one sentence."""
    return Check(check=name, status=status, message=message)


def connection_check(target: Target, access: Access, environ: Mapping[str, str]) -> Check | None:
    """What is unusual about the way to the server; None where nothing is. Addresses of proxies stand here without a password."""
    host, says = httpx.URL(target.url).host, []
    if target.insecure and target.url.lower().startswith("https:"):
        says.append("Its certificate is not checked (--insecure): whoever answers gets the requests, and the key.")
    unused = {} if access.proxy is not None or is_loopback(host) else unused_proxies(environ)
    if proxy_for(access, target.url):
        says.append(f"Everything goes through the proxy {access.public_proxy}, whose delay is measured with the server's.")
    elif access.proxy is not None:
        says.append(f"The proxy {access.public_proxy} is not used: the server is on this machine.")
    if unused:
        named = " and ".join(f"{name} ({address})" for name, address in unused.items())
        says.append(f"Not used: {named}; --proxy env:{next(iter(unused))} goes through it.")
    if not says:
        return None
    return check_of("connection", "warn" if target.insecure or proxy_for(access, target.url) else "pass", " ".join(says))


def place_check(url: str, near: bool | None) -> Check | None:
    """Whether a server may be loaded without a word: one on this machine or in a private network. None: it may."""
    if near:
        return None
    where = "is not known from here" if near is None else "is neither on this machine nor in a private network"
    message = f"{url} {where}: load only what you may load. --yes says that you may; nothing but a look at it was sent."
    return check_of("place", "refuse", message)


def version_check(version: str | None, simulated: bool, api: Api) -> Check:
    """Which server this is, and what its version means for the isolation of prompts (vLLM `protocol.py` of each release)."""
    if version is None:
        return check_of(
            "version", "warn", "The server does not tell its version (GET /version); what it can do is taken as it shows."
        )
    if simulated:
        return check_of("version", "pass", f"A simulated replica, version {version}: no real model stands behind its numbers.")
    if has_feature("unknown_fields_rejected", version):
        return check_of("version", "warn", f"vLLM {version} rejects fields it does not know (before 0.6.5), cache_salt among them.")
    salted = has_feature("cache_salt_chat" if api == "chat" else "cache_salt_completions", version)
    if salted is False:
        return check_of("version", "warn", f"vLLM {version} ignores cache_salt here; only their first tokens keep prompts apart.")
    return check_of("version", "pass", f"Version {version}.")


def model_check(cards: Sequence[ModelCard], asked: str | None) -> tuple[Check, ModelCard | None]:
    """The model asked for, or the only one. A LoRA adapter gets the length of its base."""
    names = _names(cards)
    if not cards:
        return check_of("model", "refuse", "The server lists no model (GET /v1/models)."), None
    if asked is None and len(cards) > 1:
        return check_of("model", "refuse", f"The server has {len(cards)} models; choose one with --model: {names}."), None
    chosen = next((card for card in cards if asked in (None, card.id)), None)
    if chosen is None:
        return check_of("model", "refuse", f"The server has no model {asked}; it has: {names}."), None
    if chosen.max_model_len is None:
        base = next((card for card in cards if card.id == chosen.parent), None)
        known = base.max_model_len if base else max((card.max_model_len or 0 for card in cards), default=0) or None
        chosen = msgspec.structs.replace(chosen, max_model_len=known)
    length = f"{chosen.max_model_len} tokens" if chosen.max_model_len else "an unknown number of tokens"
    return check_of("model", "pass", f"{_short(chosen.id)}, context of {length}."), chosen


def _names(cards: Sequence[ModelCard]) -> str:
    more = f" and {len(cards) - _NAMED} more" if len(cards) > _NAMED else ""
    return ", ".join(_short(card.id) for card in cards[:_NAMED]) + more


def _short(name: str) -> str:
    return name if len(name) <= _NAME_CHARS else name[: _NAME_CHARS - 1] + "…"


def context_check(max_model_len: int | None, workload: Workload, version: str | None) -> Check:
    """Whether the longest request fits; a longer one is an error up to vLLM 0.31 and silently shortened from 0.32."""
    prompt, answer = workload.input_tokens.largest, workload.output_tokens.largest
    asked = f"{prompt} prompt + {answer} output tokens"
    if max_model_len is None:
        return check_of("context", "warn", f"The server does not tell its context length; {asked} may be too long.")
    if prompt + answer <= max_model_len:
        return check_of("context", "pass", f"The longest request, {asked}, fits into {max_model_len}.")
    then = "cut its answer short without a word" if has_feature("max_tokens_clamped", version) else "answer it with an error"
    message = f"The longest request, {asked}, does not fit into {max_model_len}: the server would {then}. Ask for fewer tokens."
    return check_of("context", "refuse", message)


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
        return check_of("fd limit", "pass", "The number of open files is not limited.")
    before = f", raised from {soft}" if raised != soft else ""
    if raised < MIN_OPEN_FILES:
        message = f"Only {raised} files may be open{before}; each request in flight needs one. Raise the hard limit (ulimit -Hn)."
        return check_of("fd limit", "warn", message)
    return check_of("fd limit", "pass", f"{raised} files may be open{before}.")


def capacity_check(labels: Mapping[str, str], engines: int, has_metrics: bool) -> tuple[Check, int | None]:
    """How many tokens the KV cache holds, from the labels of `vllm:cache_config_info`."""
    tokens = kv_capacity_tokens(labels, engines)
    if tokens is None:
        why = "its metrics do not say, or the model is not of plain full attention" if has_metrics else "there are no metrics"
        return check_of("kv capacity", "warn", f"The size of the KV cache is not known: {why}."), None
    over = f" over {engines} engines" if engines > 1 else ""
    blocks = (
        f", {labels['num_gpu_blocks']} blocks of {labels['block_size']}"
        if {"num_gpu_blocks", "block_size"} <= labels.keys()
        else ""
    )
    return check_of("kv capacity", "pass", f"The KV cache holds {tokens} tokens{over}{blocks}."), tokens


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
    shown = ", ".join(f"{name.upper()} {size or '1 or hidden'}" for name, size in msgspec.structs.asdict(layout).items())
    if told.dp is not None and sizes and seen != told.dp:
        message = (
            f"The fingerprint says DP {told.dp}, but {seen} engine(s) show behind this address, which is what counts here: {shown}."
        )
        return check_of("layout", "warn", message), layout
    if fingerprint is None and has_feature("system_fingerprint", version) is not True:
        shown += " (no system_fingerprint, which vLLM has from 0.21)"
    return check_of("layout", "pass", f"{shown}."), layout


def others_now(sample: ServerSample | None) -> float:
    """How many requests the server has before our first one, as far as it tells."""
    return 0.0 if sample is None else (sample.running or 0.0) + (sample.waiting or 0.0)


def traffic_check(sample: ServerSample | None, with_others: bool) -> Check:
    """What the server was doing for others before our first request, and whether that was agreed to."""
    if sample is None or sample.running is None:
        return check_of("traffic", "warn", "Whether others use the server is not known: it does not tell how many requests it has.")
    others = others_now(sample)
    if others > 0:
        parts = f"{sample.running:g} running, {sample.waiting or 0:g} waiting"
        now = f"The server serves others: {others:g} requests are there now ({parts})"
        if with_others:
            return check_of("traffic", "warn", f"{now}. The answer is what fits on top of them.")
        message = f"{now}. Load would slow theirs, and theirs would spoil the answer: wait until it is idle, or give --with-others."
        return check_of("traffic", "refuse", message)
    return check_of("traffic", "pass", "No requests of others: 0 running, 0 waiting.")


def _sizes_part(fingerprint: str | None) -> str:
    """`tp2-pp2` of `vllm-0.32.0-tp2-pp2-9666ce4b`; empty for other forms."""
    parts = (fingerprint or "").split("-")
    return "-".join(parts[2:-1]) if len(parts) > 3 and parts[0] == "vllm" else ""

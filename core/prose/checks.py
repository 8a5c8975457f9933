"""What a check before the load found."""

from collections.abc import Callable

from core.facts import Code
from core.net import status_words
from core.prose.figures import Figures, Sentence
from core.units import as_set, classes, count, duration, latency, length, limit, percent, plain

_BY_FIRST_TOKENS = "only their first tokens keep prompts apart"
_UNPROVEN = "Cold prompts cannot be proven"


def _times(f: Figures, name: str) -> str:
    return ", ".join(map(latency, f.numbers(name))) or "none"


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


# --- the way to the server ----------------------------------------------------------------------------------------


def _server_not_up(f: Figures) -> str:
    seen = f"{f.word('url')} is there, but GET {f.word('path')} {f.of[0]}"
    return f"{seen}; the server is not up, or the address is not that of its API"


def _health_unsure(f: Figures) -> str:
    url = f.word("url")
    there = "" if url is None else f"{url} is there, but "
    return f"{there}GET {f.word('path')} {f.of[0]}, so a streamed request decides whether it serves"


def _list(f: Figures) -> str:
    return f"GET {f.word('path') if 'path' in f else '/v1/models'}"


def _far(where: str) -> Sentence:
    may = "load only what you are allowed to. --yes says that you are; no load was sent"
    return lambda f: f"{f.word('url')} {where}: {may}"


def _metrics_missing(f: Figures) -> str:
    elsewhere = "" if f["address_given"] else "; --metrics-url names another place (with Ray Serve, the metrics port of a node)"
    hint = "; --metrics-url names an engine's own" if "servers" in f else elsewhere
    return f"Metrics are not available, the run goes on without: {'; '.join(f.of)}{hint}"


# --- what it says of itself ---------------------------------------------------------------------------------------


def _names(f: Figures) -> str:
    more = f.n("models") - len(f.of)
    return ", ".join(f.of) + (f" and {more} more" if more > 0 else "")


def _model_found(f: Figures) -> str:
    tokens = f.known("context_tokens")
    return f"{f.word('model')}, {'context length not known' if tokens is None else f'context of {length(tokens)}'}"


def _longest(f: Figures) -> str:
    return f"{count(f.n('prompt_tokens'))} prompt + {count(f.n('output_tokens'))} output tokens"


def _context_too_short(f: Figures) -> str:
    then = "cut its answer short silently" if f["shortened"] else "answer it with an error"
    longest = f"The longest request, {_longest(f)}, does not fit into {count(f.n('context_tokens'))}"
    advice = "Ask for fewer tokens"
    if "longer_frac" in f:
        advice = f"Take the longer rows out of {f.word('file')}: {percent(f['longer_frac'], 2)} of all"
    return f"{longest}: the server would {then}. {advice}"


def _files(f: Figures) -> str:
    before = f.known("before")
    return f"{count(f.n('files'), 'file')} may be open{'' if before is None else f', raised from {count(round(before))}'}"


def _kv_capacity(f: Figures) -> str:
    over = f" over {count(f.n('engines'), 'engine')}" if f.n("engines") > 1 else ""
    blocks, size = f.known("blocks"), f.known("block_tokens")
    made_of = "" if blocks is None or size is None else f", {count(round(blocks), 'block')} of {count(round(size))}"
    return f"The KV cache holds {length(f.n('tokens'))}{over}{made_of}"


def _kv_capacity_unknown(f: Figures) -> str:
    unsaid = "its metrics do not say, or the model does not use plain full attention"
    return f"The size of the KV cache is not known: {unsaid if f['has_metrics'] else 'there are no metrics'}"


def _replicas_read(f: Figures) -> str:
    read, n, engines = f.n("read"), f.n("replicas"), f.n("engines")
    which = f"all {count(n, 'replica')}" if read == n > 1 else f"{read} of {count(n, 'replica')}"
    over = f" ({count(engines, 'engine')})" if engines != read else ""
    return f"Metrics of {which}{over}, read in {latency(f['took_s'])}"


def _layout(f: Figures) -> str:
    sizes = ((name.upper(), f.known(name)) for name in ("tp", "pp", "dp"))
    return ", ".join(f"{name} {'1 or hidden' if size is None else count(round(size))}" for name, size in sizes)


def _layout_seen(f: Figures) -> str:
    return _layout(f) + (" (no system_fingerprint, which vLLM has from 0.21)" if f["no_fingerprint"] else "")


def _layout_differs(f: Figures) -> str:
    seen = f"{count(f.n('dp'), 'engine')} {'shows' if f.n('dp') == 1 else 'show'} behind this address, which is what counts here"
    return f"The fingerprint says DP {f.n('told_dp')}, but {seen}: {_layout(f)}"


def _requests(f: Figures, when: str = "") -> str:
    parts = f"{count(round(f['running']))} running, {count(round(f['waiting']))} waiting"
    return f"{count(round(f['others']), 'request')}{when} ({parts})"


def _served(f: Figures) -> str:
    return f"The server is serving others: it has {_requests(f, ' now')}"


_EITHER = "Load would slow them down, and they would spoil the answer: wait until it is idle, or give --with-others"


def _server_busy(f: Figures) -> str:
    stayed = "; its counters stand still, but a single request was answered and they are still shown" if "still" in f else ""
    return f"{_served(f)}{stayed}. {_EITHER}"


# --- how it answers a request -------------------------------------------------------------------------------------


def _streamed(f: Figures) -> str:
    return f"A streamed request of {count(f.n('prompt_tokens'))} + {count(f.n('output_tokens'))} tokens"


def _request_answered(f: Figures) -> str:
    latencies = ((name, f.known(f"{name.lower()}_s")) for name in ("TTFT", "TPOT", "E2E"))
    return f"{_streamed(f)} was answered: {', '.join(f'{name} {latency(took)}' for name, took in latencies if took is not None)}"


def _request_failed(f: Figures) -> str:
    chats_alone = "; does it serve only chats? Try --api chat" if "text_refused" in f and f.n("text_refused") else ""
    return f"{_streamed(f)} failed: {f.of[0]}{chats_alone}"


def _fields_left_out(f: Figures) -> str:
    if len(f.of) == 1:
        return f"It does not accept {f.of[0]}, so it is left out"
    return f"It accepts neither {' nor '.join(f.of)}, so they are left out"


def _given_up(f: Figures) -> str:
    so_far = "without an end" if f["first_token"] else "without a token"
    tokens = f.known("tokens_too_many")
    long = "" if tokens is None else f", {length(tokens)} long by then"
    return f"it was given up after {duration(f['after_s'])} {so_far}{long}"


def _broken_off(f: Figures) -> str:
    status, said = f.known("status"), f.word("said")
    return f"{f.word('ending')}{'' if status is None else f' with status {round(status)}'}{f', {said}' if said else ''}"


def _by_events(why: str) -> Sentence:
    return lambda f: f"{why}: tokens are counted one per event ({count(f.n('events'))} of {count(f.n('asked'))} asked), an estimate"


_UNSURE = "Usage in the stream counts single chunks, or stops midway"


def _length_counts(f: Figures) -> str:
    why = _UNSURE if f["usage_in_stream"] else "No usage in the stream"
    kept = "the server keeps to the length asked for, so answers that end at it count as that long"
    return f"{why} ({count(f.n('events'), 'event')} for {length(f.n('asked'))} asked): {kept}"


def _usage_seen(f: Figures) -> str:
    counted = f"{count(f.n('output_tokens'))} output tokens of {count(f.n('asked'))} asked"
    return f"Usage in the stream: {counted}, in {count(f.n('events'), 'event')}"


def _prompts(f: Figures) -> str:
    return f"The server counts {count(f.n('prompt_tokens'))} prompt tokens for {count(f.n('asked'))} asked"


def _looked_up(f: Figures) -> str:
    return f"{count(round(f['hits']))} of {count(round(f['looked_up']))} {f.word('unit')} looked up were hits"


def _not_cold(f: Figures) -> str:
    return f"Prompts are not cold: {_looked_up(f)} ({percent(f['hit_frac'], 2)}); every latency would look too good"


def _not_cold_by_usage(f: Figures) -> str:
    cached = f"{count(f.n('cached_tokens'))} of {count(f.n('prompt_tokens'))} prompt tokens"
    return f"Prompts are not cold: {cached} came from the prefix cache"


def _cold_by_usage(f: Figures) -> str:
    told = f"usage says {count(f.n('cached_tokens'))} of {count(f.n('prompt_tokens'))} tokens cached"
    return f"Our {f.n('prompts')} prompts were cold: {told}"


def _came(f: Figures) -> str:
    by_events = "" if f["by_usage"] else ", counted one per event"
    asked = f"the {count(f.n('asked_tokens'))} output tokens asked of {count(f.n('requests'), 'request')}"
    return f"{percent(f['came_frac'])} of {asked} came{by_events}"


def _answers_short(f: Figures) -> str:
    reasons = ", ".join(sorted(f.counts("finish_reasons")))
    return f"Answers end early: {_came(f)} (finish reason: {reasons}); does the server ignore ignore_eos?"


def _answers_natural(f: Figures) -> str:
    """How long answers got that may stop by themselves, and how they ended."""
    mean, requests = f.known("mean_tokens"), f.n("requests")
    most = f"where at most {length(f.n('most_tokens'))} were asked for"
    ended = classes(f.counts("finish_reasons"))
    if mean is None:
        return f"How long answers get is not known: the server does not count their tokens ({most}; finish reasons: {ended})"
    got = f"{count(requests, 'answer')} had {as_set(mean, 4)} tokens on average {most}"
    return f"Answers stop by themselves: {got} (finish reasons: {ended})"


def _held_back(f: Figures) -> str:
    n = f.n("answers")
    whole = f"{n} of {n} answers arrived all at once, after {_times(f, 'e2e_s')}"
    what = f"Something on the way buffers the stream, or the server itself does: {whole}"
    if f["e2e_alone"]:
        return f"{what}. E2E can be judged, TTFT and TPOT cannot be seen"
    instead = "Turn the buffering off, go straight to the server, or judge by E2E alone (--e2e without the other limits)"
    return f"{what}, so that neither TTFT nor TPOT can be seen. {instead}"


# --- what single requests, lengths and hardware say of the limits ---------------------------------------------------


def _measured(f: Figures) -> str:
    return "; ".join(f"{name} {_times(f, f'{name.lower()}_s')}" for name in ("TTFT", "TPOT", "E2E"))


def _slow_first(f: Figures) -> str:
    took_s = f.known("slow_first_s")
    return "" if took_s is None else f"; the first request took {latency(took_s)} and is not judged"


def _missed(which: Callable[[Figures], str]) -> Sentence:
    def said(f: Figures) -> str:
        limits = ((name, f.known(f"{name.lower()}_limit_s")) for name in ("TTFT", "TPOT", "E2E"))
        over = [f"{name} over {limit(limit_s)}" for name, limit_s in limits if limit_s is not None]
        return f"{which(f)} miss: {' and '.join((*over, *f.of))} ({_measured(f)}){_slow_first(f)}"

    return said


def _lengths(then: Callable[[Figures], str]) -> Sentence:
    def said(f: Figures) -> str:
        missed, allowed, target = f["missed_frac"], f["allowed_frac"], f["target"]
        share = plain(round(missed, 2 if missed >= 0.1 else 3))
        miss = f"On the idle server about {share} of requests miss a limit because of their lengths alone"
        return f"{miss}, and the target of {plain(target)} allows {plain(round(allowed, 6))}: {then(f)}"

    return said


SENTENCES: dict[Code, Sentence] = {
    "server_answers": lambda f: f"{f.word('url')} answers (GET {f.word('path')}: {f.n('status')})",
    "server_unreachable": lambda f: f"{f.word('url')} {f.of[0]}",
    "server_not_up": _server_not_up,
    "route_slow": lambda f: f"does not answer within {limit(f['within_s'])}",
    "health_unsure": _health_unsure,
    "is_it_the_api": lambda f: f"Is {f.word('url')} the address of the API?",
    "call_failed": lambda f: f"{f.word('said')}",
    "call_refused": lambda f: status_words(f.n("status"), f.word("said")),
    "certificate_unchecked": lambda f: (
        "Its certificate is not checked (--insecure): whoever answers gets the requests, and the key"
    ),
    "through_proxy": lambda f: f"Everything goes through the proxy {f.word('proxy')}, and its delay is measured as the server's",
    "proxy_not_used": lambda f: f"The proxy {f.word('proxy')} is not used: the server is on this machine",
    "proxies_not_obeyed": lambda f: f"Not used: {' and '.join(f.of)}; --proxy env:{f.word('variable')} uses it",
    "server_far": _far("is neither on this machine nor in a private network"),
    "server_place_unknown": _far("cannot be resolved from here"),
    "version_unknown": lambda f: "The server does not tell its version (GET /version); what it can do is found out by trying",
    "version_known": lambda f: f"Version {f.word('version')}",
    "simulated_replica": lambda f: f"A simulated replica, version {f.word('version')}: no real model stands behind its numbers",
    "fields_rejected": lambda f: f"vLLM {f.word('version')} rejects fields it does not know (before 0.6.5), cache_salt among them",
    "salt_ignored": lambda f: f"vLLM {f.word('version')} ignores cache_salt here; {_BY_FIRST_TOKENS}",
    "models_unread": lambda f: f"The list of models ({_list(f)}) {f.of[0]}",
    "no_model_list": lambda f: f"{_list(f)} does not return a list of models; is this the address of the API?",
    "key_missing": lambda f: f"{f.of[0]}; give --api-key-file or KNEESCOPE_API_KEY",
    "key_not_accepted": lambda f: f"{f.of[0]}; the server does not accept the API key",
    "no_model_listed": lambda f: f"The server lists no model ({_list(f)})",
    "model_not_chosen": lambda f: f"The server has {f.n('models')} models; choose one with --model: {_names(f)}",
    "model_not_listed": lambda f: f"The server lists no model {f.word('asked')}; it lists: {_names(f)}",
    "model_unnamed": lambda f: "Name the model with --model to go on without the list",
    "model_taken_as_given": lambda f: f"Model {f.word('model')} is taken as given, and its context is not known",
    "model_found": _model_found,
    "context_unknown": lambda f: f"The server does not tell its context length; {_longest(f)} may be too long",
    "context_fits": lambda f: f"The longest request, {_longest(f)}, fits into {count(f.n('context_tokens'))}",
    "context_too_short": _context_too_short,
    "files_unlimited": lambda f: "The number of open files is not limited",
    "files_few": lambda f: f"Only {_files(f)}; each request in flight needs one. Raise the hard limit (ulimit -Hn)",
    "files_enough": _files,
    "metrics_found": lambda f: f"Metrics at {f.word('url')}, {count(f.n('engines'), 'engine')}, read in {latency(f['took_s'])}",
    "replicas_read": _replicas_read,
    "replica_unread": lambda f: f"{f.word('name')} {f.word('said')}",
    "more_unread": lambda f: f"{count(f.n('replicas'), 'more replica')} cannot be read",
    "replica_twice": lambda f: (
        f"{f.of[0]} and {f.of[1]} are one replica under two names: same start, same counters. Name each replica once"
    ),
    "replicas_behind": lambda f: (
        f"The {count(f.n('requests'), 'request')} that the gateway answered came from the {count(f.n('replicas'), 'replica')} named"
    ),
    "replicas_elsewhere": lambda f: (
        f"Of {count(f.n('requests'), 'request')} that the gateway answered, the {count(f.n('replicas'), 'replica')} named finished "
        f"{f.n('counted')}: others stand behind it, too. Name all that do, and no others"
    ),
    "router_tells_other": lambda f: (
        f"The router in front tells of {count(f.n('servers'), 'server')}, not of {f.n('replicas')}; what the others do is not seen"
    ),
    "replicas_unreadable": lambda f: (
        f"{f.word('said')}. Give the replicas' own addresses, and --replica-key-file or --replica-header if they ask for a key"
    ),
    "metrics_missing": _metrics_missing,
    "metrics_unreachable": lambda f: f"{f.word('url')} {f.of[0]}",
    "metrics_unreadable": lambda f: f"{f.word('url')}: {f.word('said')}",
    "metrics_of_router": lambda f: (
        f"{f.word('url')} shows a router's figures over {count(f.n('servers'), 'server')}, none of an engine"
    ),
    "router_left_out": lambda f: f"A router's own figures over {count(f.n('servers'), 'server')} are left out",
    "models_left_out": lambda f: f"Only the rows of {f.word('model')} count, not those of {_names(f)}",
    "model_not_in_metrics": lambda f: f"They name no model {f.word('model')}, only {_names(f)}: all of their rows count as ours",
    "kv_capacity": _kv_capacity,
    "kv_capacity_unknown": _kv_capacity_unknown,
    "layout_seen": _layout_seen,
    "layout_differs": _layout_differs,
    "servers_behind": lambda f: f"A router spreads requests over {count(f.n('servers'), 'server')} behind this address",
    "traffic_unknown": lambda f: "Whether others use the server is not known: it does not report how many requests it has",
    "no_traffic": lambda f: "No requests from others: 0 running, 0 waiting",
    "server_busy": _server_busy,
    "traffic_at_rest": lambda f: (
        "Its counters stand still, so the server is serving nobody now; it does not report how many requests it has"
    ),
    "server_working": lambda f: (
        f"The server is serving others: its counters rise, and it does not report how many requests it has. {_EITHER}"
    ),
    "gauges_refreshed": lambda f: (
        f"No requests from others: the metrics still showed {_requests(f)} of an earlier load, until a single request was answered"
    ),
    "gauges_unproven": lambda f: (
        f"Whether others use the server is not known: it shows {_requests(f)}, but its counters stand still, "
        "and a single request was not answered"
    ),
    "server_shared": lambda f: f"{_served(f)}. The answer is what fits on top of them",
    "no_request_sent": lambda f: "No request was sent",
    "request_answered": _request_answered,
    "request_failed": _request_failed,
    "request_given_up": _given_up,
    "request_broken_off": _broken_off,
    "takes_no_salt": lambda f: f"It does not accept cache_salt, so {_BY_FIRST_TOKENS}",
    "takes_max_tokens": lambda f: "It does not accept max_completion_tokens, so max_tokens is sent instead",
    "takes_text": lambda f: "It does not accept prompts of token ids, so text is sent instead",
    "takes_usage_at_end": lambda f: "It does not accept continuous_usage_stats, so usage is requested at the end of each answer",
    "takes_no_usage": lambda f: "It does not accept stream_options, so no usage is requested",
    "fields_left_out": _fields_left_out,
    "usage_seen": _usage_seen,
    "ended_without_reason": lambda f: f"It ended normally but without a finish_reason; all {length(f.n('output_tokens'))} had come",
    "counted_by_ids": lambda f: (
        f"No usage in the stream: tokens are counted by their ids ({count(f.n('output_tokens'))} of {count(f.n('asked'))} asked)"
    ),
    "length_counts": _length_counts,
    "usage_missing": _by_events("No usage in the stream"),
    "usage_implausible": _by_events(_UNSURE),
    "prompt_length_unknown": lambda f: f"The server does not say how long the prompt was ({length(f.n('asked'))} asked)",
    "prompt_as_asked": _prompts,
    "prompt_miscounted": lambda f: (
        f"{_prompts(f)}: {percent(abs(f['off_frac']))} too {'many' if f['off_frac'] > 0 else 'few'}, "
        f"{plain(f['allowed_frac'])} is allowed"
    ),
    "no_prefix_cache": lambda f: "The server caches no prefixes, so every prompt is cold",
    "prompts_cold": lambda f: f"Our {f.n('prompts')} prompts were cold: {_looked_up(f)}",
    "prompts_cold_by_usage": _cold_by_usage,
    "prompts_not_cold": _not_cold,
    "prompts_not_cold_by_usage": _not_cold_by_usage,
    "cold_unproven_still": lambda f: f"{_UNPROVEN}: the prefix cache counters did not move",
    "cold_unproven_others": lambda f: (
        f"{_UNPROVEN}: {_looked_up(f)}, but only {count(f.n('ours_tokens'))} were ours, so others took part"
    ),
    "cold_unproven_uncounted": lambda f: f"{_UNPROVEN}: the server shows no prefix cache counters",
    "answers_unmeasured": lambda f: "No single request was answered, so its length is not known",
    "answers_end_by_length": lambda f: (
        f"{count(f.n('requests'), 'request')} ended at the length asked for, which the server keeps to; "
        "it does not count their tokens"
    ),
    "answers_uncounted": lambda f: (
        f"How long answers get is not known: {count(f.n('requests'), 'request')} for {length(f.n('asked_tokens'))} came in "
        f"{percent(f['came_frac'], 2)} as many events, and the server does not say how many tokens an event holds. "
        "TPOT would look too slow"
    ),
    "answers_as_asked": lambda f: f"Answers are as long as asked: {_came(f)}",
    "answers_short": _answers_short,
    "answers_long": lambda f: f"Answers are longer than asked: {_came(f)}; does the server ignore {' and '.join(f.of)}?",
    "stream_held_back": _held_back,
    "singles_missing": lambda f: f"Only {f.n('sent')} of {f.n('wanted')} single requests were sent",
    "singles_spoilt": lambda f: f"The limits cannot be judged from {f.n('judged')} single requests: {f.of[0]}",
    "singles_meet": lambda f: f"{f.n('judged')} single requests meet their limits: {_measured(f)}{_slow_first(f)}",
    "some_singles_miss": _missed(lambda f: f"{f.n('missed')} of {f.n('judged')} single requests"),
    "all_singles_miss": _missed(lambda f: f"Infeasible at any rate: all {f.n('judged')} single requests"),
    "all_singles_fail": lambda f: f"None of {f.n('judged')} single requests succeeded: {f.of[0]}",
    "lengths_near": _lengths(lambda f: "load can add little before it fails, and where that is shows only in long windows"),
    "lengths_miss": _lengths(
        lambda f: (
            "no rate can pass; ask for shorter requests, a longer limit or a lower target" if f["searches"] else "no rate can pass"
        )
    ),
    "tpot_floor": lambda f: _capital(f.of[0]),
    "limit_under_floor": lambda f: _capital(f.of[0]),
    "floor_contradicted": lambda f: _capital(f.of[0]),
    "bandwidth_reached": lambda f: f"A single stream shows that {percent(f['eta_reached_frac'], 2)} of the bandwidth is reached",
    "limit_helps": lambda f: f"What would help, each by itself: {'; '.join(f.of)}",
    "answers_natural": _answers_natural,
}

"""What preflight says about the requests it sent itself: records in, one check out.

Latencies start at the scheduled time, as everywhere; TPOT leaves out the tokens of the first event.
"""

from collections.abc import Mapping, Sequence

from core.config import Slo
from core.records import Check, RequestRecord, ServerSample
from core.server.checks import check_of
from core.server.exposition import has_feature
from core.server.http import seconds
from core.slo import tpot_s

PROMPT_TOLERANCE = 0.02
"""A repeat with prompts further off is void, so a run that would begin so is refused."""

MIN_OUTPUT_FRAC, MAX_OUTPUT_FRAC = 0.95, 1.05
"""What a repeat may have too, on average: an end token that is counted (129 for 128) changes nothing, a field that the server
leaves unread does."""

_TELLING_EVENTS = 8
"""An answer of fewer tokens may have as many events by chance."""

MAX_HIT_FRAC = 0.01
SINGLES = 4
"""One that is not judged, because a first request pays for what the server sets up late, and three that are."""

BUFFERED_S, _AT_ONCE_FRAC, _BUFFERED_TOKENS = 0.100, 0.1, 4
"""An answer that took longer than 100 ms, and of which all came in the last tenth of that, with a gap of a millisecond at most a
tenth of the times (a long one takes a network several round trips), was held back and let go: no model decodes so. Fewer than four
tokens may share a read by chance, and what that hides is short."""

_SLOW_FIRST = 2.0
"""The unjudged request is spoken of when it took this many times as long as the slowest judged one."""

_ALONE = 1.05
"""The server may count this much more prompt than we sent before somebody else must have sent some."""


def request_check(record: RequestRecord) -> Check:
    """Whether a request as the load sends it is answered to its orderly end."""
    size = f"{record.asked_input} + {record.asked_output} tokens"
    if record.ending != "ok":
        return check_of("request", "refuse", f"A streamed request of {size} failed: {_failure(record)}.")
    took = ", ".join(f"{name} {seconds(value)}" for name, value in _latencies(record).items() if value is not None)
    if record.finish_reason is None:
        whole = f"It ended in order but without a finish_reason; all {record.output_tokens} tokens had come"
        return check_of("request", "warn", f"A streamed request of {size} was answered: {took}. {whole}.")
    return check_of("request", "pass", f"A streamed request of {size} was answered: {took}.")


def refuses_field(record: RequestRecord, field: str) -> bool:
    """Whether the server refused a field that it does not know (vLLM up to 0.6.4, and gateways that check requests)."""
    return record.ending == "http" and record.status in (400, 422) and field in (record.error or "")


def leaves_length_unread(record: RequestRecord) -> bool:
    """Whether the answer has a length that somebody else chose: it is longer than asked, or ended at a limit that is shorter."""
    if too_long(record):
        return True
    short = record.output_tokens < MIN_OUTPUT_FRAC * record.asked_output
    return record.ending == "ok" and short and record.finish_reason == "length"


def too_long(record: RequestRecord) -> bool:
    """Whether the answer, finished or not, has more tokens than may be by the way that a server counts: one more may be its end."""
    return record.output_tokens > max(MAX_OUTPUT_FRAC * record.asked_output, record.asked_output + 1)


def unsalted(check: Check) -> Check:
    """The same check for a server that takes no salt: prompts are kept apart by their first tokens alone."""
    if check.status == "refuse":
        return check
    message = f"{check.message} It takes no cache_salt, so that only their first tokens keep prompts apart."
    return check_of(check.check, "warn", message)


def by_max_tokens(check: Check) -> Check:
    """The same check for a server that must be asked by the older field for the length of a chat's answer."""
    if check.status == "refuse":
        return check
    message = f"{check.message} It does not take max_completion_tokens, so the length is asked for by max_tokens."
    return check_of(check.check, check.status, message)


def gave_as_asked(record: RequestRecord) -> bool:
    """Whether an answer that ended by its length has the tokens asked for. So many events, too, are no accident."""
    asked, got = record.asked_output, record.output_tokens
    enough = record.usage or asked >= _TELLING_EVENTS
    return record.finish_reason == "length" and enough and MIN_OUTPUT_FRAC * asked <= got <= MAX_OUTPUT_FRAC * asked


def generated_as_asked(records: Sequence[RequestRecord], before: ServerSample | None, after: ServerSample | None) -> bool:
    """Whether the server itself counts as many tokens as these answers were asked for, which all ended by their length."""
    asked = sum(record.asked_output for record in records)
    by_length = all(record.finish_reason == "length" for record in records)
    return by_length and asked > 0 and _delta(before, after, "generation_tokens_total") == asked


def usage_check(record: RequestRecord, *, keeps_length: bool = False) -> Check:
    """Whether the stream says how many tokens each event brings; without that they are counted by the length asked for where
    the server is known to keep it, else one per event."""
    events = record.gaps.n + 1 if record.output_tokens else 0
    if record.counted_by == "token_ids":
        message = (
            f"No usage in the stream: tokens are counted by their ids ({record.output_tokens} of {record.asked_output} asked)."
        )
        return check_of("usage", "pass" if record.output_tokens == record.asked_output else "warn", message)
    if not record.usage:
        unsure = "The usage in the stream counts no more than a chunk, or stops on the way"
        why = "No usage in the stream" if record.prompt_tokens is None else unsure
        message = f"{why}: tokens are counted one per event ({events} of {record.asked_output} asked), an estimate."
        if keeps_length:
            message = (
                f"{why} ({events} events for {record.asked_output} tokens asked): the server keeps the length asked for, "
                "so answers that end by it count as that long."
            )
        return check_of("usage", "warn", message)
    counts = f"{record.output_tokens} output tokens of {record.asked_output} asked, in {events} events"
    return check_of("usage", "pass" if record.output_tokens == record.asked_output else "warn", f"Usage in the stream: {counts}.")


def prompt_length_check(record: RequestRecord) -> Check:
    """Whether the server counts the prompt that was asked for."""
    if record.prompt_tokens is None:
        return check_of("prompt length", "warn", f"The server does not say how long the prompt was ({record.asked_input} asked).")
    off = record.prompt_tokens / record.asked_input - 1
    counted = f"{record.prompt_tokens} prompt tokens for {record.asked_input} asked"
    if abs(off) > PROMPT_TOLERANCE:
        message = f"The server counts {counted} ({off:+.1%}; {PROMPT_TOLERANCE:.0%} is allowed)."
        return check_of("prompt length", "refuse", message)
    return check_of("prompt length", "pass", f"The server counts {counted}.")


def isolation_check(
    records: Sequence[RequestRecord],
    before: ServerSample | None,
    after: ServerSample | None,
    labels: Mapping[str, str],
    version: str | None,
) -> Check:
    """Whether our prompts found nothing in the prefix cache, by the counters before and after them.

    The counters are everybody's: when more was asked of the cache than we sent, hits may be others'.
    """
    ours = sum(record.prompt_tokens or record.asked_input for record in records)
    if labels.get("enable_prefix_caching") == "False":
        return check_of("isolation", "pass", "The server caches no prefixes, so every prompt is cold.")
    queries, hits = _delta(before, after, "prefix_queries_total"), _delta(before, after, "prefix_hits_total")
    if queries is None or hits is None:
        return _isolation_by_usage(records, ours)
    if queries == 0:
        return check_of("isolation", "warn", "Cold prompts cannot be proven: the prefix cache counters did not move.")
    in_blocks = has_feature("prefix_counters_in_tokens", version) is False
    share = hits / (queries if in_blocks else ours)
    counted = f"{hits:g} of {queries:g} {'blocks' if in_blocks else 'tokens'} looked up were hits"
    if share < MAX_HIT_FRAC:
        return check_of("isolation", "pass" if hits == 0 else "warn", f"Our {len(records)} prompts were cold: {counted}.")
    if not in_blocks and queries > ours * _ALONE:
        message = f"Cold prompts cannot be proven: {counted}, but only {ours} were ours, so others took part."
        return check_of("isolation", "warn", message)
    return check_of("isolation", "refuse", f"Prompts are not cold: {counted} ({share:.0%}); every latency would look too good.")


def output_length_check(records: Sequence[RequestRecord], fields: Sequence[str] = ("max_tokens",)) -> Check:
    """Whether answers get as long as asked: those that end early make a server look faster than it is, longer ones slower.

    `fields`: by which the length was asked for, one after the other.
    """
    ended = [record for record in records if record.ending == "ok"]
    asked = sum(record.asked_output for record in ended)
    if not asked:
        return check_of("output length", "warn", "No single request was answered, so its length is not known.")
    frac = sum(record.output_tokens for record in ended) / asked
    if all(record.counted_by == "length" for record in ended):
        message = f"{len(ended)} requests ended by the length asked for, which the server keeps; it does not count their tokens."
        return check_of("output length", "pass", message)
    by_events = ", counted one per event," if any(_by_events(record) for record in ended) else ""
    counted = f"{frac:.0%} of the {asked} output tokens asked of {len(ended)} requests{by_events}"
    if frac < MIN_OUTPUT_FRAC and all(_by_events(record) and record.finish_reason == "length" for record in ended):
        message = (
            f"How long answers get is not known: {len(ended)} requests for {asked} tokens were answered in {frac:.0%} as many "
            "events, and the server does not say how many tokens an event holds. TPOT would look too slow."
        )
        return check_of("output length", "refuse", message)
    if frac < MIN_OUTPUT_FRAC:
        reasons = ", ".join(sorted({record.finish_reason or "none" for record in ended}))
        message = f"Answers end early: {counted} came (finish reason: {reasons}); does the server ignore ignore_eos?"
        return check_of("output length", "refuse", message)
    if frac > MAX_OUTPUT_FRAC and any(too_long(record) for record in ended):
        message = f"Answers are longer than asked: {counted} came; does the server ignore {' and '.join(fields)}?"
        return check_of("output length", "refuse", message)
    return check_of("output length", "pass", f"Answers are as long as asked: {counted} came.")


def _by_events(record: RequestRecord) -> bool:
    return not record.usage and record.counted_by in (None, "events")


def decode_s(before: ServerSample | None, after: ServerSample | None) -> float | None:
    """For how long the server decoded an answer between two readings, on average in seconds; None where it does not tell."""
    first, last = (None if sample is None else sample.decode_time_s for sample in (before, after))
    if first is None or last is None or last[1] <= first[1]:
        return None
    return (last[0] - first[0]) / (last[1] - first[1])


def stream_check(records: Sequence[RequestRecord], slo: Slo, server_decode_s: float | None) -> Check | None:
    """Whether answers come as they are made; None where they do, or where it cannot be told.

    `server_decode_s`: for how long the server itself says that it decoded, on average. One that did so within BUFFERED_S has
    held nothing back.
    """
    ended = [record for record in records if record.ending == "ok"]
    fast = server_decode_s is not None and server_decode_s <= BUFFERED_S
    if not ended or fast or not all(_came_at_once(record) for record in ended):
        return None
    took = ", ".join(seconds(record.t_last - record.t_sched) for record in ended if record.t_last is not None)
    what = (
        "Something on the way buffers the stream, or the server does: "
        f"{len(ended)} of {len(ended)} answers came whole and at once, after {took}"
    )
    if slo.ttft_s is None and slo.tpot_s is None:
        return check_of("stream", "warn", f"{what}. E2E can be judged, TTFT and TPOT cannot be seen.")
    message = (
        f"{what}, so that neither TTFT nor TPOT can be seen. "
        "Switch the buffering off, go past it to the server, or judge by E2E alone (--e2e without the other limits)."
    )
    return check_of("stream", "refuse", message)


def _came_at_once(record: RequestRecord) -> bool:
    if record.t_first is None or record.t_last is None or record.output_tokens < _BUFFERED_TOKENS:
        return False
    took_s, seen_s = record.t_last - record.t_sched, record.t_last - record.t_first
    apart = record.gaps.n - record.gaps.under_1ms
    return took_s > BUFFERED_S and seen_s <= _AT_ONCE_FRAC * took_s and apart <= _AT_ONCE_FRAC * record.gaps.n


def slo_check(first: RequestRecord, judged: Sequence[RequestRecord], slo: Slo) -> Check:
    """Whether a request that has the server for itself meets its limits; when no judged one does, no rate can be found.

    `first` came before them and is not judged. A failed request misses.
    """
    limits = {"TTFT": slo.ttft_s, "TPOT": slo.tpot_s, "E2E": slo.e2e_s}
    misses = [_over(record, limits) for record in judged]
    missed = [record for record, names in zip(judged, misses, strict=True) if names or record.ending != "ok"]
    failed = next((record for record in judged if record.ending != "ok"), None)
    measured = "; ".join(_measured(name, judged) for name in ("TTFT", "TPOT", "E2E"))
    warm = _first_was_slow(first, judged)
    if not missed:
        return check_of("slo", "pass", f"{len(judged)} single requests meet their limits: {measured}{warm}.")
    if failed is not None and all(record.ending != "ok" for record in judged):
        text = f"The server answers none of {len(judged)} single requests well: {_failure(failed)}."
        return check_of("slo", "refuse", text)
    named = [f"{name} over {seconds(limit)}" for name, limit in limits.items() if limit and any(name in names for names in misses)]
    over = named + ([_failure(failed)] if failed else [])
    why = f"{' and '.join(over)} ({measured}){warm}"
    if len(missed) < len(judged):
        return check_of("slo", "warn", f"{len(missed)} of {len(judged)} single requests miss: {why}.")
    return check_of("slo", "refuse", f"Infeasible at any rate: all {len(judged)} single requests miss: {why}.")


def _over(record: RequestRecord, limits: Mapping[str, float | None]) -> list[str]:
    """The limits that a finished answer went over; a TPOT that is not defined goes over none."""
    values = _latencies(record) if record.ending == "ok" else {}
    return [name for name, value in values.items() if value is not None and (limit := limits[name]) is not None and value > limit]


def _latencies(record: RequestRecord) -> dict[str, float | None]:
    first, last = record.t_first, record.t_last
    return {
        "TTFT": None if first is None else first - record.t_sched,
        "TPOT": tpot_s(record),
        "E2E": None if last is None else last - record.t_sched,
    }


def _measured(name: str, records: Sequence[RequestRecord]) -> str:
    values = [_latencies(record)[name] for record in records]
    return f"{name} " + ", ".join("none" if value is None else seconds(value) for value in values)


def _first_was_slow(first: RequestRecord, judged: Sequence[RequestRecord]) -> str:
    slowest = max((value for record in judged if (value := _latencies(record)["E2E"]) is not None), default=None)
    took = _latencies(first)["E2E"]
    if slowest is None or took is None or took <= _SLOW_FIRST * slowest:
        return ""
    return f"; the first request took {seconds(took)} and is not judged"


def _failure(record: RequestRecord) -> str:
    if record.ending == "aborted":
        so_far = "without a token" if record.t_first is None else "without an end"
        if too_long(record):
            so_far += f", {record.output_tokens} tokens long by then"
        return f"it was given up after {seconds(record.t_end - record.t_sched)} {so_far}"
    status = f" with status {record.status}" if record.status is not None and record.status != 200 else ""
    return f"{record.ending}{status}" + (f", {record.error.rstrip('.')}" if record.error else "")


def _delta(before: ServerSample | None, after: ServerSample | None, field: str) -> float | None:
    """Growth of a counter; None when it was not readable both times or fell (a restart)."""
    first, last = getattr(before, field, None), getattr(after, field, None)
    if first is None or last is None or last < first:
        return None
    return float(last - first)


def _isolation_by_usage(records: Sequence[RequestRecord], ours: int) -> Check:
    """Without counters: what the answers themselves say, if they do (`--enable-prompt-tokens-details`)."""
    cached = [record.cached_tokens for record in records if record.cached_tokens is not None]
    if cached and sum(cached) >= MAX_HIT_FRAC * ours:
        return check_of(
            "isolation", "refuse", f"Prompts are not cold: {sum(cached)} of {ours} prompt tokens came from the prefix cache."
        )
    if cached and len(cached) == len(records):
        return check_of(
            "isolation", "pass", f"Our {len(records)} prompts were cold: usage says {sum(cached)} of {ours} tokens cached."
        )
    return check_of("isolation", "warn", "Cold prompts cannot be proven: the server shows no prefix cache counters.")

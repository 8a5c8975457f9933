"""What preflight says about the requests it sent itself: records in, one check out.

Latencies start at the scheduled time, as everywhere; TPOT leaves out the tokens of the first event.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import get_args

from core import singles
from core.config import Slo, Stop
from core.facts import Code, Fact, Figure, Said, fact, in_turn, parts
from core.prefixes import hit_frac, shown_hit_frac
from core.records import Check, CheckStatus, CountedBy, RequestRecord, ServerSample, Shape
from core.server.checks import check_of, key_code
from core.server.exposition import has_feature
from core.singles import failure
from core.slo import (
    MAX_HIT_FRAC,
    MAX_HIT_OFF_FRAC,
    MAX_OUTPUT_FRAC,
    MAX_PROMPT_OFF_FRAC,
    MIN_OUTPUT_FRAC,
    e2e_s,
    too_long,
    tpot_s,
    ttft_s,
    uncounted,
)
from core.workloads import Prefix

SINGLES = 1 + singles.JUDGED

_TELLING_EVENTS = 8
"""An answer of fewer tokens may have as many events by chance."""

BUFFERED_S, _AT_ONCE_FRAC, _BUFFERED_TOKENS = 0.100, 0.1, 4
"""An answer that took longer than 100 ms, and of which all came in the last tenth of that, with a gap of a millisecond at most a
tenth of the times (a long one takes a network several round trips), was held back and let go: no model decodes so. Fewer than four
tokens may share a read by chance, and what that hides is short."""

_SINGLES_STATUS: dict[Code, CheckStatus] = {"singles_meet": "pass", "some_singles_miss": "warn"}

_ALONE = 1.05
"""The server may count this much more prompt than we sent before somebody else must have sent some."""


def request_check(record: RequestRecord, *, text_refused: bool = False) -> Check:
    """Whether a request as the load sends it is answered to its orderly end. `text_refused`: one with a prompt of text was refused
    like one of token ids."""
    asked: dict[str, Figure] = {"prompt_tokens": record.asked_input, "output_tokens": record.asked_output}
    if record.ending != "ok":
        return check_of("request", "refuse", fact("request_failed", failure(record), **asked, text_refused=text_refused))
    took: dict[str, Figure] = {"ttft_s": ttft_s(record), "tpot_s": tpot_s(record), "e2e_s": e2e_s(record)}
    answered = fact("request_answered", **asked, **took)
    if record.finish_reason is None:
        found = in_turn(answered, fact("ended_without_reason", output_tokens=record.output_tokens))
        return Check(check="request", status="warn", message=found)
    return check_of("request", "pass", answered)


def with_doubts(check: Check, doubts: Sequence[Said], api: str, *, key_given: bool, list_status: int | None) -> Check:
    """The refusal of a streamed request with what was left to it to decide; `list_status`: how the list of models was refused."""
    facts = [each for each in parts(check.message) if isinstance(each, Fact)]
    status = next((each.figures["status"] for each in facts if each.code == "request_broken_off"), None)
    failed = fact(key_code(key_given), check.message) if status == 401 else check.message
    elsewhere = [fact("is_it_the_api", url=api)] if status == list_status == 404 else []
    return Check(check=check.check, status=check.status, message=in_turn(failed, *doubts, *elsewhere))


def leaves_length_unread(record: RequestRecord) -> bool:
    """Whether the answer has a length that somebody else chose: it is longer than asked, or ended at a limit that is shorter."""
    if too_long(record):
        return True
    short = record.output_tokens < MIN_OUTPUT_FRAC * record.asked_output
    return record.ending == "ok" and short and record.finish_reason == "length"


def with_shape(check: Check, shape: Shape) -> Check:
    """The same check with all in which the server has its requests written otherwise than vLLM; a warning where that costs a
    safeguard: the salt that keeps prompts cold, or the field that keeps answers as long as asked."""
    found = [
        *([fact("takes_max_tokens")] if shape.prompt == "messages" and shape.length_by == "max_tokens" else []),
        *([fact("takes_text")] if shape.prompt == "text" else []),
        *([fact("takes_usage_at_end")] if shape.usage == "end" else []),
        *([fact("takes_no_usage")] if shape.usage == "none" else []),
        *([fact("fields_left_out", *shape.left_out)] if shape.left_out else []),
        *([] if shape.salted else [fact("takes_no_salt")]),
    ]
    if check.status == "refuse" or not found:
        return check
    safe = shape.salted and "ignore_eos" not in shape.left_out
    return Check(check=check.check, status=check.status if safe else "warn", message=in_turn(check.message, *found))


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


def counted_by(records: Sequence[RequestRecord]) -> CountedBy | None:
    """By what the tokens of these answers were counted, in the least sure way; None where none was answered."""
    ways: tuple[CountedBy, ...] = get_args(CountedBy)
    found = {record.counted_by or ("usage" if record.usage else "events") for record in records if record.ending == "ok"}
    return max(found, key=ways.index, default=None)


def usage_check(record: RequestRecord, *, keeps_length: bool = False, stop: Stop = "exact") -> Check:
    """Whether the stream says how many tokens each event brings; without that they are counted by the length asked for where
    the server is known to keep it, else one per event. With natural stopping fewer than asked are as good."""
    events = record.gaps.n + 1 if record.output_tokens else 0
    few = stop == "natural" and record.output_tokens <= record.asked_output
    status: CheckStatus = "pass" if few or record.output_tokens == record.asked_output else "warn"
    if record.counted_by == "token_ids":
        return check_of("usage", status, fact("counted_by_ids", output_tokens=record.output_tokens, asked=record.asked_output))
    if not record.usage:
        if keeps_length:
            in_stream = record.prompt_tokens is not None
            found = fact("length_counts", events=events, asked=record.asked_output, usage_in_stream=in_stream)
            return check_of("usage", "warn", found)
        code: Code = "usage_missing" if record.prompt_tokens is None else "usage_implausible"
        return check_of("usage", "warn", fact(code, events=events, asked=record.asked_output))
    found = fact("usage_seen", output_tokens=record.output_tokens, asked=record.asked_output, events=events)
    return check_of("usage", status, found)


def prompt_length_check(record: RequestRecord) -> Check:
    """Whether the server counts the prompt that was asked for: a repeat with prompts further off is void."""
    if record.prompt_tokens is None:
        return check_of("prompt length", "warn", fact("prompt_length_unknown", asked=record.asked_input))
    counted: dict[str, Figure] = {"prompt_tokens": record.prompt_tokens, "asked": record.asked_input}
    off = record.prompt_tokens / record.asked_input - 1
    if abs(off) > MAX_PROMPT_OFF_FRAC:
        found = fact("prompt_miscounted", **counted, off_frac=off, allowed_frac=MAX_PROMPT_OFF_FRAC)
        return check_of("prompt length", "refuse", found)
    return check_of("prompt length", "pass", fact("prompt_as_asked", **counted))


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
    if caches_nothing(labels):
        return check_of("isolation", "pass", fact("no_prefix_cache"))
    queries, hits = _delta(before, after, "prefix_queries_total"), _delta(before, after, "prefix_hits_total")
    if queries is None or hits is None:
        return _isolation_by_usage(records, ours)
    if queries == 0:
        return check_of("isolation", "warn", fact("cold_unproven_still"))
    in_blocks = has_feature("prefix_counters_in_tokens", version) is False
    share = hits / (queries if in_blocks else ours)
    counted: dict[str, Figure] = {"hits": hits, "looked_up": queries, "unit": "blocks" if in_blocks else "tokens"}
    if share < MAX_HIT_FRAC:
        found = fact("prompts_cold", **counted, prompts=len(records))
        return check_of("isolation", "pass" if hits == 0 else "warn", found)
    if not in_blocks and queries > ours * _ALONE:
        return check_of("isolation", "warn", fact("cold_unproven_others", **counted, ours_tokens=ours))
    return check_of("isolation", "refuse", fact("prompts_not_cold", **counted, hit_frac=share))


def caches_nothing(labels: Mapping[str, str]) -> bool:
    """Whether the server says that it has no prefix cache."""
    return labels.get("enable_prefix_caching") == "False"


def shared_check(
    records: Sequence[RequestRecord],
    before: ServerSample | None,
    after: ServerSample | None,
    prefix: Prefix,
    block: int,
    *,
    fleet: bool = False,
) -> Check:
    """Whether prompts that share prefixes found as much in the prefix cache as was planned, by the counters before and after them
    or by what the answers tell. `block`: tokens of a block of that cache. Repeats judge it themselves, so that this only warns; of
    a `fleet` that is checked, whose gateway decides what is found, it only tells."""
    asked: dict[str, Figure] = {"tokens": prefix.tokens, "groups": prefix.groups}
    planned = hit_frac(prefix, [record.asked_input for record in records], block)
    cached = [record.cached_tokens for record in records if record.cached_tokens is not None]
    shown = shown_hit_frac(before, after)
    if shown is None and records and len(cached) == len(records):
        shown = sum(cached) / sum(record.prompt_tokens or record.asked_input for record in records)
    if shown is None or planned is None:
        return check_of("isolation", "warn", fact("shared_unproven", **asked, planned_frac=planned))
    off = abs(shown - planned) > MAX_HIT_OFF_FRAC and not fleet
    found = fact("shared_off_plan" if off else "shared_as_planned", **asked, hit_frac=shown, planned_frac=planned)
    return check_of("isolation", "warn" if off else "pass", found)


def output_length_check(records: Sequence[RequestRecord], fields: Sequence[str] = ("max_tokens",), stop: Stop = "exact") -> Check:
    """Whether answers get as long as asked: those that end early make a server look faster than it is, longer ones slower. With
    natural stopping they may end early, and it is said how long they got.

    `fields`: by which the length was asked for, one after the other.
    """
    ended = [record for record in records if record.ending == "ok"]
    asked = sum(record.asked_output for record in ended)
    if not asked:
        return check_of("output length", "warn", fact("answers_unmeasured"))
    frac = sum(record.output_tokens for record in ended) / asked
    if all(record.counted_by == "length" for record in ended):
        return check_of("output length", "pass", fact("answers_end_by_length", requests=len(ended)))
    by_usage = not any(_by_events(record) for record in ended)
    came: dict[str, Figure] = {"came_frac": frac, "asked_tokens": asked, "requests": len(ended), "by_usage": by_usage}
    if stop == "natural" and not any(too_long(record) for record in ended):
        return _ended_by_themselves(ended)
    if frac < MIN_OUTPUT_FRAC and all(_by_events(record) and record.finish_reason == "length" for record in ended):
        return check_of("output length", "refuse", fact("answers_uncounted", **came))
    if frac < MIN_OUTPUT_FRAC:
        reasons = dict(Counter(record.finish_reason or "none" for record in ended))
        return check_of("output length", "refuse", fact("answers_short", **came, finish_reasons=reasons))
    if frac > MAX_OUTPUT_FRAC and any(too_long(record) for record in ended):
        return check_of("output length", "refuse", fact("answers_long", *fields, **came))
    return check_of("output length", "pass", fact("answers_as_asked", **came))


def _ended_by_themselves(ended: Sequence[RequestRecord]) -> Check:
    """How long answers got that could end where the model ended them; a warning where that is not known."""
    unknown = any(uncounted(record) for record in ended)
    found = fact(
        "answers_natural",
        requests=len(ended),
        mean_tokens=None if unknown else sum(record.output_tokens for record in ended) / len(ended),
        most_tokens=max(record.asked_output for record in ended),
        finish_reasons=dict(Counter(record.finish_reason or "none" for record in ended)),
    )
    return check_of("output length", "warn" if unknown else "pass", found)


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
    e2e_alone = all(each.ttft_s is None and each.tpot_s is None for each in slo.each)
    took_s: list[float] = [e2e for record in ended if (e2e := e2e_s(record)) is not None]
    found = fact("stream_held_back", answers=len(ended), e2e_s=took_s, e2e_alone=e2e_alone)
    return check_of("stream", "warn" if e2e_alone else "refuse", found)


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
    found = singles.judged(judged, slo, first)
    return check_of("slo", _SINGLES_STATUS.get(found.code, "refuse"), found)


def _delta(before: ServerSample | None, after: ServerSample | None, field: str) -> float | None:
    """Growth of a counter; None when it was not readable both times or fell (a restart)."""
    first, last = getattr(before, field, None), getattr(after, field, None)
    if first is None or last is None or last < first:
        return None
    return float(last - first)


def _isolation_by_usage(records: Sequence[RequestRecord], ours: int) -> Check:
    """Without counters: what the answers themselves say, if they do (`--enable-prompt-tokens-details`)."""
    cached = [record.cached_tokens for record in records if record.cached_tokens is not None]
    told: dict[str, Figure] = {"cached_tokens": sum(cached), "prompt_tokens": ours, "prompts": len(records)}
    if cached and sum(cached) >= MAX_HIT_FRAC * ours:
        return check_of("isolation", "refuse", fact("prompts_not_cold_by_usage", **told))
    if cached and len(cached) == len(records):
        return check_of("isolation", "pass", fact("prompts_cold_by_usage", **told))
    return check_of("isolation", "warn", fact("cold_unproven_uncounted"))

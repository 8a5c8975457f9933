"""What is worth knowing beside a verdict, and changes nothing about it."""

from core.facts import Code
from core.prose.figures import Figures, Sentence
from core.prose.voids import replica_names
from core.units import as_set, count, duration, latency, length, number, percent, plain, rate_number, rate_text


def _few_requests(f: Figures) -> str:
    n = f.n("planned")
    steps = f"attainment moves in steps of {percent(1 / n, 2)}"
    enough = f"plan at least {count(f.n('needed'))} for a target of {plain(f['target'])}"
    return f"this step saw only {count(n, 'request')}: {steps}; {enough}"


def _window_short(f: Figures) -> str:
    than = f"{f.n('durations')} mean request durations ({latency(f['e2e_mean_s'])} each)"
    return f"the step ({duration(f['measure_s'])}) is shorter than {than}: repeats will scatter, and a pass is optimistic"


def _left_open(f: Figures) -> str:
    which = f"{count(f.n('open'))} of {count(f.n('planned'), 'request')}"
    return f"{which} had not ended when the pass was certain: p95 and p99 leave them out"


def _few_values(f: Figures) -> str:
    n, name = f.n("answers"), f.word("latency")
    which = "p95 and p99 rest" if n < 20 else "p99 rests"
    return f"{f'{name}: ' if name else ''}{which} on only {count(n, 'answer')}: little more than the slowest"


def _token_rate_off(f: Figures) -> str:
    by_tokens = f"by its output tokens the server finished {rate_text(f['by_tokens_rps'])}"
    return (
        f"token rate and request rate disagree: {by_tokens}, by count {rate_number(f['counted_rps'])}; "
        "the requests that finished in the window had other lengths than those sent in it"
    )


def _without(f: Figures) -> str:
    return f"{count(f.n('without'))} of {count(f.n('answers'), 'answer')}"


_COUNTED_BY = {
    "token_ids": "by their token ids",
    "length": "by the length asked for",
    "events": "one per event",
}


def _no_usage(f: Figures) -> str:
    by = f.counts("counted_by") if "counted_by" in f else {"events": f.n("without")}
    ways = [f"{_COUNTED_BY[name]}{f' ({count(n)})' if len(by) > 1 else ''}" for name, n in by.items()]
    return f"the server sent no usage with {_without(f)}: their tokens are counted {', '.join(ways)}"


def _errors_said(f: Figures) -> str:
    more = f.n("other_sentences")
    others = f"; {count(more, 'other message')} besides" if more else ""
    return "; ".join((f"{count(f.n('times'))} of {count(f.n('errors'), 'error')}: {f.word('said')}{others}", *f.of))


def _failures_alike(f: Figures) -> str:
    n, errors = f.n("n"), f.n("errors")
    who = f"{count(n)} of {count(errors)} errors" if n < errors else "both" if n == 2 else f"all {count(n)}"
    has: list[str] = []
    age_s, apart_s, tokens = f.known("age_s"), f.known("moment_s"), f.known("tokens")
    over, backend, of_ok = f.known("prompt_over_tokens"), f.word("backend"), f.known("backend_ok_frac")
    if age_s is not None and f["until_first"]:
        has.append(f"came {latency(age_s)} after the request, before any token, and no first token took longer")
    elif age_s is not None:
        has.append(f"came {latency(age_s)} after the request, and no answer took longer")
    if apart_s is not None:
        has.append(f"came at one moment, within {latency(apart_s)}")
    if tokens is not None:
        has.append(f"came after {length(tokens)}")
    if over is not None:
        has.append(f"had prompts above {length(over)}, and none that long was answered")
    if backend is not None and of_ok is not None:
        has.append(f"came from backend {backend}, which gave {percent(of_ok)} of the answers")
    return f"{who} {'; they '.join(has)}"


def _repeats_scatter(f: Figures) -> str:
    spread = f"{number(100 * f['deviation_frac'])} points (standard deviation) over {count(f.n('repeats'), 'repeat')}"
    return f"attainment varies by {spread}: more than 3 points is normal near the knee"


def _sends_late(f: Figures) -> str:
    whose = f"sends of {f.word('worker')}" if "worker" in f else "sends"
    return f"{whose} were late by {latency(f['late_p99_s'])} (p99): latencies include that much of the client's own delay"


SENTENCES: dict[Code, Sentence] = {
    "no_miss_allowed": lambda f: f"no miss is allowed: one slow request of {count(f.n('planned'))} fails this step",
    "few_requests": _few_requests,
    "window_lucky": lambda f: (
        f"a quiet stretch of the recording: {percent(f['less_frac'], 2)} less work than the recording has on average at this rate"
        if "recorded" in f
        else f"a lucky window: by chance it brought {percent(f['less_frac'], 2)} less work than its rate lets expect"
    ),
    "window_unlucky": lambda f: (
        f"a busy stretch of the recording: {percent(f['more_frac'], 2)} more work than the recording has on average at this rate"
        if "recorded" in f
        else f"an unlucky window: by chance it brought {percent(f['more_frac'], 2)} more work than its rate lets expect"
    ),
    "window_short": _window_short,
    "by_one_request": lambda f: "passed by one request",
    "left_open": _left_open,
    "sends_late": _sends_late,
    "loop_stalled": lambda f: (
        f"the client stalled for {latency(f['lag_max_s'])}: what arrived then looks that much slower than it was"
    ),
    "few_values": _few_values,
    "no_success": lambda f: f"none of {count(f.n('planned'), 'request')} succeeded, so there are no latencies",
    "queue_undecided": lambda f: "queue: undecided",
    "lengthened": lambda f: (
        f"lengthened by {duration(f['by_s'])} because the queue was undecided; only the queue is judged over the longer time"
    ),
    "token_rate_off": _token_rate_off,
    "no_tpot": lambda f: f"{_without(f)} had no token after the first event: judged without a TPOT",
    "no_usage": _no_usage,
    "no_finish_reason": lambda f: (
        f"{_without(f)} ended without a finish_reason: all the tokens asked for had come, so they count as complete"
    ),
    "tpot_unknown": lambda f: (
        f"{_without(f)} came in fewer events than the tokens asked for, and the server does not say how many an event holds: "
        "their TPOT is not known, and only one that is over its limit even at the full length counts as a miss"
    ),
    "errors_said": _errors_said,
    "failures_alike": _failures_alike,
    "resent": lambda f: (
        f"{count(f.n('requests'), 'request')} went out a second time, on a fresh connection: "
        "the server was closing the kept-alive one"
    ),
    "several_processes": lambda f: (
        "the server's counters jump back and forth: several processes answer there, so no differences are shown; replicas behind a "
        "gateway are read one by one when they are named with --replica"
    ),
    "replicas_uneven": lambda f: (
        f"the busiest of {count(f.n('replicas'), 'replica')}, {f.word('name')}, got {as_set(f['share'], 2)} times its share of the "
        "requests"
    ),
    "replicas_unused": lambda f: (
        f"{replica_names(f)} finished none of {count(f.n('requests'), 'request')}: the gateway sends "
        + ("it nothing, or it is not behind the gateway" if len(f.of) == 1 else "them nothing, or they are not behind the gateway")
    ),
    "replicas_unseen": lambda f: (
        f"of {count(f.n('requests'), 'request')} that the gateway answered, the replicas named finished {f.n('counted')}; what the "
        "others do is not seen"
    ),
    "end_unread": lambda f: (
        "the server was not read after the load ended: requests of others or a restart near the end would have gone unseen"
    ),
    "metrics_unread": lambda f: (
        "the server's metrics could not be read during the repeat: a restart, prefix hits or other traffic would have gone unseen"
    ),
    "repeats_scatter": _repeats_scatter,
}

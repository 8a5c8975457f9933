"""Why a rate fails, place by place: what was seen, what follows, what to change, and what it is not."""

from core.facts import Code
from core.prose.figures import Figures, Sentence
from core.results import Cause
from core.units import as_set, classes, count, duration, latency, length, number, percent, plain, rate_number, rate_text

NAMES: dict[Cause, str] = {
    "slots": "the number of sequences",
    "kv": "the KV cache",
    "prefill": "the time that prompts take (prefill)",
    "decode": "the speed of decode steps",
    "deferred": "waiting for a KV transfer or a LoRA",
    "uneven": "an uneven split among the engines",
    "frontend": "something outside the engine (network, tokenising, the API process)",
    "client": "the client",
    "prefix": "prompts already in the prefix cache",
    "lengths": "lengths other than asked for",
    "failures": "requests that failed",
    "gateway": "the gateway's limit of open requests",
    "none": "nothing",
    "unknown": "something that these figures do not show",
}
"""Each as the subject of a sentence."""
_NAMES: dict[str, str] = {str(cause): name for cause, name in NAMES.items()}
_HEADS = {"client": "the client: ", "workload": "the prompts: ", "queue": "", "stages": "", "resources": ""}
_LISTED = 8
"""So many engines have their figures told one by one."""


# --- what was seen -----------------------------------------------------------------------------------------------


def _lateness(f: Figures) -> str:
    p99_s = f.known("p99_s")
    return f"late p99 {duration(p99_s)}" if p99_s is not None else "lateness not known"


def _errors(f: Figures) -> str:
    endings = f.counts("endings")
    return f"errors: {classes(endings)}{_said(f)}" if endings else "no errors"


def _said(f: Figures) -> str:
    """The words of errors and what these have in common, in brackets."""
    words = f.word("said")
    told = "; ".join((words, *f.of) if words else f.of)
    return f" ({told})" if told else ""


def _prefix_hits(f: Figures) -> str:
    share = f.known("hit_frac")
    return "prefix hits not known" if share is None else f"{percent(share, 2)} prefix hits"


def _lengths(f: Figures) -> str:
    output = f.known("output_tokens")
    if output is None:
        return "no answer succeeded"
    asked_in, asked_out = f["input_asked_tokens"], f["output_asked_tokens"]
    counted = f.known("input_tokens")
    prompt = asked_in if counted is None else counted
    as_asked = abs(prompt - asked_in) < 0.5 and abs(output - asked_out) < 0.5
    most = "at most " if "natural" in f else ""
    asked = "as asked" if as_asked else f"where {as_set(asked_in, 4)}/{most}{as_set(asked_out, 4)} were asked for"
    other = {name: n for name, n in f.counts("finish_reasons").items() if name != "length"}
    return f"{as_set(prompt, 4)}/{as_set(output, 4)} tokens {asked}" + (f" (ended by {classes(other)})" if other else "")


def _waiting(f: Figures) -> str:
    before, now = f.known("before_mean"), f["mean"]
    waiting = number(now) if before is None else f"{number(before)} -> {number(now)}"
    passing_rps = f.known("passing_rps")
    at = rate_number(f["rate_rps"])
    between = f" at {at} requests/s" if passing_rps is None else f" from {rate_number(passing_rps)} to {at} requests/s"
    return f"waiting requests {waiting} on average{between}"


def _times(f: Figures, now: str, before: str) -> str:
    was_s = f.known(before)
    return duration(f[now]) if was_s is None else f"{duration(was_s)} -> {duration(f[now])}"


def _queue_time(f: Figures) -> str:
    return "queue time not known" if f.known("mean_s") is None else f"queue time {_times(f, 'mean_s', 'before_s')}"


def _ttft_split(f: Figures) -> str:
    before = f.known("gateway_s") if "gateway_s" in f else None
    parts = [] if before is None else [("waiting at the gateway", before)]
    parts += [("queue", f["queue_s"]), ("prefill", f["prefill_s"]), ("outside the engine", f["outside_s"])]
    whole_s = sum(part_s for _, part_s in parts)
    return f"TTFT splits into {', '.join(f'{_part(part_s / whole_s)} {name}' for name, part_s in parts)}"


def _part(share: float) -> str:
    """One of several that make up the whole: how little the least of them is, does not matter."""
    return "under 1 %" if 0 < share < 0.01 else percent(share, 2)


def _late_not_ended(f: Figures) -> str:
    which = f"{count(f.n('requests'), 'request')} past their TTFT limit had not ended"
    return f"{which}, so the server does not split their time"


def _running_limit(f: Figures) -> str:
    n, engines = f.n("sequences"), f.n("engines")
    if engines == 1:
        return f"running stays at {count(n)} while requests wait (max_num_seqs, as far as seen)"
    each = f"max_num_seqs {as_set(n / engines, 4)} each, as far as seen"
    return f"running stays at {count(n)} over {engines} engines while requests wait ({each})"


def _running(f: Figures) -> str:
    highest, engines = f.known("max"), f.n("engines")
    over = f" over {engines} engines" if engines > 1 else ""
    return f"running {number(f['mean'])} on average{over}" + ("" if highest is None else f", {count(round(highest))} at most")


def _engines(f: Figures) -> str:
    running, waiting = f.numbers("running_mean"), f.numbers("waiting_mean")
    if len(running) > _LISTED:
        return f"by {_one(f)} {_span(running)} running, {_span(waiting)} waiting"
    return f"by {_one(f)} {_row(running)} running, {_row(waiting)} waiting"


def _one(f: Figures) -> str:
    """What one of several is called; older files have engines alone."""
    return "replica" if "of_replicas" in f else "engine"


def _span(values: list[float]) -> str:
    return f"{number(min(values))} to {number(max(values))}"


def _row(values: list[float]) -> str:
    return " / ".join(map(number, values))


def _kv(f: Figures) -> str:
    mean, highest = f.known("mean_frac"), f.known("max_frac")
    if mean is None or highest is None:
        return "KV usage not known"
    whose = "KV cache of the fullest engine" if f.n("engines") > 1 else "KV cache"
    queued, full = (f.known(name) if name in f else None for name in ("queued_frac", "full_frac"))
    waits = f" ({percent(queued, 2)} while requests wait)" if queued is not None and percent(queued, 2) != percent(mean, 2) else ""
    from_ = f", without room for another prompt from {percent(full, 2)} on" if full is not None else ""
    return f"{whose} at {percent(mean, 2)}{waits}, {percent(highest, 2)} at most{from_}"


def _preemptions(f: Figures) -> str:
    n = f.known("preemptions")
    if n is None:
        return "preemptions not known"
    return count(round(n), "preemption") if n else "no preemptions"


def _machine(f: Figures) -> str:
    named = (
        ("GPU busy", "gpu_frac"),
        ("its memory bandwidth", "dram_frac"),
        ("its tensor cores", "tensor_frac"),
        ("its memory", "gpu_memory_frac"),
        ("host processors", "cpu_frac"),
        ("host memory", "memory_frac"),
    )
    known = ((name, f.known(figure)) for name, figure in named)
    return ", ".join(f"{name} {plain(round(value, 2))}" for name, value in known if value is not None)


# --- what speaks against a cause ---------------------------------------------------------------------------------


def _places_full_too(f: Figures) -> str:
    stood, gave_way = f"the running sequences stood at {count(f.n('sequences'))} as well", f.known("preemptions")
    if gave_way is None:
        return stood
    return f"{stood}, and {f'only {count(round(gave_way))}' if gave_way else 'none'} had to give way"


def _places_never_full(f: Figures) -> str:
    highest = f.known("max")
    return "the running sequences stood at no limit" + ("" if highest is None else f" ({count(round(highest))} at most)")


def _few_queued(f: Figures) -> str:
    return f"requests waited in only {count(f.n('readings'), 'reading')}" + (
        "" if f["shows_limit"] else ", too few to say for what"
    )


def _nothing_full(f: Figures) -> str:
    full = "neither its slots nor its KV cache were full" if f["kv_known"] else "its slots were not full"
    return f"prompts take at most {percent(f['at_most_frac'], 2)} of the engine's time, and {full}"


def _prefill_hardly_seen(f: Figures) -> str:
    return f"by the server's own times prompts are only {percent(f['prefill_frac'], 2)} of TTFT"


# --- what follows ------------------------------------------------------------------------------------------------


def _doubts(f: Figures) -> str:
    return "; ".join(f.of)


def _change(f: Figures) -> str:
    setting = f.word("setting")
    return f": the setting to change is {setting}" if setting else ""


def _likely(f: Figures) -> str:
    return f", most likely ({_doubts(f)})" if f.of else ""


def _binds(f: Figures) -> str:
    not_memory = ", not memory" if f["memory_free"] else ""
    return f"At {rate_text(f['rate_rps'])} {_NAMES[f.word('cause') or '']} binds{not_memory}{_likely(f)}{_change(f)}"


def _two_causes(f: Figures) -> str:
    names = f"{_NAMES[f.word('cause') or '']} first and {_NAMES[f.word('also') or '']}"
    but = f" ({_doubts(f)})" if f.of else ""
    return f"At {rate_text(f['rate_rps'])} two causes fit, {names}{but}{_change(f)}"


def _deferred_binds(f: Figures) -> str:
    most = f"{percent(f['deferred_frac'], 2)} of those that wait are deferred"
    what = "requests wait for a KV transfer or a LoRA, not for the scheduler"
    return f"At {rate_text(f['rate_rps'])} {what}{_likely(f)}: {most}"


def _uneven_binds(f: Figures) -> str:
    n, idle = f.n("engines"), f.n("idle")
    busy = (
        f"{_one(f)} {f.word('busiest')} runs {number(f['running_mean'])} requests on average "
        f"with {number(f['waiting_mean'])} waiting"
    )
    others = f"the other {idle} run" if idle == n - 1 and idle > 1 else "the other runs" if idle == n - 1 else f"{idle} of them run"
    split = f"At {rate_text(f['rate_rps'])} the load is split unevenly among {n} {_one(f)}s{_likely(f)}"
    return f"{split}: {busy}, while {others} {number(f['idle_running_mean'])}"


def _errors_bind(f: Figures) -> str:
    return f"At {rate_text(f['rate_rps'])} most of what missed ended in errors{_said(f)}, which is not a latency limit"


def _not_certain(f: Figures) -> str:
    also = f.word("also")
    maybe = f"{_NAMES[also]} perhaps, " if also else ""
    return f"What binds at {rate_text(f['rate_rps'])} is not certain ({maybe}{_doubts(f)})"


def _not_measured(f: Figures) -> str:
    at, unseen = rate_text(f["rate_rps"]), "what binds was not seen"
    if f.of:
        return f"The run has no answer, because at {at} {f.of[0]}; {unseen}"
    return f"The run has no answer because of {_NAMES[f.word('cause') or '']}, at {at}; {unseen}"


# --- what to do --------------------------------------------------------------------------------------------------


def _more_sequences(f: Figures) -> str:
    each = f" for each of the {f.n('engines')} engines" if f.n("engines") > 1 else ""
    text = f"Try --max-num-seqs above {as_set(f['sequences'], 4)}{each}"
    tpot_s, limit_s = f.known("tpot_p95_s"), f.known("tpot_limit_s")
    if tpot_s is None or limit_s is None:
        return f"{text}; each token gets slower with more sequences."
    room = "has room" if f["room"] else "has hardly any room"
    return f"{text}: TPOT {room} for more (p95 {duration(tpot_s)} of {duration(limit_s)})."


def _more_kv_memory(f: Figures) -> str:
    now = f" above {share}" if (share := f.word("utilization")) else ""
    return f"Raise it{now}, try --kv-cache-dtype fp8, or spread the model over more GPUs."


def _prompt_budget(f: Figures) -> str:
    if f["smaller"]:
        return "Smaller chunks of prompt between the tokens help TPOT, and TTFT pays for it; shorter or shared prompts help both."
    return "A larger budget per step lets prompts in sooner, and TPOT pays for it; shorter or shared prompts help both."


def _fewer_sequences(f: Figures) -> str:
    running = f.known("running_mean")
    each = " in each engine" if f.n("engines") > 1 else ""
    now = f" below the {number(running)} that run on average here{each}" if running is not None and running >= 2 else ""
    return (
        f"Set it{now} to keep each token fast; requests then queue instead. --tensor-parallel-size and quantised weights make "
        "steps faster."
    )


def _common_cause(f: Figures) -> str:
    age_s, apart_s, tokens = f.known("age_s"), f.known("moment_s"), f.known("tokens")
    over, backend = f.known("prompt_over_tokens"), f.word("backend")
    look: list[str] = []
    if age_s is not None:
        what = "a wait for the first byte" if f["until_first"] else "a whole answer"
        look.append(
            f"for a time limit of {latency(age_s)} for {what} on the way (route, request or read timeout of a gateway or balancer)"
        )
    if apart_s is not None:
        look.append("in the logs of server and gateway for that moment (a process that ended, out of memory, a restart)")
    if tokens is not None:
        look.append(f"for what ends an answer after {length(tokens)} (a limit of size or tokens on the way)")
    if over is not None:
        look.append(f"for a limit on prompts above {length(over)} (size of a request at a gateway, the server's context)")
    if backend is not None:
        look.append(f"at backend {backend}, its log and its settings")
    return f"Look {', and '.join(look)}; no scheduler setting helps against that."


SENTENCES: dict[Code, Sentence] = {
    "looked_at": lambda f: _HEADS[f.word("place") or ""] + ", ".join(f.of),
    "lateness_seen": _lateness,
    "loop_stall_seen": lambda f: f"its loop stalled {duration(f['max_s'])} at most",
    "failed_here": lambda f: f"{count(f.n('requests'), 'request')} failed on its own side",
    "not_sent": lambda f: f"{count(f.n('requests'), 'planned request')} not sent",
    "client_cpu_seen": lambda f: f"{percent(f['core_frac'], 2)} of a core",
    "errors_seen": _errors,
    "prefix_hits_seen": _prefix_hits,
    "lengths_seen": _lengths,
    "waiting_seen": _waiting,
    "deferred_seen": lambda f: f"{number(f['mean'])} of them for a KV transfer or a LoRA (deferred)",
    "queue_time_seen": _queue_time,
    "queue_not_shown": lambda f: "the queue: the server shows no running and waiting requests",
    "ttft_split": _ttft_split,
    "ttft_not_split": lambda f: f"TTFT {duration(f['mean_s'])} on average, which the server does not split",
    "late_not_ended": _late_not_ended,
    "tpot_seen": lambda f: f"TPOT {_times(f, 'mean_s', 'before_s')} on average",
    "prompts_take": lambda f: f"prompts take up to {percent(min(f['at_most_frac'], 1.0), 2)} of the engine's time",
    "no_latency": lambda f: "no latency was measured",
    "running_limit": _running_limit,
    "running_seen": _running,
    "running_not_shown": lambda f: "running sequences and KV cache are not known",
    "engines_seen": _engines,
    "kv_seen": _kv,
    "preemptions_seen": _preemptions,
    "machine_seen": _machine,
    "limit_missed_not_known": lambda f: "which limit was missed is not known",
    "in_ramp_alone": lambda f: "seen in the ramp alone",
    "gpu_hardly_busy": lambda f: f"the GPU was busy only {percent(f['busy_frac'], 2)} of the time: look at the host's processor",
    "stage_times_not_known": lambda f: "the server's queue and prefill times are not known",
    "late_token_unexplained": lambda f: "the server shows no queue and prefill times, so a late first token cannot be traced",
    "slow_answer_unexplained": lambda f: "the server shows no queue, prefill and decode times, so a slow answer cannot be traced",
    "running_not_known": lambda f: "running and waiting requests are not known",
    "kv_not_known": lambda f: "the KV usage is not known",
    "places_full_too": _places_full_too,
    "gave_way": lambda f: f"memory was short at times: {_preemptions(f)}",
    "kv_never_full": lambda f: f"no reading shows more than {percent(f['max_frac'], 2)} of the KV cache in use",
    "places_never_full": _places_never_full,
    "prompts_light": lambda f: f"prompts take at most {percent(f['at_most_frac'], 2)} of the engine's time",
    "tpot_not_grown": lambda f: (
        f"TPOT is hardly slower on average than on the idle server ({duration(f['mean_s'])}, {duration(f['idle_s'])} idle)"
    ),
    "no_stage_grew": lambda f: "neither queue, prefill nor decode time is longer than at the rate that held",
    "prefill_dominates": lambda f: "prompts spend less time waiting than being computed",
    "tpot_without_room": lambda f: "with more of them TPOT would miss its limit, which it nearly does already",
    "few_queued_readings": _few_queued,
    "few_readings": lambda f: f"seen in only {count(f.n('readings'), 'reading')}",
    "prompt_cost_not_known": lambda f: "what a prompt costs on the idle server is not known",
    "prefill_hardly_seen": _prefill_hardly_seen,
    "nothing_full": _nothing_full,
    "idle_not_known": lambda f: "the idle server's TPOT or prompt time is not known, so the two cannot be told apart",
    "prompts_part_of_tpot": lambda f: (
        f"{percent(f['prompts_frac'], 2)} of the growth of TPOT comes from prompts computed in between, the rest from slower steps"
    ),
    "deferred_part": lambda f: f"{percent(f['deferred_frac'], 2)} of those that wait are deferred (KV transfer or LoRA)",
    "waits_in_server": lambda f: f"but {number(f['mean'])} requests wait in the server on average",
    "binds": _binds,
    "two_causes": _two_causes,
    "deferred_binds": _deferred_binds,
    "uneven_binds": _uneven_binds,
    "errors_bind": _errors_bind,
    "not_certain": _not_certain,
    "none_failed": lambda f: f"No rate that was tried failed (up to {rate_text(f['rate_rps'])}), so what binds first was not seen",
    "not_measured": _not_measured,
    "more_sequences": _more_sequences,
    "more_kv_memory": _more_kv_memory,
    "more_kv_blocks": lambda f: f"The server was started with only {f.word('blocks')} KV blocks: raise that or leave it out.",
    "prompt_budget": _prompt_budget,
    "fewer_sequences": _fewer_sequences,
    "nearer_client": lambda f: "Add API processes, or move the client nearer to the server, then run again.",
    "stronger_client": lambda f: "Give the client more CPU, or a machine of its own, then run again.",
    "find_prefix": lambda f: "Find out what makes prompts known to the server (its own system prompt?), then run again.",
    "lengths_given": lambda f: "Ask for lengths that the server gives, then run again.",
    "errors_first": lambda f: "Fix the errors first: no scheduler setting helps against them.",
    "common_cause": _common_cause,
    "kv_transfer": lambda f: (
        "Look at what hands the KV cache over (connector, network, the prefill side), or with LoRAs at --max-loras; "
        "more slots or a larger budget per step help with neither."
    ),
    "even_split": lambda f: (
        f"Look at what spreads requests over the {_one(f)}s (balancer, sessions, prefix affinity): evenly spread, the same "
        f"{_one(f)}s take more. Then run again."
    ),
    "memory_free": lambda f: f"memory: KV peak {percent(f['max_frac'], 2)}",
    "places_free": lambda f: "the number of sequences: requests hardly wait for a slot",
    "prefill_light": lambda f: f"the prompts' prefill: up to {percent(min(f['at_most_frac'], 1.0), 2)} of the engine's time",
}

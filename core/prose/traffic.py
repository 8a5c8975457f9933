"""What was found in a file of real traffic, and why rows of it cannot be used. No fact of it holds text of a prompt."""

from core.facts import Code
from core.prose.asked import times
from core.prose.figures import Figures, Sentence
from core.units import as_set, clock, count, data_size, duration, length, percent, rate_text

_FORMS = {
    "sharegpt": "ShareGPT conversations",
    "openai_chat": "OpenAI chat messages",
    "openai_batch": "OpenAI batch requests",
    "bodies": "request bodies",
    "turns": "sessions of turns",
    "prompts": "prompts with fields",
    "texts": "JSON texts",
    "lines": "plain lines",
    "azure": "Azure trace",
    "burstgpt": "BurstGPT trace",
    "vidur": "Vidur trace",
    "mooncake": "Mooncake trace",
    "qwen": "Qwen trace",
    "ragpulse": "RAGPulse trace",
    "shared_prefix": "trace with shared prefixes",
    "plain": "trace",
}
_STAMPS = {"date": "as dates", "s": "in seconds", "ms": "in milliseconds", "us": "in microseconds", "ns": "in nanoseconds"}
_PLURAL = {"line": "lines", "entry": "entries"}


def _places(f: Figures, n: int) -> str:
    """So many lines, or entries."""
    unit = str(f.word("unit"))
    return count(n, "line") if unit == "line" else f"{count(n)} {unit if n == 1 else _PLURAL[unit]}"


def _form(f: Figures) -> str:
    form = str(f.word("form"))
    return _FORMS.get(form, form)


def _trace(f: Figures) -> str:
    rate_rps = f.known("rate_rps")
    rate = "" if rate_rps is None else f", so {rate_text(rate_rps)}"
    return (
        f"{f.word('file')}: {_form(f)}, {count(f.n('rows'), 'request')} in {duration(f['span_s'])} (timestamps "
        f"{_STAMPS[str(f.word('unit'))]}){rate}; {length(f['input_tokens'])} in and {length(f['output_tokens'])} out on average"
    )


def _refused(f: Figures) -> str:
    head = f"{f.word('file')}: {count(f.n('bad'))} of {count(f.n('drawn'), 'row')} drawn cannot be used, more than the 1 % allowed"
    return "; ".join([head, *f.of])


def _window(f: Figures) -> str:
    rate_rps, whole_rps = f.known("rate_rps"), f.known("whole_rate_rps")
    rates = "" if rate_rps is None or whole_rps is None else f", {rate_text(rate_rps)}; the whole trace has {rate_text(whole_rps)}"
    place = "the busiest" if f["busiest"] else "the"
    return f"{place} {duration(f['duration_s'])} from {clock(f['from_s'])} on: {count(f.n('rows'), 'request')}{rates}"


def _parts(f: Figures) -> str:
    if f.word("form") == "ragpulse":
        return "its hash ids name parts of unknown lengths, not blocks, so no prefix is shared as in the recording"
    return "the prefixes that it names are not shared as in the recording: prompts have its lengths alone"


def _drawn(f: Figures) -> str:
    estimated = f.n("estimated")
    how = "counted by the server"
    if estimated:
        how = f"the lengths of {count(estimated, 'prompt')} are estimated, because the server has no /tokenize"
    return (
        f"the run draws from {count(f.n('rows'), 'row')}: {length(f['input_tokens'])} in and {length(f['output_tokens'])} out on "
        f"average, {length(f['longest_tokens'])} at most together; {how}"
    )


def _blocks(f: Figures) -> str:
    return (
        f"{count(f.n('ids'))} hash ids do not fit a prompt of {count(f.n('input_tokens'), 'token')} in blocks of "
        f"{count(f.n('block_tokens'))}"
    )


def _scales(f: Figures) -> str:
    mean_rps = f["mean_rps"]
    rates = (f"{rate_text(rate_rps)} is {times(rate_rps / mean_rps)}" for rate_rps in f.numbers("rates_rps"))
    return f"{' and '.join(rates)}, which has {rate_text(mean_rps)} on average"


def _short(f: Figures) -> str:
    needed = f"{count(f.n('repeats'), 'repeat')} {'takes' if f.n('repeats') == 1 else 'take'} {duration(f['needed_s'])} of it"
    return (
        f"{rate_text(f['rate_rps'])} is {times(f['scale'])}, so {needed}, and it has {duration(f['window_s'])}; measure for a "
        "shorter time, repeat less often or give a longer trace"
    )


SENTENCES: dict[Code, Sentence] = {
    "dataset_found": lambda f: f"{f.word('file')}: {_form(f)}, {_places(f, f.n('rows'))}",
    "lengths_found": lambda f: (
        f"{f.word('file')}: {count(f.n('rows'))} pairs of lengths, {length(f['input_tokens'])} in and "
        f"{length(f['output_tokens'])} out on average"
    ),
    "lengths_sampled": lambda f: (
        f"{count(f.n('rows'))} of its {count(f.n('of_rows'), 'row')} make up the mix, drawn at random by the workload seed"
    ),
    "trace_found": _trace,
    "trace_tick": lambda f: (
        f"timestamps are cut to {duration(f['tick_s'])}, but no two requests share one"
        if f.n("most_at_once") < 2
        else f"timestamps are cut to {duration(f['tick_s'])}, so up to {count(f.n('most_at_once'), 'request')} come at one instant "
        f"({percent(f['shared_frac'], 2)} of all share theirs): bursts of the recording, not of users"
    ),
    "trace_spread": lambda f: f"the requests of each {duration(f['tick_s'])} of the recording are spread over it at random",
    "trace_blocks": lambda f: f"prompts share prefixes as recorded, in blocks of {count(f.n('block_tokens'), 'token')}",
    "trace_no_blocks": lambda f: "the size of its blocks is not known, so no prefix is shared as in the recording",
    "trace_parts": _parts,
    "trace_failed": lambda f: (
        f"{count(f.n('rows'), 'row')} ({percent(f['rows_frac'], 2)}) without input or output tokens left out: requests that failed"
    ),
    "trace_unfit": lambda f: (
        f"{count(f.n('rows'), 'request')} ({percent(f['rows_frac'], 2)}, with {percent(f['tokens_frac'], 2)} of all tokens) left "
        f"out: longer than the model's {count(f.n('context_tokens'), 'token')}"
    ),
    "trace_unordered": lambda f: f"{count(f.n('rows'), 'row')} out of order in time, and sorted",
    "trace_images": lambda f: f"{count(f.n('rows'), 'request')} had images, which are not sent",
    "trace_window": _window,
    "trace_played": lambda f: (
        f"requests come as recorded (on average {rate_text(f['mean_rps'])}, gaps of CV {as_set(f['gap_cv'], 2)}; Poisson: 1), "
        f"scaled to each rate{'; the ramp has Poisson arrivals' if 'ramp' not in f or f['ramp'] else ''}"
    ),
    "trace_cold": lambda f: "the prefixes that its requests shared are not shared here: prompts have its lengths alone",
    "trace_too_few": lambda f: (
        f"the recording has {count(f.n('rows'), 'request')}, too few for any rate: each repeat needs {count(f.n('needed'))} of its "
        f"own, and a rate has {count(f.n('repeats'), 'repeat')}; give a longer trace or window, or one --trace-scale"
    ),
    "trace_short": _short,
    "trace_ends": lambda f: (
        f"none above {rate_text(f['rate_rps'])} was tried: for more than {times(f['scale'])} its {duration(f['window_s'])} are "
        "too short; give a longer trace to look higher"
    ),
    "trace_scales": _scales,
    "rows_bad": lambda f: "; ".join(
        [f"left out because they cannot be used: {count(f.n('bad'))} of {count(f.n('drawn'), 'row')}", *f.of]
    ),
    "rows_refused": _refused,
    "rows_again": lambda f: (
        f"the file has {_places(f, f.n('rows'))} and the run draws {count(f.n('drawn'))}: rows come again, and their prompts may "
        "hit the prefix cache"
    ),
    "row_bad": lambda f: f"{f.word('unit')} {count(f.n('at'))}: {f.of[0]}",
    "row_not_json": lambda f: "not JSON",
    "row_not_utf8": lambda f: "not UTF-8",
    "row_too_long": lambda f: f"longer than {data_size(f['most_bytes'])}",
    "row_lacks": lambda f: f"{f.word('field')} is missing",
    "row_kind": lambda f: f"{f.word('field')} has the wrong type",
    "row_number": lambda f: f"{f.word('field')} is not a usable number",
    "row_empty": lambda f: f"{f.word('field')} is empty",
    "row_few_turns": lambda f: f"{count(f.n('turns'), 'turn')}: too few for a question and an answer",
    "row_begins_with_answer": lambda f: "begins with an answer, a piece of a longer conversation",
    "row_endpoint": lambda f: f"asks for {f.word('url')}, which generates no text",
    "row_columns": lambda f: f"{count(f.n('columns'), 'column')} in place of {count(f.n('expected'))}",
    "row_time": lambda f: f"{f.word('field')} is not a time in the unit of the file",
    "row_no_tokens": lambda f: f"{f.word('field')} is 0",
    "row_blocks": _blocks,
    "dataset_progress": lambda f: f"{f.word('file')}: {percent(f['read_frac'], 2)} of {data_size(f['bytes'])} looked through",
    "rows_counting": lambda f: f"the server counts the tokens of {count(f.n('rows'), 'row')}",
    "rows_pieces": lambda f: (
        f"{count(f.n('rows'))} of {count(f.n('drawn'), 'row')} left out: pieces of conversations without a question and its answer"
    ),
    "rows_drawn": _drawn,
    "rows_none_fit": lambda f: "no row is short enough for the context of the model, so there is nothing to send",
    "rows_unfit": lambda f: (
        f"{count(f.n('rows'), 'row')} ({percent(f['rows_frac'], 2)}) left out: prompt and answer are longer than the model's "
        f"{count(f.n('context_tokens'), 'token')}"
    ),
    "rows_turns": lambda f: (
        f"{count(f.n('rows'), 'conversation')} with several turns: {count(f.n('turns'))} turns in all, each sent after the answer "
        "before it"
        + (f"; {count(f.n('cut'), 'later turn')} left out as too many or too long for the context" if f.n("cut") else "")
    ),
    "rows_recounted": lambda f: (
        f"by the first {count(f.n('answers'), 'answer')}, prompts are {as_set(f['factor'], 2)} times as long as estimated"
        + (f"; {count(f.n('dropped'), 'row')} too long for the context left out" if f.n("dropped") else "")
    ),
    "row_untokenized": lambda f: "the server's /tokenize refuses it",
}

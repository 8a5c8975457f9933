"""What the repeats of a rate amount to, and what ended a step."""

import math

from core.facts import Code
from core.prose.figures import Figures, Sentence
from core.units import count, percent, rate_number, rate_text


def _cut_off(f: Figures) -> str:
    open_ = f", {count(f.n('open'))} open" if f.n("open") else ""
    return f"{count(f.n('sent'))} sent, {count(f.n('good'))} good, {count(f.n('misses'))} missed{open_}"


def _held_rate(f: Figures) -> str:
    rate, judged = rate_text(f["rate_rps"]), f.n("segments")
    if not judged:
        return f"{rate} (no segment was judged{f', one was cut off: {f.of[0]}' if f.of else ''})"
    low, high = f["low_frac"], f["high_frac"]
    share = percent(low) if low == high else f"at most {percent(high, rounded=math.ceil)}"
    cut = f"; the next was cut off: {f.of[0]}" if f.of else ""
    return f"{rate} ({f.n('passed')} of {count(judged, 'segment')} passed, the lowest attainment {share}{cut})"


def _ended(word: str, f: Figures) -> str:
    return ": ".join((word, *f.of))


SENTENCES: dict[Code, Sentence] = {
    "none_judged": lambda f: "no repeat was judged",
    "all_passed": lambda f: f"all {f.n('repeats')} repeats passed",
    "some_failed": lambda f: f"{f.n('failed')} of {f.n('repeats')} repeats failed: {f.of[0]}",
    "no_segment_judged": lambda f: "no segment was judged",
    "segment_cut_off": lambda f: f"the last segment was cut off: {f.of[0]}",
    "cut_off": _cut_off,
    "ramp_held": lambda f: f"held {', '.join(map(rate_number, f.numbers('rates_rps')))}",
    "held": lambda f: "held " + ", then ".join(f.of),
    "held_rate": _held_rate,
    "user_ended": lambda f: "ended by the user",
    "stopped": lambda f: _ended("stopped", f),
    "broken_off": lambda f: _ended("broken off", f),
    "set_aside": lambda f: f"measured before the server was away, not part of the answer ({f.word('verdict')}: {f.of[0]})",
}

"""The room that writes texts: the only one that knows how a fact is said. Nothing reads a sentence back."""

from core.facts import Code, Fact, Said
from core.prose import (
    again,
    answers,
    asked_of_runs,
    checks,
    closed,
    compare,
    diagnosis,
    fleet,
    fleet_check,
    gateway,
    meanwhile,
    notes,
    prefixes,
    repeats,
    steps,
    traffic,
    tune,
    voids,
    warnings,
    watch,
    whatif,
    workers,
)
from core.prose.asked import arrivals, estimate, in_front, limits, mix, mode_words, requests, scale, seeds
from core.prose.compare import differing
from core.prose.figures import Figures, Sentence
from core.prose.fleet import LABELS, load_at_peak, load_brief
from core.prose.prefixes import hits, prefix, prefix_brief
from core.prose.workers import machines

__all__ = [
    "SENTENCES",
    "arrivals",
    "differing",
    "estimate",
    "hits",
    "in_front",
    "limits",
    "load_at_peak",
    "load_brief",
    "machines",
    "mark_label",
    "mix",
    "mode_words",
    "prefix",
    "prefix_brief",
    "requests",
    "scale",
    "seeds",
    "sentence",
    "text",
]

SENTENCES: dict[Code, Sentence] = {
    **repeats.SENTENCES,
    **voids.SENTENCES,
    **steps.SENTENCES,
    **warnings.SENTENCES,
    **notes.SENTENCES,
    **checks.SENTENCES,
    **answers.SENTENCES,
    **meanwhile.SENTENCES,
    **diagnosis.SENTENCES,
    **fleet.SENTENCES,
    **fleet_check.SENTENCES,
    **whatif.SENTENCES,
    **closed.SENTENCES,
    **traffic.SENTENCES,
    **gateway.SENTENCES,
    **prefixes.SENTENCES,
    **watch.SENTENCES,
    **asked_of_runs.SENTENCES,
    **again.SENTENCES,
    **compare.SENTENCES,
    **tune.SENTENCES,
    **workers.SENTENCES,
}
"""By code; a test holds them against the list of codes."""


def text(said: Said) -> str:
    """What was said, as a sentence without a full stop; of a fact that a damaged file has robbed of its figures, its code."""
    if not isinstance(said, Fact):
        return said
    try:
        return SENTENCES[said.code](Figures(said, tuple(map(text, said.of))))
    except (KeyError, IndexError, TypeError, ValueError, ArithmeticError):
        return said.code.replace("_", " ")


def sentence(said: Said) -> str:
    """The same to stand alone: with a full stop, and a capital letter where it begins with a plain word."""
    words = text(said)
    first = words.partition(" ")[0]
    begun = words[:1].upper() + words[1:] if first.isalpha() and first.islower() else words
    return begun + ("" if words.endswith((".", "?", "…")) else ".")


def mark_label(why: Fact) -> str:
    """The name of a mark of the load at peak, short enough for a slider."""
    return LABELS[why.code](Figures(why, ()))

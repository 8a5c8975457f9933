"""The room that writes texts: the only one that knows how a fact is said. Nothing reads a sentence back."""

from core.facts import Code, Fact, Said
from core.prose import answers, checks, diagnosis, fleet, meanwhile, notes, repeats, steps, voids, warnings, whatif
from core.prose.asked import estimate, limits, mode_words
from core.prose.figures import Figures, Sentence
from core.prose.fleet import LABELS, load_at_peak, load_brief

__all__ = ["SENTENCES", "estimate", "limits", "load_at_peak", "load_brief", "mark_label", "mode_words", "sentence", "text"]

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
    **whatif.SENTENCES,
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

"""The room that writes texts: the only one that knows how a fact is said. Nothing reads a sentence back."""

from core.facts import Code, Fact, Said
from core.prose import answers, checks, diagnosis, fleet, meanwhile, notes, repeats, steps, voids, warnings
from core.prose.figures import Figures, Sentence
from core.prose.fleet import LABELS
from core.prose.voids import AWAY

__all__ = ["AWAY", "SENTENCES", "mark_label", "sentence", "text"]

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
    """The same as whole sentences; what is no fact is one already."""
    if not isinstance(said, Fact):
        return said
    if said.code == "several":
        return " ".join(map(sentence, said.of))
    words = text(said)
    return words if words.endswith((".", "?")) else f"{words}."


def mark_label(why: Fact) -> str:
    """The name of a mark of the headroom, short enough for a slider."""
    return LABELS[why.code](Figures(why, ()))

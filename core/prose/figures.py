"""A fact as a sentence takes it: each figure by its name, as the kind it must be."""

from collections.abc import Callable

from core.facts import Fact, Figure


class Figures:
    """Raises KeyError or TypeError for a figure that is missing or of another kind."""

    def __init__(self, fact: Fact, of: tuple[str, ...]) -> None:
        """`of`: the sentences of what the fact is about."""
        self._figures = fact.figures
        self.of = of

    def __getitem__(self, name: str) -> float:
        """A number."""
        value = self._figures[name]
        if not isinstance(value, (int, float)):
            raise TypeError(f"{name} is no number")
        return value

    def __contains__(self, name: str) -> bool:
        """Whether there is such a figure: older files lack those that came later."""
        return name in self._figures

    def known(self, name: str) -> float | None:
        """A number; None where it was not known."""
        return None if self._figures[name] is None else self[name]

    def n(self, name: str) -> int:
        """A whole number."""
        value = self._figures[name]
        if not isinstance(value, int):
            raise TypeError(f"{name} is no whole number")
        return value

    def word(self, name: str) -> str | None:
        """A word or somebody's words; None where there are none."""
        value = self._figures[name]
        if value is not None and not isinstance(value, str):
            raise TypeError(f"{name} is no text")
        return value

    def value(self, name: str) -> Figure:
        """Whatever it is: where one sentence is said of figures of several kinds."""
        return self._figures[name]

    def counts(self, name: str) -> dict[str, int]:
        """Numbers by name."""
        value = self._figures[name]
        if not isinstance(value, dict):
            raise TypeError(f"{name} are no counts")
        return value

    def numbers(self, name: str) -> list[float]:
        """A list of numbers."""
        value = self._figures[name]
        if not isinstance(value, list):
            raise TypeError(f"{name} is no list")
        return value


Sentence = Callable[[Figures], str]

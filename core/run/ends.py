"""What ends a run otherwise than by its search: exceptions that carry what was found, as a fact."""

from core.facts import Fact


class Stopped(Exception):
    """Somebody asked for the end of the run."""


class RunEnds(Exception):
    """The run ends here; `fact` says why."""

    def __init__(self, fact: Fact) -> None:
        super().__init__(fact.code)
        self.fact = fact


class SafetyStop(RunEnds):
    """A limit of the run was reached; the fact says which."""


class NoAnswer(RunEnds):
    """The run cannot come to an answer; the fact is the whole message."""


class ClientSilent(NoAnswer):
    """The load generator was given up: what looked like the server's misses since it fell silent may be its own."""

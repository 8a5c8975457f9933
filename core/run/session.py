"""One live run: owns generator, scraper and search; every fact becomes an event, logged and applied to the state."""

from core.config import ProbeConfig
from core.records import Answer
from core.run.log import RunLog
from core.run.state import State


class Session:
    """Runs a probe from preflight to answer. Readers look at `state.view(now)`; `stop` ends the load at once."""

    state: State

    def __init__(
        self,
        config: ProbeConfig,
        log: RunLog,
        *,
        api_key: str | None = None,
        command: str = "",
        truth_rps: float | None = None,
    ) -> None:
        raise NotImplementedError

    async def run(self) -> Answer:
        """The whole run. Returns also when stopped, refused or void: the outcome says so. Load is off when it returns."""
        raise NotImplementedError

    def stop(self) -> None:
        """Stop all load within 0.5 s and let `run` return `interrupted` with what is finished. Idempotent; any time."""
        raise NotImplementedError

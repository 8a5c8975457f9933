"""`kneescope tune`: each setting's server started, probed as `probe --headless` does, and ended; then the table."""

import asyncio
import socket
import time
from collections.abc import Callable, Mapping
from typing import Any

import httpx
from msgspec.structs import replace

from core import fleet, prose
from core.access import Access
from core.config import ProbeConfig
from core.errors import UserError
from core.facts import Fact, fact
from core.history import MOST_CHARS
from core.modes import usual_s
from core.net import http_client, status_of
from core.report import evidence_of, plan_json, plan_text, tune_json, tune_text
from core.results import Answer
from core.run import Session
from core.tune import Ended, Measured, NotReady, Served, Server, Setting, Tried, best_of, settings_of
from core.units import duration
from tui.cli import probe
from tui.cli.configure import CliOptions, build
from tui.cli.output import JsonOut, emit, say_if_heard, scrubbed
from tui.terminal.signals import INTERRUPTED, NO_ANSWER, TwoStage, leave_now
from tui.terminal.whole import plain

START_TIMEOUT_S = 600.0
_ANSWERED = ("bracket", "at_least", "below", "infeasible")
_INSTEAD = "`kneescope runs` lists the run of each setting, and compare sets them beside each other"
_UNUSED_PORT = 65535
"""Stands where a port will, in the configuration that is checked before anything is started."""
_SIZES = ("tp", "pp", "dp")
"""Names whose values, where they are tried, are also the sizes of a replica, unless an option says these."""
_LAST_LINES = 10


def run(asked: Mapping[str, Any], options: CliOptions, command: str, access: Access) -> int:
    """Try every setting and hand over the table; returns the exit code. Raises UserError for what cannot be tried."""
    with scrubbed(access):
        tried = [Tried(name=name, values=values) for name, values in asked["try"]]
        served = Served(command=asked["serve"], url=asked["url"])
        settings = settings_of(tried)
        served.check(tried)
        config = build(options, served.url_of(_UNUSED_PORT))
        out = JsonOut(options["json"])
        try:
            expected = _expected(config, len(settings))
            if asked["dry_run"]:
                _hand_over(plan_text(settings, expected), plan_json(settings, config, expected), out, options)
                return 0
            if not options["quiet"]:
                say_if_heard(prose.sentence(expected))
            tune = _Tune(served, options, command, access, asked["start_timeout"] or START_TIMEOUT_S)
            failure = None
            try:
                asyncio.run(tune.all(settings))
            except Exception as error:  # raised again once what was measured is handed over
                failure = error
            if tune.found:
                rest = settings[len(tune.found) :]
                tune.found += [Measured(setting=each, outcome="not_run", message=fact("tune_not_run")) for each in rest]
                text = tune_text(tune.found, config.fleet.cost_per_gpu_h)
                _hand_over(text, tune_json(tune.found, config), out, options)
            if failure is not None:
                raise failure
        finally:
            out.withdraw()
    if tune.interrupted:
        return INTERRUPTED
    return NO_ANSWER if best_of(tune.found) is None else 0


def _hand_over(text: str, data: str, out: JsonOut, options: CliOptions) -> None:
    """The table on stdout, or on stderr when stdout holds the JSON."""
    try:
        if not out.to_stdout:
            emit(text, instead=_INSTEAD)
        elif not options["quiet"]:
            say_if_heard(text.rstrip("\n"))
    finally:
        out.write(data, instead=_INSTEAD)


def _expected(config: ProbeConfig, settings: int) -> Fact:
    """How long the probes take together, before anything is known of the server."""
    most_s = config.safety.max_duration_s or float("inf")
    low_s, high_s = (settings * min(each_s, most_s) for each_s in usual_s(config.method))
    return fact("tune_planned", settings=settings, low_s=low_s, high_s=high_s)


class _Start:
    """Starts the server of one setting, waits for it, and watches it while it is measured. `ready_s`: from its start to its first
    answer; `lost`: how its command ended while it was measured, None where it did not."""

    def __init__(self, command: str, config: ProbeConfig, access: Access, within_s: float, say: Callable[[str], None]) -> None:
        self.ready_s: float | None = None
        self.lost: Ended | None = None
        self._command, self._within_s, self._say = command, within_s, say
        self._config, self._access = config, access
        self._server: Server | None = None

    async def __call__(self) -> Server:
        """The server, once it answers. Raises NotReady, and UserError where another one answers at its address."""
        target = self._config.target
        async with http_client(self._access, target.insecure) as http:

            async def answers() -> bool:
                return await _answers(http, target.url, self._access)

            if await answers():
                raise UserError(
                    f"Something answers at {target.url} before the server of a setting is started there. End it, or give"
                    " --serve and --url the place {port}, so that each server gets a free port.",
                    exit_code=NO_ANSWER,
                )
            server = await Server.start(self._command, target.url)
            try:
                self.ready_s = await server.ready(answers, self._within_s, time.monotonic)
            except NotReady as error:
                await server.stop()
                raise NotReady(error.fact, error.said or server.said) from None
            except BaseException:
                await server.stop()
                raise
        self._say(f"ready after {duration(self.ready_s)}")
        self._server = server
        return server

    def watch(self, session: Session) -> None:
        """End the run when the command ends: nobody would bring its server back."""
        assert self._server is not None

        def over(ended: asyncio.Future[Ended]) -> None:
            if not ended.cancelled():
                self.lost = ended.result()
                session.stop()

        self._server.ended.add_done_callback(over)


async def _answers(http: httpx.AsyncClient, url: str, access: Access) -> bool:
    """Whether a server is there and has its model: /health says 200, or where there is no such route, /v1/models does. Without the
    key that it asks for it is there, too."""
    status = await status_of(http, f"{url}/health", access)
    if status in (401, 403, 404, 405):
        status = await status_of(http, f"{url}/v1/models", access)
        return status in (200, 401, 403)
    return status == 200


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _measured(setting: Setting, ended: probe.Ended, answer: Answer, config: ProbeConfig, ready_s: float | None) -> Measured:
    view = ended.view
    gpus, known = fleet.gpus_per_endpoint(config.fleet, view.server)
    tokens = evidence_of(view).tokens
    return Measured(
        setting=setting,
        outcome=answer.outcome,
        message=answer.message,
        answered=answer.outcome in _ANSWERED,
        knee=answer.knee,
        gpus=gpus,
        gpus_known=known,
        mean_output=None if tokens is None else tokens.mean_output,
        ready_s=ready_s,
        run_log=None if ended.path is None else str(ended.path),
    )


class _Tune:
    """All settings, one after another, in one event loop. `found`: those that are over."""

    def __init__(self, served: Served, options: CliOptions, command: str, access: Access, start_timeout_s: float) -> None:
        self.found: list[Measured] = []
        self.interrupted = False
        self._served = served
        self._options = options
        self._command = command
        self._access = access
        self._start_timeout_s = start_timeout_s
        self._start_rps = options["start_rps"]

    async def all(self, settings: tuple[Setting, ...]) -> None:
        """Until all are over, or a signal ends it: the first lets the server end, a second leaves it to the process that guards
        it."""
        task = asyncio.current_task()
        assert task is not None

        def stop(_: int) -> None:
            task.cancel()

        with TwoStage(stop, leave_now, leave_now) as signals:
            for place, setting in enumerate(settings, start=1):
                self._say(f"setting {place} of {len(settings)}  {setting.label}")
                try:
                    measured = await self._one(setting)
                except asyncio.CancelledError:
                    if not signals.seen:
                        raise
                    self.interrupted = True
                    return
                self.found.append(measured)
                self._say(f"{setting.label}: {prose.text(measured.beaten or measured.message)}")
                if self.interrupted:
                    return

    def _label(self, setting: Setting) -> str:
        """What the run of a setting is called: all of the setting, behind the label that was given as far as there is room."""
        room = max(0, MOST_CHARS - 1 - len(setting.label))
        return f"{(self._options['label'] or '')[:room]} {setting.label}".strip()[:MOST_CHARS]

    async def _one(self, setting: Setting) -> Measured:
        """One server from its start to its end, and the knee between them."""
        port = _free_port()
        config = self._config(setting, self._served.url_of(port))
        start = _Start(self._served.command_of(setting, port), config, self._access, self._start_timeout_s, self._say)
        job = probe.Job(
            config=config,
            options=CliOptions({**self._options, "label": self._label(setting)}),
            command=self._command,
            name=setting.label,
            access=self._access,
            start=start,
            began=start.watch,
        )
        try:
            ended = await probe.run_once(job)
        except NotReady as error:
            self._last_words(error.said)
            return Measured(setting=setting, outcome="not_started", message=error.fact)
        if ended.failure is not None:
            if not isinstance(ended.failure, UserError) or ended.failure.exit_code != NO_ANSWER:
                raise ended.failure
            answer = Answer(outcome="void", message=str(ended.failure))
        else:
            answer = ended.view.known_answer or Answer(outcome="interrupted", message=fact("stopped", fact("user_ended")))
        measured = _measured(setting, ended, answer, config, start.ready_s)
        if start.lost is not None:
            self._last_words(start.lost.said)
            return replace(measured, outcome="server_lost", message=start.lost.lost, answered=False)
        self.interrupted = answer.outcome == "interrupted"
        self._keep_rates(ended)
        return measured

    def _config(self, setting: Setting, url: str) -> ProbeConfig:
        """What is asked of each: with one draw for all, what the best so far holds, and the first rate of the ramp of the first,
        so that all come to the same rates."""
        config = build(self._options, url)
        best = best_of(self.found)
        method = replace(
            config.method,
            one_draw=True,
            beat_rps=None if best is None else best.pass_per_gpu_rps,
            start_rps=self._start_rps,
        )
        sizes = {name: n for name in _SIZES if self._options[name] is None and (n := setting.whole(name)) is not None}
        return replace(config, method=method, fleet=replace(config.fleet, **sizes))

    def _keep_rates(self, ended: probe.Ended) -> None:
        """The next settings begin where the first ramp did."""
        if self._start_rps is None and ended.view.ramp:
            self._start_rps = ended.view.ramp[0].rate_rps

    def _last_words(self, said: str) -> None:
        if lines := [plain(line) for line in self._access.scrub(said).splitlines()[-_LAST_LINES:]]:
            shown = "\n".join(f"  {line}" for line in lines)
            say_if_heard(f"The last lines of the command of --serve (they are not recorded):\n{shown}")

    def _say(self, text: str) -> None:
        if not self._options["quiet"]:
            say_if_heard(plain(text))

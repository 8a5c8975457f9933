"""One live run: owns generator, scraper and search; every fact becomes an event, logged and applied to the state."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import httpx
import msgspec

from core.access import Access
from core.config import ProbeConfig
from core.errors import UserError
from core.facts import Fact, Said, fact, says
from core.fleet import FLOOR, gpus_per_endpoint
from core.judge import Done, Hold, Ramp, Search, Step, idle_e2e_s, idle_speed, token_costs
from core.load import Generator
from core.net import http_client
from core.records import Check, Hello, Phase, RequestRecord, ServerInfo, ServerSample
from core.results import Answer, Idle, TokenCosts
from core.run.answers import answer_after, close_open, complete, so_far
from core.run.away import Absence, ServerAway
from core.run.between import Between
from core.run.checking import Checking, Checks, MakeChecks
from core.run.client_info import client_info
from core.run.closed import BesideAnswer, wants_closed
from core.run.conductor import Conductor, Load
from core.run.connections import Connections, MakeScraper, scraper_of
from core.run.ends import NoAnswer, SafetyStop, Stopped
from core.run.events import (
    AnswerFound,
    Event,
    LoadStateChanged,
    Note,
    RunEnded,
    RunStarted,
    SearchRestarted,
    WorkersKnown,
    WorkloadKnown,
)
from core.run.found import Found
from core.run.limits import Others, watch
from core.run.log import RunLog
from core.run.loss import CallRoll, Replicas, loss_not_judged
from core.run.outlook import Outlook
from core.run.scraping import MachineReadings, Readings
from core.run.state import State
from core.run.steps import Steps
from core.run.twin import StartTwin, TwinWatch, narrows, wants_twin
from core.server import Discovery, Preflight
from core.singles import NO_RATE
from core.traffic import TraceArrivals
from core.twin import lacks

T = TypeVar("T")


class Session:
    """Runs a probe from preflight to answer. Readers look at `state.view(now)`; `stop` ends the load at once.

    `label` is the name that the run was given. `between` is a shell command to run between repeats, `dataset` a file whose rows are
    sent; neither the command nor the path is written anywhere. `read`: what was found in the files that the requests are from, said
    as the first checks. `found` is what the checks of a session for the same found just now, which are not made again. `twin`
    starts the process of the server's twin, for a mode that asks it. `trace`: what arrives, where that is recorded. `replicas`:
    which there are behind the target, a gateway; their metrics are read in place of its own, and `replica_access` alone is sent to
    them. `lose` is a shell command that takes some of them away after the answer; it is written nowhere either.
    The others are for tests: fakes of the child, the checks, the scraper, the clock, and (`roll`) of who is there.
    """

    state: State

    def __init__(
        self,
        config: ProbeConfig,
        log: RunLog,
        *,
        access: Access = Access(),  # noqa: B008 (frozen)
        command: str = "",
        truth_rps: float | None = None,
        label: str | None = None,
        between: str | None = None,
        read: Sequence[Check] = (),
        found: Found | None = None,
        dataset: Path | None = None,
        twin: StartTwin | None = None,
        trace: TraceArrivals | None = None,
        replicas: Discovery | None = None,
        replica_access: Access = Access(),  # noqa: B008 (frozen)
        lose: str | None = None,
        roll: CallRoll | None = None,
        gathering: str | None = None,
        start_load: Callable[[], Awaitable[Load]] = Generator.start,
        preflight: MakeChecks = Preflight,
        scraper: MakeScraper = scraper_of,
        http: Callable[[], httpx.AsyncClient] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.state = State()
        self._config = config
        self._log = log
        self._access = access
        self._command = command
        self._truth_rps = truth_rps
        self._label = label
        self._between_command = between
        self._gathering = gathering
        self._start_load = start_load
        self._connections = Connections(
            config.target,
            access,
            open_client=http or (lambda: http_client(access, config.target.insecure)),
            make_scraper=scraper,
            discovery=replicas,
            replica_access=replica_access,
            ask=self._ask,
            emit=self._emit,
            clock=clock,
        )
        self._checking = Checking(
            config,
            make=preflight,
            read=read,
            earlier=found,
            dataset=dataset,
            replicas=self._connections.replicas,
            trace=trace,
            settled=self._settled,
            emit=self._emit,
            clock=clock,
        )
        self._others = Others(config.safety)
        self._clock = clock
        self._start_twin = twin if wants_twin(config) else None
        self._twin: TwinWatch | None = None
        self._fleet: Replicas | None = None
        if roll is None and self._connections.replicas is not None:
            roll = self._connections.replicas.there
        if config.method.fleet is not None and roll is not None:
            self._fleet = Replicas(config.method.fleet, roll, lose, emit=self._emit, clock=clock)
        self._search = Search(config)
        self._generator: Load | None = None
        self._conductor: Conductor | None = None
        self._steps: Steps | None = None
        self._between: Between | None = None
        self._background: list[asyncio.Task[None]] = []
        self._broken: asyncio.Future[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = False
        self._idle: Idle | None = None
        self._beside: BesideAnswer | None = None
        self._answered: Answer | None = None
        self._anew = False
        self._prefixes_sent = False
        self._began: float | None = None
        self._load_began: float | None = None
        self._remarks: list[Said] = []
        self._outlook = Outlook(self._emit, clock)

    async def run(self) -> Answer:
        """The whole run. Returns also when stopped, refused or void: the outcome says so. Load is off when it returns.

        An error that nobody foresaw is raised again after the load is off and everything known is in log and state.
        """
        failure: BaseException | None = None
        try:
            answer = await self._supervised(self._probe)
        except (Stopped, SafetyStop, NoAnswer, UserError) as error:
            answer = self._standing(error) or self._answer_after(error)
        except (asyncio.CancelledError, Exception) as error:
            self._access.scrub_error(error)
            failure, answer = error, self._standing(error) or self._answer_after(error)
        try:
            return self._end(answer)
        finally:
            if failure is not None:
                raise failure

    async def preflight(self) -> list[Check]:
        """The checks alone, in place of `run`: each is an event as soon as it is known, nothing is loaded.

        Ends as `run` does, but without an answer; when stopped it returns the checks so far. Raises UserError and NoAnswer.
        """
        try:
            await self._supervised(self._check)
        except Stopped:
            pass
        except SafetyStop as stop:
            raise NoAnswer(fact("checks_incomplete", stop.fact)) from stop
        return list(self.state.view(self._clock()).checks)

    def stop(self) -> None:
        """Stop all load within 0.5 s and let `run` return `interrupted` with what is finished. Idempotent; any time, any thread."""
        self._stopping = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._break, Stopped())

    def change_rate(self, factor: float) -> float | None:
        """Multiply the rate that is held (`--hold`), at most to --max-rps; the new one starts when what is open has ended.

        Returns the rate to come, or None while no rate is held. To be called in the run's event loop; raises ValueError for
        a factor that is not above 0.
        """
        return None if self._steps is None or self._stopping else self._steps.change_rate(factor)

    def end_step(self) -> bool:
        """End the step that runs and go on without it; its load ends within 0.5 s, and the repeats and a verdict it has are kept.

        Returns False, and does nothing, for a ramp, a held rate and while no step runs. To be called in the run's event loop.
        """
        return False if self._steps is None or self._stopping else self._steps.end_step()

    @property
    def singles(self) -> tuple[RequestRecord, ...]:
        """The judged single requests on the idle server, once the checks are through; empty where they did not come to that."""
        return self._checking.singles

    @property
    def found(self) -> Found | None:
        """What the checks found, for a run right after them; None before they are through, and where one of them refuses."""
        return self._checking.found

    @property
    def between_output(self) -> str | None:
        """The end of what a failing --between command printed: for the terminal alone, since no log or result holds it."""
        return self._between.output if self._between is not None else None

    @property
    def lose_output(self) -> str | None:
        """The same of a failing --lose-command."""
        return self._fleet.output if self._fleet is not None else None

    # --- the run itself ---

    async def _probe(self, http: httpx.AsyncClient) -> Answer:
        preflight = await self._check(http)
        refused = self._checking.refused
        told = fact("refused", *(check.message for check in refused))
        missed = any(says(check.message, *NO_RATE) for check in refused)  # then infeasible, whatever the hardware says on paper
        if refused and not (missed and all(says(check.message, *NO_RATE, *FLOOR) for check in refused)):
            return so_far(self._search, "refused", told)
        self._begin_search(preflight.singles, preflight.info)
        self._idle = idle_speed(preflight.singles)
        idle_s = idle_e2e_s(preflight.singles)
        if refused or preflight.hello is None or idle_s is None:
            action = self._search.next(0.0)
            answer = action.answer if isinstance(action, Done) else so_far(self._search, "infeasible", told)
            return msgspec.structs.replace(answer, required_met=self._search.require_met)
        if (short := self._search.too_little) is not None:
            raise NoAnswer(short)
        await self._load.hello(preflight.hello)
        return await self._climb(preflight.info, idle_s)

    def _begin_search(self, singles: Sequence[RequestRecord], server: ServerInfo | None) -> None:
        self._search.observe_singles(singles, self._spent_s)
        if (per_gpu_rps := self._config.method.beat_rps) is not None:
            gpus, _ = gpus_per_endpoint(self._config.fleet, server)
            self._search.beat(per_gpu_rps * gpus)

    async def _check(self, http: httpx.AsyncClient) -> Checks:
        async def send(hello: Hello, n: int, phase: Phase) -> list[RequestRecord]:
            method = self._config.method
            if phase == "prefix":
                await self._load.hello(hello)
                self._prefixes_sent = True
                return await self._conducting.prefixes(self._config)
            return await self._conducting.singles(hello, n, phase, method.seed_of_requests, method.drain_s)

        preflight = await self._checking.run(self._access, http, send)
        self._connections.alive_path = preflight.info.alive_path
        return preflight

    def _settled(self, config: ProbeConfig) -> None:
        """What requests ask for is known: nothing that is to be judged was sent yet."""
        self._config, self._search = config, Search(config)
        self._emit(WorkloadKnown(t=self._clock(), workload=config.workload, rates_rps=config.method.rates_rps))

    async def _climb(self, server: ServerInfo, idle_s: float) -> Answer:
        """Run what the search asks for until it has its answer."""
        readings = Readings(self._connections.source(server), self._emit, self._clock, self._sampled, self._config.safety)
        self._spawn(readings.pump())
        await readings.fresh(self._clock())
        machine = MachineReadings.of(self._config.target.gpu_metrics_url, self._connections.open, self._emit, self._clock)
        self._spawn(machine.pump())
        self._between = self._prepared_between(readings)
        if self._start_twin is not None and lacks(self._config.workload) is None:
            self._twin = TwinWatch(self._config, server, self._start_twin, self._emit, self._clock)
        absence = Absence(self._ask, readings, self._emit, self._clock, server.model)
        self._steps = steps = Steps(
            self._config,
            server,
            idle_s,
            state=self.state,
            conductor=self._conducting,
            readings=readings,
            between=self._between,
            absence=absence,
            ask=self._ask,
            emit=self._emit,
            remark=self._remark,
            sync=self._log.sync,
            clock=self._clock,
            others=self._others,
            machine=machine.kept,
            outlook=self._outlook,
            twin=self._twin,
            trace=self._checking.trace,
            costs=self._costs,
            prefixes_known=self._prefixes_sent,
        )
        answer: Answer | None = None
        if self._fleet is not None:
            await self._fleet.check()
        while answer is None:
            try:
                answer = await self._to_the_answer(steps)
            except ServerAway as away:
                await self._begin_anew(away, absence)
        if self._fleet is not None and self._fleet.loses(self._search):
            self._answered = self._completed(answer)
            self._answered = await self._fleet.judge_again(self._answered, self._search, steps, self._outlook)
            return self._answered
        if not wants_closed(self._config, answer):
            return answer
        self._answered = self._completed(answer)
        self._emit(AnswerFound(t=self._clock(), answer=self._answered))
        self._log.sync()
        await self._measure_beside(self._answered, idle_s, readings)
        return self._answered

    async def _measure_beside(self, answer: Answer, idle_s: float, readings: Readings) -> None:
        """A closed loop beside the answer, which stands by then."""
        limit_s, began = self._config.safety.max_duration_s, self._began
        self._beside = BesideAnswer(
            self._config,
            idle_s,
            conductor=self._conducting,
            readings=readings,
            others=self._others,
            ask=self._ask,
            emit=self._emit,
            clock=self._clock,
            ends_at=None if limit_s is None or began is None else began + limit_s,
        )
        await self._beside.run(answer)

    async def _to_the_answer(self, steps: Steps) -> Answer:
        """One search from its beginning. Raises ServerAway."""
        began = self._clock()
        if self._load_began is None or self._config.method.budget_s is None:  # a time that the user set is not set anew
            self._load_began = began
        else:
            began = self._load_began
        self._announce()
        while True:
            action = self._search.next(self._clock() - began)
            left_s = self._search.left_s(self._clock() - began)
            match action:
                case Done(answer=answer):
                    return msgspec.structs.replace(answer, required_met=self._search.require_met)
                case Ramp():
                    self._begin(action, began, left_s)
                    self._search.observe_ramp(*await steps.ramp(action, left_s))
                    if (longer_s := self._search.longer_s(self._clock() - began)) is not None:
                        self._emit(Note(t=self._clock(), level="warn", text=fact("time_longer", total_s=longer_s)))
                case Hold():
                    await steps.hold(action)
                case _:
                    self._begin(action, began, left_s)
                    result = await steps.step(action, left_s)
                    if steps.ended:
                        self._search.skip(action.rate_rps, action.phase)
                        continue
                    if self._fleet is not None:
                        await self._fleet.check(result)
                    # a pass that was done again with a longer warm-up (unjudged) has measured its latencies all the same
                    passed = [repeat.e2e_s.mean for repeat in result.repeats if repeat.verdict in ("pass", "unjudged")]
                    self._search.observe_step(result, passed[-1] if passed else None)
                    if self._twin is not None:
                        self._search.observe_twin(await self._twin.look(self._search.near_rps))
                    if (wide := self._search.stays_wide(self._clock() - began)) is not None:
                        self._emit(Note(t=self._clock(), text=wide))

    def _announce(self) -> None:
        """Say how long the search takes, and what makes its requests other than the usual ones."""
        config = self._config
        workload = config.workload
        self._emit(Note(t=self._clock(), text=fact("time_announced", self._search.expected())))
        if workload.arrival_cv > 1:
            self._remark(fact("bursty_arrivals", arrival_cv=workload.arrival_cv))
        if narrows(config.method) and (lacking := lacks(workload)) is not None:
            self._emit(Note(t=self._clock(), text=fact("twin_unasked", lacking)))
        if (gateway := workload.gateway) is not None:
            self._remark(fact("gateway_limit", limit=gateway.limit, queue=gateway.queue, timeout_s=gateway.timeout_s))
        if (trace := workload.trace) is not None:
            ramp = not config.method.rates_rps and config.method.hold_rps is None
            self._emit(Note(t=self._clock(), text=fact("trace_played", mean_rps=trace.mean_rps, gap_cv=trace.gap_cv, ramp=ramp)))

    @property
    def _costs(self) -> TokenCosts | None:
        """What tells how much work a window brings. Tokens of a prefix cost nothing, so that lengths alone do not tell it."""
        if self._idle is None or not self._config.workload.prefix.cold:
            return None
        return token_costs(self._config.workload, self._idle)

    def _begin(self, action: Ramp | Step, began: float, left_s: float | None) -> None:
        search = self._search
        self._outlook.begin(action, left_s, search.later_s(self._clock() - began), search.e2e_s, search.extended_s)

    @property
    def _spent_s(self) -> float:
        """How long the run goes on already."""
        return 0.0 if self._began is None else self._clock() - self._began

    async def _begin_anew(self, away: ServerAway, absence: Absence) -> None:
        """Wait for a server that is away, and start the search anew: once, since a server that goes away again is no replica that
        could be measured. What was known of it idle stays. Raises NoAnswer."""
        if self._anew:
            raise NoAnswer(away.again)
        if (why := await absence.over(away)) is not None:
            raise NoAnswer(why)
        self._anew = True
        self._remarks.clear()
        if self._twin is not None:
            self._twin.anew()
        self._search = Search(self._config)
        self._begin_search(self._checking.singles, self.state.view(self._clock()).server)
        self._outlook.anew()
        now = self._clock()
        self._emit(SearchRestarted(t=now, since=away.since))
        self._remark(away.was(now))

    async def _ask(self, within_s: float) -> RequestRecord | None:
        method = self._config.method
        return await self._conducting.ask(method.seed_of_requests, min(within_s, method.drain_s))

    def _sampled(self, sample: ServerSample) -> None:
        self._conducting.sampled(sample)
        self._others.sampled(sample)
        if self._twin is not None:
            self._twin.sampled(sample)

    def _prepared_between(self, readings: Readings) -> Between:
        http = self._connections.open()
        return Between(
            self._between_command,
            partial(self._connections.reset_cache, http) if self._config.method.reset_cache else None,
            health=partial(self._connections.status, http),
            readings=readings,
            emit=self._emit,
            clock=self._clock,
        )

    # --- what keeps it in order ---

    async def _supervised(self, body: Callable[[httpx.AsyncClient], Coroutine[Any, Any, T]]) -> T:
        """Run `body` beside its background tasks; the first of them to fail, or `stop`, ends it. No load is left afterwards."""
        self._loop = asyncio.get_running_loop()
        self._broken = self._loop.create_future()
        begin = datetime.now().astimezone()
        self._emit(
            RunStarted(
                t=self._clock(),
                started_utc=f"{begin.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}",
                config=self._config,
                client=client_info(),
                command=self._command,
                truth_rps=self._truth_rps,
                label=self._label,
                utc_offset_s=int((begin.utcoffset() or timedelta()).total_seconds()),
            )
        )
        task: asyncio.Task[T] | None = None
        began = self._began = self._clock()
        try:
            if self._stopping:
                raise Stopped
            http = self._connections.open()
            if self._gathering is not None:
                self._emit(Note(t=self._clock(), text=fact("workers_gathering", self._gathering)))
            self._generator = await self._start_load()
            if self._generator.workers:
                self._emit(WorkersKnown(t=self._clock(), workers=self._generator.workers))
            self._conductor = Conductor(self._generator, self._emit, self._clock, partial(self._connections.healthy, http))
            self._spawn(self._conductor.pump())
            self._spawn(watch(self._config.safety, lambda: self._conducting.in_flight, self._clock, began))
            task = asyncio.create_task(body(http))
            either: set[asyncio.Future[Any]] = {task, self._broken}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                if isinstance(task.exception(), SafetyStop):
                    await self._conductor.cut()
                return task.result()
            await self._quit(task)
            raise self._broken.exception() or Stopped()
        finally:
            await self._shut_down(task)

    async def _quit(self, task: asyncio.Task[T]) -> None:
        """End `task`; if the run was stopped or has reached a limit, with the child's word that nothing is in flight any more."""
        task.cancel()
        await asyncio.wait({task})
        why = self._broken.exception() if self._broken is not None else None
        if isinstance(why, (Stopped, SafetyStop)) and self._conductor is not None:
            await self._conductor.cut()

    async def _shut_down(self, task: "asyncio.Task[T] | None") -> None:
        """Load first: the child ends before anything else is put away."""
        tasks: list[asyncio.Task[Any]] = [*self._background, *([task] if task is not None else [])]
        for each in tasks:
            each.cancel()
        if self._generator is not None:
            await self._generator.close()
        if self._twin is not None:
            await self._twin.close()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._connections.close()
        if self._broken is not None and not self._broken.cancel():
            self._broken.exception()  # seen, even if the run ended by itself in the same moment
        self._broken = self._loop = None

    def _standing(self, error: BaseException) -> Answer | None:
        """The answer that was found before `error` ended what is measured beside it; None where there was none yet."""
        if self._beside is not None:
            try:
                self._beside.broken_off(error)
            except UserError as unwritten:
                self.state.apply(Note(t=self._clock(), level="error", text=str(unwritten)))
        elif self._answered is not None:
            return loss_not_judged(self._answered, self._answer_after(error))
        return self._answered

    def _answer_after(self, error: BaseException) -> Answer:
        try:
            if self._steps is not None:
                close_open(error, self._search, self._steps)
        except UserError as unwritten:
            self.state.apply(Note(t=self._clock(), level="error", text=str(unwritten)))
        return answer_after(error, self._search, self._steps)

    def _end(self, answer: Answer) -> Answer:
        """The last events, and the answer with its diagnosis. The file may be the very thing that failed; the state has them
        in any case."""
        try:
            if self._answered is None:
                answer = self._completed(answer)
            if answer.outcome in ("interrupted", "held"):
                self._emit(LoadStateChanged(t=self._clock(), state="stopped"))
            elif self.state.load != "idle":
                self._emit(LoadStateChanged(t=self._clock(), state="idle"))
            self._emit(RunEnded(t=self._clock(), answer=answer))
            self._log.sync()
        except UserError as error:
            self.state.apply(Note(t=self._clock(), level="error", text=str(error)))
            self.state.apply(RunEnded(t=self._clock(), answer=answer))
        return answer

    def _completed(self, answer: Answer) -> Answer:
        """The answer with what is to be said beside it, and its diagnosis."""
        if self._steps is not None and (apart := self._steps.apart(answer.knee)) is not None:
            self._remarks.append(apart)
        return complete(answer, self._config, self.state.view(self._clock()), self._idle, self._remarks, self._note)

    def _note(self, text: Said) -> None:
        self._emit(Note(t=self._clock(), level="error", text=text))

    def _remark(self, remark: Fact) -> None:
        """Say what stands beside the answer, too."""
        self._remarks.append(remark)
        self._emit(Note(t=self._clock(), level="warn", text=remark))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        task.add_done_callback(self._background_ended)
        self._background.append(task)

    def _background_ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._break(error)

    def _break(self, error: BaseException) -> None:
        if self._broken is not None and not self._broken.done():
            self._broken.set_exception(error)

    def _emit(self, event: Event) -> None:
        try:
            self._log.append(event)
        finally:
            self.state.apply(event)

    @property
    def _load(self) -> Load:
        if self._generator is None:
            raise RuntimeError("the load generator is not up")
        return self._generator

    @property
    def _conducting(self) -> Conductor:
        if self._conductor is None:
            raise RuntimeError("the load generator is not up")
        return self._conductor

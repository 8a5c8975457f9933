"""The Connect screen as a program: it asks what to run, checks it, and ends with that; the run is another program's."""

import asyncio
import dataclasses
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import httpx
from msgspec.structs import replace
from rich.segment import Segments
from rich.traceback import Traceback
from textual import events
from textual.app import SystemCommand
from textual.binding import BindingType
from textual.driver import Driver
from textual.screen import Screen
from textual.timer import Timer

from core import prose
from core.access import Access
from core.address import split_address
from core.config import ProbeConfig
from core.errors import UserError
from core.net import http_client
from core.server import Caller, Credential, NoModels, Places, list_models, others_now
from tui import keys
from tui.cli import profiles, prompts
from tui.cli.argv import Texts
from tui.cli.probe import checking
from tui.cli.watch import Job
from tui.connect import recent
from tui.connect.choose import Choose
from tui.connect.confirm import Confirm
from tui.connect.fields import FIELDS, MODEL, MORE, RunRequest, Wrong, fields_of, placeholders, read, sketch, understood
from tui.connect.forecast import forecast
from tui.connect.form import Form
from tui.connect.help import ConnectHelp
from tui.connect.in_order import InOrder
from tui.connect.preflight_run import Makes, PreflightRun, connect_status
from tui.connect.presets import PRESETS
from tui.connect.save_profile import SaveProfile
from tui.connect.screen import ConnectScreen, Shown
from tui.draw.style import CHECKS, THEME_16, set_up_themes
from tui.terminal.signals import NO_ANSWER

POLL_S = 0.25
_LEAVE_KEYS = ("escape", "ctrl+c", "ctrl+q")
LEAVE_S = 2.0
"""Single requests are cancelled within 0.5 s; the app waits so long for that before it leaves anyway."""
WIDTHS: list[tuple[int, str]] = [(0, "-cramped"), (60, "-narrow"), (100, "-broad"), (120, "-roomy"), (160, "-wide")]
HEIGHTS: list[tuple[int, str]] = [(0, "-squat"), (16, "-short"), (22, "-middle"), (32, "-tall")]

MOST_MODELS = 500
"""Nobody chooses from more."""

Lists = Callable[[str, Access, bool], Awaitable[tuple[str, ...]]]
Near = Callable[[ProbeConfig], Awaitable[bool]]


async def listed(url: str, access: Access, insecure: bool = False, http: httpx.AsyncClient | None = None) -> tuple[str, ...]:
    """The names of the models that a server lists, for a user to choose from. Raises UserError when there is no such list."""
    async with http or http_client(access, insecure) as client:
        try:
            cards = await list_models(Caller(client, Credential(url, access)), *split_address(url))
        except NoModels as none:
            words = prose.sentence(none.found)
            if none.key_wanted and not access.api_key:
                words = f"{prose.text(none.found)}, which needs the API key: it is sent with the checks."
            raise UserError(Credential(url, access).scrub(words)) from None
    return tuple(card.id for card in cards[:MOST_MODELS])


@dataclass(frozen=True)
class Demo:
    """A run of a simulated replica was asked for, which needs no server, no checks and no form."""


@dataclass(frozen=True)
class Watch:
    """The server in the fields was asked to be watched, with the access in them; no load is wanted."""

    job: Job


class ConnectApp(InOrder[RunRequest]):
    """Returns the run that was asked for and may start, or None when the user left; `instead` is what was asked for in its place.

    `profile`: what the fields begin with;
    `note` is said above the checks until there are any. The rest is for tests and pictures, which reach no server."""

    TITLE = "kneescope"
    CSS_PATH = "connect.tcss"
    HORIZONTAL_BREAKPOINTS = WIDTHS
    VERTICAL_BREAKPOINTS = HEIGHTS
    BINDINGS: ClassVar[list[BindingType]] = [*keys.connect_bindings()]

    def __init__(
        self,
        environ: Mapping[str, str],
        profile: Texts | None = None,
        *,
        note: str | None = None,
        makes: Makes = checking,
        lists: Lists = listed,
        looks: prompts.Looks = prompts.look_at,
        near: Near = prompts.near,
        clock: Callable[[], float] = time.monotonic,
        driver_class: type[Driver] | None = None,
    ) -> None:
        super().__init__(driver_class=driver_class)
        set_up_themes(self)
        self._environ = environ
        self._makes = makes
        self._lists = lists
        self._looks = looks
        self._near = near
        self._with_others: str | None = None
        self._clock = clock
        self._note = note
        self._ask = ConnectScreen(fields_of(profile or {}))
        self._left: set[str] = set()
        self._request: RunRequest | None = None
        self._sketch: ProbeConfig | None = None
        self._problems: Mapping[str, str] = {}
        self._wish: RunRequest | None = None
        self.instead: Demo | Watch | None = None
        self._listed: str | None = None
        self._preflight: PreflightRun | None = None
        self._work: asyncio.Task[None] | None = None
        self._again = False
        self._leaving = False
        self._drawn = asyncio.Event()
        self._looking: Timer | None = None

    def get_default_screen(self) -> ConnectScreen:
        """The one there is."""
        return self._ask

    def on_mount(self) -> None:
        """Nothing is sent before the user does something."""
        if self.console.color_system == "standard" and not self.is_headless:
            self.theme = THEME_16.name
        self._read()
        self._looking = self.set_interval(POLL_S, self.look)
        self.call_after_refresh(self.look)

    def on_ready(self) -> None:
        """All fields are there; the footer, which may have come after what was said of the keys, hears it again."""
        self._drawn.set()
        self._ask.refresh_bindings()

    def on_resize(self) -> None:
        """Text that depends on the size follows it at once."""
        self.call_after_refresh(self.look, again=True)

    def accepts(self, event: events.Event) -> bool:
        """Where nothing can be seen nothing is typed, and nothing starts."""
        blind = self.screen is self._ask and self._ask.too_small
        return not (blind and isinstance(event, events.Key | events.Paste)) or getattr(event, "key", "") in _LEAVE_KEYS

    # --- what the user does ---

    def on_form_changed(self) -> None:
        """Typing sends nothing."""
        self._read()
        self.look()

    def on_form_left(self, event: Form.Left) -> None:
        """Another address: what models does it have? Other settings, once checks were asked for at this address: check again."""
        self._left.add(event.name)
        self._read()
        request = self._request
        if request is not None and request.url != self._listed:
            self._list_models(request, replace(request.access, api_key=None, headers=()))
        if request is not None and self._stale and self._preflight is not None and request.url == self._preflight.request.url:
            self._check(request)
        self.look()

    def on_input_submitted(self) -> None:
        """Enter in the last field."""
        self.action_start()

    def on_button_pressed(self) -> None:
        """The one button."""
        self.action_start()

    def action_check(self) -> None:
        """Do the checks now, also those that are done."""
        self._left.update(FIELDS)
        self._read()
        if self._request is None:
            self._to_first_problem("Nothing was checked")
        else:
            self._list_models(self._request, self._request.access)
            self._check(self._request)
        self.look()

    def action_start(self) -> None:
        """Start what was checked, with the permission that it takes; else check it first, and start at another press, which may
        come while the checks run. What a check refuses never starts."""
        self.look()
        request, shown = self._request, self._shown()
        if request is not None and self._may_wish:
            self._wish = request
            self.look()
            return
        if request is not None and shown.may_start:
            self.run_worker(self._begin(request), group="start", exclusive=True)
        elif request is not None and shown.may_ask:
            self.run_worker(self._ask_for_others(request), group="start", exclusive=True)
        elif request is None or self._preflight is None or self._stale or self._preflight.stage in ("stopped", "broken"):
            self.action_check()

    def action_save(self) -> None:
        """Ask where to keep the settings."""
        self._left.update(FIELDS)
        self._read()
        request = self._request
        if request is None:
            self._to_first_problem("Nothing was saved")
        elif not isinstance(self.screen, SaveProfile):
            save = lambda path, may_replace: profiles.save(path, request.url, request.words, replace=may_replace)  # noqa: E731
            self.push_screen(SaveProfile(save), self._tell)
        self.look()

    def action_leave(self) -> None:
        """Take back a start that waits for the checks; stop the checks while there are any; then leave."""
        if self._wish is not None and not self._leaving:
            self._wish = None
            self.look()
        elif self._work is None or self._leaving:
            self._go()
        elif self._preflight is not None and self._preflight.stopping:
            self.close()
        else:
            self._stop()

    def action_interrupt(self) -> None:
        """Ctrl-C: as escape, whatever is open."""
        self.action_leave()

    def action_recent(self) -> None:
        """Choose one of the servers of the last times."""
        servers = recent.load()
        if not servers:
            self._tell("No server has been checked from this screen yet.")
            return
        self._choose("Recent servers", servers, [{profiles.URL: each.url, MODEL: each.model} for each in servers], profiles.URL)

    def action_limits(self) -> None:
        """Choose limits that are usual for a kind of use."""
        self._choose("Limits for", [(each.name, each.told) for each in PRESETS], [each.texts for each in PRESETS], "ttft")

    def action_demo(self) -> None:
        """Run against a simulated replica, as `kneescope demo`; what stands in the fields is left as it is."""
        if self._work is None:
            self.instead = Demo()
            self._go()
        else:
            self._tell("Checks are running; esc stops them, then f3 starts the demo.")

    def action_watch(self) -> None:
        """Watch the server in the fields, which sends it no load; the other fields may be empty, but not wrong."""
        self._left.update(FIELDS)
        self._read()
        request = self._request
        if request is None:
            self._to_first_problem("Nothing is watched")
        elif self._work is not None:
            self._tell("Checks are running; esc stops them, then f5 watches the server.")
        else:
            target = request.config.target
            places = Places((request.url,))
            self.instead = Watch(
                Job(places=places, access=request.access, insecure=target.insecure, metrics_url=target.metrics_url)
            )
            self._go()
            return
        self.look()

    def action_explain(self) -> None:
        """The keys, what is sent when, and the fields."""
        self.push_screen(ConnectHelp())

    def action_read(self) -> None:
        """The checks in whole sentences."""
        self._ask.read_checks()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While a question or the help is open nothing else begins."""
        if action in ("explain", "read"):
            return self.screen is self._ask
        if action in ("recent", "limits", "demo", "watch"):
            return self.screen is self._ask
        return action not in ("check", "start", "save") or not isinstance(self.screen, Confirm | ConnectHelp | Choose)

    async def action_quit(self) -> None:
        """Textual's own ways to quit mean the same as escape."""
        self.action_leave()

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """The palette: no picture of this screen, in whose fields a secret may stand."""
        for key in keys.CONNECT:
            if key.action != "interrupt" and self.check_action(key.action, ()):
                yield SystemCommand(key.short, key.help, partial(self.run_action, key.action))
        yield SystemCommand("Theme", "choose other colours", self.action_change_theme)

    def close(self) -> None:
        """Leave as soon as nothing is in flight any more. Fit for signal handlers in this loop."""
        if self._work is None:
            self._go()
            return
        self._leaving = True
        self._stop()
        self.set_timer(LEAVE_S, self._go)

    async def end(self) -> None:
        """After the screen has closed: no request is left."""
        if self._work is not None:
            self._stop()
            await asyncio.wait({self._work}, timeout=LEAVE_S)

    # --- what is done about it ---

    async def _begin(self, asked: RunRequest, *, may_ask: bool = True) -> None:
        """Go, unless the server is far and nobody permits its load. `may_ask` False: no question comes up by itself, for what
        somebody is typing into a field must not be its answer."""
        request = asked
        if not request.config.safety.public_ok and not await self._near(request.config):
            if not may_ask:
                self._tell(f"The checks are done. {request.url} is a remote server: ctrl+s asks whether you may load it.")
                return
            if not await self.push_screen_wait(Confirm(prompts.FAR.format(request.url))):
                return
            request = _agreed(request, public_ok=True)
        if self._request != asked:
            self._tell("The settings have changed, so nothing was started; ctrl+s starts with what they are now.")
        elif not self._leaving and self._shown().may_start and self._preflight is not None:
            profiles.save_last(request.url, request.words)
            self._go(dataclasses.replace(request, found=self._preflight.kept))

    def _grant(self) -> None:
        """The checks are through, and a start was waiting for them."""
        request, self._wish = self._wish, None
        if request is None or not self._shown().may_start:
            return
        if self.screen is self._ask:
            self.run_worker(self._begin(request, may_ask=False), group="start", exclusive=True)
        else:
            self._tell("The checks are done; ctrl+s starts the load.")

    @property
    def _may_wish(self) -> bool:
        """Whether checks of what the fields hold are going on."""
        running = self._preflight is not None and self._preflight.stage == "checking" and not self._preflight.stopping
        return running and not self._stale

    def _choose(self, title: str, rows: Sequence[tuple[str, str]], texts: Sequence[Mapping[str, str]], left: str) -> None:
        """Let one of the rows be chosen, whose texts go into the fields as if they had been typed and the field `left` left."""

        def take(at: int | None) -> None:
            if at is not None:
                self._ask.form.fill(texts[at])
                self.on_form_left(Form.Left(left))

        self.push_screen(Choose(title, rows), take)

    async def _ask_for_others(self, request: RunRequest) -> None:
        """How many requests of others there are now; permission to load on top of them, and then the checks that they held up."""
        try:
            others = others_now((await self._looks(request.config, request.access)).sample)
        except UserError as error:
            self._tell(str(error))
            return
        if others != 0:
            if not await self.push_screen_wait(Confirm(prompts.OTHERS.format(prompts.requests(others)))):
                return
            self._with_others = request.url
        self._read()
        if self._request is not None:
            self._check(self._request)
        self.look()

    def _read(self) -> None:
        form = self._ask.form
        self._sketch = sketch(form.texts)
        try:
            request = read(form.texts, form.key, self._environ)
            if request.url == self._with_others:
                request = _agreed(request, with_others=True)
            self._request, self._problems = request, {}
        except UserError as error:
            self._request, self._problems = None, {"": str(error)}
        except Wrong as error:
            self._request, self._problems = None, error.problems
        if self._wish is not None and self._wish != self._request:
            self._wish = None
            self._tell("The settings have changed, so the load does not start by itself any more.")

    @property
    def _stale(self) -> bool:
        return self._preflight is not None and (self._request is None or self._request.checked != self._preflight.request.checked)

    def _list_models(self, request: RunRequest, access: Access) -> None:
        self._listed = request.url
        self.run_worker(self._offer(request, access), group="models", exclusive=True)

    async def _offer(self, request: RunRequest, access: Access) -> None:
        """Without the key and the headers, unless the user asked for checks: an address that was mistyped must not get it."""
        try:
            names = await self._lists(request.url, access, request.config.target.insecure)
        except UserError as error:
            names, self._note = (), f"{CHECKS['refuse'].glyph} {error}"
        else:
            self._note = _models_note(len(names))
        await self._drawn.wait()
        self._ask.form.offer_models(names)
        self.look()

    def _check(self, request: RunRequest) -> None:
        """Begin the checks; those that are going on end first."""
        if self._work is not None:
            self._again = True
            self._stop()
            return
        self._again = False
        self._preflight = PreflightRun(request, self._makes, self._clock)
        self._work = asyncio.create_task(self._carry(self._preflight))

    async def _carry(self, preflight: PreflightRun) -> None:
        await preflight.run()
        self._work = None
        if self._leaving:
            self._go()
        elif self._again and self._request is not None:
            self._check(self._request)
        else:
            self._remember(preflight)
            self._grant()
        self.look()

    def _remember(self, preflight: PreflightRun) -> None:
        """A server that was understood is one of the recent ones."""
        if preflight.stage == "ready":
            model = preflight.found.info.model if preflight.found is not None else None
            recent.remember(preflight.request.url, preflight.request.config.target.model or model)

    def _stop(self) -> None:
        self._wish = None
        if self._preflight is not None:
            self._preflight.stop()

    def _go(self, request: RunRequest | None = None) -> None:
        if self._looking is not None:  # there is nothing left to draw on
            self._looking.stop()
        self.exit(request)

    def _to_first_problem(self, what: str) -> None:
        """Go to the field that is wrong, and say which and why: it may be the one that has the focus already."""
        name = next((name for name in FIELDS if name in self._problems), MORE)
        self._ask.form.control(name).focus()
        why = self._problems.get(name) or next(iter(self._problems.values()), "")
        label = FIELDS[name].label if name in self._problems else "the settings"
        self._tell(f"{what}; fix {label} first: {why.removeprefix(f'{label}: ')}")

    def _tell(self, text: str | None) -> None:
        if text:
            self.clear_notifications()
            self.notify(text, timeout=8, markup=False)

    # --- what is shown ---

    def look(self, again: bool = False) -> None:
        """Show how it stands."""
        if self._ask.is_attached:
            self._ask.show(self._shown(), again=again)

    def _shown(self) -> Shown:
        request, preflight, stale = self._request, self._preflight, self._stale
        problems = {name: why for name, why in self._problems.items() if name in self._left or not name}
        singles = preflight.singles if preflight is not None and not stale else ()
        mark, following = connect_status(preflight, stale=stale, wrong=bool(problems), wished=self._wish is not None)
        note = preflight.failure if preflight is not None and preflight.failure else self._note if preflight is None else None
        return Shown(
            mark=mark,
            next=following,
            problems=problems,
            understood=understood(self._ask.form.texts[profiles.URL]),
            placeholders=placeholders(self._sketch, self._environ),
            checks=preflight.view() if preflight is not None else None,
            note=note,
            sent=self._listed is not None,
            stale=stale,
            age_s=preflight.age_s // 1 if preflight is not None and preflight.age_s is not None else None,
            forecast=forecast(self._sketch, singles) if self._sketch else None,
            command=request.command if request else "",
        )

    def _fatal_error(self) -> None:
        """As textual's, but without local variables, one of which could hold the key."""
        self._exit_renderables.append(Segments(self.console.render(Traceback(show_locals=False, width=None))))
        self._close_messages_no_wait()


def _agreed(request: RunRequest, **permission: bool) -> RunRequest:
    return dataclasses.replace(request, config=prompts.agreed(request.config, **permission))


def _models_note(n: int) -> str | None:
    if n == 0:
        return "✘ The server lists no model."
    return None if n == 1 else f"▲ The server has {n} models: choose one."


def ask(environ: Mapping[str, str]) -> RunRequest | Demo | Watch | None:
    """Show the screen, with the settings of the last time, until a run, the demo or a watch is asked for or the user leaves (None).

    Raises UserError when the screen itself failed.
    """
    from tui.terminal.display import StderrDriver, carried

    profile, note = profiles.load_last()
    app = ConnectApp(environ, profile, note=note, driver_class=StderrDriver)
    asyncio.run(carried(app, app.action_leave, app.close, app.end))
    if app.return_code:
        raise UserError("The screen failed with an error of its own; no load was sent.", NO_ANSWER)
    return app.instead or app.return_value

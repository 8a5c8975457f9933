"""What is asked at a terminal before a run: answers come from the test, looks at the server too."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import click
import httpx
import pytest

from core.access import Access
from core.config import ProbeConfig, Target
from core.errors import UserError
from core.records import ServerSample
from core.server import probe as looking
from core.server.probe import ServerGlance
from tests.builders import HERE, config
from tests.core.server.fakes import FakeVllm, capture, client
from tui.cli import prompts

KEY = "sk-TESTSECRET"
THERE = "https://8.8.8.8"


@dataclass
class Person:
    """Answers what is asked, in order; keeps the questions, and which of them hide what is typed."""

    answers: list[object]
    asked: list[str] = field(default_factory=list)
    hidden: list[str] = field(default_factory=list)

    def prompt(self, text: str, **options: object) -> object:
        self.asked.append(text)
        assert options["err"], "stdout is for results"
        if options.get("hide_input"):
            self.hidden.append(text)
        return self.answers.pop(0)

    def confirm(self, text: str, *, default: bool, err: bool) -> object:
        assert (default, err) == (False, True)
        self.asked.append(text)
        return self.answers.pop(0)


@pytest.fixture
def person(monkeypatch: pytest.MonkeyPatch) -> Person:
    person = Person([])
    monkeypatch.setattr(click, "prompt", person.prompt)
    monkeypatch.setattr(click, "confirm", person.confirm)
    monkeypatch.setattr(prompts, "AGAIN_S", 0.0)
    return person


class Looks:
    """One look after another, the last for ever; keeps what opened them."""

    def __init__(self, looks: Iterable[ServerGlance]) -> None:
        self._looks = list(looks)
        self.accesses: list[Access] = []

    async def __call__(self, config: ProbeConfig, access: Access) -> ServerGlance:
        self.accesses.append(access)
        return self._looks.pop(0) if len(self._looks) > 1 else self._looks[0]


def busy(running: float) -> ServerSample:
    return ServerSample(t=0.0, took_s=0.0, running=running, waiting=1.0 if running else 0.0)


PLAIN = ServerGlance(near=True, models=("tiny",), sample=busy(0))
SHUT = ServerGlance(near=True, key_wanted=True)


def test_nothing_is_asked_where_nothing_is_missing(person: Person) -> None:
    asked = config()
    assert prompts.settle(asked, Access(), Looks([PLAIN])) == (asked, Access())
    assert person.asked == []


def test_a_server_that_is_far_is_loaded_only_with_permission(person: Person) -> None:
    person.answers = [True]
    settled, _ = prompts.settle(config(THERE), Access(), Looks([PLAIN]))
    assert settled.safety.public_ok
    assert THERE in person.asked[0]

    looks = Looks([PLAIN])
    person.answers = [False]
    with pytest.raises(UserError, match="no load was sent; give --yes"):
        prompts.settle(config(THERE), Access(), looks)
    assert looks.accesses == []  # a key would have gone there

    prompts.settle(config(THERE, public_ok=True), Access(), Looks([PLAIN]))
    prompts.settle(config(THERE), Access(), Looks([PLAIN]), loads=False)
    assert len(person.asked) == 2


def test_a_name_that_only_a_proxy_knows_is_far(person: Person) -> None:
    person.answers = [True]
    unknown = Target(url="http://nowhere.invalid", proxy="http://proxy:3128")
    settled, _ = prompts.settle(ProbeConfig(target=unknown), Access(proxy="http://proxy:3128"), Looks([PLAIN]))
    assert settled.safety.public_ok


def test_the_key_is_asked_for_hidden_until_it_fits(person: Person) -> None:
    person.answers = ["wrong", "two words", f" {KEY} "]
    looks = Looks([SHUT, SHUT, PLAIN])
    _, access = prompts.settle(config(), Access(), looks)
    assert access.api_key == KEY
    assert [each.api_key for each in looks.accesses] == [None, "wrong", KEY]
    assert person.hidden == person.asked
    assert "requires an API key" in person.asked[0]
    assert "rejects the key" in person.asked[1]


def test_an_empty_key_goes_on_without_and_nobody_is_asked_for_ever(person: Person) -> None:
    person.answers = [""]
    assert prompts.settle(config(), Access(), Looks([SHUT]))[1] == Access()
    person.answers = ["a-wrong-key"] * 9
    prompts.settle(config(), Access(), Looks([SHUT]))
    assert len(person.asked) == 1 + prompts.KEY_TRIES


def test_where_a_header_is_the_key_none_is_asked_for(person: Person) -> None:
    access = Access(headers=(("authorization", "Basic abc"),))
    assert prompts.settle(config(), access, Looks([SHUT]))[1] == access
    assert person.asked == []


def test_of_several_models_one_is_chosen(person: Person, capsys: pytest.CaptureFixture[str]) -> None:
    several = ServerGlance(near=True, models=("a", f"b-{KEY}\x1b[31m"), sample=busy(0))
    person.answers = [2]
    settled, _ = prompts.settle(config(), Access(api_key=KEY), Looks([several]))
    assert settled.target.model == f"b-{KEY}\x1b[31m"
    shown = capsys.readouterr()
    assert shown.out == ""
    assert KEY not in shown.err
    assert "\x1b" not in shown.err
    prompts.settle(config(model="a"), Access(), Looks([several]))
    assert len(person.asked) == 1


def test_a_server_at_work_is_loaded_only_with_permission(person: Person) -> None:
    working = ServerGlance(near=True, models=("tiny",), sample=busy(3))
    person.answers = [True]
    settled, _ = prompts.settle(config(), Access(), Looks([working]))
    assert settled.safety.with_others
    assert "4 requests from other clients" in person.asked[0]
    person.answers = [False]
    with pytest.raises(UserError, match="--with-others"):
        prompts.settle(config(), Access(), Looks([working]))
    prompts.settle(config(with_others=True), Access(), Looks([working]))
    prompts.settle(config(), Access(), Looks([working, PLAIN]))  # it was the end of something
    assert len(person.asked) == 2


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        (FakeVllm(), ServerGlance(near=True, models=("tiny",))),
        (FakeVllm(key=KEY), ServerGlance(near=True, key_wanted=True)),
        (FakeVllm(models=[1]), ServerGlance(near=True)),
        (FakeVllm(overrides={"/v1/models": httpx.ConnectError("no")}), ServerGlance(near=True)),
        (FakeVllm(overrides={"/v1/models": httpx.Response(403)}), ServerGlance(near=True)),
    ],
)
async def test_a_look_at_a_server(server: FakeVllm, expected: ServerGlance) -> None:
    server.overrides["/metrics"] = httpx.Response(404)
    async with client(server) as http:
        assert await looking.look(Target(url=HERE), Access(), http) == expected
    assert server.paths() == ["/v1/models", "/metrics"]


async def test_a_look_sees_who_is_there() -> None:
    async with client(FakeVllm(metrics=lambda: capture("0.32.0-preempting"))) as http:
        sample = (await looking.look(Target(url=HERE), Access(), http)).sample
    assert sample is not None
    assert (sample.running or 0) + (sample.waiting or 0) == 59

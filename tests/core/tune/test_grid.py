"""Which settings are tried, and what the shell is given."""

import shlex

import pytest

from core.errors import UserError
from core.tune import MOST_SETTINGS, Served, Setting, Tried, settings_of


def tried(*texts: str) -> list[Tried]:
    return [Tried.parse(text) for text in texts]


def test_every_combination_in_the_order_given() -> None:
    labels = [each.label for each in settings_of(tried("seqs=8, 16", "tp=1,2"))]
    assert labels == ["seqs=8, tp=1", "seqs=8, tp=2", "seqs=16, tp=1", "seqs=16, tp=2"]


@pytest.mark.parametrize(
    ("texts", "sentence"),
    [
        ((), "Nothing is tried"),
        (("seqs",), "has no ="),
        (("seqs=",), "list is empty"),
        (("seqs= ,",), "list is empty"),
        (("seqs=8,,16",), "value is empty"),
        (("seqs=8,\x1b[2J",), "cannot be printed"),
        (("seqs=8,16,8",), "8 is in the list twice"),
        (("seqs=8", "seqs=16"), "given twice"),
        (("2x=8",), "is not a name"),
        (("port=8000,8001",), "port is chosen"),
        (("a=" + ",".join(map(str, range(13))), "b=1,2,3,4,5"), f"65 settings, and at most {MOST_SETTINGS}"),
    ],
)
def test_what_cannot_be_tried_is_refused_in_a_sentence(texts: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        settings_of(tried(*texts))


def test_as_many_as_are_allowed() -> None:
    assert len(settings_of(tried("a=" + ",".join(map(str, range(8))), "b=1,2,3,4,5,6,7,8"))) == MOST_SETTINGS


def test_a_name_without_a_place_and_a_place_without_a_name() -> None:
    served = Served(command="serve --port {port} --n {n}")
    served.check(tried("n=1"))
    with pytest.raises(UserError, match=r"--try m would change nothing: --serve has no \{m\}"):
        served.check(tried("n=1", "m=2"))
    with pytest.raises(UserError, match=r"place \{n\} that no --try fills") as refused:
        served.check([])
    assert "serve" not in str(refused.value).replace("--serve", ""), "the command may hold a secret"


def test_braces_of_the_shell_and_of_json_are_no_places() -> None:
    served = Served(command="""x ${HOME} {a,b} '{"k": 1}' {port} {n}""")
    served.check(tried("n=1"))
    assert served.command_of(Setting(values=(("n", "4"),)), 81) == """x ${HOME} {a,b} '{"k": 1}' 81 4"""


def test_each_value_is_one_word_of_the_shell() -> None:
    served = Served(command="serve {port} {n} {n}")
    value = "a b; rm -rf $HOME '"
    assert shlex.split(served.command_of(Setting(values=(("n", value),)), 8000)) == ["serve", "8000", value, value]


def test_where_the_server_is() -> None:
    assert Served(command="serve {port}").url_of(81) == "http://127.0.0.1:81"
    assert Served(command="serve", url="http://10.0.0.1:80").url_of(81) == "http://10.0.0.1:80"
    assert Served(command="serve {port}", url="http://[::1]:{port}/x").url_of(81) == "http://[::1]:81/x"
    assert not Served(command="serve", url="http://10.0.0.1:80").takes_port
    with pytest.raises(UserError, match="address of the server is missing"):
        Served(command="serve")


@pytest.mark.parametrize(("value", "whole"), [("2", 2), ("0", None), ("auto", None), ("-1", None), ("²", None)])
def test_a_size_that_is_tried(value: str, whole: int | None) -> None:
    setting = Setting(values=(("tp", value),))
    assert (setting.whole("tp"), setting.whole("pp")) == (whole, None)

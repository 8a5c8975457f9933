import html
import json
import traceback
from urllib.parse import quote

import pytest

from core.access import Access, public_address
from core.errors import UserError

KEY = "sk-TESTSECRET"


def test_what_is_sent_to_the_target() -> None:
    access = Access(api_key=KEY, headers=(("X-Gateway", "abc def"),))
    assert access.request_headers == {"Authorization": f"Bearer {KEY}", "X-Gateway": "abc def"}
    assert Access().request_headers == {}


@pytest.mark.parametrize(
    ("name", "value"),
    [("", "x"), ("two words", "x"), ("X:", "x"), ("X", ""), ("X", "a\nb: c"), ("X", "sk-é"), ("X", " sk-SECRET"), ("X", "a\x00")],
)
def test_what_no_header_carries_is_refused_without_showing_it(name: str, value: str) -> None:
    with pytest.raises(UserError, match="not a header") as caught:
        Access(headers=((name, value),))
    assert not value.strip() or value.strip() not in str(caught.value).replace("Name: value", "")


@pytest.mark.parametrize("name", ["Content-Length", "accept-encoding", "Connection", "TRANSFER-ENCODING"])
def test_headers_that_make_the_request_are_not_ones_to_give(name: str) -> None:
    with pytest.raises(UserError, match="set by kneescope itself"):
        Access(headers=((name, "gzip"),))


def test_what_does_not_go_together() -> None:
    with pytest.raises(UserError, match="twice"):
        Access(headers=(("X-A", "1"), ("x-a", "2")))
    with pytest.raises(UserError, match="leave one out"):
        Access(api_key=KEY, headers=(("authorization", "Basic x"),))
    with pytest.raises(UserError, match="--client-cert"):
        Access(client_key="key.pem")


def test_no_secret_is_in_its_repr() -> None:
    access = Access(api_key=KEY, headers=(("X-A", "h-SECRET"),), proxy="http://u:p-SECRET@proxy:3128")
    assert repr(access) == "Access(api_key, headers, proxy)"
    assert "SECRET" not in repr([access])


def _signs(secret: str, form: str) -> str:
    return "".join(char if char.isalnum() else form.format(ord(char)) for char in secret)


@pytest.mark.parametrize(
    "form",
    [
        str,
        str.upper,
        lambda secret: json.dumps(secret)[1:-1],
        lambda secret: json.dumps(json.dumps(secret)[1:-1])[1:-1],
        lambda secret: json.dumps(secret)[1:-1].replace("/", "\\/"),
        lambda secret: quote(secret, safe=""),
        lambda secret: quote(secret, safe="").lower(),
        html.escape,
        lambda secret: _signs(secret, "\\u{:04x}"),
        lambda secret: _signs(secret, "&#{};"),
    ],
)
@pytest.mark.parametrize(
    "access",
    [
        Access(api_key='sk-"\\/SECRET+x='),
        Access(headers=(("X-A", 'sk-"\\/SECRET+x='),)),
        Access(headers=(("Authorization", 'Bearer sk-"\\/SECRET+x='),)),
        Access(proxy=f"http://user:{quote(chr(34), safe='')}SECRET-of-proxy@proxy:3128"),
    ],
)
def test_a_secret_is_taken_out_in_every_form_in_which_it_is_echoed(access: Access, form: object) -> None:
    assert callable(form)
    secret = '"SECRET-of-proxy' if access.proxy else 'sk-"\\/SECRET+x='
    said = f"wrong key {form(secret)} in your request"
    assert access.scrub(said) == "wrong key *** in your request"
    assert access.scrub_body(said.encode() + b"\xff") == b"wrong key *** in your request\xff"


def test_a_short_key_is_taken_out_as_it_is_written() -> None:
    assert Access(api_key="EMPTY").scrub("EMPTY is no key, and empty is a word") == "*** is no key, and empty is a word"


def test_a_short_key_is_no_part_of_other_words() -> None:
    access = Access(api_key="token")
    assert access.scrub('{"max_tokens": 3, "key": "token"}') == '{"max_tokens": 3, "key": "***"}'
    assert access.scrub_body(b"vllm:prompt_tokens_total 3") == b"vllm:prompt_tokens_total 3"
    assert Access(api_key="abc").scrub("abc") == "abc"
    assert Access().scrub(f"anything {KEY}") == f"anything {KEY}"


def test_of_two_secrets_the_longer_is_taken_out_whole() -> None:
    access = Access(api_key=KEY, headers=(("X-A", f"{KEY}-AND-MORE"),))
    assert access.scrub(f"{KEY}-AND-MORE {KEY}") == "*** ***"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://user:secret@proxy:3128/x?y=secret#secret", "http://proxy:3128/x"),
        ("https://[::1]:8443", "https://[::1]:8443"),
        ("http://proxy:nothing", "an address that cannot be read"),
        ("secret", "an address that cannot be read"),
    ],
)
def test_addresses_are_kept_without_their_secrets(url: str, shown: str) -> None:
    assert public_address(url) == shown


def test_errors_are_shown_without_secrets_along_their_whole_chain() -> None:
    access = Access(api_key=KEY)
    inner, outer = ValueError(f"bad header {KEY}", 7), RuntimeError(f"no {KEY}")
    outer.__cause__ = inner
    inner.__context__ = outer
    access.scrub_error(outer)
    assert (str(outer), inner.args) == ("no ***", ("bad header ***", 7))


@pytest.mark.parametrize(
    "access",
    [
        Access(api_key="vllm"),
        Access(api_key="data"),
        Access(headers=(("X-Model", "meta-llama/Llama-3.1-8B"), ("X-Org", "meta-llama"))),
    ],
)
def test_the_values_of_an_answer_are_read_as_they_are(access: Access) -> None:
    for body in (b'vllm:num_requests_running{engine="0"} 3', b'{"data":[{"id":"meta-llama/Llama-3.1-8B"}]}'):
        assert access.scrub_answer(body) == body


def test_a_long_key_is_not_even_in_an_answer() -> None:
    access = Access(headers=(("Authorization", f"Bearer {KEY}-and-more"),), proxy="http://u:a-long-SECRET@proxy:3128")
    assert access.scrub_answer(f"{KEY}-and-more a-long-SECRET".encode()) == b"*** ***"


def test_an_error_of_any_kind_is_scrubbed_with_all_that_is_under_it() -> None:
    inner = ValueError({"Authorization": f"Bearer {KEY}"}, KEY.encode())
    inner.add_note(f"sent {KEY}")
    inner.__context__ = OSError(2, f"no {KEY}", f"/x/{KEY}")
    error = ExceptionGroup("several", [inner])
    Access(api_key=KEY).scrub_error(error)
    assert KEY not in "".join(traceback.format_exception(error))


@pytest.mark.parametrize("proxy", ["http://u:p%3aSECRET@proxy:1", "http://p%3aSECRET@proxy:1"])
def test_a_proxys_password_or_token_is_taken_out_as_it_was_written_too(proxy: str) -> None:
    assert "SECRET" not in Access(proxy=proxy).scrub(f"{proxy} does not take p:SECRET or p%3aSECRET")


def test_an_environment_for_others_holds_no_secret() -> None:
    access = Access(api_key=KEY, headers=(("X-Gate", "env-held"),), proxy="http://u:a-long-SECRET@proxy:3128")
    plain = {"PATH": "/bin", "NOTE": "env-held is a word"}
    secret = {"KNEESCOPE_API_KEY": f"{KEY}\n", "GATE": "env-held", "PROXY": "http://u:a-long-SECRET@proxy:3128"}
    assert access.withheld(plain | secret) == plain
    assert Access().withheld(plain | secret) == plain | secret

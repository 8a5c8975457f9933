"""What a run is called."""

import pytest

from core import history
from core.errors import UserError
from core.records import ServerInfo
from core.run.events import ServerKnown
from core.run.state import State
from tests.core.run.events import started


def test_the_default_is_the_model_and_the_local_minute() -> None:
    assert history.called(None, "qwen2.5-0.5b", "2026-12-01T14:54:31Z", 3600) == "qwen2.5-0.5b 2026-12-01 15:54"
    assert history.called(None, "Qwen/Qwen2.5-0.5B", "2026-12-01T23:54:31Z", 3600) == "Qwen2.5-0.5B 2026-12-02 00:54"
    assert history.called(None, "/models/llama/", "2026-12-01T14:54:31Z") == "llama 2026-12-01 14:54"
    assert history.called(None, None, "2026-12-01T14:54:31Z", -5 * 3600) == "run 2026-12-01 09:54"


@pytest.mark.parametrize("model", ["m" * 500, "a\nb", "\x1b[31m", "", " / "])
@pytest.mark.parametrize("began", ["2026-12-01T14:54:31Z", "", None, "9999-12-31T23:59:59Z", "not a time"])
def test_a_default_is_always_a_label(model: str, began: str | None) -> None:
    label = history.called(None, model, began, 3600)
    assert history.parse_label(label, "--label") == label


@pytest.mark.parametrize("text", ["", "  ", "a\nb", "tab\there", "\x1b[31mred", "x" * 81, "\u202eback"])
def test_what_is_no_label_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="--label"):
        history.parse_label(text, "--label")


def test_a_label_is_one_line_without_blanks_around_it() -> None:
    assert history.parse_label("  chunked prefill, 16 places ", "--label") == "chunked prefill, 16 places"
    assert history.parse_label("ü" * history.MOST_CHARS, "--label") == "ü" * 80


def test_a_view_has_its_label_or_the_default_of_its_server() -> None:
    state = State()
    begin = started()
    state.apply(begin)
    assert history.label_of(state.view(begin.t)) == "run 2026-01-01 00:00"
    state.apply(ServerKnown(t=begin.t, info=ServerInfo(url="http://h", model="org/tiny")))
    assert history.label_of(state.view(begin.t)) == "tiny 2026-01-01 00:00"
    state = State()
    state.apply(
        type(begin)(t=1.0, started_utc="", config=begin.config, client=begin.client, command="", label="before\x1b the change")
    )
    assert history.label_of(state.view(1.0)) == "before  the change"

import resource

import pytest

from core.server import preflight


@pytest.fixture(autouse=True)
def own_fd_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Preflight raises the limit of its process, which here is the test's."""
    monkeypatch.setattr(resource, "getrlimit", lambda what: (1024, 20000))
    monkeypatch.setattr(resource, "setrlimit", lambda what, wanted: None)


@pytest.fixture(autouse=True)
def no_second_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy server is looked at again at once."""
    monkeypatch.setattr(preflight, "AGAIN_S", 0.0)

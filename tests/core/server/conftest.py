import resource

import pytest


@pytest.fixture(autouse=True)
def own_fd_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Preflight raises the limit of its process, which here is the test's."""
    monkeypatch.setattr(resource, "getrlimit", lambda what: (1024, 20000))
    monkeypatch.setattr(resource, "setrlimit", lambda what, wanted: None)

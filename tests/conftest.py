"""The two parts of the tests: what may run beside others, and what needs the machine for itself."""

import gc
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("same", derandomize=True)
settings.load_profile("same")
"""The same examples each time, so that a red test is the change's own doing; `--hypothesis-profile default` draws others."""

ROOT = Path(__file__).parents[1]
_PACE = "stamps of a child that sends in real time, and what it does within seconds"
_TERMINAL = "a program in a terminal, which answers keys within a time"
ALONE = {
    "tests/core/load/test_timer.py": "how late the kernel wakes somebody",
    "tests/core/load/test_children.py": _PACE,
    "tests/core/load/test_carrier.py": _PACE,
    "tests/core/load/test_closed.py": _PACE,
    "tests/core/load/test_dispatch.py": "sends at real times, and how late the loop is",
    "tests/core/load/test_generator.py": _PACE,
    "tests/core/load/test_selftest.py": "how much load this machine can send",
    "tests/core/load/test_stuck.py": "how late a send is while a connection is not taken",
    "tests/core/replica/test_gateway.py": "a fleet as a process, and Ctrl-C to this one",
    "tests/core/replica/test_process.py": "a server as a process, and how soon it is gone",
    "tests/core/replica/test_replicas_read.py": "servers as processes, which must answer within a second",
    "tests/core/twin/test_worker.py": "a process that everything else goes before",
    "tests/core/workers/test_ray.py": "Ray clusters, of a dozen processes each, that load in real time",
    "tests/core/workers/test_workers.py": _PACE,
    "tests/tui/test_secrets.py": "a whole run of the real command, whose load must be in time to count",
    "tests/tui/test_tmux.py": _TERMINAL,
}
"""File, or file::test -> why nothing else may run meanwhile. `make test` runs these after all others, one after another."""


@pytest.fixture(autouse=True, scope="session")
def no_run_is_listed_among_the_users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Every run is taken into the list of runs in the state folder, also one that names its own file."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


def pytest_configure(config: pytest.Config) -> None:
    """Tests send Ctrl-C to processes that they start; in a background job of a shell it is ignored, and would be there."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """The second part does not import what is not of it."""
    if config.option.markexpr != "alone" or collection_path.suffix != ".py":
        return None
    return collection_path.relative_to(ROOT).as_posix() not in {name.partition("::")[0] for name in ALONE} or None


@pytest.hookimpl(tryfirst=True)  # before tests are selected by their marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    found = set()
    for item in items:
        file = item.nodeid.partition("::")[0]
        for name in {file, item.nodeid.partition("[")[0]} & ALONE.keys():
            item.add_marker(pytest.mark.alone(ALONE[name]))
            found.add(name)
    if config.args_source is pytest.Config.ArgsSource.TESTPATHS and found != ALONE.keys():
        raise pytest.UsageError(f"no such tests: {', '.join(sorted(ALONE.keys() - found))}")


def pytest_collection_finish() -> None:
    """What is there when the tests begin stays: that the collector need not look through it saves a tenth of the time."""
    gc.collect()
    gc.freeze()

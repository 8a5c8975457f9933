"""What --workers takes, and why a machine is turned away before any load."""

import socket
import sys
from typing import Any

import pytest

from core.errors import UserError
from core.workers import WorkersAsked
from core.workers.look import look


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("auto", WorkersAsked()),
        ("local:3", WorkersAsked(local=3)),
        ("10.0.0.1:6379", WorkersAsked(address="10.0.0.1:6379")),
        ("[fd00::1]:6379", WorkersAsked(address="[fd00::1]:6379")),
    ],
)
def test_what_is_asked_for(text: str, asked: WorkersAsked) -> None:
    assert WorkersAsked.parse(text, "--workers") == asked
    assert str(asked) == text


@pytest.mark.parametrize(
    "text", ["", "3", "local:0", "local:65", "local:x", "host", "host:0", "host:99999", "a b:1", "ray://h:10001"]
)
def test_nonsense_is_refused_with_its_name(text: str) -> None:
    with pytest.raises(UserError, match=r"^--workers: ") as refused:
        WorkersAsked.parse(text, "--workers")
    assert refused.value.exit_code == 2


def test_a_ray_of_our_own_is_closed_by_a_token_of_this_run_alone() -> None:
    one, other = (WorkersAsked(local=2).environment for _ in range(2))
    assert (one["RAY_AUTH_MODE"], len(one["RAY_AUTH_TOKEN"])) == ("token", 64)
    assert one["RAY_AUTH_TOKEN"] != other["RAY_AUTH_TOKEN"]
    assert "RAY_AUTH_TOKEN" not in WorkersAsked().environment, "a cluster has its own"
    assert WorkersAsked().environment["RAY_USAGE_STATS_ENABLED"] == "0"


def test_without_ray_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.workers.asked.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install 'kneescope\[ray\]'") as refused:
        WorkersAsked.parse("auto", "--workers")
    assert refused.value.exit_code == 2


HERE = look()


def test_this_machine_can_send() -> None:
    assert HERE["missing"] is None
    assert HERE["host"] == socket.gethostname()


def there(**differs: Any) -> dict[str, Any]:
    return {**HERE, **differs}


def test_workers_are_told_apart_by_name_and_one_elsewhere_is_known() -> None:
    from core.workers.over_ray import named

    gathered = named(HERE, [there(host="a"), there(host="b"), there(host="a", cores=None)])
    assert [worker.name for worker in gathered.workers] == ["a-1", "b", "a-2"]
    assert (gathered.workers[0].python, gathered.workers[2].cores) == (HERE["python"], None)
    assert gathered.elsewhere == "a-1"
    assert named(HERE, [HERE, HERE]).elsewhere is None
    odd = named(HERE, [there(host="\x1b[31mred\n"), there(host=""), there(host="n" * 300)]).workers
    assert [worker.name for worker in odd] == ["?[31mred?", "unnamed", "n" * 64]


@pytest.mark.parametrize(
    ("differs", "said"),
    [
        ({"missing": "msgspec"}, "msgspec cannot be imported"),
        ({"version": "0.0.9"}, r"it runs kneescope 0\.0\.9, this machine "),
        ({"python": "3.99.1"}, r"it runs Python 3\.99\.1, this machine "),
    ],
)
def test_a_machine_that_differs_is_refused_by_name(differs: dict[str, Any], said: str) -> None:
    from core.workers.over_ray import named

    with pytest.raises(UserError, match=f"^Worker far-2 cannot be used: {said}") as refused:
        named(HERE, [there(host="far"), there(host="far", **differs)])
    assert refused.value.exit_code == 3


def test_a_module_that_is_missing_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "core.load.child", None)
    assert look()["missing"] == "core.load.child"


def test_an_address_where_nobody_listens_is_refused_at_once() -> None:
    from core.workers.over_ray import _address

    with socket.create_server(("127.0.0.1", 0)) as server:
        place = f"127.0.0.1:{server.getsockname()[1]}"
        assert _address(WorkersAsked(address=place)) == place
    with pytest.raises(UserError, match=f"no Ray cluster listens at {place}"):
        _address(WorkersAsked(address=place))


def test_a_machine_of_no_cluster_says_how_to_make_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    from core.workers.over_ray import _address

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    with pytest.raises(UserError, match="ray start --head"):
        _address(WorkersAsked())
    assert _address(WorkersAsked(local=2)) == "local"

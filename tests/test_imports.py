"""What gets imported: core draws nothing, the command starts light, and our `core` wins over another package of that name."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LIMIT_S = 60

WALK = """
import importlib, pkgutil, sys
for name in sys.argv[2:]:
    sys.modules[name] = None  # importing it fails, as where it is not installed
import core
for module in pkgutil.walk_packages(core.__path__, "core."):
    if module.name.startswith("core.replica") is (sys.argv[1] == "replica"):
        importlib.import_module(module.name)
        print(module.name)
"""


def python(code: str, *args: str, cwd: Path = ROOT, path: str = str(ROOT)) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *args],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_core_draws_nothing() -> None:
    """Every module of core can be imported where no library of the screen or the command line is installed.

    To look into sys.modules would not do: httpx brings click and rich in, for a command of its own, where it finds them.
    """
    imported = python(WALK, "probe", "textual", "rich", "click", "plotext", "tui").split()
    assert {"core.config", "core.load.child", "core.judge.search", "core.report", "core.run.session"} <= set(imported)


def test_the_product_needs_nothing_of_the_tests() -> None:
    """aiohttp is a cross-check of ours, and carries nothing."""
    for part in ("probe", "replica"):
        assert python(WALK, part, "aiohttp", "httpx_aiohttp", "hypothesis", "pytest", "tests")
    python(
        "import sys\nsys.modules['aiohttp'] = sys.modules['httpx_aiohttp'] = None\nimport tui.app, tui.cli.demo, tui.cli.commands"
    )


def test_the_replica_draws_nothing() -> None:
    """uvicorn, which serves it, needs click; nothing else may come in."""
    assert "core.replica.process" in python(WALK, "replica", "textual", "rich", "plotext", "tui").split()


def test_the_command_starts_light() -> None:
    """Libraries of the screen, the load and the replica are loaded when they are used, not to say the version."""
    code = """
import sys
from tui.cli.commands import cli
try:
    cli.main(sys.argv[1:])
finally:
    heavy = ("textual", "rich", "plotext", "numpy", "aiohttp", "httpx", "uvicorn", "starlette", "prometheus_client")
    print([name for name in heavy if name in sys.modules])
"""
    assert python(code, "--version").splitlines()[1:] == ["[]"]
    assert python(code, "probe", "--help").splitlines()[-1] == "[]"


def test_the_list_of_runs_starts_lightest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is printed without the configuration of a run, the options of other commands, and what those import."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    code = """
import sys
from tui.__main__ import main
sys.argv = ["kneescope", "runs", "--table"]
try:
    main()
finally:
    heavy = ("numpy", "textual", "rich", "httpx", "asyncio", "core.config", "core.run", "core.access", "tui.cli.options")
    print([name for name in heavy if name in sys.modules])
"""
    assert python(code).splitlines()[1:] == ["[]"]


def test_a_headless_run_loads_no_screen() -> None:
    code = "import sys, tui.cli.probe, tui.cli.demo; print([name for name in ('textual', 'plotext') if name in sys.modules])"
    assert python(code).strip() == "[]"


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A folder with a package `core` of somebody else's."""
    package = tmp_path / "theirs" / "core"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('this is another core')\n")
    return package.parent


def test_our_core_wins_when_the_command_is_run_beside_another(foreign: Path, tmp_path: Path) -> None:
    """As the installed command does it: a script in a folder of its own."""
    script = tmp_path / "bin" / "kneescope"
    script.parent.mkdir()
    script.write_text("import sys\nfrom tui.__main__ import main\nsys.exit(main())\n")
    env = {**os.environ, "PYTHONPATH": f"{foreign}{os.pathsep}{ROOT}"}
    for command in ([str(script)], ["-m", "tui"]):
        done = subprocess.run(
            [sys.executable, *command, "--version"],
            cwd=foreign,
            env=env,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("kneescope ")


@pytest.mark.parametrize(
    "start",
    [
        "from core.load.generator import Generator\nasync def child(): return await Generator.start()",
        "from core.replica.process import start\nasync def child(): return await start('demo')",
    ],
)
def test_our_core_wins_in_the_children(foreign: Path, start: str) -> None:
    """Each child is up when its start returns, so it has imported our `core`, whatever the folder and the path hold."""
    code = f"""
import asyncio
import tui
{start}
async def main():
    started = await child()
    await (started.close() if hasattr(started, "close") else started.stop())
asyncio.run(main())
import core
print(core.__file__)
"""
    out = python(code, cwd=foreign, path=f"{foreign}{os.pathsep}{ROOT}")
    assert Path(out.strip()) == ROOT / "core" / "__init__.py"

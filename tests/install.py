"""Installs kneescope as users do, and runs it outside the checkout: python -m tests.install     (two minutes; package registry)

A wheel is built from the files that are tracked, and must hold what belongs in it and nothing else. It runs from a plain
environment with the pinned dependencies, then by `pipx install` and `uv tool install` from the checkout. Exit code 1 if something
fails; what cannot be tried here is skipped, and said.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

from core import __version__

ROOT = Path(__file__).resolve().parents[1]
MAN_PAGE = "share/man/man1/kneescope.1"
DEMO = ("demo", "--headless", "--quiet", "--rates", "4", "--measure", "5s", "--json", "-")
ANSWERS = {
    ("--version",): f"kneescope {__version__}",
    ("demo", "--help"): "Find the knee of a simulated replica",
    DEMO: '"outcome"',
}
"""What is typed, and what must stand in the answer."""


class Skipped(Exception):
    """It cannot be tried on this machine."""


def tracked() -> list[str]:
    """The files of the checkout that git knows, by their paths."""
    return run("git", "ls-files", "-z", cwd=ROOT).strip("\0").split("\0")


def expected(files: list[str]) -> set[str]:
    """What a wheel holds, without its own records."""
    return {name for name in files if name.startswith(("core/", "tui/"))} | {MAN_PAGE}


def held(wheel: Path) -> set[str]:
    """What it holds, without its records; data by where it is installed."""
    names = {name.split(".data/data/")[-1] for name in zipfile.ZipFile(wheel).namelist()}
    return {name for name in names if ".dist-info/" not in name}


def run(*command: str | Path, cwd: Path, env: dict[str, str] | None = None) -> str:
    """What a command says; raises CalledProcessError, with all that it said, for one that fails."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        command, cwd=cwd, env={**environment, **(env or {})}, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise subprocess.CalledProcessError(done.returncode, [str(each) for each in command], done.stdout, done.stderr)
    return done.stdout


def build(folder: Path) -> Path:
    """The wheel of a copy of the tracked files: a build leaves its own files behind, and takes those of the last one."""
    source = folder / "source"
    for name in tracked():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, source / name)
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, source, cwd=folder)
    (wheel,) = folder.glob("*.whl")
    return wheel


def answers(command: Path, folder: Path) -> None:
    """Run it outside the checkout, with folders of its own. Raises AssertionError for an answer that is another."""
    env = {"HOME": str(folder), "XDG_STATE_HOME": str(folder / "state"), "XDG_CONFIG_HOME": str(folder / "config")}
    for typed, said in ANSWERS.items():
        answer = run(command, *typed, cwd=folder, env=env)
        assert said in answer, f"kneescope {' '.join(typed)} said {answer!r}"
    script = run(command, cwd=folder, env={**env, "_KNEESCOPE_COMPLETE": "fish_source"})
    assert "complete --no-files --command kneescope" in script


def the_wheel(folder: Path) -> None:
    """It holds what it should."""
    wheel, wanted = build(folder), expected(tracked())
    assert held(wheel) == wanted, f"missing {sorted(wanted - held(wheel))}, too much {sorted(held(wheel) - wanted)}"


def plain_environment(folder: Path) -> None:
    """The wheel alone, with the pinned dependencies."""
    wheel, venv = build(folder), folder / "venv"
    run(sys.executable, "-m", "venv", venv, cwd=folder)
    run(venv / "bin/pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt", wheel, cwd=folder)
    assert (venv / MAN_PAGE).is_file()
    answers(venv / "bin/kneescope", folder)


def pipx(folder: Path) -> None:
    """As the README says."""
    env = {"PIPX_HOME": str(folder / "pipx"), "PIPX_BIN_DIR": str(folder / "bin"), "PIPX_MAN_DIR": str(folder / "man")}
    run(_tool("pipx", folder), "install", "--quiet", ROOT, cwd=folder, env=env)
    assert (folder / "man/man1/kneescope.1").is_file()
    answers(folder / "bin/kneescope", folder)


def uv(folder: Path) -> None:
    """As the README says."""
    env = {"UV_TOOL_DIR": str(folder / "uv"), "UV_TOOL_BIN_DIR": str(folder / "bin"), "UV_CACHE_DIR": str(folder / "cache")}
    run(_tool("uv", folder), "tool", "install", "--quiet", ROOT, cwd=folder, env=env)
    answers(folder / "bin/kneescope", folder)


def _tool(name: str, folder: Path) -> str:
    """The program, from the machine or else from the package registry."""
    if (found := shutil.which(name)) is not None:
        return found
    venv = folder / "tools"
    try:
        run(sys.executable, "-m", "venv", venv, cwd=folder)
        run(venv / "bin/pip", "install", "--quiet", name, cwd=folder)
    except subprocess.CalledProcessError as error:
        raise Skipped(f"{name} is neither here nor to be had from the package registry") from error
    return str(venv / "bin" / name)


def containers(folder: Path) -> None:
    """The Containerfile, by whatever builds one."""
    for builder in ("podman", "docker", "buildah"):
        if shutil.which(builder) is None:
            continue
        try:
            run(builder, "info", cwd=folder)
        except subprocess.CalledProcessError:
            continue
        run(builder, "build", "--tag", "kneescope-test", "--file", ROOT / "Containerfile", ROOT, cwd=folder)
        if builder != "buildah":
            assert ANSWERS["--version",] in run(builder, "run", "--rm", "kneescope-test", "--version", cwd=folder)
        return
    raise Skipped("no podman, docker or buildah works here")


WAYS: tuple[Callable[[Path], None], ...] = (the_wheel, plain_environment, pipx, uv, containers)


def results(ways: tuple[Callable[[Path], None], ...] = WAYS) -> Iterator[tuple[str, str]]:
    """The name of each way, and what came of it: `ok`, `skipped: ...` or `FAILED: ...`."""
    for way in ways:
        with tempfile.TemporaryDirectory() as folder:
            name = way.__name__.replace("_", " ")
            try:
                way(Path(folder).resolve())
            except Skipped as why:
                yield name, f"skipped: {why}"
            except subprocess.CalledProcessError as error:
                yield name, f"FAILED: {' '.join(error.cmd)}\n{error.stdout}{error.stderr}"
            except AssertionError as error:
                yield name, f"FAILED: {error}"
            else:
                yield name, "ok"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    counted = {"ok": 0, "FAILED": 0, "skipped": 0}
    for name, what in results():
        print(f"{name}: {what}", flush=True)
        counted[what.split(":")[0]] += 1
    print(f"{counted['ok']} passed, {counted['FAILED']} failed, {counted['skipped']} skipped")
    sys.exit(counted["FAILED"] > 0)


if __name__ == "__main__":
    main()

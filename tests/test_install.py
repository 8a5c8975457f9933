"""What an installation is made of, as far as it can be told without one; `python -m tests.install` builds and runs them."""

import importlib
import re
import subprocess
import tomllib
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from tests import install
from tests.install import ROOT, Skipped, results

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
SETUPTOOLS = PROJECT["tool"]["setuptools"]
OURS = [path for top in ("core", "tui") for path in sorted((ROOT / top).rglob("*")) if "__pycache__" not in path.parts]


# --- the wheel ----------------------------------------------------------------------------------------------------


def test_every_folder_with_code_is_a_package_that_the_wheel_takes() -> None:
    folders = {path.parent for path in OURS if path.suffix == ".py"}
    assert [folder for folder in folders if not (folder / "__init__.py").is_file()] == []
    assert SETUPTOOLS["packages"]["find"]["include"] == ["core", "core.*", "tui", "tui.*"]


def test_every_other_file_beside_the_code_is_package_data() -> None:
    patterns = SETUPTOOLS["package-data"]["*"]
    others = [path for path in OURS if path.is_file() and path.suffix != ".py"]
    assert others
    assert [path for path in others if not any(fnmatch(path.name, pattern) for pattern in patterns)] == []


def test_the_man_page_and_the_command_are_there() -> None:
    assert {
        str(PurePosixPath(folder) / Path(name).name) for folder, names in SETUPTOOLS["data-files"].items() for name in names
    } == {install.MAN_PAGE}
    assert all((ROOT / name).is_file() for names in SETUPTOOLS["data-files"].values() for name in names)
    module, _, function = PROJECT["project"]["scripts"]["kneescope"].partition(":")
    assert callable(getattr(importlib.import_module(module), function))


def test_each_way_that_fails_or_cannot_be_tried_is_told() -> None:
    def fails(folder: Path) -> None:
        raise subprocess.CalledProcessError(1, ["pip", "wheel"], "", "no such thing\n")

    def is_wrong(folder: Path) -> None:
        raise AssertionError("missing ['a']")

    def cannot_be_tried(folder: Path) -> None:
        raise Skipped("it is not here")

    told = dict(results((fails, is_wrong, cannot_be_tried, lambda folder: None)))
    assert told == {
        "fails": "FAILED: pip wheel\nno such thing\n",
        "is wrong": "FAILED: missing ['a']",
        "cannot be tried": "skipped: it is not here",
        "<lambda>": "ok",
    }


# --- the container ------------------------------------------------------------------------------------------------

Instruction = tuple[str, str]


def instructions(text: str) -> list[Instruction]:
    """Name and rest of each instruction of a Containerfile, lines that go on put together."""
    lines = re.sub(r"\\\n", " ", re.sub(r"^\s*#.*\n", "", text, flags=re.M)).splitlines()
    return [(name.upper(), rest.strip()) for name, _, rest in (line.strip().partition(" ") for line in lines) if name]


CONTAINER = instructions((ROOT / "Containerfile").read_text())
STAGES = [at for at, (name, _) in enumerate(CONTAINER) if name == "FROM"]
FINAL = CONTAINER[STAGES[-1] :]


def of(name: str, where: list[Instruction] = CONTAINER) -> list[str]:
    return [rest for each, rest in where if each == name]


def copied() -> list[str]:
    """What is copied from the checkout."""
    return [source for rest in of("COPY") if not rest.startswith("--from") for source in rest.split()[:-1]]


def test_its_base_image_has_a_tag_that_stays() -> None:
    images = [rest.split()[0] for rest in of("FROM")]
    assert images
    assert all(re.fullmatch(r"python:3\.\d+-slim", image) for image in images)


def test_it_runs_as_a_user_without_rights() -> None:
    (user,) = of("USER", FINAL)
    assert int(user) > 1000  # by number, so that a cluster can tell that it is not root
    assert any(f"--uid {user}" in rest for rest in of("RUN", FINAL))
    assert [name for name, _ in FINAL[[name for name, _ in FINAL].index("USER") :] if name in ("RUN", "COPY", "ADD")] == []


def test_its_runs_are_kept_in_a_volume_that_this_user_may_write() -> None:
    (volume,) = of("VOLUME", FINAL)
    (env,) = of("ENV", FINAL)
    assert f"XDG_STATE_HOME={volume}" in env.split()
    assert re.search(rf"install -d -o \w+ (\S+ )*{volume}\b", " ".join(of("RUN", FINAL)))


def test_it_begins_with_the_command_and_installs_the_pinned_set() -> None:
    assert of("ENTRYPOINT", FINAL) == ['["kneescope"]']
    assert of("CMD", FINAL) == []
    assert any("pip install" in rest and "--constraint constraints.txt" in rest for rest in of("RUN"))


def test_it_copies_what_the_package_needs_and_nothing_else() -> None:
    data = [name for names in SETUPTOOLS["data-files"].values() for name in names]
    project = PROJECT["project"]
    needed = {"core", "tui", "pyproject.toml", "constraints.txt", project["readme"], *project["license-files"], *data}
    assert set(copied()) == needed
    assert of("ADD") == []


def test_a_build_sees_only_what_is_copied() -> None:
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    assert lines[0] == "*"
    assert {line[1:] for line in lines if line.startswith("!")} == set(copied())
    assert "**/__pycache__" in lines


def test_it_holds_no_secret() -> None:
    assert of("ARG") == []
    words = " ".join(f"{name} {rest}" for name, rest in CONTAINER).lower()
    assert [word for word in ("api_key", "token", "password", "secret", "authorization", "--insecure") if word in words] == []


@pytest.mark.parametrize("text", ["FROM a\n# x\nRUN b \\\n  && c\n", "from a\nRUN b    && c"])
def test_instructions_are_read_as_a_builder_reads_them(text: str) -> None:
    assert [(name, " ".join(rest.split())) for name, rest in instructions(text)] == [("FROM", "a"), ("RUN", "b && c")]

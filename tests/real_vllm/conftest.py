"""Says and counts it as skipped where the real server cannot be had."""

import pytest

from tests.real_vllm import install


@pytest.fixture(scope="session", autouse=True)
def vllm_installed() -> None:
    try:
        install.ensure()
    except install.Unavailable as reason:
        pytest.skip(f"the real vLLM server is not available here: {reason}")

"""What DCGM and node exporters say, as figures of the machine."""

import httpx
import pytest

from core.server.host_metrics import MachineScraper, parse_machine
from core.server.metrics import Exposition, ScrapeError

DCGM = """# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a",device="nvidia0",modelName="NVIDIA L4",Hostname="h"} 90
DCGM_FI_DEV_GPU_UTIL{gpu="1",UUID="GPU-b",device="nvidia1",modelName="NVIDIA L4",Hostname="h"} 100
# TYPE DCGM_FI_DEV_FB_FREE gauge
DCGM_FI_DEV_FB_FREE{gpu="0",UUID="GPU-a",device="nvidia0"} 6000
DCGM_FI_DEV_FB_FREE{gpu="1",UUID="GPU-b",device="nvidia1"} 2000
# TYPE DCGM_FI_DEV_FB_USED gauge
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-a",device="nvidia0"} 18000
DCGM_FI_DEV_FB_USED{gpu="1",UUID="GPU-b",device="nvidia1"} 22000
# TYPE DCGM_FI_PROF_DRAM_ACTIVE gauge
DCGM_FI_PROF_DRAM_ACTIVE{gpu="0",UUID="GPU-a"} 0.5
DCGM_FI_PROF_DRAM_ACTIVE{gpu="1",UUID="GPU-b"} 0.7
"""
NODE = """# TYPE node_cpu_seconds_total counter
node_cpu_seconds_total{cpu="0",mode="idle"} 100.5
node_cpu_seconds_total{cpu="0",mode="iowait"} 1.5
node_cpu_seconds_total{cpu="0",mode="system"} 8
node_cpu_seconds_total{cpu="0",mode="user"} 40
# TYPE node_memory_MemAvailable_bytes gauge
node_memory_MemAvailable_bytes 1e+09
# TYPE node_memory_MemTotal_bytes gauge
node_memory_MemTotal_bytes 4e+09
"""


def read(text: str) -> Exposition:
    return Exposition(text=text, content_type="text/plain; version=0.0.4", t=7.0, took_s=0.1)


def test_gpus_of_a_dcgm_exporter() -> None:
    seen = parse_machine(read(DCGM))
    assert (seen.t, seen.took_s, seen.gpus) == (7.0, 0.1, 2)
    assert seen.gpu_frac == pytest.approx(0.95)
    assert seen.dram_frac == pytest.approx(0.6)
    assert seen.gpu_memory_frac == pytest.approx(22 / 24)
    assert (seen.tensor_frac, seen.cpu_s, seen.memory_frac) == (None, None, None)


def test_host_of_a_node_exporter() -> None:
    seen = parse_machine(read(NODE))
    assert seen.cpu_s == (48.0, 150.0)
    assert seen.memory_frac == 0.75
    assert (seen.gpus, seen.gpu_frac, seen.gpu_memory_frac) == (None, None, None)


def test_another_kind_of_metrics_is_refused_with_a_sentence() -> None:
    with pytest.raises(ScrapeError, match="neither a DCGM nor a node exporter"):
        parse_machine(read("# TYPE up gauge\nup 1\n"))


async def test_readings_say_where_they_came_from_when_they_fail() -> None:
    answers = [httpx.Response(200, text=NODE), httpx.Response(503, text="no")]

    def answer(request: httpx.Request) -> httpx.Response:
        assert "authorization" not in request.headers
        return answers.pop(0)

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer), trust_env=False) as client:
        scraper = MachineScraper("http://exporter:9100/metrics", client, clock=lambda: 3.0)
        assert (await scraper.once()).memory_frac == 0.75
        with pytest.raises(ScrapeError, match=r"GPU metrics at http://exporter:9100/metrics answers 503"):
            await scraper.once()


def test_used_and_free_of_different_gpus_are_not_put_together() -> None:
    text = (
        'DCGM_FI_DEV_FB_USED{gpu="0"} 100\nDCGM_FI_DEV_FB_USED{gpu="1"} 50\n'
        'DCGM_FI_DEV_FB_FREE{gpu="1"} 50\nDCGM_FI_DEV_FB_FREE{gpu="0"} NaN\n'
    )
    assert parse_machine(Exposition(text=text, content_type="text/plain", t=0.0, took_s=0.1)).gpu_memory_frac == 0.5

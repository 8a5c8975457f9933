"""What hardware is on paper: the table of accelerators, and which entries make no sense."""

import pytest

from core.errors import UserError
from core.hardware import ACCELERATORS, Hardware, find, require_positive

TABLE = """T4 16, 320 · V100 32 GB 32, 900 · A10 24, 600 · L4 24, 300 · L40S 48, 864 · RTX 4090 24, 1008 · RTX 5090 32, 1792 ·
RTX PRO 6000 Blackwell 96, 1792 · A100 40 GB 40, 1555 · A100 80 GB SXM 80, 2039 · H100 PCIe 80, 2039 · H100 SXM 80, 3350 ·
H100 NVL 94, 3900 · H200 SXM 141, 4800 · B200 180, 8000 · MI300X 192, 5300 · MI325X 256, 6000 · MI355X 288, 8000"""
"""The vendors' datasheets: name, memory in GB, bandwidth in GB/s."""


def test_the_table_is_that_of_the_datasheets() -> None:
    rows = [row.split() for row in TABLE.replace("\n", " ").replace(",", "").split("·")]
    assert [(each.name, each.memory_gb, each.bandwidth_gbs) for each in ACCELERATORS] == [
        (" ".join(words[:-2]), float(words[-2]), float(words[-1])) for words in rows
    ]


@pytest.mark.parametrize(
    ("text", "name"),
    [("RTX 4090", "RTX 4090"), ("4090", "RTX 4090"), ("h100-sxm", "H100 SXM"), ("a100 80gb", "A100 80 GB SXM"), ("L4", "L4")],
)
def test_a_name_is_found_whole_or_by_a_part_that_one_has(text: str, name: str) -> None:
    assert find(text).name == name


@pytest.mark.parametrize(
    ("text", "words"), [("H100", "could be one of several; give one of H100 PCIe"), ("TPU", "not in the table")]
)
def test_other_names_are_refused_with_those_there_are(text: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        find(text)


def test_every_name_and_no_blank_is_found() -> None:
    assert [find(each.name) for each in ACCELERATORS] == list(ACCELERATORS)
    with pytest.raises(UserError, match="not in the table"):
        find("  ")


def test_what_is_given_wins_over_the_table() -> None:
    hardware = Hardware(gpu="H100 SXM", gpu_bandwidth_gbs=3000, gpu_memory_gb=79)
    assert (hardware.bandwidth_gbs, hardware.memory_gb) == (3000, 79)
    assert (Hardware(gpu="H100 SXM").bandwidth_gbs, Hardware(gpu="H100 SXM").memory_gb) == (3350, 80)
    assert (Hardware().bandwidth_gbs, Hardware().memory_gb, Hardware().weights_bytes) == (None, None, None)


def test_weights_are_parameters_times_their_bits() -> None:
    assert Hardware(params_b=7.6).weights_bytes == 15.2e9
    assert Hardware(params_b=7.6, weight_bits=4).weights_bytes == 3.8e9
    assert Hardware(weights_gb=5.5).weights_bytes == 5.5e9


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ({"weights_gb": 1.0, "params_b": 1.0}, "give one of them"),
        ({"weight_bits": 4.0}, "--weight-bits needs --params-b"),
        ({"weights_gb": 0.0}, "--weights-gb"),
        ({"gpu_bandwidth_gbs": 1e12}, "--gpu-bandwidth"),
        ({"eta": 0.001}, "--eta"),
        ({"eta": 1.1}, "--eta"),
        ({"memory_utilization": 0.0}, "--memory-utilization"),
        ({"gpu": "TPU"}, "not in the table"),
    ],
)
def test_entries_that_make_no_sense_are_refused(entries: dict[str, float], words: str) -> None:
    with pytest.raises(UserError, match=words):
        Hardware(**entries)  # type: ignore[arg-type]


def test_a_number_that_no_float_holds_is_refused_in_a_sentence() -> None:
    with pytest.raises(UserError, match="--input-tokens: no number here has that many digits"):
        require_positive(10**400, "--input-tokens")

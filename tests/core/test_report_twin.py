"""What a model said during a run, in the result."""

import math

from msgspec.structs import replace

from core import report
from core.results import TwinReading
from tests.core.test_report import VIEW
from tests.tui import knee_samples

RUN = knee_samples.diagnosed()


def test_it_stands_with_its_error_by_window_and_whether_it_was_used() -> None:
    data = report.result(replace(RUN, twin=knee_samples.TWIN), None)["twin"]
    assert (data["used"], data["error_frac"], data["limits"]["seqs_from"]) == (True, math.expm1(0.02), "told")
    first, *_, last = data["windows"]
    assert first == {"step": 5, "repeat": 0, "faster_frac": math.expm1(0.03), "bound": None}
    assert last == {"step": 7, "repeat": 0, "faster_frac": math.expm1(0.1), "bound": "least"}


def test_one_that_does_not_explain_the_windows_is_not_used() -> None:
    off: TwinReading = replace(knee_samples.TWIN, median_shift=0.4)
    assert report.result(replace(RUN, twin=off), None)["twin"]["used"] is False


def test_a_run_without_one_says_so() -> None:
    assert report.result(VIEW, None)["twin"] is None

"""What is known of a rate, and what a percentile over requests that had not all ended may say."""

from typing import Any

import pytest
from msgspec.structs import replace

from core.facts import fact
from core.margins import AT_LIMIT, BINS
from core.results import Percentiles, RepeatResult
from core.slo import tells_nothing
from core.view import RateMargins
from tests.tui import knee_samples, samples
from tui.widgets import knee_step, knee_words, rate_known


def margins(ended: dict[int, int], open_: dict[int, int] | None = None, failed: int = 0, judged: int = 0) -> RateMargins:
    """Counts by bin, relative to the first one above the limit."""
    counts = [tuple(given.get(at - AT_LIMIT, 0) for at in range(BINS)) for given in (ended, open_ or {})]
    return RateMargins(rate_rps=13.6, ended=counts[0], open=counts[1], failed=failed, judged=judged)


@pytest.mark.parametrize(
    ("interval", "nothing"),
    [((0.0, 1.0), True), ((0.2, 0.95), True), ((0.2, 0.94), False), ((0.96, 1.0), False), ((0.96, 0.96), False)],
)
def test_an_interval_tells_nothing_while_the_target_lies_in_it(interval: tuple[float, float], nothing: bool) -> None:
    assert tells_nothing(interval, 0.95) == nothing


def test_the_account_has_every_request_once() -> None:
    sent = margins({-8: 3}, {-4: 5, 4: 19}, failed=2)
    assert rate_known.account(sent) == "3 good, 21 missed, 5 open of 29 sent"
    assert sent.attained == (3 / 29, 8 / 29)


def test_a_quantile_is_a_bound_where_open_requests_may_lie_higher() -> None:
    assert rate_known.share_text(rate_known.quantile(margins({-8: 9, 4: 1}), 0.5)) == "52 %"
    assert rate_known.share_text(rate_known.quantile(margins({-8: 9}, {-8: 1}), 0.5)) == "52 %"
    assert rate_known.share_text(rate_known.quantile(margins({-8: 9}, {-8: 1}), 0.95)) == "≥ 50 %"
    assert rate_known.share_text(rate_known.quantile(margins({-8: 1}, failed=9), 0.5)) == "beyond every limit"
    assert rate_known.quantile(margins({}), 0.5) is None


def test_a_share_stays_on_its_side_of_the_limit() -> None:
    below, above = (rate_known.quantile(margins({at: 1}), 0.5) for at in (-1, 0))
    assert (rate_known.is_over(below), rate_known.share_text(below)) == (False, "96 %")
    assert (rate_known.is_over(above), rate_known.share_text(above)) == (True, "104 %")


def cut_short(ended: int, missing: int, **given: Any) -> RepeatResult:
    """A repeat of which some had not ended."""
    times = Percentiles(p50=0.5, p95=1.7, p99=1.9, mean=0.6, max=2.0, n=ended)
    facts: dict[str, Any] = {"sent": ended + missing, "succeeded": ended, "planned": ended + missing, "curtailed": True}
    facts |= dict.fromkeys(("ttft_s", "tpot_s", "e2e_s", "itl_s"), times)
    return replace(knee_samples.repeat("fail", (0.1, 0.9), 13.6), **(facts | given))


def table(*repeats: RepeatResult) -> list[str]:
    step = knee_samples.step(7, 13.6, "tighten", "fail", "", *repeats)
    return [str(row) for row in knee_step.blocks(samples.finished(), step, 76)[0]]


def test_where_most_have_not_ended_the_table_leads_with_that_and_knows_only_bounds() -> None:
    first, _, ttft, *_ = table(cut_short(84, 92))
    assert first.startswith("only 84 of 176 ended")
    assert ttft.split()[1:10] == ["≥", "2.00", "s", "✘"] * 2 + ["≥"], "the median is among the missing: above all that ended"


def test_what_cannot_move_a_percentile_leaves_it_as_it_is() -> None:
    assert "≥" not in "".join(table(cut_short(100, 0)))
    first, _, ttft, *_ = table(cut_short(95, 5))
    assert first.startswith("95 of 100 ended")
    assert ttft.split() == ["TTFT", "≥", "500", "ms", "≥", "1.70", "s", "✘", "≥", "2.00", "s*", "✘", "500", "ms"]


def test_a_failing_end_that_was_given_up_in_its_warm_up_says_so_with_the_figures_of_its_requests() -> None:
    reason = fact("overloaded_in_warmup", misses=40, planned=80)
    failed = replace(samples.FAILED, floor=(0.0, 1.0), reason=reason)
    sent = margins({}, {-4: 11, 4: 63}, judged=7)
    view = replace(samples.finished(), steps=(*samples.STEPS, failed), margins=(sent,))
    line = str(knee_words.headlines(view, 130).split("\n")[-1])
    assert "63 of 74 sent missed a limit, none was good" in line
    assert "67 of the 74 in the warm-up" in line
    assert "floor" not in line


def test_without_requests_on_record_a_failing_end_has_its_reason() -> None:
    failed = replace(samples.FAILED, floor=(0.0, 1.0), reason="every request failed")
    view = replace(samples.finished(), steps=(*samples.STEPS, failed), margins=())
    line = str(knee_words.headlines(view, 130).split("\n")[-1])
    assert "every request failed" in line
    assert "≤ 100 %" not in line

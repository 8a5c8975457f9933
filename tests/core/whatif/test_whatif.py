"""What-if in virtual time: right about a changed replica within its own error, and silent where the model is wrong."""

import math
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from core.config import Lengths
from core.errors import UserError
from core.facts import fact, says
from core.replica.catalog import CATALOG
from core.schedule import Plan
from core.twin import Emitted, Limits
from core.whatif import Change, Explained, Refused, Setting, as_it_was, ask, changed, explain, scaled
from core.whatif.knobs import steps_of
from core.whatif.windows import windows
from core.workloads import Gateway, Prefix
from tests.core.judge.virtual import one_at_a_time, probe_of
from tests.core.whatif.runs import explained, run_of, slowed, true_knee
from tests.core.whatif.servers import behind_a_queue, few_places

DEMO, CHAT = CATALOG["demo"], CATALOG["chat"]
HALF_AND_MORE = Change(ttft_s=0.4, tpot_s=0.0375)


@pytest.mark.parametrize(
    ("name", "change", "within"),
    [
        ("demo", Change(), 0.03),
        ("demo", HALF_AND_MORE, 0.04),
        ("demo", Change(target=0.99), 0.04),
        ("demo", Change(max_num_seqs=16), 0.04),
        ("demo", Change(kv_tokens=2400), 0.05),
        ("demo", Change(output_tokens=scaled(probe_of(DEMO, 1).workload.output_tokens, 2.0)), 0.06),
        ("chat", Change(), 0.04),
        ("chat", HALF_AND_MORE, 0.04),
        ("chat", Change(max_num_seqs=32), 0.04),
        ("chat", Change(output_tokens=scaled(probe_of(CHAT, 1).workload.output_tokens, 0.5)), 0.06),
    ],
)
def test_the_knee_under_a_change_is_that_of_the_changed_replica(name: str, change: Change, within: float) -> None:
    said, true = ask(explained(name), change), true_knee(CATALOG[name], change)
    assert said.knee_rps == pytest.approx(true, rel=within)
    assert said.low_rps is not None
    assert said.high_rps is not None
    assert said.low_rps < true < said.high_rps


def test_each_window_is_held_against_its_own_requests() -> None:
    run = explained("demo")
    assert len(run.windows) >= 4
    assert run.median_shift < 0.03
    assert all(abs(each.shift) < 0.1 and each.requests >= 40 for each in run.windows)
    assert run.as_modelled_rps == pytest.approx(run.knee_rps * math.exp(run.offset))
    same = ask(run, Change())
    assert as_it_was(run) == pytest.approx((same.low_rps, same.high_rps))


def test_a_change_without_effect_leaves_the_knee_where_it_is() -> None:
    run = explained("demo")
    said = ask(run, Change(max_num_seqs=2 * run.setting.limits.max_seqs))
    assert said.ratio == 1.0
    assert said.knee_rps == run.as_modelled_rps


def test_places_that_bind_are_not_hidden_by_a_step_that_has_room() -> None:
    said = ask(explained("chat"), Change(max_num_seqs=4))
    assert said.ratio is not None
    assert said.ratio < 0.2


def test_without_a_limit_on_waiting_the_knee_is_where_requests_pile_up() -> None:
    said = ask(explained("chat"), Change(ttft_s="none", max_num_seqs=16))
    with_limit = ask(explained("chat"), Change(max_num_seqs=16))
    assert said.by_queue
    assert said.knee_rps is not None
    assert with_limit.knee_rps is not None
    assert with_limit.knee_rps < said.knee_rps < 1.5 * with_limit.knee_rps


def test_a_run_whose_answers_stopped_by_themselves_is_refused() -> None:
    run = run_of("demo")
    natural = replace(run, config=replace(run.config, workload=replace(run.config.workload, stop="natural")))
    refused = explain(natural)
    assert isinstance(refused, Refused)
    assert (refused.why, refused.twin, refused.windows) == (fact("twin_none", fact("twin_lacks_lengths")), None, ())


def test_limits_that_nothing_meets_have_no_knee() -> None:
    said = ask(explained("demo"), Change(tpot_s=0.005))
    assert (said.knee_rps, said.low_rps, said.ratio, said.missing) == (None, None, None, "below")


def test_a_step_that_hardly_costs_anything_is_beyond_what_can_be_told() -> None:
    said = ask(explained("chat"), Change(input_tokens=Lengths(median=1), output_tokens=Lengths(median=2)))
    assert (said.knee_rps, said.missing) == (None, "above")


def test_the_table_has_two_rows_for_each_knob_and_tighter_limits_never_raise_the_knee() -> None:
    run = explained("demo")
    changes = steps_of(run.setting)
    names = [name for change in changes for name in change.given]
    assert sorted(names) == sorted(2 * ["ttft_s", "tpot_s", "target", "max_num_seqs", "kv_tokens", "output_tokens"])
    tighter, looser = (ask(run, change).ratio for change in changes if "ttft_s" in change.given)
    assert tighter is not None
    assert looser is not None
    assert tighter < 1 < looser


def test_the_same_run_gives_the_same_answer() -> None:
    first, second = explain(run_of("demo")), explain(run_of("demo"))
    assert isinstance(first, Explained)
    assert isinstance(second, Explained)
    assert ask(first, Change(target=0.99)) == ask(second, Change(target=0.99))


# --- refused ------------------------------------------------------------------------------------------------------


def queued(plan: Plan) -> Iterator[Emitted]:
    """The demo's engine behind a queue that no step explains."""
    return behind_a_queue(DEMO.engine, plan)


def placed(plan: Plan) -> Iterator[Emitted]:
    """The demo's engine with places that nothing tells."""
    return few_places(DEMO.engine, plan)


def test_a_server_with_a_queue_of_its_own_is_not_explained() -> None:
    refused = explain(run_of("demo", queued, fractions=(0.5, 0.78, 0.82)))
    assert isinstance(refused, Refused)
    assert refused.why.code == "twin_off"
    assert refused.why.figures["faster"] is True
    assert refused.median_shift is not None
    assert refused.median_shift >= 0.15
    assert refused.why.of, "it says what the model may lack"


def test_places_that_nothing_tells_are_a_limit_that_the_model_lacks() -> None:
    refused = explain(run_of("demo", placed, fractions=(0.3, 0.45, 0.53)))
    assert isinstance(refused, Refused)
    assert says(refused.why, "twin_lacks_limit")


def test_one_request_at_a_time_is_no_batching_engine() -> None:
    refused = explain(run_of("demo", one_at_a_time, fractions=(0.02, 0.03)))
    assert isinstance(refused, Refused)


def test_a_server_that_was_slower_for_a_while_is_said_to_be_unsteady() -> None:
    run = run_of("demo", fractions=(0.8, 0.85, 0.9))
    second = frozenset(order.order for order in run.orders if order.phase == "list" and order.repeat == 1)
    refused = explain(slowed(run, 2.5, second))
    assert isinstance(refused, Refused)
    assert says(refused.why, "twin_lacks_steadiness")


def test_a_run_with_too_few_requests_has_no_model() -> None:
    run = run_of("demo")
    few = explain(replace(run, steps=run.steps[:0]))
    assert isinstance(few, Refused)
    assert (few.why.code, few.why.figures["windows"]) == ("twin_few_windows", 0)
    gone = explain(replace(run, server=None))
    assert isinstance(gone, Refused)


def test_a_run_behind_a_gateways_limit_has_no_model() -> None:
    run = run_of("demo")
    workload = replace(run.config.workload, gateway=Gateway(limit=8))
    refused = explain(replace(run, config=replace(run.config, workload=workload)))
    assert isinstance(refused, Refused)
    assert refused.why == fact("twin_none", fact("twin_lacks_gateway", limit=8))


def test_a_run_whose_prompts_share_prefixes_has_no_model() -> None:
    run = run_of("demo")
    workload = replace(run.config.workload, prefix=Prefix(kind="shared", tokens=64, groups=2))
    refused = explain(replace(run, config=replace(run.config, workload=workload)))
    assert isinstance(refused, Refused)
    assert refused.why == fact("twin_none", fact("twin_lacks_hits"))


def test_one_window_is_held_against_the_model_in_two_halves_of_its_requests() -> None:
    run = run_of("demo")
    one = replace(run, steps=(replace(run.steps[0], repeats=run.steps[0].repeats[:1]),))
    (whole,), halves = windows(one), windows(one, parts=2)
    assert [half.n for half in halves] == [whole.n // 2, whole.n - whole.n // 2]
    assert (halves[0].from_s, halves[1].to_s) == (whole.from_s, whole.to_s)
    assert halves[0].to_s == halves[1].from_s
    halved = explain(one)
    assert isinstance(halved, Explained)
    assert any(says(note, "twin_one_repeat") for note in halved.notes)


def test_a_held_rate_is_said_to_be_none_that_a_model_is_made_of() -> None:
    run = run_of("demo")
    method = replace(run.config.method, rates_rps=(), hold_rps=10.0)
    refused = explain(replace(run, config=replace(run.config, method=method), steps=()))
    assert isinstance(refused, Refused)
    assert refused.why.figures["held"] is True


def test_what_was_cut_off_is_in_no_window() -> None:
    run = run_of("demo")
    cut = {repeat.order for step in run.steps for repeat in step.repeats if repeat.curtailed}
    planned = {
        (step.step, at): repeat.planned for step in run.steps for at, repeat in enumerate(step.repeats) if repeat.order in cut
    }
    assert planned
    assert all(
        each.requests < planned[each.step, each.repeat] for each in explained("demo").windows if (each.step, each.repeat) in planned
    )


# --- what may be asked --------------------------------------------------------------------------------------------


def test_a_change_touches_what_it_names_and_nothing_else() -> None:
    config = probe_of(DEMO, 1)
    setting = Setting(
        slo=config.slo, workload=config.workload, limits=Limits(max_seqs=256, max_batched_tokens=2048, kv_tokens=3584)
    )
    new = changed(setting, Change(ttft_s=0.4, max_num_seqs=4096))
    assert (new.slo.ttft_s, new.slo.tpot_s, new.workload) == (0.4, config.slo.tpot_s, config.workload)
    assert (new.limits.max_seqs, new.limits.max_batched_tokens) == (4096, 4096)
    assert changed(setting, Change(ttft_s="none")).slo.ttft_s is None
    assert changed(setting, Change()) == setting


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (Change(kv_tokens=300), "KV cache do not hold"),
        (Change(ttft_s="none", tpot_s="none"), "no limit to judge by"),
        (Change(ttft_s="none", output_tokens=Lengths(median=1)), "answers of one token have none"),
        (Change(target=0.99999), "needs too many requests"),
        (Change(target=1.0), "no knee in the long run"),
        (Change(output_tokens=Lengths(median=4000)), "--output-tokens: the longest request"),
        (Change(input_tokens=Lengths(median=4000)), "--input-tokens: the longest request"),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence(change: Change, words: str) -> None:
    with pytest.raises(UserError, match=words):
        ask(explained("demo"), change)

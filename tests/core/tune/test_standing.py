"""How settings stand beside each other: the best first, and who is told apart from it."""

import pytest

from core.facts import fact
from core.results import Knee
from core.tune import Measured, Setting, best_of, headline, standings


def measured(name: str, pass_rps: float | None, fail_rps: float | None, *, gpus: int = 1, answered: bool = True) -> Measured:
    return Measured(
        setting=Setting(values=(("n", name),)),
        outcome="bracket" if pass_rps is not None else "below",
        message="as told",
        answered=answered,
        knee=Knee(pass_rps=pass_rps, first_fail_rps=fail_rps),
        gpus=gpus,
        gpus_known=True,
        mean_output=100.0,
    )


def order(*found: Measured) -> list[tuple[str, str | None]]:
    return [(row.found.setting.label, row.against) for row in standings(found, None)]


def test_the_best_comes_first_and_brackets_without_a_common_rate_are_told_apart() -> None:
    found = (measured("a", 2.0, 4.0), measured("b", 4.0, 8.0), measured("c", 3.0, 4.1), measured("d", None, 1.0))
    assert order(*found) == [("n=b", "best"), ("n=c", "not_apart"), ("n=a", "apart"), ("n=d", "apart")]
    assert headline(found) == fact("tune_best", "n=c", best="n=b", pass_rps=4.0, fail_rps=8.0, gpus=1, settings=4, answered=4)


def test_equal_brackets_are_not_told_apart_and_the_first_is_named() -> None:
    assert order(measured("a", 4.0, 8.0), measured("b", 4.0, 8.0)) == [("n=a", "best"), ("n=b", "not_apart")]


def test_what_fails_later_comes_first_where_the_same_rate_held() -> None:
    assert order(measured("a", 4.0, 6.0), measured("b", 4.0, None)) == [("n=b", "best"), ("n=a", "not_apart")]


def test_a_replica_of_more_gpus_has_to_carry_more() -> None:
    found = (measured("tp2", 6.0, 7.8, gpus=2), measured("tp1", 4.0, 5.0))
    assert order(*found) == [("n=tp1", "best"), ("n=tp2", "apart")]
    best = best_of(found)
    assert best is not None
    assert best.pass_per_gpu_rps == 4.0
    assert (found[0].pass_per_gpu_rps, found[0].fail_per_gpu_rps) == (3.0, 3.9)


def test_the_price_of_tokens_at_both_ends() -> None:
    rows = standings((measured("a", 2.0, 4.0, gpus=2),), 3.6)
    assert rows[0].per_hour == 7.2
    assert rows[0].per_million_at_pass == pytest.approx(7.2 / (2.0 * 100 * 3600 / 1e6))
    assert rows[0].per_million_at_fail == pytest.approx(7.2 / (4.0 * 100 * 3600 / 1e6))
    assert standings((measured("a", 2.0, 4.0),), None)[0].per_hour is None


def test_what_has_no_answer_counts_for_nothing() -> None:
    lost = measured("lost", 9.0, 12.0, answered=False)
    assert order(measured("a", 2.0, 4.0), lost) == [("n=a", "best"), ("n=lost", None)]
    assert lost.pass_per_gpu_rps is None
    assert headline((lost,)) == fact("tune_none", settings=1, answered=0)
    assert best_of((lost, measured("d", None, 1.0))) is None


def test_a_setting_was_dropped_if_its_knee_says_so() -> None:
    each = measured("a", 2.0, 4.0)
    assert each.beaten is None
    why = fact("beaten", fail_rps=4.0, best_rps=5.0)
    knee = Knee(pass_rps=2.0, first_fail_rps=4.0, notes=(why,))
    assert Measured(setting=each.setting, outcome="bracket", message="", answered=True, knee=knee).beaten == why

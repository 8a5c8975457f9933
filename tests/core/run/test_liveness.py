"""Signs of life: a frozen or vanished server is told from a busy one."""

from core.run.liveness import LOST_ENDINGS, STALL_S, Liveness
from tests.core.run.events import START, ended, first, sample, sent


def silent(at: float = START) -> Liveness:
    """One request sent at `at`, and nothing since."""
    liveness = Liveness(0.5)
    liveness.message(sent(0, at))
    return liveness


def test_nothing_in_flight_is_not_a_stall() -> None:
    liveness = silent()
    liveness.message(ended(0, START, START + 1))

    assert not liveness.stalled(START + 1000)
    assert liveness.alive_since(START + 1000)


def test_silence_is_a_stall_after_its_time() -> None:
    assert not silent().stalled(START + STALL_S - 0.1)
    assert silent().stalled(START + STALL_S)


def test_slow_requests_are_given_more_time() -> None:
    liveness = Liveness(20.0)
    liveness.message(sent(0, START))

    assert liveness.stall_s == 60.0
    assert not liveness.stalled(START + 59)
    assert liveness.stalled(START + 60)


def test_silence_counts_from_the_first_request_in_flight() -> None:
    liveness = silent()
    liveness.message(ended(0, START, START + 1))
    liveness.message(sent(1, START + 100))

    assert not liveness.stalled(START + 105)


def test_long_answers_without_a_counter_are_not_a_stall() -> None:
    liveness = silent()
    liveness.message(first(0, START + 1))

    assert not liveness.stalled(START + 100)


def test_a_token_counter_that_rises_is_life_and_one_that_stands_is_none() -> None:
    rising, standing = silent(), silent()
    for k in range(30):
        rising.sample(sample(START + k / 2, tokens=float(k)))
        standing.sample(sample(START + k / 2, tokens=7.0))

    assert not rising.stalled(START + 14.6)
    assert standing.stalled(START + 14.6)


def test_an_old_reading_says_nothing() -> None:
    liveness = silent()
    liveness.sample(sample(START + 1, tokens=1.0))
    liveness.sample(sample(START + 2, tokens=2.0))

    assert liveness.stalled(START + STALL_S)


def test_life_after_a_decision_is_a_first_token_an_end_or_a_counter_that_rose_well_after_it() -> None:
    decided = START + 5
    assert not silent().alive_since(decided)

    token = silent()
    token.message(first(0, decided + 0.2))
    assert token.alive_since(decided)

    counter = silent()
    counter.sample(sample(decided + 0.4, tokens=5.0))
    assert not counter.alive_since(decided), "those tokens may be older than the decision"
    counter.sample(sample(decided + 1.4, tokens=9.0))
    assert counter.alive_since(decided)


def test_errors_are_no_sign_of_life() -> None:
    liveness = silent()
    liveness.message(sent(1, START + 9))
    liveness.message(ended(1, START + 9, START + 9.5, ttft_s=None, ending="http"))

    assert liveness.stalled(START + STALL_S)


def test_cut_off_needs_every_one_of_the_newest_to_have_broken() -> None:
    liveness = Liveness(0.5)
    assert not liveness.cut_off(1)

    liveness.message(ended(98, START, START + 1))
    for index in range(LOST_ENDINGS - 1):
        liveness.message(ended(index, START, START, ttft_s=None, ending="truncated" if index < 3 else "connection"))
    assert liveness.cut_off(1)
    assert not liveness.cut_off(LOST_ENDINGS)

    liveness.message(ended(99, START, START, ttft_s=None, ending="connection"))
    assert liveness.cut_off(LOST_ENDINGS)

    liveness.message(ended(100, START, START, ttft_s=None, ending="http"))
    assert not liveness.cut_off(1)

"""Over all replicas: who is there, the sums, and how evenly the load is spread."""

from core.facts import fact
from core.server import Found
from core.watch import Imbalance, Watched
from tests.core.watch.feed import steady, vitals

A, B, C = "http://a:1", "http://b:1", "http://c:1"


def watched(*urls: str) -> Watched:
    made = Watched()
    made.see(Found(urls), 0.0)
    return made


def test_sums_are_over_those_that_were_read() -> None:
    made = watched(A, B, C)
    for url, rate in ((A, 3.0), (B, 1.0)):
        made.take(url, vitals(0.0, running=2.0))
        made.take(url, vitals(10.0, running=2.0, waiting=1.0, requests_success_total=10 * rate, kv_usage_max_frac=rate / 10))
    made.fail(C, 10.0, "refused")
    total = made.table(10.0).total
    assert (total.replicas, total.read, total.running, total.waiting) == (3, 2, 4.0, 2.0)
    assert (total.finished_rps, total.kv_usage_frac, total.load_frac) == (4.0, 0.3, 0.3)
    assert total.preemptions_per_s == 0.0


def test_what_nobody_tells_has_no_sum() -> None:
    made = watched(A)
    assert made.table(1.0).total.running is None


def test_the_busiest_one_is_known_by_its_requests_in_flight() -> None:
    made = watched(A, B)
    for t in (0.0, 1.0):
        made.take(A, vitals(t, running=9.0))
        made.take(B, vitals(t, running=3.0))
    assert made.table(1.0).total.imbalance == Imbalance(A, 1.5, "in_flight")


def test_of_short_requests_by_what_finished_and_of_few_not_at_all() -> None:
    made = watched(A, B)
    steady(made, A, 3.0, 20)
    steady(made, B, 1.0, 20)
    assert made.table(20.0).total.imbalance == Imbalance(A, 1.5, "finished")
    few = watched(A, B)
    steady(few, A, 0.3, 20)
    steady(few, B, 0.1, 20)
    assert few.table(20.0).total.imbalance is None
    assert watched(A).table(0.0).total.imbalance is None


def test_replicas_come_and_go_and_come_back() -> None:
    made = watched(A, B)
    steady(made, B, 5.0, 5)
    problem = fact("replicas_not_told", source="--dns x:1", said="no", kept=0)
    made.see(Found((A, C), (problem,)), 30.0)
    rows = {row.url: row for row in made.table(40.0).rows}
    assert {url: row.state for url, row in rows.items()} == {A: "unread", B: "gone", C: "unread"}
    assert (rows[B].since_s, rows[B].figures, rows[C].joined_s, rows[A].joined_s) == (10.0, None, 10.0, None)
    assert (made.urls, made.table(40.0).problems, made.table(40.0).total.replicas) == ((A, C), (problem,), 2)
    made.take(B, vitals(41.0))  # a reading that was under way
    assert made.table(41.0).rows[1].state == "gone"
    made.see(Found((A, B, C)), 60.0)
    assert made.table(61.0).rows[1].state == "unread"
    made.see(Found((A, C)), 90.0)
    made.see(Found((A, C)), 400.0)
    assert [row.url for row in made.table(400.0).rows] == [A, C]

"""What is said of a fleet that is checked, fact by fact."""

from core.facts import Fact, Figure, fact

HELD: dict[str, Figure] = {
    "replicas": 8,
    "planned_rps": 63.0,
    "planned": "holds",
    "full_rps": 90.0,
    "holds_rps": 83.0,
    "fails_rps": 86.5,
    "ratio": 83 / 90,
    "busiest_share": 1.3,
    "hit_frac": 0.12,
    "hit_frac_one": 0.41,
}
NONE: dict[str, Figure] = {**HELD, "planned": "fails", "holds_rps": None, "ratio": None, "fails_rps": 4.0}
PLAIN: dict[str, Figure] = dict.fromkeys(("busiest_share", "hit_frac", "hit_frac_one"))

CHECKED: list[tuple[Fact, str]] = [
    (
        fact("fleet_holds", **HELD),
        "the planned load of 63.0 requests/s holds; 8 replicas hold 83.0 of 90.0 requests/s: 92.2 %; the busiest got 1.3 times "
        "its share; prefix hits 12 % of the prompts' tokens, 41 % on one replica",
    ),
    (
        fact("fleet_holds", **{**HELD, **PLAIN, "planned": "fails", "holds_rps": 31.5, "ratio": 0.35}),
        "the planned load of 63.0 requests/s does not hold; 8 replicas hold 31.5 of 90.0 requests/s: 35.0 %",
    ),
    (
        fact("fleet_holds", **{**HELD, **PLAIN, "replicas": 1, "busiest_share": 1.0, "planned": "not_known"}),
        "the planned load of 63.0 requests/s was not judged; 1 replica holds 83.0 of 90.0 requests/s: 92.2 %",
    ),
    (
        fact("fleet_holds_none", **NONE),
        "the planned load of 63.0 requests/s does not hold; 8 replicas hold none of the rates tried, and the lowest rate tried, "
        "4.00 requests/s, fails; the busiest got 1.3 times its share; prefix hits 12 % of the prompts' tokens, 41 % on one "
        "replica",
    ),
    (
        fact("fleet_full_not_tried", full_rps=90.0, max_rps=70.0),
        "90.0 requests/s, what the replicas would hold one by one, was not tried: --max-rps allows 70.0",
    ),
    (
        fact("fleet_full_not_tried", full_rps=12000.0, max_rps=None),
        "12,000 requests/s, what the replicas would hold one by one, was not tried: no single client sends that",
    ),
    (fact("time_up_fleet", rate_rps=76.5), "the time is up, so 76.5 requests/s was not tried; give a longer --budget"),
    (
        fact("fleet_unread", unread=2, replicas=8, name="10.0.0.7:8000", said="answers 404 (not found)"),
        "2 of 8 replicas cannot be read, and no load was sent. 10.0.0.7:8000 answers 404 (not found)",
    ),
    (
        fact("fleet_unread", unread=1, replicas=1, name="a:8000", said="refused the connection"),
        "The replica cannot be read, and no load was sent. a:8000 refused the connection",
    ),
    (
        fact("fleet_unseen", fact("replicas_unseen", counted=60, requests=90)),
        "No answer: of 90 requests that the gateway answered, the replicas named finished 60; what the others do is not seen. Name "
        "all replicas behind the gateway, and no others, then run again",
    ),
    (
        fact("fleet_changed", before=8, now=7),
        "No answer: the fleet changed, 8 replicas before and 7 answer now. Keep it as it is, then run again",
    ),
    (
        fact("fleet_changed", before=2, now=1),
        "No answer: the fleet changed, 2 replicas before and 1 answers now. Keep it as it is, then run again",
    ),
    (
        fact("fleet_changed", before=8, now=8),
        "No answer: the fleet changed, 8 replicas before and others answer now. Keep it as it is, then run again",
    ),
    (fact("fleet_loses", lost=1, replicas=8), "the command given with --lose-command takes 1 of 8 replicas away"),
    (fact("fleet_lost", left=7, after_s=12.3), "7 replicas left, 12 s after the command ended"),
    (
        fact("fleet_after_loss", lost=1, left=7, planned_rps=63.0, verdict="pass"),
        "with 1 lost and 7 left, the planned load still holds",
    ),
    (
        fact("fleet_after_loss", lost=2, left=6, planned_rps=63.0, verdict="fail"),
        "with 2 lost and 6 left, the planned load does not hold",
    ),
    (
        fact("fleet_after_loss", lost=2, left=6, planned_rps=63.0, verdict="void"),
        "with 2 lost and 6 left, the planned load was not judged",
    ),
    (
        fact("fleet_loss_not_judged", fact("lose_failed", exit_code=3, within_s=600.0)),
        "whether it holds after a loss is not known: the command given with --lose-command ended with exit code 3",
    ),
    (fact("lose_failed", exit_code=None, within_s=600.0), "the command given with --lose-command did not end within 10 min"),
    (
        fact("lose_without_effect", left=8, lost=1, within_s=300.0),
        "5 min after the command given with --lose-command 8 replicas still answer; 1 should be gone",
    ),
    (
        fact("lost_others", left=6, expected=7),
        "6 replicas answer after the command given with --lose-command, where 7 of those before were to be left",
    ),
]

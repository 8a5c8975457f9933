"""What the measurements mean: the account of a repeat, its verdict, the search for the knee, and why a rate fails.

Others import these names, and nothing else of the room.
"""

from core.judge.buckets import buckets_that_fail, pooled, windows
from core.judge.columns import SEND_WIDTH, Ends, Firsts, Indices, Rows, Sends, ended_row
from core.judge.diagnosis import explained
from core.judge.evidence import alike, errors_said
from core.judge.idle import idle_e2e_s, idle_speed, lengths_check, why_infeasible
from core.judge.rate_verdicts import (
    Interval,
    RampOutcome,
    cut_off,
    floor_of,
    held,
    held_verdict,
    ramp_outcome,
    rechecked,
    set_aside,
    spread_note,
    step_over,
    step_verdict,
)
from core.judge.replicas import busiest_share, replica_uses, replicas_change
from core.judge.search import Bracket, Done, Hold, Ramp, Search, Step, figure
from core.judge.server_readings import Readings
from core.judge.stopping import (
    REPORT_DELAY_S,
    drain_left_s,
    lengthened_until,
    out_of_reach,
    ramp_holds,
    runaway,
    segment_at,
    still_open,
)
from core.judge.tally import CLOSING_S, Tally, closing_s
from core.judge.validity import CLIENT, lateness_limit_s, lateness_status, others_took_part, stalls_too_often
from core.judge.verdict import Decision, decide_ramp, decide_step, judge_repeat
from core.judge.window import token_costs
from core.judge.workers import Senders

__all__ = [
    "CLIENT",
    "CLOSING_S",
    "REPORT_DELAY_S",
    "SEND_WIDTH",
    "Bracket",
    "Decision",
    "Done",
    "Ends",
    "Firsts",
    "Hold",
    "Indices",
    "Interval",
    "Ramp",
    "RampOutcome",
    "Readings",
    "Rows",
    "Search",
    "Senders",
    "Sends",
    "Step",
    "Tally",
    "alike",
    "buckets_that_fail",
    "busiest_share",
    "closing_s",
    "cut_off",
    "decide_ramp",
    "decide_step",
    "drain_left_s",
    "ended_row",
    "errors_said",
    "explained",
    "figure",
    "floor_of",
    "held",
    "held_verdict",
    "idle_e2e_s",
    "idle_speed",
    "judge_repeat",
    "lateness_limit_s",
    "lateness_status",
    "lengthened_until",
    "lengths_check",
    "others_took_part",
    "out_of_reach",
    "pooled",
    "ramp_holds",
    "ramp_outcome",
    "rechecked",
    "replica_uses",
    "replicas_change",
    "runaway",
    "segment_at",
    "set_aside",
    "spread_note",
    "stalls_too_often",
    "step_over",
    "step_verdict",
    "still_open",
    "token_costs",
    "why_infeasible",
    "windows",
]

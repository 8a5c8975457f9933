"""From a run's view to the snippets of `kneescope report --format keda|hpa|rules`."""

from core import fleet, prose
from core.errors import UserError
from core.fleet_check import refuse_fleet
from core.report.json import answer_of, evidence_of
from core.report.scalers import Form, Scaling, snippet, waiting_target
from core.units import rate_text
from core.view import RunView


def scaling_text(view: RunView, run_log: str | None, form: Form) -> str:
    """The snippet for a run whose knee is known. Raises UserError (exit code 3) where no rate was seen to hold."""
    knee = answer_of(view).knee
    if view.config is not None:
        refuse_fleet(view.config)
    if view.config is None or knee.pass_rps is None:
        raise UserError("No rate was seen to hold in this run, so there is none to scale by.", exit_code=3)
    plan = fleet.plan(knee, view.config.fleet, view.server, evidence_of(view))
    size, cost = (plan.at_pass, plan.cost) if plan else (None, None)
    seen = [
        repeat.waiting_max
        for step in view.steps
        if step.rate_rps == knee.pass_rps and step.phase != "ramp" and step.verdict == "pass"
        for repeat in step.repeats
        if repeat.verdict == "pass" and repeat.waiting_max is not None
    ]
    scaling = Scaling(
        source=_source(view, run_log),
        model=view.server.model if view.server else None,
        safe_rps=knee.pass_rps,
        target_rps=knee.pass_rps * view.config.fleet.headroom,
        headroom=view.config.fleet.headroom,
        waiting=waiting_target(knee.pass_rps, view.config.limits.shortest_ttft_s, max(seen, default=None)),
        least=cost.mean_replicas if cost and cost.mean_replicas else 1,
        most=size.replicas if size else None,
    )
    return snippet(form, scaling)


def _source(view: RunView, run_log: str | None) -> tuple[str, ...]:
    answer, config, server = answer_of(view), view.config, view.server
    assert config is not None
    knee, work = answer.knee, config.workload
    shared = "" if work.prefix.cold else f", {prose.prefix(work.prefix)}"
    fail_rps = knee.fail_rps
    fails = "" if fail_rps is None else f", failed at {rate_text(fail_rps)}"
    where = f"{server.model or 'model not known'} at {server.url}" if server else config.target.address
    lines = [
        f"From the kneescope run {run_log or '(no file)'} of {view.started_utc}: {where}.",
        f"One replica held {rate_text(knee.pass_rps or 0.0)}{fails}; {prose.limits(config.limits)};",
        f"{prose.requests(work)}{shared}, {prose.mode_words(config.method)},",
        f"{', '.join(filter(None, (prose.arrivals(work), prose.in_front(work))))}.",
    ]
    if server is not None and server.simulated:
        lines.append("This was a simulated replica: its numbers say nothing about a real server.")
    return tuple(lines)

"""A run as one page that needs nothing else: its answer, plots, tables and sentences, for a browser of any width, light or dark."""

from collections.abc import Iterable, Sequence

from core import __version__, fleet, prose
from core.report.buckets import HEADS, bucket_tables
from core.report.charts import Chart, charts
from core.report.closed import closed_fact
from core.report.elements import Markup, element, joined
from core.report.fleet_check import fleet_check_rows
from core.report.json import answer_of, evidence_of
from core.report.markdown import answer_rows, asked_lines, fleet_said, simulated, why_lines
from core.report.page_style import STYLE
from core.report.text import (
    answer_lengths,
    floor_words,
    gateway_waits,
    highest,
    hits_words,
    latencies,
    lateness,
    notes,
    passing_step,
    required_line,
    worst_blocks,
)
from core.report.why import Head, diagnosis_parts
from core.results import Answer, RepeatResult, StepResult
from core.units import DASH, between, count, duration, latency, percent, rate_number
from core.view import RunView

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""Nothing is loaded and nothing runs, whatever stands in the page."""

_PARTS: dict[Head, str] = {"seen": "Seen", "therefore": "So", "advice": "Do", "open": "Open", "not": "Not"}
_STEP_HEADS = ("step", "requests/s", "phase", "verdict", "floor", "why")
_REPEAT_HEADS = (
    *("requests/s", "repeat", "verdict", "attainment", "good", "missed", "planned", "errors"),
    *("TTFT p50", "p95", "p99", "TPOT p50", "p95", "p99", "E2E p95"),
    *("served/s", "waiting max", "KV max", "late p99"),
)


def to_html(view: RunView, path: str) -> str:
    """The page of a run as a whole document; `path` is where its file lies. All texts are escaped, whoever wrote them."""
    answer = answer_of(view)
    headline = prose.sentence(answer.message or answer.outcome)
    head = joined(
        Markup('<meta charset="utf-8">'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup('<meta name="color-scheme" content="light dark">'),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'),
        element("title", f"kneescope: {headline}"),
        Markup(f"<style>{STYLE}</style>"),
    )
    body = joined(_header(view, answer, headline), element("main", *_sections(view, answer, path)), _footer())
    page = element("html", element("head", head), element("body", body), lang="en")
    return f"<!doctype html>\n{page}\n"


def _header(view: RunView, answer: Answer, headline: str) -> Markup:
    server = view.server
    model = (server.model if server else None) or (view.config.target.model if view.config else None) or "model not known"
    where = server.url if server else view.config.target.address if view.config else ""
    of = " · ".join(filter(None, (model, where, view.started_utc)))
    warnings = [element("p", line, class_="warning") for line in simulated(view)]
    return element("header", element("h1", headline), element("p", of, class_="of"), *warnings, class_=answer.outcome)


def _footer() -> Markup:
    return element("footer", element("p", f"Made by kneescope {__version__}. This page needs no network."))


def _sections(view: RunView, answer: Answer, path: str) -> Iterable[Markup]:
    found = [
        ("The answer", _answer(view, answer)),
        ("Plots", _plots(charts(view, answer))),
        ("Why", _why(view, answer)),
        ("Fleet", _list([*fleet_said(view, answer), *_assumptions(view, answer)])),
        ("Steps", _steps(view)),
        ("Repeats", _repeats(view)),
        *((table.title, _table(HEADS, table.rows)) for table in bucket_tables(view, answer)),
        ("To know", _list([*notes(view), *worst_blocks(view)])),
        ("Asked", _list(asked_lines(view))),
        ("Checks before the load", _checks(view)),
        ("Server", _server(view)),
        ("To repeat it", _repeat(view, path)),
    ]
    return [element("section", element("h2", heading), inside) for heading, inside in found if inside]


def _answer(view: RunView, answer: Answer) -> Markup:
    step, said = passing_step(view.steps, answer.knee), closed_fact(view, answer)
    told = [
        *required_line(view, answer),
        *(latencies(step), answer_lengths(view), gateway_waits(step), prose.estimate(answer.knee.estimate)),
        "" if said is None else prose.sentence(said),
        lateness(view),
    ]
    rows = fleet_check_rows(view, answer)
    of_fleet = [_table(("the fleet", "", ""), rows)] if rows else []
    zones = _table(("", "rate", "evidence"), answer_rows(view, answer))
    return joined(*of_fleet, zones, *(element("p", text) for text in told if text))


def _why(view: RunView, answer: Answer) -> Markup:
    """The diagnosis by its parts; where there is none, what the failing steps of the answer say."""
    if answer.diagnosis is None:
        return _list(why_lines(view, answer))
    rows = [element("li", element("b", _PARTS[head]), text) for head, text in diagnosis_parts(answer.diagnosis)]
    return element("ul", *rows)


def _plots(found: Sequence[Chart]) -> Markup:
    figures = [
        element("figure", element("h3", chart.heading), chart.drawing, element("figcaption", *chart.keys)) for chart in found
    ]
    return element("div", *figures, class_="plots") if figures else joined()


def _assumptions(view: RunView, answer: Answer) -> list[str]:
    """What the size of the fleet rests on."""
    if view.config is None:
        return []
    plan = fleet.plan(answer.knee, view.config.fleet, view.server, evidence_of(view))
    return [] if plan is None else [f"Assumes {', '.join(map(prose.text, plan.assumptions))}."]


# --- tables -------------------------------------------------------------------------------------------------------


def _steps(view: RunView) -> Markup:
    rows = []
    for step in view.steps:
        scale = prose.scale(view.config.workload, step.rate_rps) if view.config else ""
        why = "; ".join(filter(None, (prose.text(step.reason), hits_words(step, view), scale)))
        rows.append((str(step.step), rate_number(step.rate_rps), step.phase, step.verdict, floor_words(step, view), why))
    return _table(_STEP_HEADS, rows, verdict=3)


def _repeats(view: RunView) -> Markup:
    target = view.config.slo.target if view.config else 1.0
    rows = [_repeat_row(step, repeat, target) for step in view.steps if step.phase != "ramp" for repeat in step.repeats]
    few = [element("p", "* of too few answers", class_="small")] if any("*" in cell for row in rows for cell in row) else []
    return joined(_table(_REPEAT_HEADS, rows, verdict=2), *few)


def _repeat_row(step: StepResult, repeat: RepeatResult, target: float) -> tuple[str, ...]:
    latencies_of = ((repeat.ttft_s, ("p50", "p95", "p99")), (repeat.tpot_s, ("p50", "p95", "p99")), (repeat.e2e_s, ("p95",)))
    return (
        rate_number(step.rate_rps),
        str(repeat.index + 1),
        repeat.verdict,
        between(*repeat.attainment_interval, target, DASH),
        *map(count, (repeat.good, repeat.misses, repeat.planned, repeat.errors)),
        *(highest([values], which) for values, names in latencies_of for which in names),
        rate_number(repeat.served_rps),
        DASH if repeat.waiting_max is None else count(round(repeat.waiting_max)),
        percent(repeat.kv_usage_max),
        latency(repeat.lateness_s.p99),
    )


def _checks(view: RunView) -> Markup:
    rows = [(check.status, check.check, prose.sentence(check.message)) for check in view.checks]
    return _table(("", "check", "what was found"), rows, verdict=0)


def _server(view: RunView) -> Markup:
    server = view.server
    if server is None:
        return joined()
    known: list[tuple[str, str | None]] = [
        ("model", server.model),
        ("address", server.url),
        ("version", server.version),
        ("longest context", _tokens(server.max_model_len)),
        ("KV cache", _tokens(server.kv_cache_tokens)),
        ("engines", count(server.engines)),
        *((name.upper(), None if n is None else count(n)) for name, n in (("tp", server.tp), ("pp", server.pp), ("dp", server.dp))),
        ("fingerprint", server.fingerprint),
        *sorted(server.config.items()),
    ]
    return _table(("", ""), [(name, value) for name, value in known if value is not None])


def _tokens(n: int | None) -> str | None:
    return None if n is None else count(n, "token")


def _repeat(view: RunView, path: str) -> Markup:
    took_s = view.duration_s if view.duration_s is not None else view.now_s
    lines = [element("p", f"The run took {duration(took_s)}.")]
    if view.command:
        lines.insert(0, element("pre", view.command))
    if path:
        lines.append(element("p", f"Run file: {path}"))
    return joined(*lines)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], verdict: int | None = None) -> Markup:
    """A table that scrolls in itself where it is too wide. `verdict`: the column whose words have a colour."""
    if not rows:
        return joined()
    head = element("thead", element("tr", *(element("th", each, scope="col") for each in heads))) if any(heads) else joined()
    body = [element("tr", *(_cell(cell, at == verdict) for at, cell in enumerate(row))) for row in rows]
    return element("div", element("table", head, element("tbody", *body)), class_="wide", tabindex="0")


def _cell(text: str, verdict: bool) -> Markup:
    return element("td", text, class_=f"verdict {text}" if verdict else "words" if len(text) > 40 else None)


def _list(lines: Iterable[str]) -> Markup:
    rows = [element("li", line) for line in lines]
    return element("ul", *rows) if rows else joined()

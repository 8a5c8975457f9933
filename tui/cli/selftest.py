"""`kneescope selftest`: what this machine can carry, before a server is asked anything."""

import asyncio

from core.load import LATE_S, Findings, Rung, self_test
from core.units import as_set, limit, milliseconds, percent

NO_FIGURES = 3


def main(children: int | None) -> int:
    """Run it, a line for each rate as it is done; exit code 0, or 3 when not even the lowest rate held."""
    print("Running the load generator against a built-in server that does no work; this takes about a minute.", flush=True)
    print("requests/s   chunks/s   late p50 / p99 ms   TTFT error p50 / p99 ms     CPU   server's CPU", flush=True)
    findings = asyncio.run(self_test(lambda rung: print(line(rung), flush=True), children))
    print(conclusion(findings))
    return 0 if findings.requests_per_s is not None and findings.chunks_per_s is not None else NO_FIGURES


def line(rung: Rung) -> str:
    """One rate as a line of the table."""
    late = f"{milliseconds(rung.lateness_p50_s)} / {milliseconds(rung.lateness_p99_s)}"
    error = f"{milliseconds(rung.ttft_error_p50_s)} / {milliseconds(rung.ttft_error_p99_s)}"
    why = "" if rung.holds else f"   {_fault(rung)}"
    load = f"{as_set(rung.rate_rps):>10} {as_set(rung.chunks_per_s):>10}"
    return f"{load}   {late:>17}   {error:>23}   {percent(rung.cpu_frac, 2):>5}   {percent(rung.server_cpu_frac, 2):>12}{why}"


def _fault(rung: Rung) -> str:
    if rung.failed or rung.unsent or not rung.sent:
        return f"does not hold: {rung.failed} failed, {rung.unsent} not sent"
    return f"does not hold: sends late by more than {limit(LATE_S)} at p99"


def conclusion(findings: Findings) -> str:
    """What it comes to, in sentences."""
    by = "one process" if findings.children == 1 else f"{findings.children} processes"
    ready = findings.ready
    lines = [f"Python {ready.python}, {ready.loop}, {ready.transport}; {findings.cores} cores, {ready.fd_limit} open files."]
    if findings.requests_per_s is None or findings.chunks_per_s is None:
        lines.append(
            "Even the lowest rate did not hold: something else uses this machine's CPU. Stop it, or load from another "
            "machine; a run from here would be void."
        )
        return "\n".join(lines)
    found = f"{as_set(findings.requests_per_s)} new requests/s and {as_set(findings.chunks_per_s)} chunks/s"
    lines.append(f"With {by} this machine carries {found} with sends late by less than {limit(LATE_S)} at p99.")
    if findings.server_was_full:
        lines.append("The built-in server was at its limit, so the generator may carry more.")
    if findings.was_disturbed:
        lines.append(
            "Sends were late though the generator used less than half a core: something else uses this machine's CPU. Stop it and "
            "run this again."
        )
    lines.append(
        "Chunks/s are requests/s times output tokens. Stay below half of both, so that a run measures the server, not this machine."
    )
    return "\n".join(lines)

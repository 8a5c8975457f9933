"""A run against a simulated replica: started for it, stopped after it, with its own lengths and limits as the defaults."""

from msgspec.structs import replace

from core.access import Access
from core.config import Lengths, Method, ProbeConfig, Slo, Workload
from core.replica import process
from core.replica.catalog import Replica, TokenLengths, load
from tui.cli import probe
from tui.cli.configure import Base, CliOptions, build


def run(name: str, options: CliOptions, command: str, access: Access) -> int:
    """Start the replica of that name (or JSON file), probe it, stop it; returns the exit code of the probe."""
    replica = load(name)
    base = own(replica)
    config = build(options, "http://127.0.0.1", base)  # refuses nonsense before anything is started; the port comes later
    return probe.run(
        probe.Job(
            config=config,
            options=options,
            command=command,
            name=replica.model_name,
            access=access,
            truth_rps=replica.truth_rps if same_question(config, base) else None,
            start=lambda: process.start(name),
        )
    )


def own(replica: Replica) -> Base:
    """The lengths and limits that a replica's entry names, and what its demo shows; the product's limits when it names none."""
    named = any(limit is not None for limit in (replica.ttft_s, replica.tpot_s, replica.e2e_s))
    slo = Slo(ttft_s=replica.ttft_s, tpot_s=replica.tpot_s, e2e_s=replica.e2e_s) if named else Slo(default=True)
    return Base(
        slo=replace(slo, target=replica.target),
        workload=Workload(input_tokens=_lengths(replica.input_tokens), output_tokens=_lengths(replica.output_tokens)),
        method=_method(replica),
    )


def _method(replica: Replica) -> Method:
    shown = replica.shown
    if shown is None:
        return Method()
    return Method(
        rates_rps=shown.rates_rps,
        repeats=shown.repeats,
        measure_s=shown.measure_s,
        seed=shown.seed,
        closed_loop=shown.closed_loop,
    )


def same_question(config: ProbeConfig, base: Base) -> bool:
    """Whether the replica's long-run knee answers what was asked: it was found for its own lengths, limits and target."""
    slo = replace(config.slo, max_error_rate=base.slo.max_error_rate)
    return slo == base.slo and config.workload == base.workload


def _lengths(tokens: TokenLengths) -> Lengths:
    return Lengths(median=tokens.median, sigma=tokens.sigma, maximum=tokens.maximum, minimum=tokens.minimum)

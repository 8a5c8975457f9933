"""The long-run knee of a catalog replica, in virtual time on the pure scheduler: `python -m tests.benchmarks.demo_knee [NAME]`.

Prints the saturation, attainment, KV usage and preemptions over the rate, and the rate at which attainment crosses the
target. That rate is what the catalog calls the truth. The default of 20,000 s x 4 runs takes some five minutes and comes within
a quarter of a percent (it gave 19.69 +- 0.02); `--seconds 150000` within a tenth.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.replica.catalog import CATALOG, Replica, TokenLengths
from core.replica.scheduler import Scheduler, Sequence

WARMUP_S = 300.0
AROUND = (0.97, 0.985, 1.0, 1.015, 1.03)


@dataclass
class Outcome:
    """What one run at one rate showed."""

    judged: int = 0
    good: int = 0
    preemptions: int = 0
    kv_usage_s: float = 0.0
    full_s: float = 0.0
    busy_until_s: float = 0.0

    @property
    def attainment(self) -> float:
        """Share of requests within every limit."""
        return self.good / self.judged


def _lengths(lengths: TokenLengths, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    drawn = np.exp(rng.normal(np.log(lengths.median), lengths.sigma, n))
    return np.clip(drawn, lengths.minimum, lengths.largest).astype(np.int64)


def requests(replica: Replica, gaps_s: float, horizon_s: float, seed: int) -> Iterator[Sequence]:
    """Poisson arrivals with a mean gap; the same seed gives the same unit gaps and lengths at every rate."""
    arrivals, work = (np.random.default_rng(source) for source in np.random.SeedSequence(seed).spawn(2))
    t = 0.0
    while True:
        steps = arrivals.exponential(1.0, 4096) * gaps_s
        prompts, outputs = _lengths(replica.input_tokens, 4096, work), _lengths(replica.output_tokens, 4096, work)
        for step, prompt, output in zip(steps.tolist(), prompts.tolist(), outputs.tolist(), strict=True):
            t += step
            if t >= horizon_s:
                return
            yield Sequence(t, prompt, output)


def within_limits(replica: Replica, sequence: Sequence, first_s: float, last_s: float) -> bool:
    """Whether one request met every limit."""
    tpot_s = (last_s - first_s) / (sequence.max_tokens - 1) if sequence.max_tokens > 1 else 0.0
    measured = (first_s - sequence.arrival_s, tpot_s, last_s - sequence.arrival_s)
    limits = (replica.ttft_s, replica.tpot_s, replica.e2e_s)
    return all(limit is None or value <= limit for value, limit in zip(measured, limits, strict=True))


def run(replica: Replica, rate_rps: float, horizon_s: float, seed: int) -> Outcome:
    """Serve all arrivals of `horizon_s` to the end; requests of the first WARMUP_S are not judged."""
    scheduler, outcome, first_s = Scheduler(replica.engine), Outcome(), dict[Sequence, float]()
    source = requests(replica, 1 / rate_rps, horizon_s, seed)
    now, coming = 0.0, next(source, None)
    while True:
        while coming is not None and (coming.arrival_s <= now or scheduler.next_start(now) is None):
            scheduler.submit(coming)
            coming = next(source, None)
        start = scheduler.next_start(now)
        if start is None:
            outcome.busy_until_s = now
            return outcome
        step = scheduler.step(start)
        now = step.end_s
        outcome.preemptions += step.preempted
        outcome.kv_usage_s += step.duration_s * step.used_blocks / replica.engine.kv_blocks
        outcome.full_s += step.duration_s if step.used_blocks >= 0.95 * replica.engine.kv_blocks else 0.0
        for sequence in step.emitted:
            if sequence.generated == 1:
                first_s[sequence] = now
            if sequence.finished:
                first = first_s.pop(sequence)
                if sequence.arrival_s > WARMUP_S:
                    outcome.judged += 1
                    outcome.good += within_limits(replica, sequence, first, now)


def saturation_rps(replica: Replica, n: int = 20_000) -> float:
    """Finishes per second while an endless queue waits."""
    scheduler = Scheduler(replica.engine)
    for sequence, _ in zip(requests(replica, 1e-9, 1.0, 9), range(n), strict=False):
        scheduler.submit(sequence)
    now, finishes = 0.0, list[float]()
    while (start := scheduler.next_start(now)) is not None:
        step = scheduler.step(start)
        now = step.end_s
        finishes += [now for sequence in step.emitted if sequence.finished]
    low, high = n // 10, n * 9 // 10
    return (high - low) / (finishes[high] - finishes[low])


def show_curve(replica: Replica, centre_rps: float, horizon_s: float) -> None:
    """One line a rate."""
    for share in (0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1):
        rate = share * centre_rps
        seen = run(replica, rate, horizon_s, 3)
        kv, full = seen.kv_usage_s / seen.busy_until_s, seen.full_s / seen.busy_until_s
        print(
            f"{rate:7.2f}/s  attainment {seen.attainment:7.2%}  KV used {kv:4.0%}, nearly full {full:4.0%} of the time  "
            f"{seen.preemptions / horizon_s:5.2f} preemptions/s",
            flush=True,
        )


def knee_rps(replica: Replica, centre_rps: float, horizon_s: float, runs: int) -> NDArray[np.float64]:
    """Where a parabola through the attainment around `centre_rps` crosses the target, one value a run."""
    rates = np.array(AROUND) * centre_rps
    fine = np.linspace(rates[0], rates[-1], 4001)
    knees = []
    for seed in range(1000, 1000 + runs):
        curve = [run(replica, rate, horizon_s, seed).attainment for rate in rates]
        print(
            f"run {seed}: " + "  ".join(f"{rate:.2f}/s {share:.2%}" for rate, share in zip(rates, curve, strict=True)), flush=True
        )
        knees.append(fine[np.argmin(np.abs(np.polyval(np.polyfit(rates, curve, 2), fine) - replica.target))])
    return np.array(knees)


def main() -> None:
    """Print everything about one replica."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?", default="demo", choices=list(CATALOG))
    parser.add_argument("--seconds", type=float, default=20_000.0)
    parser.add_argument("--runs", type=int, default=4)
    asked = parser.parse_args()
    replica = CATALOG[asked.name]
    truth = replica.truth_rps or 0.85 * saturation_rps(replica)
    print(f"{replica.name}: saturation {saturation_rps(replica):.2f}/s, catalog {replica.truth_rps}")
    show_curve(replica, truth, WARMUP_S + asked.seconds / 10)
    knees = knee_rps(replica, truth, asked.seconds, asked.runs)
    print(f"knee {knees.mean():.3f}/s +- {knees.std(ddof=1) / len(knees) ** 0.5:.3f}")


if __name__ == "__main__":
    main()

"""The tables of the keys of the result: the keys from the code, what each means from `meanings.py`."""

import types
import typing
from collections.abc import Iterator
from typing import Any

import msgspec

from core import report
from core.config import FleetAsk, Method, ProbeConfig, Slo, Target, Workload
from core.facts import Fact
from core.fleet.cost import Cost
from core.fleet.plan import Loss
from core.fleet.sizing import FleetSize
from core.fleet_check import FleetCheck
from core.hardware import Hardware
from core.records import Check, EngineSample, ServerSample, WorkerInfo
from core.results import ClientInfo, Diagnosis, Knee, RepeatResult
from core.workloads import Gateway, MixPart, Source
from tests import builders
from tests.core.test_report import ANSWER, view
from tests.docs.meanings import MEANINGS
from tests.tui import knee_samples

PARTS = (
    "", "knee", "slo", "workload", "request", "method", "required", "server", "client", "workers[]", "replicas[]", "preflight[]",
    "steps[]", "steps[].repeats[]", "twin", "closed_loop", "diagnosis", "fleet", "fleet_check",
)  # fmt: skip
"""Each has a table of its own; what is deeper stands in the table of the part around it."""

_KINDS: dict[str, Any] = {
    "knee": Knee,
    "slo": Slo,
    "method": Method,
    "workload.gateway": Gateway,
    "client": ClientInfo,
    "workers": tuple[WorkerInfo, ...],
    "preflight": tuple[Check, ...],
    "steps[].repeats": tuple[RepeatResult, ...],
    "diagnosis": Diagnosis,
    **dict.fromkeys(("fleet.at_pass", "fleet.at_fail", "fleet.at_p90_output"), FleetSize),
    "fleet.losses": tuple[Loss, ...],
    "fleet.cost": Cost,
    "fleet_check": FleetCheck,
}
"""What may be null in a result, so that its keys must come from its type."""
OPEN = frozenset(
    {
        "server.config",
        "message_fact",
        "knee.notes_fact[]",
        "preflight[].message_fact",
        "steps[].reason_fact",
        "steps[].repeats[].reason_fact",
        "steps[].repeats[].failures_alike_fact",
        "steps[].repeats[].warnings_fact[]",
        "steps[].repeats[].endings",
        "steps[].repeats[].lengths.finish_reasons",
        "diagnosis.sentence_fact",
        "diagnosis.advice_fact",
        "diagnosis.ruled_out_fact[]",
        "diagnosis.steps[].text_fact",
        "diagnosis.steps[].figures",
        "fleet.marks[].why_fact",
        "fleet.notes_fact[]",
        "fleet.speed.contradiction_fact",
        "fleet.speed.helps_fact[]",
        "fleet.speed.message_fact",
        "fleet.memory.notes_fact[]",
        "fleet.memory.message_fact",
        "fleet.assumptions_fact[]",
        "closed_loop.message_fact",
        "closed_loop.ended_fact",
        "workload.mix[].limits",
    }
)
"""Places whose keys are names from elsewhere: the server's settings, facts, classes of endings, figures."""


def result_tables() -> str:
    """A table for each part, keys of one meaning in one row. Raises ValueError for a key without a meaning, or the reverse."""
    known = all_keys()
    missing, left = [key for key in known if key not in MEANINGS], [key for key in MEANINGS if key not in known]
    if missing or left:
        raise ValueError(f"tests/docs/meanings.py: keys without a meaning {missing}, meanings without a key {left}")
    return "\n\n".join(_part(part, [key for key in known if _part_of(key) == part]) for part in PARTS)


def all_keys() -> list[str]:
    """Every key that a result can have, as a path such as `steps[].repeats[].ttft_s.p50`."""
    return list(_walk(sample(), None, ""))


def sample() -> dict[str, Any]:
    """A result with a list, a required rate, a fleet on paper, and every key that does not come from a type of `_KINDS`."""
    hardware = Hardware(weights_gb=15.2, gpu="RTX 4090", kv_bytes_per_token=131072)
    config = ProbeConfig(
        target=Target(url="http://127.0.0.1:8000"),
        method=Method(require_rps=5.0),
        slo=Slo(),
        workload=Workload(
            mix=(MixPart(input_tokens=1024, output_tokens=128),), source=Source(kind="mix", rows=1), trace=builders.TRACE
        ),
        fleet=FleetAsk(peak_rps=50.0, hardware=hardware),
    )
    steps = knee_samples.diagnosed().steps
    answer = msgspec.structs.replace(ANSWER, diagnosis=knee_samples.DIAGNOSIS)
    fleet = ServerSample(t=0.0, took_s=0.0, by_engine=(EngineSample(name="10.0.0.7:8000"),), by_replica=True)
    return report.result(
        view(answer=answer, steps=steps, config=config, twin=knee_samples.TWIN, closed_loop=knee_samples.CLOSED, sample=fleet), None
    )


def keys_in(value: Any, path: str = "") -> Iterator[str]:
    """The keys that are there in one result, none of them from a type."""
    if isinstance(value, list):
        for each in value:
            yield from keys_in(each, f"{path}[]")
    elif isinstance(value, dict) and path not in OPEN:
        for name, each in value.items():
            key = f"{path}.{name}" if path else name
            yield key
            yield from keys_in(each, key)


def _walk(value: Any, kind: Any, path: str) -> Iterator[str]:
    kind = _KINDS.get(path, kind)
    inner = _inner(kind)
    if isinstance(value, list) or _is_list(inner):
        path, value = f"{path}[]", value[0] if value else None
        inner = _inner(typing.get_args(inner)[0]) if _is_list(inner) else None
    if path in OPEN:
        return
    hints = typing.get_type_hints(inner) if _is_struct(inner) else {}
    fields = value if isinstance(value, dict) else dict.fromkeys(hints)
    for name, each in fields.items():
        key = f"{path}.{name}" if path else name
        yield key
        yield from _walk(each, hints.get(name), key)


def _inner(kind: Any) -> Any:
    """The kind without its None."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        kinds = [each for each in typing.get_args(kind) if each is not type(None)]
        return kinds[0] if len(kinds) == 1 and kinds[0] is not Fact else None  # a fact or a sentence: a text in the result
    return kind


def _is_list(kind: Any) -> bool:
    return typing.get_origin(kind) is tuple and typing.get_args(kind)[-1] is Ellipsis


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _part_of(key: str) -> str:
    """The longest part that holds the key."""
    return max((part for part in PARTS if not part or key.startswith(f"{part}.")), key=len)


def _part(part: str, own: list[str]) -> str:
    by_meaning: dict[str, list[str]] = {}
    for key in own:
        by_meaning.setdefault(MEANINGS[key], []).append(key.removeprefix(f"{part}.") if part else key)
    lines = [f"### {f'`{part}`' if part else 'Top level'}", "", "| key | meaning |", "|---|---|"]
    lines += [f"| {', '.join(f'`{name}`' for name in names)} | {text} |" for text, names in by_meaning.items()]
    return "\n".join(lines)

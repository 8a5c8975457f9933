"""The schema of the run file, from the types of its events: the tables of docs/run-file.md, and a JSON Schema beside them."""

import json
import re
import types
import typing
from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from core import results
from core.run.events import SCHEMA, Event
from tests.docs.meanings import MEANINGS
from tests.docs.run_file_meanings import OF_ANY, RUN_FILE_MEANINGS
from tui.cli.options import RUN_OPTIONS

UNITS = {
    "_s": "s",
    "_rps": "requests/s",
    "_frac": "share, 0 to 1",
    "_tokens": "tokens",
    "_bytes": "bytes",
    "_gb": "GB",
    "_gbs": "GB/s",
    "_h": "an hour",
}
"""What the end of a name says of its number."""
MOST_NAMED = 20
"""The codes of facts are too many for a table."""
_IN_RESULT = {
    "Slo": "slo", "Workload": "workload", "MixPart": "workload.mix[]", "Source": "workload.source", "TraceUse": "workload.trace",
    "Gateway": "workload.gateway", "Method": "method", "ServerInfo": "server", "Shape": "request", "ClientInfo": "client",
    "Check": "preflight[]", "StepResult": "steps[]", "RepeatResult": "steps[].repeats[]", "Percentiles": "steps[].repeats[].ttft_s",
    "Knee": "knee", "FailCount": "knee.upper", "KneeEstimate": "knee.estimate", "Diagnosis": "diagnosis",
    "DiagnosisStep": "diagnosis.steps[]", "ClosedLoop": "closed_loop", "ClosedRung": "closed_loop.rungs[]", "FleetAsk": "fleet",
    "FleetPlan": "method.fleet",
}  # fmt: skip
"""Values that stand in the result too, where their fields have a meaning already."""
_ASKED = {
    "Target": "target", "Slo": "slo", "Workload": "workload", "Prefix": "workload.prefix", "Method": "method", "Safety": "safety",
    "FleetAsk": "fleet", "Hardware": "fleet.hardware",
}  # fmt: skip
"""Values that options set: what a field means is what the help says."""

Struct = type[msgspec.Struct]


def events() -> list[Struct]:
    """Every kind of line, in the order of the code."""
    return list(typing.get_args(Event))


def parts() -> list[Struct]:
    """Every kind of value inside them, in the order in which they are met."""
    met: list[Struct] = []
    for event in events():
        _meet(event, met)
    return [kind for kind in met if kind not in events()]


def meaning(kind: Struct, name: str) -> str | None:
    """What a field means: told here, in the result, or in the help of the option that sets it; None where nowhere."""
    own = f"{kind.__name__}.{name}"
    if own in RUN_FILE_MEANINGS:
        return RUN_FILE_MEANINGS[own]
    for prefix in _result_paths().get(kind.__name__, ()):
        for key in (f"{prefix}.{name}", f"{prefix}.{name}[]"):
            if key in MEANINGS:
                return MEANINGS[key]
    if kind.__name__ in _ASKED and (text := _help().get(f"{_ASKED[kind.__name__]}.{name}")):
        return text
    return OF_ANY.get(name)


def run_file_tables() -> str:
    """A table for each event and for each kind of value in them. Raises ValueError for a field without a meaning, and a meaning
    without a field."""
    fields = {f"{kind.__name__}.{name}" for kind in (*events(), *parts()) for name in kind.__struct_fields__}
    missing = [field for kind in (*events(), *parts()) for field in _without(kind)]
    left = sorted(set(RUN_FILE_MEANINGS) - fields)
    if missing or left:
        raise ValueError(f"tests/docs/run_file_meanings.py: fields without a meaning {missing}, meanings without a field {left}")
    chapters = [f"### Version\n\nThis is version {SCHEMA} (`schema` of the first line).", "### Events"]
    chapters += [_table(kind, f'#### `"type": "{kind.__struct_config__.tag}"`') for kind in events()]
    chapters += ["### Values in them", *(_table(kind, f"#### {kind.__name__}") for kind in parts())]
    return "\n\n".join(chapters)


def json_schema() -> str:
    """The same as a JSON Schema of one line, a definition per row."""
    schema = msgspec.json.schema(Event)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"A line of a kneescope run file, version {SCHEMA}"}
    rows = ",\n".join(f"{json.dumps(name)}: {json.dumps(kind)}" for name, kind in schema.pop("$defs").items())
    top = json.dumps({**head, **schema}, indent=1).removesuffix("\n}")
    return f'{top},\n "$defs": {{\n{rows}\n}}\n}}\n'


def _meet(kind: Struct, met: list[Struct]) -> None:
    if kind not in met:
        met.append(kind)
        for hint in _hints(kind).values():
            for inner in _structs(hint):
                _meet(inner, met)


def _structs(hint: Any) -> Iterator[Struct]:
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        yield hint
    for inner in typing.get_args(hint):
        yield from _structs(inner)


def _hints(kind: Struct) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    return {name: hints[name] for name in kind.__struct_fields__}


def _result_paths() -> dict[str, list[str]]:
    """Where a value stands in the result, by its kind: what a repeat has inside is found by its fields."""
    found = {name: [path] for name, path in _IN_RESULT.items()}
    for name, hint in typing.get_type_hints(results.RepeatResult).items():
        for kind in _structs(hint):
            found.setdefault(kind.__name__, []).extend([f"steps[].repeats[].{name}", f"steps[].repeats[].{name}[]"])
    return found


def _help() -> dict[str, str]:
    return {place: (option.help or "").rstrip(".") for option in reversed(RUN_OPTIONS) for place in option.sets}


def _without(kind: Struct) -> list[str]:
    return [f"{kind.__name__}.{name}" for name in kind.__struct_fields__ if not meaning(kind, name)]


def _table(kind: Struct, title: str) -> str:
    about = " ".join((kind.__doc__ or "").split("\n\n")[0].split())
    lines = [title, ""]
    if about and not about.startswith(f"{kind.__name__}("):
        lines += [about, ""]
    if kind.__struct_config__.array_like:
        lines += ["A list of these values, in this order.", ""]
    lines += ["| field | type | default | meaning |", "|---|---|---|---|"]
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    for name, hint in _hints(kind).items():
        cells = (f"`{fields[name].encode_name}`", _typed(name, hint), _default(fields[name]), meaning(kind, name) or "")
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines)


def _default(field: msgspec.structs.FieldInfo) -> str:
    """As it stands in a file; a field with one may be missing there, as in files from before there was the field."""
    value = field.default
    if field.required:
        return "always there"
    if value is msgspec.NODEFAULT and callable(field.default_factory):
        value = field.default_factory()
    if isinstance(value, msgspec.Struct):
        return "its defaults"
    text = msgspec.json.encode(value).decode()
    return f"`{text}`"


def _typed(name: str, hint: Any) -> str:
    unit = next((unit for end, unit in UNITS.items() if name.endswith(end)), "s" if re.match(r"t(_|$)", name) else "")
    text = _type(hint)
    return f"{text}, {unit}" if unit and ("number" in text or "integer" in text) else text


def _type(hint: Any) -> str:
    if hint is type(None):
        return "null"
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return f"[{hint.__name__}](#{hint.__name__.lower()})"
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return ", ".join(f"`{each}`" for each in inner) if len(inner) <= MOST_NAMED else "text"
    if origin in (typing.Union, types.UnionType):
        return " or ".join(dict.fromkeys(_type(each) for each in inner))
    if origin is list or (origin is tuple and inner[-1] is Ellipsis):
        return f"list of {_type(inner[0])}"
    if origin is tuple:
        return f"[{', '.join(_type(each) for each in inner)}]"
    if origin is dict:
        return f"object: {_type(inner[0])} to {_type(inner[1])}"
    return {float: "number", int: "integer", str: "text", bool: "true or false"}[hint]

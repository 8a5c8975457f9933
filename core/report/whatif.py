"""What a model of a run says, as text and as JSON: it is called a model in every line that could be taken for a measurement."""

import json
import math
import textwrap
from typing import Any

import msgspec

from core import RESULT_SCHEMA, prose
from core.facts import Fact, fact
from core.report.json import finite
from core.report.told import told, told_all
from core.results import Knee
from core.twin import Twin
from core.units import DASH, as_set, count, number, percent, plain, rate_brief, rate_text
from core.units import limit as limit_text
from core.whatif import Change, Explained, Knob, Modelled, Refused, WindowShift, as_it_was

_WIDTH = 100
_WHOLE = "\N{NO-BREAK SPACE}%"
_LIMITS = {"ttft_s": "TTFT limit", "tpot_s": "TPOT limit", "e2e_s": "E2E limit"}
HEAD = "What if (a model of this run, not a measurement)"


def change_words(change: Change) -> list[str]:
    """Each thing that differs, in a few words."""
    words = []
    for name, value in change.given.items():
        match name, value:
            case "ttft_s" | "tpot_s" | "e2e_s", str():
                words.append(f"no {_LIMITS[name]}")
            case "ttft_s" | "tpot_s" | "e2e_s", float() | int():
                words.append(f"{_LIMITS[name]} {limit_text(value)}")
            case "target", float() | int():
                words.append(f"target {plain(value)}")
            case "max_num_seqs", int():
                words.append(f"--max-num-seqs {as_set(value)}")
            case "kv_tokens", int():
                words.append(f"KV cache {count(value, 'token')}")
            case "input_scale" | "output_scale", float() | int():
                words.append(f"{'prompts' if name == 'input_scale' else 'answers'} x {as_set(value)}")
            case _:
                words.append(f"{'prompts' if name == 'input_tokens' else 'answers'} {value} tokens")
    return words


def explained_fact(run: Explained) -> Fact:
    """How well the model explains the run."""
    low_rps, high_rps = as_it_was(run)
    return fact(
        "twin_explains",
        off_frac=math.expm1(run.median_shift),
        windows=len(run.windows),
        knee_rps=run.as_modelled_rps,
        low_rps=low_rps,
        high_rps=high_rps,
    )


def answer_fact(run: Explained, said: Modelled) -> Fact:
    """What it says of a change."""
    if said.knee_rps is None or said.low_rps is None or said.high_rps is None or said.ratio is None:
        return fact("what_if_none", below=said.missing == "below", rate_rps=8 * run.as_modelled_rps)
    return fact(
        "what_if", knee_rps=said.knee_rps, low_rps=said.low_rps, high_rps=said.high_rps, ratio=said.ratio, by_queue=said.by_queue
    )


def measured_words(knee: Knee) -> str:
    """The bracket of the run, measured."""
    holds = "no rate held" if knee.pass_rps is None else f"holds at {rate_text(knee.pass_rps)}"
    return f"{holds}, {'no rate failed for sure' if knee.fail_rps is None else f'fails at {rate_text(knee.fail_rps)}'}"


def what_if_text(run: Explained | Refused, knee: Knee, change: Change, said: Modelled | None, knobs: tuple[Knob, ...] = ()) -> str:
    """The answer for people: what was asked, what the model says, and how far it is off."""
    lines = [HEAD, "", *_wrap(f"Measured: {measured_words(knee)}.")]
    if isinstance(run, Refused):
        lines += _wrap(prose.sentence(run.why))
        lines += ["No answer is given; measure the setting with kneescope probe."]
    else:
        if said is not None:
            lines += ["", *_wrap(f"Asked: {', '.join(change_words(change))}."), *_wrap(prose.sentence(answer_fact(run, said))), ""]
        lines += _wrap(prose.sentence(explained_fact(run)))
        lines += [line for note in run.notes for line in _wrap(f"· {prose.sentence(note)}", "  ")]
    if knobs:
        lines += ["", "One step of each knob, by the model:", *knob_lines(knobs)]
    if run.windows:
        lines += ["", "Error by window:", *window_lines(run.windows)]
    return "\n".join(lines) + "\n"


def _wrap(text: str, more: str = "") -> list[str]:
    """Lines that do not part a number from its %."""
    whole = text.replace(" %", _WHOLE)
    lines = textwrap.wrap(whole, _WIDTH, subsequent_indent=more, break_on_hyphens=False, break_long_words=False)
    return [line.replace(_WHOLE, " %") for line in lines]


def knob_lines(knobs: tuple[Knob, ...]) -> list[str]:
    """A row for each: what is changed, the knee of the model and its interval, and the ratio to the model's knee now."""
    rows: list[tuple[str, ...]] = [("change", "knee", "from", "to", "against now")]
    for knob in knobs:
        said = knob.modelled
        ends = [DASH if end is None else number(end) for end in (said.low_rps, said.high_rps)]
        none = "none" if said.missing == "below" else "too far"
        rows.append(
            (
                ", ".join(change_words(knob.change)),
                none if said.knee_rps is None else rate_brief(said.knee_rps),
                *ends,
                _step(said.ratio),
            )
        )
    return _columns(rows)


def _step(ratio: float | None) -> str:
    if ratio is None:
        return DASH
    return "same" if abs(ratio - 1) < 0.005 else f"{'+' if ratio > 1 else '-'}{percent(abs(ratio - 1), 2)}"


def window_lines(shifts: tuple[WindowShift, ...]) -> list[str]:
    """A row for each window: what share of its limits the request at the target used, measured and by the model, and the shift."""
    rows: list[tuple[str, ...]] = [("rate", "requests", "measured", "model", "model is off by")]
    for each in shifts:
        off = math.copysign(math.expm1(abs(each.shift)), each.shift)  # as the error that is named: of either sign alike
        rows.append(
            (
                rate_brief(each.rate_rps),
                count(each.requests),
                percent(math.exp(each.x)),
                percent(math.exp(each.twin_x)),
                f"{'+' if off >= 0 else '-'}{percent(abs(off), 2)}",
            )
        )
    return [*_columns(rows), "  measured, model: of its limit, what the request at the target used."]


def _columns(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return [
        "  " + row[0].ljust(widths[0]) + "".join(f"  {cell.rjust(width)}" for cell, width in zip(row[1:], widths[1:], strict=True))
        for row in rows
    ]


def what_if_json(
    run: Explained | Refused,
    knee: Knee,
    change: Change,
    said: Modelled | None,
    knobs: tuple[Knob, ...],
    run_log: str,
) -> str:
    """The same as strict JSON, every key always there, null where not known."""
    explained = isinstance(run, Explained)
    if isinstance(run, Refused):
        message: Fact = run.why
    else:
        message = explained_fact(run) if said is None else answer_fact(run, said)
    data = {
        "schema": RESULT_SCHEMA,
        "kind": "what_if",
        "explained": explained,
        **told("message", message, prose.sentence),
        "model": _model(run),
        "error_frac": None if run.median_shift is None else math.expm1(run.median_shift),
        "asked": _asked(change),
        "as_measured": {
            "pass_rps": knee.pass_rps,
            "fail_rps": knee.fail_rps,
            "model_knee_rps": run.as_modelled_rps if isinstance(run, Explained) else None,
        },
        "what_if": None if said is None else _modelled(said),
        "knobs": [{"asked": _asked(knob.change), "what_if": _modelled(knob.modelled)} for knob in knobs],
        **told_all("notes", run.notes if isinstance(run, Explained) else (), prose.sentence),
        "run_log": run_log,
    }
    return json.dumps(finite(data), allow_nan=False, ensure_ascii=False, indent=2) + "\n"


def _asked(change: Change) -> dict[str, Any]:
    return {
        name: str(value) if name.endswith("put_tokens") and value is not None else value
        for name in Change.__struct_fields__
        for value in (getattr(change, name),)
    }


def _modelled(said: Modelled) -> dict[str, Any]:
    return {
        "knee_rps": said.knee_rps,
        "low_rps": said.low_rps,
        "high_rps": said.high_rps,
        "ratio": said.ratio,
        "missing": said.missing,
        "by_queue": said.by_queue,
    }


def _model(run: Explained | Refused) -> dict[str, Any]:
    twin: Twin | None = run.twin
    return {
        "steps": None if twin is None else msgspec.to_builtins(twin.steps),
        "limits": None if twin is None else msgspec.to_builtins(twin.limits),
        "knee_rps": run.knee_rps if isinstance(run, Explained) else None,
        "correction_frac": math.expm1(run.offset) if isinstance(run, Explained) else None,
        "windows": [
            {
                "step": each.step,
                "repeat": each.repeat,
                "rate_rps": each.rate_rps,
                "requests": each.requests,
                "margin": math.exp(each.x),
                "model_margin": math.exp(each.twin_x),
                "shift_frac": math.expm1(each.shift),
            }
            for each in run.windows
        ],
    }

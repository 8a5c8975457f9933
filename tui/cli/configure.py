"""From options to a run: what was given, what does not go together, and the configuration that it makes."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from core.access import Access
from core.address import split_address
from core.config import FleetAsk, Method, ProbeConfig, Safety, Slo, Target, Workload
from core.errors import UserError
from core.units import typed
from tui.cli import inputs, places, requests
from tui.cli.inputs import flag
from tui.cli.options import RUN_OPTIONS


def is_given(value: object) -> bool:
    """Whether an option was given: 0 is a value, None, False and () stand for none."""
    return value is not None and value is not False and value != ()


class CliOptions(Mapping[str, Any]):
    """The options of a run by name, as they were given, checked against each other. Durations in seconds, shares as fractions."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        """`values` may lack options. Raises UserError for options that do not go together."""
        self._values = {option.name: values.get(option.name) for option in RUN_OPTIONS if option.expose_value}
        for rule in _RULES:
            rule(self)

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        """Names alone: a value may be a secret."""
        return f"CliOptions({', '.join(name for name, value in self.items() if is_given(value)) or 'none'})"


def _no_rate_above_max_rps(options: Mapping[str, Any]) -> None:
    max_rps = options["max_rps"]
    for name in ("start_rps", "rates", "hold", "require_rps"):
        value = options[name]
        for rate_rps in value if isinstance(value, tuple) else (value,):
            if max_rps is not None and rate_rps is not None and rate_rps > max_rps:
                raise UserError(
                    f"{flag(name)} {typed(rate_rps)} is above --max-rps {typed(max_rps)}; lower the first or raise the second."
                )


def _nothing_without_effect(options: Mapping[str, Any]) -> None:
    """A user would assume that it took effect."""
    if options["insecure"] and options["ca_file"] is not None:
        raise UserError("--insecure checks no certificate, so --ca-file has no effect; leave one out.")
    if options["rates"] is not None and options["start_rps"] is not None:
        raise UserError("--start-rps is where a search begins, --rates judges a list instead; give one of them.")
    if options["rates"] is not None and options["budget"] is not None:
        raise UserError("--budget limits a search, --rates judges its whole list; give one of them.")
    if options["hold"] is None:
        return
    for name in ("start_rps", "careful", "repeats", "budget", "reset_cache", "between", "closed_loop"):
        if options[name]:
            raise UserError(f"{flag(name)} has no effect with --hold, which keeps one rate until you stop it; leave one out.")


def _what_can_be_shared_out(options: Mapping[str, Any]) -> None:
    """Several machines share nothing but the plan."""
    if options["workers"] is None:
        return
    if options["gateway_limit"] is not None:
        raise UserError("--gateway-limit is one limit over all requests, which --workers cannot share out; leave one of them out.")
    for name in ("dataset", "ca_file", "client_cert", "client_key"):
        if options[name] is not None:
            raise UserError(f"{flag(name)} is a file of this machine, which --workers takes to no other; leave one of them out.")


def _a_file_for_each(options: Mapping[str, Any]) -> None:
    out = options["out"]
    if out == "":
        raise UserError("--out: the name is empty; give a path, or leave the option out for a new file in your state folder.")
    if out == "-":
        raise UserError("--out: the run file cannot go to stdout; give a path, and use --json - for the result.")
    if out is not None and out == options["json"]:
        raise UserError("--out and --json name the same file; the run file and the result need one each.")


_RULES: tuple[Callable[[Mapping[str, Any]], None], ...] = (
    _no_rate_above_max_rps,
    _nothing_without_effect,
    _what_can_be_shared_out,
    _a_file_for_each,
    requests.one_source,
    requests.trace_alone,
    places.together,
)


class Base(msgspec.Struct, frozen=True, kw_only=True):
    """What applies if an option was not given: the product's defaults, or a simulated replica's own."""

    slo: Slo = Slo(default=True)
    workload: Workload = Workload()
    method: Method = Method()


_OTHER_WAYS = ("mode", "careful", "rates_rps", "hold_rps", "start_rps", "budget_s")
"""With one of these a replica's own list of rates is not judged."""


def build(options: Mapping[str, Any], url: str, base: Base | None = None) -> ProbeConfig:
    """The run that was asked for, of the server at `url`. Raises UserError for options that contradict each other."""
    base = base or Base()
    method = _method(options, base.method)
    workload = replace(base.workload, **(_fields("workload", options) | requests.fields_of(options, method)))
    config = ProbeConfig(
        target=target_of(options, url),
        slo=_slo(options, base.slo),
        workload=workload,
        method=method,
        safety=safety_of(options),
        fleet=fleet_ask(options),
    )
    trace = requests.trace_of(options, method.seed_of_arrivals)
    return config if trace is None else trace.settled(config)


def target_of(options: Mapping[str, Any], url: str, **known: Any) -> Target:
    """The server at `url`; `known` fills in what was not given."""
    address = split_address(url)
    return Target(**known | {"url": address.base, "prefix": address.prefix} | _fields("target", options))


def safety_of(options: Mapping[str, Any]) -> Safety:
    """What the load may never exceed."""
    return Safety(**_fields("safety", options))


def access_of(options: Mapping[str, Any], environ: Mapping[str, str]) -> Access:
    """Access to the server, read from files and the environment; files that cannot be used are refused now (UserError)."""
    access = Access(api_key=inputs.api_key(options["api_key_file"], environ), **_fields("access", options))
    if access.ca_file or access.client_cert:
        from core.net import tls_context  # httpx is loaded only when it is used

        tls_context(access, bool(options["insecure"]))
    return access


def one_load_at_peak(options: Mapping[str, Any]) -> None:
    """Refuse (UserError) two values for one thing: `headroom` is the old name of `load_at_peak`."""
    new, old = options.get("load_at_peak"), options.get("headroom")
    if new is not None and old is not None and new != old:
        raise UserError(
            f"--load-at-peak {typed(100 * new)}% and --headroom {typed(100 * old)}% are two names of one share, the load at peak; "
            "give one of them."
        )


def fleet_ask(options: Mapping[str, Any], base: FleetAsk | None = None) -> FleetAsk:
    """The fleet that was asked for; `base` fills in what was not given. Raises UserError for options that contradict each other."""
    one_load_at_peak(options)
    base = base or FleetAsk()
    hardware, paper = base.hardware, _fields("fleet.hardware", options)
    if "weights_gb" in paper or "params_b" in paper:
        hardware = replace(hardware, weights_gb=None, params_b=None, weight_bits=None)
    ask = replace(base, hardware=replace(hardware, **paper), **_fields("fleet", options))
    if ask.mean_rps is not None and ask.peak_rps is not None and ask.mean_rps > ask.peak_rps:
        raise UserError(
            f"--mean-rps {typed(ask.mean_rps)} is above --peak-rps {typed(ask.peak_rps)}; lower the first or raise the second."
        )
    return ask


def _method(options: Mapping[str, Any], base: Method) -> Method:
    """A way of judging that was asked for takes the place of the base's own list."""
    fields = _fields("method", options)
    if "hold_rps" in fields or options.get("gateway_limit") is not None:
        base = replace(base, closed_loop=False)
    if options.get("trace_scale") is not None or not fields.keys().isdisjoint(_OTHER_WAYS):
        base = replace(base, rates_rps=(), repeats=None, measure_s=None)
    return replace(base, **fields)


def _slo(options: Mapping[str, Any], base: Slo) -> Slo:
    """A limit with a value switches the unnamed ones off; `none` alone only takes one away from the base."""
    fields = _fields("slo", options)
    limits = ("ttft_s", "tpot_s", "e2e_s")
    own = any(isinstance(fields.get(name), float) for name in limits)
    off = dict.fromkeys(limits) if own else {}
    named = {name: None if value == inputs.NO_LIMIT else value for name, value in fields.items()}
    return replace(base, **off | named, default=base.default and not own)


def _fields(part: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """What was given for a part of the configuration (or `access`), by the fields of it."""
    given = [(option, value) for option in RUN_OPTIONS if is_given(value := options.get(option.name))]
    places = [(*path.rpartition("."), option.stored(path, value)) for option, value in given for path in option.sets]
    return {field: value for place, _, field, value in places if place == part}

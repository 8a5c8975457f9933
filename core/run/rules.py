"""By which rules the repeats of a run are judged: those of its configuration, for the kind of step that they belong to."""

from core.config import ProbeConfig
from core.length_classes import LengthClasses
from core.prefixes import block_tokens
from core.records import ServerInfo
from core.results import JudgeRules, TokenCosts


def rules_for(
    config: ProbeConfig,
    server: ServerInfo,
    costs: TokenCosts | None,
    classes: LengthClasses | None,
    *,
    curtail_pass: bool = True,
    reads_whole: bool = False,
    strict: bool = False,
) -> JudgeRules:
    """The rules of one step of a run on that server."""
    return JudgeRules(
        slo=config.limits,
        curtail_pass=curtail_pass,
        reads_whole=reads_whole,
        costs=costs,
        classes=classes,
        strict=strict,
        prefix=config.workload.prefix,
        block_tokens=block_tokens(server),
        with_others=config.safety.with_others,
        stop=config.workload.stop,
        gateway=config.workload.gateway,
        estimated=config.workload.estimated,
        hits_told=config.method.fleet is not None,
    )

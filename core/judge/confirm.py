"""The confirmation of what the search found: which rate is judged next by all the mode's repeats. Pure."""

_DUST = 1e-9


def next_rate(
    start_rps: float, grid: float, passed_rps: float | None, failed_rps: float | None, ceiling_rps: float | None
) -> float | None:
    """On a geometric grid from `start_rps`, down while rates fail, up while they pass; None once two neighbours differ.

    `passed_rps`: highest confirmed pass, `failed_rps`: lowest fail of the confirmation, `ceiling_rps`: what failed before it
    (each None: none). A fail costs a part of a repeat and a pass costs all of them, so going down is the cheap direction.
    """
    if failed_rps is not None:
        down_rps = failed_rps / grid
        return None if passed_rps is not None and down_rps <= passed_rps * (1 + _DUST) else down_rps
    if passed_rps is None or passed_rps < start_rps * (1 - _DUST):
        return start_rps
    up_rps = passed_rps * grid
    return up_rps if ceiling_rps is not None and up_rps < ceiling_rps * (1 - _DUST) else None

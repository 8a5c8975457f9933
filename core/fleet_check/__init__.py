"""Whether N replicas behind a gateway hold N times what one of them holds: what is asked of a fleet, and what was found."""

from core.fleet_check.findings import FleetCheck, Verdict, checked, said
from core.fleet_check.plan import check_of, not_tried, refuse_fleet

__all__ = ["FleetCheck", "Verdict", "check_of", "checked", "not_tried", "refuse_fleet", "said"]

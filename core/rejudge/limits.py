"""Which limits a recorded run is to be judged by."""

from typing import Any, Literal

import msgspec

from core.config import Slo

NO_LIMIT: Literal["none"] = "none"
Limit = float | Literal["none"] | None
"""In seconds; NO_LIMIT takes the run's away, None leaves it."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What differs from the limits of the run; what is None stays. Limits of kinds of request of their own (`--mix`) stay, too."""

    ttft_s: Limit = None
    tpot_s: Limit = None
    e2e_s: Limit = None
    target: float | None = None
    max_error_rate: float | None = None

    def of(self, slo: Slo) -> Slo:
        """The limits of the run with these in place of its own. Raises UserError where none is left, and for one that cannot be."""
        given: dict[str, Any] = {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not None}
        if not given:
            return slo
        own = {name: None if value == NO_LIMIT else value for name, value in given.items()}
        return msgspec.structs.replace(slo, **own, default=False)

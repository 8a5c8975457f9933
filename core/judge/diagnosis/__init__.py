"""Why a rate fails: the last failing step beside the one that passes, what differs, and the cause that explains it."""

from core.judge.diagnosis.diagnosis import explained

__all__ = ["explained"]

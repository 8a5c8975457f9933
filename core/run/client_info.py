"""What this machine and program are, for the record of a run."""

import hashlib
import os
import platform

from core import __version__
from core.results import ClientInfo


def client_info() -> ClientInfo:
    """This client. The transport is known once the load generator is up."""
    return ClientInfo(
        version=__version__,
        python=platform.python_version(),
        platform=platform.platform(),
        hostname_hash=hashlib.sha256(platform.node().encode()).hexdigest()[:12],
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        transport="",
    )

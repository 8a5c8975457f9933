"""What a machine has, asked before any load. Sent to it as it stands, so it may need nothing that the machine may lack."""


def look() -> dict[str, object]:
    """Runs on the machine: its name, its Python, its cores, the version of kneescope there, and a module that is missing."""
    import importlib
    import os
    import platform
    import socket

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    found: dict[str, object] = dict.fromkeys(("version", "missing"))
    found |= {"host": socket.gethostname(), "python": platform.python_version(), "cores": cores}
    try:
        importlib.import_module("core.load.child")
        found["version"] = importlib.import_module("core").__version__
    except ImportError as problem:
        found["missing"] = problem.name or str(problem)
    except Exception as problem:  # whatever it is, the machine cannot send
        found["missing"] = f"{type(problem).__name__}: {problem}"
    return found

"""kneescope without a terminal: load, server, judge, run, fleet and the simulated replica.

Nothing in here imports textual, rich, click or plotext; an import contract keeps it so.
"""

__version__ = "0.1.0"
RESULT_SCHEMA = 2
"""Of the objects that `--json` writes (docs/result.md). It stands where nothing that is slow to import comes along."""
RUN_FILE_SCHEMA = 4
"""Of the lines of a run file (docs/run-file.md)."""

"""kneescope without a terminal: load, server, judge, run, fleet and the simulated replica.

Nothing in here imports textual, rich, click or plotext; an import contract keeps it so.
"""

__version__ = "0.1.0"

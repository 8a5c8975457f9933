"""The terminal side of kneescope: commands, screens and the line printer.

The import packages are called `core` and `tui`, names that a user's PYTHONPATH or current folder may hold too;
ours must win, so the folder that holds this package goes first on sys.path before anything of `core` is imported.
"""

import sys
from pathlib import Path

_HOME = str(Path(__file__).resolve().parent.parent)
if sys.path[:1] != [_HOME]:
    sys.path.insert(0, _HOME)

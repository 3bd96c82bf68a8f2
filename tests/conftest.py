"""Runs before every test module: decides which ``hybrid`` is tested."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# `python -m pytest` puts the checkout first on the path, but only an installed hybrid has its
# compiled part.  So the checkout goes last: there for `tests.helpers`, behind what is installed.
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != ROOT] + [str(ROOT)]

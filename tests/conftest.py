"""Runs before every test module: decides which ``hybrid`` is tested."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# `python -m pytest` puts the checkout first on the path, but only an installed hybrid has its
# compiled part.  So the checkout goes last: there for `tests.helpers`, behind what is installed.
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != ROOT] + [str(ROOT)]

# Programs that tests start import the same hybrid, wherever they are started.
found = find_spec("hybrid")
assert found is not None and found.origin is not None
folder = str(Path(found.origin).parents[1])
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")]))

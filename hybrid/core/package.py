"""The package itself: its version, and the folder that it is in."""

import os

__version__ = "0.1.0"
FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

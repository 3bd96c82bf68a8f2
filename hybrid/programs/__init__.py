"""Programs in files: functions with their state, for C alone and for Python."""

from hybrid.programs.exporter import export as export
from hybrid.programs.loaded import Program as Program
from hybrid.programs.loaded import load_exported as load_exported

__all__ = ["Program", "export", "load_exported"]

"""Programs in files: functions with their state, for C alone and for Python."""

from hybrid.programs.exported_program import ExportedProgram as ExportedProgram
from hybrid.programs.exported_program import load_exported as load_exported
from hybrid.programs.exporter import export as export

__all__ = ["ExportedProgram", "export", "load_exported"]

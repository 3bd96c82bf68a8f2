"""Programs in files: functions with their state, for C alone and for Python."""

from hybrid.export.exporter import export as export

__all__ = ["export"]

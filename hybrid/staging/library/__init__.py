"""Overrides: functions of Python, NumPy and the standard library on traced values."""

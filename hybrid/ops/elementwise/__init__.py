"""Ops and functions of each element by itself."""

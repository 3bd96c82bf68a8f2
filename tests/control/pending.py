"""Tests that do not pass yet; one that does has to leave this set, which is to end empty."""

PENDING: frozenset[str] = frozenset()

"""Loaders in captured loops: how their batches get into a plan, pass after pass."""

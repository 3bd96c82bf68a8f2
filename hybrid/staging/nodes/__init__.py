"""Constructs on traced values as nodes: what drives their passes, branches and choices."""

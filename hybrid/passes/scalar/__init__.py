"""Passes node by node: folding, common subexpressions, dead code, order."""

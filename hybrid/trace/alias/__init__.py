"""Alias analysis of graphs: which operands, carried values and list items are one value."""

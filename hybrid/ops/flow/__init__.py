"""Ops that own regions or call Python: branches, loops, maps, calls with gradients of their own."""

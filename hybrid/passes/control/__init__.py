"""Passes on branches and loops: hoisting, sinking, sharing, pruning."""

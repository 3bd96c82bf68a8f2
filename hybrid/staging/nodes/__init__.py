"""Branches and choices on traced values: the sessions whose passes become ``cond`` nodes."""

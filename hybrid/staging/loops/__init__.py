"""Loops as nodes: the search for a stable loop state, and the values that a loop carries."""

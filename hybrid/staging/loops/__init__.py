"""Loops as nodes: the search for a state that every iteration keeps, and what it carries."""

"""Statements and expressions but for loops: what runs them, or hands over to a node."""

"""Passes that make one node of several: maps, post-ops, pre-ops, sums of products."""

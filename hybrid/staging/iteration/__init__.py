"""Iteration without a loop statement: comprehensions, generators, folds, sums and unpacking."""

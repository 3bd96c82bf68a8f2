"""Pruning: masks of what counts least, which channels leave together, and smaller networks."""

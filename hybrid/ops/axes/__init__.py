"""Ops along axes: sums, extremes, running sums, order, sets."""

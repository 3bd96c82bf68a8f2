"""Tensors, and what an op call means while nothing is captured: it computes at once."""

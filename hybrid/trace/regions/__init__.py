"""Tracers of a capture and of its regions, and the merge of variables where paths meet."""

"""The tracer of a capture and of each region in it, and what variables hold where paths meet."""

"""One file for each construct of Python: the template that takes its place in the source."""

"""Places that Python code can read and write besides local variables, and logs of their content."""

"""Run-time half of statements and expressions other than loops, until a node takes over."""

"""Complete models, written as users write theirs: one a file."""

"""Bindings: the text of the Python function that one call of a hybridized function runs."""

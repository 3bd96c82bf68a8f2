"""One capture: a function runs once, and what it did becomes a graph with inputs and results."""

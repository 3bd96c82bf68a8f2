"""One run of a function under a tracer, turned into a graph with its inputs, results and writes."""

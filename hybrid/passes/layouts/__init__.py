"""A graph of whole tensors made the one that each rank runs on its parts of them.

In comes a graph whose parameters have types with layouts, or that has nodes ``laid_out``; out come
the graph of this rank, with collectives where parts have to move, and the layouts of its results.
"""

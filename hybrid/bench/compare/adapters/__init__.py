"""The workloads as the users of each framework write them.

A file here is named after its framework.  It has ``VERSION``, ``set_threads`` and ``PROGRAMS``,
which builds the program of a workload from the problem; see ``hybrid.bench.compare.adapter``.
"""

"""The workloads as other frameworks write them, each run in a process of its own.

A file here is named after its framework and serves ``PROGRAMS``; see ``serve`` and
``hybrid.bench.peers``.
"""

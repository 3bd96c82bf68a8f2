"""Strategies: which ranks of a mesh compute what of a step, found by what it takes on this machine.

The times of collectives and of ops are measured (``link_speeds.py``, ``op_times.py``); the search
(``hybrid/passes/layouts``) goes by them; what a person would have chosen (``hand_strategies.py``)
is among what it chooses from.
"""

"""What became of a function when it was captured, told along its author's source.

Nothing is imported here: why a call needs a plan is asked more often than for an explanation.
"""

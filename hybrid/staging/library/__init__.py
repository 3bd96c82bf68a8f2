"""Functions of Python, NumPy and the standard library that are given traced values."""

"""Staging: the functions that converted code calls, on traced values and on plain Python values.

A converted function calls these functions in place of its statements and expressions, by the names
in ``table.py``.  On plain values they do what Python does; on traced ones they put nodes into the
graph that is being captured.  Above ``convert`` and ``trace``, below ``hybridize``.
"""

from hybrid.staging import table as table

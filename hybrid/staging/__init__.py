"""Staging: what converted code means on values of a run to come, and on plain Python values.

A converted function calls these functions in place of its statements and expressions, by the names
in ``table.py``.  On plain values they do what Python does; on traced ones they put nodes into the
graph that is being captured.  Above ``convert`` and ``trace``, below ``hybridize``.
"""

from hybrid.staging import table as table

"""Conversion: the author's functions, rewritten so that their control flow can be captured.

On plain Python values a converted function is the function itself: same results, exceptions,
variables, closures and tracebacks.  Each construct has a file with the template that takes its
place in the source; what the template calls is in ``hybrid.staging``, which knows of captures.
"""

from hybrid.convert.constructs.order import ORDER as ORDER
from hybrid.convert.conversion import convert as convert
from hybrid.convert.conversion import converted_source as converted_source
from hybrid.convert.conversion import is_converted as is_converted
from hybrid.convert.conversion import why_not as why_not

"""Checks of the elements of tensors where other elements have no meaning.

::

    %p: f32[8] = require_values %x {subject="probability"}

Not elementwise to passes, which move such ops freely: these may raise.
"""

from __future__ import annotations

import math

from hybrid.core.types import TensorType
from hybrid.errors import DOMAINS, ArgumentError, domain_error
from hybrid.ir import op
from hybrid.ops.support import axis_ties
from hybrid.ops.support.batching import leading
from hybrid.ops.support.operand_checks import require_choice, require_numeric

SUBJECTS = tuple(DOMAINS)  # by the number that the kernel knows each by


@op(raises=ArgumentError)
def require_values(x: TensorType, *, subject: str) -> TensorType:
    """``x`` itself; ArgumentError if an element is outside what ``DOMAINS`` says of ``subject``.

    NaN passes.
    """
    require_numeric("require_values", x=x)
    require_choice("subject", subject, SUBJECTS)
    return x


@require_values.reference
def require_values_reference(x, *, subject):
    least, greatest, _ = DOMAINS[subject]
    outside = x[(x < least) | (x > greatest)]
    if outside.size:
        raise domain_error(subject, f"{outside[0]:g}")
    return x


@require_values.lowering
def require_values_lowering(emit, x, result, *, subject):
    count = (math.prod(result.shape),)
    views = [emit.dense(x).reshape(count)], [result.reshape(count)]
    emit.kernel("require_values", *views, [SUBJECTS.index(subject)])


@require_values.vjp
def require_values_vjp(ct, _y, _x, *, subject):
    return (ct,)


@require_values.jvp
def require_values_jvp(tangents, _y, _x, *, subject):
    return tangents[0]


require_values.batch(leading(require_values))
require_values.couples(axis_ties.everywhere)


@require_values.samples
def require_values_samples(draw):
    for dtype in draw.floats:
        for shape in [(), (0,), (17,), (3, 5)]:
            yield (draw(dtype, *shape, low=0, high=1),), {"subject": "probability"}
    for dtype in draw.numbers:
        yield (draw(dtype, 3, 5, low=0, high=9),), {"subject": "exponent"}

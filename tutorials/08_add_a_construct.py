"""Add a construct: how a piece of Python is rewritten, and what the rewritten piece does."""

# %% While a function is captured, a converted copy of it runs in its place.  A construct that has
# to be seen at run time is replaced by a call of a function that stages it.  Here is one.
import ast

import hybrid as hy
from hybrid.convert import ORDER, conversion, convert, converted_source
from hybrid.convert.converter import Converter, call
from hybrid.convert.runtime import Site, hyb__
from hybrid.staging.sessions.views import is_traced
from hybrid.trace.regions.checks import check


def larger(x, y):
    return x if x > y else y


print(converted_source(larger))
assert "hyb__.ifexp(" in converted_source(larger)

# %% On plain values a converted function is the function itself, whatever it holds.  That is the
# first test of every construct: f(*args) == convert(f)(*args).
assert convert(larger)(2, 3) == larger(2, 3) == 3


# %% Let us hunt an infinity: every division is to say where it stands when it divides by zero.  In
# eager Python it is a breakpoint's work; in a graph it takes a construct.
#
# The converter is given the syntax tree of each ``a / b`` and says what takes its place.  A Site
# remembers where that was: file, line, function.
class DivisionConverter(Converter):
    """Division looks at what it divides by.

    ::

        a / b    ==>    hyb__.divided(SITE, a, b)
    """

    nodes = (ast.BinOp,)

    def convert(self, node: ast.BinOp) -> ast.expr:
        rewriter = self.rewriter
        if not isinstance(node.op, ast.Div):
            return rewriter.children(node)  # as it is, its parts converted
        site = rewriter.site("division", node)
        return call(node, "divided", site, rewriter.visit(node.left), rewriter.visit(node.right))


# %% The function that is called decides.  On plain values it is Python's own division; on a tensor
# whose value is only known when the plan runs, it stages a check in front of it.
def divided(site: Site, a, b):
    """``a / b``; a plan that gets here with a zero in ``b`` raises."""
    if is_traced(b):
        error = ZeroDivisionError(f"division by zero in {site.function}")
        check(hy.all(b != 0), error, at=site.location)
    return a / b


# %% In the house the converter is a file in hybrid/convert/constructs and one line in ORDER; the
# function is one of hybrid/staging, and a name in its table.  For this process, this does both.
conversion.ORDER = (*ORDER, DivisionConverter)
setattr(hyb__, divided.__name__, divided)


# %% Now divisions are converted ...
def scaled(x, total):
    ratio = x / total
    if ratio.sum() > 1:
        ratio = ratio / ratio.sum()
    return ratio + 1 / 2


print(converted_source(scaled))
assert converted_source(scaled).count("hyb__.divided(") == 3

# %% ... alone ...
assert convert(lambda a, b: a / b)(7, 2) == 3.5
try:
    convert(lambda a, b: a / b)(7, 0)
except ZeroDivisionError as error:
    assert str(error) == "division by zero"  # Python's own

# %% ... and staged, in branches and loops like everything else.
captured = hy.hybridize(scaled)
x, total = hy.asarray([1.0, 2.0]), hy.asarray(4.0)
assert captured(x, total).numpy().tobytes() == scaled(x, total).numpy().tobytes()
print(captured.graph(x, total))

try:
    captured(x, hy.asarray(0.0))
except ZeroDivisionError as error:
    print(error, *getattr(error, "__notes__", ()), sep="\n")
    assert str(error) == "division by zero in scaled"
else:
    raise AssertionError("the check is part of the plan")
assert not hy.isfinite(scaled(x, hy.asarray(0.0))).any()  # eagerly nobody looked

"""The intermediate representation: ops, graphs, interpreters.  It knows no arrays and no C."""

from typing import TYPE_CHECKING, Any

from hybrid.core.imports import imported
from hybrid.ir.graph import Graph as Graph
from hybrid.ir.graph import Node as Node
from hybrid.ir.graph import Value as Value
from hybrid.ir.lowering import Emit as Emit
from hybrid.ir.lowering import NotDense as NotDense
from hybrid.ir.lowering import View as View
from hybrid.ir.op import REGISTRY as REGISTRY
from hybrid.ir.op import Op as Op
from hybrid.ir.op import get_op as get_op
from hybrid.ir.op import op as op
from hybrid.ir.rewrite import Builder as Builder
from hybrid.ir.rewrite import inlined as inlined
from hybrid.ir.rewrite import rewrite as rewrite
from hybrid.ir.rewrite import steady as steady
from hybrid.ir.rewrite import with_regions as with_regions
from hybrid.ir.verify import verify as verify

if TYPE_CHECKING:
    from hybrid.ir.parser import parse as parse
    from hybrid.ir.printer import print_graph as print_graph

_TEXT = {"parse": "hybrid.ir.parser", "print_graph": "hybrid.ir.printer"}  # seldom asked for


def __getattr__(name: str) -> Any:
    if name not in _TEXT:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(imported(_TEXT[name]), name)

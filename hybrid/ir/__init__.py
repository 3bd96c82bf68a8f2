"""The intermediate representation: ops, graphs, interpreters.  It knows no arrays and no C."""

from hybrid.ir.builder import Builder as Builder
from hybrid.ir.graph import Graph as Graph
from hybrid.ir.graph import Node as Node
from hybrid.ir.graph import Value as Value
from hybrid.ir.lowering import Emit as Emit
from hybrid.ir.lowering import View as View
from hybrid.ir.op import REGISTRY as REGISTRY
from hybrid.ir.op import Op as Op
from hybrid.ir.op import get_op as get_op
from hybrid.ir.op import op as op

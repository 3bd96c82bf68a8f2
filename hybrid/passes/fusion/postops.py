"""Post-ops: a map over a product or a convolution is applied to each part of it as it is finished.

Before::                                  After::

    %p: f32[8,4] = matmul %a, %b              %r: f32[8,4] = matmul_map %a, %b, %bias {
    %r: f32[8,4] = map %p, %bias {              (%p: f32[8,4], %c: f32[4]) {
      (%p: f32[8,4], %c: f32[4]) {                %s: f32[8,4] = add %p, %c
        %s: f32[8,4] = add %p, %c                 %t: f32[8,4] = tanh %s
        %t: f32[8,4] = tanh %s                    return %t
        return %t                               }
      }                                       }
    }

Convolutions become ``conv_map`` and ``conv_transpose_map``.  A product that something else needs
too is the first result.  The kernels and the order of summation are the same, so the bits are.

A map that reads as much again and more, such as the step of an optimizer with its moments, stays
behind the product of matrices: a task of that has some columns of all rows, and short pieces of so
many rows come from memory at half the speed, or less, of whole ones.
"""

from __future__ import annotations

from hybrid.core.size_functions import value_here
from hybrid.ir import Graph, Node, Value, with_regions
from hybrid.ops.flow.fusion import MAPPED
from hybrid.ops.matrix.matmul_variants import BYTES
from hybrid.passes.fusion.fuse import MAX_OPERANDS, MAX_RESULTS, is_fusable, owns_graphs, region_of

NEAR_BYTES = 1 << 16  # of a product: less is near in any case, and one step is less than two
FAR_BYTES = 1 << 20  # that second-level caches do not hold


def fuse_products(graph: Graph) -> Graph:
    """``graph`` with maps moved into the products and convolutions that they begin with."""
    nodes: list[Node | None] = list(graph.nodes)
    readers: dict[Value, list[int]] = {}
    for i, node in enumerate(graph.nodes):
        for value in dict.fromkeys(node.operands):
            readers.setdefault(value, []).append(i)
        if owns_graphs(node):
            nodes[i] = with_regions(node, fuse_products)
    returned = set(graph.results)
    # The last product first: it is the one that a map of two products joins.
    for i in reversed(range(len(nodes))):
        node = graph.nodes[i]
        if not _takes_post_ops(node):
            continue
        (product,) = node.results
        first, *others = readers.get(product, [None])
        # Whoever reads the product sees it where its first reader stood.
        if first is None or not _is_post_op(nodes[first], product):
            continue
        if node.op.name == "matmul" and _reads_much(nodes[first], product):
            continue
        merged = _merged(node, nodes[first], keep=bool(others) or product in returned)
        if merged is not None:
            nodes[i], nodes[first] = None, merged
    kept = tuple([node for node in nodes if node is not None])
    return graph if kept == graph.nodes else Graph(graph.name, graph.params, kept, graph.results)


def _takes_post_ops(node: Node) -> bool:
    """A product of floats or bytes; those of other integers are plain loops without post-ops."""
    if node.op.name not in MAPPED:
        return False
    return node.results[0].type.dtype.is_floating or node.operands[0].type.dtype in BYTES


def _is_post_op(node: Node | None, product: Value) -> bool:
    if node is None or not (node.op.name == "map" or is_fusable(node)):
        return False
    return node.results[0].type.shape == product.type.shape


def _reads_much(user: Node, product: Value) -> bool:
    """Whether ``user`` reads two more of its size, or one that second-level caches do not hold."""
    whole, nbytes = value_here(product.type.size), value_here(product.type.nbytes)
    others = sum([value_here(v.type.size) == whole for v in user.operands if v is not product])
    return (others > 1 and nbytes >= NEAR_BYTES) or (others == 1 and nbytes >= FAR_BYTES)


def _merged(node: Node, user: Node, *, keep: bool) -> Node | None:
    """``node`` and the map or elementwise node ``user`` in one; None when that is too much."""
    (product,) = node.results
    extra = [v for v in dict.fromkeys(user.operands) if v is not product]
    results = [*([product] if keep else []), *user.results]
    if len(extra) > MAX_OPERANDS or len(results) > MAX_RESULTS:
        return None
    if user.op.name == "map":
        region = user.regions[0]
        place = user.operands.index(product)
        param = region.params[place]
        params = (param, *region.params[:place], *region.params[place + 1 :])
        returned = (*([param] if keep else []), *region.results)
        region = Graph("", params, region.nodes, returned)
    else:
        region = region_of([user], [product, *extra], results)
    operands = (*node.operands, *extra)
    location = user.location or node.location
    return Node(MAPPED[node.op.name], operands, node.attrs, tuple(results), (region,), location)

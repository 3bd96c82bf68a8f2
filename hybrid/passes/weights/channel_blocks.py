"""Layout: between convolutions, images lie in blocks of 16 channels.

Before::                                        After::

    %y: f32[1,32,9,9] = conv %x, %w {...}           %p: f32[4608] = conv_blocked_prepare %w {...}
    %r: f32[1,32,9,9] = relu %y                     %y: f32[1,2,9,9,16] = conv_blocked %x, %w, %p
    %z: f32[1,32,9,9] = conv %r, %v {...}           %r: f32[1,2,9,9,16] = relu %y
    return %z                                       %q: f32[18432] = conv_blocked_prepare %v {...}
                                                    %s: f32[1,2,9,9,16] = conv_blocked %r, %v, %q
                                                    %t: f32[1,2,16,9,9] = permute_dims %s {...}
                                                    %z: f32[1,32,9,9] = reshape %t {...}
                                                    return %z

Elementwise nodes between them, with an operand for each channel too, and pooling come along: each
element is computed as before, by the same sums in the same order, so bits stay the same.  (Sums of
whole planes would have another order: planes leave the blocks before.)  What enters from elsewhere,
or leaves, is copied into the other layout; a chain is changed only where shapes say that this takes
less time than it saves.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

from hybrid.core.types import Shape
from hybrid.ir import Builder, Graph, Node, Op, Value, get_op, with_regions
from hybrid.ir.rewrite import with_replaced
from hybrid.ops.spatial import convolution_weights
from hybrid.ops.spatial.convolution_blocks import (
    BLOCK,
    blocked_shape,
    conv_blocked,
    conv_blocked_prepare,
    is_each,
    is_few,
    takes,
    takes_blocks,
    takes_planes,
)
from hybrid.passes.fusion.fuse import is_fusable, owns_graphs
from hybrid.passes.weights.precomputation import known_values

# In nanoseconds of one core with vectors of 64 bytes; what matters are the ratios.  Of layers of a
# ResNet-18 a convolution takes 0.64 to 0.94 of the time, from 1.2 ms (7x7) and 0.6 ms (3x3) to
# 0.08 ms (1x1); of channels alone, as in MobileNet, 0.1 to 0.5 of 0.2 to 0.6 ms.  From 16 channels
# to 16, at 32x32, it takes 1.2 of 0.02 ms.  In groups, as in ResNeXt, it takes 0.5 to 0.9
# of 0.3 to 0.9 ms (3x3, of 4 to 64 channels) or of 0.03 to 0.25 ms (1x1, of 32 channels or more),
# 0.9 to 1.2 of 0.07 to 0.15 ms (1x1, of fewer) and, of larger kernels from 16 channels on, up to
# 1.8 of 0.4 ms.
SAVED = 6e-4  # of a multiply-add
SAVED_OF_GROUPS = 4e-3  # of one in groups
SAVED_OF_EACH = 3e-2  # of one of a channel alone
COPIED = 0.3  # of an element into the other layout
NARROW = 16  # results of a group, at most, that a tile of two vectors is too wide for
TAPS = 9  # of the kernel of a group, at most: for each a copy is made along the last axis

_POOLS = ("max_pool", "avg_pool")


def layout(graph: Graph, fixed: Collection[int] = ()) -> Graph:
    """``graph`` with chains of convolutions on blocks of channels.

    ``fixed`` are the parameters that stay the same from run to run: weights are prepared once.
    """
    chosen = _chosen(graph, known_values(graph, fixed))
    rebuilt = _Rebuilt(graph, chosen)
    for node in graph.nodes:
        if node in chosen:
            rebuilt.add(node)
        else:
            rebuilt.keep(node)
    results = [rebuilt.as_it_was(value) for value in graph.results]
    made = rebuilt.builder.finish(results)
    return graph if made.nodes == graph.nodes else made


# Which nodes ------------------------------------------------------------------------------------


def _chosen(graph: Graph, known: set[Value]) -> set[Node]:
    """The nodes to compute in blocks."""
    members: dict[Node, None] = {}
    made: dict[Value, Node] = {}
    for node in graph.nodes:
        if _starts(node, known) or (_follows(node) and not made.keys().isdisjoint(_images(node))):
            members[node] = None
            made.update(dict.fromkeys(node.results, node))
    chosen: set[Node] = set()
    users = _users(graph)
    _trim(members, made, users)
    for chain in _chains(members, made):
        if sum(map(_saved, chain)) > _copied(chain, users):
            chosen.update(chain)
    return chosen


def _starts(node: Node, known: set[Value]) -> bool:
    """Whether ``node`` is a convolution that can give blocks, and is not slower for it."""
    if node.op.name != "conv":
        return False
    x, w = node.operands
    attrs = node.attributes
    if not takes(x.type, w.type, attrs) or not (
        takes_blocks(x.type) or takes_planes(w.type, attrs, x.type.shape[0])
    ):
        return False
    if is_few(w.type, attrs["groups"]):
        return True
    if attrs["groups"] > 1 and math.prod(w.type.shape[2:]) > TAPS:
        return False
    # Few results read weights best where they are, if these are not prepared ahead.
    return w in known or convolution_weights.pays(x.type, w.type, attrs)


def _follows(node: Node) -> bool:
    """Whether ``node`` can be computed on blocks of its operands."""
    if node.regions or len(node.results) != 1:
        return False
    result, attrs = node.results[0].type, node.attributes
    if node.op.name in _POOLS:
        (x,) = node.operands
        # One window of all is a reduction, in another order than that of windows.
        return takes_blocks(x.type) and x.type.shape[2:] != attrs["kernel"]
    return (
        is_fusable(node)
        and takes_blocks(result)
        and all(_in_blocks(v.type.shape, result.shape) is not None for v in node.operands)
    )


def _in_blocks(shape: Shape, image: Shape) -> Shape | None:
    """What an operand of ``shape`` is reshaped to beside blocks of ``image``; None if it cannot."""
    if shape == image or not shape:
        return shape
    n, channels, *sizes = (1,) * (4 - len(shape)) + shape
    if channels == 1:
        return (n, 1, *sizes, 1)
    if sizes == [1, 1]:
        return (n, channels // BLOCK, 1, 1, BLOCK)
    return None


def _images(node: Node) -> list[Value]:
    """The operands of ``node`` that are taken in blocks."""
    if node.op.name == "conv" or node.op.name in _POOLS:
        return [node.operands[0]]
    shape = node.results[0].type.shape
    return [v for v in dict.fromkeys(node.operands) if v.type.shape == shape]


def _users(graph: Graph) -> dict[Value, set[Node | None]]:
    """Who uses each value; None is the end of the graph."""
    users: dict[Value, set[Node | None]] = {}
    for node in graph.nodes:
        for value in node.operands:
            users.setdefault(value, set()).add(node)
    for value in graph.results:
        users.setdefault(value, set()).add(None)
    return users


def _trim(
    members: dict[Node, None], made: dict[Value, Node], users: dict[Value, set[Node | None]]
) -> None:
    """Takes from ``members`` what costs more copies than it spares, from the last one on."""

    def leaves(value: Value, without: Node | None = None) -> bool:
        return any(user is without or user not in members for user in users.get(value, ()))

    def enters(value: Value, without: Node) -> bool:
        others = (user for user in users[value] if user in members and user is not without)
        return not any(value in _images(user) for user in others if user is not None)

    for node in reversed(list(members)):
        if node.op.name == "conv":
            continue
        (result,) = node.results
        within = any(user in members for user in users.get(result, ()))
        spared = result.type.size * (within - leaves(result))
        for value in _images(node):
            if value in made:
                spared += value.type.size * (leaves(value, node) - leaves(value))
            elif enters(value, node):
                spared -= value.type.size
        if spared < 0:
            del members[node], made[result]


def _chains(members: dict[Node, None], made: dict[Value, Node]) -> list[list[Node]]:
    """``members`` that pass images to each other, together."""
    of = {node: [node] for node in members}
    for node in members:
        for value in _images(node):
            other = of.get(made[value]) if value in made else None
            if other is None or other is of[node]:
                continue
            small, large = sorted((other, of[node]), key=len)
            large += small
            of.update(dict.fromkeys(small, large))
    return list({id(chain): chain for chain in of.values()}.values())


def _saved(node: Node) -> float:
    """The time that blocks save ``node``."""
    if node.op.name != "conv":
        return 0
    w, result = node.operands[1].type, node.results[0].type
    groups, products = node.attributes["groups"], result.size * math.prod(w.shape[1:])
    if is_each(w, groups):
        return products * SAVED_OF_EACH
    if is_few(w, groups):
        return products * SAVED_OF_GROUPS if math.prod(w.shape[2:]) > 1 else 0
    if result.shape[1] // groups <= NARROW:
        return 0
    return products * (SAVED if groups == 1 else SAVED_OF_GROUPS)


def _copied(chain: list[Node], users: dict[Value, set[Node | None]]) -> float:
    """The time that it takes to bring images into ``chain`` and out of it."""
    inside = set(chain)
    made = {value for node in chain for value in node.results}
    entering = {
        v for node in chain for v in _images(node) if v not in made and not _reads_planes(node, v)
    }
    leaving = [value for value in made if not users.get(value, set()) <= inside]
    return COPIED * sum([value.type.size for value in (*entering, *leaving)])


def _reads_planes(node: Node, x: Value) -> bool:
    """Whether ``node`` is a convolution that takes ``x`` as it is."""
    return node.op.name == "conv" and takes_planes(
        node.operands[1].type, node.attributes, x.type.shape[0]
    )


# The new graph ----------------------------------------------------------------------------------


class _Rebuilt:
    """A graph that is being made, and where its images lie."""

    def __init__(self, graph: Graph, chosen: set[Node]) -> None:
        self.builder = Builder(graph.name)
        self.own = {value for node in chosen for value in node.results}
        self.builder.params = list(graph.params)
        self.blocked: dict[Value, Value] = {}  # of values of the old graph, in blocks
        self.plain: dict[Value, Value] = {}  # as they were, of those that nodes here give

    def made(self, op: Op, operands: list[Value], attrs: Any, hint: str = "") -> Value:
        (value,) = self.builder.apply(op, operands, attrs, hints=[hint])
        return value

    def keep(self, node: Node) -> None:
        self.builder.location = node.location
        node = with_replaced(node, {v: self.as_it_was(v) for v in node.operands if v in self.own})
        self.builder.append(with_regions(node, layout) if owns_graphs(node) else node)

    def add(self, node: Node) -> None:
        """``node`` on blocks."""
        self.builder.location = node.location
        (result,) = node.results
        attrs = node.attributes
        if node.op.name == "conv":
            self.blocked[result] = self._convolution(node, result.hint)
        elif node.op.name in _POOLS:
            images = [self.in_blocks(node.operands[0])]
            self.blocked[result] = self.made(node.op, images, _of_three(attrs), result.hint)
        else:
            image = result.type.shape
            operands = [self._beside(value, image) for value in node.operands]
            self.blocked[result] = self.made(node.op, operands, node.attrs, result.hint)

    def _convolution(self, node: Node, hint: str) -> Value:
        x, w = node.operands
        w = self.as_it_was(w)
        attrs = node.attributes
        p = self.made(conv_blocked_prepare, [w], {"source": x.type.shape, **attrs})
        as_it_is = x not in self.blocked and _reads_planes(node, x)
        x = self.as_it_was(x) if as_it_is else self.in_blocks(x)
        return self.made(conv_blocked, [x, w, p], attrs, hint)

    def _beside(self, value: Value, image: Shape) -> Value:
        """An operand of an elementwise node beside blocks of ``image``."""
        if value.type.shape == image:
            return self.in_blocks(value)
        shape = _in_blocks(value.type.shape, image)
        value = self.as_it_was(value)
        if shape == value.type.shape:
            return value
        return self.made(get_op("reshape"), [value], {"shape": shape})

    def in_blocks(self, value: Value) -> Value:
        if value not in self.blocked:
            n, blocks, *sizes, _ = blocked_shape(value.type.shape)
            apart = {"shape": (n, blocks, BLOCK, *sizes)}
            found = self.made(get_op("reshape"), [self.as_it_was(value)], apart)
            self.blocked[value] = self.made(get_op("permute_dims"), [found], {"axes": _BESIDE})
        return self.blocked[value]

    def as_it_was(self, value: Value) -> Value:
        if value not in self.plain:
            if value not in self.own:
                return value
            found = self.made(get_op("permute_dims"), [self.blocked[value]], {"axes": _APART})
            shape = {"shape": value.type.shape}
            self.plain[value] = self.made(get_op("reshape"), [found], shape, value.hint)
        return self.plain[value]


_BESIDE, _APART = (0, 1, 3, 4, 2), (0, 1, 4, 2, 3)  # channels of a block come last, or do again


def _of_three(attrs: dict[str, Any]) -> dict[str, Any]:
    """Attributes of pooling over the planes of blocks: the third axis is that of the channels."""
    last = {"kernel": 1, "stride": 1, "padding": 0, "dilation": 1, "size": BLOCK}
    return {k: (*v, last[k]) if k in last else v for k, v in attrs.items()}

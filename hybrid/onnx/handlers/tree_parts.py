"""Ensembles of trees: all trees of all rows go down one level at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hybrid import ops
from hybrid.core import types
from hybrid.nn.modules.module import Module
from hybrid.onnx.handlers.feature_parts import as_float, floats, no_texts, transformed
from hybrid.onnx.node_table import ML, handles

_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
_MEMBER, _LEAF = len(_MODES), -1
_COMPARE = (
    ops.less_equal, ops.less, ops.greater_equal, ops.greater, ops.equal, ops.not_equal,
)  # fmt: skip
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")


class Trees(Module):
    """Nodes of trees; called with rows [n, features] it gives the leaves, [n, trees].

    ``modes`` are places in ``_MODES``, ``_MEMBER`` or ``_LEAF``; ``yes`` and ``no`` are the nodes
    that follow; a leaf follows itself.
    """

    def __init__(
        self,
        *,
        features: np.ndarray,
        values: np.ndarray,
        modes: np.ndarray,
        yes: np.ndarray,
        no: np.ndarray,
        missing: np.ndarray,
        roots: np.ndarray,
        members: np.ndarray | None = None,
    ) -> None:
        self.depth = _depth(modes, yes, no, roots)
        self.kinds = tuple(sorted({int(mode) for mode in modes} - {_LEAF}))
        self.has_missing = bool(missing.any())
        for name, array in (
            ("features", features), ("modes", modes), ("yes", yes), ("no", no), ("roots", roots),
        ):  # fmt: skip
            self.register_buffer(name, ops.as_tensor(array.astype(np.int64)))
        self.register_buffer("values", ops.as_tensor(values))
        self.register_buffer("missing", ops.as_tensor(missing.astype(bool)))
        self.register_buffer("members", None if members is None else ops.as_tensor(members))

    def forward(self, x: Any) -> Any:
        at = ops.broadcast_to(self.roots, (x.shape[0], self.roots.shape[0]))
        for _ in range(self.depth):
            value = ops.gather(x, ops.take(self.features, at, axis=0), axis=1)
            at = ops.where(
                self._holds(at, value),
                ops.take(self.yes, at, axis=0),
                ops.take(self.no, at, axis=0),
            )
        return at

    def _holds(self, at: Any, value: Any) -> Any:
        """Whether the test of node ``at`` holds of ``value``."""
        limit = ops.take(self.values, at, axis=0)
        holds = None
        for kind in self.kinds:
            if kind == _MEMBER:
                one = ops.any(
                    ops.equal(value[..., None], ops.take(self.members, at, axis=0)), axis=-1
                )
            else:
                one = _COMPARE[kind](value, limit)
            if holds is None:
                holds = one
            else:
                holds = ops.where(ops.equal(ops.take(self.modes, at, axis=0), kind), one, holds)
        if self.has_missing:
            gone = ops.logical_and(ops.isnan(value), ops.take(self.missing, at, axis=0))
            holds = ops.logical_or(holds, gone)
        return holds


def _depth(modes: np.ndarray, yes: np.ndarray, no: np.ndarray, roots: np.ndarray) -> int:
    """The length of the longest path; ValueError if a path has no end."""
    depth, level = 0, np.unique(roots)
    while len(level := level[modes[level] != _LEAF]):
        level = np.unique(np.concatenate([yes[level], no[level]]))
        depth += 1
        if depth > len(modes):
            raise ValueError("a tree has a circle")
    return depth


def _checked(nodes: np.ndarray, count: int, what: str) -> np.ndarray:
    if len(nodes) and not (nodes.min() >= 0 and nodes.max() < count):
        raise ValueError(f"{what} are not from 0 to {count - 1}")
    return nodes


def _trees_of(
    *, modes: Sequence[str], treeids: Sequence[int], nodeids: Sequence[int],
    features: Sequence[int], values: Any, yes: Sequence[int], no: Sequence[int],
    missing: Sequence[int],
) -> tuple[Trees, dict[tuple[int, int], int]]:  # fmt: skip
    """The trees that the attributes of opsets 1 and 3 describe, and nodes by tree and number."""
    places = {key: at for at, key in enumerate(zip(treeids, nodeids, strict=True))}
    unknown = set(modes) - {*_MODES, "LEAF"}
    if unknown or len(places) != len(modes):
        raise ValueError(f"modes {sorted(unknown)}" if unknown else "two nodes of one number")
    kinds = np.array([_LEAF if mode == "LEAF" else _MODES.index(mode) for mode in modes])

    def follow(numbers: Sequence[int]) -> np.ndarray:
        return np.array(
            [
                at if kinds[at] == _LEAF else _place(places, treeids[at], number)
                for at, number in enumerate(numbers)
            ]
        )

    roots: dict[int, int] = {}
    for at, tree in enumerate(treeids):
        roots.setdefault(tree, at)
    ids = np.array([0 if k == _LEAF else f for k, f in zip(kinds, features, strict=True)])
    made = Trees(
        features=ids, values=np.asarray(values), modes=kinds, yes=follow(yes), no=follow(no),
        missing=np.array(list(missing) or [0] * len(kinds)), roots=np.array(list(roots.values())),
    )  # fmt: skip
    return made, places


def _place(places: Mapping[tuple[int, int], int], tree: int, number: int) -> int:
    """Where node ``number`` of a tree stands."""
    if (tree, number) not in places:
        known = [str(node) for other, node in places if other == tree]
        there = f"which has {', '.join(known[:16])}" if known else "which has none"
        raise ValueError(f"a node {number} of tree {tree}, {there}")
    return places[tree, number]


def _leaf_table(
    places: dict[tuple[int, int], int],
    treeids: Sequence[int],
    nodeids: Sequence[int],
    ids: Sequence[int],
    weights: Any,
    targets: int,
    fill: float,
) -> np.ndarray:
    """What each node adds to each target, [nodes, targets]; ``fill`` where it says nothing."""
    table = np.full((len(places), targets), fill, np.asarray(weights).dtype)
    for tree, node, target, weight in zip(treeids, nodeids, ids, weights, strict=True):
        at = _place(places, tree, node)
        if not 0 <= target < targets:
            raise ValueError(f"a target {target} of {targets}")
        table[at, target] = (
            weight if fill or table[at, target] == fill else table[at, target] + weight
        )
    return table


def _fill(aggregate: str, dtype: Any) -> float:
    limits = np.finfo(dtype)
    return {"MIN": limits.max, "MAX": limits.min}.get(aggregate, 0.0)


def _aggregated(leaves: Any, table: Any, aggregate: str) -> Any:
    """[n, trees] leaves to [n, targets]."""
    parts = ops.take(table, leaves, axis=0)
    if aggregate == "MIN":
        return ops.min(parts, axis=1)
    if aggregate == "MAX":
        return ops.max(parts, axis=1)
    total = ops.sum(parts, axis=1)
    return total / leaves.shape[1] if aggregate == "AVERAGE" else total


def _array(values: Any, tensor: Any) -> np.ndarray:
    return np.array(values, np.float32) if tensor is None else np.asarray(tensor)


@handles("TreeEnsembleRegressor", 1, 3, 5, domain=ML)
class TreeEnsembleRegressor(Module):
    """TreeEnsembleRegressor: sums (means, least, largest) of what leaves say."""

    def __init__(
        self, *, nodes_falsenodeids: Sequence[int], nodes_featureids: Sequence[int],
        nodes_modes: Sequence[str], nodes_nodeids: Sequence[int], nodes_treeids: Sequence[int],
        nodes_truenodeids: Sequence[int], target_ids: Sequence[int], target_nodeids: Sequence[int],
        target_treeids: Sequence[int], aggregate_function: str = "SUM",
        base_values: Sequence[float] = (), base_values_as_tensor: Any = None, n_targets: int = 1,
        nodes_hitrates: Sequence[float] = (), nodes_hitrates_as_tensor: Any = None,
        nodes_missing_value_tracks_true: Sequence[int] = (), nodes_values: Sequence[float] = (),
        nodes_values_as_tensor: Any = None, post_transform: str = "NONE",
        target_weights: Sequence[float] = (), target_weights_as_tensor: Any = None,
    ) -> None:  # fmt: skip
        if aggregate_function not in _AGGREGATES:
            raise ValueError(f"aggregate_function is {aggregate_function!r}")
        self.trees, places = _trees_of(
            modes=nodes_modes, treeids=nodes_treeids, nodeids=nodes_nodeids,
            features=nodes_featureids, values=_array(nodes_values, nodes_values_as_tensor),
            yes=nodes_truenodeids, no=nodes_falsenodeids, missing=nodes_missing_value_tracks_true,
        )  # fmt: skip
        weights = _array(target_weights, target_weights_as_tensor)
        fill = _fill(aggregate_function, weights.dtype)
        table = _leaf_table(
            places, target_treeids, target_nodeids, target_ids, weights, n_targets, fill
        )
        self.aggregate, self.transform = aggregate_function, post_transform
        self.register_buffer("leaves", ops.as_tensor(table))
        base = _array(base_values or [0.0], base_values_as_tensor)
        self.register_buffer("base", ops.as_tensor(base))

    def forward(self, x: Any) -> Any:
        x = as_float(x)
        y = _aggregated(self.trees(x), self.leaves, self.aggregate) + self.base
        return transformed(ops.astype(y, types.float32), self.transform)


@handles("TreeEnsembleClassifier", 1, 3, 5, domain=ML)
class TreeEnsembleClassifier(Module):
    """TreeEnsembleClassifier: labels, and the sums of what leaves say of each class."""

    def __init__(
        self, *, class_ids: Sequence[int], class_nodeids: Sequence[int],
        class_treeids: Sequence[int], nodes_falsenodeids: Sequence[int],
        nodes_featureids: Sequence[int], nodes_modes: Sequence[str], nodes_nodeids: Sequence[int],
        nodes_treeids: Sequence[int], nodes_truenodeids: Sequence[int],
        base_values: Sequence[float] = (), base_values_as_tensor: Any = None,
        class_weights: Sequence[float] = (), class_weights_as_tensor: Any = None,
        classlabels_int64s: Sequence[int] = (), classlabels_strings: Sequence[str] = (),
        nodes_hitrates: Sequence[float] = (), nodes_hitrates_as_tensor: Any = None,
        nodes_missing_value_tracks_true: Sequence[int] = (), nodes_values: Sequence[float] = (),
        nodes_values_as_tensor: Any = None, post_transform: str = "NONE",
    ) -> None:  # fmt: skip
        no_texts("TreeEnsembleClassifier", classlabels_strings=classlabels_strings)
        self.trees, places = _trees_of(
            modes=nodes_modes, treeids=nodes_treeids, nodeids=nodes_nodeids,
            features=nodes_featureids, values=_array(nodes_values, nodes_values_as_tensor),
            yes=nodes_truenodeids, no=nodes_falsenodeids, missing=nodes_missing_value_tracks_true,
        )  # fmt: skip
        weights = _array(class_weights, class_weights_as_tensor)
        table = _leaf_table(
            places, class_treeids, class_nodeids, class_ids, weights, len(classlabels_int64s), 0.0
        )
        # Of two classes only one may be spoken of: the score of the other follows from it.
        self.one_sided = len(set(class_ids)) == 1 and len(classlabels_int64s) == 2
        self.spoken = class_ids[0] if self.one_sided else 0
        self.transform = post_transform
        self.positive = bool((weights >= 0).all())
        self.register_buffer("leaves", ops.as_tensor(table))
        self.register_buffer("labels", floats(classlabels_int64s, np.int64))
        base = _array(base_values or [0.0], base_values_as_tensor)
        self.register_buffer("base", ops.as_tensor(base))

    def forward(self, x: Any, *, outputs: int = 1) -> Any:
        x = as_float(x)
        scores = ops.astype(_aggregated(self.trees(x), self.leaves, "SUM"), types.float32)
        if self.one_sided:
            base = ops.reshape(self.base, (-1,))[-1]
            one = scores[:, self.spoken : self.spoken + 1] + ops.astype(base, types.float32)
            kept = self.transform in ("NONE", "PROBIT")
            other = 1 - one if kept and self.positive else ops.negative(one)
            second = ops.greater(one[:, 0], 0.5 if kept and self.positive else 0.0)
            place = ops.astype(second, types.int64)
            scores = transformed(ops.concat([other, one], axis=1), self.transform)
        else:
            scores = scores + ops.astype(self.base, types.float32)
            place = ops.argmax(scores, axis=1)
            scores = transformed(scores, self.transform)
        label = ops.take(self.labels, place, axis=0)
        return label if outputs == 1 else (label, scores)


@handles("TreeEnsemble", 5, domain=ML)
class TreeEnsemble(Module):
    """TreeEnsemble: what leaves say of each target, with tests of membership."""

    def __init__(
        self, *, leaf_targetids: Sequence[int], leaf_weights: Any, nodes_falseleafs: Sequence[int],
        nodes_falsenodeids: Sequence[int], nodes_featureids: Sequence[int], nodes_modes: Any,
        nodes_splits: Any, nodes_trueleafs: Sequence[int], nodes_truenodeids: Sequence[int],
        tree_roots: Sequence[int], aggregate_function: int = 1, membership_values: Any = None,
        n_targets: int = 1, nodes_hitrates: Any = None,
        nodes_missing_value_tracks_true: Sequence[int] = (), post_transform: int = 0,
    ) -> None:  # fmt: skip
        if not 0 <= aggregate_function < len(_AGGREGATES):
            raise ValueError(f"aggregate_function is {aggregate_function}")
        modes, count, leaves = (
            np.asarray(nodes_modes).astype(int),
            len(nodes_modes),
            len(leaf_weights),
        )
        if ((modes < 0) | (modes > _MEMBER)).any():
            raise ValueError("a mode that is none of 0 to 6")
        weights = np.asarray(leaf_weights)
        # Leaves are nodes behind the others; a root of which both ways are one leaf is that leaf.
        yes = [
            _checked_at(n, leaf, count, leaves)
            for n, leaf in zip(nodes_truenodeids, nodes_trueleafs, strict=True)
        ]
        no = [
            _checked_at(n, leaf, count, leaves)
            for n, leaf in zip(nodes_falsenodeids, nodes_falseleafs, strict=True)
        ]
        own = list(range(count, count + leaves))
        members = None
        splits = np.asarray(nodes_splits)
        if (modes == _MEMBER).any():
            members = _member_table(modes, membership_values, leaves, splits.dtype)
        missing = list(nodes_missing_value_tracks_true) or [0] * count
        roots = _checked(np.array(tree_roots), count, "tree_roots")
        self.trees = Trees(
            features=np.append(np.array(nodes_featureids), [0] * leaves),
            values=np.append(splits, np.zeros(leaves, splits.dtype)),
            modes=np.append(modes, [_LEAF] * leaves), yes=np.array(yes + own),
            no=np.array(no + own),
            missing=np.array([*missing, *[0] * leaves]), roots=roots, members=members,
        )  # fmt: skip
        self.aggregate = _AGGREGATES[aggregate_function]
        self.transform = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")[post_transform]
        table = np.full(
            (count + leaves, n_targets), _fill(self.aggregate, weights.dtype), weights.dtype
        )
        targets = _checked(np.array(leaf_targetids), n_targets, "leaf_targetids")
        table[np.arange(count, count + leaves), targets] = weights
        self.register_buffer("leaves", ops.as_tensor(table))

    def forward(self, x: Any) -> Any:
        return transformed(_aggregated(self.trees(x), self.leaves, self.aggregate), self.transform)


def _checked_at(number: int, is_leaf: int, count: int, leaves: int) -> int:
    if not 0 <= number < (leaves if is_leaf else count):
        raise ValueError(f"a node {number} that is not there")
    return count + number if is_leaf else number


def _member_table(modes: np.ndarray, values: Any, leaves: int, dtype: Any) -> np.ndarray:
    """The sets of nodes that test for membership, [nodes, most members], NaN behind them."""
    sets: list[list[float]] = [[]]
    for value in np.asarray(values).reshape(-1).tolist():
        if value != value:
            sets.append([])
        else:
            sets[-1].append(value)
    asked = np.flatnonzero(modes == _MEMBER)
    if len(sets) - 1 < len(asked):
        raise ValueError(f"{len(sets) - 1} sets of members for {len(asked)} nodes")
    width = max(1, *(len(one) for one in sets))
    table = np.full((len(modes) + leaves, width), np.nan, dtype)
    for node, one in zip(asked, sets, strict=False):
        table[node, : len(one)] = one
    return table

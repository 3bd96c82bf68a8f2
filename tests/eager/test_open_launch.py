"""Open launches: one for all sizes, with the bits of a launch for each of them."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest

import hybrid as hy
from hybrid.core.types import tensor_type
from hybrid.eager import open_launch
from hybrid.eager.execution import as_tensor
from hybrid.eager.launch import launch_of
from hybrid.eager.open_code import Run
from hybrid.eager.open_launch import COUNTED, MEETINGS, make_variant
from hybrid.errors import HybridError
from hybrid.ir import Op, get_op
from hybrid.memory import native
from tests.helpers import part_of, parts
from tests.ops.test_registry import OPS, drawn

# Ops whose rules compare operands with types that they make of others: each size has its launch.
PREPARED = {"conv_blocked", "conv_prepared", "matmul_integer_prepared", "matmul_prepared"}
SAMPLES = 16  # of an op
_OPENED = [op for op in OPS if open_launch.opens(op)]


def bits(results: Any) -> list[Any]:
    return [(r.type, bytes(native.view(r.content, r.type.nbytes))) for r in results]


def served(op: Op) -> int:
    """How many calls of ``op`` a launch served that was made of another, or the same."""
    variants: dict[Any, list[Run]] = defaultdict(list)
    count = 0
    table = drawn(op)
    for operands, attrs in table[:: max(1, len(table) // SAMPLES)]:
        tensors = [as_tensor(np.asarray(x, order="C")) for x in operands]
        types, given = tuple([t.type for t in tensors]), op.attributes(attrs)
        sizes: list[int] = []
        key = open_launch.key_of_call(op, types, given, sizes)
        try:
            want = bits(launch_of(op, types, given).run(tensors))
        except HybridError:  # no kernel for such operands, or an index that is not there
            continue
        known = variants[key]
        if not known and (made := make_variant(op, types, given)) is not None:
            known.append(made)
        found = [run(tensors, sizes) for run in known]
        for results in found:
            if results is not None:
                count += 1
                assert bits(results) == want, f"{op.name}: {types} {given}"
    return count


@pytest.mark.parametrize("part", parts(20))
def test_each_op_has_the_bits_of_its_own_launch(part: int) -> None:
    for op in part_of(_OPENED, part, 20):
        assert (served(op) == 0) == (op.name in PREPARED), op.name


def calls() -> dict[str, Any]:
    """Functions of a tensor [n, 6], of all that has sizes in one way or another."""
    f = hy.nn.functional
    weight, bias = hy.ones((5, 6)), hy.ones((5,))
    kernel = hy.ones((2, 1, 3, 3))
    return {
        "a map": lambda x: hy.exp(x) + x * 2.0,
        "broadcasting": lambda x: x * x[0] - x[:, :1],
        "a product": lambda x: x @ x.T,
        "a layer": lambda x: f.linear(x, weight, bias),
        "sums": lambda x: (x.sum(), x.mean(axis=0), x.max(axis=1), x.argmax(axis=0)),
        "a norm": lambda x: f.layer_norm(x, (6,)),
        "softmax": lambda x: f.softmax(x, axis=0),
        "a convolution": lambda x: f.conv2d(x[None, None], kernel),
        "pools": lambda x: f.max_pool2d(x[None, None], 2),
        "views": lambda x: (x.T, x.reshape(-1), x[1:], x[:, 2:4], x[None]),
        "indices": lambda x: hy.take(x, hy.asarray([1, 0]), axis=0),
        "lists": lambda x: hy.concat([x, x[:1]], axis=0),
        "sorting": lambda x: hy.sort(x, axis=0),
        "cumulative": lambda x: hy.cumulative_sum(x, axis=0),
        "casts": lambda x: hy.astype(x, hy.int32),
    }


def flat(found: Any) -> list[Any]:
    return [*found] if isinstance(found, tuple) else [found]


@pytest.mark.parametrize("name", calls())
def test_functions_and_gradients_of_many_sizes(name: str) -> None:
    call = calls()[name]
    generator = np.random.default_rng(3)

    def results(n: int) -> list[bytes]:
        x = hy.asarray(arrays[n])
        x.requires_grad = True
        found = flat(call(x))
        ends = [hy.sum(y * y) for y in found if y.dtype.is_floating]
        if ends:
            sum(ends[1:], ends[0]).backward()
        kept = [*found, *([x.grad] if ends else [])]
        return [(y.type, bytes(native.view(y.content, y.type.nbytes))) for y in kept]

    sizes = [7, 4, 9, 2, 33, 1, 0, 8, 64]
    arrays = {n: generator.standard_normal((n, 6)).astype("float32") for n in sizes}
    usable = [n for n in sizes if n >= 3 or name in ("a map", "a layer", "softmax", "casts")]
    first = {n: results(n) for n in usable}
    for _ in range(COUNTED * MEETINGS + 2):  # by launches for all sizes, then by their own
        for n in usable:
            assert results(n) == first[n], n


def count_launches(op: Op) -> tuple[int, int]:
    return len(op.launches), sum([len(k.variants) for k in op.open_launches.values()])


OWN = {"exp": lambda n: hy.exp(hy.ones((n, 11))), "add": lambda n: hy.ones((n, 11)) + 1.5}


@pytest.mark.parametrize("name", OWN)
def test_a_new_size_makes_no_launch(name: str) -> None:
    op, call = get_op(name), OWN[name]
    op.launches.clear()
    op.open_launches.clear()
    call(200), call(201)
    before = count_launches(op)
    assert before == (1, 1)
    for n in range(202, 260):
        call(n)
    assert count_launches(op) == before


def test_sizes_that_come_again_get_launches_of_their_own() -> None:
    op = get_op("exp")
    op.launches.clear()
    op.open_launches.clear()
    for n in (300, 301):
        hy.exp(hy.ones((n, 13)))
    for _ in range(COUNTED * MEETINGS):
        hy.exp(hy.ones((302, 13)))
    assert (tensor_type(hy.float32, (302, 13)),) in op.launches


def test_mistakes_are_those_of_the_op() -> None:
    for n in (3, 4, 5):
        _ = hy.ones((n, 4)) @ hy.ones((4, n))
    with pytest.raises(HybridError, match=r"f32\[6,4\] and f32\[5,6\]"):
        _ = hy.ones((6, 4)) @ hy.ones((5, 6))
    x = hy.ones((4, 3))
    for n in (2, 3, 4):
        hy.take(x, hy.asarray([0] * n), axis=0)
    with pytest.raises(HybridError, match="9"):
        hy.take(x, hy.asarray([0] * 5 + [9]), axis=0)


def test_kinds_tell_sizes_of_none_and_one_apart() -> None:
    kinds = [tensor_type(hy.float32, s).kind for s in ((2, 3), (9, 4), (1, 3), (0, 3), (2,))]
    assert kinds[0] == kinds[1]
    assert len({*kinds}) == 4

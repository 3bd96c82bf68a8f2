"""FLOPs by op: each op has a rule or a class, and the rules give what formulas give."""

import numpy as np
import pytest

import hybrid as hy
from hybrid.core.types import float32, tensor_type
from hybrid.ir.interpreter import interpreting
from hybrid.ir.op import REGISTRY
from hybrid.nn.modules.module import Module
from hybrid.nn.op_counts import MOVES, PER_ELEMENT, RULES, Counter

F = hy.nn.functional


def test_the_tables_name_ops():
    names = [*RULES, *PER_ELEMENT, *MOVES]
    assert set(names) <= REGISTRY.keys() and len(set(names)) == len(names)


class Calling(Module):
    """A module whose forward is any function."""

    def __init__(self, function):
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def of(*shape):
    return hy.asarray(np.ones(shape, np.float32))


CASES = [  # (function, operands, FLOPs, bytes of what is made)
    (lambda x: x + 1, [of(3, 4)], 12, 48),
    (lambda x: x.reshape(12), [of(3, 4)], 0, 0),
    (lambda x: hy.exp(x).sum(axis=0), [of(3, 4)], 24, 64),
    (hy.matmul, [of(3, 4), of(4, 5)], 120, 60),
    (hy.matmul, [of(4), of(4)], 8, 4),
    (hy.matmul, [of(2, 3, 4), of(4, 5)], 240, 120),
    (
        hy.compress.functional.matmul_integer,
        [of(3, 4).astype(hy.int8), of(4, 5).astype(hy.int8)],
        120,
        60,
    ),
    (lambda x, y: x @ y.T, [of(3, 4), of(5, 4)], 120, 60 + 80),
    (F.linear, [of(3, 4), of(5, 4), of(5)], 120 + 15, 120),
    (F.conv2d, [of(2, 3, 8, 8), of(6, 3, 3, 3)], 2 * (2 * 6 * 36) * 27, 2 * 6 * 36 * 4),
    (
        hy.compress.functional.conv_integer,
        [of(2, 3, 8, 8).astype(hy.int8), of(6, 3, 3, 3).astype(hy.int8)],
        2 * (2 * 6 * 36) * 27,
        2 * 6 * 36 * 4,
    ),
    (
        lambda x, w: F.conv2d(x, w, groups=3),
        [of(2, 3, 8, 8), of(6, 1, 3, 3)],
        2 * (2 * 6 * 36) * 9,
        2 * 6 * 36 * 4,
    ),
    (F.conv_transpose2d, [of(1, 3, 4, 4), of(3, 5, 2, 2)], 2 * 48 * 20, 5 * 25 * 4),
    (lambda x: F.max_pool2d(x, 2), [of(1, 2, 4, 4)], 32, 32),
    (lambda x: F.avg_pool2d(x, 3, 1), [of(1, 1, 4, 4)], 36, 16),
    (lambda x: F.softmax(x, -1), [of(3, 4)], 60, 48),
    (lambda x: F.layer_norm(x, (4,), of(4), of(4)), [of(3, 4)], 96, 48),
    (lambda x: x.astype(hy.float16) + 1, [of(3, 4)], 12, None),
    (lambda x: [x := x * 2 for _ in range(5)][-1], [of(2)], 10, 40),
    (lambda x: hy.while_loop(lambda x: x.sum() < 30, lambda x: x * 2, x), [of(2)], None, None),
    (hy.hybridize(lambda x: x + x * 2), [of(3)], 6, 24),
    (lambda x: F.scaled_dot_product_attention(x, x, x), [of(1, 4, 8)], None, None),
]


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_what_ops_cost(case):
    function, operands, flops, nbytes = case
    counter = Counter()
    module = Calling(function)
    expected = module(*operands)
    with interpreting(counter):
        found = module(*operands)
    assert found.astype(float32).numpy().tobytes() == expected.astype(float32).numpy().tobytes()
    cost = counter.costs[id(module)]
    assert cost.calls == 1 and cost.result is found and (cost.flops > 0 or flops == 0)
    assert flops is None or cost.flops == flops
    assert nbytes is None or cost.nbytes == nbytes


def test_products_of_attention_are_counted():
    counter, module = Counter(), Calling(F.scaled_dot_product_attention)
    x = of(1, 4, 8)
    with interpreting(counter):
        module(x, x, x)
    products = 2 * (4 * 4 * 8) * 2
    assert products < counter.costs[id(module)].flops < products + 200


def test_an_op_of_storage_is_counted_in_float32():
    counter, module = Counter(), Calling(lambda x: x * x)
    with interpreting(counter):
        made = module(of(3).astype(hy.bfloat16))
    assert made.type is tensor_type(hy.bfloat16, (3,))
    assert counter.costs[id(module)].flops == 3

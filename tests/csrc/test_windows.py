"""Kernels of convolution, pooling, folding and interpolation on any shapes and attributes."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hybrid._native import lib

from tests.csrc.specs import NativeFailure, Spec, find, run

LIMIT = 2**31 - 1
CONV = [1, 1, 1, 0, 1, 1, 1, 1, 1]  # strides, paddings, dilations
SIZES = [0, 1, 1, 2, 3, 5, 8, 17]
NUMBERS = [1, 1, 1, 2, 3, 4, 9, 0, -1, LIMIT, LIMIT + 1, 2**62, -(2**63)]
RANDOM = np.random.default_rng(21)


def some(values, count):
    return [int(values[i]) for i in RANDOM.integers(len(values), size=count)]


def numbers(count):
    """Attributes, most of them small."""
    return [int(RANDOM.choice(NUMBERS[:6] if RANDOM.random() < 0.93 else NUMBERS))
            for _ in range(count)]  # fmt: skip


def convolution(name):
    groups = int(RANDOM.integers(1, 4))
    n, c, o = (int(RANDOM.integers(0, 4)) for _ in range(3))
    x = [n, groups * c, *some(SIZES, 3)]
    w = [groups * o, c, *some(SIZES[:6], 3)]
    y = [n, groups * o, *some(SIZES, 3)]
    attrs = [*numbers(9), groups if RANDOM.random() < 0.9 else numbers(1)[0]]
    if name == "conv_weight":
        return [x, y], [w], attrs
    room = [int(np.prod(w))]
    return ([x, w], [y, room], attrs) if name == "conv" else ([y, w], [x, room], attrs)


def pooling(name):
    planes = int(RANDOM.integers(0, 5))
    x, y = [planes, *some(SIZES, 3)], [planes, *some(SIZES, 3)]
    flags = [int(RANDOM.random() < 0.3), int(RANDOM.choice([0, 1, 2, 2, 3, -1]))]
    return [x], [y], [*numbers(12), *flags]


def folding(name):
    planes = int(RANDOM.integers(0, 5))
    x = [planes, *some(SIZES, 3)]
    y = [planes, *some(SIZES[:6], 3), *some(SIZES[:6], 3)]
    return ([x], [y], numbers(9)) if name == "unfold" else ([y], [x], numbers(9))


def resampling(name):
    a, b = some(SIZES, 2)
    scales = [0.5, 1.0, 0.3, 2.5, 0.0, -1.0, 1e300, np.inf, -np.inf, np.nan]
    shapes = [[a, some(SIZES, 1)[0], b], [a, some(SIZES, 1)[0], b]]
    return shapes[:1], shapes[1:], [int(RANDOM.integers(2)), float(RANDOM.choice(scales))]


KERNELS = {
    **dict.fromkeys(["conv", "conv_transpose", "conv_weight"], convolution),
    **dict.fromkeys(["max_pool", "max_pool_places", "avg_pool", "avg_pool_spread"], pooling),
    **dict.fromkeys(["fold", "unfold"], folding),
    **dict.fromkeys(["resample", "resample_spread"], resampling),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", KERNELS)
def test_any_shapes_and_attributes_are_refused_or_stay_within_their_operands(name, dtype):
    accepted = refused = 0
    for _ in range(400):
        inputs, outputs, attrs = KERNELS[name](name)
        if RANDOM.random() < 0.1:  # operands that do not fit
            shape = [*inputs, *outputs][RANDOM.integers(len(inputs) + len(outputs))]
            shape[RANDOM.integers(len(shape))] = some(SIZES, 1)[0]
        types = [dtype] * len(inputs + outputs)
        if name == "max_pool_places":
            types[-1] = "int64"
        arrays = [np.zeros(s, t) for s, t in zip(inputs + outputs, types, strict=True)]
        spec = Spec()
        slots = [(spec.external(a.nbytes), a) for a in arrays]
        count = len(inputs)
        spec.step(slots[:count], slots[count:], find(name, dtype), attrs=attrs)
        try:
            plan = spec.create()
        except NativeFailure:
            refused += 1
            continue
        guarded = [np.full(a.nbytes + 128, 0x55, np.uint8) for a in arrays]
        for memory in guarded[:count]:
            memory[64:-64] = 0
        try:
            run(plan, *(memory[64:-64] for memory in guarded))
        except NativeFailure as failure:  # nothing has that much memory
            assert "no memory" in str(failure)
            continue
        for memory in guarded:
            assert (memory[:64] == 0x55).all() and (memory[-64:] == 0x55).all()
        accepted += 1
        if name != "max_pool":  # of nothing the greatest is -inf
            for memory in guarded[count : count + 1]:
                assert not memory[64:-64].any() or name == "max_pool_places"
    assert accepted > 40 and refused > 40


SHORT = {  # kernel: shapes of inputs, of outputs, attributes
    "conv": ([(2, 5, 1, 9, 9), (7, 5, 1, 3, 3)], [(2, 7, 1, 9, 9), (315,)], [*CONV, 1]),
    "conv_weight": ([(2, 5, 1, 9, 9), (2, 7, 1, 9, 9)], [(7, 5, 1, 3, 3)], [*CONV, 1]),
    "conv_transpose": ([(2, 3, 1, 9, 9), (3, 1, 1, 3, 3)], [(2, 3, 1, 9, 9), (27,)], [*CONV, 3]),
    "max_pool_places": ([(2, 1, 9, 9)], [(2, 1, 9, 9)], [1, 3, 3, *CONV[:6], 1, 1, 1, 0, 0]),
    "resample": ([(2, 9, 1)], [(2, 4, 1)], [0, 2.25]),
    "resample_spread": ([(2, 9, 1)], [(2, 4, 1)], [0, 0.5]),
}


@pytest.mark.parametrize("name", SHORT)
def test_kernels_say_that_memory_is_short(name):
    inputs, outputs, attrs = SHORT[name]
    arrays = [np.ones(shape, np.float32) for shape in (*inputs, *outputs)]
    if name == "max_pool_places":
        arrays[-1] = np.zeros(outputs[-1], np.int64)
    spec = Spec()
    slots = [(spec.external(a.nbytes), a) for a in arrays]
    count = len(inputs)
    spec.step(slots[:count], slots[count:], find(name, "float32"), attrs=attrs)
    plan, said = spec.create(), []

    def in_a_new_thread():  # it has no scratch yet
        lib.hyb_fail_allocation(1)
        try:
            run(plan, *arrays)
        except NativeFailure as failure:
            said.append(str(failure))
        finally:
            lib.hyb_fail_allocation(0)
        run(plan, *arrays)
        said.append("fine")

    thread = threading.Thread(target=in_a_new_thread, daemon=True)
    thread.start()
    thread.join()
    assert len(said) == 2 and "no memory for" in said[0] and said[1] == "fine"

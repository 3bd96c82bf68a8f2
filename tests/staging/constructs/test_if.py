"""if, elif and else: one capture holds all branches."""

# ruff: noqa: SIM108  the programs are about these forms

import hybrid as hy
from tests.staging.harness import Program, Table, draw, f32, f64, flag, i64

table = Table()
UP, DOWN = f32([1.0, 2.0, 3.0]), f32([-1.0, -2.0, 0.5])
NUMBERS = [f32(v) for v in (-2.0, -0.5, 0.0, 0.5, 2.0)]


@table.runs(UP, DOWN)
def if_else(x):
    if hy.sum(x) > 0:
        y = x * 2
    else:
        y = x - 1
    return y


@table.runs(UP, DOWN)
def if_alone(x):
    y = x + 1
    if hy.sum(x) > 0:
        y = y * x
    return y


@table.runs(UP, DOWN)
def if_writes_its_own_name(x):
    if hy.sum(x) > 0:
        x = x * 3
    return x


@table.runs(UP, DOWN)
def if_pass(x):
    if hy.sum(x) > 0:
        pass
    else:
        x = -x
    return x


@table.runs(*NUMBERS)
def elif_chain(x):
    if x < -1:
        y = x * x
    elif x < 0:
        y = x + 10
    elif x == 0:
        y = hy.ones_like(x)
    elif x < 1:
        y = hy.exp(x)
    else:
        y = hy.log(x)
    return y


@table.runs(*NUMBERS)
def elif_without_else(x):
    y = x
    if x < -1:
        y = x * x
    elif x > 1:
        y = x * 5
    return y


@table.runs(*NUMBERS, f32(-7.0))
def nested_ifs(x):
    if x > -1:
        if x > 0:
            if x > 1:
                y = x * 2
            else:
                y = x * 3
        else:
            y = x * 4
    else:
        if x < -5:
            y = x
        y = x * 6
    return y


@table.runs(*NUMBERS)
def sequence_of_ifs(x):
    y = x * 0
    if x > -1:
        y = y + 1
    if x > 0:
        y = y + x
    if x > 1:
        y = y * x
    return y


@table.runs(*[(f32(a), f32(b)) for a in (1, -1) for b in (1, -1)])
def two_conditions(x, y):
    if x > 0:
        a, b = x, y
    else:
        a, b = y, x
    if y > 0:
        a = a * b
    return a, b, [a + b]


@table.runs(UP, DOWN)
def several_names(x):
    if hy.sum(x) > 0:
        a = x + 1
        b = x + 2
        c = a * b
    else:
        c = x
        b = c * 2
        a = b * 2
    return {"a": a, "b": b, "c": c}


@table.runs(UP, DOWN)
def swap(x):
    a, b = x, x * 2
    if hy.sum(x) > 0:
        a, b = b, a
    return a, b


@table.runs((flag(True), UP), (flag(False), UP))
def on_a_bool_tensor(p, x):
    if p:
        return x * 2
    return x


@table.runs((flag([True]), UP), (flag([False]), UP))
def on_a_tensor_of_one_element(p, x):
    if p:
        return x * 2
    return x


@table.runs((i64(3), UP), (i64(0), UP))
def on_an_integer(n, x):
    if n:
        return x * n
    return x


@table.runs((f32(0.25), UP), (f32(-0.0), UP), (f32(float("nan")), UP))
def on_a_float(t, x):
    if t:
        return x * t
    return x


@table.runs(f32([1.0, 2.0]), covered=False)
def on_a_tensor_of_several_elements(x):
    if x:
        return x
    return -x


@table.runs((UP, True), (UP, False), (DOWN, True), (DOWN, False), plans=2)
def python_flag_and_traced(x, double):
    if double:
        x = x * 2
    if hy.sum(x) > 0:
        return x if double else x + 1
    return -x


@table.runs((UP, None), (DOWN, None), (UP, DOWN), (DOWN, UP), plans=2)
def is_none_stays_python(x, y):
    if y is None:
        y = hy.ones_like(x)
    if hy.sum(x) > 0:
        y = y * x
    return y


@table.runs(draw(3, 4), draw(4, 3), plans=2, covered=False)
def shapes_stay_python(x):
    if x.shape[0] == 3:
        x = x.T
    if x.ndim == 2 and x.shape == (4, 3):
        return x[:3] @ x[:3]
    raise AssertionError("never")


@table.runs(UP, DOWN)
def constants_in_branches(x):
    if hy.sum(x) > 0:
        y = hy.zeros(3)
    else:
        y = hy.ones(3)
    return y + x


@table.runs(UP, DOWN)
def untouched_in_one_branch(x):
    y = hy.ones(3)
    if hy.sum(x) > 0:
        y = x
    return y


@table.runs(UP, DOWN)
def both_branches_alike(x):
    if hy.sum(x) > 0:
        y = x * 2
    else:
        y = x * 2
    return y


@table.runs(UP, DOWN)
def result_unused(x):
    if hy.sum(x) > 0:
        y = x * 2
    else:
        y = x * 3
    del y
    return x + 1


@table.runs(UP, DOWN)
def condition_reused(x):
    p = hy.sum(x) > 0
    if p:
        y = x
    else:
        y = -x
    if p:
        return y + 1
    return y + 2


@table.runs(UP, DOWN)
def condition_inside_condition_alike(x):
    p = hy.sum(x) > 0
    y = x
    if p:
        y = y + 1
        if p:
            y = y * 2
    return y


@table.runs(UP, DOWN)
def condition_from_the_branch(x):
    p = hy.sum(x) > 0
    if p:
        p = hy.sum(x) > 100
    else:
        p = hy.sum(x) < 0
    if p:
        return x
    return x * 7


@table.runs(*NUMBERS)
def many_branches_one_name(x):
    k = x * 0
    if x > -1:
        k = k + 1
    if x > -0.25:
        k = k + 1
    if x > 0.25:
        k = k + 1
    if x > 1:
        k = k + 1
    return k


@table.runs((f64(2.0), UP), (f64(-2.0), UP))
def another_dtype_decides(p, x):
    if p > 0:
        return x
    return x * x


@table.runs((UP, DOWN), (DOWN, UP))
def matmul_in_a_branch(x, y):
    a = x[:, None] * y[None, :]
    if x[0] > 0:
        a = a @ a
    else:
        a = a.T
    return a


@table.runs(UP, DOWN)
def safe_logarithm(x):
    """The branch not taken gives zeros, not NaN."""
    s = hy.sum(x)
    if s > 0:
        return hy.log(s)
    return s * 2


@table.runs(f32(4.0), f32(-4.0))
def safe_square_root(x):
    if x > 0:
        y = hy.sqrt(x)
    else:
        y = x * 0.5
    return y * y


@table.runs(draw(2, 3) * 4, -draw(2, 3), hy.zeros((2, 3)))
def on_any_and_all(x):
    if hy.any(x > 1):
        x = x + 1
    if hy.all(x < 1):
        x = x - 1
    if (x > 0).any():
        x = x * 2
    return x


@table.runs(UP, DOWN)
def empty_branch_results(x):
    """A branch may compute nothing that is used."""
    if hy.sum(x) > 0:
        hy.exp(x)
    return x * 1


@table.runs(UP, DOWN)
def slices_in_branches(x):
    if x[0] > 0:
        y = x[1:]
    else:
        y = x[:-1]
    return y


@table.runs(UP, DOWN)
def reshaped_in_branches(x):
    if x[0] > 0:
        y = hy.reshape(x, (3, 1))
    else:
        y = x[:, None] * 2
    return y


@table.runs((UP, DOWN, UP), (DOWN, UP, UP), (DOWN, DOWN, DOWN))
def returns_in_every_branch(x, y, z):
    if hy.sum(x) > 0:
        return x * 2
    elif hy.sum(y) > 0:
        return y * 3
    else:
        return z * 4


@table.runs(UP, DOWN)
def long_body(x):
    if hy.sum(x) > 0:
        a = x + 1
        a = a * a
        a = a - x
        a = hy.tanh(a)
        b = hy.sum(a)
        a = a / b
    else:
        a = hy.sigmoid(x)
        b = hy.max(a)
        a = a - b
    return a, b


@table.runs(UP, DOWN)
def types_annotated(x):
    y: hy.Tensor
    if hy.sum(x) > 0:
        y: hy.Tensor = x * 2
    else:
        y = x
    return y


@table.runs(f32([]), covered=False)
def of_empty_tensors(x):
    if hy.sum(x) > 0:
        return x + 1
    else:
        x = x * 2
    return x


@table.runs(UP, DOWN)
def starred_targets(x):
    if x[0] > 0:
        a, *rest = x[0], x[1], x[2]
    else:
        a, *rest = x[2], x[1], x[0]
    return a, rest


@table.runs(UP, DOWN)
def random_draws_in_branches(x):
    if x[0] > 0:
        y = hy.random.uniform(size=3)
    else:
        y = hy.random.normal(size=3) + hy.random.uniform(size=3)
    return y * x, hy.random.uniform(size=2)


@table.each()
def test_same(program: Program) -> None:
    program.check()


@table.each()
def test_coverage(program: Program) -> None:
    program.check_coverage()
